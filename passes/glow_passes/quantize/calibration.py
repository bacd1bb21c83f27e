"""Calibration: which part of a histogram's range the integers should cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glow_dialects.core.types import Array
from glow_passes.quantize.histogram import Histogram
from glow_passes.quantize.schema import QuantizationError, Schema

Range = tuple[float, float]

#: Part of the values that percentile calibration keeps.
KEPT = 0.9999
#: Ranges that the searches try: the whole one, cut down to this part in this many steps.
SMALLEST, STEPS = 0.1, 64


def whole(histogram: Histogram, schema: Schema) -> Range:
    """Everything that was seen."""
    return histogram.low, histogram.high


def percentile(histogram: Histogram, schema: Schema) -> Range:
    """The central KEPT of the values: outliers saturate."""
    cumulated = np.concatenate([[0.0], np.cumsum(histogram.counts)])
    cumulated /= cumulated[-1]
    rest = (1 - KEPT) / 2
    edges = histogram.edges()
    low, high = np.interp([rest, 1 - rest], cumulated, edges)
    # A range with 0 at its border keeps it there (relu: half of the values may be exactly 0).
    if histogram.low == 0:
        low, high = 0.0, float(np.interp(KEPT, cumulated, edges))
    return float(low), float(high)


def _candidates(histogram: Histogram, schema: Schema) -> list[Range]:
    """Smaller and smaller ranges around 0; each side shrinks in proportion."""
    parts = np.linspace(1.0, SMALLEST, STEPS)
    low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
    if schema.name != "asymmetric":
        size = max(-low, high)
        low, high = (max(low, -size), min(high, size))
        return [(max(low, -size * p), min(high, size * p)) for p in parts]
    # The two sides of an asymmetric range may shrink independently; few steps of each are enough.
    some = parts[:: max(1, STEPS // 12)]
    both = [(low * p, high * p) for p in parts]
    return both + [(low * p, high * q) for p in some for q in some]


def _search(histogram: Histogram, schema: Schema, cost: Callable[[Histogram, Schema, Range], float]) -> Range:
    candidates = list(dict.fromkeys(_candidates(histogram, schema)))
    return min(candidates, key=lambda r: cost(histogram, schema, r))


def _rounded(centres: Array, schema: Schema, limits: Range) -> Array:
    """Each bin's centre after quantisation with the parameters of a range."""
    scale, zero = schema.parameters(*limits)
    smallest, largest = -(1 << (schema.width - 1)), (1 << (schema.width - 1)) - 1
    return (np.clip(np.rint(centres / scale) + zero, smallest, largest) - zero) * scale


def _squares(histogram: Histogram, schema: Schema, limits: Range) -> float:
    centres = histogram.centres()
    error = _rounded(centres, schema, limits) - centres
    return float(np.dot(histogram.counts, error * error))


def _covered(histogram: Histogram, schema: Schema, limits: Range) -> Array:
    """Which bins the integers for a range cover; a power of 2 covers more than was asked for."""
    scale, zero = schema.parameters(*limits)
    smallest, largest = -(1 << (schema.width - 1)), (1 << (schema.width - 1)) - 1
    centres = histogram.centres()
    return np.asarray((centres >= (smallest - zero) * scale) & (centres <= (largest - zero) * scale))


def _outside(histogram: Histogram, schema: Schema, limits: Range) -> float:
    """The part of the values that saturates."""
    inside = histogram.counts[_covered(histogram, schema, limits)].sum()
    return 1 - float(inside / histogram.counts.sum())


def mean_square(histogram: Histogram, schema: Schema) -> Range:
    """The range with the least mean square error, rounding and saturation together."""
    return _search(histogram, schema, _squares)


def _divergence(histogram: Histogram, schema: Schema, limits: Range) -> float:
    """Kullback-Leibler divergence between the saturated values and their quantised distribution.

    P is the histogram with what lies outside the range moved to its borders; Q is P's inside
    merged into the integers' cells and spread again over the bins that P uses. What chance alone
    makes of the difference inside cells is taken off, or finer cells would always seem better.
    """
    counts, centres = histogram.counts, histogram.centres()
    scale, _ = schema.parameters(*limits)
    places = np.flatnonzero(_covered(histogram, schema, limits))
    if places.size < 2:
        return np.inf
    first, last = int(places[0]), int(places[-1])
    kept = counts[first : last + 1]
    p = kept.copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last + 1 :].sum()
    cells = np.rint(centres[first : last + 1] / scale).astype(np.int64)
    cells -= cells[0]
    used = p > 0
    sums = np.bincount(cells, weights=kept)
    members = np.maximum(np.bincount(cells, weights=used), 1)
    q = np.where(used, sums[cells] / members[cells], 0.0)
    total_p, total_q = p.sum(), q.sum()
    if not total_q:
        return np.inf
    tiny = 1e-4 / kept.size
    p, q = p[used] / total_p, np.maximum(q[used] / total_q, tiny)
    chance = (used.sum() - np.count_nonzero(sums)) / (2 * total_p)
    return float(np.dot(p, np.log(p / q))) - float(chance)


#: Kullback-Leibler calibration wants this many values a bin, and this many bins.
ENOUGH, FEWEST = 32, 512
#: It takes ranges whose mean square error is at most this many times the least: fine cells for many small
#: numbers may not cost the few large ones that carry the signal. It may be this part of the mean square
#: where no more than this part of the values, outliers, lies outside.
MOST_SQUARES, LOUDEST, OUTLIERS = 2.0, 0.04, 1e-4


def kullback_leibler(histogram: Histogram, schema: Schema) -> Range:
    """The range whose quantised distribution loses the least information.

    Where too few values were seen to tell their distribution, or the integers are finer than the
    histogram, everything that was seen.
    """
    merged = histogram
    while merged.total < ENOUGH * merged.bins and merged.bins > FEWEST and merged.bins % 2 == 0:
        counts = merged.counts.reshape(-1, 2).sum(axis=1)
        merged = Histogram(merged.bins // 2, merged.low, merged.high, counts)
    if schema.width != 8 or merged.total < ENOUGH * merged.bins:
        return whole(histogram, schema)
    candidates = list(dict.fromkeys(_candidates(merged, schema)))
    squares = [_squares(merged, schema, limits) for limits in candidates]
    signal = float(np.dot(merged.counts, merged.centres() ** 2))
    most, loudest = MOST_SQUARES * min(squares), LOUDEST * signal
    fair = [
        limits
        for limits, error in zip(candidates, squares, strict=True)
        if error <= most or (error <= loudest and _outside(merged, schema, limits) <= OUTLIERS)
    ]
    even = _without_zeros(merged)
    return min(fair, key=lambda limits: _divergence(even, schema, limits))


def _without_zeros(histogram: Histogram) -> Histogram:
    """The histogram with no more in the bin of 0 than beside it.

    Half of what a relu gives is exactly 0, which every schema represents: it says nothing about
    rounding, and would draw the search to cells as narrow as that bin.
    """
    if not histogram.low <= 0 <= histogram.high:
        return histogram
    place = int(np.searchsorted(histogram.edges(), 0.0, side="right")) - 1
    place = min(max(place, 0), histogram.bins - 1)
    counts = histogram.counts.copy()
    beside = counts[max(place - 1, 0) : place + 2]
    others = np.delete(beside, place - max(place - 1, 0))
    counts[place] = min(counts[place], others.max(initial=0))
    return Histogram(histogram.bins, histogram.low, histogram.high, counts)


CALIBRATIONS: dict[str, Callable[[Histogram, Schema], Range]] = {
    "none": whole,
    "kl": kullback_leibler,
    "percentile": percentile,
    "mse": mean_square,
}


def calibrated(histogram: Histogram, schema: Schema, method: str) -> Range:
    """The range to quantise with, by one of CALIBRATIONS."""
    if method not in CALIBRATIONS:
        known = ", ".join(CALIBRATIONS)
        raise QuantizationError(f"unknown calibration '{method}'; there are: {known}")
    if histogram.high <= histogram.low or not histogram.total:
        return histogram.low, histogram.high
    low, high = CALIBRATIONS[method](histogram, schema)
    return min(low, 0.0), max(high, 0.0)
