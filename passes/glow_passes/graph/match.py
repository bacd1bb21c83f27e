"""Queries about operands for patterns: which one is constant, which scalar is combined with x."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.types import Array, element_of, is_float, shape_of
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import GetOp
from glow_dialects.ops.reduce import ReductionOp, reduced_shape
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.splat import SplatOp
from glow_passes.graph.driver import Rewriter, is_used_once, producer

R = TypeVar("R", bound=ReductionOp)


def is_known(value: SSAValue, r: Rewriter) -> bool:
    """Whether the contents are known at compile time, without looking at them."""
    owner = value.owner
    if type(owner) is GetOp:
        return r.symbols.constant(owner) is not None
    return type(owner) in (SplatOp, LiteralOp)


def terms(op: AddOp) -> list[SSAValue]:
    """The addends of a tree of sums of one type, in order; empty where `op` is inside such a tree."""
    use = op.result.first_use if is_used_once(op.result) else None
    if use and isinstance(use.operation, AddOp) and use.operation.result.type == op.result.type:
        return []
    leaves: list[SSAValue] = []
    pending: list[SSAValue] = [op.result]
    while pending:
        value = pending.pop()
        inner = producer(value, AddOp)
        own = inner is not None and inner.predicate is None and (value is op.result or is_used_once(value))
        if inner is not None and own and value.type == op.result.type:
            pending += [inner.rhs, inner.lhs]
        else:
            leaves.append(value)
    return leaves


def beside_constant(op: Operation, r: Rewriter) -> tuple[SSAValue, Array] | None:
    """(x, c) of `op(x, c)` with c known and x not; patterns of algebra put constants second."""
    x, c = op.operands[0], op.operands[1]
    array = None if is_known(x, r) else r.array(c)
    return None if array is None else (x, array)


def beside_scalar(value: SSAValue, kind: type[Operation], r: Rewriter) -> tuple[SSAValue, float] | None:
    """(x, c) where `value` is kind(x, c) or kind(c, x) for one number c and has x's type."""
    op = producer(value, kind)
    if op is None:
        return None
    for x, c in ((op.operands[0], op.operands[1]), (op.operands[1], op.operands[0])):
        number = r.uniform(c)
        if number is not None and x.type == value.type:
            return x, number
    return None


def kept_reduction(value: SSAValue, kind: type[R]) -> R | None:
    """The reduction whose result `value` is, its axes kept as ones, by a reshape or not."""
    reduction = producer(without_reshape(value), kind)
    if reduction is None or shape_of(value) != reduced_shape(shape_of(reduction.input), reduction.axes, True):
        return None
    return reduction


def without_reshape(value: SSAValue) -> SSAValue:
    """What `value` is a reshape of, or itself."""
    turned = producer(value, ReshapeOp)
    return value if turned is None else turned.input


def factors(value: SSAValue, r: Rewriter, depth: int = 3) -> tuple[list[SSAValue], float]:
    """The tensors and the number whose product `value` is, through up to `depth` products."""
    op = producer(value, MulOp)
    if op is None or depth == 0:
        return [value], 1.0
    tensors: list[SSAValue] = []
    number = 1.0
    for operand in op.operands[:2]:
        number_of = r.uniform(operand)
        if number_of is not None:
            number *= number_of
        else:
            more, factor = factors(operand, r, depth - 1)
            tensors += more
            number *= factor
    return tensors, number


def is_float_tensor(value: SSAValue) -> bool:
    """Whether the elements are floating-point numbers."""
    return is_float(element_of(value))


def users(value: SSAValue) -> Iterable[Operation]:
    """Every operation that reads the value, once a use."""
    return (use.operation for use in value.uses)


def near(value: float, expected: float, tolerance: float = 1e-4) -> bool:
    """Whether a number of a model is the constant of a formula, within float16's rounding."""
    return abs(value - expected) <= tolerance * max(1.0, abs(expected))


def rank(value: SSAValue) -> int:
    """Number of dimensions."""
    return len(shape_of(value))
