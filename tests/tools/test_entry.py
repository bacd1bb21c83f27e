"""The installed commands: every one starts, tells its version, and ends on Ctrl-C without a traceback."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import run

from glow_dialects.core.files import whole
from glow_tools import translate

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
INTERRUPTED = """
import importlib
from {module} import {function}
def stopped(name):
    raise KeyboardInterrupt
importlib.import_module = stopped
raise SystemExit({function}())
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", PROJECT["scripts"])
def test_command(command: str) -> None:
    """Each stands where pyproject.toml says, and is interrupted from its first import on."""
    module, function = PROJECT["scripts"][command].split(":")
    asked = f"import sys; sys.argv = ['{command}', '--version']"
    start = f"{asked}; from {module} import {function}; {function}()"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{command} {version('glow-compiler')}\n"), done
    code = INTERRUPTED.format(module=module, function=function)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: interrupted\n")


def test_files_are_as_readable_as_any(tmp_path: Path) -> None:
    """The weights too, whose writer makes files of its own that only their owner reads."""
    (tmp_path / "plain").touch()
    (tmp_path / "net.mlir").write_text("glow.constant @w = dense<1.0> : tensor<512xf32>")
    assert run(translate.main, tmp_path / "net.mlir", tmp_path / "out.mlir").status == 0
    with whole(tmp_path / "other") as path:
        path.unlink()
        path.touch(0o600)
    assert len({p.stat().st_mode for p in tmp_path.iterdir()}) == 1
