"""Sample: a test case of an operator, used by the numeric tests of all backends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, tensor_of

Input = Array | None | Sequence[Array]


@dataclass(frozen=True)
class Sample:
    """`op` applied to `inputs` (one entry an operand group; None = absent; a list = variadic).

    `smooth` is False where finite differences mean nothing (ties, integers, kinks at the values).
    `results` gives the result types of ops that do not infer them.
    """

    op: type[GraphOp]
    inputs: tuple[Input, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: Attribute | None = None
    smooth: bool = True

    def arrays(self) -> list[Array]:
        """The operands, flat."""
        flat: list[Array] = []
        for value in self.inputs:
            if value is not None:
                flat += [value] if isinstance(value, np.ndarray) else list(value)
        return flat

    def build(self, b: Builder, values: Sequence[SSAValue]) -> GraphOp:
        """Insert the operator on `values`, one an array of `arrays()`."""
        rest = iter(values)
        operands: list[Any] = []
        for value in self.inputs:
            if value is None:
                operands.append(None)
            elif isinstance(value, np.ndarray):
                operands.append(next(rest))
            else:
                operands.append([next(rest) for _ in value])
        return b.insert(self.op(*operands, results=self.results, **self.properties))

    def detached(self) -> tuple[Block, GraphOp]:
        """The operator in a block whose arguments are its operands."""
        block = Block(arg_types=[tensor_of(a) for a in self.arrays()])
        return block, self.build(Builder.at_end(block), block.args)


def random(*shape: int, dtype: str = "float32", low: float = -1, high: float = 1, seed: int = 0) -> Array:
    """Reproducible test data: uniform in [low, high), or integers for integer dtypes.

    Hashes of the elements' numbers (splitmix64) rather than numpy.random, which costs every start
    of a tool its import.
    """
    state = (
        np.arange(1, math.prod(shape) + 1, dtype=np.uint64) + np.uint64(1000 * (seed + sum(shape)))
    ) * _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    unit = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    unit = unit.reshape(shape)
    if dtype == "bool":
        return np.asarray(unit < 0.5)
    values = low + unit * (high - low)
    return np.asarray(np.floor(values) if np.dtype(dtype).kind in "iu" else values).astype(dtype)


def special_pairs(dtype: str = "float32") -> tuple[Array, Array]:
    """Two operands that meet in every pair of zeros, infinities, NaN and plain numbers."""
    numbers = np.array([np.nan, -np.inf, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, np.inf], dtype)
    return numbers.reshape(-1, 1), numbers


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
