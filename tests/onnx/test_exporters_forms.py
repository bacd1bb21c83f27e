"""Forms that exporters write and others do not: real biases on few bits, axes of vectors, odd zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


def model(nodes: list[NodeProto], shape: tuple[int, ...], weights: dict[str, Array]) -> onnx.ModelProto:
    """x -> y of opset 17."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "form", [x], [y], held)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def node(op: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


@BACKENDS
@pytest.mark.parametrize("layer", ["Conv", "MatMul"])
@pytest.mark.parametrize("channels", [False, True])
def test_real_biases_beside_few_bits(layer: str, channels: bool, backend: str) -> None:
    """Brevitas keeps biases real; a unit of 4-bit by 2-bit products is half of a step of the result."""
    rng = np.random.default_rng(3)
    codes = rng.integers(-1, 2, (6, 5, 1, 1) if layer == "Conv" else (5, 6)).astype(np.int8)
    scale = np.full(6, 0.19, np.float32) if channels else np.float32(0.19)
    scale *= np.linspace(1, 2, 6, dtype=np.float32) if channels else np.float32(1)
    bias = rng.uniform(-0.2, 0.2, 6).astype(np.float32)
    step, point = np.float32(0.49), np.uint8(8)
    x = rng.uniform(-3, 3, (3, 5, 4, 4) if layer == "Conv" else (7, 5)).astype(np.float32)
    constants = {"s": step, "z": point, "low": np.uint8(0), "high": np.uint8(15), "w": codes, "ws": scale}
    wide = bias.reshape(6) if layer == "Conv" else bias
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("Clip", "q low high", "c"),
        node("DequantizeLinear", "c s z", "d"),
        node("DequantizeLinear", "w ws", "dw", axis=0 if layer == "Conv" else 1),
    ]
    if layer == "Conv":
        nodes.append(node("Conv", "d dw b", "y"))
    else:
        nodes += [node("MatMul", "d dw", "p"), node("Add", "p b", "y")]
    made = model(nodes, x.shape, {**constants, "b": wide})
    real = (np.clip(np.rint(x / step) + 8, 0, 15) - 8) * np.float64(step)
    if layer == "Conv":
        w = codes[:, :, 0, 0] * np.broadcast_to(scale, 6).astype(np.float64)[:, None]
        want = np.einsum("oi,nihw->nohw", w, real) + bias.reshape(6, 1, 1)
    else:
        want = real @ (codes * np.broadcast_to(scale, 6).astype(np.float64)) + bias
    net = glow.compile(made, backend=backend)
    # Rounded to units of the products, biases would be up to 0.05 away.
    np.testing.assert_allclose(net.run({"x": x})["y"], want, atol=0.51 * 0.49 * 0.38 / 64, rtol=1e-5)


@BACKENDS
def test_scales_of_a_vector_have_one_axis(backend: str) -> None:
    """Neural Compressor says axis 1 of biases, too, as of the weights."""
    rng = np.random.default_rng(4)
    w, b = rng.integers(-127, 128, (8, 6)).astype(np.int8), rng.integers(-900, 900, 6).astype(np.int32)
    scale = np.linspace(0.01, 0.02, 6).astype(np.float32)
    step, point = np.float32(0.02), np.int8(3)
    x = rng.uniform(-2, 2, (5, 8)).astype(np.float32)
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w ws", "dw", axis=1),
        node("DequantizeLinear", "b bs bz", "db", axis=1),
        node("Gemm", "d dw db", "y"),
    ]
    zeros = np.zeros(6, np.int32)
    constants = {"s": step, "z": point, "w": w, "ws": scale, "b": b, "bs": scale * step, "bz": zeros}
    real = (np.clip(np.rint(x / step) + 3, -128, 127) - 3) * np.float64(step)
    want = real @ (w * scale.astype(np.float64)) + b * (scale.astype(np.float64) * step)
    got = glow.compile(model(nodes, x.shape, constants), backend=backend).run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_zero_points_of_blocks_that_run_on_from_row_to_row_are_refused() -> None:
    """Neural Compressor packs those of an odd number of blocks without an end of each row."""
    attributes = {"K": 96, "N": 4, "bits": 4, "block_size": 32}
    constants = {
        "w": np.zeros((4, 3, 16), np.uint8),
        "s": np.ones(12, np.float32),
        "z": np.full(6, 0x88, np.uint8),
    }
    blocks = helper.make_node(
        "MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", **attributes
    )
    message = "6 zero points of blocks where 4 rows of 2 are expected"
    with pytest.raises(glow.GlowError, match=message):
        glow.compile(model([blocks], (2, 96), constants))
