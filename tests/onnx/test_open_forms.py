"""What exporters write for sizes that the run tells: one program serves many, by NumPy or onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(0)


def _model(nodes: list[Any], dims: dict[str, list[Any]], weights: dict[str, Array]) -> ModelProto:
    """A model of float inputs with an output y."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in dims.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _programs(model: ModelProto, feeds: list[dict[str, Array]], want: Callable[..., Array]) -> int:
    """How many programs serve all feeds, whose answers are those of `want`."""
    net = glow.compile(model, specialize="never")
    programs: list[Any] = []
    for feed in feeds:
        np.testing.assert_allclose(net.run(feed)["y"], want(**feed), rtol=1e-4, atol=1e-5)
        if all(p is not net.program for p in programs):
            programs.append(net.program)
    assert "not any" not in str(net.report().notes.get("sizes"))
    return len(programs)


def test_counting_down() -> None:
    """Range with a negative step, from a length less one down to 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("Squeeze", ["length"], ["count"]),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Range", ["last", "minus", "minus"], ["down"]),
        helper.make_node("Gather", ["x", "down"], ["y"], axis=1),
    ]
    weights = {"one": np.array(1), "minus": np.array(-1)}
    feeds = [{"x": RNG.standard_normal((2, n)).astype(np.float32)} for n in (3, 7, 40, 129)]
    assert _programs(_model(nodes, {"x": [2, "n"]}, weights), feeds, lambda x: x[:, ::-1]) == 1


def test_heads_that_are_repeated_for_any_batch() -> None:
    """Expand to a shape that holds four heads beside a batch of less and of more."""
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["length"], start=2, end=3),
        helper.make_node("Concat", ["batch", "heads", "length"], ["wanted"], axis=0),
        helper.make_node("Expand", ["x", "wanted"], ["wide"]),
        helper.make_node("Mul", ["wide", "factor"], ["y"]),
    ]
    weights = {"heads": np.array([4]), "factor": np.arange(4, dtype=np.float32).reshape(4, 1)}
    feeds = [{"x": RNG.standard_normal((b, 1, 9)).astype(np.float32)} for b in (2, 3, 5, 8)]
    model = _model(nodes, {"x": ["b", 1, "n"]}, weights)
    assert _programs(model, feeds, lambda x: np.repeat(x, 4, 1) * weights["factor"]) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_short_rows_of_any_number(threads: int) -> None:
    """Rows of four numbers lie behind each other in vectors, the last of which are partly filled."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["y"]),
    ]
    shift = np.arange(4, dtype=np.float32)
    model = _model(nodes, {"x": ["n", 4], "scale": ["n", 1]}, {"shift": shift})
    net = glow.compile(model, specialize="never", threads=threads)
    served: dict[int, Any] = {}
    for n in (33, *range(64, 84), 200, 201):
        x, scale = (RNG.standard_normal((n, k)).astype(np.float32) for k in (4, 1))
        np.testing.assert_allclose(
            net.run({"x": x, "scale": scale})["y"], x * scale + shift, rtol=1e-5, atol=1e-6
        )
        served[id(net.program)] = net.program
    assert len(served) == 1


def test_convolutions_of_few_channels_on_any_width() -> None:
    """Blocks of pixels are for a least width, not for a range of widths."""
    weights = {"w": RNG.standard_normal((3, 3, 5, 5)).astype(np.float32) / 8}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[2] * 4)]
    model = _model(nodes, {"x": ["b", 3, "h", "w_"]}, weights)
    session = ort.InferenceSession(model.SerializeToString())
    sizes = ((20, 300), (31, 207), (64, 555), (40, 160), (33, 129))
    feeds = [{"x": RNG.standard_normal((1, 3, *size)).astype(np.float32)} for size in sizes]
    assert _programs(model, feeds, lambda x: np.asarray(session.run(None, {"x": x})[0])) == 1


def test_pads_in_the_order_of_pytorch() -> None:
    """Pads of an open size, reversed through a matrix of two columns as PyTorch's exporter writes them."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("Mod", ["length", "four"], ["over"]),
        helper.make_node("Sub", ["four", "over"], ["under"]),
        helper.make_node("Concat", ["zero", "under", "zero", "zero"], ["last_first"], axis=0),
        helper.make_node("Reshape", ["last_first", "pairs"], ["rows"]),
        helper.make_node("Slice", ["rows", "end", "begin", "zero", "back"], ["reversed"]),
        helper.make_node("Transpose", ["reversed"], ["columns"], perm=[1, 0]),
        helper.make_node("Reshape", ["columns", "flat"], ["pads"]),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    known = {
        "four": [4],
        "zero": [0],
        "pairs": [-1, 2],
        "end": [-1],
        "begin": [-9],
        "back": [-1],
        "flat": [-1],
    }
    weights = {name: np.array(numbers) for name, numbers in known.items()}
    feeds = [{"x": RNG.standard_normal((2, n)).astype(np.float32)} for n in (3, 5, 8, 42, 43)]
    model = _model(nodes, {"x": [2, "n"]}, weights)
    assert _programs(model, feeds, lambda x: np.pad(x, ((0, 0), (0, 4 - x.shape[1] % 4)))) == 1


@pytest.mark.parametrize(("rounding", "number"), [("Floor", 3.0), ("Ceil", 3.0), ("Floor", 2.5), ("", 0.5)])
def test_lengths_computed_in_floats(rounding: str, number: float) -> None:
    """(n - 1) / number + 1, or times it, rounded to the length of a part as audio models do."""
    kind = "Mul" if number < 1 else "Div"
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Sub", ["shape", "one"], ["less"]),
        helper.make_node("Cast", ["less"], ["float"], to=TensorProto.FLOAT),
        helper.make_node(kind, ["float", "number"], ["ratio"]),
        helper.make_node("Add", ["ratio", "unit"], ["sum"]),
        *([helper.make_node(rounding, ["sum"], ["rounded"])] if rounding else []),
        helper.make_node("Cast", ["rounded" if rounding else "sum"], ["stop"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "stop"], ["y"]),
    ]
    numbers = {"number": np.float32(number), "unit": np.float32(1)}
    weights = {**numbers, "one": np.array([1]), "zero": np.array([0])}
    feeds = [{"x": RNG.standard_normal(n).astype(np.float32)} for n in (3, 4, 5, 6, 7, 40, 41, 42)]
    round_ = {"Floor": np.floor, "Ceil": np.ceil, "": np.trunc}[rounding]

    def want(x: Array) -> Array:
        ratio = (len(x) - 1) * number if number < 1 else (len(x) - 1) / number
        return x[: int(round_(ratio + 1))]

    assert _programs(_model(nodes, {"x": ["n"]}, weights), feeds, want) <= 2  # short ones may be apart


def test_factors_of_many_bits_are_computed_as_they_round() -> None:
    """10 x 0.7 is 7 in f32, though the f32 next to 0.7 is less: such products decide for each size."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["float", "factor"], ["product"]),
        helper.make_node("Cast", ["product"], ["stop"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "stop"], ["y"]),
    ]
    net = glow.compile(_model(nodes, {"x": ["n"]}, {"factor": np.float32(0.7), "zero": np.array([0])}))
    for n in (7, 10, 20, 30):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(net.run({"x": x})["y"], x[: int(np.float32(n) * np.float32(0.7))])


def test_quotients_by_vectors_of_one_number() -> None:
    """A size that is divided by three equal numbers is three sizes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Squeeze", ["shape"], ["length"]),
        helper.make_node("Cast", ["length"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["float", "twos"], ["halves"]),
        helper.make_node("Floor", ["halves"], ["whole"]),
        helper.make_node("Concat", ["whole", "whole"], ["six"], axis=0),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Add", ["six", "total"], ["y"]),
    ]
    feeds = [{"x": np.zeros(n, np.float32)} for n in (9, 100, 251)]
    model = _model(nodes, {"x": ["n"]}, {"twos": np.full(3, 2, np.float32)})
    assert _programs(model, feeds, lambda x: np.full(6, len(x) // 2, np.float32)) <= 2


@pytest.mark.parametrize(
    ("channels", "taps", "pads", "dilation", "group"),
    [(32, 7, (27, 27), 9, 1), (32, 31, (30, 0), 1, 32), (1, 25, (12, 12), 1, 1), (64, 32, (16, 15), 1, 4)],
)
def test_long_filters_over_the_ends_of_rows(
    channels: int, taps: int, pads: tuple[int, int], dilation: int, group: int
) -> None:
    """Of a signal of any length much of whose filters is outside at both ends."""
    filters = RNG.standard_normal((32 if channels < 32 else channels, channels // group, taps)) / taps
    window = {"pads": pads, "dilations": [dilation], "group": group}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], **window)]
    model = _model(nodes, {"x": ["b", channels, "n"]}, {"w": filters.astype(np.float32)})
    session = ort.InferenceSession(model.SerializeToString())
    feeds = [{"x": RNG.standard_normal((1, channels, n)).astype(np.float32)} for n in (60, 61, 100, 187)]
    assert _programs(model, feeds, lambda x: np.asarray(session.run(None, {"x": x})[0])) == 1


#: Nodes that make a shape `t` of the sizes `s` of `x`, and their weights.
SHAPES_BY_INDICES: dict[str, tuple[list[Any], dict[str, Array]]] = {
    "ScatterND": (
        [helper.make_node("ScatterND", ["s", "places", "new"], ["t"])],
        {"places": np.array([[-2]]), "new": np.array([-1])},
    ),
    "ScatterElements": (
        [helper.make_node("ScatterElements", ["s", "places", "new"], ["t"])],
        {"places": np.array([2, -3]), "new": np.array([3, -1])},
    ),
    "GatherND": (
        [
            helper.make_node("GatherND", ["s", "places"], ["turned"]),
            helper.make_node("Concat", ["turned", "new"], ["t"], axis=0),
        ],
        {"places": np.array([[1], [0]]), "new": np.array([-1])},
    ),
}


@pytest.mark.parametrize("kind", SHAPES_BY_INDICES)
def test_shapes_by_indices(kind: str) -> None:
    """Sizes of a shape that are replaced, or taken in another order, by tuples of indices."""
    nodes, weights = SHAPES_BY_INDICES[kind]
    around = [
        helper.make_node("Shape", ["x"], ["s"]),
        *nodes,
        helper.make_node("Reshape", ["x", "t"], ["shaped"]),
        helper.make_node("Relu", ["shaped"], ["y"]),
    ]
    model = _model(around, {"x": ["b", "n", 3]}, weights)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def wanted(x: Array) -> Array:
        (y,) = session.run(None, {"x": x})
        return np.asarray(y)

    feeds = [
        {"x": RNG.standard_normal((b, n, 3)).astype(np.float32)} for b, n in ((2, 6), (3, 8), (5, 12), (4, 9))
    ]
    assert _programs(model, feeds, wanted) == 1
    _programs(model, [{"x": RNG.standard_normal((1, n, 3)).astype(np.float32)} for n in (1, 4)], wanted)


@pytest.mark.parametrize(("kind", "new"), [("ScatterND", [4, 5]), ("ScatterElements", [4])])
def test_other_numbers_than_places_are_refused(kind: str, new: list[int]) -> None:
    """One new size for two places, or two for one: an error of the node, for open sizes, too."""
    nodes, weights = SHAPES_BY_INDICES[kind]
    around = [
        helper.make_node("Shape", ["x"], ["s"]),
        *nodes,
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    model = _model(around, {"x": ["b", "n", 3]}, weights | {"new": np.array(new)})
    with pytest.raises(glow.GlowError, match="updates"):
        glow.compile(model, specialize="never").run({"x": np.zeros((2, 6, 3), np.float32)})


@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot_of_an_open_depth(axis: int) -> None:
    """As many places as a row has elements; negative indices count from their end."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("OneHot", ["places", "length", "pair"], ["hot"], axis=axis),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Mul", ["hot", "total"], ["y"]),
    ]
    weights = {"places": np.array([1, -1, 2, -3]), "pair": np.array([0, 3], np.float32)}
    feeds = [{"x": RNG.standard_normal((2, n)).astype(np.float32)} for n in (3, 6, 8, 40)]

    def wanted(x: Array) -> Array:
        hot = 3 * np.eye(x.shape[1], dtype=np.float32)[weights["places"]] * x.sum()
        return hot if axis else hot.T

    assert _programs(_model(nodes, {"x": [2, "n"]}, weights), feeds, wanted) <= 2  # rows of four may be apart
