"""Non-maximum suppression: a heap of the boxes above the threshold, taken best first."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I1, I64, KernelBuilder
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import present
from glow_dialects.ops.non_max_suppression import NonMaxSuppressionOp


@dataclass(frozen=True)
class SuppressSpec:
    """Boxes [batch, box, 4] and scores [batch, class, box] of one float type.

    Operands: selected (i64, [bound, 3], rows from the count on are 0), count (i64), boxes, scores, available
    and most (i64), overlap, threshold (if `above`), scratch.
    """

    batches: int
    classes: int
    boxes: int
    limit: int
    centred: bool
    dtype: str
    overlap_dtype: str
    threshold_dtype: str | None = None

    @property
    def scratch(self) -> int:
        """Bytes of work space: a heap of boxes."""
        return 8 * max(self.boxes, 1)

    @property
    def bound(self) -> int:
        """Rows of the result."""
        return self.batches * self.classes * max(0, min(self.limit, self.boxes))


def emit_suppress(module: ir.Module, name: str, spec: SuppressSpec, target: CpuTarget) -> ir.Function:
    """Emit the selection by one worker; see `SuppressSpec` for the operands."""
    k = KernelBuilder(module, name, 8 + (spec.threshold_dtype is not None), target)
    selected, count = k.operands[:2]
    with common.first_worker(k):
        total = k.i(0)
        if spec.bound:
            most = _at_most(k, k.load(k.operands[5], 0, I64), spec.limit)
            boxes = _at_most(k, k.load(k.operands[4], 0, I64), spec.boxes)
            lines = k.reduce_loop(
                0,
                spec.batches * spec.classes,
                1,
                [total],
                lambda line, carried: [_Class(k, spec, line, carried[0], most).run(boxes)],
            )
            total = lines[0]
        with k.loop(k.mul(total, 3), 3 * spec.bound) as rest:
            k.store(k.i(0), selected, rest, I64)
        k.store(total, count, 0, I64)
    return k.finish()


def _at_most(k: KernelBuilder, value: ir.Value, limit: int) -> ir.Value:
    return k.b.select(k.b.icmp_signed("<", value, k.i(limit)), value, k.i(limit))


class _Class:
    """One class of one batch; its results start at row `total`."""

    def __init__(
        self, k: KernelBuilder, spec: SuppressSpec, line: ir.Value, total: ir.Value, most: ir.Value
    ) -> None:
        self.k, self.spec, self.total, self.most = k, spec, total, most
        self.batch = k.b.sdiv(line, k.i(spec.classes))
        self.kind = k.b.srem(line, k.i(spec.classes))
        self.scores = k.mul(line, spec.boxes)
        self.boxes = k.mul(self.batch, 4 * spec.boxes)
        self.heap = k.operands[-1]

    def score(self, box: ir.Value) -> ir.Value:
        return values.load(self.k, self.k.operands[3], self.k.add(self.scores, box), self.spec.dtype)

    def before(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Whether a box comes first: by score, then by place."""
        b, x, y = self.k.b, self.score(first), self.score(second)
        earlier = b.icmp_signed("<", first, second)
        return b.or_(b.fcmp_ordered(">", x, y), b.and_(b.fcmp_unordered("ueq", x, y), earlier))

    def run(self, boxes: ir.Value) -> ir.Value:
        """Rows written so far, those of this class included."""
        k = self.k
        candidate = k.reduce_loop(0, boxes, 1, [k.i(0)], self._candidate)[0]
        half = k.b.lshr(candidate, k.i(1))
        with k.loop(0, half) as step:
            self._sink(k.b.sub(k.b.sub(half, k.i(1)), step), candidate)
        end = k.b.add(self.total, self.most)

        def unfinished(carried: list[ir.Value]) -> ir.Value:
            left, kept = carried
            return k.b.and_(k.b.icmp_signed(">", left, k.i(0)), k.b.icmp_signed("<", kept, end))

        return common.repeat(k, [candidate, self.total], unfinished, self._take)[1]

    def _candidate(self, box: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Put a box into the heap if it is good enough."""
        k = self.k
        k.store(box, self.heap, carried[0], I64)
        if self.spec.threshold_dtype is None:
            return [k.b.add(carried[0], k.i(1))]
        least = self._as_compared(values.load(k, k.operands[7], 0, self.spec.threshold_dtype))
        good = k.b.fcmp_ordered(">", self.score(box), least)
        return [k.b.add(carried[0], k.b.zext(good, I64))]

    def _as_compared(self, x: ir.Value) -> ir.Value:
        kind = values.compute(self.spec.dtype)
        if x.type == kind:
            return x
        return self.k.b.fpext(x, kind) if str(kind) == "double" else self.k.b.fptrunc(x, kind)

    def _sink(self, start: ir.Value, size: ir.Value) -> None:
        """Restore the heap below one place."""
        k = self.k
        box = k.load(self.heap, start, I64)

        def better_child(carried: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
            left = k.b.add(k.b.shl(carried[0], k.i(1)), k.i(1))
            right = k.b.add(left, k.i(1))
            last = k.b.sub(size, k.i(1))
            left_in, right_in = (k.b.select(k.b.icmp_signed("<", c, size), c, last) for c in (left, right))
            a, b = k.load(self.heap, left_in, I64), k.load(self.heap, right_in, I64)
            second = k.b.and_(k.b.icmp_signed("<", right, size), self.before(b, a))
            return k.b.select(second, right_in, left_in), k.b.select(second, b, a)

        def unfinished(carried: list[ir.Value]) -> ir.Value:
            left = k.b.add(k.b.shl(carried[0], k.i(1)), k.i(1))
            _, child = better_child(carried)
            return k.b.and_(k.b.icmp_signed("<", left, size), self.before(child, box))

        def descend(carried: list[ir.Value]) -> list[ir.Value]:
            place, child = better_child(carried)
            k.store(child, self.heap, carried[0], I64)
            return [place]

        (hole,) = common.repeat(k, [start], unfinished, descend)
        k.store(box, self.heap, hole, I64)

    def _take(self, carried: list[ir.Value]) -> list[ir.Value]:
        """The best box that is left: kept, unless it overlaps one that was."""
        k = self.k
        left = k.b.sub(carried[0], k.i(1))
        kept = carried[1]
        best = k.load(self.heap, 0, I64)
        k.store(k.load(self.heap, left, I64), self.heap, 0, I64)
        with k.b.if_then(k.b.icmp_signed(">", left, k.i(0))):
            self._sink(k.i(0), left)
        mine = self._edges(best)
        overlap = self._as_compared(values.load(k, k.operands[6], 0, self.spec.overlap_dtype))

        def look(carried: list[ir.Value]) -> list[ir.Value]:
            other = k.load(k.operands[0], k.add(k.mul(carried[0], 3), 2), I64)
            shares = self._overlaps(mine, self._edges(other), overlap)
            return [k.b.add(carried[0], k.i(1)), k.b.not_(shares)]

        def unfinished(carried: list[ir.Value]) -> ir.Value:
            return k.b.and_(carried[1], k.b.icmp_signed("<", carried[0], kept))

        _, good = common.repeat(k, [self.total, ir.Constant(I1, 1)], unfinished, look)
        with k.b.if_then(good):
            for column, value in enumerate((self.batch, self.kind, best)):
                k.store(value, k.operands[0], k.add(k.mul(kept, 3), column), I64)
        return [left, k.b.add(kept, k.b.zext(good, I64))]

    def _edges(self, box: ir.Value) -> list[ir.Value]:
        """The low and the high end of a box on either axis: low, low, high, high."""
        k = self.k
        at = k.add(self.boxes, k.mul(box, 4))
        a, b, c, d = (values.load(k, k.operands[2], k.add(at, i), self.spec.dtype) for i in range(4))
        if self.spec.centred:
            half = ir.Constant(a.type, 0.5)
            c, d = k.b.fmul(c, half), k.b.fmul(d, half)
            return [k.b.fsub(a, c), k.b.fsub(b, d), k.b.fadd(a, c), k.b.fadd(b, d)]
        return [self._least(a, c), self._least(b, d), self._most(a, c), self._most(b, d)]

    def _least(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.k.b.select(self.k.b.fcmp_ordered("<", x, y), x, y)

    def _most(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.k.b.select(self.k.b.fcmp_ordered(">", x, y), x, y)

    def _overlaps(self, x: list[ir.Value], y: list[ir.Value], overlap: ir.Value) -> ir.Value:
        """Whether the shared area is more than a part of the union."""
        b = self.k.b
        zero = ir.Constant(x[0].type, 0.0)

        def area(edges: list[ir.Value]) -> ir.Value:
            return b.fmul(b.fsub(edges[2], edges[0]), b.fsub(edges[3], edges[1]))

        shared = [
            self._most(x[0], y[0]),
            self._most(x[1], y[1]),
            self._least(x[2], y[2]),
            self._least(x[3], y[3]),
        ]
        sides = [self._most(b.fsub(shared[i + 2], shared[i]), zero) for i in (0, 1)]
        common_area = b.fmul(*sides)
        union = b.fsub(b.fadd(area(x), area(y)), common_area)
        above = b.fcmp_ordered(">", b.fdiv(common_area, union), overlap)
        return b.and_(b.fcmp_ordered(">", union, zero), above)


class Suppress(Kernel[NonMaxSuppressionOp, SuppressSpec]):
    """Boxes of every class, the best first."""

    OPS = (NonMaxSuppressionOp,)
    emit = staticmethod(emit_suppress)

    def match(self, op: NonMaxSuppressionOp, context: CallContext) -> SuppressSpec | None:
        kinds = [dtype_name(v) for v in (op.boxes, op.overlap, *present(op.threshold))]
        counts = {dtype_name(op.most), dtype_name(op.available)}
        if not all(map(values.is_float, kinds)) or counts != {"i64"}:
            return None
        batches, classes, boxes = shape(op.scores)
        limits = op.limit, op.center_point_box
        return SuppressSpec(batches, classes, boxes, *limits, kinds[0], kinds[1], *kinds[2:])

    def scratch(self, spec: SuppressSpec, target: CpuTarget) -> int:
        return spec.scratch
