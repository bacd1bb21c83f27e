"""How operators are written in ONNX: one rule an operator, by its name in the `glow` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.types import shape_of
from glow_frontends.onnx.export.bounded_selection import RULES as PLACES_RULES
from glow_frontends.onnx.export.nn import RULES as NN_RULES
from glow_frontends.onnx.export.quantized import RULES as QUANTIZED_RULES
from glow_frontends.onnx.export.rule import Exporter, Rule, element_dtype
from glow_frontends.onnx.tensors import onnx_type


def same(kind: str, *properties: str, **renamed: str) -> Rule:
    """The ONNX operator `kind` on the same operands; `properties` become attributes (or renamed ones)."""

    def rule(op: Any, e: Exporter) -> str | Sequence[str]:
        attributes = {n: getattr(op, n) for n in properties}
        attributes |= {onnx_name: getattr(op, ours) for ours, onnx_name in renamed.items()}
        return e.node(kind, [e.name(v) for v in op.operands], len(op.results), **attributes)

    return rule


def _not(kind: str) -> Rule:
    """The negation of a comparison."""

    def rule(op: Any, e: Exporter) -> str:
        return e.node("Not", [e.node(kind, [e.name(v) for v in op.operands])])

    return rule


def _wide(rule: Rule) -> Rule:
    """Compute in int64 where ONNX runtimes lack the small integer types."""

    def wide(op: Any, e: Exporter) -> str:
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


def _select(op: Any, e: Exporter) -> str:
    dtype = element_dtype(op.results[0])
    condition, *sides = (e.name(v) for v in op.operands)
    wide = _SELECTED.get(dtype.name)
    if wide is None:
        return e.node("Where", [condition, *sides])
    through = [e.node("Cast", [side], to=onnx_type(np.dtype(wide))) for side in sides]
    return e.node("Cast", [e.node("Where", [condition, *through])], to=onnx_type(dtype))


def _mod(floor: bool) -> Rule:
    def rule(op: Any, e: Exporter) -> str:
        x, y = (e.name(v) for v in op.operands)
        if element_dtype(op.lhs).kind != "f":
            return e.node("Mod", [x, y], fmod=int(not floor))
        if not floor:
            return e.node("Mod", [x, y], fmod=1)
        whole = e.node("Floor", [e.node("Div", [x, y])])
        return e.node("Sub", [x, e.node("Mul", [whole, y])])

    return rule


def _floor_div(op: Any, e: Exporter) -> str:
    x, y = (e.name(v) for v in op.operands)
    if element_dtype(op.lhs).kind == "f":
        return e.node("Floor", [e.node("Div", [x, y])])
    return e.node("Div", [e.node("Sub", [x, e.node("Mod", [x, y])]), y])


def _rsqrt(op: Any, e: Exporter) -> str:
    return e.node("Reciprocal", [e.node("Sqrt", [e.name(op.input)])])


def _trunc(op: Any, e: Exporter) -> str:
    x = e.name(op.input)
    return e.node("Mul", [e.node("Sign", [x]), e.node("Floor", [e.node("Abs", [x])])])


def _log1p(op: Any, e: Exporter) -> str:
    return e.node("Log", [e.node("Add", [e.name(op.input), e.scalar(1, op.input)])])


def _expm1(op: Any, e: Exporter) -> str:
    return e.node("Sub", [e.node("Exp", [e.name(op.input)]), e.scalar(1, op.input)])


def _boolean(arithmetic: str, logical: str) -> Rule:
    """An arithmetic operator, or its logical twin on booleans."""

    def rule(op: Any, e: Exporter) -> str:
        kind = logical if element_dtype(op.lhs) == bool else arithmetic
        return e.node(kind, [e.name(v) for v in op.operands])

    return rule


def _rounding(kind: str) -> Rule:
    """Rounding, which leaves integers as they are."""

    def rule(op: Any, e: Exporter) -> str:
        known = kind if element_dtype(op.input).kind not in "iu" else "Identity"
        return e.node(known, [e.name(op.input)])

    return rule


def _shift(direction: str) -> Rule:
    def rule(op: Any, e: Exporter) -> str:
        return e.node("BitShift", [e.name(v) for v in op.operands], direction=direction)

    return rule


def _is_inf(op: Any, e: Exporter) -> str:
    flags = {n: int(bool(getattr(op, n))) for n in ("detect_negative", "detect_positive")}
    return e.node("IsInf", [e.name(op.input)], **flags)


def _indexed(kind: str, *properties: str) -> Rule:
    """An operator whose second operand are indices, which ONNX wants as int64."""

    def rule(op: Any, e: Exporter) -> str:
        inputs = [e.name(v) for v in op.operands]
        if element_dtype(op.operands[1]) != np.int64:
            inputs[1] = e.node("Cast", [inputs[1]], to=onnx_type(np.dtype(np.int64)))
        return e.node(kind, inputs, **{n: getattr(op, n) for n in properties})

    return rule


def _clip(op: Any, e: Exporter) -> str:
    low, high = op.min, op.max
    bounds = ["" if b is None or np.isinf(b) else e.scalar(b, op.input) for b in (low, high)]
    return e.node("Clip", [e.name(op.input), *bounds])


def _swish(op: Any, e: Exporter) -> str:
    x, alpha = e.name(op.input), op.alpha
    inner = x if alpha == 1 else e.node("Mul", [x, e.scalar(alpha, op.input)])
    return e.node("Mul", [x, e.node("Sigmoid", [inner])])


def _gelu(op: Any, e: Exporter) -> str:
    return e.node("Gelu", [e.name(op.input)], approximate=op.approximate)


def _cast(op: Any, e: Exporter) -> str:
    return e.node("Cast", [e.name(op.input)], to=onnx_type(element_dtype(op.results[0])))


def _splat(op: Any, e: Exporter) -> str:
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    value = e.constant(np.array(op.value).astype(dtype))
    return value if not shape else e.node("Expand", [value, e.ints(*shape)])


def _known(op: Any, e: Exporter) -> str:
    """The values of an operator without operands."""
    return e.constant(op.evaluate([])[0])


def _sizes(op: Any, e: Exporter) -> str:
    """Sizes that only the run tells, in the result's type and rank."""
    if not is_open(op.values):
        return _known(op, e)
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    numbers = e.ints(*op.values)
    numbers = numbers if shape else e.node("Squeeze", [numbers])
    return numbers if dtype == np.int64 else e.node("Cast", [numbers], to=onnx_type(dtype))


def _iota(op: Any, e: Exporter) -> str:
    """As many numbers from 0 on as the run tells."""
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    if not is_open(shape):
        return _known(op, e)
    first, step = (e.constant(np.array(n, np.int64)) for n in (0, 1))
    numbers = e.node("Range", [first, e.node("Squeeze", [e.ints(*shape)]), step])
    return numbers if dtype == np.int64 else e.node("Cast", [numbers], to=onnx_type(dtype))


# --- shapes ---------------------------------------------------------------------------------------


def _reshape(op: Any, e: Exporter) -> str:
    return e.node("Reshape", [e.name(op.input), e.ints(*shape_of(op.results[0]))], allowzero=1)


def _expand(op: Any, e: Exporter) -> str:
    return e.node("Expand", [e.name(op.input), e.ints(*shape_of(op.results[0]))])


def _concat(op: Any, e: Exporter) -> str:
    return e.node("Concat", [e.name(v) for v in op.inputs], axis=op.axis)


def _slice(op: Any, e: Exporter) -> str:
    starts, ends, steps = op.starts, op.ends, op.steps
    steps = steps or (1,) * len(starts)
    # An end before the first element has no number of its own in ONNX: the smallest one says it.
    ends = [np.iinfo(np.int64).min if s < 0 and end < 0 else end for end, s in zip(ends, steps, strict=True)]
    axes = range(len(starts))
    return e.node("Slice", [e.name(op.input), e.ints(*starts), e.ints(*ends), e.ints(*axes), e.ints(*steps)])


def _flip(op: Any, e: Exporter) -> str:
    axes = op.axes
    low = np.iinfo(np.int64).min
    parts = [e.ints(*[v] * len(axes)) for v in (-1, low)]
    return e.node("Slice", [e.name(op.input), *parts, e.ints(*axes), e.ints(*[-1] * len(axes))])


def _insert(op: Any, e: Exporter) -> str:
    """ScatterND with the indices of the covered block."""
    starts, small = op.starts, shape_of(op.small)
    steps = op.steps or (1,) * len(starts)
    ranges = [s + np.arange(n) * p for s, n, p in zip(starts, small, steps, strict=True)]
    grid = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).astype(np.int64)
    return e.node("ScatterND", [e.name(op.big), e.constant(grid, "indices"), e.name(op.small)])


def _tile(op: Any, e: Exporter) -> str:
    return e.node("Tile", [e.name(op.input), e.ints(*op.repeats)])


def _transpose(op: Any, e: Exporter) -> str:
    if not op.permutation:
        return e.node("Identity", [e.name(op.input)])
    return e.node("Transpose", [e.name(op.input)], perm=op.permutation)


def _pad(op: Any, e: Exporter) -> str:
    inputs = [e.name(op.input), e.ints(*op.pads)]
    mode = op.mode
    if mode == "constant":
        inputs.append(e.constant(np.array(op.value).astype(element_dtype(op.input))))
    return e.node("Pad", inputs, mode=mode)


def _reduce(kind: str) -> Rule:
    def rule(op: Any, e: Exporter) -> str:
        inputs = [e.name(op.input), e.ints(*op.axes)]
        return e.node(kind, inputs, keepdims=int(bool(op.keepdims)), noop_with_empty_axes=1)

    return rule


def _arg(kind: str) -> Rule:
    def rule(op: Any, e: Exporter) -> str:
        return e.node(
            kind,
            [e.name(op.input)],
            axis=op.axis,
            keepdims=int(bool(op.keepdims)),
            select_last_index=int(bool(op.select_last_index)),
        )

    return rule


def _top_k(op: Any, e: Exporter) -> Sequence[str]:
    flags = {n: int(bool(getattr(op, n))) for n in ("largest", "sorted")}
    return e.node("TopK", [e.name(op.input), e.ints(op.k)], 2, axis=op.axis, **flags)


def _cumsum(op: Any, e: Exporter) -> str:
    flags = {n: int(bool(getattr(op, n))) for n in ("exclusive", "reverse")}
    axis = e.constant(np.array(op.axis, np.int64))
    return e.node("CumSum", [e.name(op.input), axis], **flags)


def _trilu(op: Any, e: Exporter) -> str:
    k = e.constant(np.array(op.k or 0, np.int64))
    return e.node("Trilu", [e.name(op.input), k], upper=int(bool(op.upper)))


def _dropout(op: Any, e: Exporter) -> Sequence[str]:
    """Inference keeps everything; the ratio is for the next training."""
    ratio = e.scalar(op.ratio, op.input)
    return e.node("Dropout", [e.name(op.input), ratio], 2, seed=op.seed)


def _resize(op: Any, e: Exporter) -> str:
    """Scales where they make the sizes, else the sizes themselves."""
    shape, sizes, scales = shape_of(op.input), op.sizes, op.scales
    by_scale = bool(scales) and all(_scaled(d, s) == n for d, s, n in zip(shape, scales, sizes, strict=True))
    if is_open(sizes) and scales and not by_scale:
        raise UnsupportedError(f"a resize of open sizes by {scales} to ({', '.join(map(str, sizes))})")
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


def _scaled(size: int, scale: float) -> int | None:
    """A size times a scale, rounded down; of open sizes only multiples and parts are known."""
    if not isinstance(size, Extent):
        return int(size * scale)
    if scale.is_integer():
        return size * int(scale)
    return size // round(1 / scale) if scale and (1 / scale).is_integer() else None


_UNARY = {
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "exp": "Exp",
    "log": "Log",
    "erf": "Erf",
    "not": "Not",
    "bitwise_not": "BitwiseNot",
    "is_nan": "IsNaN",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "mish": "Mish",
    "hard_swish": "HardSwish",
    "identity": "Identity",
}
_BINARY = {
    "div": "Div",
    "max": "Max",
    "min": "Min",
    "pow": "Pow",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "cmp_eq": "Equal",
    "cmp_lt": "Less",
    "cmp_le": "LessOrEqual",
    "cmp_gt": "Greater",
    "cmp_ge": "GreaterOrEqual",
    "prelu": "PRelu",
}
_REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "sum_square": "ReduceSumSquare",
    "l1": "ReduceL1",
    "l2": "ReduceL2",
    "log_sum": "ReduceLogSum",
    "log_sum_exp": "ReduceLogSumExp",
}
_SMALL_INTEGERS_LACK = ("pow", "max", "min", "div", "abs", "sign", "mod", "fmod", "floor_div")

_OWN: dict[str, Rule] = {
    "add": _boolean("Add", "Or"),
    "sub": _boolean("Sub", "Xor"),
    "mul": _boolean("Mul", "And"),
    "mod": _mod(floor=True),
    "fmod": _mod(floor=False),
    "floor_div": _floor_div,
    "cmp_ne": _not("Equal"),
    "select": _select,
    "rsqrt": _rsqrt,
    "trunc": _trunc,
    "log1p": _log1p,
    "expm1": _expm1,
    "leaky_relu": same("LeakyRelu", "alpha"),
    "elu": same("Elu", "alpha"),
    "selu": same("Selu", "alpha", "gamma"),
    "celu": same("Celu", "alpha"),
    "hard_sigmoid": same("HardSigmoid", "alpha", "beta"),
    "thresholded_relu": same("ThresholdedRelu", "alpha"),
    "clip": _clip,
    "floor": _rounding("Floor"),
    "ceil": _rounding("Ceil"),
    "round": _rounding("Round"),
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "is_inf": _is_inf,
    "swish": _swish,
    "gelu": _gelu,
    "cast": _cast,
    "splat": _splat,
    "literal": _known,
    "iota": _iota,
    "sizes": _sizes,
    "reshape": _reshape,
    "expand": _expand,
    "concat": _concat,
    "slice": _slice,
    "flip": _flip,
    "insert": _insert,
    "tile": _tile,
    "transpose": _transpose,
    "pad": _pad,
    "gather": _indexed("Gather", "axis"),
    "gather_nd": _indexed("GatherND", "batch_dims"),
    "gather_elements": _indexed("GatherElements", "axis"),
    "scatter_nd": _indexed("ScatterND", "reduction"),
    "scatter_elements": _indexed("ScatterElements", "axis", "reduction"),
    "arg_max": _arg("ArgMax"),
    "arg_min": _arg("ArgMin"),
    "top_k": _top_k,
    "cumsum": _cumsum,
    "trilu": _trilu,
    "resize": _resize,
    "dropout": _dropout,
}

RULES: dict[str, Rule] = {
    f"glow.{name}": rule
    for name, rule in {
        **{n: same(k) for n, k in (_UNARY | _BINARY).items()},
        **{f"reduce_{n}": _reduce(k) for n, k in _REDUCTIONS.items()},
        **_OWN,
        **NN_RULES,
        **PLACES_RULES,
        **QUANTIZED_RULES,
    }.items()
}
for _name in _SMALL_INTEGERS_LACK:
    RULES[f"glow.{_name}"] = _wide(RULES[f"glow.{_name}"])
