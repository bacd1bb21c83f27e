"""Sample: one concrete use of an operator, which every numeric test of every backend runs over."""

from __future__ import annotations

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
    """Reproducible test data: uniform in [low, high), or integers for integer dtypes."""
    rng = np.random.default_rng(seed + sum(shape))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(int(low), int(high), size=shape).astype(dtype)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return rng.uniform(low, high, shape).astype(dtype)
