"""How element-wise operators are written in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops import named
from glow_dialects.ops.activation import ClipOp, SwishOp
from glow_dialects.ops.arithmetic import DivOp, FloorDivOp, FmodOp, MaxOp, MinOp, ModOp, PowOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpNeOp
from glow_dialects.ops.elementwise import BinaryOp, RoundingOp
from glow_dialects.ops.logic import IsInfOp, ShiftLeftOp, ShiftRightOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, Expm1Op, Log1pOp, RsqrtOp, SignOp, TruncOp
from glow_frontends.onnx.export.rule import Exporter, Rule, element_dtype
from glow_frontends.onnx.tensors import onnx_type


def same(kind: type[GraphOp]) -> Rule:
    """The ONNX operator that a card names, on the same operands; properties become attributes."""
    words = _ROUNDED if issubclass(kind, RoundingOp) else {}
    if kind.LOGIC is not None:
        words = {"b": kind.LOGIC.ONNX}

    def rule(op: GraphOp, e: Exporter) -> str | Sequence[str]:
        attributes = {n: getattr(op, n) for n in kind.property_defaults()}
        word = words.get(element_dtype(op.operands[0]).kind, kind.ONNX)
        return e.node(word, [e.name(v) for v in op.operands], len(op.results), **attributes)

    return rule


#: Integers stay as they are where floats are rounded.
_ROUNDED = dict.fromkeys("iu", "Identity")


def _not(kind: str) -> Rule:
    """The negation of a comparison."""

    def rule(op: BinaryOp, e: Exporter) -> str:
        return e.node("Not", [e.node(kind, [e.name(v) for v in op.operands])])

    return rule


def _wide(rule: Rule) -> Rule:
    """Compute in int64 where ONNX runtimes lack the small integer types."""

    def wide(op: GraphOp, e: Exporter) -> str:
        dtype = element_dtype(op.results[0])
        if dtype.kind not in "iu" or dtype in (np.dtype(np.int32), np.dtype(np.int64)):
            result = rule(op, e)
            assert isinstance(result, str)
            return result
        saved = {v: e.names[v] for v in op.operands}
        for value in saved:
            e.names[value] = e.node("Cast", [saved[value]], to=onnx_type(np.dtype(np.int64)))
        result = rule(op, e)
        e.names.update(saved)
        assert isinstance(result, str)
        return e.node("Cast", [result], to=onnx_type(dtype))

    return wide


#: Types that runtimes select in, for those that they lack.
_SELECTED = {
    "bool": np.int32,
    "int16": np.int32,
    "uint16": np.int32,
    "uint64": np.int64,
    "bfloat16": np.float32,
}


def _select(op: SelectOp, e: Exporter) -> str:
    dtype = element_dtype(op.results[0])
    condition, *sides = (e.name(v) for v in op.operands)
    wide = _SELECTED.get(dtype.name)
    if wide is None:
        return e.node("Where", [condition, *sides])
    through = [e.node("Cast", [side], to=onnx_type(np.dtype(wide))) for side in sides]
    return e.node("Cast", [e.node("Where", [condition, *through])], to=onnx_type(dtype))


def _mod(floor: bool) -> Rule:
    def rule(op: BinaryOp, e: Exporter) -> str:
        x, y = (e.name(v) for v in op.operands)
        if element_dtype(op.lhs).kind != "f":
            return e.node("Mod", [x, y], fmod=int(not floor))
        if not floor:
            return e.node("Mod", [x, y], fmod=1)
        whole = e.node("Floor", [e.node("Div", [x, y])])
        return e.node("Sub", [x, e.node("Mul", [whole, y])])

    return rule


def _floor_div(op: FloorDivOp, e: Exporter) -> str:
    x, y = (e.name(v) for v in op.operands)
    if element_dtype(op.lhs).kind == "f":
        return e.node("Floor", [e.node("Div", [x, y])])
    return e.node("Div", [e.node("Sub", [x, e.node("Mod", [x, y])]), y])


def _rsqrt(op: RsqrtOp, e: Exporter) -> str:
    return e.node("Reciprocal", [e.node("Sqrt", [e.name(op.input)])])


def _trunc(op: TruncOp, e: Exporter) -> str:
    x = e.name(op.input)
    return e.node("Mul", [e.node("Sign", [x]), e.node("Floor", [e.node("Abs", [x])])])


def _log1p(op: Log1pOp, e: Exporter) -> str:
    return e.node("Log", [e.node("Add", [e.name(op.input), e.scalar(1, op.input)])])


def _expm1(op: Expm1Op, e: Exporter) -> str:
    return e.node("Sub", [e.node("Exp", [e.name(op.input)]), e.scalar(1, op.input)])


def _shift(direction: str) -> Rule:
    def rule(op: BinaryOp, e: Exporter) -> str:
        return e.node("BitShift", [e.name(v) for v in op.operands], direction=direction)

    return rule


def _is_inf(op: IsInfOp, e: Exporter) -> str:
    flags = {n: int(bool(getattr(op, n))) for n in ("detect_negative", "detect_positive")}
    return e.node("IsInf", [e.name(op.input)], **flags)


def _clip(op: ClipOp, e: Exporter) -> str:
    bounds = ["" if np.isinf(b) else e.scalar(b, op.input) for b in (op.min, op.max)]
    return e.node("Clip", [e.name(op.input), *bounds])


def _swish(op: SwishOp, e: Exporter) -> str:
    x, alpha = e.name(op.input), op.alpha
    inner = x if alpha == 1 else e.node("Mul", [x, e.scalar(alpha, op.input)])
    return e.node("Mul", [x, e.node("Sigmoid", [inner])])


def _cast(op: CastOp, e: Exporter) -> str:
    return e.node("Cast", [e.name(op.input)], to=onnx_type(element_dtype(op.results[0])))


_SMALL_INTEGERS_LACK = (PowOp, MaxOp, MinOp, DivOp, AbsOp, SignOp, ModOp, FmodOp, FloorDivOp)

_OWN: dict[type[GraphOp], Rule] = {
    ModOp: _mod(floor=True),
    FmodOp: _mod(floor=False),
    FloorDivOp: _floor_div,
    CmpNeOp: _not("Equal"),
    SelectOp: _select,
    RsqrtOp: _rsqrt,
    TruncOp: _trunc,
    Log1pOp: _log1p,
    Expm1Op: _expm1,
    ClipOp: _clip,
    ShiftLeftOp: _shift("LEFT"),
    ShiftRightOp: _shift("RIGHT"),
    IsInfOp: _is_inf,
    SwishOp: _swish,
    CastOp: _cast,
}

_RULES: dict[type[GraphOp], Rule] = {**{kind: same(kind) for kind in named("ONNX").values()}, **_OWN}
#: With those that compute in int64 where runtimes lack the small integers.
RULES = _RULES | {op: _wide(_RULES[op]) for op in _SMALL_INTEGERS_LACK}
