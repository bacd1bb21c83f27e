"""What a type checker tells a caller: signatures of compiled functions, of `load` and of `run`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glow_compiler as glow

ROOT = Path(__file__).parents[2]
CALLER = """
from typing import assert_type

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow

@glow.jit
def scaled(x: NDArray[np.float32], by: float = 2.0) -> NDArray[np.float32]:
    return x * np.float32(by)

@glow.jit(backend="interpreter")
def half(x: float) -> float:
    return x / 2

def area(side: float) -> float:
    return side * side

x = np.ones(3, np.float32)
assert_type(scaled(x, by=3.0), NDArray[np.float32])
assert_type(half(3.0), float)
assert_type(glow.jit(area)(2.0), float)
glow.grad(area)(2.0)
value, slope = glow.value_and_grad(area)(2.0)
assert_type(value, float)
net = glow.compile("model.onnx")
net.run({"x": x})["y"].shape
net.run(None, {"x": x})[0].shape
net.run(["y"], {"x": x})[0].shape
glow.load("net.mlir").walk()
assert_type(glow.load(b"bytes of a model"), ModuleOp)

scaled("text")  # wrong
scaled(x, other=1.0)  # wrong
half()  # wrong
glow.grad(area)("text")  # wrong
net.run(None)  # wrong
net.run(["y"], {"x": x})["y"]  # wrong
glow.load("net.mlir", shape=3)  # wrong
"""


@pytest.mark.slow
def test_a_caller_is_told(tmp_path: Path) -> None:
    """What is right passes strictly, and each wrong line is an error."""
    file = tmp_path / "caller.py"
    file.write_text(CALLER)
    paths = [str(ROOT / name) for name in ("", "tools", "runtime", "backends", "passes", "frontends")]
    settings = {"typeCheckingMode": "strict", "extraPaths": paths, "reportUnusedExpression": "none"}
    quiet = ("reportUnknownMemberType", "reportUnknownVariableType", "reportMissingTypeStubs")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, **dict.fromkeys(quiet, "none")}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    wrong = {n for n, line in enumerate(CALLER.splitlines()) if "# wrong" in line}
    assert {d["range"]["start"]["line"] for d in found} == wrong, found


def test_names_of_the_package() -> None:
    """`dir` shows the public names and no others, each of which is there."""
    assert dir(glow) == sorted(glow.__all__)
    assert all(hasattr(glow, name) for name in dir(glow))
    assert not {"Any", "annotations", "api", "onnx_model"} & set(dir(glow))
