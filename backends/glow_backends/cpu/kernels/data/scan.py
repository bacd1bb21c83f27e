"""Running sums along an axis, and triangles of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.kernels.reduction.reduce import combiner
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.trilu import TriluOp


@dataclass(frozen=True)
class CumsumSpec:
    """result[o, j, i] = sum of input[o, :j + 1, i] (`exclusive`: :j; `reverse`: from the end).

    Operands: result, input, both [outer, count, inner]. f16 and bf16 are summed in f32.
    """

    outer: int
    count: int
    inner: int
    exclusive: bool = False
    reverse: bool = False
    dtype: str = "f32"


def emit_cumsum(module: ir.Module, name: str, spec: CumsumSpec, target: CpuTarget) -> ir.Function:
    """Emit the running sums, vectors holding neighbouring lines."""
    k = KernelBuilder(module, name, 2, target)
    result, source = k.operands
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    size = 2 * spec.outer * spec.count * spec.inner * values.size(spec.dtype)
    add = combiner("sum", spec.dtype)
    if not size:
        return k.finish()

    def line(base: Index, width: int, active: Active) -> None:
        def step(j: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            here = k.b.sub(k.i(spec.count - 1), j) if spec.reverse else j
            place = k.add(base, k.mul(here, spec.inner))
            total = add(k, carried[0], values.load(k, source, place, spec.dtype, width, active))
            stored = carried[0] if spec.exclusive else total
            values.store(k, stored, result, place, spec.dtype, active)
            return [total]

        kind = values.compute(spec.dtype)
        vector = ir.VectorType(kind, width) if width > 1 else kind
        none = -0.0 if values.is_float(spec.dtype) and not spec.exclusive else 0  # -0.0 alone stays -0.0
        k.reduce_loop(0, spec.count, 1, [values.constant(vector, none)], step)

    with common.nest(k, [spec.outer], size) as (o,):
        base = k.mul(o, spec.count * spec.inner)
        for place, width, active in common.sized_strips(k, 0, spec.inner, lanes, 1):
            line(k.add(base, place), width, active)
    return k.finish()


@dataclass(frozen=True)
class TriluSpec:
    """The elements with column - row >= k (upper) or <= k, zeros elsewhere, of `outer` matrices.

    Operands: result, input (they may be the same buffer); `width` bytes an element.
    """

    outer: int
    rows: int
    columns: int
    upper: bool
    diagonal: int
    width: int


def emit_trilu(module: ir.Module, name: str, spec: TriluSpec, target: CpuTarget) -> ir.Function:
    """Emit the triangle: each row by vectors under a mask."""
    k = KernelBuilder(module, name, 2, target)
    result, source = k.operands
    dtype = f"u{8 * spec.width}"
    lanes = max(1, target.vector_bytes // max(4, spec.width))
    size = 2 * spec.outer * spec.rows * spec.columns * spec.width
    if not size:
        return k.finish()
    with common.nest(k, [spec.outer, spec.rows], size) as (o, row):
        base = k.mul(k.add(k.mul(o, spec.rows), row), spec.columns)
        border = k.b.trunc(k.i(k.add(row, spec.diagonal)), I32)
        for place, width, active in common.sized_strips(k, 0, spec.columns, lanes, 1):
            vector = ir.VectorType(I32, width) if width > 1 else I32
            first = values.splat(k, k.b.trunc(k.i(place), I32), width)
            steps = [ir.Constant(I32, i) for i in range(width)]
            column = k.b.add(first, ir.Constant(vector, steps)) if width > 1 else first
            kept = k.b.icmp_signed(">=" if spec.upper else "<=", column, values.splat(k, border, width))
            x = values.load(k, source, k.add(base, place), dtype, width, active)
            value = k.b.select(kept, x, values.zero(x.type))
            values.store(k, value, result, k.add(base, place), dtype, active)
    return k.finish()


class Cumsum(Kernel[CumsumOp, CumsumSpec]):
    """Running sums."""

    OPS = (CumsumOp,)
    emit = staticmethod(emit_cumsum)

    def match(self, op: CumsumOp, context: CallContext) -> CumsumSpec | None:
        size, axis, kind = shape(op.input), op.axis, dtype_name(op.input)
        if not known(op) or kind == "i1":
            return None
        sizes = prod(size[:axis]), size[axis], prod(size[axis + 1 :])
        return CumsumSpec(*sizes, op.exclusive, op.reverse, kind)


class Trilu(Kernel[TriluOp, TriluSpec]):
    """Triangles."""

    OPS = (TriluOp,)
    emit = staticmethod(emit_trilu)

    def match(self, op: TriluOp, context: CallContext) -> TriluSpec | None:
        if not known(op):
            return None
        *outer, rows, columns = shape(op.input)
        diagonal = max(-rows - 1, min(columns + 1, op.k))
        return TriluSpec(prod(outer), rows, columns, op.upper, diagonal, values.size(dtype_name(op.input)))
