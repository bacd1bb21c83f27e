"""Nodes under one predicate as parts of their own, and such a part for fewer rows."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_dialects.ops.reshape import ReshapeOp
from glow_passes.partition.nodes import NodeGraph
from glow_passes.partition.support import by_support

_LEAST_WORK = 2_000_000
"""Arithmetic operations that a part has, or its predicate is dropped: a program of its own costs a call."""


def predicate_of(op: Operation) -> str | None:
    """The placeholder that a node's predicate is; None where it has none, or one that is computed."""
    value = _predicate(op)
    read = value.owner if value is not None else None
    if isinstance(read, GetOp) and isinstance(read.target(), PlaceholderOp):
        return read.symbol.root_reference.data
    return None


def _predicate(op: Operation) -> SSAValue | None:
    return op.predicate if isinstance(op, GraphOp) else None


def has_predicates(module: ModuleOp) -> bool:
    """Whether a node of a module has a predicate."""
    return any(_predicate(op) is not None for op in module.walk())


def by_predicate(graph: NodeGraph) -> list[int] | None:
    """A part for each node, so that those of a part have one predicate, or none; None: one part is enough."""
    work: Counter[SSAValue | None] = Counter()
    for node in graph.nodes:
        work[_predicate(node.op)] += node.work
    worth = [value for value, total in work.items() if value is not None and total >= _LEAST_WORK]
    if not worth:
        return None
    devices = [lambda op, value=value: _predicate(op) is value for value in worth]
    return [part for part, _ in by_support(graph, [lambda op: _predicate(op) not in worth, *devices])]


def for_rows(module: ModuleOp, rows: int, fewer: int) -> bool:
    """Make the module of one part, whose inputs have `rows` rows each, one for `fewer` of any of them.

    False, and the module is spoilt, where an operator does not tell that it keeps rows apart.
    """
    (function,) = functions(module)
    inputs = {n: p for n, p in placeholders(module).items() if p.kind.data == "input"}
    if any(p.kind.data not in ("input", "output") for p in placeholders(module).values()):
        return False
    cut = {n for n, p in inputs.items() if shape_of(p.type)[:1] == (rows,)}
    for name in cut:
        inputs[name].properties["type"] = _fewer(inputs[name].type, fewer)
    return _Rows(rows, fewer, cut).run(function)


def _fewer(kind: object, fewer: int):
    return tensor((fewer, *shape_of(kind)[1:]), element_of(kind))  # pyright: ignore[reportArgumentType]


class _Rows:
    """The values of a function that have rows, as their types change."""

    def __init__(self, rows: int, fewer: int, inputs: set[str]) -> None:
        self.rows, self.fewer, self.inputs = rows, fewer, inputs
        self.changed: set[SSAValue] = set()

    def run(self, function: FuncOp) -> bool:
        """Change every operation; whether all could be."""
        return all(self.step(op) for op in list(function.body.block.ops))

    def step(self, op: Operation) -> bool:
        """Change an operation that reads rows; whether it could be."""
        if isinstance(op, GetOp):
            if op.symbol.root_reference.data in self.inputs:
                self.change(op)
            return True
        if not any(v in self.changed for v in op.operands):
            return isinstance(op, GraphOp)  # an output without rows is one that nobody can leave out
        if isinstance(op, SaveOp):
            target = op.target()
            assert not isinstance(target, ConstantOp) and target is not None
            target.properties["type"] = op.input.type
            return True
        if not isinstance(op, GraphOp) or not self.apart(op):
            return False
        self.change(op)
        return True

    def change(self, op: Operation) -> None:
        for result in list(op.results):
            kind = _fewer(result.type, self.fewer)
            self.changed.add(Rewriter.replace_value_with_new_type(result, kind))

    def apart(self, op: GraphOp) -> bool:
        """Whether row i of each result depends on no other rows of the operands that have rows."""
        if any(shape_of(r)[:1] != (self.rows,) for r in op.results):
            return False
        if isinstance(op, ReshapeOp):
            return True  # rows first, before and after
        iteration = op.iteration()
        if iteration is None:
            return False
        row, *others = {axes[0] for axes in iteration.results}
        if others or row is None:
            return False
        operands = list(op.operands)[: len(iteration.operands)]
        return all(
            axes[:1] == (row,) if v in self.changed else all(a is None or a.loop != row.loop for a in axes)
            for v, axes in zip(operands, iteration.operands, strict=True)
        )
