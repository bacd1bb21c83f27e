"""Kullback-Leibler calibration beside onnxruntime's."""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

from glow_dialects.core.types import Array
from glow_passes.quantize.calibration import calibrated
from glow_passes.quantize.histogram import Histogram
from glow_passes.quantize.schema import Schema

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
COUNT, BINS, CELLS = 400_000, 2049, 255


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(RNG.normal(size=COUNT), id="normal"),
        pytest.param(RNG.laplace(size=COUNT), id="laplace"),
        pytest.param(RNG.standard_t(3, COUNT), id="heavy-tails"),
        pytest.param(RNG.uniform(-1, 1, COUNT), id="uniform"),
        pytest.param(np.concatenate([RNG.normal(size=COUNT), np.full(20, 30.0)]), id="outliers"),
        pytest.param(np.concatenate([RNG.normal(size=COUNT), 10 * RNG.normal(size=400)]), id="two-widths"),
    ],
)
def test_kl_cuts_where_onnxruntime_does(values: Array) -> None:
    """Nearly: onnxruntime takes nothing off for chance, so that limits differ by up to a third."""
    values = values.astype(np.float32)
    most = np.abs(values).max()
    counts, edges = np.histogram(values, BINS, (-most, most))
    other = HistogramCollector("entropy", True, BINS, CELLS, 99.99, "same")
    _, theirs = other.get_entropy_threshold((counts, edges, -most, most, most), CELLS)
    histogram = Histogram()
    histogram.add(values)
    _, ours = calibrated(histogram, Schema("symmetric"), "kl")
    assert theirs / 1.33 <= ours <= theirs * 1.33
