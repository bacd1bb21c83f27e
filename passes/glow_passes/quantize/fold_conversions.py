"""glow-fold-conversions: remove conversions between real numbers and integers.

What remains is islands of integer computation, with conversions at their borders only (Glow paper,
section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, is_float, shape_of, tensor
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.quantize import (
    DequantizeOp,
    QuantizeOp,
    RescaleOp,
    dequantize_array,
    limits_of,
    quantize_array,
    quantized_type,
)
from glow_dialects.ops.quantized_arithmetic import QuantizedBinaryOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, RequantizingOp, scale_of, zero_of
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite
from glow_passes.graph.linear import plain_properties


def _with_type(value: SSAValue, kind: UniformQuantizedType) -> Any:
    return tensor(shape_of(value), kind)


def _rescaled(value: SSAValue, kind: UniformQuantizedType, r: Rewriter) -> SSAValue:
    if quantized_type(value) == kind:
        return value
    return r(RescaleOp(value, results=_with_type(value, kind)))


def limiting(kind: UniformQuantizedType) -> bool:
    """Whether the range of a type ends at zero: quantisers leave out a relu that the range stands for."""
    return bool(np.isin(kind.zero_point_array, limits_of(kind)).any())


def _inside(inner: UniformQuantizedType, outer: UniformQuantizedType) -> bool:
    """Whether `outer` limits no real number that `inner` can hold, but for half a step."""
    if inner.axis.data >= 0 or outer.axis.data >= 0:
        return False
    low, high = dequantize_array(np.array(limits_of(inner)), inner)
    least, most = dequantize_array(np.array(limits_of(outer)), outer)
    step = scale_of(outer) / 2
    return bool(low >= least - step and high <= most + step)


def quantize_of_dequantize(op: QuantizeOp, r: Rewriter) -> SSAValue | None:
    """quantize(dequantize(q)) -> q, or rescale(q) where the types differ."""
    inner = producer(op.input, DequantizeOp)
    return None if inner is None else _rescaled(inner.input, quantized_type(op.result), r)


def rescale_of_rescale(op: RescaleOp, r: Rewriter) -> SSAValue | None:
    """rescale(rescale(q)) -> rescale(q); rescale to the same type -> q."""
    if op.input.type == op.result.type:
        return op.input
    inner = producer(op.input, RescaleOp)
    if inner is None:
        return None
    result = quantized_type(op.result)
    middle = quantized_type(op.input)
    needless = _inside(quantized_type(inner.input), middle) or _inside(result, middle)
    return _rescaled(inner.input, result, r) if needless else None


def rescale_of_quantize(op: RescaleOp, r: Rewriter) -> SSAValue | None:
    """rescale(quantize(x)) -> quantize(x) to the other type."""
    inner = producer(op.input, QuantizeOp, single=True)
    if inner is None or not _inside(quantized_type(op.result), quantized_type(op.input)):
        return None
    return r(QuantizeOp(inner.input, results=op.result.type))


def dequantize_of_rescale(op: DequantizeOp, r: Rewriter) -> SSAValue | None:
    """dequantize(rescale(q)) -> dequantize(q)."""
    inner = producer(op.input, RescaleOp)
    if inner is None or not _inside(quantized_type(inner.input), quantized_type(op.input)):
        return None
    return r(DequantizeOp(inner.input, results=op.result.type))


def moved_dequantize(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """reshape(dequantize(q)) -> dequantize(reshape(q)), and so every move or choice; parts of one type."""
    (result,) = op.results
    stored = [inner.input for v in op.operands if (inner := producer(v, DequantizeOp)) is not None]
    if op.predicate is not None or len(stored) < len(op.operands):
        return None
    kind = quantized_type(stored[0])
    if kind.axis.data >= 0 or any(quantized_type(v) != kind for v in stored):
        return None
    moved = type(op).create(
        operands=stored, result_types=[_with_type(result, kind)], properties=dict(op.properties)
    )
    return r(DequantizeOp(r(moved), results=result.type))


def requantizing_again(
    op: RequantizingOp, r: Callable[[Any], SSAValue], result: Any = None, **changed: Any
) -> SSAValue:
    """A requantising operator with another result type or other limits."""
    groups = [op.operand_group(name) for name, _ in op.operand_groups()]
    operands = [values[0] if values else None for values in groups]
    properties = {**plain_properties(op), **changed}
    kind = result or op.results[0].type
    return r(type(op)(*operands, results=kind, predicate=op.predicate, **properties))


def narrowed(
    kind: UniformQuantizedType, low: float, high: float, limits: tuple[int, int] = (NO_LOW, NO_HIGH)
) -> dict[str, int]:
    """`limits` of stored integers (low, high), narrowed to the real numbers low .. high of `kind`."""
    smallest, largest = limits_of(kind)
    bounds = np.array([low, high])
    clipped = np.clip(np.rint(bounds / scale_of(kind)) + zero_of(kind), smallest, largest)
    # A limit at the end of the range is written down too: another result type must keep it.
    return {
        "low": limits[0] if low == -np.inf else max(int(clipped[0]), limits[0]),
        "high": limits[1] if high == np.inf else min(int(clipped[1]), limits[1]),
    }


def relu_into_limits(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """relu(dequantize(quantized_conv)) -> dequantize(quantized_conv from the zero point on)."""
    limits = op.clamp_limits()
    inner = producer(op.operands[0], DequantizeOp, single=True)
    source: Any = inner and producer(inner.input, RequantizingOp, single=True)
    if not source or limits is None or op.predicate is not None or limits[0] > limits[1]:
        return None
    bounds = narrowed(quantized_type(source.results[0]), limits[0], limits[1], source.limits())
    return r(DequantizeOp(requantizing_again(source, r, **bounds), results=op.results[0].type))


def rescale_into_producer(op: RescaleOp, r: Rewriter) -> SSAValue | None:
    """rescale(quantized_conv) -> quantized_conv with the other result type."""
    source = producer(op.input, RequantizingOp, single=True)
    if source is None or source.predicate is not None:
        return None
    old, new = quantized_type(op.input), quantized_type(op.result)
    if new.axis.data >= 0 or new.storage.width != old.storage.width:
        return None
    limits = np.array([source.low, source.high], np.int64)
    moved = quantize_array(dequantize_array(np.clip(limits, *limits_of(old)), old), new)
    smallest, largest = limits_of(new)
    low = NO_LOW if limits[0] == NO_LOW and moved[0] == smallest else int(moved[0])
    high = NO_HIGH if limits[1] == NO_HIGH and moved[1] == largest else int(moved[1])
    return requantizing_again(source, r, op.result.type, low=low, high=high)


def rescale_into_arithmetic(op: QuantizedBinaryOp, r: Rewriter) -> SSAValue | None:
    """quantized_add(rescale(p), q) -> quantized_add(p, q): operands may have any scale."""
    sources = [_source(v) for v in (op.lhs, op.rhs)]
    if all(s is v for s, v in zip(sources, (op.lhs, op.rhs), strict=True)):
        return None
    return r(type(op)(*sources, results=op.result.type, **plain_properties(op)))


def _source(value: SSAValue) -> SSAValue:
    inner = producer(value, RescaleOp)
    if inner is None:
        return value
    return inner.input if _inside(quantized_type(inner.input), quantized_type(value)) else value


def rescale_into_lookup(op: RescaleOp, r: Rewriter) -> SSAValue | None:
    """rescale(lookup(q, table)) -> lookup(q, rescaled table)."""
    source = producer(op.input, LookupOp, single=True)
    if source is None:
        return None
    table = r.array(source.table)
    old, new = quantized_type(source.table), quantized_type(op.result)
    if table is None or new.axis.data >= 0 or new.storage != old.storage:
        return None
    array = quantize_array(dequantize_array(table, old), new).astype(np.int8)
    return r(LookupOp(source.input, r.weight(array, "table", tensor((256,), new))))


def lookup_of_lookup(op: LookupOp, r: Rewriter) -> SSAValue | None:
    """lookup(lookup(q, s), t) -> lookup(q, t of s)."""
    inner = producer(op.input, LookupOp, single=True)
    if inner is None:
        return None
    first, second = r.array(inner.table), r.array(op.table)
    if first is None or second is None:
        return None
    smallest, _ = limits_of(quantized_type(op.input))
    joined = second[first.astype(np.int64) - smallest]
    return r(LookupOp(inner.input, r.weight(joined, "table", tensor(joined.shape, quantized_type(op.table)))))


def real_result(op: DequantizeOp, r: Rewriter) -> SSAValue | None:
    """dequantize(quantized_conv) -> quantized_conv with a real result, straight from its sums.

    Not where a range that ends at zero limits the sums. Other ranges are taken for what calibration saw
    of them, which is so where the calibration was our own.
    """
    source = producer(op.input, RequantizingOp, single=True)
    if (
        source is None
        or not source.REAL_RESULT
        or source.limits() != (NO_LOW, NO_HIGH)
        or limiting(quantized_type(op.input))
    ):
        return None
    return requantizing_again(source, r, op.result.type) if is_float(element_of(op.result)) else None


PATTERNS: Sequence[Pattern] = (
    Pattern((QuantizeOp,), quantize_of_dequantize),
    Pattern((GraphOp,), moved_dequantize, lambda op: op.MOVES_ELEMENTS),
    Pattern((GraphOp,), relu_into_limits, lambda op: op.CLAMPS),
    Pattern((RescaleOp,), rescale_into_lookup),
    Pattern((LookupOp,), lookup_of_lookup),
)
#: What rounds once where it was rounded twice.
ROUNDING_ONCE: Sequence[Pattern] = (
    Pattern((RescaleOp,), rescale_of_rescale),
    Pattern((RescaleOp,), rescale_of_quantize),
    Pattern((DequantizeOp,), dequantize_of_rescale),
    Pattern((RescaleOp,), rescale_into_producer),
    Pattern((QuantizedBinaryOp,), rescale_into_arithmetic),
)
#: After the others: what is still dequantised is read as real numbers.
BORDERS = (Pattern((DequantizeOp,), real_result),)


@dataclass(frozen=True)
class FoldConversionsPass(GraphPass):
    """Eliminate, merge and move quantize, dequantize and rescale; fold relu into limits.

    `saturate`: every conversion keeps its rounding and saturation, as in models whose conversions are part
    of their meaning.
    """

    name = "glow-fold-conversions"
    saturate: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, tuple(PATTERNS) if self.saturate else (*PATTERNS, *ROUNDING_ONCE))
        if not self.saturate:
            rewrite(op, BORDERS)
