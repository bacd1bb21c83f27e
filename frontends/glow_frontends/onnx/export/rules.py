"""How operators are written in ONNX: one rule an operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.dropout import DropoutOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.iota import IotaOp, SizesOp
from glow_dialects.ops.literal import LiteralOp
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
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.trilu import TriluOp
from glow_frontends.onnx.export.bounded_selection import RULES as PLACES_RULES
from glow_frontends.onnx.export.elementwise import RULES as ELEMENTWISE_RULES
from glow_frontends.onnx.export.few_bits import FEW_BITS_RULES
from glow_frontends.onnx.export.nn import RULES as NN_RULES
from glow_frontends.onnx.export.quantized import RULES as QUANTIZED_RULES
from glow_frontends.onnx.export.rule import Exporter, Rule, element_dtype
from glow_frontends.onnx.tensors import onnx_type


def _indexed(kind: str, *properties: str) -> Rule:
    """An operator whose second operand are indices, which ONNX wants as int64."""

    def rule(op: GraphOp, e: Exporter) -> str:
        inputs = [e.name(v) for v in op.operands]
        if element_dtype(op.operands[1]) != np.int64:
            inputs[1] = e.node("Cast", [inputs[1]], to=onnx_type(np.dtype(np.int64)))
        return e.node(kind, inputs, **{n: getattr(op, n) for n in properties})

    return rule


def _splat(op: SplatOp, e: Exporter) -> str:
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    value = e.constant(np.array(op.value).astype(dtype))
    return value if not shape else e.node("Expand", [value, e.ints(*shape)])


def _known(op: GraphOp, e: Exporter) -> str:
    """The values of an operator without operands."""
    return e.constant(op.evaluate([])[0])


def _sizes(op: SizesOp, e: Exporter) -> str:
    """Sizes that only the run tells, in the result's type and rank."""
    if not is_open(op.values):
        return _known(op, e)
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    numbers = e.ints(*op.values)
    numbers = numbers if shape else e.node("Squeeze", [numbers])
    return numbers if dtype == np.int64 else e.node("Cast", [numbers], to=onnx_type(dtype))


def _iota(op: IotaOp, e: Exporter) -> str:
    """As many numbers from 0 on as the run tells."""
    shape, dtype = shape_of(op.results[0]), element_dtype(op.results[0])
    if not is_open(shape):
        return _known(op, e)
    first, step = (e.constant(np.array(n, np.int64)) for n in (0, 1))
    numbers = e.node("Range", [first, e.node("Squeeze", [e.ints(*shape)]), step])
    return numbers if dtype == np.int64 else e.node("Cast", [numbers], to=onnx_type(dtype))


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
    by_scale = bool(scales) and all(_scaled(d, s) == n for d, s, n in zip(shape, scales, sizes, strict=True))
    if is_open(sizes) and scales and not by_scale:
        raise UnsupportedError(f"a resize of dynamic sizes by {scales} to ({', '.join(map(str, sizes))})")
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
_OWN: dict[type[GraphOp], Rule] = {
    SplatOp: _splat,
    LiteralOp: _known,
    IotaOp: _iota,
    SizesOp: _sizes,
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

RULES: dict[type[GraphOp], Rule] = {
    **ELEMENTWISE_RULES,
    **{op: _reduce(kind) for op, kind in _REDUCTIONS.items()},
    **_OWN,
    **NN_RULES,
    **PLACES_RULES,
    **QUANTIZED_RULES,
    **FEW_BITS_RULES,
}
