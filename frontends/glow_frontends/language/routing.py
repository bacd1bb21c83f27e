"""Routers: how tokens select experts, and how the experts' results are combined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_frontends.builder import GraphBuilder, Value

SOFTMAX, SIGMOID, MIXER = "softmax", "sigmoid", "mixer"
"""How scores of experts are made of logits: over all experts, each for itself, or anew for each choice
without those that are chosen and those that are far from the best (SparseMixer, Liu et al. 2024)."""


@dataclass(frozen=True)
class Router:
    """How tokens choose the few of a layer's experts that they pass through."""

    experts: int
    #: The experts of a token.
    chosen: int
    #: The shares of the chosen experts add up to 1.
    normalised: bool = True
    #: What shares are multiplied with.
    scale: float = 1.0
    scores: str = SOFTMAX
    #: Experts lie in so many groups, of which those of a token are in `kept`: the ones whose `best` highest
    #: scores add up to the most.
    groups: int = 1
    kept: int = 1
    best: int = 1
    #: Of MIXER: the distance from the best logit, as a part of the larger one, from which experts are far.
    far: float = 0.0

    def __post_init__(self) -> None:
        if self.chosen > self.experts:
            raise GlowError(f"a token cannot choose {self.chosen} of {self.experts} experts")
        each = self.experts // self.groups
        if self.experts % self.groups or self.kept > self.groups or self.best > each:
            raise GlowError(
                f"{self.kept} of {self.groups} groups by their {self.best} best experts: "
                f"that does not go with {self.experts} experts"
            )
        if self.chosen > self.kept * each:
            raise GlowError(
                f"a token cannot choose {self.chosen} experts in {self.kept} of {self.groups} groups "
                f"of {each} experts"
            )


def shares_of(g: GraphBuilder, logits: Value, router: Router, offsets: Value | None) -> tuple[Value, Value]:
    """What each token makes of its experts' results, and which they are (i64), [rows, chosen].

    `offsets` [experts] are added to scores where they choose, not where they weigh.
    """
    if router.scores == MIXER:
        return _mixed(g, logits, router)
    scores = g.softmax(logits) if router.scores == SOFTMAX else g.sigmoid(logits)
    choice = scores if offsets is None else scores + offsets
    if router.kept < router.groups:
        choice = _in_groups(g, choice, router)
    shares, experts = g.top_k(choice, router.chosen)
    if offsets is not None:
        shares = g.gather_elements(scores, experts, axis=1)
    if router.normalised:
        # The sum of sigmoids of logits far below 0 may be 0.
        least = 1e-20 if router.scores == SIGMOID else 0.0
        shares = shares / (g.reduce_sum(shares, (1,), keepdims=True) + least)
    return (shares if router.scale == 1.0 else shares * router.scale), experts


def _in_groups(g: GraphBuilder, choice: Value, router: Router) -> Value:
    """Scores of the experts in the best groups; those of the others are minus infinity."""
    rows, count = choice.shape
    grouped = g.reshape(choice, (rows, router.groups, count // router.groups))
    best, _ = g.top_k(grouped, router.best)
    _, kept = g.top_k(g.reduce_sum(best, (2,)), router.kept)
    ones = g.reduce_sum(g.one_hot(kept, np.array([0, 1], np.float32), router.groups), (1,))
    return g.reshape(_without(g, grouped, g.reshape(ones, (rows, router.groups, 1)) < 0.5), (rows, count))


def _mixed(g: GraphBuilder, logits: Value, router: Router) -> tuple[Value, Value]:
    """SparseMixer's: the share of each choice is its score among those that are left and near it."""
    left, size = logits, g.abs(logits)
    shares: list[Value] = []
    experts: list[Value] = []
    for _ in range(router.chosen):
        most, expert = g.top_k(left, 1)
        far = (most - logits) / g.max(size, most) > router.far
        shares.append(g.reduce_max(g.softmax(_without(g, left, far)), (1,), keepdims=True))
        experts.append(expert)
        taken = g.one_hot(g.reshape(expert, (expert.shape[0],)), np.array([0, 1], np.float32), router.experts)
        left = _without(g, left, taken > 0.5)
    return g.concat(shares, 1), g.concat(experts, 1)


def _without(g: GraphBuilder, x: Value, away: Value) -> Value:
    """x, with minus infinity where `away` is true."""
    return g.select(away, -np.inf, x)
