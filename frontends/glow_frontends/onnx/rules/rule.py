"""The form of a rule, and arithmetic that rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node, Result

#: (emitter, node) -> output or outputs.
Rule: TypeAlias = Callable[[Emitter, Node], Result]
#: One rule for all versions, or (since version, rule) in rising order.
Versions: TypeAlias = Rule | tuple[tuple[int, Rule], ...]


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
