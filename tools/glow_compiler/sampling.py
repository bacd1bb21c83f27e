"""The choice of a token: from the logits of a language model, by the most likely or at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

#: Temperatures below this are 0: quotients by them are out of range.
COLD = 1e-30


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: with temperature 0 the most likely one, else at random among those that stay.

    `top_k`: the k most likely; `top_p`: the fewest whose probabilities reach p; `min_p`: those at least p
    times as likely as the most likely one; 0, 1 and 0 keep all. `repetition_penalty` divides what speaks for
    tokens that were there before; of tokens that were there behind the first `uncounted` (a prompt), the
    logits lose `presence_penalty`, and `frequency_penalty` for each time. `logit_bias` is added to the logits
    of tokens. In this order: biases, penalties, temperature, top_k, top_p, min_p.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    uncounted: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])

    def __post_init__(self) -> None:
        for name, low, high in (
            ("temperature", 0, np.inf),
            ("top_k", 0, np.inf),
            ("top_p", 0, 1),
            ("min_p", 0, 1),
            ("presence_penalty", -np.inf, np.inf),
            ("frequency_penalty", -np.inf, np.inf),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise GlowError(f"{name}={value}: expected a number from {low} to {high}")
        if not self.repetition_penalty > 0:
            raise GlowError(f"repetition_penalty={self.repetition_penalty}: expected a number above 0")

    def generator(self) -> np.random.Generator:
        """Random numbers of the seed."""
        return np.random.default_rng(self.seed)


def choose(logits: Array, before: Sequence[int], how: Sampling, random: np.random.Generator) -> int:
    """The next token by its logits [vocabulary] and the tokens before it."""
    scores = _adjusted(np.asarray(logits, np.float32), before, how)
    if how.temperature < COLD:
        return int(scores.argmax())
    weights = probabilities(scores, how)
    return int(
        min(np.searchsorted(np.cumsum(weights), random.random() * weights.sum(), "right"), len(weights) - 1)
    )


def _adjusted(scores: Array, before: Sequence[int], how: Sampling) -> Array:
    """The scores with biases and penalties."""
    counted = before[how.uncounted :] if how.presence_penalty or how.frequency_penalty else ()
    repeats = how.repetition_penalty != 1.0 and bool(before)
    if not (how.logit_bias or repeats or counted):
        return scores
    scores = scores.copy()
    for token, bias in how.logit_bias.items():
        scores[token] += bias
    if repeats:
        seen = np.unique(np.asarray(before, np.int64))
        own = scores[seen]
        scores[seen] = np.where(own < 0, own * how.repetition_penalty, own / how.repetition_penalty)
    if counted:
        seen, counts = np.unique(np.asarray(counted, np.int64), return_counts=True)
        scores[seen] -= how.presence_penalty + how.frequency_penalty * counts.astype(np.float32)
    return scores


def probabilities(scores: Array, how: Sampling) -> Array:
    """Probabilities by scores after temperature; those of tokens that do not stay are 0."""
    scaled = scores.astype(np.float64) / how.temperature
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    if 0 < how.top_k < len(weights):
        least = np.partition(weights, -how.top_k)[-how.top_k]
        weights = np.where(weights < least, 0.0, weights)
        weights /= weights.sum()
    if how.top_p < 1.0:
        order = np.argsort(-weights, kind="stable")
        ahead = np.cumsum(weights[order]) - weights[order]
        keep = ahead < how.top_p
        keep[0] = True
        kept = np.zeros_like(weights)
        kept[order[keep]] = weights[order[keep]]
        weights = kept / kept.sum()
    if how.min_p > 0.0:
        weights = np.where(weights < how.min_p * weights.max(), 0.0, weights)
        weights /= weights.sum()
    return weights


def log_probabilities(logits: Array) -> Array:
    """The logarithms of the softmax of logits, f64."""
    wide = np.asarray(logits, np.float64)
    shifted = wide - wide.max()
    return shifted - np.log(np.exp(shifted).sum())
