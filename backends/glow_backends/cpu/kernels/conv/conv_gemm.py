"""Convolutions with weights that change, and their gradients, as matrix products of columns.

A sample's windows are gathered into columns [C kernel, outputs] in scratch memory, and multiplied:

    forward   y [O, P]       = w [O, C K]   columns [C K, P]  (+ bias)
    weights   dw [O, C K]   += dy [O, P]    columns^T
    data      columns [C K, P] = w^T        dy [O, P], summed where windows overlap

Windows of one element at stride 1 need no columns: the sample itself is the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from llvmlite import ir
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit.builder import F32, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index, first_worker
from glow_backends.cpu.emit.memory import ceil_div, load_first, load_strided, store_first
from glow_backends.cpu.emit.windows import pair, window
from glow_backends.cpu.kernel import Kernel, plain_f32
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec, emit_gemm, gemm_scratch_bytes
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp


@dataclass(frozen=True)
class ConvGemmSpec:
    """One of the three products for NCHW data of two spatial axes, OIHW weights; f32.

    Operands, then scratch: forward y, x, w, [bias]; data dx, dy, w; weights dw, x, dy. `channels`
    and `size` are those of x, `out_channels` those of y; `more` is what lies behind the last window
    of an axis (it gets gradient 0).
    """

    mode: str
    batch: int
    channels: int
    size: tuple[int, int]
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    group: int = 1
    bias: bool = False

    @property
    def outputs(self) -> tuple[int, int]:
        """Spatial sizes of y."""
        return (self._output(0), self._output(1))

    def _output(self, axis: int) -> int:
        reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
        return (self.size[axis] + self.pads[axis] + self.pads[axis + 2] - reach) // self.strides[axis] + 1

    @property
    def padded(self) -> tuple[int, int]:
        """Spatial sizes of x with its padding."""
        return (self.size[0] + self.pads[0] + self.pads[2], self.size[1] + self.pads[1] + self.pads[3])

    @property
    def direct(self) -> bool:
        """Whether x is its own columns."""
        return prod(self.kernel) == 1 and set(self.strides) == {1} and not any(self.pads)

    @property
    def rows(self) -> int:
        """Rows of the columns of one group."""
        return self.channels // self.group * prod(self.kernel)

    def product(self, target: CpuTarget) -> GemmSpec:
        """The matrix product of one sample and group."""
        out, places = self.out_channels // self.group, prod(self.outputs)
        if self.mode == "forward":
            return GemmSpec(out, places, self.rows, accumulate=self.bias)
        if self.mode == "data":
            return GemmSpec(self.rows, places, out, trans_a=True)
        if self.narrow(target):
            return GemmSpec(out, self.rows, places, trans_b=True, accumulate=True)
        return GemmSpec(self.rows, out, places, trans_b=True, accumulate=True)

    def narrow(self, target: CpuTarget) -> bool:
        """Whether the weights' gradient is computed as it lies: few output channels fill no vector."""
        return self.out_channels // self.group < target.lanes

    def layout(self, target: CpuTarget) -> tuple[dict[str, int], int]:
        """Offsets in floats of the parts of a worker's scratch, and its size."""
        slack = target.lanes * max(self.strides[1], 2)
        sizes = {"product": gemm_scratch_bytes(self.product(_single(target)), _single(target)) // 4}
        if not self.direct:
            sizes["image"] = self.channels * prod(self.padded) + slack
            sizes["columns"] = self.group * self.rows * prod(self.outputs) + slack
        if self.mode == "weights" and not self.narrow(target):
            sizes["sums"] = self.rows * self.out_channels
        at, places = 0, dict[str, int]()
        for name, size in sizes.items():
            places[name] = at
            at += ceil_div(size, 16) * 16
        return places, at


def _single(target: CpuTarget) -> CpuTarget:
    """The target for code that one worker runs alone."""
    return replace(target, threads=1)


def conv_gemm_scratch_bytes(spec: ConvGemmSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand."""
    return 4 * max(16, spec.layout(target)[1]) * target.threads


class _Emission:
    def __init__(self, k: KernelBuilder, spec: ConvGemmSpec, inner: ir.Function) -> None:
        self.k, self.spec, self.inner = k, spec, inner
        self.table = k.table_for(inner)
        self.lanes = k.target.lanes
        places, size = spec.layout(k.target)
        base = k.gep(k.operands[-1], k.mul(k.worker, size) if k.target.threads > 1 else 0)
        self.part = {name: k.gep(base, at) for name, at in places.items()}
        self.spans = prod(spec.outputs)
        self.plane = prod(spec.padded)

    def emit(self) -> None:
        """Samples one after another; each worker has its own, weights' gradients belong to one."""
        spec, k = self.spec, self.k
        if spec.mode != "weights":
            low, high = k.share(spec.batch)
            if spec.mode == "forward" and not spec.direct:
                self.clear(self.part["image"], spec.channels * self.plane)
            with k.loop(low, high) as sample:
                (self.forward if spec.mode == "forward" else self.data)(sample)
            return
        with first_worker(k):
            if not spec.direct:
                self.clear(self.part["image"], spec.channels * self.plane)
            sums = k.operands[0] if spec.narrow(k.target) else self.part["sums"]
            self.clear(sums, spec.out_channels * spec.rows)
            with k.loop(0, spec.batch) as sample:
                self.weights(sample, sums)
            if not spec.narrow(k.target):
                self.turn(sums)

    # --- the three products ----------------------------------------------------------------
    def forward(self, sample: Index) -> None:
        """y of one sample."""
        k, spec = self.k, self.spec
        y, x, w = k.operands[:3]
        columns = self.columns(k.gep(x, k.mul(sample, spec.channels * prod(spec.size))))
        out = k.gep(y, k.mul(sample, spec.out_channels * self.spans))
        if spec.bias:
            with k.loop(0, spec.out_channels) as channel:
                value = k.splat(k.load(k.operands[3], channel), self.lanes)
                self.rows_of(k.gep(out, k.mul(channel, self.spans)), self.spans, lambda at, live: value)
        for g in range(spec.group):
            self.multiply(
                k.gep(out, g * spec.out_channels // spec.group * self.spans),
                k.gep(w, g * spec.out_channels // spec.group * spec.rows),
                k.gep(columns, g * spec.rows * self.spans),
            )

    def data(self, sample: Index) -> None:
        """dx of one sample."""
        k, spec = self.k, self.spec
        dx, dy, w = k.operands[:3]
        dx = k.gep(dx, k.mul(sample, spec.channels * prod(spec.size)))
        dy = k.gep(dy, k.mul(sample, spec.out_channels * self.spans))
        columns = dx if spec.direct else self.part["columns"]
        share = spec.out_channels // spec.group
        for g in range(spec.group):
            self.multiply(
                k.gep(columns, g * spec.rows * self.spans),
                k.gep(w, g * share * spec.rows),
                k.gep(dy, g * share * self.spans),
            )
        if not spec.direct:
            self.clear(self.part["image"], spec.channels * self.plane)
            self.scatter(columns, self.part["image"])
            self.image_rows(lambda row, inner: self.copy(inner, k.gep(dx, row), spec.size[1]))

    def weights(self, sample: Index, sums: ir.Value) -> None:
        """One sample's part of dw."""
        k, spec = self.k, self.spec
        columns = self.columns(k.gep(k.operands[1], k.mul(sample, spec.channels * prod(spec.size))))
        dy = k.gep(k.operands[2], k.mul(sample, spec.out_channels * self.spans))
        share = spec.out_channels // spec.group
        for g in range(spec.group):
            to = k.gep(sums, g * share * spec.rows)
            grad = k.gep(dy, g * share * self.spans)
            part = k.gep(columns, g * spec.rows * self.spans)
            if spec.narrow(k.target):
                self.multiply(to, grad, part)
            else:
                self.multiply(to, part, grad)

    def multiply(self, c: ir.Value, a: ir.Value, b: ir.Value) -> None:
        """Call the matrix product."""
        single = _single(self.k.target)
        scratch = [self.part["product"]] if gemm_scratch_bytes(self.spec.product(single), single) else []
        self.k.b.call(self.inner, [c, a, b, *scratch, *self.table, self.k.i(0)])

    def turn(self, sums: ir.Value) -> None:
        """dw[o, row] = sums[row, o] of each group."""
        k, spec = self.k, self.spec
        share = spec.out_channels // spec.group
        for g in range(spec.group):
            start = g * share * spec.rows
            with k.loop(0, share) as o, k.loop(0, spec.rows) as row:
                value = k.load(sums, k.add(start, k.add(k.mul(row, share), o)))
                k.store(value, k.operands[0], k.add(start, k.add(k.mul(o, spec.rows), row)))

    # --- columns -----------------------------------------------------------------------------
    def columns(self, x: ir.Value) -> ir.Value:
        """The columns of one sample, gathered into scratch."""
        k, spec = self.k, self.spec
        if spec.direct:
            return x
        image, columns = self.part["image"], self.part["columns"]
        self.image_rows(lambda row, inner: self.copy(k.gep(x, row), inner, spec.size[1]))

        def gather(source: ir.Value, target: ir.Value, step: int) -> None:
            # Vectors may run over the end of a row: the next row is written after it.
            with k.loop(0, spec.outputs[1], self.lanes) as at:
                start = k.mul(at, step)
                k.store(load_strided(k, source, start, step, self.lanes, F32), target, at)

        self.visit(image, columns, gather)
        return columns

    def scatter(self, columns: ir.Value, image: ir.Value) -> None:
        """Add the columns to the places of the padded image that they came from."""
        k, width, lanes = self.k, self.spec.outputs[1], self.lanes

        def add(target: ir.Value, source: ir.Value, step: int) -> None:
            if step > 2:
                with k.loop(0, width) as at:
                    place = k.mul(at, step)
                    k.store(k.b.fadd(k.load(target, place), k.load(source, at)), target, place)
                return
            whole = width // lanes * lanes
            with k.loop(0, whole, lanes) as at:
                self.accumulate(target, k.load(source, at, lanes=lanes), k.mul(at, step), step)
            if width > whole:
                # Lanes without an element add 0 to what lies behind.
                last = load_first(k, source, whole, lanes, width - whole)
                self.accumulate(target, last, whole * step, step)

        self.visit(image, columns, add)

    def accumulate(self, target: ir.Value, value: ir.Value, place: Index, step: int) -> None:
        """target[place + i step] += value[i], step 1 or 2."""
        k, lanes = self.k, self.lanes
        parts = [value]
        if step == 2:
            zero = k.splat(0.0, lanes)
            halves = [[i // 2 + h * lanes // 2 if not i % 2 else lanes for i in range(lanes)] for h in (0, 1)]
            masks = [shuffle_mask(tuple(h)) for h in halves]
            parts = [k.b.shuffle_vector(value, zero, mask) for mask in masks]
        for number, part in enumerate(parts):
            at = k.add(place, number * lanes)
            k.store(k.b.fadd(k.load(target, at, lanes=lanes), part), target, at)

    def visit(
        self, image: ir.Value, columns: ir.Value, body: Callable[[ir.Value, ir.Value, int], None]
    ) -> None:
        """body(place in the padded image, row of the columns, step) for every row of outputs."""
        k, spec = self.k, self.spec
        height, width = spec.outputs
        with k.loop(0, spec.channels) as channel, k.loop(0, spec.kernel[0]) as down:
            row = k.mul(k.add(k.mul(channel, spec.kernel[0]), down), spec.kernel[1])
            plane = k.add(k.mul(channel, self.plane), k.mul(down, spec.dilations[0] * spec.padded[1]))
            for across in range(spec.kernel[1]):
                with k.loop(0, height) as y:
                    line = k.add(plane, k.mul(y, spec.strides[0] * spec.padded[1]))
                    place = k.gep(image, k.add(line, across * spec.dilations[1]))
                    at = k.add(k.mul(k.add(row, across), self.spans), k.mul(y, width))
                    body(place, k.gep(columns, at), spec.strides[1])

    # --- rows --------------------------------------------------------------------------------
    def image_rows(self, body: Callable[[Index, ir.Value], None]) -> None:
        """body(offset in x, pointer into the padded image) for every row of the sample."""
        k, spec = self.k, self.spec
        height, width = spec.size
        with k.loop(0, spec.channels) as channel, k.loop(0, height) as y:
            at = k.add(k.mul(channel, self.plane), k.mul(y, spec.padded[1]))
            inner = k.gep(self.part["image"], k.add(at, spec.pads[0] * spec.padded[1] + spec.pads[1]))
            body(k.mul(k.add(k.mul(channel, height), y), width), inner)

    def rows_of(self, target: ir.Value, count: int, value: Callable[[Index, int], ir.Value]) -> None:
        """target[i] = value(i, live lanes) for count elements, vector by vector."""
        k, lanes = self.k, self.lanes
        whole = count // lanes * lanes
        with k.loop(0, whole, lanes) as at:
            k.store(value(at, lanes), target, at)
        if count > whole:
            store_first(k, value(whole, count - whole), target, whole, count - whole)

    def copy(self, source: ir.Value, target: ir.Value, count: int) -> None:
        """Adjacent elements."""
        self.rows_of(target, count, lambda at, live: load_first(self.k, source, at, self.lanes, live))

    def clear(self, target: ir.Value, count: int) -> None:
        """Zeros."""
        self.rows_of(target, count, lambda at, live: self.k.splat(0.0, self.lanes))


def emit_conv_gemm(module: ir.Module, name: str, spec: ConvGemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel of a spec; its matrix product is a function of its own beside it."""
    inner = emit_gemm(module, f"{name}_product", spec.product(target), _single(target))
    k = KernelBuilder(module, name, 4 + spec.bias, target, sized=True)
    _Emission(k, spec, inner).emit()
    return k.finish()


FEWEST_CHANNELS = 4
"""Fewer output channels a group than this are left to the general kernel."""

AnyConv = ConvOp | ConvTransposeOp | ConvBackwardWeightsOp


def conv_gemm_spec(op: AnyConv, context: CallContext) -> ConvGemmSpec | None:
    """The product of a convolution whose filter changes, of its adjoint, or of a filter's gradient."""
    if not plain_f32(op) or op.layout != "NCHW":
        return None
    if is_instr_of(op, ConvOp):
        channels, mode, parts = shape(op.filter)[0], "forward", (op.input, op.result, op.filter)
        fits = context.constant(op.filter) is None  # others are packed
    elif is_instr_of(op, ConvTransposeOp):
        channels, mode, parts = shape(op.input)[1], "data", (op.result, op.input, op.filter)
        fits = op.bias is None
    elif is_instr_of(op, ConvBackwardWeightsOp):
        return _spec(op, "weights", op.input, op.grad, op.result)
    else:
        raise AssertionError(op.name)
    return _spec(op, mode, *parts) if fits and channels // op.group >= FEWEST_CHANNELS else None


def _spec(op: AnyConv, mode: str, x: SSAValue, y: SSAValue, w: SSAValue) -> ConvGemmSpec | None:
    """The spec by x (or dx), y (or dy) and w (or dw), of one or two spatial axes."""
    (batch, channels, *size), (_, out, *outputs), (_, _, *kernel) = shape(x), shape(y), shape(w)
    if len(size) not in (1, 2):
        return None
    spec = ConvGemmSpec(
        mode,
        batch,
        channels,
        pair(size, 1),
        out,
        pair(kernel, 1),
        **window(op.strides, op.pads, op.dilations),
        group=op.group,
        bias=is_instr_of(op, ConvOp) and op.bias is not None,
    )
    return spec if spec.outputs == pair(outputs, 1) else None


class GemmConv(Kernel[AnyConv, ConvGemmSpec]):
    """Columns of windows, and a product of matrices."""

    OPS = (ConvOp, ConvTransposeOp, ConvBackwardWeightsOp)
    emit = staticmethod(emit_conv_gemm)

    def match(self, op: AnyConv, context: CallContext) -> ConvGemmSpec | None:
        return conv_gemm_spec(op, context)

    def scratch(self, spec: ConvGemmSpec, target: CpuTarget) -> int:
        return conv_gemm_scratch_bytes(spec, target)

    def flops(self, spec: ConvGemmSpec) -> int:
        return 2 * spec.batch * spec.out_channels * prod(spec.outputs) * spec.rows
