"""Operators of com.microsoft for packed batches, relative positions and sparse attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contrib_nodes import Case, agree, model
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(5)
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
MS = "com.microsoft"
F, I32 = TensorProto.FLOAT, TensorProto.INT32


def real(*dims: int) -> Array:
    """Normal float32 numbers."""
    return RNG.standard_normal(dims).astype(np.float32)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Any]],
    outputs: Mapping[str, int],
    **weights: Array,
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, kind, dims) for n, (kind, dims) in inputs.items()]
    outs = [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    given = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", infos, outs, given)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


# --- sparse attention
SIZE, LAYOUTS = 16, 2
#: For each layout the columns of each of four rows of blocks.
COLUMNS = [[[0], [0, 1], [1, 2], [1, 2, 3]], [[0], [0, 1], [0, 1, 2], [0, 2, 3]]]
ENDS = np.array([np.cumsum([0, *map(len, rows)]) for rows in COLUMNS], np.int32)
PLACES = np.array([sum(rows, []) + [-1] * (9 - sum(map(len, rows))) for rows in COLUMNS], np.int32)
TABLES = [f(np.arange(64)[:, None] * np.linspace(0.1, 1, 8)).astype(np.float32) for f in (np.cos, np.sin)]


def _sparse(new: int, total: int, name: str, packed: bool = False, **attributes: Any) -> Case:
    """Four heads that share two of keys, a cache of 64 places, `total` of which are used after the step."""
    batch = 1 if new == total else 2
    if packed:
        parts: list[Any] = [real(batch, new, (4 + 4) * 16), None, None]
    else:
        parts = [real(batch, new, 64), real(batch, new, 32), real(batch, new, 32)]
    lengths = np.full(batch, total, np.int32)
    tables: list[Any] = TABLES if attributes.get("do_rotary") else []
    caches = [real(batch, 2, 64, 16), real(batch, 2, 64, 16)]
    inputs = [*parts, *caches, ENDS, PLACES, np.array(total, np.int32), lengths, *tables]
    options = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": SIZE, **attributes}
    return Case("SparseAttention", inputs, options, (5, 6, 7), 3, name=name)


SPARSE = [
    _sparse(40, 40, "prompt"),
    _sparse(64, 64, "whole", do_rotary=1),
    _sparse(1, 50, "step", do_rotary=1, rotary_interleaved=1),
    _sparse(1, 33, "packed", True, scale=0.3),
]


@BACKENDS
@pytest.mark.parametrize("case", SPARSE, ids=lambda c: c.name)
def test_sparse_attention_is_onnxruntimes(case: Case, backend: str) -> None:
    made, feeds = model(case)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    total, batch = int(case.inputs[7]), case.inputs[0].shape[0]
    binding = session.io_binding()
    caches = {n: ort.OrtValue.ortvalue_from_numpy(feeds[n].copy()) for n in ("i3", "i4")}
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, caches.get(name, ort.OrtValue.ortvalue_from_numpy(array)))
    result = ort.OrtValue.ortvalue_from_shape_and_type([batch, case.inputs[0].shape[1], 64], np.float32)
    for name, value in {"y0": result, "y1": caches["i3"], "y2": caches["i4"]}.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)
    got = glow.compile(made, backend=backend).run(feeds)
    agree(result.numpy(), got["y0"], 1e-4)
    for name, cache in (("y1", caches["i3"]), ("y2", caches["i4"])):
        agree(cache.numpy()[:, :, :total], got[name][:, :, :total], 1e-5)


# --- relative positions
def _bucket(ahead: int, buckets: int, both: bool, most: int) -> int:
    """The bucket of T5 of a key that stands `ahead` places ahead."""
    first = 0
    if both:
        buckets //= 2
        first = buckets if ahead > 0 else 0
        distance = abs(ahead)
    else:
        distance = max(-ahead, 0)
    single = buckets // 2
    if distance < single:
        return first + distance
    share = math.log(distance / single) / math.log(most / single)
    return first + min(single + int(share * (buckets - single) + 1e-6), buckets - 1)


@BACKENDS
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("length", [1, 7, 150])
def test_relative_positions_of_t5(both: bool, length: int, backend: str) -> None:
    table = real(32, 4)
    attributes: dict[str, Any] = {"max_distance": 128, "is_bidirectional": int(both)}
    node = helper.make_node("RelativePositionBias", ["t", "n", "n"], ["y"], domain=MS, **attributes)
    made = _model([node], {"t": (F, [32, 4]), "n": (TensorProto.INT64, [])}, {"y": F})
    found = glow.compile(made, backend=backend).run({"t": table, "n": np.array(length)})["y"]
    assert found.shape == (1, 4, length, length)
    rows = table.reshape(4, 32)  # the table lies in memory as the kernel reads it
    for i in range(0, length, 13):
        for j in range(length):
            np.testing.assert_array_equal(found[0, :, i, j], rows[:, _bucket(j - i, 32, both, 128)])


# --- packed batches
COUNTS = np.array([1, 4, 2], np.int32)
HEADS, WIDTH = 2, 6


def _attended(q: Array, k: Array, v: Array, bias: Array | None = None) -> Array:
    """Attention of one sample, [S, W]."""
    out = np.zeros_like(v)
    for head in range(HEADS):
        at = slice(head * (WIDTH // HEADS), (head + 1) * (WIDTH // HEADS))
        scores = q[:, at] @ k[:, at].T / np.sqrt(WIDTH // HEADS)
        if bias is not None:
            scores = scores + bias[head, : len(q), : len(q)]
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[:, at] = weights / weights.sum(1, keepdims=True) @ v[:, at]
    return out


@BACKENDS
def test_padding_goes_and_comes(backend: str) -> None:
    nodes = [
        helper.make_node("RemovePadding", ["x", "c"], ["p", "o", "e", "m"], domain=MS),
        helper.make_node("RestorePadding", ["p", "o"], ["y"], domain=MS),
    ]
    inputs = {"x": (F, [3, 5, WIDTH]), "c": (I32, [3])}
    made = _model(nodes, inputs, {"p": F, "o": I32, "e": I32, "m": I32, "y": F})
    net = glow.compile(made, backend=backend)
    x = real(3, 5, WIDTH)
    for counts in (COUNTS, np.array([5, 0, 1], np.int32), np.array([5, 5, 5], np.int32)):
        found = net.run({"x": x, "c": counts})
        mask = np.arange(5) < counts[:, None]
        np.testing.assert_array_equal(found["p"], x[mask])
        stood = np.arange(15)
        order = np.concatenate([stood[mask.reshape(-1)], stood[~mask.reshape(-1)]])
        np.testing.assert_array_equal(found["o"], order.reshape(3, 5))
        np.testing.assert_array_equal(found["e"], np.cumsum([0, *counts]))
        np.testing.assert_array_equal(found["m"], [counts.max()])
        np.testing.assert_array_equal(found["y"], np.where(mask[..., None], x, 0))


@BACKENDS
@pytest.mark.parametrize("form", ["projected", "separate", "of heads"])
def test_attention_among_the_tokens_of_each_sample(form: str, backend: str) -> None:
    tokens, length = int(COUNTS.sum()), 5
    mask = (np.arange(length) < COUNTS[:, None]).reshape(-1)
    offset = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)]).reshape(3, length).astype(np.int32)
    ends = np.cumsum([0, *COUNTS]).astype(np.int32)
    bias, row = real(1, HEADS, length, length), real(3 * WIDTH)
    feed: dict[str, Array] = {"o": offset, "e": ends, "b": bias}
    weights: dict[str, Array] = {"r": row}
    if form == "projected":
        feed["x"], weights["w"] = real(tokens, 8), real(8, 3 * WIDTH)
        whole = feed["x"] @ weights["w"]
        names, op = ["x", "w", "r", "o", "e", "b"], "PackedAttention"
    else:
        op, whole = "PackedMultiHeadAttention", real(tokens, 3 * WIDTH)
        if form == "separate":
            feed |= dict(zip("qkv", (np.ascontiguousarray(p) for p in np.split(whole, 3, 1)), strict=True))
            names = ["q", "k", "v", "r", "o", "e", "b"]
        else:
            by_head = whole.reshape(tokens, 3, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
            feed["q"], names = np.ascontiguousarray(by_head), ["q", "", "", "r", "o", "e", "b"]
    inputs = {n: (I32 if n in "oe" else F, a.shape) for n, a in feed.items()}
    node = helper.make_node(op, names, ["y"], domain=MS, num_heads=HEADS)
    found = glow.compile(_model([node], inputs, {"y": F}, **weights), backend=backend).run(feed)["y"]
    q, k, v = np.split(whole + row, 3, 1)
    for start, end in zip(ends, ends[1:], strict=False):
        wanted = _attended(q[start:end], k[start:end], v[start:end], bias[0])
        np.testing.assert_allclose(found[start:end], wanted, rtol=1e-4, atol=1e-5)


def test_an_operator_that_generates_says_what_to_do_instead() -> None:
    node = helper.make_node("GreedySearch", ["x"], ["y"], domain=MS)
    with pytest.raises(glow.GlowError, match=r"GreedySearch.*its decoder, saved as a model, runs as one"):
        glow.load(_model([node], {"x": (I32, [1, 3])}, {"y": I32}))
