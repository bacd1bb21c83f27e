"""What `make quick` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_one_case_of_each_test_that_is_not_slow(tmp_path: Path) -> None:
    """The same one each time, which is not always the first."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(9))\n"
        "def test_a(n): pass\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.slow), 2])\n"
        "def test_b(n): pass\n"
        "@pytest.mark.slow\n"
        "def test_c(): pass\n"
        "def test_d(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "--quick", "--collect-only", "-p", "conftest"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {"PYTHONPATH": str(ROOT / "tests"), "PATH": ""}
    runs = [
        subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
        for _ in range(2)
    ]
    taken, again = ([line.partition("::")[2] for line in out.splitlines() if "::" in line] for out in runs)
    assert [name.partition("[")[0] for name in taken] == ["test_a", "test_b", "test_d"], runs
    assert taken == again and taken[0] != "test_a[0]" and taken[1] == "test_b[2]"
