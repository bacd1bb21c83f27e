"""Operators on unsigned and signed weights with any zero points, against the reference of onnx."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import glow_compiler as glow

RNG = np.random.default_rng(0)
KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8, np.int32: TensorProto.INT32}


def model(op: str, x: np.ndarray, others: list[Any], result: Any, **attributes: Any) -> onnx.ModelProto:
    """One node on x; other inputs are constants, but those that are named."""
    inputs = [helper.make_tensor_value_info("x", KINDS[x.dtype.type], x.shape)]
    constants, names = [], ["x"]
    for i, value in enumerate(others):
        if isinstance(value, str):
            inputs.append(helper.make_tensor_value_info(value, KINDS[x.dtype.type], []))
            names.append(value)
        elif value is None:
            names.append("")
        else:
            constants.append(numpy_helper.from_array(np.asarray(value), f"c{i}"))
            names.append(f"c{i}")
    node = helper.make_node(op, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", KINDS[result], None)
    graph = helper.make_graph([node], "g", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def numbers(kind: Any, *shape: int) -> np.ndarray:
    """Random integers of a type's whole range."""
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def same(made: onnx.ModelProto, feeds: dict[str, np.ndarray], step: int = 0) -> None:
    """The results of kernels and of onnx's reference; `step`: where factors are rounded otherwise."""
    net = glow.compile(made)
    got = net.run(feeds)["y"].astype(np.int64)
    want = ReferenceEvaluator(made).run(None, feeds)[0].astype(np.int64)
    np.testing.assert_allclose(got, want, atol=step, rtol=0)
    assert net.report().notes["host instructions"] == 0


CONVS = {
    "padded": ((1, 5, 9, 9), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "stride": ((2, 3, 8, 7), (16, 3, 3, 3), {"strides": [2, 2], "pads": [0, 1, 1, 1]}),
    "line": ((1, 8, 20), (8, 8, 3), {"pads": [2, 2], "dilations": [2]}),
    "groups": ((1, 8, 6, 6), (8, 4, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((1, 16, 6, 6), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
    "volume": ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), {}),
}


@pytest.mark.parametrize("zero", [0, 128, 3, 250])
@pytest.mark.parametrize("name", CONVS)
def test_conv_integer(name: str, zero: int) -> None:
    """The zero point of x is an input: padding is real zeros nevertheless."""
    shape, filters, attributes = CONVS[name]
    x, w = numbers(np.uint8, *shape), numbers(np.uint8, *filters)
    made = model("ConvInteger", x, [w, "zero", np.uint8(zero)], np.int32, **attributes)
    same(made, {"x": x, "zero": np.array(77, np.uint8)})


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(("kind", "zero"), [(np.uint8, 0), (np.uint8, 128), (np.int8, 0), (np.int8, -128)])
def test_matmul_integer(rows: int, kind: Any, zero: int) -> None:
    """Weights of nine bits less their zero point, and of eight."""
    x, w = numbers(np.uint8, rows, 37), numbers(kind, 37, 21)
    made = model("MatMulInteger", x, [w, "zero", kind(zero)], np.int32)
    same(made, {"x": x, "zero": np.array(200, np.uint8)})


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("name", ["padded", "line", "groups", "depthwise"])
def test_qlinear_conv(name: str, kind: Any) -> None:
    """Weights of any zero point between conversions."""
    shape, filters, attributes = CONVS[name]
    x, w = numbers(np.uint8, *shape), numbers(kind, *filters)
    zero = kind(int(np.iinfo(kind).min) + 37)
    bias = RNG.integers(-900, 900, filters[0]).astype(np.int32)
    scales = np.float32(0.02), np.uint8(99), w, np.float32(0.01), zero, np.float32(0.9), np.uint8(120), bias
    same(model("QLinearConv", x, list(scales), np.uint8, **attributes), {"x": x}, step=1)


@pytest.mark.parametrize("rows", [1, 9])
def test_qlinear_matmul(rows: int) -> None:
    """The same of a product."""
    x, w = numbers(np.uint8, rows, 37), numbers(np.uint8, 37, 21)
    parts = [np.float32(0.02), np.uint8(99), w, np.float32(0.01), np.uint8(3), np.float32(0.9), np.uint8(120)]
    same(model("QLinearMatMul", x, parts, np.uint8), {"x": x}, step=1)


def test_importing_a_conv_integer_costs_nothing_of_the_images_size(tmp_path: Path) -> None:
    """A padded convolution of a large image, its zero point an input: no constant of the image's size."""
    x, w = np.zeros((1, 16, 600, 600), np.uint8), numbers(np.uint8, 16, 16, 3, 3)
    made = model("ConvInteger", x, [w, "zero", np.uint8(7)], np.int32, pads=[1, 1, 1, 1])
    onnx.save(made, tmp_path / "m.onnx")
    start = time.perf_counter()
    module = glow.load(tmp_path / "m.onnx")
    assert time.perf_counter() - start < 2
    glow.save(module, tmp_path / "m.mlir")
    assert sum(f.stat().st_size for f in tmp_path.glob("m.*")) < 100_000
