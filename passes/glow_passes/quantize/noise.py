"""What rounding costs in one layer: its noise beside the variance of its results, by a profile alone."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, UniformQuantizedType
from glow_dialects.ops.requantize import scale_of
from glow_passes.quantize.apply_profile import CHANNELS, MOMENTS
from glow_passes.quantize.channels import Channels, by_weight, output_axis

#: Decibels of signal over noise that a layer on integers has at least; others stay float.
LEAST = 26.0


def noisy(
    op: GraphOp,
    weights: tuple[Array, Array],
    kinds: tuple[UniformQuantizedType, UniformQuantizedType],
    read: SSAValue,
) -> bool:
    """Whether integers cost a layer more than LEAST allows; False where nothing is known of it.

    `weights` go with what storing them changed, `kinds` are the types of input and result, `read` is
    what the next layers see of the result: itself, or an activation of it, which may be much less. A
    rounded number is off by step^2 / 12 in the mean square, and errors add up as if they were independent.
    """
    given, *seen = (_moments(v) for v in (op.operands[0], op.results[0], read))
    spread = [square - mean**2 for mean, square in filter(None, seen)]
    if given is None or not spread:
        return False
    inputs, result = (scale_of(kind) ** 2 / 12 for kind in kinds)
    noise = inputs * _each(op, weights[0]) + given[1] * _each(op, weights[1]) + result
    return min(spread) < 10 ** (LEAST / 10) * noise


def hand_on(op: Operation, value: SSAValue) -> None:
    """What takes the place of a node's result has its moments and those of its channels."""
    assert isinstance(value.owner, Operation)
    for name in {MOMENTS, CHANNELS} & op.attributes.keys():
        value.owner.attributes[name] = op.attributes[name]


def _each(op: GraphOp, array: Array) -> float:
    """The sum of squares of one output's weights, on average."""
    return float((array.astype(np.float64) ** 2).sum()) / array.shape[output_axis(op)]


def channel_sizes(op: GraphOp, weights: Array) -> Array:
    """How large the input's channels are beside their average, as a factor of each weight."""
    owner = op.operands[0].owner
    given = owner.attributes.get(CHANNELS) if isinstance(owner, Operation) else None
    if not isinstance(given, DenseArrayBase):
        return np.ones(())
    channels = Channels.of(given.get_values())  # pyright: ignore
    size = np.maximum(np.abs(channels.low), np.abs(channels.high)) + 1e-30
    return by_weight(op, size / np.sqrt((size**2).mean()), weights)


def _moments(value: SSAValue) -> tuple[float, float] | None:
    """Mean and mean square of a value, by the profile."""
    owner = value.owner
    given = owner.attributes.get(MOMENTS) if isinstance(owner, Operation) else None
    if not isinstance(given, DenseArrayBase):
        return None
    mean, square = given.get_values()
    return float(mean), float(square)
