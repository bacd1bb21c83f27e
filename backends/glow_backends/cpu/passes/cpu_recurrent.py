"""glow-cpu-recurrent: recurrent networks become one product for all steps and a loop over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i16, i32
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.gemm.pairs_op import PairsFullyConnectedOp
from glow_backends.cpu.kernels.recurrent.recurrent_op import CpuRecurrentOp, is_splittable, whole_type
from glow_dialects.core.term import Term
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    element_of,
    present,
    shape_of,
    tensor,
    tensor_of,
)
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.module import GetOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.recurrent import GraphMath, RecurrentOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.autodiff.recurrent import has_training_form, training_form
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite

_SHARED = ("direction", "activations", "activation_alpha", "activation_beta", "clip")
_OWN = ("input_forget", "linear_before_reset")


def _biases(op: RecurrentOp, array: Array | None, size: int) -> tuple[Array | None, Array | None]:
    """(bias of the projected input [D G H], bias that stays in the loop [D, G H])."""
    if array is None:
        return None, None
    own, recurrent = array[:, :size], array[:, size:]
    if isinstance(op, GruOp):
        return own.reshape(-1), recurrent
    return (own + recurrent).reshape(-1), None


def split(op: RecurrentOp, r: Rewriter) -> Sequence[SSAValue] | None:
    """lstm(x, w, r, b) -> recurrent(x w^T + b, r), for constant weights and f32."""
    if not is_splittable(op):
        return None
    x, weights, recurrence = op.operands[:3]
    w, loop = r.array(weights), r.array(recurrence)
    b = [r.array(v) for v in present(op.bias)]
    if w is None or loop is None or any(v is None for v in b):
        return None
    batch_first = op.layout == 1
    if batch_first:
        x = r(TransposeOp(x, permutation=(1, 0, 2)))
    steps, samples, inputs = shape_of(x)
    directions, rows, _ = w.shape
    outer, inner = _biases(op, b[0] if b else None, rows)

    def given(name: str) -> Sequence[SSAValue]:
        return op.operand_group(name) if name in dict(op.operand_groups()) else []

    def weight(array: Array, hint: str) -> SSAValue:
        return r.insert(GetOp.of(r.symbols.add(array, tensor_of(array), hint))).result

    flat = r(ReshapeOp.to(x, (steps * samples, inputs)))
    columns = np.ascontiguousarray(w.reshape(directions * rows, inputs).T)
    bias = weight(np.zeros(directions * rows, np.float32) if outer is None else outer, "bias")
    if units := given("input_scales"):
        projected = _product_of_bytes(flat, columns, units[0], bias, r)
    else:
        running = _running(op.lengths, steps, r) if op.lengths is not None else None
        projected = r(FullyConnectedOp(flat, weight(columns, "weights"), bias, predicate=running))
    projected = r(ReshapeOp.to(projected, (steps, samples, directions * rows)))

    def state(name: str) -> list[SSAValue]:
        return [r(TransposeOp(v, permutation=(1, 0, 2))) if batch_first else v for v in given(name)]

    properties: dict[str, Any] = {n: op.properties[n] for n in (*_SHARED, *_OWN) if n in op.properties}
    op_by_direction = r.insert(
        CpuRecurrentOp(
            projected,
            recurrence if isinstance(recurrence.owner, GetOp) else weight(loop, "weights"),
            [] if inner is None else weight(np.ascontiguousarray(inner), "bias"),
            present(op.lengths),
            state("initial_state"),
            state("initial_cell"),
            given("peepholes"),
            given("scales"),
            kind=op.name.removeprefix("glow."),
            **properties,
        )
    )
    return _batch_first(op_by_direction.results, r) if batch_first else list(op_by_direction.results)


def _batch_first(results: Sequence[SSAValue], r: Rewriter) -> list[SSAValue]:
    """Every state and the last ones, samples before steps and directions."""
    every, *last = results
    turned = [r(TransposeOp(v, permutation=(1, 0, 2))) for v in last]
    return [r(TransposeOp(every, permutation=(2, 0, 1, 3))), *turned]


def _running(lengths: SSAValue, steps: int, r: Rewriter) -> SSAValue:
    """[T N]: which samples have which steps; the inputs of others are not wanted."""
    kind, (samples,) = element_of(lengths), shape_of(lengths)
    step = Term(r(IotaOp(results=tensor((steps,), kind))), r).reshape((steps, 1))
    return (Term(lengths, r).reshape((1, samples)) > step).reshape((steps * samples,)).value


def _product_of_bytes(x: SSAValue, whole: Array, units: SSAValue, bias: SSAValue, r: Rewriter) -> SSAValue:
    """x in 8 bits, by its range, times weights that are whole numbers in units of their column.

    Weights that are bytes multiply x as it is stored, and the zero point their sums; others x less its zero
    point, in 16 bits.
    """
    rows, columns = Term(x, r), whole.shape[1]
    stored, zero, scale = GraphMath(rows).stored_bytes(rows, (0, 1))
    narrow = whole_type(whole) == "i8"
    kind = UniformQuantizedType.of(8 if narrow else 16, 1.0)
    held = r.weight(whole.astype(np.int8 if narrow else np.int16), "weights", tensor(whole.shape, kind))
    result = tensor((shape_of(x)[0], columns), i32)
    if narrow:
        one = UniformQuantizedType.of(8, 1.0, signed=False)
        numbers = r(BitCastOp(stored.cast(one.storage).value, results=tensor(shape_of(x), one)))
        sums = Term(r(QuantizedFullyConnectedOp(numbers, held, None, results=result)), r)
        taps = whole.sum(axis=0, dtype=np.float64).astype(np.int32).reshape(1, columns)
        sums = sums - zero.cast(i32) * Term(r.weight(taps, "taps"), r)
    else:
        numbers = r(BitCastOp((stored - zero).cast(i16).value, results=tensor(shape_of(x), kind)))
        sums = Term(r(PairsFullyConnectedOp(numbers, held, None, results=result)), r)
    factor = scale * Term(units, r).reshape((1, columns))
    return (sums.cast(f32) * factor + Term(bias, r)).value


def project(op: RecurrentOp, r: Rewriter) -> Sequence[SSAValue] | None:
    """lstm(x, w, r, b) -> recurrent_train(x w^T + b, r), for weights that are no constants."""
    return training_form(op, r) if has_training_form(op) else None


PATTERNS = (Pattern((RecurrentOp,), split), Pattern((RecurrentOp,), project))


@dataclass(frozen=True)
class CpuRecurrentPass(GraphPass):
    """lstm(x, w, r, b) -> recurrent(fully_connected(x, w^T, b), r).

    One matrix product serves all steps and directions; what depends on the step before is a loop. Samples
    that end early need neither: the product has a predicate.
    Where weights are no constants it is the loop of training, which needs none packed.
    """

    name = "glow-cpu-recurrent"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
