"""Nodes under one predicate as parts of their own, and such a part for fewer rows."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.iteration import Axes
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_dialects.ops.reshape import ReshapeOp
from glow_passes.partition.nodes import NodeGraph
from glow_passes.partition.support import by_support

_LEAST_WORK = 2_000_000
"""Arithmetic operations that a part has, or its predicate is dropped: a program of its own costs a call."""


def predicate_of(op: Operation) -> str | None:
    """The placeholder that a node's predicate is; None where it has none, or one that is computed."""
    value = op.predicate if isinstance(op, GraphOp) else None
    return _placeholder(value) if value is not None else None


def _placeholder(value: SSAValue) -> str | None:
    owner = value.owner
    if isinstance(owner, GetOp) and isinstance(owner.target(), PlaceholderOp):
        return owner.symbol.root_reference.data
    return None


def has_predicates(module: ModuleOp) -> bool:
    """Whether a node of a module has a predicate."""
    return any(isinstance(op, GraphOp) and op.predicate is not None for op in module.walk())


def by_predicate(graph: NodeGraph) -> list[int] | None:
    """A part for each node, so that those of a part have one predicate, or none; None: one part is enough."""
    work: dict[SSAValue, int] = {}
    for node in graph.nodes:
        if isinstance(node.op, GraphOp) and node.op.predicate is not None:
            work[node.op.predicate] = work.get(node.op.predicate, 0) + node.work
    worth = [value for value, total in work.items() if total >= _LEAST_WORK]
    if not worth:
        return None

    def chosen(op: Operation) -> SSAValue | None:
        value = op.predicate if isinstance(op, GraphOp) else None
        return value if value in worth else None

    groups = [None, *worth]
    return [part for part, _ in by_support(graph, [lambda op, g=g: chosen(op) is g for g in groups])]


def for_rows(module: ModuleOp, rows: int, fewer: int) -> bool:
    """Make the module of one part, whose inputs have `rows` rows each, one for `fewer` of any of them.

    False, and the module is spoilt, where an operator does not tell that it keeps rows apart.
    """
    (function,) = functions(module)
    inputs = {n: p for n, p in placeholders(module).items() if p.kind.data == "input"}
    if any(p.kind.data not in ("input", "output") for p in placeholders(module).values()):
        return False
    cut = {n for n, p in inputs.items() if (shape_of(p.type) or (0,))[0] == rows}
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
        if any((shape_of(r) or (0,))[0] != self.rows for r in op.results):
            return False
        if isinstance(op, ReshapeOp):
            return True  # rows first, before and after
        iteration = op.iteration()
        if iteration is None:
            return False
        loops = {axes[0].loop for axes in iteration.results if axes and axes[0] is not None}
        if len(loops) != 1 or not loops <= set(iteration.parallel):
            return False
        operands = list(op.operands)[: len(iteration.operands)]
        return all(
            self.follows(axes, *loops) if v in self.changed else not any(a and a.loop in loops for a in axes)
            for v, axes in zip(operands, iteration.operands, strict=True)
        )

    def follows(self, axes: Axes, loop: int) -> bool:
        """Whether a tensor's first dimension, and none but that, follows a loop element by element."""
        first = axes[0] if axes else None
        plain = first is not None and first.loop == loop and (first.stride, first.window) == (1, 1)
        return plain and not any(a is not None and a.loop == loop for a in axes[1:])
