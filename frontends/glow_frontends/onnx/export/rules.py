"""How operators are written in ONNX: one rule an operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.activation import (
    CeluOp,
    ClipOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    PreluOp,
    SeluOp,
    SigmoidOp,
    SoftplusOp,
    SoftsignOp,
    SwishOp,
    TanhOp,
    ThresholdedReluOp,
)
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.arithmetic import (
    AddOp,
    DivOp,
    FloorDivOp,
    FmodOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    PowOp,
    SubOp,
)
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.dropout import DropoutOp
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.iota import IotaOp, SizesOp
from glow_dialects.ops.literal import LiteralOp
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
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceLogSumOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    ReduceSumSquareOp,
    ReductionOp,
)
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.trilu import TriluOp
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
    ReciprocalOp,
    RoundOp,
    RsqrtOp,
    SignOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanOp,
    TruncOp,
)
from glow_frontends.onnx.export.bounded_selection import RULES as PLACES_RULES
from glow_frontends.onnx.export.nn import RULES as NN_RULES
from glow_frontends.onnx.export.quantized import RULES as QUANTIZED_RULES
from glow_frontends.onnx.export.rule import Exporter, Rule, element_dtype
from glow_frontends.onnx.tensors import onnx_type


def same(kind: str, *properties: str, **renamed: str) -> Rule:
    """The ONNX operator `kind` on the same operands; `properties` become attributes (or renamed ones)."""

    def rule(op: GraphOp, e: Exporter) -> str | Sequence[str]:
        attributes = {n: getattr(op, n) for n in properties}
        attributes |= {onnx_name: getattr(op, ours) for ours, onnx_name in renamed.items()}
        return e.node(kind, [e.name(v) for v in op.operands], len(op.results), **attributes)

    return rule


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


def _boolean(arithmetic: str, logical: str) -> Rule:
    """An arithmetic operator, or its logical twin on booleans."""

    def rule(op: BinaryOp, e: Exporter) -> str:
        kind = logical if element_dtype(op.lhs) == bool else arithmetic
        return e.node(kind, [e.name(v) for v in op.operands])

    return rule


def _rounding(kind: str) -> Rule:
    """Rounding, which leaves integers as they are."""

    def rule(op: UnaryOp, e: Exporter) -> str:
        known = kind if element_dtype(op.input).kind not in "iu" else "Identity"
        return e.node(known, [e.name(op.input)])

    return rule


def _shift(direction: str) -> Rule:
    def rule(op: BinaryOp, e: Exporter) -> str:
        return e.node("BitShift", [e.name(v) for v in op.operands], direction=direction)

    return rule


def _is_inf(op: IsInfOp, e: Exporter) -> str:
    flags = {n: int(bool(getattr(op, n))) for n in ("detect_negative", "detect_positive")}
    return e.node("IsInf", [e.name(op.input)], **flags)


def _indexed(kind: str, *properties: str) -> Rule:
    """An operator whose second operand are indices, which ONNX wants as int64."""

    def rule(op: GraphOp, e: Exporter) -> str:
        inputs = [e.name(v) for v in op.operands]
        if element_dtype(op.operands[1]) != np.int64:
            inputs[1] = e.node("Cast", [inputs[1]], to=onnx_type(np.dtype(np.int64)))
        return e.node(kind, inputs, **{n: getattr(op, n) for n in properties})

    return rule


def _clip(op: ClipOp, e: Exporter) -> str:
    bounds = ["" if np.isinf(b) else e.scalar(b, op.input) for b in (op.min, op.max)]
    return e.node("Clip", [e.name(op.input), *bounds])


def _swish(op: SwishOp, e: Exporter) -> str:
    x, alpha = e.name(op.input), op.alpha
    inner = x if alpha == 1 else e.node("Mul", [x, e.scalar(alpha, op.input)])
    return e.node("Mul", [x, e.node("Sigmoid", [inner])])


def _gelu(op: GeluOp, e: Exporter) -> str:
    return e.node("Gelu", [e.name(op.input)], approximate=op.approximate)


def _cast(op: CastOp, e: Exporter) -> str:
    return e.node("Cast", [e.name(op.input)], to=onnx_type(element_dtype(op.results[0])))


def _splat(op: SplatOp, e: Exporter) -> str:
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    value = e.constant(np.array(op.value).astype(dtype))
    return value if not shape else e.node("Expand", [value, e.ints(*shape)])


def _known(op: GraphOp, e: Exporter) -> str:
    """The values of an operator without operands."""
    return e.constant(op.evaluate([])[0])


# --- shapes ---------------------------------------------------------------------------------------


def _reshape(op: ReshapeOp, e: Exporter) -> str:
    return e.node("Reshape", [e.name(op.input), e.ints(*shape_of(op.results[0]))], allowzero=1)


def _expand(op: ExpandOp, e: Exporter) -> str:
    return e.node("Expand", [e.name(op.input), e.ints(*shape_of(op.results[0]))])


def _concat(op: ConcatOp, e: Exporter) -> str:
    return e.node("Concat", [e.name(v) for v in op.inputs], axis=op.axis)


def _slice(op: SliceOp, e: Exporter) -> str:
    starts, ends, steps = op.starts, op.ends, op.steps
    steps = steps or (1,) * len(starts)
    # An end before the first element has no number of its own in ONNX: the smallest one says it.
    ends = [np.iinfo(np.int64).min if s < 0 and end < 0 else end for end, s in zip(ends, steps, strict=True)]
    axes = range(len(starts))
    return e.node("Slice", [e.name(op.input), e.ints(*starts), e.ints(*ends), e.ints(*axes), e.ints(*steps)])


def _flip(op: FlipOp, e: Exporter) -> str:
    axes = op.axes
    low = np.iinfo(np.int64).min
    parts = [e.ints(*[v] * len(axes)) for v in (-1, low)]
    return e.node("Slice", [e.name(op.input), *parts, e.ints(*axes), e.ints(*[-1] * len(axes))])


def _insert(op: InsertOp, e: Exporter) -> str:
    """ScatterND with the indices of the covered block."""
    starts, small = op.starts, shape_of(op.small)
    steps = op.steps or (1,) * len(starts)
    ranges = [s + np.arange(n) * p for s, n, p in zip(starts, small, steps, strict=True)]
    grid = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).astype(np.int64)
    return e.node("ScatterND", [e.name(op.big), e.constant(grid, "indices"), e.name(op.small)])


def _tile(op: TileOp, e: Exporter) -> str:
    return e.node("Tile", [e.name(op.input), e.ints(*op.repeats)])


def _transpose(op: TransposeOp, e: Exporter) -> str:
    if not op.permutation:
        return e.node("Identity", [e.name(op.input)])
    return e.node("Transpose", [e.name(op.input)], perm=op.permutation)


def _pad(op: PadOp, e: Exporter) -> str:
    inputs = [e.name(op.input), e.ints(*op.pads)]
    mode = op.mode
    if mode == "constant":
        inputs.append(e.constant(np.array(op.value).astype(element_dtype(op.input))))
    return e.node("Pad", inputs, mode=mode)


def _reduce(kind: str) -> Rule:
    def rule(op: ReductionOp, e: Exporter) -> str:
        inputs = [e.name(op.input), e.ints(*op.axes)]
        return e.node(kind, inputs, keepdims=int(bool(op.keepdims)), noop_with_empty_axes=1)

    return rule


def _arg(kind: str) -> Rule:
    def rule(op: ArgMaxOp | ArgMinOp, e: Exporter) -> str:
        return e.node(
            kind,
            [e.name(op.input)],
            axis=op.axis,
            keepdims=int(bool(op.keepdims)),
            select_last_index=int(bool(op.select_last_index)),
        )

    return rule


def _top_k(op: TopKOp, e: Exporter) -> Sequence[str]:
    flags = {n: int(bool(getattr(op, n))) for n in ("largest", "sorted")}
    return e.node("TopK", [e.name(op.input), e.ints(op.k)], 2, axis=op.axis, **flags)


def _cumsum(op: CumsumOp, e: Exporter) -> str:
    flags = {n: int(bool(getattr(op, n))) for n in ("exclusive", "reverse")}
    axis = e.constant(np.array(op.axis, np.int64))
    return e.node("CumSum", [e.name(op.input), axis], **flags)


def _trilu(op: TriluOp, e: Exporter) -> str:
    k = e.constant(np.array(op.k or 0, np.int64))
    return e.node("Trilu", [e.name(op.input), k], upper=int(bool(op.upper)))


def _dropout(op: DropoutOp, e: Exporter) -> Sequence[str]:
    """Inference keeps everything; the ratio is for the next training."""
    ratio = e.scalar(op.ratio, op.input)
    return e.node("Dropout", [e.name(op.input), ratio], 2, seed=op.seed)


def _resize(op: ResizeOp, e: Exporter) -> str:
    """Scales where they make the sizes, else the sizes themselves."""
    shape, sizes, scales = shape_of(op.input), op.sizes, op.scales
    by_scale = bool(scales) and all(int(d * s) == n for d, s, n in zip(shape, scales, sizes, strict=True))
    roi = e.constant(np.array(op.roi, np.float32), "roi") if op.roi else ""
    if by_scale:
        inputs = [e.name(op.input), roi, e.constant(np.array(scales, np.float32), "scales")]
    else:
        inputs = [e.name(op.input), roi, "", e.ints(*sizes)]
    names = ("mode", "coordinate_transformation_mode", "cubic_coeff_a", "extrapolation_value")
    nearest = op.nearest_mode
    return e.node(
        "Resize",
        inputs,
        exclude_outside=int(op.exclude_outside),
        antialias=int(op.antialias),
        nearest_mode=nearest if op.mode == "nearest" else None,
        **{n: getattr(op, n) for n in names},
    )


_UNARY: dict[type[GraphOp], str] = {
    NegOp: "Neg",
    AbsOp: "Abs",
    SignOp: "Sign",
    SqrtOp: "Sqrt",
    ReciprocalOp: "Reciprocal",
    SinOp: "Sin",
    CosOp: "Cos",
    TanOp: "Tan",
    AsinOp: "Asin",
    AcosOp: "Acos",
    AtanOp: "Atan",
    SinhOp: "Sinh",
    CoshOp: "Cosh",
    AsinhOp: "Asinh",
    AcoshOp: "Acosh",
    AtanhOp: "Atanh",
    ExpOp: "Exp",
    LogOp: "Log",
    ErfOp: "Erf",
    NotOp: "Not",
    BitwiseNotOp: "BitwiseNot",
    IsNanOp: "IsNaN",
    ReluOp: "Relu",
    SigmoidOp: "Sigmoid",
    TanhOp: "Tanh",
    SoftplusOp: "Softplus",
    SoftsignOp: "Softsign",
    MishOp: "Mish",
    HardSwishOp: "HardSwish",
    IdentityOp: "Identity",
}
_BINARY: dict[type[GraphOp], str] = {
    DivOp: "Div",
    MaxOp: "Max",
    MinOp: "Min",
    PowOp: "Pow",
    AndOp: "And",
    OrOp: "Or",
    XorOp: "Xor",
    BitwiseAndOp: "BitwiseAnd",
    BitwiseOrOp: "BitwiseOr",
    BitwiseXorOp: "BitwiseXor",
    CmpEqOp: "Equal",
    CmpLtOp: "Less",
    CmpLeOp: "LessOrEqual",
    CmpGtOp: "Greater",
    CmpGeOp: "GreaterOrEqual",
    PreluOp: "PRelu",
}
_REDUCTIONS: dict[type[GraphOp], str] = {
    ReduceSumOp: "ReduceSum",
    ReduceMeanOp: "ReduceMean",
    ReduceMaxOp: "ReduceMax",
    ReduceMinOp: "ReduceMin",
    ReduceProdOp: "ReduceProd",
    ReduceSumSquareOp: "ReduceSumSquare",
    ReduceL1Op: "ReduceL1",
    ReduceL2Op: "ReduceL2",
    ReduceLogSumOp: "ReduceLogSum",
    ReduceLogSumExpOp: "ReduceLogSumExp",
}
_SMALL_INTEGERS_LACK = (PowOp, MaxOp, MinOp, DivOp, AbsOp, SignOp, ModOp, FmodOp, FloorDivOp)

_OWN: dict[type[GraphOp], Rule] = {
    AddOp: _boolean("Add", "Or"),
    SubOp: _boolean("Sub", "Xor"),
    MulOp: _boolean("Mul", "And"),
    ModOp: _mod(floor=True),
    FmodOp: _mod(floor=False),
    FloorDivOp: _floor_div,
    CmpNeOp: _not("Equal"),
    SelectOp: _select,
    RsqrtOp: _rsqrt,
    TruncOp: _trunc,
    Log1pOp: _log1p,
    Expm1Op: _expm1,
    LeakyReluOp: same("LeakyRelu", "alpha"),
    EluOp: same("Elu", "alpha"),
    SeluOp: same("Selu", "alpha", "gamma"),
    CeluOp: same("Celu", "alpha"),
    HardSigmoidOp: same("HardSigmoid", "alpha", "beta"),
    ThresholdedReluOp: same("ThresholdedRelu", "alpha"),
    ClipOp: _clip,
    FloorOp: _rounding("Floor"),
    CeilOp: _rounding("Ceil"),
    RoundOp: _rounding("Round"),
    ShiftLeftOp: _shift("LEFT"),
    ShiftRightOp: _shift("RIGHT"),
    IsInfOp: _is_inf,
    SwishOp: _swish,
    GeluOp: _gelu,
    CastOp: _cast,
    SplatOp: _splat,
    **dict.fromkeys((LiteralOp, IotaOp, SizesOp), _known),
    ReshapeOp: _reshape,
    ExpandOp: _expand,
    ConcatOp: _concat,
    SliceOp: _slice,
    FlipOp: _flip,
    InsertOp: _insert,
    TileOp: _tile,
    TransposeOp: _transpose,
    PadOp: _pad,
    GatherOp: _indexed("Gather", "axis"),
    GatherNdOp: _indexed("GatherND", "batch_dims"),
    GatherElementsOp: _indexed("GatherElements", "axis"),
    ScatterNdOp: _indexed("ScatterND", "reduction"),
    ScatterElementsOp: _indexed("ScatterElements", "axis", "reduction"),
    ArgMaxOp: _arg("ArgMax"),
    ArgMinOp: _arg("ArgMin"),
    TopKOp: _top_k,
    CumsumOp: _cumsum,
    TriluOp: _trilu,
    ResizeOp: _resize,
    DropoutOp: _dropout,
}

_RULES: dict[type[GraphOp], Rule] = {
    **{op: same(kind) for op, kind in (_UNARY | _BINARY).items()},
    **{op: _reduce(kind) for op, kind in _REDUCTIONS.items()},
    **_OWN,
    **NN_RULES,
    **PLACES_RULES,
    **QUANTIZED_RULES,
}
RULES = _RULES | {op: _wide(_RULES[op]) for op in _SMALL_INTEGERS_LACK}
