"""Convolutions with weights that change, panel by panel; the fast form of `conv_gemm`.

Forward, and the gradient of the data at stride 1 (a forward convolution by the turned filter): the
windows of a few vectors of outputs are gathered into a panel that stays in the cache, and multiplied
by all weights at once. Gradient of the weights: sums over outputs of dy, turned so that vectors hold
neighbouring channels, times elements of the padded sample read where they lie.

Small images are taken several samples at a time, so that both products stay long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import F32, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index, first_worker, power_of_two
from glow_backends.cpu.emit.memory import (
    ceil_div,
    load_first,
    load_strided,
    minimum,
    split_index,
    store_first,
    transpose,
)
from glow_backends.cpu.emit.register_blocks import Loop, multiply
from glow_backends.cpu.kernels.conv.conv_gemm import AnyConv, ConvGemmSpec, GemmConv, conv_gemm_spec
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec, emit_gemm, plan_gemm
from glow_backends.cpu.target import CpuTarget

_PLACES = 1024
"""Outputs that are worked on together, if the batch has them."""
_TILE = 9
"""Rows of a block of the weights' gradient: the window of a 3 x 3 kernel."""


def panels_fit(spec: ConvGemmSpec, target: CpuTarget) -> bool:
    """Whether this form can do a spec: rows of outputs must fall into vectors."""
    if spec.mode == "weights":
        return spec.group == 1
    if spec.mode == "data":
        turned = _turned(spec)
        return turned is not None and panels_fit(turned, target)
    return _piece(spec, target.lanes) is not None


def _turned(spec: ConvGemmSpec) -> ConvGemmSpec | None:
    """The forward convolution that is the gradient of the data, for stride 1 and no wide padding."""
    reach = [d * (n - 1) for d, n in zip(spec.dilations, spec.kernel, strict=True)]
    pads = tuple(reach[i % 2] - p for i, p in enumerate(spec.pads))
    if set(spec.strides) != {1} or min(pads) < 0:
        return None
    return replace(
        spec,
        mode="forward",
        channels=spec.out_channels,
        out_channels=spec.channels,
        size=spec.outputs,
        pads=(pads[0], pads[1], pads[2], pads[3]),
        bias=False,
    )


def _piece(spec: ConvGemmSpec, lanes: int) -> int | None:
    """Elements of a row of outputs that one store of a panel holds."""
    width = spec.outputs[1]
    for size in (lanes, lanes // 2, lanes // 4):
        if size >= 4 and width % size == 0:
            return size
    return power_of_two(width) if width < lanes else None


@dataclass(frozen=True)
class _Plan:
    """How a spec is cut: samples together, and the parts of a worker's scratch (offsets in floats)."""

    samples: int
    vectors: int
    parts: dict[str, int]
    size: int


def _plan(spec: ConvGemmSpec, target: CpuTarget) -> _Plan:
    """The plan of a forward spec or of one of weights."""
    places = prod(spec.outputs)
    samples = max(
        s for s in range(1, spec.batch + 1) if not spec.batch % s and (s == 1 or s * places <= _PLACES)
    )
    lanes, out = target.lanes, spec.out_channels // spec.group
    padded = (spec.size[0] + spec.pads[0] + spec.pads[2], spec.size[1] + spec.pads[1] + spec.pads[3])
    sizes = {"image": samples * spec.channels * prod(padded) + 4 * lanes * spec.strides[1]}
    if spec.mode == "weights":
        vectors = min(2, ceil_div(out, lanes))
        sizes["panel"] = samples * places * vectors * lanes
        sizes["sums"] = spec.rows * ceil_div(out, lanes * vectors) * lanes * vectors
    else:
        whole = plan_gemm(GemmSpec(out, 8 * lanes, spec.rows, packed_b=True), target)
        vectors = whole.block.vectors
        sizes["panel"] = spec.rows * vectors * lanes
        sizes["product"] = out * vectors * lanes
    at, parts = 0, dict[str, int]()
    for name, size in sizes.items():
        parts[name] = at
        at += ceil_div(size, 16) * 16
    return _Plan(samples, vectors, parts, at)


def _filter_size(spec: ConvGemmSpec) -> int:
    """Floats of the turned filter, which all workers share."""
    return ceil_div(spec.channels * spec.out_channels // spec.group * prod(spec.kernel), 16) * 16


def conv_panels_scratch_bytes(spec: ConvGemmSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand."""
    forward = _turned(spec) if spec.mode == "data" else spec
    assert forward is not None
    own = _plan(forward, target).size + (_filter_size(spec) if spec.mode == "data" else 0)
    return 4 * own * target.threads


class _Base:
    """Padded samples in scratch, and rows copied to and fro."""

    def __init__(self, k: KernelBuilder, spec: ConvGemmSpec, scratch: ir.Value) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.plan = _plan(spec, k.target)
        self.part = {name: k.gep(scratch, at) for name, at in self.plan.parts.items()}
        self.plane = prod(spec.padded)
        self.places = prod(spec.outputs)

    def rows_of(self, target: ir.Value, count: int, value: Callable[[Index, int], ir.Value]) -> None:
        """target[i] = value(i, live lanes) for count elements, vector by vector."""
        k, lanes = self.k, self.lanes
        whole = count // lanes * lanes
        with k.loop(0, whole, lanes) as at:
            k.store(value(at, lanes), target, at)
        if count > whole:
            store_first(k, value(whole, count - whole), target, whole, count - whole)

    def clear(self, target: ir.Value, count: int) -> None:
        """Zeros."""
        self.rows_of(target, count, lambda at, live: self.k.splat(0.0, self.lanes))

    def load_images(self, x: ir.Value, first: Index) -> None:
        """Copy samples first, first + 1, ... into the padded images; their borders stay 0."""
        k, spec = self.k, self.spec
        height, width = spec.size
        count = self.plan.samples * spec.channels
        source = k.gep(x, k.mul(first, spec.channels * height * width))
        inside = spec.pads[0] * spec.padded[1] + spec.pads[1]
        with k.loop(0, count) as plane, k.loop(0, height) as y:
            row = k.gep(source, k.mul(k.add(k.mul(plane, height), y), width))
            to = k.add(k.add(k.mul(plane, self.plane), k.mul(y, spec.padded[1])), inside)
            self.rows_of(
                k.gep(self.part["image"], to),
                width,
                lambda at, live, row=row: load_first(k, row, at, self.lanes, live),
            )

    def clear_images(self) -> None:
        """Zero the images, borders and all."""
        self.clear(self.part["image"], self.plan.samples * self.spec.channels * self.plane)


class _Forward(_Base):
    """y = conv(x, w) + bias."""

    def __init__(self, k: KernelBuilder, spec: ConvGemmSpec, scratch: ir.Value, product: ir.Function) -> None:
        super().__init__(k, spec, scratch)
        self.product, self.table = product, k.table_for(product)
        piece = _piece(spec, self.lanes)
        assert piece is not None
        self.piece, self.live = piece, min(piece, spec.outputs[1])
        self.in_row = ceil_div(spec.outputs[1], piece)
        self.pieces = self.plan.samples * spec.outputs[0] * self.in_row
        self.in_panel = self.plan.vectors * self.lanes // piece

    def emit(self, y: ir.Value, x: ir.Value, w: ir.Value, bias: ir.Value | None) -> None:
        """Chunks of samples, shared by the workers."""
        k, spec = self.k, self.spec
        low, high = k.share(spec.batch // self.plan.samples)
        self.clear_images()
        with k.loop(low, high) as chunk:
            first = k.mul(chunk, self.plan.samples)
            self.load_images(x, first)
            out = k.gep(y, k.mul(first, spec.out_channels * self.places))
            with k.loop(0, ceil_div(self.pieces, self.in_panel)) as panel:
                self._panel(panel, out, w, bias)

    def _panel(self, panel: Index, y: ir.Value, w: ir.Value, bias: ir.Value | None) -> None:
        k, spec = self.k, self.spec
        sources: list[Index] = []
        targets: list[Index] = []
        for number in range(self.in_panel):
            # Past the end the last piece is computed again.
            at = minimum(k, k.add(k.mul(panel, self.in_panel), number), self.pieces - 1)
            sample, row, part = split_index(k, at, [self.plan.samples, spec.outputs[0], self.in_row])
            place = k.add(k.mul(row, spec.outputs[1]), k.mul(part, self.piece))
            targets.append(k.add(k.mul(sample, spec.out_channels * self.places), place))
            line = k.mul(row, spec.strides[0] * spec.padded[1])
            across = k.mul(part, self.piece * spec.strides[1])
            sources.append(k.add(k.mul(sample, spec.channels * self.plane), k.add(line, across)))
        share, inputs = spec.out_channels // spec.group, spec.channels // spec.group
        for g in range(spec.group):
            self._gather(sources, g * inputs)
            part = [self.part["product"], k.gep(w, g * share * spec.rows), self.part["panel"]]
            k.b.call(self.product, [*part, *self.table, k.i(0)])
            self._write(targets, g * share, y, bias)

    def _gather(self, sources: list[Index], channel: int) -> None:
        """The panel: row (channel, place in the kernel), columns the outputs of the pieces."""
        k, spec, width = self.k, self.spec, self.plan.vectors * self.lanes
        image = k.gep(self.part["image"], channel * self.plane)
        with k.loop(0, spec.channels // spec.group) as c, k.loop(0, spec.kernel[0]) as down:
            at = k.add(k.mul(c, self.plane), k.mul(down, spec.dilations[0] * spec.padded[1]))
            row = k.mul(k.add(k.mul(c, spec.kernel[0]), down), spec.kernel[1])
            for across in range(spec.kernel[1]):
                source = k.gep(image, k.add(at, across * spec.dilations[1]))
                to = k.gep(self.part["panel"], k.mul(k.add(row, across), width))
                for number, offset in enumerate(sources):
                    k.store(self._load(source, offset), to, number * self.piece)

    def _load(self, pointer: ir.Value, offset: Index) -> ir.Value:
        """A piece, its elements a stride apart."""
        k, piece, step = self.k, self.piece, self.spec.strides[1]
        if step != 2 or piece == 1:
            return load_strided(k, pointer, offset, step, piece, F32)
        low, high = (k.load(pointer, k.add(offset, i * piece), lanes=piece) for i in range(2))
        mask = shuffle_mask(tuple(range(0, 2 * piece, 2)))
        return k.b.shuffle_vector(low, high, mask)

    def _write(self, targets: list[Index], channel: int, y: ir.Value, bias: ir.Value | None) -> None:
        """Move the product to where it belongs, with the bias added."""
        k, width = self.k, self.plan.vectors * self.lanes
        with k.loop(0, self.spec.out_channels // self.spec.group) as o:
            own = k.add(o, channel)
            row = k.gep(self.part["product"], k.mul(o, width))
            to = k.gep(y, k.mul(own, self.places))
            offset = k.splat(k.load(bias, own), self.piece) if bias is not None else None
            for number, target in enumerate(targets):
                value = k.load(row, number * self.piece, lanes=self.piece)
                if offset is not None:
                    value = k.b.fadd(value, offset)
                store_first(k, value, to, target, self.live)


def _turn_filter(k: KernelBuilder, spec: ConvGemmSpec, w: ir.Value, to: ir.Value) -> None:
    """to[c, o, kernel reversed] = w[o, c, kernel] in each group."""
    size, group = prod(spec.kernel), spec.group
    out, inputs = spec.out_channels // group, spec.channels // group
    for g in range(group):
        start = g * out * inputs * size
        with k.loop(0, inputs) as c, k.loop(0, out) as o:
            source = k.gep(w, k.add(start, k.mul(k.add(k.mul(o, inputs), c), size)))
            target = k.gep(to, k.add(start, k.mul(k.add(k.mul(c, out), o), size)))
            for i in range(size):
                k.store(k.load(source, size - 1 - i), target, i)


class _Weights(_Base):
    """dw: blocks of a few places of the kernel times two vectors of output channels."""

    def emit(self, dw: ir.Value, x: ir.Value, dy: ir.Value) -> None:
        """Chunk after chunk of samples is added to the sums."""
        k, spec, plan = self.k, self.spec, self.plan
        width = plan.vectors * self.lanes
        panels = ceil_div(spec.out_channels, width)
        self.clear_images()
        self.clear(self.part["sums"], spec.rows * panels * width)
        with k.loop(0, spec.batch // plan.samples) as chunk:
            first = k.mul(chunk, plan.samples)
            self.load_images(x, first)
            grads = k.gep(dy, k.mul(first, spec.out_channels * self.places))
            with k.loop(0, panels) as panel:
                self._turn_grads(grads, k.mul(panel, width))
                self._blocks(k.mul(panel, width), panels * width)
        self._turn_sums(dw, panels * width)

    def _turn_sums(self, dw: ir.Value, stride: int) -> None:
        """dw[o, row] = sums[row, o], a square of lanes at a time."""
        k, spec, lanes = self.k, self.spec, self.lanes

        def square(first: Index, live_o: int, row: Index, live_rows: int) -> None:
            at = k.gep(self.part["sums"], k.add(k.mul(row, stride), first))
            zero = k.splat(0.0, lanes)
            read = [k.load(at, i * stride, lanes=lanes) if i < live_rows else zero for i in range(lanes)]
            to = k.gep(dw, k.add(k.mul(first, spec.rows), row))
            for i, value in enumerate(transpose(k, read)[:live_o]):
                store_first(k, value, to, i * spec.rows, live_rows)

        def strip(first: Index, live_o: int) -> None:
            whole = spec.rows // lanes * lanes
            with k.loop(0, whole, lanes) as row:
                square(first, live_o, row, lanes)
            if spec.rows > whole:
                square(first, live_o, whole, spec.rows - whole)

        whole = spec.out_channels // lanes * lanes
        with k.loop(0, whole, lanes) as first:
            strip(first, lanes)
        if spec.out_channels > whole:
            strip(whole, spec.out_channels - whole)

    def _turn_grads(self, dy: ir.Value, channel: Index) -> None:
        """panel[sample, place, o] = dy[sample, channel + o, place]; channels that are none repeat one."""
        k, spec, lanes, plan = self.k, self.spec, self.lanes, self.plan
        width, last = plan.vectors * lanes, spec.out_channels - 1

        def square(base: ir.Value, to: Index, start: Index, live: int) -> None:
            for v in range(plan.vectors):
                rows: list[ir.Value] = []
                for lane in range(lanes):
                    own = minimum(k, k.add(channel, v * lanes + lane), last)
                    rows.append(load_first(k, base, k.add(k.mul(own, self.places), start), lanes, live))
                for i, value in enumerate(transpose(k, rows)[:live]):
                    place = k.add(k.mul(k.add(to, k.add(start, i)), width), v * lanes)
                    k.store(value, self.part["panel"], place)

        whole = self.places // lanes * lanes
        with k.loop(0, plan.samples) as sample:
            base = k.gep(dy, k.mul(sample, spec.out_channels * self.places))
            to = k.mul(sample, self.places)
            if whole:
                with k.loop(0, whole, lanes) as start:
                    square(base, to, start, lanes)
            if self.places > whole:
                square(base, to, whole, self.places - whole)

    def _blocks(self, column: Index, stride: int) -> None:
        """Add to every row of the sums, in tiles of rows whose places in the image are known."""
        spec, size = self.spec, prod(self.spec.kernel)
        window = [
            down * spec.dilations[0] * spec.padded[1] + across * spec.dilations[1]
            for down in range(spec.kernel[0])
            for across in range(spec.kernel[1])
        ]
        if size > _TILE // 2:
            parts = ceil_div(size, _TILE)
            bounds = [size * i // parts for i in range(parts + 1)]
            with self.k.loop(0, spec.channels) as c:
                for low, high in zip(bounds, bounds[1:], strict=False):
                    self._tile(c, window[low:high], low, column, stride)
            return
        together = min(_TILE // size, spec.channels)
        whole = spec.channels // together * together
        offsets = [c * self.plane + at for c in range(together) for at in window]
        with self.k.loop(0, whole, together) as c:
            self._tile(c, offsets, 0, column, stride)
        rest = spec.channels - whole
        if rest:
            self._tile(whole, offsets[: rest * size], 0, column, stride)

    def _tile(self, c: Index, offsets: list[int], first: int, column: Index, stride: int) -> None:
        k, spec, plan = self.k, self.spec, self.plan
        width = plan.vectors * self.lanes
        row = k.add(k.mul(c, prod(spec.kernel)), first)
        sums = k.gep(self.part["sums"], k.add(k.mul(row, stride), column))
        places = [(r, v) for r in range(len(offsets)) for v in range(plan.vectors)]
        held = [k.load(sums, r * stride + v * self.lanes, lanes=self.lanes) for r, v in places]
        height, across = spec.outputs
        nest = [
            Loop(plan.samples, spec.channels * self.plane, self.places * width),
            Loop(height, spec.strides[0] * spec.padded[1], across * width),
            Loop(across, spec.strides[1], width),
        ]
        image = k.gep(self.part["image"], k.mul(c, self.plane))
        new = multiply(k, image, offsets, self.part["panel"], plan.vectors, nest, held)
        for (r, v), value in zip(places, new, strict=True):
            k.store(value, sums, r * stride + v * self.lanes)


def emit_conv_panels(module: ir.Module, name: str, spec: ConvGemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel of a spec that `panels_fit`; operands are those of `conv_gemm`."""
    forward = _turned(spec) if spec.mode == "data" else spec
    assert forward is not None
    single, plan = replace(target, threads=1), _plan(forward, target)
    product: ir.Function | None = None
    if spec.mode != "weights":
        width = plan.vectors * target.lanes
        gemm = GemmSpec(forward.out_channels // spec.group, width, forward.rows, packed_b=True)
        product = emit_gemm(module, f"{name}_product", gemm, single)
    k = KernelBuilder(module, name, 4 + spec.bias, target, sized=product is not None)
    size = plan.size + (_filter_size(spec) if spec.mode == "data" else 0)
    scratch = k.gep(k.operands[-1], k.mul(k.worker, size) if target.threads > 1 else 0)
    if product is None:
        with first_worker(k):
            _Weights(k, spec, scratch).emit(*k.operands[:3])
        return k.finish()
    y, x, w = k.operands[:3]
    if spec.mode == "data":
        turned = k.gep(scratch, plan.size)
        _turn_filter(k, spec, w, turned)
        w = turned
    bias = k.operands[3] if spec.bias else None
    _Forward(k, forward, scratch, product).emit(y, x, w, bias)
    return k.finish()


class PanelConv(GemmConv):
    """The same with the columns of a few windows at a time, which stay in the cache."""

    emit = staticmethod(emit_conv_panels)

    def match(self, op: AnyConv, context: CallContext) -> ConvGemmSpec | None:
        spec = conv_gemm_spec(op, context)
        return spec if spec is not None and panels_fit(spec, context.target) else None

    def scratch(self, spec: ConvGemmSpec, target: CpuTarget) -> int:
        return conv_panels_scratch_bytes(spec, target)
