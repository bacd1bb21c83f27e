"""Operators of com.microsoft, as onnxruntime's optimiser and quantiser write them, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import exact_peer
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contrib_nodes import Case, agree, model
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(7)


def real(*dims: int) -> Array:
    """Normal float32 numbers."""
    return RNG.standard_normal(dims).astype(np.float32)


def whole(low: int, high: int, *dims: int, dtype: type = np.uint8) -> Array:
    """Integers in [low, high)."""
    return RNG.integers(low, high, dims).astype(dtype)


def u8(*dims: int) -> Array:
    """Random bytes."""
    return whole(0, 256, *dims)


def i8(*dims: int) -> Array:
    """Random signed bytes."""
    return whole(-127, 128, *dims, dtype=np.int8)


F = np.float32
Z8 = np.array(120, np.uint8)


def scale(value: float = 0.02) -> Array:
    """A scale of rank 0."""
    return np.array(value, F)


SMALL = real(2, 5, 12)
WQKV, BQKV = real(12, 36) / 3, real(36)
QUERY, KEY, VALUE = real(2, 5, 12), real(2, 7, 12), real(2, 7, 12)
COS, SIN = (f(np.arange(16)[:, None] * np.array([1.0, 0.3], F)).astype(F) for f in (np.cos, np.sin))
COS8, SIN8 = (np.concatenate([t, t, t, t], 1) for t in (COS, SIN))
LENGTHS = np.array([4, 5], np.int32)
FLAGS = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
MASK7 = np.array([[1, 1, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]], np.int32)

CASES = [
    Case("Gelu", [SMALL]),
    Case("BiasGelu", [SMALL, real(12)]),
    Case("FastGelu", [SMALL, real(12)]),
    Case("FastGelu", [SMALL], name="no_bias"),
    Case("QuickGelu", [SMALL], {"alpha": 1.7}),
    *(
        Case(
            "FusedConv",
            [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4)],
            {"activation": kind, **({"activation_params": given} if given else {}), "pads": [1, 1, 1, 1]},
            weights=(1, 2),
            name=kind,
        )
        for kind, given in (
            ("Relu", None),
            ("Clip", [0.0, 6.0]),
            ("LeakyRelu", [0.2]),
            ("HardSigmoid", [0.3, 0.4]),
            ("Tanh", None),
        )
    ),
    Case(
        "FusedConv",
        [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4), real(1, 4, 4, 4)],
        {"activation": "Relu"},
        name="sum",
    ),
    Case("FusedGemm", [real(3, 4), real(5, 4), real(5)], {"transB": 1, "activation": "Relu", "alpha": 0.5}),
    Case("FusedMatMul", [real(2, 4, 3), real(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.25}),
    Case("FusedMatMul", [real(4, 2, 3), real(2, 3, 5)], {"transBatchA": 1}, name="batch"),
    Case("TransposeMatMul", [real(2, 3, 4), real(2, 5, 4)], {"transB": 1}),
    Case("SkipLayerNormalization", [SMALL, real(2, 5, 12), real(12), real(12), real(12)], outputs=4),
    Case("SkipLayerNormalization", [SMALL, real(2, 5, 12), real(12)], name="bare"),
    Case("SkipSimplifiedLayerNormalization", [SMALL, real(2, 5, 12), real(12), real(12)]),
    Case(
        "EmbedLayerNormalization",
        [
            whole(0, 9, 2, 5, dtype=np.int32),
            whole(0, 2, 2, 5, dtype=np.int32),
            *(real(9, 12), real(6, 12), real(2, 12), real(12), real(12)),
            FLAGS,
        ],
        outputs=2,
    ),
    Case("ExpandDims", [SMALL, np.array(-1, np.int32)], weights=(1,)),
    Case("Range", [np.array(1.0, F), np.array(7.0, F), np.array(2.0, F)], weights=(0, 1, 2)),
    Case("Trilu", [real(4, 5)], {"upper": 0}),
    Case("Pad", [real(2, 3), np.array([1, 0, 0, 2], np.int64)], {"mode": "constant"}, weights=(1,)),
    Case("GridSample", [real(1, 2, 4, 4), real(1, 3, 3, 2)], {"mode": "bilinear"}),
    Case("CDist", [real(4, 3), real(5, 3)], {"metric": "euclidean"}, tolerance=1e-3),
    Case("Inverse", [real(2, 3, 3)], tolerance=1e-3),
    Case("Unique", [np.array([3, 1, 3, 2, 1], F)], outputs=3),
    # --- attention
    Case("Attention", [SMALL, WQKV, BQKV], {"num_heads": 3}, weights=(1, 2)),
    Case("Attention", [SMALL, WQKV, BQKV, LENGTHS], {"num_heads": 3}, weights=(1,), name="lengths"),
    Case("Attention", [SMALL, WQKV, BQKV, FLAGS], {"num_heads": 3}, name="flags"),
    Case("Attention", [SMALL, WQKV, BQKV], {"num_heads": 3, "unidirectional": 1}, name="causal"),
    Case(
        "Attention",
        [SMALL, WQKV, BQKV, None, real(2, 2, 3, 4, 4)],
        {"num_heads": 3, "unidirectional": 1},
        outputs=2,
        name="past",
    ),
    Case(
        "Attention",
        [SMALL, real(12, 30) / 3, real(30), None, None, real(2, 3, 5, 5)],
        {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 6], "scale": 0.3},
        name="bias",
    ),
    Case("MultiHeadAttention", [QUERY, KEY, VALUE], {"num_heads": 3}),
    Case("MultiHeadAttention", [QUERY, KEY, VALUE, real(36)], {"num_heads": 3}, name="bias"),
    Case("MultiHeadAttention", [QUERY, KEY, VALUE, None, MASK7], {"num_heads": 3}, name="mask"),
    Case(
        "MultiHeadAttention",
        [QUERY, KEY, VALUE, None, None, real(1, 3, 5, 7)],
        {"num_heads": 3},
        name="relative",
    ),
    Case(
        "MultiHeadAttention",
        [QUERY, real(2, 5, 12), real(2, 5, 12), None, None, None, real(2, 3, 4, 4), real(2, 3, 4, 4)],
        {"num_heads": 3, "unidirectional": 1},
        outputs=3,
        name="past",
    ),
    Case("MultiHeadAttention", [QUERY, real(2, 3, 7, 4), real(2, 3, 7, 4)], {"num_heads": 3}, name="cross"),
    Case(
        "RotaryEmbedding",
        [real(2, 5, 12), np.array([3], np.int64), COS, SIN],
        {"interleaved": 0},
    ),
    Case(
        "RotaryEmbedding",
        [real(2, 3, 5, 4), whole(0, 16, 2, 5, dtype=np.int64), COS, SIN],
        {"interleaved": 1},
        name="interleaved",
    ),
    Case(
        "RotaryEmbedding",
        [real(2, 5, 18), whole(0, 16, 2, 5, dtype=np.int64), COS, SIN],
        {"rotary_embedding_dim": 4, "num_heads": 3},
        name="partial",
    ),
    Case(
        "GroupQueryAttention",
        [
            *(real(2, 5, 64), real(2, 5, 32), real(2, 5, 32), real(2, 2, 0, 16), real(2, 2, 0, 16)),
            *(np.array([4, 4], np.int32), np.array(5, np.int32), COS8, SIN8),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        weights=(6,),
        outputs=3,
        name="prompt",
    ),
    Case(
        "GroupQueryAttention",
        [
            *(real(2, 1, 64), real(2, 1, 32), real(2, 1, 32), real(2, 2, 6, 16), real(2, 2, 6, 16)),
            *(np.array([6, 6], np.int32), np.array(7, np.int32), COS8, SIN8),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1, "softcap": 2.0},
        weights=(6,),
        outputs=3,
        name="step",
    ),
    Case(
        "GroupQueryAttention",
        [
            *(real(1, 2, 128), None, None, real(1, 2, 6, 16), real(1, 2, 6, 16)),
            *(np.array([7], np.int32), np.array(8, np.int32)),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3},
        weights=(6,),
        outputs=3,
        name="packed",
    ),
    Case(
        "QAttention",
        [u8(2, 5, 12), i8(12, 36), real(36), scale(0.02), scale(0.01), None, Z8, np.array(0, np.int8)],
        {"num_heads": 3},
        weights=(1,),
        tolerance=1e-3,
    ),
    # --- quantised
    Case("QLinearAdd", [u8(3, 4), scale(), Z8, u8(4), scale(0.03), Z8, scale(0.04), Z8]),
    Case("QLinearMul", [u8(3, 4), scale(), Z8, u8(3, 4), scale(0.03), Z8, scale(0.04), Z8]),
    Case("QLinearSigmoid", [u8(3, 4), scale(), Z8, scale(1 / 256), np.array(0, np.uint8)]),
    Case("QLinearLeakyRelu", [i8(3, 4), scale(), np.array(3, np.int8), scale(), np.array(1, np.int8)]),
    Case(
        "QLinearSoftmax",
        [u8(3, 4), scale(), Z8, scale(1 / 256), np.array(0, np.uint8)],
        {"axis": 1, "opset": 13},
    ),
    Case(
        "QLinearConcat",
        [scale(), Z8, u8(2, 3), scale(0.03), Z8, u8(2, 2), scale(0.01), Z8],
        {"axis": 1},
        weights=(0, 1, 3, 4, 6, 7),
    ),
    Case(
        "QLinearWhere",
        [np.array([True, False, True]), u8(3), scale(), Z8, u8(3), scale(0.03), Z8, scale(0.04), Z8],
        weights=(2, 3, 5, 6, 7, 8),
    ),
    *(
        Case(
            "QLinearAveragePool",
            [u8(1, *dims), scale(), Z8, scale(0.03), Z8],
            {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": last},
            name=f"last{last}",
        )
        for last, dims in ((0, (3, 6, 6)), (1, (6, 6, 3)))
    ),
    Case("QLinearGlobalAveragePool", [u8(1, 6, 6, 3), scale(), Z8, scale(0.01), Z8], {"channels_last": 1}),
    Case("NhwcMaxPool", [u8(1, 6, 6, 3)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case(
        "QLinearConv",
        [u8(1, 6, 6, 3), scale(), Z8, i8(4, 3, 3, 3), scale(0.01), np.array(0, np.int8), scale(0.1), Z8],
        {"channels_last": 1},
        weights=(1, 2, 3, 4, 5, 6, 7),
    ),
    Case(
        "QGemm",
        [
            *(u8(3, 8), scale(), Z8, i8(4, 8), np.full(4, 0.01, F), np.zeros(4, np.int8)),
            *(whole(-99, 99, 4, dtype=np.int32), scale(0.2), Z8),
        ],
        {"transB": 1},
        weights=(1, 2, 3, 4, 5, 6, 7, 8),
    ),
    Case(
        "QGemm",
        [u8(3, 8), scale(), Z8, i8(8, 4), scale(0.01), np.array(0, np.int8)],
        weights=(3,),
        name="float",
    ),
    Case("MatMulIntegerToFloat", [u8(3, 8), i8(8, 4), scale(), real(4), Z8], weights=(1,)),
    Case(
        "DynamicQuantizeMatMul",
        [real(3, 8), i8(8, 4), scale(0.01), np.array(0, np.int8), real(4)],
        weights=(1,),
    ),
    Case(
        "DynamicQuantizeLSTM",
        [
            *(real(4, 1, 6), i8(1, 6, 20), i8(1, 5, 20), real(1, 40), None, real(1, 1, 5), real(1, 1, 5)),
            *(None, np.array([0.01], F), np.zeros(1, np.int8), np.array([0.01], F), np.zeros(1, np.int8)),
        ],
        {"hidden_size": 5},
        weights=(1, 2),
        outputs=3,
        tolerance=3e-2,
    ),
    *(
        Case(
            "MatMulNBits",
            [real(3, 40), u8(6, 3, 16 * bits // 8), real(6, 3) / 9, points],
            {"K": 40, "N": 6, "bits": bits, "block_size": 16},
            weights=(1, 2, 3),
            tolerance=1e-3,
            name=f"{bits}_{points is None}",
        )
        for bits, points in ((4, None), (4, u8(6, 2)), (8, None), (2, None))
    ),
    Case(
        "GatherBlockQuantized",
        [u8(9, 16), np.array([[1, 8]], np.int64), real(9, 2)],
        {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
        weights=(0, 2),
    ),
    Case(
        "GatherBlockQuantized",
        [u8(9, 32), np.array([[1, -8]], np.int64), real(9, 2), u8(9, 2)],
        {"bits": 8, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
        weights=(0, 2, 3),
        name="points",
    ),
    *(
        Case(
            "MatMulBnb4",
            [real(2, depth), u8(-(-7 * depth // 2)), real(-(-7 * depth // 16)) / 9],
            {"K": depth, "N": 7, "block_size": 16, "quant_type": kind},
            weights=(1, 2),
            name=f"{kind}_{depth}",
        )
        for kind, depth in ((0, 32), (1, 32), (1, 41))
    ),
    Case(
        "MatMulNBits",
        [real(20, 288), u8(64, 9, 16), real(64, 9) / 9, None, None, real(64)],
        {"K": 288, "N": 64, "bits": 4, "block_size": 32},
        weights=(1, 2, 5),
        tolerance=1e-3,
        name="bias",
    ),
    *(
        Case(
            "MatMulNBits",
            [real(3, 64), u8(8, 4, 2 * bits), real(8, 4) / 9, u8(8, -(-4 * bits // 8))],
            {"K": 64, "N": 8, "bits": bits, "block_size": 16},
            weights=known,
            name=f"{bits}_bits_of_the_run_but_{known}",
        )
        for bits, known in ((2, ()), (4, ()), (8, ()), (4, (1,)))
    ),
    Case("QuantizeLinear", [real(3, 4), np.full(4, 0.02, F), whole(90, 130, 4)], {"axis": 1}),
    Case("DequantizeLinear", [whole(-999, 999, 3, 4, dtype=np.int16), scale(), np.array(7, np.int16)]),
]


OF_BYTES = ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "QAttention", "QGemm", "QLinearConv")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{c.name}" if c.name else c.op)
def test_contrib(case: Case, backend: str) -> None:
    """One operator gives what onnxruntime gives."""
    if case.op in OF_BYTES and not exact_peer.is_exact():
        pytest.skip(exact_peer.SATURATES)
    made, feeds = model(case)
    session = exact_peer.session(made)
    want = session.run(None, feeds)
    got = glow.compile(made, backend=backend).run(feeds)
    for index, value in enumerate(want):
        agree(value, got[f"y{index}"], case.tolerance)


def test_normalised_queries_and_keys() -> None:
    """Each head by itself; onnxruntime has no norms on processors, it gets queries and keys with them."""
    q, k, v, past = real(2, 5, 64), real(2, 5, 32), real(2, 5, 32), real(2, 2, 0, 16)
    scales = real(16), real(16)
    heads = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    rest = [past, past, np.array([4, 4], np.int32), np.array(5, np.int32), COS8, SIN8]

    def normed(x: Array, scale: Array, epsilon: float) -> Array:
        y = x.reshape(2, 5, -1, 16)
        return (y / np.sqrt((y**2).mean(-1, keepdims=True) + epsilon) * scale).reshape(x.shape).astype(F)

    parts = [normed(q, scales[0], 0.5), normed(k, scales[1], 0.1), v]
    plain, fed = model(Case("GroupQueryAttention", [*parts, *rest], heads, weights=(6,), outputs=3))
    want = exact_peer.session(plain).run(None, fed)
    inputs = [q, k, v, *rest, *(None,) * 5, *scales]
    epsilons = heads | {"qk_norm_epsilon": 0.5, "k_norm_epsilon": 0.1}
    made, feeds = model(Case("GroupQueryAttention", inputs, epsilons, weights=(6,), outputs=3))
    got = glow.compile(made).run(feeds)
    for index, value in enumerate(want):
        agree(value, got[f"y{index}"], 1e-4)


CONV = [real(2, 6, 9), real(6, 1, 4)]
QUERIES = [real(2, 5, 64), real(2, 5, 32), real(2, 5, 32), real(2, 2, 0, 16), real(2, 2, 0, 16)]
QUERIES += [np.array([4, 4], np.int32), np.array(5, np.int32)]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("GroupQueryAttention", QUERIES, {"causal": 0}, (6,)), "causal 0 is not supported, only 1"),
        (
            Case("GroupQueryAttention", QUERIES, {"sliding_window_cache": 1}, (6,)),
            "cache 1 is not supported",
        ),
        (
            Case("GroupQueryAttention", QUERIES, {"qk_output": 1}, (6,), 4),
            "qk_output 1 is not supported",
        ),
        (Case("CausalConvWithState", CONV, {"state_length": 9}), "state_length 9 is not supported, only 0"),
        (
            Case("CausalConvWithState", CONV, {"input_channels": 3}),
            "input_channels 3 is not supported",
        ),
        (
            Case("CausalConvWithState", CONV, {"activation": "tanh"}),
            "activation 'tanh', expected one of none,",
        ),
    ],
)
def test_options_that_are_not_known(case: Case, message: str) -> None:
    """Nothing that changes results is passed over."""
    case.attributes |= {"num_heads": 4, "kv_num_heads": 2} if case.op == "GroupQueryAttention" else {}
    with pytest.raises(glow.ImportProblems, match=message):
        glow.load(model(case)[0])


def test_norms_of_the_standard_domain() -> None:
    """onnxruntime writes LayerNormalization into models older than the operator, and a simplified one."""
    nodes = [
        helper.make_node("LayerNormalization", ["x", "w", "b"], ["n"], axis=-1, epsilon=1e-5),
        helper.make_node("SimplifiedLayerNormalization", ["n", "w"], ["y"], axis=-1, epsilon=1e-5),
    ]
    kinds = (("x", (2, 5)), ("w", (5,)), ("b", (5,)))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in kinds]
    graph = helper.make_graph(nodes, "norms", infos, [onnx.ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    feeds = {n: real(*d) for n, d in kinds}
    session = exact_peer.session(made)
    agree(session.run(None, feeds)[0], glow.compile(made).run(feeds)["y"], 1e-4)


def test_images_in_blocks(tmp_path: Path) -> None:
    """What onnxruntime's last optimiser writes of a network of convolutions."""
    image, sizes = [1, 3, 14, 14], [(24, 3, 1), (24, 1, 24), (40, 24, 1), (40, 20, 2)]
    nodes, weights, x = list[onnx.NodeProto](), dict[str, Array](), "x"
    for k, (filters, inner, group) in enumerate(sizes):
        weights[f"w{k}"], weights[f"b{k}"] = real(filters, inner, 3, 3) / 4, real(filters)
        inputs = [x, f"w{k}", f"b{k}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{k}"], group=group, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node(("Relu", "HardSwish", "Sigmoid", "Relu")[k], [f"c{k}"], [f"r{k}"]))
        x = f"r{k}"
    nodes += [
        helper.make_node("MaxPool", [x], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["m", "", "twice"], ["u"], mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric"),
        helper.make_node("Add", ["u", "r2"], ["s"]),
        helper.make_node("AveragePool", ["s"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["y"]),
    ]  # fmt: skip
    weights["twice"] = np.array([1, 1, 2, 2], F)
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [onnx.ValueInfoProto(name=n) for n in ("y", "a")],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "blocks.onnx")
    options.log_severity_level = 4
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    written = onnx.load(options.optimized_model_filepath)
    assert {n.domain for n in written.graph.node} & {"com.microsoft.nchwc"}
    feeds = {"x": real(*image)}
    got = glow.compile(written).run(feeds)
    for name, want in zip(("y", "a"), session.run(None, feeds), strict=True):
        agree(np.asarray(want), got[name], 1e-4)
