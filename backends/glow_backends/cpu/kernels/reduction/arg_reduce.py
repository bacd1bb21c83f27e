"""The position of the largest or smallest element along an axis."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp


@dataclass(frozen=True)
class ArgReduceSpec:
    """result (i64) = index of the first (or last) largest or smallest element along `axis`.

    op: arg_max or arg_min. Operands: result, input. A NaN counts as the largest
    (arg_min: the smallest).
    """

    op: str
    shape: tuple[int, ...]
    axis: int
    dtype: str = "f32"
    select_last_index: bool = False


def emit_arg_reduce(module: ir.Module, name: str, spec: ArgReduceSpec, target: CpuTarget) -> ir.Function:
    """Emit arg_max / arg_min; see `ArgReduceSpec` for the operands."""
    k = KernelBuilder(module, name, 2, target)
    if spec.dtype == "i1":
        spec = replace(spec, dtype="u8")
    axis = spec.axis % len(spec.shape)
    outer, count = common.product(spec.shape[:axis]), spec.shape[axis]
    inner = common.product(spec.shape[axis + 1 :])
    size = common.product(spec.shape) * values.size(spec.dtype)
    search = _Search(k, spec, count, inner)
    if outer * inner:
        with common.nest(k, [outer], size) as (o,):
            base, result = k.mul(o, count * inner), k.mul(o, inner)
            if inner == 1:
                search.row(base, result)
            else:
                for place, lanes, active in common.sized_strips(k, 0, inner, search.lanes, 1):
                    search.column(k.add(base, place), k.add(result, place), lanes, active)
    return k.finish()


class _Search:
    """The running best value and its index, in every lane."""

    def __init__(self, k: KernelBuilder, spec: ArgReduceSpec, count: int, inner: int) -> None:
        self.k = k
        self.spec = spec
        self.count = count
        self.inner = inner
        width = max(4, values.width(spec.dtype))
        self.index = I64 if width == 8 else I32
        self.lanes = max(1, k.target.vector_bytes // width)

    def _better(self, x: ir.Value, best: ir.Value) -> ir.Value:
        """Whether a later x replaces the best so far."""
        operator = ">" if self.spec.op == "arg_max" else "<"
        if self.spec.select_last_index:
            operator += "="
        if values.is_float(self.spec.dtype):
            b = self.k.b
            missing = b.fcmp_unordered("uno", x, x)
            if not self.spec.select_last_index:
                missing = b.and_(missing, b.fcmp_ordered("ord", best, best))
            return b.or_(b.fcmp_ordered(operator, x, best), missing)
        if values.is_signed(self.spec.dtype):
            return self.k.b.icmp_signed(operator, x, best)
        return self.k.b.icmp_unsigned(operator, x, best)

    def _scan(
        self, base: Index, start: int, count: int, step: int, lanes: int, active: Active | None,
        first: ir.Value,
    ) -> tuple[ir.Value, ir.Value]:  # fmt: skip
        """Follow `count` positions from `start`, `step` apart, the lanes side by side."""
        k = self.k

        def load(i: Index) -> ir.Value:
            place = k.add(base, k.mul(i, step))
            return values.load(k, k.operands[1], place, self.spec.dtype, lanes, active)

        def body(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            best, place = carried
            x = load(i)
            index = i if self.index == I64 else k.b.trunc(i, self.index)
            better = self._better(x, best)
            candidate = values.splat(k, index, lanes)
            return [k.b.select(better, x, best), k.b.select(better, candidate, place)]

        best, place = k.reduce_loop(start + 1, count, 1, [load(start), first], body)
        return best, place

    def column(self, base: Index, result: Index, lanes: int, active: Active) -> None:
        """Independent searches in the lanes, down a dimension of stride `inner`."""
        kind = values.with_element(ir.VectorType(I32, lanes) if lanes > 1 else I32, self.index)
        first = values.zero(kind)
        _, place = self._scan(base, 0, self.count, self.inner, lanes, active, first)
        self._store(place, result, active)

    def row(self, base: Index, result: Index) -> None:
        """One search: lanes take positions in turn, then the lanes are compared."""
        k, lanes = self.k, self.lanes
        whole = self.count // lanes
        if whole < 2 or lanes == 1:
            _, place = self._scan(base, 0, self.count, 1, 1, None, values.zero(self.index))
            self._store(place, result, None)
            return
        first = values.zero(ir.VectorType(self.index, lanes))
        bests, rounds = self._scan(base, 0, whole, lanes, lanes, None, first)
        best, place = self._lane(bests, rounds, 0)
        for lane in range(1, lanes):
            best, place = self._choose(best, place, *self._lane(bests, rounds, lane))

        def rest(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            x = values.load(k, k.operands[1], k.add(base, i), self.spec.dtype)
            index = i if self.index == I64 else k.b.trunc(i, self.index)
            better = self._better(x, carried[0])
            return [k.b.select(better, x, carried[0]), k.b.select(better, index, carried[1])]

        _, place = k.reduce_loop(whole * lanes, self.count, 1, [best, place], rest)
        self._store(place, result, None)

    def _lane(self, bests: ir.Value, rounds: ir.Value, lane: int) -> tuple[ir.Value, ir.Value]:
        b, at = self.k.b, ir.Constant(I32, lane)
        index = b.mul(b.extract_element(rounds, at), values.constant(self.index, self.lanes))
        return b.extract_element(bests, at), b.add(index, values.constant(self.index, lane))

    def _choose(
        self, best: ir.Value, place: ir.Value, x: ir.Value, index: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """The better of two; of equal ones the lower index (select_last_index: the higher)."""
        b = self.k.b
        better, worse = self._better(x, best), self._better(best, x)
        equal = b.icmp_signed("==", better, worse)
        later = ">" if self.spec.select_last_index else "<"
        take = b.select(equal, b.icmp_signed(later, index, place), better)
        return b.select(take, x, best), b.select(take, index, place)

    def _store(self, place: ir.Value, result: Index, active: Active | None) -> None:
        k = self.k
        if self.index != I64:
            place = k.b.sext(place, values.with_element(place.type, I64))
        values.store(k, place, k.operands[0], result, "i64", active)


class ArgReduce(Kernel[ArgMaxOp | ArgMinOp, ArgReduceSpec]):
    """Places of the largest or least element."""

    OPS = (ArgMaxOp, ArgMinOp)
    emit = staticmethod(emit_arg_reduce)

    def match(self, op: ArgMaxOp | ArgMinOp, context: CallContext) -> ArgReduceSpec | None:
        size, kind, last = shape(op.input), dtype_name(op.input), op.select_last_index
        if not known(op) or 0 in size:
            return None
        name = "arg_max" if is_instr_of(op, ArgMaxOp) else "arg_min"
        return ArgReduceSpec(name, size, op.axis, kind, last)
