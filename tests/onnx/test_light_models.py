"""The onnx package's nine light models with random weights, on both backends, against onnxruntime.

As shipped, all weights of a layer are equal, so that mistakes in their order would not show.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_compiler as glow
from benchmarks.models import LIGHT, light

pytestmark = pytest.mark.slow

onnxruntime = pytest.importorskip("onnxruntime")


def expected(path: Path, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """onnxruntime's outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


@pytest.mark.parametrize("name", LIGHT)
def test_light_model_agrees(name: str, tmp_path: Path) -> None:
    """Both backends agree with onnxruntime within rtol 1e-3 and atol 1e-5."""
    path = light(name, 1, tmp_path)
    model = onnx.load(path)
    held = {i.name for i in model.graph.initializer}
    (given,) = [i for i in model.graph.input if i.name not in held]
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    feed = {given.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    wanted = expected(path, feed)
    for backend in ("cpu", "interpreter"):
        got = glow.compile(path, backend=backend).run(feed)
        for output, value in wanted.items():
            assert np.ptp(value) > 0, "the weights must matter"
            np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5, err_msg=backend)
