"""Operators that ask for the types of others leave the program as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import glow_compiler as glow
from glow_dialects.core.graph_op import infer_of
from glow_dialects.core.types import tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp


def test_infer_of_leaves_no_user() -> None:
    g = glow.GraphBuilder()
    x, w = g.placeholder("x", (1, 3, 8, 8)), g.constant(np.zeros((4, 3, 3, 3), np.float32), "w")
    image, filters = (op.results[0] for op in g.function.body.block.ops)
    assert infer_of(ConvOp, image, filters, None, strides=(2, 2)) == [tensor((1, 4, 3, 3))]
    assert infer_of(ConcatOp, [image, image], axis=1) == [tensor((1, 6, 8, 8))]
    with pytest.raises(VerifyException, match="input channels"):
        infer_of(ConvOp, filters, filters, None, group=2)
    assert image.first_use is None and filters.first_use is None
    assert repr(g) == "GraphBuilder(@main: 1 inputs, 0 nodes, 0 outputs)"
    del x, w


TWO = """
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>
glow.placeholder @z output : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  glow.save %x to @y : tensor<2xf32>
}
glow.func @other {
  %x = glow.get @x : tensor<2xf32>
  glow.save %x to @z : tensor<2xf32>
}
"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_outputs_are_those_that_the_function_writes(backend: str, tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(TWO)
    net = glow.compile(tmp_path / "two.mlir", backend=backend)
    assert [s.name for s in net.outputs] == ["y"]
    out = net.run({"x": np.ones(2, np.float32)})
    assert list(out) == ["y"]
    np.testing.assert_array_equal(out["y"], [1, 1])
