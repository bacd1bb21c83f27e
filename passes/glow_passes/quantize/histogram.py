"""Histograms of values that flow through a network, gathered batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glow_dialects.core.types import Array

BINS = 2048


#: Magnitudes this much above those of nearly all others would leave 8 or 16 bits none for the rest.
BEYOND = 1 << 16
#: The fraction of the numbers, zeros apart, that is usual.
USUAL = 0.95


def plausible(values: Array) -> tuple[Array, int]:
    """`values` with absurd outliers saturated at the largest other magnitude, and how many they are.

    Absurd is what is infinite or BEYOND times as large as USUAL of the numbers that are not 0.
    """
    flat = np.asarray(values, np.float32)
    sizes = np.abs(flat)
    exponents = np.bincount(flat.view(np.uint32).reshape(-1) >> 23 & 255, minlength=256)
    if exponents[1:255].sum() == 0:
        return values, 0
    cumulated = np.cumsum(exponents[1:255])
    usual = int(np.searchsorted(cumulated, USUAL * cumulated[-1])) + 1
    absurd = sizes > np.ldexp(1.0, usual - 127) * BEYOND
    if not absurd.any():
        return values, 0
    limit = float(sizes[(sizes == sizes) & ~absurd].max())
    return np.where(absurd, np.copysign(np.float32(limit), flat), flat), int(absurd.sum())


@dataclass
class Histogram:
    """Counts of values in equal bins between `low` and `high`; the range grows with the data.

    NaN is counted apart, infinities with the largest finite float32.
    """

    bins: int = BINS
    low: float = 0.0
    high: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0))
    not_numbers: int = 0

    @property
    def total(self) -> float:
        """How many numbers have been seen."""
        return float(self.counts.sum())

    def add(self, values: Array) -> None:
        """Count every element of `values`."""
        flat = np.asarray(values, np.float32).reshape(-1)
        low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
        if not (np.isfinite(low) and np.isfinite(high)):
            bad = np.isnan(flat)
            self.not_numbers += int(bad.sum())
            limit = np.finfo(np.float32).max
            flat = np.clip(flat[~bad], -limit, limit)
            low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
        if not flat.size:
            return
        if not self.counts.size:
            self.low, self.high = low, high
            self.counts = np.zeros(self.bins)
        elif low < self.low or high > self.high:
            self._grow(min(low, self.low), max(high, self.high))
        self.counts += self._count(flat)

    def _count(self, flat: Array) -> Array:
        width = self.high - self.low
        if width <= 0:
            counts = np.zeros(self.bins)
            counts[0] = flat.size
            return counts
        place = (flat - np.float32(self.low)) * np.float32(self.bins / width)
        return np.bincount(np.clip(place.astype(np.int64), 0, self.bins - 1), minlength=self.bins)

    def _grow(self, low: float, high: float) -> None:
        """Spread the old counts over bins of the wider range, in proportion to the overlap."""
        old = self.edges()
        self.low, self.high = low, high
        if old[0] == old[-1]:
            total = self.counts.sum()
            self.counts = self._count(np.full(1, old[0], np.float32)) * total
            return
        cumulated = np.concatenate([[0.0], np.cumsum(self.counts)])
        self.counts = np.diff(np.interp(self.edges(), old, cumulated))

    def edges(self) -> Array:
        """The bins + 1 borders."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def centres(self) -> Array:
        """The middle of each bin."""
        edges = self.edges()
        return (edges[:-1] + edges[1:]) / 2
