"""Weights that their declaration fills: every backend starts from the same contents."""

from __future__ import annotations

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_dialects.parse import parse_module
from glow_tools.context import tool_context

PROGRAM = """
glow.placeholder @x input : tensor<64xf32>
glow.placeholder @w trainable : tensor<64xf32>
glow.placeholder @y output : tensor<64xf32>
glow_instr.func @main declare {{
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %w = glow_instr.weight @w mutable, {init} : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
}} program {{
  glow_instr.add @out %y, @in %x, @in %w : memref<64xf32>, memref<64xf32>, memref<64xf32>
}}
"""


def result(init: str, backend: str) -> np.ndarray:
    module = parse_module(PROGRAM.format(init=init), "program", tool_context())
    module.verify()
    program = get_backend(backend).compile(module)
    return program.run({"x": np.zeros(64, np.float32)})["y"]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_broadcast(backend: str) -> None:
    """All elements are the number."""
    assert np.array_equal(result("broadcast 3.0 : f32", backend), np.full(64, 3, np.float32))


def test_xavier() -> None:
    """Uniform numbers below sqrt(3 / fan-in), the same on every backend."""
    filled = result("xavier 12.0 : f32", "cpu")
    assert np.array_equal(filled, result("xavier 12.0 : f32", "interpreter"))
    assert 0.4 < np.abs(filled).max() <= 0.5 and abs(filled.mean()) < 0.15 and len(set(filled)) == 64


@pytest.mark.parametrize("init", ["broadcast", "xavier 0.0 : f32", 'xavier "many"', "ones 1.0 : f32"])
def test_refused(init: str) -> None:
    """A declaration without a number that fits its kind."""
    with pytest.raises(Exception, match="glow_instr.weight|attribute expected|Expected"):
        result(init, "interpreter")


def test_function_attributes_stay() -> None:
    """What a user writes on a function and on an output is there after IRGen."""
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (2, 2))), "y")
    function = next(op for op in g.module.walk() if op.name == "glow.func")
    from xdsl.dialects.builtin import StringAttr

    from glow_dialects.instr.memory import instr_functions
    from glow_passes.lower.irgen import IrgenPass

    function.attributes["device"] = StringAttr("npu0")
    IrgenPass().apply(tool_context(), g.module)
    assert instr_functions(g.module)[0].attributes["device"] == StringAttr("npu0")
