"""Identities of arithmetic, with constants gathered on the right and merged."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, shape_of
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from glow_dialects.ops.elementwise import BinaryOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.logic import NotOp
from glow_dialects.ops.powers import SquareOp
from glow_dialects.ops.reduce import ReduceMeanOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.unary_math import NegOp, ReciprocalOp, SqrtOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import beside_constant, is_float_tensor, is_known

#: A merged constant larger than both parts is made only up to this many elements.
SMALL = 4096


def constant_second(op: BinaryOp, r: Rewriter) -> SSAValue | None:
    """add(c, x) -> add(x, c), so that other patterns look at one side only."""
    if is_known(op.lhs, r) and not is_known(op.rhs, r):
        return r(type(op)(op.rhs, op.lhs, predicate=op.predicate))
    return None


def _neutral(op: BinaryOp, number: float, r: Rewriter) -> SSAValue | None:
    return op.lhs if op.lhs.type == op.result.type and r.uniform(op.rhs) == number else None


def add_zero(op: AddOp | SubOp, r: Rewriter) -> SSAValue | None:
    """x + 0 -> x, x - 0 -> x."""
    return _neutral(op, 0, r)


def multiply_one(op: MulOp | DivOp | PowOp, r: Rewriter) -> SSAValue | None:
    """x * 1 -> x, x / 1 -> x, x ^ 1 -> x."""
    return _neutral(op, 1, r)


def no_limit(op: MaxOp | MinOp, r: Rewriter) -> SSAValue | None:
    """max(x, -inf) -> x, min(x, inf) -> x."""
    return _neutral(op, -math.inf if isinstance(op, MaxOp) else math.inf, r)


def multiply_zero(op: MulOp, r: Rewriter) -> SSAValue | None:
    """x * 0 -> 0 for integers; a float x may be NaN or infinite."""
    return r.splat(0, op.result) if not is_float_tensor(op.result) and r.uniform(op.rhs) == 0 else None


def subtract_constant(op: SubOp, r: Rewriter) -> SSAValue | None:
    """x - c -> x + (-c), which merges with other sums."""
    operands = beside_constant(op, r)
    if operands is None or operands[1].dtype.kind in "bu":
        return None
    return r(AddOp(op.lhs, r.weight(-operands[1], "negated")))


def divide_by_constant(op: DivOp, r: Rewriter) -> SSAValue | None:
    """x / c -> x * (1 / c) for floats, where 1 / c is a normal number; for doubles, where it is exact.

    Doubles are what NumPy's functions compute in, which round to decimals by a quotient. A single number
    stays divided: it takes no time, and as a scale (a range / 255) it decides how whole tensors are rounded.
    """
    operands = beside_constant(op, r)
    if operands is None or prod(shape_of(op.result)) == 1:
        return None
    with np.errstate(all="ignore"):
        inverse = (1.0 / operands[1].astype(np.float64)).astype(operands[1].dtype)
    size = np.abs(inverse.astype(np.float64))
    inexact = size.dtype == operands[1].dtype and bool(np.any(np.frexp(size)[0] != 0.5))
    if inexact or not bool(np.all(np.isfinite(size) & (size > 1e-30))):
        return None
    return r(MulOp(op.lhs, r.weight(inverse, "inverse")))


def one_over(op: DivOp, r: Rewriter) -> SSAValue | None:
    """1 / x -> reciprocal(x)."""
    if op.rhs.type != op.result.type or not is_float_tensor(op.result):
        return None
    return r(ReciprocalOp(op.rhs)) if r.uniform(op.lhs) == 1 else None


def _merged(
    op: BinaryOp, join: Callable[[Array, Array], Array], r: Rewriter
) -> tuple[SSAValue, Array] | None:
    """x and join(c1, c2) of op(op(x, c1), c2)."""
    kind = type(op)
    inner = producer(op.lhs, kind, single=True)
    first = None if inner is None else r.array(inner.rhs)
    second = None if first is None else r.array(op.rhs)
    if inner is None or first is None or second is None:
        return None
    size = prod(np.broadcast_shapes(first.shape, second.shape))
    if size > max(first.size, second.size, SMALL):
        return None
    with np.errstate(all="ignore"):
        joined = join(first, second).astype(first.dtype)
    if not bool(np.all(np.isfinite(joined.astype(np.float64)))):
        return None
    return inner.lhs, joined


_JOINS: dict[type[Operation], Callable[[Array, Array], Array]] = {
    AddOp: np.add,
    MulOp: np.multiply,
    MaxOp: np.maximum,
    MinOp: np.minimum,
}


def merge_constants(op: BinaryOp, r: Rewriter) -> SSAValue | None:
    """(x + c1) + c2 -> x + (c1 + c2), and so mul, max, min."""
    merged = _merged(op, _JOINS[type(op)], r)
    if merged is None:
        return None
    x, joined = merged
    if isinstance(op, AddOp) and joined.dtype.kind == "f":
        # A sum that cancels rounds x, perhaps on purpose: (x + 1.5 * 2^23) - 1.5 * 2^23 is a whole number.
        second = r.array(op.rhs)
        if second is None or bool(np.any(2 * np.abs(joined) < np.abs(second))):
            return None
    floats = isinstance(op, MulOp) and joined.dtype.kind == "f"
    if floats and bool(np.any(np.abs(joined.astype(np.float64)) < 1e-30)):
        return None  # a product that underflows would lose what the two steps keep
    return r(type(op)(x, r.weight(joined, "merged")))


def power(op: PowOp, r: Rewriter) -> SSAValue | None:
    """x ^ 2 -> x * x, x ^ -1 -> reciprocal(x), x ^ 0 -> 1, and x ^ 0.5 -> sqrt(x) where x is not negative.

    The power of -inf is inf, and that of -0 is 0.
    """
    if op.lhs.type != op.result.type:
        return None
    exponent = r.uniform(op.rhs)
    if exponent == 2:
        return r(MulOp(op.lhs, op.lhs))
    if exponent == 0:
        return r.splat(1, op.result)
    if not is_float_tensor(op.result):
        return None
    if exponent == 3:
        return r(MulOp(r(MulOp(op.lhs, op.lhs)), op.lhs))
    if exponent == -1:
        return r(ReciprocalOp(op.lhs))
    if exponent not in (0.5, -0.5) or not _not_negative(op.lhs, r):
        return None
    root = r(SqrtOp(op.lhs))
    return root if exponent > 0 else r(ReciprocalOp(root))


def _not_negative(x: SSAValue, r: Rewriter) -> bool:
    """Whether no element is below 0: squares, sums and means of such, functions with such a range."""
    number = r.uniform(x)
    if number is not None:
        return number >= 0
    match x.owner:
        case MulOp(lhs=a, rhs=b) if a == b:
            return True
        case AddOp(lhs=a, rhs=b) | MulOp(lhs=a, rhs=b) | DivOp(lhs=a, rhs=b):
            return _not_negative(a, r) and _not_negative(b, r)
        case MaxOp(lhs=a, rhs=b):
            return _not_negative(a, r) or _not_negative(b, r)
        case ReduceMeanOp(input=a) | ReduceSumOp(input=a) | ReshapeOp(input=a) | ExpandOp(input=a):
            return _not_negative(a, r)
        case GraphOp() as op:
            return op.RANGE[0] >= 0
        case _:
            return False


def squared(op: SquareOp, r: Rewriter) -> SSAValue | None:
    """square(x) -> x * x, which other patterns know."""
    return r(MulOp(op.input, op.input))


def twice(op: NegOp | NotOp, r: Rewriter) -> SSAValue | None:
    """neg(neg(x)) -> x, not(not(x)) -> x."""
    kind = type(op)
    inner = producer(op.input, kind)
    return None if inner is None else inner.input


def add_negated(op: AddOp, r: Rewriter) -> SSAValue | None:
    """x + neg(y) -> x - y, neg(x) + y -> y - x."""
    right = producer(op.rhs, NegOp)
    if right is not None:
        return r(SubOp(op.lhs, right.input))
    left = producer(op.lhs, NegOp)
    return None if left is None else r(SubOp(op.rhs, left.input))


def subtract_negated(op: SubOp, r: Rewriter) -> SSAValue | None:
    """x - neg(y) -> x + y."""
    right = producer(op.rhs, NegOp)
    return None if right is None else r(AddOp(op.lhs, right.input))


PATTERNS = (
    Pattern((GraphOp,), constant_second, lambda op: op.COMMUTATIVE),
    Pattern((AddOp, SubOp), add_zero),
    Pattern((MulOp, DivOp, PowOp), multiply_one),
    Pattern((MaxOp, MinOp), no_limit),
    Pattern((MulOp,), multiply_zero),
    Pattern((SubOp,), subtract_constant),
    Pattern((DivOp,), divide_by_constant),
    Pattern((DivOp,), one_over),
    Pattern((AddOp, MulOp, MaxOp, MinOp), merge_constants),
    Pattern((PowOp,), power),
    Pattern((SquareOp,), squared),
    Pattern((NegOp, NotOp), twice),
    Pattern((AddOp,), add_negated),
    Pattern((SubOp,), subtract_negated),
)
