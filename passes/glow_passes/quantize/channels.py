"""The channels of a layer's input: mean and range of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.types import Array


def layer_axes(op: Operation) -> LayerAxes | None:
    """The axes of channels of a layer with weights that has a form on integers; None for another operator."""
    return op.layer_axes() if isinstance(op, GraphOp) and op.QUANTIZED is not None else None


def relative_size(axes: LayerAxes, weights: Array, per_channel: bool) -> Array:
    """The largest absolute weight of each input channel, in units of its output's largest
    (with `per_channel`; else of the largest of all)."""
    size = np.abs(weights.astype(np.float64))
    others = tuple(i for i in range(size.ndim) if i != axes.outputs % size.ndim)
    unit = size.max(axis=others if per_channel else None, keepdims=True, initial=0)
    return axes.largest_of_inputs(size / np.where(unit > 0, unit, 1.0))


@dataclass
class Channels:
    """Mean, least and largest number of every channel of a value; infinities and NaN are left out."""

    mean: Array = field(default_factory=lambda: np.zeros(0))
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    batches: int = 0

    def add(self, array: Array, axis: int) -> None:
        """Count one run's numbers."""
        limit = float(np.finfo(np.float32).max)
        rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
        if not rows.size:
            return
        with np.errstate(over="ignore"):
            mean = rows.mean(axis=1, dtype=np.float64)
        low, high = rows.min(axis=1), rows.max(axis=1)
        if not np.isfinite(mean).all():
            clean = np.nan_to_num(rows, posinf=limit, neginf=-limit)
            mean, low, high = clean.mean(axis=1, dtype=np.float64), clean.min(axis=1), clean.max(axis=1)
        if self.batches:
            low, high = np.minimum(low, self.low), np.maximum(high, self.high)
            mean = self.mean + (mean - self.mean) / (self.batches + 1)
        self.mean, self.low, self.high = mean, low.astype(np.float64), high.astype(np.float64)
        self.batches += 1

    def numbers(self) -> list[float]:
        """Means, then least, then largest numbers."""
        return [float(v) for v in np.concatenate([self.mean, self.low, self.high])]

    @staticmethod
    def of(numbers: Any) -> Channels:
        """The inverse of `numbers`."""
        parts = np.asarray(numbers, np.float64).reshape(3, -1)
        return Channels(parts[0], parts[1], parts[2], 1)


#: Spreads of channels are evened out by at most this factor: what a relu hardly ever lets through while
#: a profile is taken may be larger later.
LARGEST_FACTOR = 64.0
#: Those of an input of the network by this one: its channels may be features in units of their own.
LARGEST_INPUT_FACTOR = 1e6
#: Below this the channels are even enough.
WORTH = 4.0
#: How much of a channel's spread goes into the weights; the rest stays in the activations.
SHARE = 0.6


def even_factors(
    channels: Channels, limits: tuple[float, float], weights: Array, most: float = LARGEST_FACTOR
) -> Array | None:
    """Factors t, one a channel: x / t and t * w lose less to rounding than x and w.

    `weights` is the largest absolute weight of each channel, in units of its output's largest. Large
    channels with small weights give the most (SmoothQuant, arXiv 2211.10438, equation 4). None where
    channels are even already. `most` limits the factors; channels that were 0 throughout get no more
    than LARGEST_FACTOR.
    """
    low = np.clip(channels.low, *limits)
    high = np.clip(channels.high, *limits)
    size = np.maximum(np.abs(low), np.abs(high))
    largest = float(size.max(initial=0))
    if not np.isfinite(largest) or largest <= 0:
        return None
    size = np.where(size > 0, np.maximum(size, largest / most), largest / LARGEST_FACTOR)
    weights = np.maximum(weights, float(weights.max(initial=0)) / most)
    if not weights.all():
        return None
    factors = size**SHARE / weights ** (1 - SHARE)
    factors /= float(np.exp(np.log(factors).mean()))
    if factors.max() / factors.min() < WORTH:
        return None
    return np.clip(factors, 1 / most, most)
