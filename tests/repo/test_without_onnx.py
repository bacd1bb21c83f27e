"""Only the ONNX door needs the package `onnx`: everything else runs where it is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = """
import sys
sys.modules["onnx"] = None  # as where it is not installed
import numpy as np
import glow_compiler as glow
from glow_dialects.core.errors import GlowError
x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
"""
BUILDER = """
g = glow.GraphBuilder()
g.save(g.tanh(g.placeholder("x", ("n", 3))) * 2, "y")
np.testing.assert_allclose(glow.compile(g).run({"x": x})["y"], np.tanh(x) * 2, rtol=1e-5)
trained = glow.GraphBuilder()
w = trained.trainable(np.zeros((3, 1), np.float32), "w")
trained.save(trained.placeholder("x", (2, 3)) @ w, "y")
glow.Trainer(trained, "mse").step({"x": x}, np.ones((2, 1), np.float32))
net = glow.compile(glow.quantize(trained, [{"x": x}]))
assert net.run({"x": x})["y"].shape == (2, 1)
"""
FUNCTION = """
@glow.jit
def f(x, y):
    return np.exp(x).sum() + y
assert abs(f(x, 2.0) - (np.exp(x).sum() + 2)) < 1e-4
assert glow.grad(lambda v: v * v)(3.0) == 6.0
"""
STABLEHLO = """
text = '''
"func.func"() <{function_type = (tensor<2x3xf32>) -> tensor<2x3xf32>, sym_name = "main"}> ({
^bb0(%x: tensor<2x3xf32>):
  %y = "stablehlo.add"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  "func.return"(%y) : (tensor<2x3xf32>) -> ()
}) : () -> ()
'''
open("p.mlir", "w").write(text)
(y,) = glow.compile("p.mlir").run({"arg0": x}).values()
np.testing.assert_array_equal(y, x + x)
"""
TORCH = """
import torch
m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()).eval()
net = glow.compile(m, (torch.from_numpy(x),))
(y,) = net.run({net.inputs[0].name: x}).values()
np.testing.assert_allclose(y, m(torch.from_numpy(x)).detach().numpy(), atol=1e-5)
assert glow.load(torch.export.export(m, (torch.from_numpy(x),))) is not None
"""
LANGUAGE = """
assert len(list(glow.LanguageModel(".").generate([3, 5, 7], 2))) == 2
"""
DOOR = """
open("m.onnx", "wb").write(b"bytes")
g = glow.GraphBuilder()
for call in (lambda: glow.compile("m.onnx"), lambda: glow.load(b"bytes"), lambda: glow.save(g, "m.onnx")):
    try:
        call()
    except GlowError as error:
        assert "pip install onnx" in str(error) and "\\n" not in str(error), error
    else:
        raise AssertionError("onnx is there")
"""


def run(tmp_path: Path, code: str) -> None:
    """Run a program where no onnx can be imported."""
    (tmp_path / "program.py").write_text(HIDDEN + code)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", [BUILDER, FUNCTION, STABLEHLO], ids=["builder", "function", "stablehlo"])
def test_it_runs_without_onnx(tmp_path: Path, code: str) -> None:
    """Graphs of the builder (trained and quantised, too), functions, StableHLO texts."""
    run(tmp_path, code)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_pytorch_module_runs_without_onnx(tmp_path: Path) -> None:
    """As such and as a program of torch.export."""
    run(tmp_path, TORCH)


@pytest.mark.slow
@pytest.mark.peers
def test_a_language_model_runs_without_onnx(tmp_path: Path) -> None:
    """A folder of Hugging Face's."""
    pytest.importorskip("transformers")
    from language_models import written

    written(tmp_path, "llama")
    run(tmp_path, LANGUAGE)


@pytest.mark.slow
def test_the_onnx_door_says_what_to_install(tmp_path: Path) -> None:
    """In one line, whichever way a model goes through it."""
    run(tmp_path, DOOR)
