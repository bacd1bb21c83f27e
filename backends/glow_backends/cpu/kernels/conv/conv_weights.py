"""The gradient of a convolution's filter on channel-blocked activations, directly.

Vectors hold neighbouring output channels of dy, which are multiplied by elements of x: a register
block has a few (input channel, tap) pairs for its rows. Samples are taken a few at a time; where there
is padding, a block of their channels is copied into a padded image in scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.filters import sizes_of
from glow_backends.cpu.emit.memory import Index, ceil_div, load_first, store_first, transpose
from glow_backends.cpu.emit.register_blocks import Loop, even_tiles, reduce_nest
from glow_backends.cpu.emit.windows import window
from glow_backends.cpu.kernel import Kernel, once_per_operation
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp
from glow_backends.cpu.target import CpuTarget

_PLACES = 1024
"""Outputs that are worked on together, if the batch has them."""


@dataclass(frozen=True)
class ConvWeightsSpec:
    """dw of `conv` (one group) in form OIHW or OHWI. Operands: dw, x, dy, scratch."""

    conv: DirectConvSpec
    form: str = "OIHW"


@dataclass(frozen=True)
class _Plan:
    """Units are blocks of input channels (a plain image is one), of `rows` (channel, tap) pairs."""

    samples: int
    vectors: int
    units: int
    depth: int
    offsets: tuple[int, ...]
    padded: tuple[int, int]
    image: int
    sums: int

    @property
    def copied(self) -> bool:
        """Whether samples are copied."""
        return self.image > 0


def units_of(conv: DirectConvSpec, lanes: int) -> tuple[int, int]:
    """(units, channels of each): blocks of input channels, or the plain image."""
    if conv.plain_input:
        return 1, conv.in_channels
    return ceil_div(conv.in_channels, lanes), lanes


def _plan(spec: ConvWeightsSpec, target: CpuTarget) -> _Plan:
    conv, lanes = spec.conv, target.lanes
    pads, places = conv.pads, prod(conv.out_size)
    fitting = [s for s in range(1, conv.batch + 1) if conv.batch % s == 0 and s * places <= _PLACES]
    samples = max(fitting, default=1)
    outputs = ceil_div(conv.out_channels, lanes)
    vectors = 2 if outputs % 2 == 0 else 1
    padded = (conv.size[0] + pads[0] + pads[2], conv.size[1] + pads[1] + pads[3])
    units, depth = units_of(conv, lanes)
    taps = [
        r * conv.dilations[0] * padded[1] + s * conv.dilations[1]
        for r in range(conv.kernel[0])
        for s in range(conv.kernel[1])
    ]
    step, plane = (1, prod(padded)) if conv.plain_input else (lanes, 1)
    if spec.form == "OIHW":
        offsets = [c * plane + t * step for c in range(depth) for t in taps]
    else:
        offsets = [c * plane + t * step for t in taps for c in range(depth)]
    image = samples * prod(padded) * depth + lanes * max(conv.strides) if any(pads) else 0
    rows = ceil_div(len(offsets), lanes) * lanes
    image = ceil_div(image, lanes) * lanes
    return _Plan(
        samples, vectors, units, depth, tuple(offsets), padded, image, units * rows * outputs * lanes
    )


def conv_weights_scratch_bytes(spec: ConvWeightsSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand: sums that workers share out, and an image for each of them."""
    plan = _plan(spec, target)
    return 4 * (plan.sums + target.threads * plan.image)


class _Emission:
    def __init__(self, k: KernelBuilder, spec: ConvWeightsSpec) -> None:
        self.k, self.spec, self.conv, self.lanes = k, spec, spec.conv, k.target.lanes
        self.plan = _plan(spec, k.target)
        self.dw, self.x, self.dy, self.sums = k.operands
        self.image = k.gep(self.sums, k.add(self.plan.sums, k.mul(k.worker, self.plan.image)))
        self.outputs = ceil_div(self.conv.out_channels, self.lanes)
        self.width = self.plan.vectors * self.lanes
        self.rows = ceil_div(len(self.plan.offsets), self.lanes) * self.lanes
        self.places = prod(self.conv.out_size)
        self.plane = prod(self.plan.padded) * self.plan.depth

    def emit(self) -> None:
        """Samples, then units and panels of output channels; workers share the units or the panels."""
        k, plan = self.k, self.plan
        panels = self.outputs // plan.vectors
        units = (0, plan.units)
        outputs: tuple[Index, Index] = (0, panels)
        if plan.units >= k.target.threads:
            units = k.share(plan.units)
        else:
            outputs = k.share(panels)
        if plan.copied:
            with k.loop(0, plan.image, self.lanes) as at:
                k.store(k.splat(0.0, self.lanes), self.image, at)
        with k.loop(0, self.conv.batch // plan.samples) as chunk:
            first = k.mul(chunk, plan.samples)
            fresh = k.b.icmp_signed("==", chunk, k.i(0))
            with k.loop(*units) as unit:
                x = self._unit(unit, first)
                with k.loop(*outputs) as panel:
                    dy = k.index((first, self.outputs * self.places * self.lanes))
                    dy = k.add(dy, k.mul(panel, self.places * self.width))
                    sums = k.gep(self.sums, self._sums_at(unit, panel))
                    self._blocks(x, k.gep(self.dy, dy), sums, fresh)
        with k.loop(*units) as unit, k.loop(*outputs) as panel, k.loop(0, plan.vectors) as v:
            at = k.add(self._sums_at(unit, panel), k.mul(v, self.lanes))
            output = k.add(k.mul(panel, plan.vectors), v)
            write_weights(k, self.spec, self.dw, k.gep(self.sums, at), self.width, unit, output)

    def _sums_at(self, unit: Index, panel: Index) -> Index:
        size = self.rows * self.width
        return self.k.index((unit, self.rows * self.outputs * self.lanes), (panel, size))

    def _unit(self, unit: Index, first: Index) -> ir.Value:
        """The samples of a unit from `first` on, padded; they lie `self._sample` elements apart."""
        k, conv, plan, lanes = self.k, self.conv, self.plan, self.lanes
        size = prod(conv.size) * plan.depth
        source = k.gep(self.x, k.index((first, plan.units * size), (unit, size)))
        if not plan.copied:
            return source
        planes, row = (plan.depth, conv.size[1]) if conv.plain_input else (1, conv.size[1] * lanes)
        across = plan.padded[1] * row // conv.size[1]
        inside = conv.pads[0] * across + conv.pads[1] * row // conv.size[1]
        with k.loop(0, plan.samples) as sample, k.loop(0, planes) as plane, k.loop(0, conv.size[0]) as y:
            at = k.gep(source, k.index((sample, plan.units * size), (plane, size // planes), (y, row)))
            to = k.index((sample, self.plane), (plane, self.plane // planes), (y, across))
            to = k.gep(self.image, k.add(to, inside))
            with k.loop(0, row // lanes * lanes, lanes) as i:
                k.store(k.load(at, i, lanes=lanes), to, i)
            if row % lanes:
                i, live = row // lanes * lanes, row % lanes
                store_first(k, load_first(k, at, i, lanes, live), to, i, live)
        return self.image

    def _blocks(self, x: ir.Value, dy: ir.Value, sums: ir.Value, fresh: ir.Value) -> None:
        """sums += windows of x times dy, in blocks of rows that fill the registers."""
        offsets, vectors = self.plan.offsets, self.plan.vectors
        limit = (self.k.target.registers - 1 - vectors) // vectors
        size, full, rest = even_tiles(len(offsets), limit)
        for i in range(full + (rest > 0)):
            part = offsets[i * size : (i + 1) * size]
            self._block(x, part, dy, self.k.gep(sums, i * size * self.width), fresh)

    def _block(
        self, x: ir.Value, offsets: Sequence[int], dy: ir.Value, sums: ir.Value, fresh: ir.Value
    ) -> None:
        k, conv, plan, lanes = self.k, self.conv, self.plan, self.lanes
        places = [(r, v) for r in range(len(offsets)) for v in range(plan.vectors)]
        zero = k.splat(0.0, lanes)
        held = [k.load(sums, r * self.width + v * lanes, lanes=lanes) for r, v in places]
        held = [k.b.select(fresh, zero, value) for value in held]
        height, across = conv.out_size
        step = 1 if conv.plain_input else lanes
        between = self.plane if plan.copied else plan.units * self.plane
        nest = [
            Loop(plan.samples, between, self.outputs * self.places * lanes),
            Loop(height, conv.strides[0] * plan.padded[1] * step, across * lanes),
            Loop(across, conv.strides[1] * step, lanes),
        ]

        def body(a_at: Index, b_at: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            at = [k.add(b_at, v * self.places * lanes) for v in range(plan.vectors)]
            grads = [k.load(dy, offset, lanes=lanes) for offset in at]
            new: list[ir.Value] = []
            for r, offset in enumerate(offsets):
                scalar = k.splat(k.load(x, k.add(a_at, offset)), lanes)
                new += [k.fma(scalar, g, sums[r * plan.vectors + v]) for v, g in enumerate(grads)]
            return new

        for (r, v), value in zip(places, reduce_nest(k, nest, body, held), strict=True):
            k.store(value, sums, r * self.width + v * lanes)


def write_weights(
    k: KernelBuilder,
    spec: ConvWeightsSpec,
    dw: ir.Value,
    sums: ir.Value,
    width: int,
    unit: Index,
    output: Index,
) -> None:
    """Write dw of one block of output channels and one unit, by squares of as many rows.

    `sums` are rows of (channel, tap) pairs in the order of the form, `width` elements apart. The
    last unit and the last block of output channels may be partly filled.
    """
    conv, lanes, taps = spec.conv, k.target.lanes, prod(spec.conv.kernel)
    units, depth = units_of(conv, lanes)
    outputs, rest = ceil_div(conv.out_channels, lanes), conv.out_channels % lanes
    between = conv.in_channels * taps
    to = k.gep(dw, k.mul(output, lanes * between))
    runs: list[tuple[int, int, int]] = []  # first row, rows, place in a row of dw
    if spec.form == "OIHW":
        runs.append((0, depth * taps, 0))
        to = k.gep(to, k.mul(unit, depth * taps))
    else:
        runs += [(t * depth, depth, t * conv.in_channels) for t in range(taps)]
        to = k.gep(to, k.mul(unit, depth))
    each = taps if spec.form == "OIHW" else 1  # rows a channel in a run

    def squares(unfilled: int, dead: int) -> None:
        for first, count, place in runs:
            count -= unfilled * each
            for row in range(0, count, lanes):
                live = min(lanes, count - row)
                zero = k.splat(0.0, lanes)
                read = [
                    k.load(sums, (first + row + i) * width, lanes=lanes) if i < live else zero
                    for i in range(lanes)
                ]
                for i, value in enumerate(transpose(k, read)[: lanes - dead]):
                    store_first(k, value, to, i * between + place + row, live)

    def outputs_of(unfilled: int) -> None:
        _last(k, output, outputs, lanes - rest if rest else 0, lambda dead: squares(unfilled, dead))

    _last(k, unit, units, units * depth - conv.in_channels, outputs_of)


def _last(k: KernelBuilder, index: Index, count: int, missing: int, body: Callable[[int], None]) -> None:
    """body(channels missing in block `index` of `count`): `missing` in the last one, else nothing."""
    if not missing or count == 1:
        body(missing)
        return
    with k.b.if_else(k.b.icmp_signed("<", k.i(index), k.i(count - 1))) as (then, otherwise):
        with then:
            body(0)
        with otherwise:
            body(missing)


def emit_conv_weights(module: ir.Module, name: str, spec: ConvWeightsSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(dw, x, dy, scratch, worker)` of a spec."""
    assert spec.conv.group == 1 and spec.form in ("OIHW", "OHWI")
    k = KernelBuilder(module, name, 4, target)
    _Emission(k, spec).emit()
    return k.finish()


@once_per_operation
def conv_weights_spec(op: ConvWeightsOp) -> ConvWeightsSpec:
    """The gradient that a `glow_cpu.conv_weights` node or instruction computes."""
    size = shape(op.input)
    out, inner, kernel = sizes_of(shape(op.result), op.form)
    lies, plain = window(op.strides, op.pads, op.dilations), len(size) == 4
    conv = DirectConvSpec(size[0], inner, out, (size[2], size[3]), kernel, **lies, plain_input=plain)
    return ConvWeightsSpec(conv, op.form)


class ConvWeights(Kernel[ConvWeightsOp, ConvWeightsSpec]):
    """The gradient of a filter by direct sums."""

    OPS = (ConvWeightsOp,)
    emit = staticmethod(emit_conv_weights)

    def match(self, op: ConvWeightsOp, context: CallContext) -> ConvWeightsSpec | None:
        fits = op.algorithm == "direct" and op.lanes == context.target.lanes
        return conv_weights_spec(op) if fits else None

    def scratch(self, spec: ConvWeightsSpec, target: CpuTarget) -> int:
        return conv_weights_scratch_bytes(spec, target)

    def flops(self, spec: ConvWeightsSpec) -> int:
        return spec.conv.flops
