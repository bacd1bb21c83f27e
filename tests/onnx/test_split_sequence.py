"""SplitToSequence by chunks and sizes, with and without the axis that is split, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.errors import GlowError


def net(split: list[int] | int | None, keepdims: int) -> ModelProto:
    """The pieces of x [n, 4] along its first axis."""
    inputs = ["x"] if split is None else ["x", "s"]
    node = helper.make_node("SplitToSequence", inputs, ["q"], axis=0, keepdims=keepdims)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    pieces = helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, None)
    weights = [] if split is None else [numpy_helper.from_array(np.array(split), "s")]
    graph = helper.make_graph([node], "split", [x], [pieces], weights)
    versions = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("split", [None, 1, [1, 1, 1], [1, 2]], ids=str)
def test_pieces(split: list[int] | int | None, keepdims: int) -> None:
    """PyTorch writes unbind as chunks of 1 without the axis."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = net(split, keepdims)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    assert isinstance(want, list)
    got = glow.compile(made).run({"x": x})["q"]
    assert [p.shape for p in got] == [p.shape for p in want]
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_chunks_of_nothing() -> None:
    """A chunk of 0 is refused."""
    with pytest.raises(GlowError, match="chunks of 0"):
        glow.compile(net(0, 1)).run({"x": np.zeros((3, 4), np.float32)})
