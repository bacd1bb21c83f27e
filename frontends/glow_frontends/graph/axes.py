"""Checks of axes and shapes that rules receive."""

from __future__ import annotations

from collections.abc import Sequence

from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.values import Value, rank, shape


def ranked(x: Value, least: int) -> tuple[int, ...]:
    """The shape of a tensor; a RuleError where it has fewer dimensions than `least`."""
    if rank(x) < least:
        raise RuleError(f"a tensor of rank {rank(x)} where at least {least} dimensions are expected")
    return shape(x)


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """A non-negative axis; a RuleError where it is out of range."""
    if not -rank <= axis < rank:
        raise RuleError(f"{what} {axis} is out of range for rank {rank}")
    return axis % rank


def flat_axis(axis: int, rank: int) -> int:
    """An axis in front of which a shape is cut in two: `rank` itself is allowed."""
    return rank if axis == rank else axis_of(axis, rank)


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Non-negative axes, each once."""
    out = tuple(axis_of(a, rank) for a in axes)
    if len(set(out)) < len(out):
        raise RuleError(f"axes {tuple(axes)} repeat an axis")
    return out
