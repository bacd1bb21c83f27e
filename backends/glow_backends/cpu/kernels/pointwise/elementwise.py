"""A sequence of element-wise steps as one vectorised loop, with broadcast operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llvmlite import ir
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import Dim, Index
from glow_backends.cpu.emit.pointwise import Pointwise, Step, cast, emit_pointwise, supports
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel, O, known
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.extent import Extent
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.core.operator import Operator
from glow_dialects.instr.memory import CopyOp, StartCopyOp
from glow_dialects.ops.splat import SplatOp


@dataclass(frozen=True)
class ElementwiseSpec:
    """outputs[i] = program(inputs) over `shape`.

    Operands: the outputs (all of `shape`, `output_dtypes`), then the inputs (`input_shapes`, which
    broadcast to `shape`, and `dtypes`). An output may be the same buffer as an input of `shape`.
    Only short rows are part of the code: the kernel is sized.
    """

    program: Pointwise
    shape: tuple[int, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]

    @property
    def bytes_touched(self) -> int:
        """Bytes read and written, to decide about workers."""
        count = common.product(self.shape)
        return count * sum(values.size(d) for d in (*self.dtypes, *self.output_dtypes))


def emit_elementwise(module: ir.Module, name: str, spec: ElementwiseSpec, target: CpuTarget) -> ir.Function:
    """Emit the loop; see `ElementwiseSpec` for the operands."""
    outputs = len(spec.output_dtypes)
    k = KernelBuilder(module, name, outputs + len(spec.dtypes), target, sized=True, shared=outputs > 1)
    if common.product(spec.shape):
        _Loop(k, spec).emit()
    return k.finish()


_LIGHT = frozenset(
    {
        "add", "sub", "mul", "neg", "abs", "max", "min", "relu", "clip", "cast", "select", "constant",
        "and", "or", "xor", "not", "floor", "ceil", "round", "trunc", "leaky_relu", "prelu",
        "hard_sigmoid", "hard_swish", "bitwise_and", "bitwise_or", "bitwise_xor",
    }
)  # fmt: skip
"""Steps of a few instructions: a loop of only these is unrolled."""


class _Loop:
    """The loop nest of one kernel; the stride of operand i stands at position i of every Dim."""

    def __init__(self, k: KernelBuilder, spec: ElementwiseSpec) -> None:
        self.k = k
        self.spec = spec
        self.program = replace(spec.program, dtypes=spec.dtypes)
        self.outputs = len(spec.output_dtypes)
        self.dtypes = (*spec.output_dtypes, *spec.dtypes)
        strides = [common.row_major(spec.shape)] * self.outputs
        strides += [common.broadcast_strides(s, spec.shape) for s in spec.input_shapes]
        self.dims = common.collapse(spec.shape, strides)
        self.once: list[ir.Value] = []
        """What steps compute of operands of one element: once, before the loops."""
        single = [i for i, s in enumerate(spec.input_shapes) if common.product(s) == 1]
        if common.product(spec.shape) != 1 and single:
            first, self.program = self.program.split(single)
            ones = [values.load(k, k.operands[self.outputs + i], 0, spec.dtypes[i]) for i in single]
            self.once = emit_pointwise(k, first, ones)
        steps = self.program.steps
        widest = max(values.width(d) for d in (*self.dtypes, *(s.dtype for s in steps)))
        self.lanes = max(1, k.target.vector_bytes // widest)
        light = len(steps) <= 6 and all(s.op in _LIGHT for s in steps)
        self.unroll = 4 if light else 1

    def emit(self) -> None:
        """Loop over the outer dimensions, and inside along the innermost, or down short rows."""
        k = self.k
        *outer, inner = self.dims
        known = not isinstance(inner.extent, Extent)
        short = bool(outer) and known and inner.extent <= 4 * self.lanes
        line = outer.pop() if short else inner
        divided = common.product([d.extent for d in outer]) < k.target.threads
        extents = [d.extent for d in outer]
        with common.nest(k, extents, self.spec.bytes_touched, shared=not divided) as indices:
            strides = [tuple(d.strides[i] for d in outer) for i in range(len(self.dtypes))]
            known = {s: common.offset(k, indices, s) for s in dict.fromkeys(strides)}
            bases = [known[s] for s in strides]
            if short and self._packable(line, inner):
                self._packed(bases, line, inner, divided)
            elif short:
                self._rows(bases, line, inner, divided)
            else:
                self._line(bases, line, divided)

    def _line(self, bases: Sequence[Index], inner: Dim, divided: bool) -> None:
        """Along the innermost dimension; with `divided` each worker takes whole blocks of it."""
        k = self.k
        fixed = {
            i: values.load(k, k.operands[i], bases[i], self.dtypes[i])
            for i in range(self.outputs, len(self.dtypes))
            if inner.strides[i] == 0
        }
        start = 0
        if divided and k.target.threads > 1:
            block = self.lanes * self.unroll
            blocks = inner.extent // block
            low, high = common.share(k, blocks, self.spec.bytes_touched)
            with k.loop(k.mul(low, block), k.mul(high, block), block) as i:
                for part in range(self.unroll):
                    place = k.add(i, part * self.lanes)
                    self._vector(self._places(bases, place, inner.strides), inner, self.lanes, None, fixed)
            start = blocks * block
            if start == inner.extent:
                return
        with common.last_worker(k) if divided else nullcontext():
            rest, begin = inner.extent - start, common.length(k, start)
            for place, lanes, active in common.sized_strips(k, begin, rest, self.lanes, self.unroll):
                self._vector(self._places(bases, place, inner.strides), inner, lanes, active, fixed)

    def _rows(self, bases: Sequence[Index], stream: Dim, inner: Dim, divided: bool) -> None:
        """Down rows of a few vectors; values that all rows share stay in registers."""
        k = self.k
        low, high = (0, common.length(k, stream.extent))
        if divided:
            low, high = common.share(k, stream.extent, self.spec.bytes_touched)
        steps = stream.steps(k)
        for start in range(0, inner.extent, self.lanes):
            active = min(self.lanes, inner.extent - start)
            lanes = common.power_of_two(active)
            column = self._places(bases, start, inner.strides)
            fixed = {
                i: self._load(i, column[i], inner.strides[i], lanes, active)
                for i in range(self.outputs, len(self.dtypes))
                if stream.strides[i] == 0
            }
            with k.loop(low, high) as row:
                self._vector(self._places(column, row, steps), inner, lanes, active, fixed)

    def _packable(self, stream: Dim, inner: Dim) -> bool:
        """Whether short rows lie behind each other, so that vectors may hold parts of several."""
        extent = inner.extent
        known = ((extent, 1), (1, 0), (0, 1), (0, 0))
        pairs = list(zip(stream.strides, inner.strides, strict=True))
        return (
            1 < extent <= min(8 if self.unroll > 1 else 4, self.lanes // 2)
            and stream.extent >= self.lanes
            and all(p in known for p in pairs[self.outputs :])
            and all(p == (extent, 1) for p in pairs[: self.outputs])
        )

    def _packed(self, bases: Sequence[Index], stream: Dim, inner: Dim, divided: bool) -> None:
        """`lanes` short rows at a time: as many full vectors as a row has elements.

        What is constant along a row is read as one vector and spread by shuffles.
        """
        k, extent, lanes = self.k, inner.extent, self.lanes
        spread = [[(v * lanes + i) // extent for i in range(lanes)] for v in range(extent)]
        cycle = [[(v * lanes + i) % extent for i in range(lanes)] for v in range(extent)]
        pairs = list(zip(stream.strides, inner.strides, strict=True))
        fixed: dict[int, list[ir.Value]] = {}
        for i in range(self.outputs, len(self.dtypes)):
            if pairs[i] == (0, 0):
                one = values.load(k, k.operands[i], bases[i], self.dtypes[i])
                fixed[i] = [values.splat(k, one, lanes)] * extent
            elif pairs[i] == (0, 1):
                width = common.power_of_two(extent)
                row = values.load(k, k.operands[i], bases[i], self.dtypes[i], width, extent)
                fixed[i] = [values.shuffle(k, row, order) for order in cycle]

        def block(first: Index, rows: int) -> None:
            whole = {
                i: values.load(
                    k, k.operands[i], k.add(bases[i], first), self.dtypes[i], lanes, self._first(rows)
                )
                for i in range(self.outputs, len(self.dtypes))
                if pairs[i] == (1, 0)
            }
            for v in range(extent):
                active = self._first(rows * extent - v * lanes)
                if active == 0:
                    break
                known = {i: vectors[v] for i, vectors in fixed.items()}
                known |= {i: values.shuffle(k, x, spread[v]) for i, x in whole.items()}
                places = [k.add(b, k.add(k.mul(first, extent), v * lanes)) for b in bases]
                self._vector(places, inner, lanes, active, known)

        blocks = stream.extent // lanes
        low, high = (0, common.length(k, blocks))
        if divided:
            low, high = common.share(k, blocks, self.spec.bytes_touched)
        with k.loop(low, high) as number:
            block(k.mul(number, lanes), lanes)
        rest = stream.extent % lanes
        if isinstance(rest, Extent) or rest:
            with common.last_worker(k) if divided else nullcontext():
                block(common.length(k, blocks * lanes), rest)

    def _first(self, count: int) -> Active:
        """The first `count` lanes of a vector: none of them where it is negative, at most all."""
        if isinstance(count, Extent):
            return values.first_lanes(self.k, self.lanes, self.k.i(count))
        return max(0, min(self.lanes, count))

    def _places(self, bases: Sequence[Index], place: Index, strides: Sequence[Index]) -> list[Index]:
        k = self.k
        return [k.add(base, k.mul(place, stride)) for base, stride in zip(bases, strides, strict=True)]

    def _load(self, operand: int, place: Index, stride: int, lanes: int, active: Active | None) -> ir.Value:
        k, dtype = self.k, self.dtypes[operand]
        if stride == 0:
            return values.load(k, k.operands[operand], place, dtype)
        return values.load(k, k.operands[operand], place, dtype, lanes, active)

    def _vector(
        self,
        places: Sequence[Index],
        inner: Dim,
        lanes: int,
        active: Active | None,
        fixed: Mapping[int, ir.Value],
    ) -> None:
        """Load one vector of every input, run the program, store its outputs."""
        k = self.k
        inputs: list[ir.Value] = []
        for i in range(self.outputs, len(self.dtypes)):
            value = fixed.get(i)
            if value is None:
                value = self._load(i, places[i], inner.strides[i], lanes, active)
            if lanes > 1 and values.lanes_of(value.type) == 1:
                value = values.splat(k, value, lanes)
            inputs.append(value)
        inputs += [values.splat(k, v, lanes) if lanes > 1 else v for v in self.once]
        results = emit_pointwise(k, self.program, inputs)
        for i, (value, source) in enumerate(zip(results, self.program.outputs, strict=True)):
            value = cast(k, value, self.program.dtype(source), self.dtypes[i])
            if values.lanes_of(value.type) < lanes:
                value = values.splat(k, value, lanes)
            values.store(k, value, k.operands[i], places[i], self.dtypes[i], active)


def loop_spec(program: Pointwise, outs: Sequence[SSAValue], ins: Sequence[SSAValue]) -> ElementwiseSpec:
    """The loop over a program."""
    return ElementwiseSpec(
        program,
        shape(outs[0]),
        tuple(shape(v) for v in ins),
        tuple(dtype_name(v) for v in ins),
        tuple(dtype_name(v) for v in outs),
    )


class _LoopKernel(Kernel[O, ElementwiseSpec]):
    """A loop over an element-wise program."""

    emit = staticmethod(emit_elementwise)


class Elementwise(_LoopKernel[Operator]):
    """A data-parallel instruction as a loop of one step."""

    def supports(self, node: GraphOp) -> bool:
        return not node.operands or supports(node.name.removeprefix("glow."), dtype_name(node.results[0]))

    def match(self, op: Operator, context: CallContext) -> ElementwiseSpec | None:
        out, *ins = op.operands
        name, kind = op.name.removeprefix("glow_instr."), dtype_name(out)
        if op.predicate is not None:
            return None
        if is_instr_of(op, SplatOp):
            return loop_spec(Pointwise(0, (Step("constant", (), (op.value,), kind),), (0,)), [out], [])
        if not known(op) or not supports(name, kind):
            return None
        names = [n for n in op.get_irdl_definition().properties if n != SEGMENTS and n in op.properties]
        step = Step(name, tuple(range(len(ins))), tuple(getattr(op, n) for n in names), kind)
        program = Pointwise(len(ins), (step,), (len(ins),), tuple(dtype_name(v) for v in ins))
        return loop_spec(program, [out], ins)


class Copy(_LoopKernel[CopyOp | StartCopyOp]):
    """A copy is a loop without steps."""

    OPS = (CopyOp, StartCopyOp)

    def match(self, op: CopyOp | StartCopyOp, context: CallContext) -> ElementwiseSpec:
        return loop_spec(Pointwise(1, (), (0,), (dtype_name(op.src),)), [op.dest], [op.src])


class Stack(_LoopKernel[StackOp]):
    """A loop of many steps."""

    OPS = (StackOp,)

    def match(self, op: StackOp, context: CallContext) -> ElementwiseSpec:
        return loop_spec(program_of(op.body), op.result, op.inputs)
