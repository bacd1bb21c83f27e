"""glow-cpu-attention: softmax between two products of matrices becomes one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernels.gemm.attention_op import PLAIN, AttentionOp, ordered, strides_of
from glow_backends.cpu.kernels.gemm.attention_spec import FEW_ROWS
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_dialects.core.extent import are_equal
from glow_dialects.core.types import dtype_of, present, shape_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer, rewrite

_SWAPPED = (0, 1, 3, 2)


def _plain_product(op: GemmOp) -> bool:
    """Whether a product has no epilogue."""
    return not (present(op.bias) or op.body is not None or op.scale is not None)


def _scores(value: SSAValue) -> tuple[GemmOp, list[SSAValue]] | None:
    """The product that makes the scores, and the masks added to them."""
    if not is_used_once(value):
        return None
    masks: list[SSAValue] = []
    add = producer(value, AddOp)
    if add is not None and add.predicate is None:
        for own, other in ((0, 1), (1, 0)):
            if producer(add.operands[own], GemmOp, single=True) and add.operands[own].type == value.type:
                value, masks = add.operands[own], [add.operands[other]]
                break
    product = producer(value, GemmOp, single=True)
    if product is None:
        return None
    if any(step.op != "add" for step in program_of(product.body).steps):
        return None
    return product, [*masks, *present(product.bias), *product.extras]


def _headed(value: SSAValue, swapped: bool) -> tuple[SSAValue, tuple[int, ...]]:
    """The source of a transposed value [batch, heads, rows, columns] (or the last two swapped), its order."""
    order = _SWAPPED if swapped else PLAIN
    move = producer(value, TransposeOp)
    if move is None:
        return value, order
    permutation = move.permutation
    return move.input, tuple(permutation[axis] for axis in order)


def _shared(value: SSAValue, order: Sequence[int]) -> SSAValue | None:
    """The keys or values that heads which follow each other share, where a value repeats them for each."""
    outer = producer(value, ReshapeOp)
    repeat = producer(outer.input, ExpandOp) if outer is not None else None
    inner = producer(repeat.input, ReshapeOp) if repeat is not None else None
    if repeat is None or inner is None or tuple(order[:2]) != (0, 1):
        return None
    batch, _, *rest = shape_of(value)
    few, many = (batch, *shape_of(inner.input)[1:2]), shape_of(repeat.result)[2:3]
    fits = (
        _are_same(shape_of(inner.input), (*few, *rest))
        and _are_same(shape_of(repeat.input), (*few, 1, *rest))
        and _are_same(shape_of(repeat.result), (*few, *many, *rest))
    )
    return inner.input if fits else None


def _are_same(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes are equal, whatever the run says: without a condition."""
    return len(shape) == len(other) and all(map(are_equal, shape, other))


def _held(value: SSAValue, axis: int) -> SSAValue | None:
    """What a value is the first places of along an axis."""
    part = producer(value, SliceOp)
    if part is None or part.predicate is not None:
        return None
    first = all(are_equal(start, 0) for start in part.starts) and all(
        are_equal(step, 1) for step in part.steps
    )
    sizes = list(shape_of(part.input))
    sizes[axis] = shape_of(value)[axis]
    return part.input if first and _are_same(sizes, shape_of(value)) else None


def _four(value: SSAValue, shape: Sequence[int], r: Rewriter) -> SSAValue:
    """A value, in a shape of any rank, with the axes before the last two as one batch and heads."""
    lead = (1, 1, *shape[:-2])
    four = (prod(lead[:-1]), lead[-1], *shape[-2:])
    return value if shape_of(value) == four else r(ReshapeOp.to(value, four))


def _four_mask(mask: SSAValue, scores: Sequence[int], r: Rewriter) -> SSAValue | None:
    """A mask beside scores of any rank as one beside scores of rank four, where that broadcasts alike."""
    shape = (*(1 for _ in scores[len(shape_of(mask)) :]), *shape_of(mask))
    if len(shape) > 4 and shape[:-3] != scores[:-3] and any(n != 1 for n in shape[:-3]):
        return None
    return _four(mask, shape, r)


def attention(op: GemmOp, r: Rewriter) -> SSAValue | None:
    """gemm(softmax(gemm(q, k') + mask), v) -> attention(q, k, v, mask)."""
    softmax = producer(op.a, SoftmaxOp, single=True)
    if softmax is None or not _plain_product(op) or op.transpose_a:
        return None
    rank = len(shape_of(softmax.result))
    if softmax.axis != rank - 1 or dtype_of(op.result.type) != np.float32:
        return None
    product_and_masks = _scores(softmax.input)
    if product_and_masks is None or product_and_masks[0].transpose_a or len(product_and_masks[1]) > 1:
        return None
    product, masks = product_and_masks
    lead = shape_of(op.result)[:-2]
    if any(shape_of(v)[:-2] != lead for v in (product.a, product.b, op.b)):
        return None
    rows = shape_of(product.a)[-2]
    if are_equal(rows, 0):
        return None
    few = rows < FEW_ROWS
    scores = shape_of(softmax.result)
    mask = [_four_mask(m, scores, r) for m in masks]
    if None in mask:
        return None
    options: dict[str, Any] = {"masked": softmax.masked}
    values: list[SSAValue] = []
    sources = (
        ("q", product.a, False),
        ("k", product.b, not product.transpose_b),
        ("v", op.b, op.transpose_b),
    )
    for name, value, swapped in sources:
        if rank == 4:
            value, order = _headed(value, swapped)
        else:
            value, order = _four(value, shape_of(value), r), _SWAPPED if swapped else PLAIN
        steps = strides_of(shape_of(value), order)
        if name == "v" and steps[3] != 1 or name == "k" and (steps[3] != 1 if few else 1 not in steps[2:]):
            return None
        values.append(value)
        options[f"{name}_order"] = order
    _read_in_place(values, options, scores[-1])
    if product.scale is not None:
        options["scale"] = product.scale
    result = r(AttentionOp(*values, *mask, **options))
    return result if rank == 4 else r(ReshapeOp(result, results=op.result.type))


def _read_in_place(values: list[SSAValue], options: dict[str, Any], places: int) -> None:
    """Keys and values before they are repeated or cut, where the operator can do that itself."""
    keys, rows = _shared(values[1], options["k_order"]), _shared(values[2], options["v_order"])
    if keys is not None and rows is not None and are_equal(shape_of(keys)[1], shape_of(rows)[1]):
        values[1:] = keys, rows
    keys, rows = (_held(values[i], options[f"{name}_order"][2]) for i, name in ((1, "k"), (2, "v")))
    if keys is not None and rows is not None:
        sizes = [ordered(shape_of(v), options[f"{n}_order"])[2] for v, n in ((keys, "k"), (rows, "v"))]
        if are_equal(*sizes):
            options["places"] = (places,)
            values[1:] = keys, rows


def ordered_result(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """transpose(attention(q, k, v)) -> attention(q, k, v) {order}, columns last."""
    inner = producer(op.input, AttentionOp, single=True)
    permutation = op.permutation
    if inner is None or inner.order != PLAIN or permutation[3] != 3:
        return None
    same = {
        n: getattr(inner, n)
        for n in ("q_order", "k_order", "v_order", "places", "scale", "masked")
        if getattr(inner, n) is not None
    }
    return r(AttentionOp(inner.q, inner.k, inner.v, *present(inner.mask), order=permutation, **same))


PATTERNS = (Pattern((GemmOp,), attention), Pattern((TransposeOp,), ordered_result))


@dataclass(frozen=True)
class CpuAttentionPass(GraphPass):
    """gemm(softmax(gemm(q, k')), v) -> glow_cpu.attention(q, k, v), with scale, mask and transposes."""

    name = "glow-cpu-attention"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
