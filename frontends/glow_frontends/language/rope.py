"""Rotary positions, and their scaling for longer texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array


@dataclass(frozen=True)
class Rope:
    """Rotary positions: pair i of `pairs` turns by base^(-i / pairs) / factors[i] a place."""

    pairs: int
    base: float = 10000.0
    interleaved: bool = False
    factors: tuple[float, ...] = ()
    #: The factors in caches of more than `short_places` places, where they have others.
    long_factors: tuple[float, ...] = ()
    short_places: int = 0
    #: What cosines and sines are multiplied with.
    gain: float = 1.0
    #: Queries at place p are multiplied with 1 + growth log(1 + floor(p / `grown`)), as Llama 4 does.
    growth: float = 0.0
    grown: int = 1

    def __post_init__(self) -> None:
        for factors in (self.factors, self.long_factors):
            if len(factors) not in (0, self.pairs):
                raise GlowError(f"{len(factors)} factors stretch {self.pairs} pairs of rotary positions")

    @property
    def of_keys(self) -> Rope:
        """The positions of keys, which do not grow."""
        return replace(self, growth=0.0) if self.growth else self

    def tables(self, places: int) -> tuple[Array, Array]:
        """Cosines and sines [places, pairs], f32, of caches of so many places."""
        turns = self.base ** (-np.arange(self.pairs, dtype=np.float64) / self.pairs)
        factors = self.long_factors if self.long_factors and places > self.short_places else self.factors
        if factors:
            turns = turns / np.asarray(factors)
        # Products in f32, as the models were trained with.
        angles = np.arange(places, dtype=np.float32)[:, None] * turns.astype(np.float32)
        gain = self.gain * (1.0 + self.growth * np.log1p(np.arange(places) // self.grown))[:, None]
        return tuple((f(angles) * gain).astype(np.float32) for f in (np.cos, np.sin))  # pyright: ignore


def llama3_factors(rope: Rope, s: Mapping[str, Any]) -> tuple[float, ...]:
    """Llama 3's, by its settings: long waves are stretched, short ones not, between them there is a ramp."""
    factor, low, high = (float(s[n]) for n in ("factor", "low_freq_factor", "high_freq_factor"))
    length = float(s["original_max_position_embeddings"])
    made: list[float] = []
    for i in range(rope.pairs):
        turns = length / (2 * math.pi * rope.base ** (i / rope.pairs))
        made.append(_between(factor, (turns - low) / (high - low)))
    return tuple(made)


def yarn_factors(
    rope: Rope, factor: float, places: float, fast: float = 32.0, slow: float = 1.0, whole: bool = True
) -> tuple[float, ...]:
    """YaRN's (Peng et al. 2023), for models first made for `places`.

    Pairs that turn more than `fast` times in them are not stretched, those of less than `slow` turns by
    `factor`; the ramp between them begins and ends at `whole` pairs.
    """

    def pair(turns: float) -> float:
        return rope.pairs * math.log(places / (turns * 2 * math.pi)) / math.log(rope.base)

    first, last = pair(fast), pair(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * rope.pairs - 1)
    length = last - first or 0.001
    return tuple(_between(factor, 1.0 - (i - first) / length) for i in range(rope.pairs))


def _between(factor: float, kept: float) -> float:
    """The factor of a wave of which the share `kept` is not stretched."""
    share = min(1.0, max(0.0, kept))
    return 1.0 / ((1.0 - share) / factor + share)


def yarn_gain(factor: float, scale: float = 1.0) -> float:
    """By what YaRN multiplies cosines and sines."""
    return 1.0 if factor <= 1.0 else 0.1 * scale * math.log(factor) + 1.0
