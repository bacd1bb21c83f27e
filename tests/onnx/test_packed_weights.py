"""Weights of 2 and 4 bits behind DequantizeLinear: packed where a product takes them, exact everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_frontends.onnx.export import export_model

ROWS, COLUMNS = 512, 544  # of smaller ones floats are made at once
SIGNED = TensorProto.INT4
PLAIN = TensorProto.UINT4


def model(kind: int, axis: int, block: int, zeros: bool, consumer: str) -> tuple[ModelProto, Array, Array]:
    """A product with such weights, or rows of them: the model, what is fed, and the float weights."""
    rng = np.random.default_rng(axis + block + 1)
    low, high = (-8, 8) if kind == SIGNED else (0, 16)
    codes = rng.integers(low, high, (ROWS, COLUMNS))
    dims = [ROWS, COLUMNS]
    if block:
        dims[axis] //= block
    else:
        dims = [dims[axis]] if axis >= 0 else []
    scale = np.abs(rng.standard_normal(dims)).astype(np.float32) / 10
    point = rng.integers(low, high, dims) if zeros else np.zeros(dims, np.int64)

    def spread(values: Array) -> Array:
        if block:
            return np.repeat(values, block, axis)
        return values.reshape([-1 if i == axis else 1 for i in range(2)]) if axis >= 0 else values

    weights = [
        helper.make_tensor("w", kind, [ROWS, COLUMNS], codes.reshape(-1)),
        numpy_helper.from_array(scale, "s"),
        helper.make_tensor("z", kind, dims, point.reshape(-1)),
    ]
    attributes: dict[str, Any] = {"axis": max(axis, 0), **({"block_size": block} if block else {})}
    inputs = ["w", "s", "z"] if zeros else ["w", "s"]
    nodes = [helper.make_node("DequantizeLinear", inputs, ["d"], **attributes)]
    x = rng.standard_normal((3, ROWS if consumer == "MatMul" else COLUMNS)).astype(np.float32)
    if consumer == "MatMul":
        nodes.append(helper.make_node("MatMul", ["x", "d"], ["y"]))
    elif consumer == "Gemm":
        nodes.append(helper.make_node("Gemm", ["x", "d"], ["y"], transB=1))
    else:
        x = rng.integers(0, ROWS, (3,)).astype(np.int64)
        nodes.append(helper.make_node("Gather", ["d", "x"], ["y"], axis=0))
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "packed", [info], [y], weights if zeros else weights[:2])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, x, (codes - spread(point)) * spread(scale).astype(np.float64)


def expected(consumer: str, x: Array, weights: Array) -> Array:
    """What the model gives."""
    if consumer == "Gather":
        return weights[x]
    return x @ (weights if consumer == "MatMul" else weights.T)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("consumer", ["MatMul", "Gemm", "Gather"])
@pytest.mark.parametrize(("axis", "block"), [(0, 16), (1, 32), (0, 0), (1, 0), (-1, 0)])
@pytest.mark.parametrize(("kind", "zeros"), [(SIGNED, False), (SIGNED, True), (PLAIN, True)])
def test_values(kind: int, axis: int, block: int, zeros: bool, consumer: str, backend: str) -> None:
    """Blocks along either axis, scales of rows, of columns and of all, with and without zero points."""
    made, x, weights = model(kind, axis, block, zeros, consumer)
    got = glow.compile(made, backend=backend).run({"x": x})["y"]
    np.testing.assert_allclose(got, expected(consumer, x, weights), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("consumer", "axis"), [("MatMul", 0), ("Gemm", 1)])
def test_products_read_packed_weights(consumer: str, axis: int) -> None:
    """No floats are made of weights whose blocks lie along what is summed over."""
    made, _, _ = model(SIGNED, axis, 32, False, consumer)
    assert glow.compile(made).report().weight_bytes < ROWS * COLUMNS


def test_export() -> None:
    """Written back to ONNX, the weights mean the same."""
    made, x, weights = model(SIGNED, 0, 16, True, "MatMul")
    written = export_model(glow.load(made))
    got = glow.compile(written).run({"x": x})["y"]
    np.testing.assert_allclose(got, expected("MatMul", x, weights), rtol=1e-4, atol=1e-3)
