"""The k largest or smallest elements of rows, with their indices.

Elements are compared as signed integers of the same order (a larger key comes first), in which NaN
is above all numbers and both zeros are one. Few results: a list in order that takes in whatever
beats its last entry, whole vectors being skipped where nothing does. Many: a merge sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.vecmath import any_lane
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent
from glow_dialects.ops.top_k import TopKOp

_LIST = 128  # most results that are kept in a list


@dataclass(frozen=True)
class TopKSpec:
    """The first `k` of the order of every line of [outer, count, inner], best first; ties by place.

    Operands: values, indices (i64), both [outer, k, inner], input; then scratch, if there is any.
    """

    outer: int
    count: int
    inner: int
    k: int
    largest: bool = True
    dtype: str = "f32"

    @property
    def scratch(self) -> int:
        """Bytes of work space a worker."""
        if not isinstance(self.k, Extent) and self.k <= _LIST:
            return 0
        return -(-(2 * self.count * (8 + _key_bytes(self.dtype)) + 8) // 64) * 64


def _key_bytes(dtype: str) -> int:
    return max(4, values.width(dtype))


def emit_top_k(module: ir.Module, name: str, spec: TopKSpec, target: CpuTarget) -> ir.Function:
    """Emit the selection; see `TopKSpec` for the operands."""
    k = KernelBuilder(module, name, 4 if spec.scratch else 3, target)
    if spec.outer * spec.inner * spec.k:
        size = 4 * spec.outer * spec.count * spec.inner * values.size(spec.dtype)
        with common.nest(k, [spec.outer, spec.inner], size) as (o, i):
            base = k.add(k.mul(o, spec.count * spec.inner), i)
            to = k.add(k.mul(o, spec.k * spec.inner), i)
            line = _Line(k, spec, base)
            if spec.scratch:
                winner = line.sort()
            else:
                winner = line.select()
            with k.loop(0, spec.k) as j:
                index = k.load(winner, j, I64)
                place = k.add(to, k.mul(j, spec.inner))
                raw = f"u{8 * values.size(spec.dtype)}"
                here = k.add(base, k.mul(index, spec.inner))
                values.store(k, values.load(k, k.operands[2], here, raw), k.operands[0], place, raw)
                values.store(k, index, k.operands[1], place, "i64")
    return k.finish()


class _Line:
    """One line of elements."""

    def __init__(self, k: KernelBuilder, spec: TopKSpec, base: Index) -> None:
        self.k, self.spec, self.base = k, spec, base
        self.kind = I64 if _key_bytes(spec.dtype) == 8 else I32

    def key(self, place: Index, lanes: int = 1) -> ir.Value:
        """Sort keys of adjacent elements of the line (of one, where the line is not contiguous)."""
        k, spec = self.k, self.spec
        dtype = "u8" if spec.dtype == "i1" else spec.dtype
        at = k.add(self.base, k.mul(place, spec.inner))
        x = values.load(k, k.operands[2], at, dtype, lanes)
        kind = values.with_element(x.type, self.kind)
        bits = 8 * _key_bytes(spec.dtype)
        if values.is_float(dtype):
            missing = k.b.fcmp_unordered("uno", x, x)
            pattern = k.b.bitcast(k.b.fadd(x, values.zero(x.type)), kind)
            sign = k.b.ashr(pattern, values.constant(kind, bits - 1))
            pattern = k.b.xor(pattern, k.b.and_(sign, values.constant(kind, (1 << (bits - 1)) - 1)))
            key = k.b.select(missing, values.constant(kind, (1 << (bits - 1)) - 1), pattern)
        elif values.is_signed(dtype):
            key = x if x.type == kind else k.b.sext(x, kind)
        elif x.type == kind:
            key = k.b.xor(x, values.constant(kind, 1 << (bits - 1)))
        else:
            key = k.b.zext(x, kind)
        return key if spec.largest else k.b.not_(key)

    def select(self) -> ir.Value:
        """The places of the best, by a list in order on the stack."""
        k, spec = self.k, self.spec
        keys, places = values.stack(k, self.kind, spec.k), values.stack(k, I64, spec.k)

        def insert(key: ir.Value, place: ir.Value, end: ir.Value) -> None:
            """Put an entry where it belongs among the first `end`; a later equal one goes behind."""

            def unfinished(carried: list[ir.Value]) -> ir.Value:
                before = k.b.select(
                    k.b.icmp_signed(">", carried[0], k.i(0)), k.b.sub(carried[0], k.i(1)), k.i(0)
                )
                worse = k.b.icmp_signed(">", key, k.load(keys, before, self.kind))
                return k.b.and_(k.b.icmp_signed(">", carried[0], k.i(0)), worse)

            def shift(carried: list[ir.Value]) -> list[ir.Value]:
                before = k.b.sub(carried[0], k.i(1))
                k.store(k.load(keys, before, self.kind), keys, carried[0], self.kind)
                k.store(k.load(places, before, I64), places, carried[0], I64)
                return [before]

            (at,) = common.repeat(k, [end], unfinished, shift)
            k.store(key, keys, at, self.kind)
            k.store(place, places, at, I64)

        def consider(place: ir.Value) -> None:
            key = self.key(place)
            worst = k.load(keys, spec.k - 1, self.kind)
            with k.b.if_then(k.b.icmp_signed(">", key, worst)):
                insert(key, place, k.i(spec.k - 1))

        with k.loop(0, spec.k) as i:
            insert(self.key(i), i, i)
        lanes = max(1, k.target.vector_bytes // _key_bytes(spec.dtype))
        done = spec.k
        if spec.inner == 1 and spec.count - done >= lanes > 1:
            stop = done + (spec.count - done) // lanes * lanes
            with k.loop(done, stop, lanes) as start:
                worst = values.splat(k, k.load(keys, spec.k - 1, self.kind), lanes)
                better = any_lane(k, k.b.icmp_signed(">", self.key(start, lanes), worst))
                with k.b.if_then(better), k.loop(start, k.add(start, lanes)) as i:
                    consider(i)
            done = stop
        with k.loop(done, spec.count) as i:
            consider(i)
        return places

    def sort(self) -> ir.Value:
        """The places in order, by merging runs of 1, 2, 4 ... entries from one buffer to another."""
        k, spec = self.k, self.spec
        work = k.gep(k.operands[3], k.mul(k.worker, spec.scratch), ir.IntType(8))
        count = k.i(spec.count)
        keys = [k.gep(work, i * spec.count, self.kind) for i in (0, 1)]
        second = k.gep(work, 2 * spec.count * (self.kind.width // 8) // 8 + 1, I64)
        places = [k.gep(second, i * spec.count, I64) for i in (0, 1)]
        with k.loop(0, spec.count) as i:
            k.store(self.key(i), keys[0], i, self.kind)
            k.store(i, places[0], i, I64)

        def whole(carried: list[ir.Value]) -> list[ir.Value]:
            run, *buffers = carried
            source, goal = buffers[:2], buffers[2:]

            def next_pair(at: list[ir.Value]) -> list[ir.Value]:
                self._merge(run, source, goal, at[0])
                return [k.b.add(at[0], k.b.shl(run, k.i(1)))]

            common.repeat(k, [k.i(0)], lambda at: k.b.icmp_signed("<", at[0], count), next_pair)
            return [k.b.shl(run, k.i(1)), *goal, *source]

        start = [k.i(1), keys[0], places[0], keys[1], places[1]]
        _, _, sorted_places, _, _ = common.repeat(
            k, start, lambda c: k.b.icmp_signed("<", c[0], count), whole
        )
        return sorted_places

    def _merge(self, run: ir.Value, source: list[ir.Value], goal: list[ir.Value], start: ir.Value) -> None:
        """goal[start : start + 2 run] from two runs of `source` (key and place pointers)."""
        k, count = self.k, self.k.i(self.spec.count)

        def least(x: ir.Value, y: ir.Value) -> ir.Value:
            return k.b.select(k.b.icmp_signed("<", x, y), x, y)

        middle = least(k.b.add(start, run), count)
        end = least(k.b.add(middle, run), count)

        def step(carried: list[ir.Value]) -> list[ir.Value]:
            left, right = carried
            last = k.b.sub(count, k.i(1))
            a, b = (k.load(source[0], least(place, last), self.kind) for place in carried)
            more = k.b.and_(k.b.icmp_signed("<", left, middle), k.b.icmp_signed(">=", a, b))
            take = k.b.or_(more, k.b.icmp_signed(">=", right, end))
            at = k.b.add(left, k.b.sub(right, middle))
            chosen = k.b.select(take, left, right)
            k.store(k.b.select(take, a, b), goal[0], at, self.kind)
            k.store(k.load(source[1], chosen, I64), goal[1], at, I64)
            one = k.b.zext(take, I64)
            return [k.b.add(left, one), k.b.add(right, k.b.sub(k.i(1), one))]

        def unfinished(carried: list[ir.Value]) -> ir.Value:
            return k.b.or_(k.b.icmp_signed("<", carried[0], middle), k.b.icmp_signed("<", carried[1], end))

        common.repeat(k, [start, middle], unfinished, step)


class TopK(Kernel[TopKOp, TopKSpec]):
    """The best of every line."""

    OPS = (TopKOp,)
    emit = staticmethod(emit_top_k)

    def match(self, op: TopKOp, context: CallContext) -> TopKSpec | None:
        size, axis = shape(op.input), op.axis
        sizes = prod(size[:axis]), size[axis], prod(size[axis + 1 :])
        return TopKSpec(*sizes, op.k, op.largest, dtype_name(op.input)) if known(op) else None

    def scratch(self, spec: TopKSpec, target: CpuTarget) -> int:
        return spec.scratch * target.threads
