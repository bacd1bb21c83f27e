"""Convolutions on images whose number and size change: one program, as onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.open_program import OpenProgram

#: Batch, height and width: with odd ones, ones that tiles do not divide, and ones as small as a tile.
SIZES = ((1, 24, 40), (1, 33, 35), (2, 20, 24), (3, 37, 61), (2, 26, 25), (2, 14, 9), (1, 9, 6))


def _convolution(
    channels: int, filters: int, kernel: int, stride: int, pad: int, more: dict[str, Any]
) -> ModelProto:
    """relu(conv(x)), with x added before where `more` says so."""
    rng = np.random.default_rng(0)
    added = more.pop("added", False)
    shape = (filters, channels // more.get("group", 1), kernel, kernel)
    weights = {"k": rng.standard_normal(shape) / np.sqrt(shape[1]), "b": rng.standard_normal(filters)}
    window = {"pads": [pad] * 4, "strides": [stride] * 2, **more}
    nodes = [helper.make_node("Conv", ["x", "k", "b"], ["c"], **window)]
    if added:
        nodes.append(helper.make_node("Add", ["c", "x"], ["s"]))
    nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"]))
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
        for n, shape in (("x", ["n", channels, "h", "w"]), ("y", ["n", filters, None, None]))
    ]
    initializers = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


#: Name -> channels, filters, kernel, stride, padding and what else there is.
CASES: dict[str, tuple[int, int, int, int, int, dict[str, Any]]] = {
    "tiles of Winograd": (32, 32, 3, 1, 1, {}),
    "added to": (32, 32, 3, 1, 1, {"added": True}),
    "one pixel": (32, 48, 1, 1, 0, {}),
    "one pixel, added to": (32, 32, 1, 1, 0, {"added": True}),
    "every other pixel": (32, 48, 1, 2, 0, {}),
    "stride 2": (24, 40, 3, 2, 1, {}),
    "stride 3": (16, 16, 3, 3, 1, {}),
    "first of a network": (3, 32, 7, 2, 3, {}),
    "without padding": (16, 16, 3, 1, 0, {}),
    "dilated": (16, 16, 3, 1, 2, {"dilations": [2, 2]}),
    "depthwise": (32, 32, 3, 1, 1, {"group": 32}),
    "depthwise, added to": (16, 16, 5, 1, 2, {"group": 16, "added": True}),
    "depthwise, stride 2": (32, 32, 5, 2, 2, {"group": 32}),
    "groups": (32, 32, 3, 1, 1, {"group": 4}),
    "few channels": (4, 8, 3, 1, 1, {}),
    "few results": (16, 2, 3, 1, 1, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("winograd", [True, False], ids=["", "sums as they stand"])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, winograd: bool) -> None:
    *numbers, more = CASES[name]
    model = _convolution(*numbers, dict(more))  # pyright: ignore[reportArgumentType]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    net = glow.compile(model, winograd=winograd)
    rng = np.random.default_rng(1)
    for number, (batch, height, width) in enumerate(SIZES):
        x = {"x": rng.standard_normal((batch, numbers[0], height, width)).astype(np.float32)}
        (expected,) = session.run(None, x)
        np.testing.assert_allclose(net.run(x)["y"], expected, rtol=1e-4, atol=1e-4)
        assert not number or isinstance(net.program, OpenProgram)
