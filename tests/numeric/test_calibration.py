"""Calibration: beside what it promises, done in loops over numbers, and beside onnxruntime's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

from glow_dialects.core.types import Array
from glow_passes.quantize.calibration import Range, calibrated
from glow_passes.quantize.histogram import Histogram
from glow_passes.quantize.schema import SCHEMAS, Schema

RNG = np.random.default_rng(0)
COUNT, BINS, CELLS = 400_000, 2049, 255


@pytest.mark.slow
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


# --- what each method promises ------------------------------------------------------------------
def histogram_of(values: Array, bins: int = 512) -> Histogram:
    """Of one batch."""
    histogram = Histogram(bins)
    histogram.add(values)
    return histogram


NORMAL = np.random.default_rng(1).normal(size=20_000)
#: Distributions whose sides differ, with numbers far outside on one of them or both.
VALUES = {
    "normal": NORMAL,
    "one-outlier": np.concatenate([NORMAL, [25.0]]),
    "both-sides": np.concatenate([NORMAL, [-40.0, 12.0, 12.0]]),
    "many-outliers": np.concatenate([NORMAL, np.full(40, 9.0), np.full(3, -7.0)]),
    "relu": np.maximum(NORMAL, 0),
    "wide-relu": np.maximum(np.concatenate([NORMAL, 6 * NORMAL[:400], np.zeros(9)]), 0),
    "negative": -(np.abs(NORMAL) ** 3),
    "above-0": np.abs(NORMAL) ** 2 + 0.5,
    "far-above-0": NORMAL + 12,
}


def steps(schema: Schema, limits: Range) -> Callable[[float], float]:
    """A number as the integers of a range have it."""
    scale, zero = schema.parameters(*limits)
    half = 2 ** (schema.width - 1)
    return lambda x: (min(max(round(x / scale) + zero, -half), half - 1) - zero) * scale


def squares(histogram: Histogram, schema: Schema, limits: Range) -> float:
    """What rounding and saturation cost the middles of the bins."""
    rounded = steps(schema, limits)
    bins = zip(histogram.centres(), histogram.counts, strict=True)
    return sum(float(n) * (rounded(float(x)) - float(x)) ** 2 for x, n in bins if n)


def symmetric_ranges(histogram: Histogram) -> list[Range]:
    """The whole range, down to a tenth of its larger side."""
    low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
    sizes = [max(-low, high) * float(part) for part in np.linspace(1, 0.1, 64)]
    return [(max(low, -size), min(high, size)) for size in sizes]


def divergence(histogram: Histogram, schema: Schema, limits: Range) -> float:
    """How much the integers' distribution tells less, but for what chance makes of it."""
    scale, zero = schema.parameters(*limits)
    half = 2 ** (schema.width - 1)
    bins = [(float(x), float(n)) for x, n in zip(histogram.centres(), histogram.counts, strict=True)]
    inside = [i for i, (x, _) in enumerate(bins) if -half <= x / scale + zero <= half - 1]
    if len(inside) < 2:
        return math.inf
    here = [bins[i] for i in inside]
    p = [n for _, n in here]
    p[0] += sum(n for _, n in bins[: inside[0]])
    p[-1] += sum(n for _, n in bins[inside[-1] + 1 :])
    cells: dict[int, list[int]] = {}
    for i, (x, _) in enumerate(here):
        if p[i] > 0:
            cells.setdefault(round(x / scale), []).append(i)
    total, kept, found = sum(p), sum(n for _, n in here), 0.0
    chance = 0
    for members in cells.values():
        held = sum(here[i][1] for i in members)
        chance += len(members) - (held > 0)
        for i in members:
            q = max(held / len(members) / kept, 1e-4 / len(here))
            found += p[i] / total * math.log(p[i] / total / q)
    return found - chance / (2 * total)


def without_zeros(histogram: Histogram) -> Histogram:
    """No more numbers in the bin of 0 than in the fuller one beside it."""
    counts = [float(n) for n in histogram.counts]
    place = sum(edge <= 0 for edge in histogram.edges()) - 1
    if histogram.low <= 0 <= histogram.high:
        place = min(place, len(counts) - 1)
        counts[place] = min(counts[place], max(n for n in (*counts[:place][-1:], *counts[place + 1 :][:1])))
    return Histogram(histogram.bins, histogram.low, histogram.high, np.array(counts))


def assert_loses_least(limits: Range, histogram: Histogram, schema: Schema) -> None:
    """Of the ranges whose mean square error is at most twice the least, or hardly heard."""
    ranges = [*dict.fromkeys(symmetric_ranges(histogram))]
    errors = [squares(histogram, schema, r) for r in ranges]
    bins = [(float(x), float(n)) for x, n in zip(histogram.centres(), histogram.counts, strict=True)]
    signal = sum(n * x * x for x, n in bins)

    def outliers(limits: Range) -> float:
        scale, zero = schema.parameters(*limits)
        return sum(n for x, n in bins if not -128 <= x / scale + zero <= 127) / sum(n for _, n in bins)

    fair = [
        each
        for each, error in zip(ranges, errors, strict=True)
        if error <= 2 * min(errors) or (error <= 0.04 * signal and outliers(each) <= 1e-4)
    ]
    even = without_zeros(histogram)
    assert limits in fair
    assert divergence(even, schema, limits) <= min(divergence(even, schema, each) for each in fair) + 1e-9


@pytest.mark.parametrize("name", ["symmetric", "symmetric_uint8", "symmetric_power2"])
@pytest.mark.parametrize("values", VALUES)
def test_kl_loses_the_least(values: str, name: str) -> None:
    """Of the ranges around 0 that shrink in proportion."""
    histogram, schema = histogram_of(VALUES[values]), Schema(name)
    assert_loses_least(calibrated(histogram, schema, "kl"), histogram, schema)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", SCHEMAS)
def test_mse_errs_the_least(values: str, name: str) -> None:
    """No range of a finer search, each side by itself, has much less of a mean square error."""
    histogram, schema = histogram_of(VALUES[values], 256), Schema(name)
    low, high = calibrated(histogram, schema, "mse")
    assert min(histogram.low, 0) <= low <= 0 <= high <= max(histogram.high, 0)
    parts = (1.0, 0.9, 0.75, 0.6, 0.5, 0.42, 0.34, 0.28, 0.22, 0.17, 0.13)
    sides = {(min(histogram.low, 0) * p, max(histogram.high, 0) * q) for p in parts for q in parts}
    least = min(squares(histogram, schema, limits) for limits in sides)
    found = squares(histogram, schema, (low, high))
    assert found <= 1.15 * least
    if name != "asymmetric":  # whose ranges are those that shrink in proportion
        least = min(squares(histogram, schema, limits) for limits in symmetric_ranges(histogram))
        assert found <= (1 + 1e-12) * least


@pytest.mark.parametrize("values", ["exponential", "minus", "around-0", "above-0"])
def test_percentile_keeps_the_central_numbers(values: str) -> None:
    """All but one in ten thousand, as many of the rest on either side; all of it above a border at 0."""
    numbers = np.random.default_rng(3).exponential(size=200_000).astype(np.float32)
    numbers[0] = 0.0
    given = {"exponential": numbers, "minus": -numbers, "around-0": numbers - 1, "above-0": numbers + 0.5}
    ordered = np.sort(given[values])
    histogram = histogram_of(ordered, 8192)
    low, high = calibrated(histogram, Schema(), "percentile")
    width = (histogram.high - histogram.low) / 8192
    below, above = (0, 20) if values == "exponential" else (10, 10)
    for found, least, most in (
        (low, ordered[max(below - 1, 0)], ordered[below + 1]),
        (high, ordered[-above - 2], ordered[-above]),
    ):
        least, most = (min(n, 0.0) if found is low else max(n, 0.0) for n in (least, most))
        assert least - width <= found <= most + width


def binomial(bins: int, count: int) -> Array:
    """So many numbers, around a third of the range."""
    numbers = np.random.default_rng(2).binomial(bins - 1, 0.3, size=count)
    return np.bincount(numbers, minlength=bins).astype(np.float64)


@pytest.mark.parametrize(("count", "bins", "merged"), [(32, 1024, 1), (31, 1024, 2), (15, 2048, 4)])
def test_kl_of_few_numbers(count: int, bins: int, merged: int) -> None:
    """Bins are merged until they hold 32 numbers each."""
    counts = binomial(bins, count * bins)
    coarse = Histogram(bins // merged, -1, 2, counts.reshape(-1, merged).sum(1))
    schema = Schema("symmetric")
    best = calibrated(Histogram(bins, -1, 2, counts), schema, "kl")
    assert best != (-1, 2)
    assert_loses_least(best, coarse, schema)


@pytest.mark.parametrize(("bins", "width", "short"), [(512, 8, 1), (511, 8, 1), (512, 16, 0)])
def test_kl_of_too_few_numbers(bins: int, width: int, short: int) -> None:
    """Everything that was seen, where 512 bins hold less than 32 numbers each, or integers are finer."""
    counts = binomial(bins, 32 * bins - short)
    assert calibrated(Histogram(bins, -1, 2, counts), Schema("symmetric", width), "kl") == (-1, 2)
    counts[bins // 3] += short
    assert width == 16 or calibrated(Histogram(bins, -1, 2, counts), Schema("symmetric"), "kl") != (-1, 2)


@pytest.mark.parametrize("method", ["none", "kl", "percentile", "mse"])
@pytest.mark.parametrize(("low", "high"), [(2.0, 2.0), (-1.0, 3.0)])
def test_nothing_to_search(method: str, low: float, high: float) -> None:
    """One number alone, or a range of which nothing was seen, stays as it is."""
    histogram = Histogram(8, low, high, np.full(8, 5.0 if low == high else 0.0))
    assert calibrated(histogram, Schema(), method) == (low, high)
