"""RoiAlign of regions without area, and samples at places that are no numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_tools.onnxruntime_run import onnxruntime_outputs

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
NAN, INF = np.nan, np.inf
X = np.arange(400, dtype=np.float32).reshape(2, 2, 10, 10) + 1
REGIONS: dict[str, list[list[float]]] = {
    "of no size": [[5, 5, 5, 5], [6, 6, 4, 4], [1, 1, 7, 6], [2, 6, 8, 3]],
    "outside": [[-20, -20, -10, -10], [30, 30, 40, 40], [-3, -3, 14, 14]],
    "none": [],
}
NO_NUMBERS = [[NAN, 1, 5, 5], [NAN, NAN, NAN, NAN], [0, 0, INF, 5], [-INF, 0, 5, 5]]


def roi_align(regions: list[list[float]], **attributes: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model, and its inputs."""
    r = np.array(regions, np.float32).reshape(-1, 4)
    feed = {"x": X, "r": r, "b": np.arange(len(r)) % 2}
    node = helper.make_node("RoiAlign", list(feed), ["y"], output_height=2, output_width=3, **attributes)
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feed.items()}
    ports = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in feed.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", ports, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9), feed


@BACKENDS
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("regions", REGIONS)
def test_regions(regions: str, mode: str, coordinates: str, ratio: int, backend: str) -> None:
    """As onnxruntime: 0 where a region has no samples."""
    options: Any = {"mode": mode, "coordinate_transformation_mode": coordinates, "sampling_ratio": ratio}
    if (regions, coordinates, ratio) == ("of no size", "half_pixel", 0):
        REGIONS[regions][3:] = []  # onnxruntime refuses it where one axis alone has no size
    model, feed = roi_align(REGIONS[regions], **options)
    want = onnxruntime_outputs(model.SerializeToString(), feed)["y"]
    got = glow.compile(model, backend=backend).run(feed)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@BACKENDS
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_that_are_no_numbers(ratio: int, backend: str) -> None:
    """Nothing is sampled there."""
    model, feed = roi_align(NO_NUMBERS, sampling_ratio=ratio)
    got = glow.compile(model, backend=backend).run(feed)["y"]
    assert np.isfinite(got).all()
    assert not got[:2].any()


@BACKENDS
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_of_no_numbers(mode: str, padding: str, backend: str) -> None:
    """NaN is outside; where weights follow from it, so is the result. PyTorch's values."""
    torch = pytest.importorskip("torch")
    grid = np.random.default_rng(0).uniform(-1.5, 1.5, (1, 3, 3, 2)).astype(np.float32)
    grid[0, 0, 0], grid[0, 1, 1, 0], grid[0, 2, 2, 1] = NAN, NAN, INF
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding)
    feed = {"x": X[:1], "g": grid}
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feed.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", ports, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    named = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    tensors = [torch.tensor(a) for a in feed.values()]
    want = torch.nn.functional.grid_sample(*tensors, named, padding, align_corners=False).numpy()
    got = glow.compile(model, backend=backend).run(feed)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
