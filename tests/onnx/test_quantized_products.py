"""Products of stored integers as onnxruntime and GPTQ write them, against their definition in NumPy."""

from __future__ import annotations

from typing import Any

import exact_peer
import numpy as np
import onnx
import pytest
from contrib_nodes import Case, agree, model
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(11)
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
SIDES = pytest.mark.parametrize("sides", ["uint8 int8", "uint8 uint8", "int8 int8", "int8 uint8"])


def whole(dtype: str, *dims: int) -> Array:
    """Random bytes of the whole range."""
    return RNG.integers(0, 256, dims).astype(np.uint8).view(dtype)


def integer_product(a: Array, b: Array, a_zero: Array, b_zero: Array) -> Array:
    """(a - a_zero) @ (b - b_zero), exact."""
    rows = a_zero[:, None] if a_zero.size > 1 else a_zero.reshape(())
    return (a.astype(np.int64) - rows) @ (b.astype(np.int64) - b_zero.astype(np.int64))


@pytest.mark.slow
@BACKENDS
@SIDES
@pytest.mark.parametrize("known", ["nothing", "weights", "zeros", "weights and zeros"])
@pytest.mark.parametrize("zeros", ["one", "channels"])
def test_integer_product(sides: str, known: str, zeros: str, backend: str) -> None:
    """Exact, whatever is known: bytes or zero points, which may be those of rows and columns."""
    left, right = sides.split()
    a, b = whole(left, 5, 300), whole(right, 300, 21)
    many = zeros == "channels"
    a_zero, b_zero = whole(left, *[5] * many), whole(right, *[21] * many)
    nodes = [helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])]
    weights = {"b": b} if "weights" in known else {}
    weights.update({"az": a_zero, "bz": b_zero} if "zeros" in known else {})
    feeds = {n: v for n, v in {"a": a, "b": b, "az": a_zero, "bz": b_zero}.items() if n not in weights}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    result = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    given = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "g", infos, [result], given)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    got = glow.compile(made, backend=backend).run(feeds)["y"]
    np.testing.assert_array_equal(got, integer_product(a, b, a_zero, b_zero))


@BACKENDS
def test_integer_product_of_stacks_and_vectors(backend: str) -> None:
    for left, right in (((2, 1, 3, 40), (4, 40, 6)), ((40,), (40, 6)), ((3, 40), (40,)), ((40,), (40,))):
        a, b, zero = whole("uint8", *left), whole("int8", *right), np.array(77, np.uint8)
        node = helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])
        kinds = (("a", TensorProto.UINT8, left), ("b", TensorProto.INT8, right))
        infos = [helper.make_tensor_value_info(*kind) for kind in kinds]
        result = helper.make_tensor_value_info("y", TensorProto.INT32, None)
        graph = helper.make_graph([node], "g", infos, [result], [numpy_helper.from_array(zero, "z")])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        got = glow.compile(made, backend=backend).run({"a": a, "b": b})["y"]
        np.testing.assert_array_equal(got, (a.astype(np.int64) - 77) @ b.astype(np.int64))


@pytest.mark.slow
@BACKENDS
@SIDES
@pytest.mark.parametrize("known", [True, False])
def test_scaled_products(sides: str, known: bool, backend: str) -> None:
    """MatMulIntegerToFloat, QGemm with a float result and with a stored one."""
    left, right = sides.split()
    a, b, a_zero, b_zero = whole(left, 4, 90), whole(right, 90, 33), whole(left), whole(right, 33)
    a_scale, b_scale = np.array(0.02, np.float32), RNG.uniform(0.001, 0.01, 33).astype(np.float32)
    bias, terms = RNG.standard_normal(33).astype(np.float32), RNG.integers(-9999, 9999, 33).astype(np.int32)
    total = integer_product(a, b, a_zero, b_zero)
    factor = (a_scale * b_scale).astype(np.float64)

    inputs = [a, b, a_scale, b_scale, a_zero, b_zero, bias]
    made, feeds = model(Case("MatMulIntegerToFloat", inputs, weights=(1, 3, 5, 6) if known else ()))
    got = glow.compile(made, backend=backend).run(feeds)["y0"]
    agree((total * factor + bias).astype(np.float32), got, 1e-5)

    first: list[Any] = [a, a_scale, a_zero, np.ascontiguousarray(b.T), b_scale, b_zero, terms]
    real = 0.5 * (total + terms) * factor
    places = (1, 2, 3, 4, 5, 6, 7, 8) if known else ()
    made, feeds = model(Case("QGemm", first, {"transB": 1, "alpha": 0.5}, weights=places[:6]))
    agree(real.astype(np.float32), glow.compile(made, backend=backend).run(feeds)["y0"], 1e-5)

    scale, zero = np.array(np.abs(real).max() / 100, np.float32), whole(left)
    made, feeds = model(Case("QGemm", [*first, scale, zero], {"transB": 1, "alpha": 0.5}, weights=places))
    limits = np.iinfo(left)
    want = np.clip(np.rint(real / scale) + zero, limits.min, limits.max).astype(left)
    agree(want, glow.compile(made, backend=backend).run(feeds)["y0"], 0)


def unpacked(codes: Array, bits: int, depth: int) -> Array:
    """Codes [rows, depth], the first in the lowest bits."""
    shifts = np.arange(8 // bits) * bits
    return ((codes[..., None] >> shifts) & ((1 << bits) - 1)).reshape(len(codes), -1)[:, :depth]


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("points", ["none", "packed", "floats"])
@pytest.mark.parametrize("block", [16, 64, 256])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_blocks_of_any_size(bits: int, block: int, points: str, level: int) -> None:
    """What onnxruntime gives, as far as it rounds alike: its activations of level 4 are its own."""
    if bits == 8 and points == "floats":
        pytest.skip("onnxruntime has no float points of 8 bits")
    depth = 512 if level == 4 else 520  # integer kernels take whole blocks
    count = -(-depth // block)
    scales = RNG.uniform(0.01, 0.1, (24, count)).astype(np.float32)
    zeros = {
        "none": None,
        "packed": whole("uint8", 24, -(-count * bits // 8)),
        "floats": RNG.uniform(0, (1 << bits) - 1, (24, count)).astype(np.float32),
    }[points]
    case = Case(
        "MatMulNBits",
        [RNG.standard_normal((3, depth)).astype(np.float32)]
        + [whole("uint8", 24, count, block * bits // 8), scales, zeros],
        {"K": depth, "N": 24, "bits": bits, "block_size": block, "accuracy_level": level},
        weights=(1, 2, 3),
    )
    made, feeds = model(case)
    (want,) = exact_peer.session(made).run(None, feeds)
    agree(np.asarray(want), glow.compile(made).run(feeds)["y0"], 2e-2 if level == 4 else 1e-3)


def blocks(bits: int, points: bool, order: Array | None, level: int) -> tuple[onnx.ModelProto, Any, Array]:
    """MatMulNBits of 64 places in blocks of 32: the model, what is fed, the real weights [N, K]."""
    codes, scales = whole("uint8", 24, 2, 4 * bits), RNG.uniform(0.01, 0.1, (24, 2)).astype(np.float32)
    zeros = whole("uint8", 24, -(-2 * bits // 8)) if points else None
    x = RNG.standard_normal((5, 64)).astype(np.float32)
    case = Case(
        "MatMulNBits",
        [x, codes, scales, zeros, None if order is None else order.astype(np.int32)],
        {"K": 64, "N": 24, "bits": bits, "block_size": 32, "accuracy_level": level},
        weights=(1, 2, 3, 4),
    )
    place = np.arange(64) // 32 if order is None else order
    point = unpacked(zeros, bits, 2)[:, place] if zeros is not None else 1 << (bits - 1)
    made, feeds = model(case)
    real = (unpacked(codes.reshape(24, -1), bits, 64).astype(np.float64) - point) * scales[:, place]
    return made, feeds, real


@BACKENDS
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("level", [0, 4])
def test_blocks_in_the_order_of_gptq(bits: int, points: bool, level: int, backend: str) -> None:
    """Places of the reduction name their blocks; activations of level 4 have eight bits a block."""
    order = RNG.permutation(64) // 32
    for own in (None, order):
        made, feeds, real = blocks(bits, points, own, level)
        x = feeds["i0"].astype(np.float64)
        if level == 4:
            by = np.arange(64) if own is None else np.argsort(own, kind="stable")
            sorted_ = x[:, by].reshape(5, 2, 32)
            scale = np.abs(sorted_).max(-1, keepdims=True) / 127
            x[:, by] = (np.rint(sorted_ / scale) * scale).reshape(5, 64)
        agree((x @ real.T).astype(np.float32), glow.compile(made, backend=backend).run(feeds)["y0"], 1e-5)


def test_blocks_that_are_not_full_are_refused() -> None:
    made, _, _ = blocks(4, False, np.arange(64) // 40, 0)
    with pytest.raises(glow.GlowError, match="blocks that do not have 32 elements each"):
        glow.compile(made)
