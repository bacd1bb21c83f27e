"""Convolution and transposed convolution of any rank, layout and group: the case that always works.

Both are one loop nest. Along every spatial axis an output position reads `count` taps: tap t
multiplies weight `weight + t * weight_step` with input position `input + t * input_step`. The
three numbers (weight, input, count) of each output position are tabled at compile time, so that
padding costs no test inside the loops and a transposed convolution differs only in its tables.
Every sum is taken in the order (channel, taps), vector lane or scalar alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit.builder import F32, F64, I64, KernelBuilder, element_bytes
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_strided,
    split_index,
    store_strided,
    table,
)
from glow_backends.cpu.kernel import Kernel, O
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp


@dataclass(frozen=True)
class GenericConvSpec:
    """A convolution y = conv(x, w) (+ bias), then the epilogue's steps.

    `input_shape` is (N, C, spatial...) whatever the layout; `kernel` the filter's spatial shape;
    `pads` begins then ends; `output_spatial` is needed for a transposed convolution only (None:
    no output padding). Layouts: `channels_last` puts C last in x and y; `weights_channels_last`
    stores filters (K, spatial..., C/g) in place of (K, C/g, spatial...). Transposed filters are
    (C, K/g, spatial...), or (C, spatial..., K/g). Operands: y, x, w, [bias], [extras].
    """

    input_shape: tuple[int, ...]
    out_channels: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int = 1
    transposed: bool = False
    output_spatial: tuple[int, ...] | None = None
    channels_last: bool = False
    weights_channels_last: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    double: bool = False

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    def spatial(self) -> tuple[int, ...]:
        """The output's spatial shape."""
        if self.output_spatial is not None:
            return self.output_spatial
        sizes: list[int] = []
        for d in range(self.rank):
            reach = self.dilations[d] * (self.kernel[d] - 1) + 1
            pad = self.pads[d] + self.pads[d + self.rank]
            size = self.input_shape[2 + d]
            if self.transposed:
                sizes.append((size - 1) * self.strides[d] + reach - pad)
            else:
                sizes.append((size + pad - reach) // self.strides[d] + 1)
        return tuple(sizes)

    def operand_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of y, x, w and the epilogue's operands, in operand order."""
        batch, channels, *size = self.input_shape
        y = _arrange(batch, self.out_channels, self.spatial(), self.channels_last)
        x = _arrange(batch, channels, size, self.channels_last)
        rows = channels if self.transposed else self.out_channels
        columns = (self.out_channels if self.transposed else channels) // self.group
        w = _arrange(rows, columns, self.kernel, self.weights_channels_last)
        extra = [(self.out_channels,)] * self.epilogue.bias + [y] * self.epilogue.extras
        return [y, x, w, *extra]


def _arrange(first: int, second: int, spatial: Sequence[int], last: bool) -> tuple[int, ...]:
    return (first, *spatial, second) if last else (first, second, *spatial)


def _strides(shape: Sequence[int], last: bool) -> tuple[int, int, list[int]]:
    """Element strides (outer, channel, spatial...) of an array arranged by `_arrange`."""
    steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
    return (steps[0], steps[-1], steps[1:-1]) if last else (steps[0], steps[1], steps[2:])


@dataclass(frozen=True)
class Taps:
    """The reads of the output positions of one axis: (weight, input, count) each, and the two steps.

    Positions first, first + step, ... of one phase form runs whose input moves by `input_stride`.
    """

    positions: np.ndarray
    weight_step: int
    input_step: int
    phases: int
    input_stride: int

    def uniform(self, phase: int) -> tuple[int, int]:
        """The longest run [low, high) of positions of a phase that read the same, most, weights."""
        rows = self.positions[phase :: self.phases]
        if not len(rows):
            return 0, 0
        best = rows[:, 2].max()
        inside = np.flatnonzero((rows[:, 2] == best) & (rows[:, 0] == rows[:, 0].min()))
        if not len(inside) or best == 0:
            return 0, 0
        low = int(inside[0])
        high = low + 1
        while high < len(rows) and high in inside:
            high += 1
        return low, high


def axis_taps(spec: GenericConvSpec, d: int) -> Taps:
    """The taps of spatial axis `d`."""
    size, kernel = spec.input_shape[2 + d], spec.kernel[d]
    stride, dilation, pad = spec.strides[d], spec.dilations[d], spec.pads[d]
    rows: list[tuple[int, int, int]] = []
    for out in range(spec.spatial()[d]):
        if spec.transposed:  # out = in * stride + r * dilation - pad
            pairs = [(r, *divmod(out + pad - r * dilation, stride)) for r in range(kernel)]
            reads = [(r, at) for r, at, rest in pairs if rest == 0 and 0 <= at < size]
            reads.reverse()  # ascending input position
        else:
            reads = [(r, out * stride + r * dilation - pad) for r in range(kernel)]
            reads = [(r, at) for r, at in reads if 0 <= at < size]
        rows.append((*reads[0], len(reads)) if reads else (0, 0, 0))
    positions = np.array(rows, np.int64).reshape(-1, 3)
    if not spec.transposed:
        return Taps(positions, 1, dilation, 1, stride)
    common = gcd(stride, dilation)
    return Taps(positions, -(stride // common), dilation // common, stride, 1)


class _Emission:
    """The loop nest of one kernel; offsets are in elements."""

    def __init__(self, k: KernelBuilder, spec: GenericConvSpec) -> None:
        self.k, self.spec = k, spec
        self.kind: ir.Type = F64 if spec.double else F32
        self.lanes = max(1, k.target.vector_bytes // element_bytes(self.kind))
        shapes = spec.operand_shapes()
        self.y_steps = _strides(shapes[0], spec.channels_last)
        self.x_steps = _strides(shapes[1], spec.channels_last)
        rows, columns, self.w_spatial = _strides(shapes[2], spec.weights_channels_last)
        # Strides of the weights along (input channel of the group, output channel).
        self.w_in, self.w_out = (rows, columns) if spec.transposed else (columns, rows)
        self.c_group = spec.input_shape[1] // spec.group
        self.k_group = spec.out_channels // spec.group
        self.taps = [axis_taps(spec, d) for d in range(spec.rank)]
        self.tables = [table(k, t.positions) for t in self.taps]
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.epilogue.extras)]

    def emit(self) -> None:
        """Loops over (image, outer positions, channel) shared by workers, then the last axis."""
        k, spec = self.k, self.spec
        outer = spec.spatial()[:-1]
        low, high = k.share(spec.input_shape[0] * spec.group * prod(outer))
        with k.loop(low, high) as item:
            n, g, *at = split_index(k, item, [spec.input_shape[0], spec.group, *outer])
            x = k.index((n, self.x_steps[0]), (g, self.c_group * self.x_steps[1]))
            y = k.index((n, self.y_steps[0]), (g, self.k_group * self.y_steps[1]))
            channel = k.mul(g, self.k_group)
            # Transposed filters are (C, K/g): the group moves along the input channel there.
            rows = self.c_group * self.w_in if spec.transposed else self.k_group * self.w_out
            w = k.mul(g, rows)
            rows_taps: list[tuple[Index, int, int]] = []
            for d, position in enumerate(at):
                weight, start, count = self._read_table(d, position)
                y = k.add(y, k.mul(position, self.y_steps[2][d]))
                x = k.add(x, k.mul(start, self.x_steps[2][d]))
                w = k.add(w, k.mul(weight, self.w_spatial[d]))
                rows_taps.append((count, *self._tap_steps(d)))
            if spec.channels_last:
                self._over_channels(x, w, y, channel, rows_taps)
            else:
                self._over_width(x, w, y, channel, rows_taps)

    def _read_table(self, d: int, position: Index) -> tuple[ir.Value, ir.Value, ir.Value]:
        k = self.k
        base = k.mul(position, 3)
        weight, start, count = (k.load(self.tables[d], k.add(base, i), I64) for i in range(3))
        return weight, start, count

    def _tap_steps(self, d: int) -> tuple[int, int]:
        taps = self.taps[d]
        return taps.input_step * self.x_steps[2][d], taps.weight_step * self.w_spatial[d]

    def _over_channels(
        self, x: Index, w: Index, y: Index, channel: Index, rows: list[tuple[Index, int, int]]
    ) -> None:
        """Channels-last: lanes are output channels, one output position at a time."""
        k, d = self.k, self.spec.rank - 1
        with k.loop(0, self.spec.spatial()[-1]) as position:
            weight, start, count = self._read_table(d, position)
            x_at = k.add(x, k.mul(start, self.x_steps[2][d]))
            w_at = k.add(w, k.mul(weight, self.w_spatial[d]))
            y_at = k.add(y, k.mul(position, self.y_steps[2][d]))
            taps = [*rows, (count, *self._tap_steps(d))]

            def block(begin: Index, lanes: int) -> None:
                w_lane = k.add(w_at, k.mul(begin, self.w_out))
                steps = (0, self.w_out, self.y_steps[1])
                y_lane = k.add(y_at, k.mul(begin, self.y_steps[1]))
                self._point(x_at, w_lane, y_lane, k.add(channel, begin), taps, steps, lanes, 1)

            self._cover(0, self.k_group, [self.lanes, 1], block)

    def _over_width(
        self, x: Index, w: Index, y: Index, channel: Index, rows: list[tuple[Index, int, int]]
    ) -> None:
        """Channels-first: lanes are output positions inside, scalars at the borders."""
        k, d = self.k, self.spec.rank - 1
        taps, width = self.taps[d], self.spec.spatial()[-1]
        with k.loop(0, self.k_group) as offset:
            w_k = k.add(w, k.mul(offset, self.w_out))
            y_k = k.add(y, k.mul(offset, self.y_steps[1]))
            ch = k.add(channel, offset)
            for phase in range(min(taps.phases, width)):
                self._phase(x, w_k, y_k, ch, rows, phase)

    def _phase(
        self,
        x: Index,
        w: Index,
        y: Index,
        channel: Index,
        rows: list[tuple[Index, int, int]],
        phase: int,
    ) -> None:
        taps = self.taps[self.spec.rank - 1]
        total = ceil_div(self.spec.spatial()[-1] - phase, taps.phases)
        low, high = taps.uniform(phase)
        if high - low < self.lanes:
            low = high = 0
        else:
            high = low + (high - low) // self.lanes * self.lanes
            self._uniform(x, w, y, channel, rows, phase, range(low, high))
        k, d = self.k, self.spec.rank - 1
        y_step, x_step = self.y_steps[2][d], self.x_steps[2][d]

        def scalar(q: Index, lanes: int) -> None:
            position = k.add(k.mul(q, taps.phases), phase)
            weight, start, count = self._read_table(d, position)
            ends = [*rows, (count, *self._tap_steps(d))]
            self._point(
                k.add(x, k.mul(start, x_step)),
                k.add(w, k.mul(weight, self.w_spatial[d])),
                k.add(y, k.mul(position, y_step)),
                channel,
                ends,
                (0, 0, 0),
                lanes,
                1,
            )

        self._cover(0, low, [1], scalar)
        self._cover(high, total, [1], scalar)

    def _uniform(
        self,
        x: Index,
        w: Index,
        y: Index,
        channel: Index,
        rows: list[tuple[Index, int, int]],
        phase: int,
        places: range,
    ) -> None:
        """The positions of a phase that have the same taps, in vectors."""
        k, d = self.k, self.spec.rank - 1
        taps, low = self.taps[d], places.start
        y_step, x_step = self.y_steps[2][d], self.x_steps[2][d]
        weight, start, count = (int(v) for v in taps.positions[low * taps.phases + phase])
        x_run = taps.input_stride * x_step
        inner = [*rows, (count, *self._tap_steps(d))]

        def vector(q: Index, lanes: int) -> None:
            run = k.add(q, -low)
            self._point(
                k.add(k.add(x, start * x_step), k.mul(run, x_run)),
                k.add(w, weight * self.w_spatial[d]),
                k.add(y, k.mul(k.add(k.mul(q, taps.phases), phase), y_step)),
                channel,
                inner,
                (x_run, 0, taps.phases * y_step),
                self.lanes,
                lanes // self.lanes,
            )

        blocks = [self.lanes] if x_run != 1 else [4 * self.lanes, self.lanes]
        self._cover(low, places.stop, blocks, vector)

    def _cover(self, low: int, high: int, sizes: Sequence[int], block: Callable[[Index, int], None]) -> None:
        """Call `block(begin, size)` over [low, high) with the given block sizes, largest first."""
        for size in sizes:
            end = low + (high - low) // size * size
            if end > low:
                with self.k.loop(low, end, size) as begin:
                    block(begin, size)
            low = end

    def _point(
        self,
        x: Index,
        w: Index,
        y: Index,
        channel: Index,
        taps: Sequence[tuple[Index, int, int]],
        lane_steps: tuple[int, int, int],
        lanes: int,
        vectors: int,
    ) -> None:
        """Sum and store `vectors` vectors of `lanes` outputs; lane_steps are those of x, w, y."""
        k, kind, epilogue = self.k, self.kind, self.spec.epilogue
        x_lane, w_lane, y_lane = lane_steps

        def nest(level: int, x: Index, w: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            if level == len(taps) + 1:
                weight = load_strided(k, self.w, w, w_lane, lanes, kind)
                offsets = [k.add(x, v * lanes * x_lane) for v in range(vectors)]
                data = [load_strided(k, self.x, at, x_lane, lanes, kind) for at in offsets]
                return [k.fma(a, weight, s) for a, s in zip(data, sums, strict=True)]
            count, x_step, w_step = (
                (self.c_group, self.x_steps[1], self.w_in) if level == 0 else taps[level - 1]
            )

            def body(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                return nest(
                    level + 1,
                    k.add(x, k.mul(index, x_step)),
                    k.add(w, k.mul(index, w_step)),
                    carried,
                )

            return k.reduce_loop(0, count, 1, sums, body)

        sums = nest(0, x, w, [k.splat(0.0, lanes, kind)] * vectors)
        for v, value in enumerate(sums):
            at = k.add(y, v * lanes * y_lane)
            bias = None
            if self.bias is not None:
                step = 1 if w_lane else 0  # lanes are channels exactly when the weights move
                bias = load_strided(k, self.bias, channel, step, lanes, kind)

            def read(extra: ir.Value, at: Index = at) -> ir.Value:
                return load_strided(k, extra, at, y_lane, lanes, kind)

            value = epilogue.apply(k, value, bias, self.extras, read)
            store_strided(k, value, self.y, at, y_lane, lanes, kind)


def emit_conv_generic(module: ir.Module, name: str, spec: GenericConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec, on plain arrays."""
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target)
    _Emission(k, spec).emit()
    return k.finish()


class GenericConv(Kernel[O, GenericConvSpec]):
    """Any convolution, by the general kernel."""

    emit = staticmethod(emit_conv_generic)

    def flops(self, spec: GenericConvSpec) -> int:
        outputs = spec.input_shape[0] * spec.out_channels * prod(spec.spatial())
        return 2 * outputs * prod(spec.kernel) * spec.input_shape[1] // spec.group


class PlainConv(GenericConv[ConvOp]):
    """A convolution of any number of axes."""

    OPS = (ConvOp,)

    def match(self, op: ConvOp, context: CallContext) -> GenericConvSpec | None:
        kind = dtype_name(op.result)
        if kind not in ("f32", "f64") or op.predicate is not None:
            return None
        last = op.layout == "NHWC"
        x, w = shape(op.input), shape(op.filter)
        return GenericConvSpec(
            input_shape=(x[0], x[-1], *x[1:-1]) if last else x,
            out_channels=w[0],
            kernel=w[1:-1] if last else w[2:],
            strides=tuple(op.strides),
            pads=tuple(op.pads),
            dilations=tuple(op.dilations),
            group=op.group,
            channels_last=last,
            weights_channels_last=last,
            epilogue=Epilogue(bias=op.bias is not None),
            double=kind == "f64",
        )


class PlainConvTranspose(GenericConv[ConvTransposeOp]):
    """The adjoint of a convolution."""

    OPS = (ConvTransposeOp,)

    def match(self, op: ConvTransposeOp, context: CallContext) -> GenericConvSpec | None:
        kind = dtype_name(op.result)
        if kind not in ("f32", "f64") or op.predicate is not None:
            return None
        last = op.layout == "NHWC"
        x, w, y = shape(op.input), shape(op.filter), shape(op.result)
        return GenericConvSpec(
            input_shape=(x[0], x[-1], *x[1:-1]) if last else x,
            out_channels=y[-1] if last else y[1],
            kernel=w[1:-1] if last else w[2:],
            strides=tuple(op.strides),
            pads=tuple(op.pads),
            dilations=tuple(op.dilations),
            group=op.group,
            transposed=True,
            output_spatial=y[1:-1] if last else y[2:],
            channels_last=last,
            weights_channels_last=last,
            epilogue=Epilogue(bias=op.bias is not None),
            double=kind == "f64",
        )

    def flops(self, spec: GenericConvSpec) -> int:
        return 0
