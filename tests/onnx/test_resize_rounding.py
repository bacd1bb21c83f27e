"""Resize rounds as onnxruntime does: bit by bit, for bytes are stored behind it where it lies between two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import glow_compiler as glow
from benchmarks.quantized_by_onnxruntime import WAYS
from benchmarks.quantized_networks import Net, feeds
from glow_dialects.core.types import Array
from glow_tools.onnxruntime_run import onnxruntime_outputs

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
#: Shape, first of the axes that change, scales or sizes.
GRIDS = {
    "of few channels, larger": ((1, 3, 13, 18), 2, (2.0, 3.0)),
    "of few channels, smaller": ((1, 2, 21, 40), 2, (0.6, 0.7)),
    "larger one way, smaller the other": ((2, 1, 30, 7), 2, (9, 25)),
    "of vectors of channels": ((1, 40, 9, 11), 2, (1.5, 2.0)),
    "channels last, few": ((1, 9, 14, 3), 1, (2.0, 1.5)),
    "channels last, many": ((1, 9, 14, 20), 1, (5, 40)),
    "of a plane": ((17, 33), 0, (29, 50)),
    "of volumes": ((1, 2, 5, 6, 7), 2, (2.0, 2.0, 2.0)),
}


def resize(
    shape: tuple[int, ...], first: int, change: tuple[float, ...], kind: int, **attributes: Any
) -> onnx.ModelProto:
    """A model of one Resize from x to y."""
    whole = all(isinstance(c, int) for c in change)
    every = np.array(shape, np.int64) if whole else np.ones(len(shape), np.float32)
    every[first : first + len(change)] = change
    inputs = ["x", "", "", "to"] if whole else ["x", "", "to"]
    node = helper.make_node("Resize", inputs, ["y"], **attributes)
    x, y = (helper.make_tensor_value_info(n, kind, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(every, "to")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def peer(model: onnx.ModelProto, feed: dict[str, Array], plain: bool = True) -> Array:
    return onnxruntime_outputs(model.SerializeToString(), feed, plain=plain)["y"]


#: In which order three weights that are no sums of few powers of two are multiplied is not compared.
LINEAR = [(g, c) for g in GRIDS for c in COORDINATES if (g, c) != ("of volumes", "align_corners")]


@BACKENDS
@pytest.mark.parametrize(("grid", "coordinates"), LINEAR)
def test_linear(grid: str, coordinates: str, backend: str) -> None:
    shape, first, change = GRIDS[grid]
    if coordinates == "align_corners":  # of sizes: by scales onnxruntime's places are not the specified ones
        change = tuple(c if isinstance(c, int) else int(c * shape[first + i]) for i, c in enumerate(change))
    feed = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    options: Any = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    model = resize(shape, first, change, TensorProto.FLOAT, **options)
    threads = {"threads": 2} if backend == "cpu" else {}
    got = glow.compile(model, backend=backend, **threads).run(feed)["y"]
    np.testing.assert_array_equal(got, peer(model, feed))


@BACKENDS
@pytest.mark.parametrize("scale", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_linear_of_bytes(dtype: type, scale: float, backend: str) -> None:
    """Sums of float32 are truncated: one that is whole but for its last bit loses a whole."""
    rng, info = np.random.default_rng(2), np.iinfo(dtype)
    feed: dict[str, Array] = {"x": rng.integers(info.min, info.max + 1, (1, 4, 33, 48)).astype(dtype)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = resize((1, 4, 33, 48), 2, (scale, scale), kind, mode="linear")
    np.testing.assert_array_equal(glow.compile(model, backend=backend).run(feed)["y"], peer(model, feed))


@BACKENDS
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint16])
@pytest.mark.parametrize(("mode", "antialias"), [("linear", 1), ("cubic", 1), ("cubic", 0)])
def test_other_sampling_of_integers(
    mode: str, antialias: int, dtype: type, opened: bool, backend: str
) -> None:
    """Antialiased and cubic results are rounded; the reference rounds halves to even, and we up."""
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    x = rng.integers(max(info.min, -1000), min(info.max, 1000) + 1, (1, 3, 24, 20)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = resize(x.shape, 2, (0.5, 1.5), kind, mode=mode, antialias=antialias)
    model.opset_import[0].version = 19
    reference: Any = ReferenceEvaluator(model)
    want = reference.run(None, {"x": x})[0]
    if opened:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "H"
    options: Any = {"specialize": "never"} if opened else {}
    got = glow.compile(model, backend=backend, **options).run({"x": x})["y"]
    away = got.astype(np.int64) - want
    assert np.abs(away).max() <= 1
    assert (away != 0).mean() < 0.05


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", [*COORDINATES, "half_pixel_symmetric", "tf_half_pixel_for_nn"])
def test_nearest(coordinates: str, rounding: str) -> None:
    """Places between two elements, or on one, but for the last bit of float32."""
    rng = np.random.default_rng(3)
    for size in range(2, 60, 3):
        x = np.arange(size, dtype=np.float32)[None, None]
        scale = float(np.float32(rng.choice([1.2, 0.6, 0.4, 1.5, 2.5, 3])))
        for change in [(int(rng.integers(2, 150)),), *([(scale,)] * (coordinates != "align_corners"))]:
            options = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
            model = resize(x.shape, 2, change, TensorProto.FLOAT, mode="nearest", **options)
            got = glow.compile(model, backend="interpreter").run({"x": x})["y"]
            np.testing.assert_array_equal(got, peer(model, {"x": x}), err_msg=f"{size} {change}")


@BACKENDS
def test_between_two_bytes(backend: str) -> None:
    """DequantizeLinear, Resize, QuantizeLinear: averages of bytes lie halfway between two, but for noise."""
    model = resize((1, 20, 16, 16), 2, (2.0, 2.0), TensorProto.FLOAT, mode="linear")
    graph, scale, zero = model.graph, np.array(0.0371, np.float32), np.array(117, np.uint8)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in (("s", scale), ("z", zero)))
    body = graph.node[0]
    body.input[0], body.output[0] = "real", "sampled"
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
        body,
        helper.make_node("QuantizeLinear", ["sampled", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.UINT8, None) for n in "xy"]
    ends[0] = helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 20, 16, 16))
    whole = helper.make_graph(nodes, "g", ends[:1], ends[1:], list(graph.initializer))
    model = helper.make_model(whole, opset_imports=model.opset_import, ir_version=8)
    feed = {"x": np.random.default_rng(4).integers(0, 256, (1, 20, 16, 16)).astype(np.uint8)}
    got = glow.compile(model, backend=backend).run(feed)["y"]
    for plain in (True, False):
        np.testing.assert_array_equal(got, peer(model, feed, plain))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["QDQ u8s8", "QDQ u8s8 per channel"])
def test_u_net(way: str, tmp_path: Path) -> None:
    """A U-Net that grows by bilinear Resize: every byte of onnxruntime's answer."""
    n = Net(1, 3, 32, 48)
    first = n.conv("x", 3, 16)
    second = n.conv(n.pool(first), 16, 32)
    grown = n.op("Resize", second, "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear")
    y = n.conv(n.op("Concat", first, n.conv(grown, 32, 16), axis=1), 32, 16)
    onnx.save(n.model(n.conv(y, 16, 4, 1, act="Sigmoid")), tmp_path / "float.onnx")
    model = onnx.load(tmp_path / "float.onnx")
    WAYS[way](tmp_path / "float.onnx", tmp_path / "bytes.onnx", feeds(model, 4))
    session = onnxruntime.InferenceSession(tmp_path / "bytes.onnx", providers=["CPUExecutionProvider"])
    for feed in feeds(model, 3, seed=7):
        (got,) = glow.compile(tmp_path / "bytes.onnx").run(feed).values()
        np.testing.assert_array_equal(got, session.run(None, feed)[0])
