"""Element-wise operations: graph operators by name, and formulas for the others."""

from __future__ import annotations

from functools import partial

import numpy as np
from ml_dtypes import iinfo
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of, element_type, is_float
from glow_dialects.ops import named, operator_class
from glow_dialects.ops.arithmetic import DivOp, FmodOp, MaxOp, MinOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLtOp
from glow_dialects.ops.logic import BitwiseAndOp, BitwiseXorOp, IsNanOp, OrOp, ShiftLeftOp, ShiftRightOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import SignOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape, type_of
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.values import cast, expand, like, pointwise

COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _same(kind: type[GraphOp], g: Emitter, n: Node) -> Value:
    """An operator that a card is; of booleans the logic that it is there."""
    logic = kind.LOGIC if kind.LOGIC is not None and dtype_of_value(n[0]) == bool else None
    return pointwise(g, logic or kind, *n.operands)


def extreme(kind: type[GraphOp], least: float, g: Emitter, n: Node) -> Value:
    """maximum, minimum; an infinity that no number passes changes nothing."""
    for x, limit in (n.operands, n.operands[::-1]):
        if isinstance(limit, np.ndarray) and limit.dtype.kind == "f" and bool((limit == least).all()):
            return x
    return pointwise(g, kind, *n.operands)


def compare(g: Emitter, n: Node) -> Value:
    """compare: of floats by their values, or in the order of all that there are, where -0 is below 0."""
    direction = n.word("comparison_direction")
    if direction not in COMPARISONS:
        raise RuleError(f"comparison_direction {direction}, expected one of {', '.join(COMPARISONS)}")
    operands = n.operands
    if n.word("compare_type") == "TOTALORDER" and is_float(type_of(n[0]).element_type):
        operands = [ordered(g, x) for x in operands]
    return pointwise(g, operator_class(f"cmp_{direction.lower()}"), *operands)


def ordered(g: Emitter, x: Value) -> Value:
    """Integers in the order of all floats: -NaN -inf ... -0 0 ... inf NaN."""
    width = 8 * dtype_of_value(x).itemsize
    bits = bit_cast(g, x, element_type(f"int{width}"))
    sign = pointwise(g, ShiftRightOp, bits, like(width - 1, bits))
    turned = pointwise(g, BitwiseAndOp, sign, like((1 << width - 1) - 1, bits))
    return pointwise(g, BitwiseXorOp, bits, turned)


def quotient(g: Emitter, n: Node) -> Value:
    """divide: of integers by 0 it is -1, all ones."""
    y = pointwise(g, DivOp, n[0], n[1])
    return _by_zero(g, n, y, like(-1, n[0]))


def remainder(g: Emitter, n: Node) -> Value:
    """remainder: of integers by 0 the dividend."""
    return _by_zero(g, n, pointwise(g, FmodOp, n[0], n[1]), n[0])


def _by_zero(g: Emitter, n: Node, y: Value, instead: Value) -> Value:
    divisor = n[1]
    if dtype_of_value(divisor).kind not in "iu" or (isinstance(divisor, np.ndarray) and divisor.all()):
        return y
    return pointwise(g, SelectOp, pointwise(g, CmpEqOp, divisor, like(0, divisor)), instead, y)


def sign(g: Emitter, n: Node) -> Value:
    """sign: of -0 itself."""
    y = pointwise(g, SignOp, n[0])
    if not is_float(n.element()):
        return y
    return pointwise(g, SelectOp, pointwise(g, CmpEqOp, n[0], like(0, n[0])), n[0], y)


def clamp(g: Emitter, n: Node) -> Value:
    """clamp(least, x, most)."""
    return pointwise(g, MinOp, pointwise(g, MaxOp, n[1], n[0]), n[2])


def convert(g: Emitter, n: Node) -> Value:
    """convert; floats beyond the range of integers are the nearest of these, and NaN is 0."""
    x, to = n[0], n.element()
    if not is_float(type_of(x).element_type) or dtype_of(to).kind not in "iuV" or is_float(to):
        return cast(g, x, to)
    kind = dtype_of_value(x)
    if isinstance(x, SSAValue) and kind.itemsize < 4:
        x = cast(g, x, element_type("float32"))
    info = iinfo(dtype_of(to))
    low, high = int(info.min), int(info.max)
    below = pointwise(g, CmpLtOp, x, like(low, x))
    above = pointwise(g, CmpGeOp, x, like(high + 1, x))
    outside = pointwise(g, OrOp, pointwise(g, OrOp, below, above), pointwise(g, IsNanOp, x))
    y = cast(g, pointwise(g, SelectOp, outside, like(0, x), x), to)
    y = pointwise(g, SelectOp, below, like(low, y), y)
    return pointwise(g, SelectOp, above, like(high, y), y)


def bits(g: Emitter, n: Node) -> Value:
    """bitcast_convert: narrow numbers along a last axis are one wide one, the first its lowest bits."""
    x, to = n[0], n.element()
    source, target = dtype_of_value(x), dtype_of(to)
    if {source.name, target.name} & {"bool", "int2", "uint2", "int4", "uint4"} and source != target:
        raise RuleError(f"the bits of {source} as {target}: elements of less than a byte")
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
    **{name: partial(_same, kind) for name, kind in named("STABLEHLO").items()},
    "bitcast_convert": bits,
    "clamp": clamp,
    "compare": compare,
    "convert": convert,
    "divide": quotient,
    "maximum": partial(extreme, MaxOp, -np.inf),
    "minimum": partial(extreme, MinOp, np.inf),
    "partition_id": partition_id,
    "real": real,
    "reduce_precision": reduce_precision,
    "remainder": remainder,
    "replica_id": partition_id,
    "shift_right_arithmetic": partial(shift_right, True),
    "shift_right_logical": partial(shift_right, False),
    "sign": sign,
}
