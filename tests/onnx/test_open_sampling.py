"""Operators that sample, transform or scan tensors of any size: one program, as onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow

Dims = tuple[int | str, ...]
Shapes = dict[str, Dims]
Run = Callable[[dict[str, np.ndarray]], np.ndarray]


def _model(
    nodes: list[Any], inputs: Shapes, weights: dict[str, np.ndarray] | None = None, opset: int = 20
) -> ModelProto:
    """From float inputs to y."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", ports, [out], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _onnxruntime(model: ModelProto) -> Run:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda x: np.asarray(session.run(["y"], x)[0])


def _one_program(
    model: ModelProto, sizes: list[dict[str, int]], shapes: Shapes, peer: Run | None = None
) -> None:
    """The model is as a peer or onnxruntime has it for all sizes of its open dimensions, by one program for
    all but 1, which broadcasts."""
    peer = peer or _onnxruntime(model)
    net, programs = glow.compile(model, specialize="never"), set[int]()
    rng = np.random.default_rng(0)
    for known in sizes:
        x = {
            n: rng.standard_normal([known[d] if isinstance(d, str) else d for d in s]).astype(np.float32)
            for n, s in shapes.items()
        }
        found, expected = net.run(x)["y"], peer(x)
        assert found.shape == expected.shape, known
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5, err_msg=str(known))
        programs.add(id(net.program))
        assert net.report().notes["sizes"].startswith("any"), net.report().notes["sizes"]
    assert len(programs) == len({tuple(size == 1 for size in known.values()) for known in sizes})


IMAGES = [
    {"n": 2, "h": 9, "w": 12, "a": 5, "b": 6},
    {"n": 3, "h": 21, "w": 8, "a": 17, "b": 3},
    {"n": 1, "h": 2, "w": 40, "a": 1, "b": 9},
    {"n": 1, "h": 64, "w": 64, "a": 30, "b": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids_over_images_of_any_size(mode: str, padding: str, aligned: int) -> None:
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=aligned
    )
    shapes: Shapes = {"x": ("n", 3, "h", "w"), "grid": ("n", "a", "b", 2)}
    _one_program(_model([node], shapes), IMAGES, shapes)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2])
def test_deformable_convolutions_of_any_size(stride: int) -> None:
    weights = {"w": np.random.default_rng(1).standard_normal((6, 4, 3, 3)).astype(np.float32) / 6}
    node = helper.make_node(
        "DeformConv", ["x", "w", "move"], ["y"], pads=[1] * 4, strides=[stride] * 2, offset_group=2
    )
    shapes: Shapes = {"x": ("n", 4, "h", "w"), "move": ("n", 36, "a", "b")}
    sizes = [{**k, "a": -(-k["h"] // stride), "b": -(-k["w"] // stride)} for k in IMAGES]
    _one_program(_model([node], shapes, weights, 19), sizes, shapes)


#: Name -> attributes of Resize, and its scales or sizes.
RESIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cubic to sizes": ({"mode": "cubic"}, {"sizes": [1, 3, 7, 16]}),
    "cubic by corners": (
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        {"sizes": [1, 3, 7, 16]},
    ),
    "cubic without what is outside": (
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        {"scales": [1, 1, 2, 0.8]},
    ),
    "cubic, smoothed": ({"mode": "cubic", "antialias": 1}, {"scales": [1, 1, 0.5, 0.65]}),
    "linear, smoothed": ({"antialias": 1, "mode": "linear"}, {"scales": [1, 1, 0.4, 2]}),
    "linear about the middle": (
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
        {"scales": [1, 1, 1.3, 0.7]},
    ),
    "nearest of TensorFlow": (
        {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"},
        {"scales": [1, 1, 1.3, 0.7]},
    ),
    "a region": (
        {
            "mode": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 2.0,
        },
        {"roi": [0, 0, 0.3, -0.2, 1, 1, 0.8, 1.1], "sizes": [1, 3, 7, 16]},
    ),
    "not larger": (
        {"mode": "linear", "keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]},
        {"sizes": [14, 17]},
    ),
    "not smaller": (
        {"keep_aspect_ratio_policy": "not_smaller", "axes": [2, 3], "nearest_mode": "floor"},
        {"sizes": [14, 17]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RESIZES)
def test_resizes_of_images_of_any_size(name: str) -> None:
    attributes, numbers = RESIZES[name]
    weights = {n: np.array(v, np.int64 if n == "sizes" else np.float32) for n, v in numbers.items()}
    node = helper.make_node(
        "Resize", ["x", *(n if n in weights else "" for n in ("roi", "scales", "sizes"))], ["y"], **attributes
    )
    shapes: Shapes = {"x": (1, 3, "h", "w")}
    ratio = "keep_aspect_ratio_policy" in attributes  # decides by whether the one or the other axis fits
    last = (8, 33) if ratio else (1, 33)
    sizes = [{"h": h, "w": w} for h, w in ((9, 15), (21, 36), (5, 10), (64, 90), last)]
    _one_program(_model([node], shapes, weights, 19), sizes, shapes)


#: Name -> shape of the signal, the length asked for, and attributes of DFT.
TRANSFORMS: dict[str, tuple[Dims, int | None, dict[str, Any]]] = {
    "real": (("b", "n", 1), None, {}),
    "half": (("b", "n", 1), None, {"onesided": 1}),
    "complex": (("b", "n", 2), None, {}),
    "back": (("b", "n", 2), None, {"inverse": 1}),
    "cut or padded": (("b", "n", 2), 24, {}),
    "of many places": (("b", "n", 1), 514, {"onesided": 1}),
    "along the first": (("n", "b", 2), None, {"axis": 0}),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_fourier_transforms_of_any_length(name: str) -> None:
    shape, length, attributes = TRANSFORMS[name]
    axis = attributes.pop("axis", 1)
    weights = {"axis": np.array(axis), **({} if length is None else {"length": np.array(length)})}
    node = helper.make_node("DFT", ["x", "" if length is None else "length", "axis"], ["y"], **attributes)
    shapes: Shapes = {"x": shape}
    sizes = [{"b": 5, "n": 19}, {"b": 3, "n": 24}, {"b": 9, "n": 31}, {"b": 4, "n": 21}]
    sizes += [{"b": 3, "n": 240}] if length is None else []

    def transform(x: dict[str, np.ndarray]) -> np.ndarray:
        signal = x["x"][..., 0] + (1j * x["x"][..., 1] if shape[2] == 2 else 0)
        bins = (np.fft.ifft if "inverse" in attributes else np.fft.fft)(signal, length, axis)
        bins = bins[:, : bins.shape[1] // 2 + 1] if "onesided" in attributes else bins
        return np.stack((bins.real, bins.imag), -1)

    _one_program(_model([node], shapes, weights), sizes, shapes, transform)


def test_tall_and_wide_images_share_a_program() -> None:
    """A window as large as the image asks nothing of which of its sizes is the larger one."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    shapes: Shapes = {"x": (1, 3, "h", "w")}
    sizes = [{"h": h, "w": w} for h, w in ((20, 25), (25, 20), (18, 31))]
    _one_program(_model(nodes, shapes), sizes, shapes)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_ratios_of_images_of_one_width(policy: str) -> None:
    """The axis of a known size has the ratio of the other one, and the other way round."""
    weights = {"sizes": np.array([7, 18])}
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], axes=[2, 3], keep_aspect_ratio_policy=policy,
        mode="linear",
    )  # fmt: skip
    shapes: Shapes = {"x": (1, 3, "h", 24)}
    for heights in ((5, 6, 8), (20, 31, 44)):
        _one_program(_model([node], shapes, weights, 19), [{"h": h} for h in heights], shapes)
