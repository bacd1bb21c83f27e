"""Operators of com.microsoft for experts, decoders and diffusion, against onnxruntime or their formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contrib_nodes import Case, agree, model

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

RNG = np.random.default_rng(11)


def real(*dims: int) -> Array:
    """Normal float32 numbers of half a unit."""
    return (RNG.standard_normal(dims) / 2).astype(np.float32)


def whole(low: int, high: int, *dims: int, dtype: type = np.int64) -> Array:
    """Integers in [low, high)."""
    return RNG.integers(low, high, dims).astype(dtype)


def codes(*dims: int) -> Array:
    """Random bytes."""
    return whole(0, 256, *dims, dtype=np.uint8)


def scales(*dims: int) -> Array:
    """Small positive scales."""
    return (np.abs(real(*dims)) / 20).astype(np.float32)


EXPERTS, HIDDEN, INNER = 6, 32, 64
BOTH = {"k": 2, "normalize_routing_weights": 1}
SWIGLU = {
    **BOTH,
    "activation_type": "swiglu",
    "swiglu_fusion": 1,
    "activation_alpha": 1.7,
    "activation_beta": 1.0,
}


def moe(tokens: int, inner: int = INNER, fused: int = 1, biases: bool = True) -> list[Any]:
    """Inputs of MoE; experts of `inner` features."""
    b1, b2 = (real(EXPERTS, fused * inner), real(EXPERTS, HIDDEN)) if biases else (None, None)
    w1, w2 = real(EXPERTS, fused * inner, HIDDEN), real(EXPERTS, HIDDEN, inner)
    return [real(tokens, HIDDEN), real(tokens, EXPERTS) * 4, w1, b1, w2, b2]


def qmoe(bits: int, blocks: int = 1, fused: int = 1, points: bool = False, shares: bool = False) -> list[Any]:
    """Inputs of QMoE for three tokens."""
    first, second = EXPERTS, fused * INNER
    rows: tuple[int, ...] = (first, second) if blocks == 1 else (first, second, blocks)
    back: tuple[int, ...] = (first, HIDDEN) if blocks == 1 else (first, HIDDEN, 2 * blocks)
    zeros: list[Any] = [None, None]
    if points and blocks == 1:
        zeros = [codes(first, second * bits // 8), codes(first, HIDDEN * bits // 8)]
    elif points:
        zeros = [codes(first, second, blocks * bits // 8), codes(first, HIDDEN, 2 * blocks * bits // 8)]
    return [
        *(real(3, HIDDEN), real(3, EXPERTS) * 4),
        *(codes(first, second, HIDDEN * bits // 8), scales(*rows), real(first, second)),
        *(codes(first, HIDDEN, INNER * bits // 8), scales(*back), real(first, HIDDEN)),
        *(None, None, None, *zeros, None),
        np.abs(real(3, EXPERTS)) if shares else None,
    ]


PLACES = (2, 3, 4, 5)
PACKED = (2, 3, 4, 5, 6, 7, 11, 12)
COS, SIN = (f(np.arange(20)[:, None] * np.linspace(0.1, 1, 8)).astype(np.float32) for f in (np.cos, np.sin))
AXES = {"mrope_section": [2, 3, 3], "num_heads": 2}
BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 1.2, 0.4]], np.float32)
IMAGES = [real(2, 3, 7, 9), BOXES, np.array([0, 1, 1], np.int32), np.array([4, 5], np.int32)]
IDS = np.array([[1, 2, 3, 1, 2, 4, 1, 2], [5, 5, 5, 5, 5, 5, 5, 5]])

CASES = [
    Case("MoE", moe(9), {"k": 1, "activation_type": "gelu"}, PLACES, name="many"),
    Case("MoE", moe(2, 600), {"k": 2, "activation_type": "gelu"}, PLACES, name="few"),
    Case("MoE", moe(1, 600, biases=False), {**BOTH, "activation_type": "silu"}, PLACES, name="one"),
    Case("MoE", moe(3, fused=2), {**SWIGLU, "swiglu_limit": 0.7}, PLACES, name="swiglu"),
    Case("QMoE", qmoe(8), {"k": 2, "activation_type": "silu", "expert_weight_bits": 8}, PACKED, name="bytes"),
    Case("QMoE", qmoe(4, 2, 2, True), {**SWIGLU, "block_size": 16}, PACKED, name="blocks"),
    Case("QMoE", qmoe(4, points=True), {**BOTH, "activation_type": "relu"}, PACKED, name="points"),
    Case("QMoE", qmoe(4, shares=True), BOTH, PACKED, name="shares"),
    *(Case("NGramRepeatBlock", [IDS, real(2, 7)], {"ngram_size": k}, name=str(k)) for k in (1, 2, 3, 9)),
    Case("UnfoldTensor", [real(3, 7, 4)], {"dim": 1, "size": 3, "step": 2}),
    Case("MRotaryEmbedding", [real(2, 5, 32), whole(0, 20, 3, 2, 5), COS, SIN], AXES, name="sections"),
    Case(
        "MRotaryEmbedding",
        [real(2, 5, 40), whole(0, 20, 3, 2, 5), COS, SIN],
        {**AXES, "mrope_section": [4, 2, 2], "mrope_layout": 1, "interleaved": 1, "rotary_embedding_dim": 16},
        name="interleaved",
    ),
    Case("CropAndResize", IMAGES, {"mode": "bilinear", "extrapolation_value": 2.5}, weights=(3,)),
    Case("CropAndResize", IMAGES, {"mode": "nearest"}, weights=(3,), name="nearest"),
    Case(
        "CropAndResize", [*IMAGES[:3], np.array([1, 2], np.int32)], {"mode": "bilinear"}, (3,), name="middle"
    ),
    Case(
        "CausalConvWithState",
        [real(2, 6, 9), real(6, 1, 4), real(6), real(2, 6, 3)],
        {"activation": "silu"},
        outputs=2,
    ),
    Case("CausalConvWithState", [real(2, 6, 9), real(6, 1, 4)], {"dilation": 2}, outputs=2, name="dilated"),
    Case(
        "CausalConvWithState",
        [real(2, 9, 6), real(6, 1, 4), real(6), real(2, 3, 6)],
        {"channels_last": 1},
        outputs=2,
        name="last",
    ),
    Case("ScaledSiLU", [real(3, 4)], {"alpha": 1.3}),
    Case("ScaledSiLU", [real(3, 4), np.array(0.7, np.float32)], name="input"),
    Case("GatedAdd", [real(2, 3, 4), real(2, 3, 4), real(2, 3, 1)]),
    Case("GatedRMSNorm", [real(2, 3, 8), real(4), real(2, 3, 8)], {"activation": "silu"}),
    Case("GatedRMSNorm", [real(2, 3, 8), real(8), real(2, 3, 8)], {"activation": "sigmoid"}, name="sigmoid"),
    Case(
        "ConvTransposeWithDynamicPads",
        [real(1, 3, 5, 5), real(3, 4, 3, 3), np.array([1, 1, 1, 1]), real(4)],
        {"strides": [2, 2], "kernel_shape": [3, 3], "output_padding": [1, 1]},
        weights=(2,),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{c.name}" if c.name else c.op)
def test_against_onnxruntime(case: Case, backend: str) -> None:
    """One operator gives what onnxruntime gives."""
    made, feeds = model(case)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    got = glow.compile(made, backend=backend).run(feeds)
    for index, value in enumerate(session.run(None, feeds)):
        agree(np.asarray(value), got[f"y{index}"], case.tolerance)


def test_experts_that_nobody_asks_rest() -> None:
    """Large experts stay behind branches, which change with the router's scores; nothing runs on the host."""
    made, feeds = model(Case("MoE", moe(1, 600), {**BOTH, "activation_type": "silu"}, PLACES))
    net = glow.compile(made)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for first in range(EXPERTS):
        feeds["i1"] = np.roll(np.arange(EXPERTS, dtype=np.float32), first)[None]
        agree(np.asarray(session.run(None, feeds)[0]), net.run(feeds)["y0"], 1e-4)
    assert not net.report().notes.get("host")


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def normed(x: Array, scale: Array, shift: Array, groups: int) -> Array:
    """Group norm of [N, H, W, C]."""
    count, height, width, channels = x.shape
    parts = x.reshape(count, height, width, groups, channels // groups)
    mean, variance = (f(parts, (1, 2, 4), keepdims=True) for f in (np.mean, np.var))
    return ((parts - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * scale + shift


def position_gates(q: Array, b: Array, rel: Array, w: Array, c: Array, a: Array) -> Array:
    """GatedRelativePositionBias, as its documentation has it."""
    heads = (q + b).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ w + c).reshape(2, 2, 5, 2, 4).sum(-1))
    return (gates[..., :1] * (gates[..., 1:] * a - 1) + 2) * rel


def complex_of(x: Array) -> Array:
    """Pairs as numbers."""
    return x[..., 0] + 1j * x[..., 1]


def pairs_of(x: Array) -> Array:
    """Numbers as pairs."""
    return np.stack([np.real(x), np.imag(x)], -1)


Formula = Callable[..., Array]
FORMULAS: list[tuple[str, Sequence[Array], dict[str, Any], Formula]] = [
    (
        "GroupNorm",
        [real(2, 5, 5, 8), real(8), real(8)],
        {"groups": 4, "activation": 1},
        lambda x, s, b: normed(x, s, b, 4) * sigmoid(normed(x, s, b, 4)),
    ),
    (
        "GroupNorm",
        [real(2, 8, 5, 5), real(8), real(8)],
        {"groups": 2, "activation": 0, "channels_last": 0},
        lambda x, s, b: normed(x.transpose(0, 2, 3, 1), s, b, 2).transpose(0, 3, 1, 2),
    ),
    (
        "SkipGroupNorm",
        [real(2, 5, 5, 8), real(8), real(8), real(2, 8), real(8)],
        {"groups": 4, "activation": 0},
        lambda x, s, b, skip, bias: normed(x + skip[:, None, None] + bias, s, b, 4),
    ),
    (
        "GatedRelativePositionBias",
        [real(2, 5, 8), real(8), real(1, 2, 5, 5), real(4, 8), real(8), real(1, 2, 1, 1)],
        {"num_heads": 2},
        position_gates,
    ),
    (
        "MulInteger",
        [whole(-9, 9, 3, 4, dtype=np.int8), np.array(2, np.int8), whole(-9, 9, 4, dtype=np.int8)],
        {},
        lambda a, z, b: ((a.astype(np.int32) - z) * b).astype(np.int32),
    ),
    (
        "ReduceSumInteger",
        [whole(-100, 100, 3, 4, dtype=np.int8)],
        {"axes": [1], "keepdims": 0},
        lambda x: x.sum(1, dtype=np.int32),
    ),
    ("BiasDropout", [real(2, 3, 8), real(8), real(2, 3, 8)], {}, lambda x, b, r: x + b + r),
    (
        "ComplexMulConj",
        [real(3, 4, 2), real(3, 4, 2)],
        {},
        lambda a, b: pairs_of(complex_of(a) * complex_of(b).conj()),
    ),
    ("ComplexMul", [real(3, 4, 2), real(3, 4, 2)], {}, lambda a, b: pairs_of(complex_of(a) * complex_of(b))),
    ("IsAllFinite", [real(3), np.array([1, np.inf], np.float32)], {}, lambda a, b: np.array(False)),
    ("IsAllFinite", [real(3), real(2, 2)], {"isnan_only": 1}, lambda a, b: np.array(True)),
    ("TorchEmbedding", [real(5, 3), whole(0, 5, 2, 2)], {}, lambda t, i: t[i]),
    (
        "GemmaRotaryEmbedding",
        [real(2, 5, 4), *(real(2, 3, 5, 4) for _ in range(4))],
        {},
        lambda e, q, r, k, s: q * np.cos(e)[:, None] + r * np.sin(e)[:, None],
    ),
    (
        "NhwcConv",
        [real(1, 6, 6, 3), real(4, 3, 1, 1), real(4)],
        {},
        lambda x, w, b: np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]) + b,
    ),
    (
        "NhwcFusedConv",
        [real(1, 6, 6, 3), real(4, 3, 1, 1), real(4), real(1, 6, 6, 4)],
        {"activation": "Relu"},
        lambda x, w, b, z: np.maximum(np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]) + b + z, 0),
    ),
]


@pytest.mark.parametrize("number", range(len(FORMULAS)), ids=lambda i: f"{i}-{FORMULAS[i][0]}")
def test_against_formulas(number: int) -> None:
    """Operators that onnxruntime has for other processors only."""
    op, inputs, attributes, formula = FORMULAS[number]
    made, feeds = model(Case(op, list(inputs), attributes))
    if op == "MulInteger":  # its third input is the second operand
        made.graph.node[0].input[:] = ["i0", "i1", "i2"]
    agree(formula(*inputs), glow.compile(made).run(feeds)["y0"], 1e-4)


def test_weights_of_experts_must_be_known() -> None:
    """Weights of the run have no kernel: the message says what to do."""
    made, feeds = model(Case("QMoE", qmoe(4), BOTH))
    with pytest.raises(GlowError, match="QMoE.*make them initializers"):
        glow.compile(made).run(feeds)


def _caching(masked: bool = False) -> Any:
    """GroupQueryAttention of 4 heads of 16 in groups of 2 with keys and values in caches of any size.

    How much of them is taken is an input, or else told by a mask, as onnxruntime-genai has it.
    """
    node = onnx.helper.make_node(
        "GroupQueryAttention", ["q", "k", "v", "pk", "pv", "ends", "total"], ["y", "ok", "ov"],
        domain="com.microsoft", num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    shapes = {"q": ["b", "s", 64], "k": ["b", "s", 32], "v": ["b", "s", 32]}
    shapes |= {"pk": ["b", 2, "room", 16], "pv": ["b", 2, "room", 16]}
    kinds = {"ends": ["b"], "total": []}
    value = onnx.helper.make_tensor_value_info
    inputs = [value(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    inputs += [value(n, onnx.TensorProto.INT32, s) for n, s in kinds.items()]
    outputs = [value("y", onnx.TensorProto.FLOAT, ["b", "s", 64])]
    outputs += [value(n, onnx.TensorProto.FLOAT, ["b", 2, "all", 16]) for n in ("ok", "ov")]
    nodes, numbers = [node], dict[str, Array]()
    if masked:
        make, kind = onnx.helper.make_node, onnx.TensorProto.INT32
        inputs[-2:] = [value("mask", onnx.TensorProto.INT64, ["b", "t"])]
        numbers = {"one": np.array(1), "axis": np.array([1])}
        nodes = [
            make("Shape", ["mask"], ["dims"]),
            make("Gather", ["dims", "one"], ["length"]),
            make("Cast", ["length"], ["total"], to=kind),
            make("ReduceSum", ["mask", "axis"], ["taken"], keepdims=0),
            make("Sub", ["taken", "one"], ["last"]),
            make("Cast", ["last"], ["ends"], to=kind),
            node,
        ]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in numbers.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_counts_within_a_cache_decide_nothing(backend: str) -> None:
    """A prompt of samples of 5 and 3 tokens, then one token a call: one program for every count."""
    net = glow.compile(_caching(), backend)
    peer = ort.InferenceSession(_caching().SerializeToString(), providers=["CPUExecutionProvider"])
    caches = {n: np.zeros((2, 2, 12, 16), np.float32) for n in ("pk", "pv")}
    lengths, programs = np.array([5, 3], np.int32), list[Any]()
    for new in (5, 1, 1, 1, 1):
        feed = {"q": real(2, new, 64), "k": real(2, new, 32), "v": real(2, new, 32), **caches}
        feed |= {"ends": lengths - 1, "total": np.array(lengths.max(), np.int32)}
        y, keys, values = map(np.asarray, peer.run(None, feed))
        out = net.run(feed)
        used = [slice(0, n) if new > 1 else slice(None) for n in lengths]
        for i, rows in enumerate(used):  # what follows a shorter prompt is nothing
            np.testing.assert_allclose(out["y"][i, rows], y[i, rows], atol=1e-5)
            np.testing.assert_allclose(out["ok"][i, :, : lengths[i]], keys[i, :, : lengths[i]], atol=1e-6)
        caches, lengths = {"pk": keys, "pv": values}, lengths + 1
        programs.append(net.program)
    assert programs[1] is programs[2] is programs[3] is programs[4]
    feed |= {**{n: c[:, :, :6] for n, c in caches.items()}, "ends": np.array([6, 6], np.int32)}
    assert net.run({**feed, "total": np.array(7, np.int32)})["ok"].shape == (2, 2, 7, 16)  # beyond the cache


@pytest.mark.parametrize(("masked", "room"), [(True, 0), (True, 12), (False, 0)])
def test_a_mask_or_a_number_tells_how_much_of_a_cache_is_taken(masked: bool, room: int) -> None:
    """Caches that grow with each call, and caches with room for all: a program for any length."""
    net = glow.compile(_caching(masked))
    peer = ort.InferenceSession(_caching(masked).SerializeToString(), providers=["CPUExecutionProvider"])
    caches, length, programs = [np.zeros((1, 2, room, 16), np.float32)] * 2, 0, list[Any]()
    for new in (5, 1, 1, 1, 1, *(() if room else (20, 3, 2))):
        length += new
        feed = {"q": real(1, new, 64), "k": real(1, new, 32), "v": real(1, new, 32)}
        feed |= {"pk": caches[0], "pv": caches[1]}
        if masked:
            feed |= {"mask": np.ones((1, length), np.int64)}
        else:
            feed |= {"ends": np.array([length - 1], np.int32), "total": np.array(length, np.int32)}
        wanted = list(map(np.asarray, peer.run(None, feed)))
        for got, want in zip(net.run(feed).values(), wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)
        caches = wanted[1:]
        programs.append(net.program)
    assert programs[1] is programs[2] is programs[3] is programs[4]
    assert room or programs[6] is programs[7]


def _attending(kind: str) -> tuple[Any, Callable[[int, int], dict[str, Array]]]:
    """A model of one operator with a past of any length, and its inputs for new tokens behind old ones."""
    make, value, real32 = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    names = {"q": 64, "k": 32, "v": 32} if kind == "Attention" else {"q": 64, "k": 64, "v": 64}
    heads, mask = (2, ["mask"]) if kind == "Attention" else (4, [])
    inputs = [value(n, real32, ["b", "s", w]) for n, w in names.items()]
    inputs += [value(n, real32, ["b", heads, "p", 16]) for n in ("pk", "pv")]
    inputs += [value(n, real32, ["s", "t"]) for n in mask]
    outputs = [value("y", real32, None), *(value(n, real32, ["b", heads, "t", 16]) for n in ("ok", "ov"))]
    node = (
        make("Attention", [*names, *mask, "pk", "pv"], ["y", "ok", "ov"], q_num_heads=4, kv_num_heads=2)
        if kind == "Attention"
        else make("MultiHeadAttention", [*names, "", "", "", "pk", "pv"], ["y", "ok", "ov"],
                  domain="com.microsoft", num_heads=4, unidirectional=1)
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
    graph = onnx.helper.make_graph([node], "g", inputs, outputs)

    def feed(new: int, old: int) -> dict[str, Array]:
        found = {n: real(1, new, w) for n, w in names.items()}
        return found | ({"mask": real(new, old + new)} if mask else {})

    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Attention", "MultiHeadAttention"])
def test_attention_to_a_past_of_any_length(kind: str) -> None:
    """The operator of the standard, and onnxruntime's: one program once a length has changed."""
    model, feed = _attending(kind)
    net = glow.compile(model)
    peer = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    heads, length, programs = (2 if kind == "Attention" else 4), 0, list[Any]()
    past = [np.zeros((1, heads, 0, 16), np.float32)] * 2
    for new in (5, 1, 1, 2, 1):
        inputs = {**feed(new, length), "pk": past[0], "pv": past[1]}
        wanted = list(map(np.asarray, peer.run(None, inputs)))
        for got, want in zip(net.run(inputs).values(), wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)
        past, length = wanted[1:], length + new
        programs.append(net.program)
    assert programs[1] is programs[2] is programs[4]


def test_scores_of_other_experts() -> None:
    """More scores a token than there are experts: one of them would be chosen that is not there."""
    nodes = [onnx.helper.make_node("MoE", ["x", "p", "a", "", "b"], ["y"], domain="com.microsoft", k=1)]
    weights = [
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
        for name, shape in (("a", (4, 16, 8)), ("b", (4, 8, 16)))
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (3, 8)), ("p", (3, 6)), ("y", (3, 8)))
    ]
    graph = onnx.helper.make_graph(nodes, "g", ends[:2], ends[2:], weights)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(GlowError, match="6 scores per token for 4 experts"):
        glow.compile(made)
