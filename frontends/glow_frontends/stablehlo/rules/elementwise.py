"""Element by element: one table, and functions for what is no operator of the graph by itself."""

from __future__ import annotations

from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of, element_type, is_float
from glow_dialects.ops.activation import SigmoidOp, TanhOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, FmodOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.logic import (
    AndOp,
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    IsInfOp,
    IsNanOp,
    NotOp,
    OrOp,
    ShiftLeftOp,
    ShiftRightOp,
    XorOp,
)
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import (
    AbsOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CeilOp,
    CoshOp,
    CosOp,
    ErfOp,
    Expm1Op,
    ExpOp,
    FloorOp,
    Log1pOp,
    LogOp,
    NegOp,
    RoundOp,
    RsqrtOp,
    SignOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanOp,
    TruncOp,
)
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape, type_of
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.values import cast, expand, like, pointwise

#: Operators that are the same.
SAME: dict[str, type[GraphOp]] = {
    "abs": AbsOp,
    "add": AddOp,
    "ceil": CeilOp,
    "cosine": CosOp,
    "divide": DivOp,
    "exponential": ExpOp,
    "exponential_minus_one": Expm1Op,
    "floor": FloorOp,
    "log": LogOp,
    "log_plus_one": Log1pOp,
    "logistic": SigmoidOp,
    "multiply": MulOp,
    "negate": NegOp,
    "power": PowOp,
    "remainder": FmodOp,
    "round_nearest_even": RoundOp,
    "rsqrt": RsqrtOp,
    "select": SelectOp,
    "shift_left": ShiftLeftOp,
    "sign": SignOp,
    "sine": SinOp,
    "sqrt": SqrtOp,
    "subtract": SubOp,
    "tan": TanOp,
    "tanh": TanhOp,
    "chlo.acos": AcosOp,
    "chlo.acosh": AcoshOp,
    "chlo.asin": AsinOp,
    "chlo.asinh": AsinhOp,
    "chlo.atan": AtanOp,
    "chlo.atanh": AtanhOp,
    "chlo.cosh": CoshOp,
    "chlo.erf": ErfOp,
    "chlo.sinh": SinhOp,
    "chlo.tan": TanOp,
}
#: Of booleans, and of the bits of integers.
LOGIC: dict[str, tuple[type[GraphOp], type[GraphOp]]] = {
    "and": (AndOp, BitwiseAndOp),
    "or": (OrOp, BitwiseOrOp),
    "xor": (XorOp, BitwiseXorOp),
    "not": (NotOp, BitwiseNotOp),
}
COMPARISONS: dict[str, type[GraphOp]] = {
    "EQ": CmpEqOp,
    "NE": CmpNeOp,
    "LT": CmpLtOp,
    "LE": CmpLeOp,
    "GT": CmpGtOp,
    "GE": CmpGeOp,
}


def _same(kind: type[GraphOp], g: Emitter, n: Node) -> Value:
    return pointwise(g, kind, *n.operands)


def _logic(kinds: tuple[type[GraphOp], type[GraphOp]], g: Emitter, n: Node) -> Value:
    return pointwise(g, kinds[dtype_of_value(n[0]) != bool], *n.operands)


def extreme(kind: type[GraphOp], least: float, g: Emitter, n: Node) -> Value:
    """maximum, minimum; an infinity that no number passes changes nothing."""
    for x, limit in (n.operands, n.operands[::-1]):
        if isinstance(limit, np.ndarray) and limit.dtype.kind == "f" and bool((limit == least).all()):
            return x
    return pointwise(g, kind, *n.operands)


def compare(g: Emitter, n: Node) -> Value:
    """compare; in the order of all floats only as far as it is that of numbers."""
    direction = n.word("comparison_direction")
    if direction not in COMPARISONS:
        raise RuleError(f"comparison_direction {direction}, expected one of {', '.join(COMPARISONS)}")
    return pointwise(g, COMPARISONS[direction], n[0], n[1])


def clamp(g: Emitter, n: Node) -> Value:
    """clamp(least, x, most)."""
    return pointwise(g, MinOp, pointwise(g, MaxOp, n[1], n[0]), n[2])


def convert(g: Emitter, n: Node) -> Value:
    """convert."""
    return cast(g, n[0], n.element())


def bits(g: Emitter, n: Node) -> Value:
    """bitcast_convert: narrow numbers along a last axis are one wide one, the first its lowest bits."""
    x, to = n[0], n.element()
    source, target = dtype_of_value(x), dtype_of(to)
    if source.itemsize == target.itemsize:
        return bit_cast(g, x, to)
    plain = [element_type(f"uint{8 * d.itemsize}") for d in (source, target)]
    narrow, wide = sorted((source.itemsize, target.itemsize))
    places = (np.arange(wide // narrow) * 8 * narrow).astype(f"uint{8 * wide}")
    x = bit_cast(g, x, plain[0])
    if source.itemsize > target.itemsize:
        x = expand(g, g.reshape(x, (*shape(x), 1)), (*shape(x), len(places)))
        return bit_cast(g, cast(g, pointwise(g, ShiftRightOp, x, places), plain[1]), to)
    parts = pointwise(g, ShiftLeftOp, cast(g, x, plain[1]), places)
    return bit_cast(g, g(ReduceSumOp, parts, axes=(rank(x) - 1,), keepdims=False), to)


def bit_cast(g: Emitter, x: Value, element: Attribute) -> Value:
    """The bits of x as another element type."""
    return pointwise(g, BitCastOp, x, element=element)


def is_finite(g: Emitter, n: Node) -> Value:
    """is_finite."""
    odd = pointwise(g, OrOp, pointwise(g, IsNanOp, n[0]), pointwise(g, IsInfOp, n[0]))
    return pointwise(g, NotOp, odd)


def shift_right(signed: bool, g: Emitter, n: Node) -> Value:
    """shift_right_arithmetic, shift_right_logical: a shift of integers with, or without, a sign."""
    kind = n.element()
    if not isinstance(kind, IntegerType):
        raise RuleError(f"a shift of {kind}")
    is_signed = kind.signedness.data is not Signedness.UNSIGNED
    if is_signed == signed:
        return pointwise(g, ShiftRightOp, n[0], n[1])
    width = kind.width.data
    other = element_type(f"{'int' if signed else 'uint'}{width}")
    moved = pointwise(g, ShiftRightOp, bit_cast(g, n[0], other), bit_cast(g, n[1], other))
    return bit_cast(g, moved, kind)


def round_away(g: Emitter, n: Node) -> Value:
    """round_nearest_afz: halves away from zero."""
    size = pointwise(g, AbsOp, n[0])
    whole = pointwise(g, TruncOp, size)
    up = pointwise(g, CmpGeOp, pointwise(g, SubOp, size, whole), like(0.5, size))
    whole = pointwise(g, AddOp, whole, cast(g, up, type_of(size).element_type))
    return pointwise(g, MulOp, whole, pointwise(g, SignOp, n[0]))


def cbrt(g: Emitter, n: Node) -> Value:
    """cbrt."""
    root = pointwise(g, PowOp, pointwise(g, AbsOp, n[0]), like(1 / 3, n[0]))
    return pointwise(g, MulOp, root, pointwise(g, SignOp, n[0]))


def atan2(g: Emitter, n: Node) -> Value:
    """atan2(y, x): atan(y / x), turned by half a turn left of the y axis; 1 known as x stays an atan."""
    y, x = n[0], n[1]
    if isinstance(x, np.ndarray) and bool((x > 0).all()):
        return pointwise(g, AtanOp, pointwise(g, DivOp, y, x))
    zero, half = like(0.0, y), like(np.pi, y)
    is_zero = pointwise(g, AndOp, pointwise(g, CmpEqOp, x, zero), pointwise(g, CmpEqOp, y, zero))
    safe = pointwise(g, SelectOp, is_zero, like(1.0, y), x)
    angle = pointwise(g, AtanOp, pointwise(g, DivOp, y, safe))
    turn = pointwise(g, SelectOp, pointwise(g, CmpLtOp, y, zero), pointwise(g, NegOp, half), half)
    return pointwise(g, SelectOp, pointwise(g, CmpLtOp, x, zero), pointwise(g, AddOp, angle, turn), angle)


def popcnt(g: Emitter, n: Node) -> Value:
    """popcnt: how many bits are one, by sums of ever wider fields."""
    x, width = _unsigned(g, n[0])
    ones = (1 << width) - 1

    def part(value: Value, shift: int, mask: int) -> Value:
        moved = pointwise(g, ShiftRightOp, value, like(shift, value)) if shift else value
        return pointwise(g, BitwiseAndOp, moved, like(mask & ones, value))

    shift = 1
    while shift < width:
        mask = ones // ((1 << shift) + 1)  # fields of `shift` ones and as many zeros
        x = pointwise(g, AddOp, part(x, 0, mask), part(x, shift, mask))
        shift *= 2
    return bit_cast(g, x, n.element())


def leading_zeros(g: Emitter, n: Node) -> Value:
    """count_leading_zeros: the highest one bit is copied into all below, and what is left is counted."""
    x, width = _unsigned(g, n[0])
    shift = 1
    while shift < width:
        x = pointwise(g, BitwiseOrOp, x, pointwise(g, ShiftRightOp, x, like(shift, x)))
        shift *= 2
    left = Node(n.op, [pointwise(g, BitwiseNotOp, x)], n.program)
    return popcnt(g, left)


def _unsigned(g: Emitter, x: Value) -> tuple[Value, int]:
    """The bits of integers as unsigned ones, and how many there are in each."""
    dtype = dtype_of_value(x)
    if dtype.kind not in "iu":
        raise RuleError(f"the bits of {type_of(x)}")
    width = dtype.itemsize * 8
    return bit_cast(g, x, element_type(f"uint{width}")), width


def erfc(g: Emitter, n: Node) -> Value:
    """1 - erf(x); far to the right it is 0 where the function is tiny."""
    return pointwise(g, SubOp, like(1.0, n[0]), pointwise(g, ErfOp, n[0]))


def square(g: Emitter, n: Node) -> Value:
    """chlo.square."""
    return pointwise(g, MulOp, n[0], n[0])


def is_inf(g: Emitter, n: Node) -> Value:
    """chlo.is_inf."""
    return pointwise(g, IsInfOp, n[0])


def real(g: Emitter, n: Node) -> Value:
    """real of what is real; complex numbers are refused by their types."""
    del g
    return n[0]


def reduce_precision(g: Emitter, n: Node) -> Value:
    """reduce_precision to the bits of a type that there is."""
    widths = {(5, 10): "float16", (8, 7): "bfloat16", (8, 23): "float32", (11, 52): "float64"}
    asked = n.integer("exponent_bits"), n.integer("mantissa_bits")
    if asked not in widths or not is_float(n.element()):
        raise RuleError(f"to {asked[0]} bits of exponent and {asked[1]} of mantissa, which no type has")
    return cast(g, cast(g, n[0], element_type(widths[asked])), n.element())


def partition_id(g: Emitter, n: Node) -> Value:
    """partition_id, replica_id: programs run on one device."""
    del g, n
    return np.zeros((), np.uint32)


RULES: dict[str, Rule] = {
    **{name: partial(_same, kind) for name, kind in SAME.items()},
    **{name: partial(_logic, kinds) for name, kinds in LOGIC.items()},
    "atan2": atan2,
    "bitcast_convert": bits,
    "cbrt": cbrt,
    "clamp": clamp,
    "compare": compare,
    "convert": convert,
    "count_leading_zeros": leading_zeros,
    "is_finite": is_finite,
    "maximum": partial(extreme, MaxOp, -np.inf),
    "minimum": partial(extreme, MinOp, np.inf),
    "partition_id": partition_id,
    "popcnt": popcnt,
    "real": real,
    "reduce_precision": reduce_precision,
    "replica_id": partition_id,
    "round_nearest_afz": round_away,
    "shift_right_arithmetic": partial(shift_right, True),
    "shift_right_logical": partial(shift_right, False),
    "chlo.erfc": erfc,
    "chlo.is_inf": is_inf,
    "chlo.square": square,
}
