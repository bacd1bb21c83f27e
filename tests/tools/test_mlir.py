"""MLIR's own parser takes the generic form of every level (the `mlir` extra: iree-base-compiler)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from commands import run

from glow_tools import opt

pytestmark = pytest.mark.slow

PLACES = (str(Path(sys.executable).parent), None)
TOOL = next((found for p in PLACES if (found := shutil.which("iree-opt", path=p))), None)
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.skipif(TOOL is None, reason="iree-opt is not installed")
@pytest.mark.parametrize("passes", ["", "optimize", "lower", "lower,instr", "cpu"])
def test_generic_form_is_mlir(passes: str) -> None:
    """ResNet50 as graph, instructions and planned instructions, parsed and verified by MLIR."""
    done = run(opt.main, LIGHT / "light_resnet50.onnx", "-p", passes, "--print-op-generic")
    assert done.status == 0, done.messages
    assert TOOL is not None
    checked = subprocess.run(
        [TOOL, "--allow-unregistered-dialect"], input=done.output, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr[:2000]
    name = "glow_instr.func" if passes and passes != "optimize" else "glow.func"
    assert f'"{name}"()' in checked.stdout
