"""Reverse-mode differentiation of straight-line graphs, with the gradients of the operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from glow_dialects.core.builder import Builder, decomposed
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, is_float
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp


class NotDifferentiableError(UnsupportedError):
    """Operators on the path from parameters to the loss have no gradient; `ops` names them all."""

    def __init__(self, ops: Sequence[str]) -> None:
        self.ops = tuple(ops)
        lines = "\n".join(f"  - {o}" for o in self.ops)
        super().__init__(f"no gradient for {len(self.ops)} operator{'s' * (len(self.ops) != 1)}\n{lines}")


def differentiable(kind: Attribute) -> bool:
    """Whether values of this type can have a gradient: floating-point ones can."""
    return is_float(element_of(kind))


def _carries(kind: Attribute) -> bool:
    """Whether gradients pass values of this type: quantised ones stand for real numbers."""
    return differentiable(kind) or isinstance(element_of(kind), UniformQuantizedType)


def _known(op: Operation) -> bool:
    """Whether an operator has a gradient; of those on stored integers only conversions and views."""
    if not isinstance(op, GraphOp) or not op.takes_gradient():
        return False
    plain = all(differentiable(v.type) or not _carries(v.type) for v in (*op.operands, *op.results))
    return plain or op.VIEW or isinstance(op, QuantizeOp | DequantizeOp)


def on_path(
    ops: Sequence[Operation], seeds: Collection[SSAValue], wanted: Collection[SSAValue]
) -> set[Operation]:
    """The operations between `wanted` and `seeds` along values that can have a gradient."""
    varied: set[SSAValue] = set(wanted)
    for op in ops:
        if any(v in varied for v in op.operands):
            varied.update(r for r in op.results if _carries(r.type))
    useful: set[SSAValue] = set(seeds)
    reached: set[Operation] = set()
    for op in reversed(ops):
        inside = any(v in varied for v in op.operands)
        if inside and any(r in useful and r in varied for r in op.results):
            reached.add(op)
            useful.update(v for v in op.operands if v in varied)
    return reached


def expand(ops: Sequence[Operation], path: Collection[Operation]) -> dict[SSAValue, SSAValue]:
    """Decompose the operators on the path that have no gradient, repeatedly.

    Returns the replacement of each result of an operator of `ops` that is gone.
    """
    replaced: dict[SSAValue, SSAValue] = {}
    stack = [op for op in ops if op in path]
    while stack:
        op = stack.pop()
        if not isinstance(op, GraphOp) or op.takes_gradient():
            continue
        results, expansion = tuple(op.results), decomposed(op)
        if expansion is not None:
            values, parts = expansion
            replaced |= zip(results, values, strict=True)
            stack += parts

    def last(value: SSAValue) -> SSAValue:
        return last(replaced[value]) if value in replaced else value

    return {old: last(new) for old, new in replaced.items()}


def check(path: Collection[Operation], ops: Sequence[Operation]) -> None:
    """Raise NotDifferentiableError that lists every operator on the path without a gradient."""
    missing: list[str] = []
    for op in ops:
        if op in path and not _known(op) and described(op) not in missing:
            missing.append(described(op))
    if missing:
        raise NotDifferentiableError(missing)


def described(op: Operation) -> str:
    """An operator for a message: its name, and that of a result."""
    return op.name + next((f" (%{r.name_hint})" for r in op.results if r.name_hint), "")


def blockers(
    ops: Sequence[Operation], seeds: Collection[SSAValue], wanted: Collection[SSAValue]
) -> list[Operation]:
    """The operators between `wanted` and `seeds` whose results have no gradient: roundings, comparisons."""
    reached, varied = set(wanted), set(wanted)
    for op in ops:
        if any(v in reached for v in op.operands):
            reached.update(op.results)
        if any(v in varied for v in op.operands):
            varied.update(r for r in op.results if _carries(r.type))
    useful: set[SSAValue] = set(seeds)
    blocking: list[Operation] = []
    for op in reversed(ops):
        if not any(r in useful for r in op.results):
            continue
        useful.update(v for v in op.operands if v in reached)
        if any(v in varied for v in op.operands) and not any(r in varied for r in op.results):
            blocking.append(op)
    return blocking[::-1]


def flat(
    ops: Sequence[Operation], seeds: Collection[SSAValue], wanted: Collection[SSAValue], b: Builder
) -> list[Operation]:
    """The operators between `wanted` and `seeds` whose gradient is zero wherever there is one: steps."""
    path = on_path(ops, seeds, wanted)
    contents: list[Operation] = []
    for op in ops:
        if op in path and isinstance(op, GraphOp):
            grads = [b.splat(1, r) if differentiable(r.type) else None for r in op.results]
            if all(g is None for g in op.gradient(grads, b)):
                contents.append(op)
    return contents


def cotangents(
    ops: Sequence[Operation], seeds: Mapping[SSAValue, SSAValue], wanted: Collection[SSAValue], b: Builder
) -> dict[SSAValue, SSAValue | None]:
    """Gradients of `wanted` where the values of `seeds` have the given gradients.

    `ops` are in order, already expanded; `b` inserts after all of them. None where a value does not
    matter. Gradients of a value that is used several times are added.
    """
    path = on_path(ops, seeds, wanted)
    check(path, ops)
    known: dict[SSAValue, SSAValue] = dict(seeds)
    for op in reversed(ops):
        if op not in path:
            continue
        assert isinstance(op, GraphOp)
        grads = [known.get(r) for r in op.results]
        if all(g is None for g in grads):
            continue
        try:
            operand_grads = op.gradient(grads, b)
        except NotImplementedError as error:
            raise NotDifferentiableError([str(error)]) from None
        operands = [v for name, _ in op.operand_groups() for v in op.operand_group(name)]
        assert len(operand_grads) == len(operands), (
            f"{op.name}: {len(operand_grads)} gradients, {len(operands)} operands"
        )
        for value, grad in zip(operands, operand_grads, strict=True):
            if grad is None or not _carries(value.type):
                continue
            same = grad.type == value.type or not differentiable(value.type)
            assert same, f"{op.name}: gradient {grad.type} of a {value.type}"
            old = known.get(value)
            known[value] = grad if old is None else b(AddOp(old, grad))
    return {v: known.get(v) for v in wanted}
