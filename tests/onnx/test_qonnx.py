"""Quantisers of QONNX, as Brevitas writes them, against their definition in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

DOMAIN = "qonnx.custom_op.general"
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "DOWN": np.trunc,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def _model(
    nodes: list[onnx.NodeProto], x: Array, constants: dict[str, Any], version: int = 1
) -> onnx.ModelProto:
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    known = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "q", [source], [onnx.ValueInfoProto(name="y")], known)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _quantized(
    x: Array, scale: Array, zero: float, low: int, high: int, rounding: Callable[[Array], Array] = np.round
) -> Array:
    return (rounding(np.clip(x / scale + zero, low, high)) - zero) * scale


@BACKENDS
@pytest.mark.parametrize("rounding", list(ROUNDINGS))
def test_roundings(rounding: str, backend: str) -> None:
    """Ties and numbers between, on both sides of 0."""
    x = (np.arange(-40, 41, dtype=np.float32) / 4).reshape(1, -1)
    node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain=DOMAIN, rounding_mode=rounding)
    got = glow.compile(_model([node], x, {"s": 1, "z": 0, "b": 4}), backend=backend).run({"x": x})["y"]
    np.testing.assert_array_equal(got, _quantized(x, np.float32(1), 0, -8, 7, ROUNDINGS[rounding]))


@BACKENDS
@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "zero", "limits"),
    [
        (8, 1, 0, 0, (-128, 127)),
        (8, 0, 0, 4, (0, 255)),
        (4, 1, 1, 0, (-7, 7)),
        (3, 0, 1, 1, (0, 6)),
        (2, 1, 0, 0, (-2, 1)),
        (12, 1, 0, 0, (-2048, 2047)),
    ],
)
def test_ranges(
    bits: int, signed: int, narrow: int, zero: int, limits: tuple[int, int], backend: str
) -> None:
    """Bytes and what bytes do not hold, one scale and one a channel."""
    x = np.random.default_rng(bits).standard_normal((2, 3, 20)).astype(np.float32) * 2
    for scale in (np.float32(0.25), np.array([0.125, 0.25, 0.5], np.float32).reshape(1, 3, 1)):
        form = {"signed": signed, "narrow": narrow}
        node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain=DOMAIN, **form)
        model = _model([node], x, {"s": scale, "z": zero, "b": bits})
        got = glow.compile(model, backend=backend).run({"x": x})["y"]
        np.testing.assert_array_equal(got, _quantized(x, scale, zero, *limits))


@BACKENDS
def test_bits_that_are_cut_off(backend: str) -> None:
    """Trunc of both versions, and signs."""
    x = np.random.default_rng(0).standard_normal((1, 50)).astype(np.float32)
    first = helper.make_node("Trunc", ["x", "s", "z", "b", "a"], ["y"], domain=DOMAIN)
    constants = {"s": 1 / 64, "z": 0, "b": 8, "a": 4}
    got = glow.compile(_model([first], x, constants), backend=backend).run({"x": x})["y"]
    np.testing.assert_array_equal(got, np.floor(np.round(x * 64) / 16) / 64)
    second = helper.make_node("Trunc", ["x", "s", "z", "b", "t", "a"], ["y"], domain=DOMAIN)
    got = glow.compile(_model([second], x, {**constants, "t": 1 / 4}, 2), backend=backend).run({"x": x})["y"]
    np.testing.assert_array_equal(got, np.floor(np.clip(np.round(x * 64) / 16, -8, 7)) / 4)
    sign = helper.make_node("BipolarQuant", ["x", "s"], ["y"], domain=DOMAIN)
    got = glow.compile(_model([sign], x, {"s": 0.5}), backend=backend).run({"x": x})["y"]
    np.testing.assert_array_equal(got, np.where(x >= 0, np.float32(0.5), np.float32(-0.5)))


def test_layers_run_on_integers() -> None:
    """A convolution between Quant nodes of few bits is one on stored integers, exact to the last bit."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 16, 12, 12)), rng.standard_normal((16, 16, 3, 3))
    x = x.astype(np.float32)
    nodes = [
        helper.make_node("Quant", ["x", "s", "z", "b"], ["qx"], domain=DOMAIN),
        helper.make_node("Quant", ["w", "t", "z", "b"], ["qw"], domain=DOMAIN, narrow=1),
        helper.make_node("Conv", ["qx", "qw"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Quant", ["r", "u", "z", "b"], ["y"], domain=DOMAIN, signed=0),
    ]
    scales = {"s": 0.25, "t": np.full((16, 1, 1, 1), 0.25), "u": 1.5, "z": 0, "b": 4}
    model = _model(nodes, x, {**scales, "w": w})
    module = glow.load(model)
    net, exact = (glow.compile(model, backend=b).run({"x": x})["y"] for b in ("cpu", "interpreter"))
    np.testing.assert_array_equal(net, exact)
    qx = _quantized(x, np.float32(0.25), 0, -8, 7)
    qw = _quantized(w.astype(np.float32), np.float32(0.25), 0, -7, 7)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(qx, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )
    sums = np.einsum("nchwij,ocij->nohw", windows.astype(np.float64), qw.astype(np.float64))
    np.testing.assert_array_equal(net, _quantized(np.maximum(sums, 0), np.float32(1.5), 0, 0, 15))
    assert any(op.name == "glow.dequantize" for op in module.walk())


@pytest.mark.parametrize(
    ("attributes", "bits", "message"),
    [({"rounding_mode": "SIDEWAYS"}, 8, "rounding_mode 'SIDEWAYS'"), ({}, 40, "40.0 bits")],
)
def test_what_is_refused(attributes: dict[str, Any], bits: int, message: str) -> None:
    node = helper.make_node("Quant", ["x", "s", "z", "b"], ["y"], domain=DOMAIN, **attributes)
    with pytest.raises(GlowError, match=message):
        glow.load(_model([node], np.zeros((1, 2), np.float32), {"s": 1, "z": 0, "b": bits}))
