"""Graphs for tests: built by a function, run node by node on the cards' references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.interpreter.modules import run_graph
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, tensor_of, typed
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.module import (
    ConstantOp,
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    functions,
)
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp


class Graph:
    """A module under construction: `b` inserts nodes, `constant` and `input` declare tensors."""

    def __init__(self) -> None:
        self.module = ModuleOp([])
        self.function = FuncOp.of("main")
        self.module.body.block.add_op(self.function)
        self.b = Builder.at_end(self.function.body.block)
        self.count = 0
        self.inputs: dict[str, Array] = {}

    def _declare(self, op: ConstantOp | PlaceholderOp) -> SSAValue:
        self.module.body.block.insert_op_before(op, self.function)
        return self.b.insert(GetOp.of(op)).result

    def constant(self, array: Array) -> SSAValue:
        """A constant of the module."""
        self.count += 1
        return self._declare(
            ConstantOp.of(f"w{self.count}", np.asarray(array), tensor_of(np.asanyarray(array)))
        )

    def input(self, array: Array) -> SSAValue:
        """A placeholder, run with the values of `array`."""
        self.count += 1
        self.inputs[f"x{self.count}"] = np.asarray(array)
        return self._declare(PlaceholderOp.of(f"x{self.count}", tensor_of(np.asanyarray(array))))

    def save(self, value: SSAValue) -> None:
        """An output."""
        self.count += 1
        place = PlaceholderOp.of(f"y{self.count}", typed(value), "output")
        self.module.body.block.insert_op_before(place, self.function)
        self.b.insert(SaveOp.of(value, place))

    def run(self) -> list[Array]:
        """The saved tensors in order."""
        return run(self.module, self.inputs)

    def ops(self) -> list[str]:
        """Names of the nodes, reads and saves left out."""
        body = self.function.body.block.ops
        return [op.name.removeprefix("glow.") for op in body if isinstance(op, GraphOp)]


class Net:
    """Formulas with numbers where an exporter writes scalar constants: `n.mul(n.softmax(x, axis=1), 2.0)`."""

    def __init__(self) -> None:
        self.g = Graph()

    def of(self, value: Any) -> Any:
        """A number or array as a constant, a list of such as one operand."""
        if isinstance(value, list):
            return [self.of(v) for v in value]
        if isinstance(value, float | int) and not isinstance(value, np.generic):
            value = np.float32(value)
        return self.g.constant(np.asanyarray(value)) if isinstance(value, np.generic | np.ndarray) else value

    def __getattr__(self, name: str) -> Callable[..., SSAValue]:
        return self(name)

    def __call__(self, name: str) -> Callable[..., SSAValue]:
        """What inserts nodes of a name: `n("not")(x)`, or `n.exp(x)`."""
        kind: Any = context().get_op(f"glow.{name}")
        return lambda *values, **properties: self.g.b(kind(*map(self.of, values), **properties))

    def clip(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """Limits as numbers."""
        return self.g.b(ClipOp(x, min=float(low), max=float(high)))

    def mean(self, x: SSAValue, *axes: int) -> SSAValue:
        """Axes kept as ones."""
        return self.g.b(ReduceMeanOp(x, axes=axes, keepdims=True))

    def sum(self, x: SSAValue, *axes: int) -> SSAValue:
        """Axes kept as ones."""
        return self.g.b(ReduceSumOp(x, axes=axes, keepdims=True))

    def top(self, x: SSAValue, *axes: int) -> SSAValue:
        """The maximum, axes kept as ones."""
        return self.g.b(ReduceMaxOp(x, axes=axes, keepdims=True))


def run(module: ModuleOp, inputs: Mapping[str, Array]) -> list[Array]:
    """The tensors that the first function saves, by the references of its nodes."""
    return list(run_graph(next(functions(module)), inputs).values())
