"""Convolution kernels of the CPU backend against PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from epilogues import chain, residual_clip

from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.kernels.conv.blocked_conv import pack_bias
from glow_backends.cpu.kernels.conv.conv_direct import (
    DirectConvSpec,
    emit_conv_direct,
    pack_conv,
    supports_direct,
)
from glow_backends.cpu.kernels.conv.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.kernels.conv.conv_plane import (
    PlaneConvSpec,
    emit_conv_plane,
    pack_plane,
    supports_plane,
)
from glow_backends.cpu.kernels.conv.depthwise import (
    emit_depthwise,
    pack_depthwise,
    supports_depthwise,
)
from glow_backends.cpu.kernels.conv.winograd import emit_winograd
from glow_backends.cpu.kernels.conv.winograd_plan import (
    WinogradSpec,
    pack_winograd,
    plan_winograd,
    supports_winograd,
    winograd_scratch_bytes,
    winograd_tiles,
)
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import host, named
from glow_dialects.core.blocks import block_channels, unblock_channels

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Uniform values in [-1, 1)."""
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(dtype)


def finish(y: np.ndarray, residual: np.ndarray | None, epilogue: Epilogue) -> np.ndarray:
    """The steps of the epilogue in NumPy."""
    program = epilogue.program
    for step in program.steps:
        match step.op:
            case "add":
                y = y + residual
            case "clip":
                y = np.clip(y, *step.params)
            case "hard_swish":
                y = y * np.clip(y / 6 + 0.5, 0, 1)
            case "swish":
                y = y / (1 + np.exp(-y))
            case "mul":
                y = y * np.float32(program.constant(step.args[1]))
            case "constant":
                pass
            case _:
                raise AssertionError(step)
    return y


def reference(spec: GenericConvSpec, x, w, bias, residual) -> np.ndarray:
    """The convolution in float64 by PyTorch; all arrays channels-first."""
    rank = spec.rank
    x64, w64 = torch.from_numpy(x).double(), torch.from_numpy(w).double()
    b64 = None if bias is None else torch.from_numpy(bias).double()
    if spec.transposed:
        conv = getattr(functional, f"conv_transpose{rank}d")
        full = conv(x64, w64, None, spec.strides, 0, 0, spec.group, spec.dilations)
        extra = [0] * (2 * rank)
        for d in range(rank):
            end = spec.spatial()[d] + spec.pads[d] - full.shape[2 + d]
            extra[2 * (rank - 1 - d)] = -spec.pads[d]
            extra[2 * (rank - 1 - d) + 1] = end
        y = functional.pad(full, extra)
        if b64 is not None:
            y = y + b64.reshape(-1, *[1] * rank)
    else:
        flat = [p for d in reversed(range(rank)) for p in (spec.pads[d], spec.pads[d + rank])]
        conv = getattr(functional, f"conv{rank}d")
        padded = functional.pad(x64, flat)
        y = conv(padded, w64, b64, spec.strides, 0, spec.dilations, spec.group)
    return finish(y.numpy(), residual, spec.epilogue)


def to_last(array: np.ndarray) -> np.ndarray:
    """Channels moved to the end."""
    return np.moveaxis(array, 1, -1)


LONG = Epilogue(bias=True, program=chain(("swish", (1.0,)), ("mul", (0.3,))))
ALL = Epilogue(bias=True, program=residual_clip(0.0, 1.5))
LATE = Epilogue(bias=True, program=chain("hard_swish", "add"))
GENERIC = {
    "2d": GenericConvSpec((2, 3, 9, 40), 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "2d-stride-dilation": GenericConvSpec(
        (1, 4, 15, 67), 6, (3, 2), (2, 3), (1, 0, 2, 1), (2, 2), group=2, epilogue=ALL
    ),
    "1d": GenericConvSpec((2, 6, 150), 4, (5,), (1,), (4, 0), (1,), group=2, epilogue=ALL),
    "3d": GenericConvSpec(
        (1, 2, 5, 6, 20), 3, (3, 2, 3), (1, 2, 1), (1, 0, 2, 1, 1, 0), (1, 1, 2), epilogue=ALL
    ),
    "wider-than-input": GenericConvSpec((1, 1, 2, 2), 2, (3, 3), (1, 1), (4, 4, 4, 4), (1, 1)),
    "depthwise": GenericConvSpec((1, 8, 7, 33), 16, (3, 3), (1, 1), (1,) * 4, (1, 1), group=8),
    "last-many": GenericConvSpec(
        (2, 5, 6, 7), 37, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), channels_last=True, epilogue=ALL
    ),
    "last-group": GenericConvSpec(
        (1, 8, 6, 7), 40, (2, 3), (2, 1), (1, 1, 0, 1), (1, 1), group=2, channels_last=True
    ),
    "deconv": GenericConvSpec(
        (2, 3, 5, 21), 4, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), transposed=True, epilogue=ALL
    ),
    "deconv-dilated": GenericConvSpec(
        (1, 4, 6, 6), 6, (3, 2), (3, 2), (1, 0, 2, 1), (2, 3), group=2, transposed=True
    ),
    "deconv-output-pad": GenericConvSpec(
        (1, 2, 4, 20), 3, (2, 2), (4, 4), (0, 0, 0, 0), (1, 1), transposed=True,
        output_spatial=(17, 81), epilogue=Epilogue(bias=True),
    ),
    "deconv-1d-last": GenericConvSpec(
        (1, 4, 9), 18, (4,), (2,), (1, 1), (1,), transposed=True, channels_last=True
    ),
    "deconv-3d": GenericConvSpec(
        (1, 2, 3, 3, 4), 2, (2, 3, 3), (2, 1, 2), (0, 1, 1, 0, 1, 0), (1, 1, 1), transposed=True
    ),
}  # fmt: skip


@pytest.mark.parametrize(("threads", "double"), [(1, False), (3, True)])
@pytest.mark.parametrize("name", GENERIC)
def test_generic(name: str, threads: int, double: bool) -> None:
    """Any rank, stride, pad, dilation, group and layout, plain and transposed."""
    spec = replace(GENERIC[name], double=double)
    dtype = np.float64 if double else np.float32
    first = replace(spec, channels_last=False, weights_channels_last=False)
    shapes = first.operand_shapes()
    x, w = random(*shapes[1], dtype=dtype), random(*shapes[2], dtype=dtype)
    bias = random(spec.out_channels, dtype=dtype) if spec.epilogue.bias else None
    residual = random(*shapes[0], seed=9, dtype=dtype) if spec.epilogue.extras else None
    want = reference(spec, x, w, bias, residual)
    for weights_last in (False, True):
        chosen = replace(spec, weights_channels_last=weights_last)
        place = to_last if spec.channels_last else np.asarray
        filters = to_last(w) if weights_last else w
        inputs = [place(x), filters, *([bias] if bias is not None else [])]
        inputs += [place(residual)] if residual is not None else []
        y = aligned(np.full(chosen.operand_shapes()[0], np.nan, dtype))
        kernel = StandaloneKernel(emit_conv_generic, chosen, host(threads))
        kernel(y, *[aligned(a) for a in inputs])
        tolerance = 1e-12 if double else 2e-5
        np.testing.assert_allclose(y, place(want), rtol=tolerance, atol=tolerance)


DIRECT = {
    "1x1": DirectConvSpec(2, 32, 64, (7, 9), (1, 1), epilogue=ALL),
    "1x1-stride": DirectConvSpec(1, 16, 32, (15, 15), (1, 1), (2, 2)),
    "1x1-odd-channels": DirectConvSpec(1, 24, 40, (13, 11), (1, 1), epilogue=LATE),
    "few-channels": DirectConvSpec(1, 5, 3, (8, 8), (3, 3), pads=(1, 1, 1, 1)),
    "3x3": DirectConvSpec(2, 16, 64, (14, 56), (3, 3), pads=(1, 1, 1, 1), epilogue=ALL),
    "3x3-7": DirectConvSpec(1, 32, 64, (7, 7), (3, 3), pads=(1, 1, 1, 1), epilogue=ALL),
    "3x3-stride": DirectConvSpec(1, 16, 48, (29, 31), (3, 3), (2, 2), (0, 1, 2, 1)),
    "5x5-dilated": DirectConvSpec(1, 16, 32, (20, 40), (5, 3), (1, 2), (4, 2, 3, 1), (2, 3), epilogue=ALL),
    "column": DirectConvSpec(1, 32, 48, (50, 1), (5, 1), (2, 1), (2, 0, 1, 0), (3, 1), epilogue=ALL),
    "pairs": DirectConvSpec(2, 24, 64, (9, 6), (3, 3), pads=(1,) * 4, epilogue=ALL),
    "pairs-stride": DirectConvSpec(1, 32, 64, (14, 14), (3, 3), (2, 2), (0, 0, 1, 1), epilogue=ALL),
    "pairs-dilated": DirectConvSpec(1, 16, 32, (5, 4), (5, 3), pads=(6, 1, 9, 2), dilations=(2, 1)),
    "pairs-group": DirectConvSpec(1, 64, 64, (13, 7), (1, 1), (2, 1), group=2, epilogue=ALL),
    "uneven": DirectConvSpec(2, 40, 100, (5, 29), (3, 3), pads=(1,) * 4, epilogue=ALL, uneven=True),
    "uneven-1x1": DirectConvSpec(1, 24, 70, (9, 14), (1, 1), uneven=True, epilogue=ALL),
    "uneven-pairs": DirectConvSpec(1, 32, 110, (7, 7), (3, 3), (2, 2), (1, 1, 0, 1), uneven=True),
    "chunks": DirectConvSpec(1, 2048, 64, (6, 7), (1, 1), epilogue=ALL),
    "chunks-stride": DirectConvSpec(2, 208, 32, (13, 14), (3, 3), (2, 2), (1, 1, 0, 1), epilogue=ALL),
    "wide-pads": DirectConvSpec(1, 16, 16, (3, 2), (3, 3), pads=(4, 5, 6, 4)),
    "group": DirectConvSpec(1, 64, 96, (9, 9), (3, 3), pads=(1,) * 4, group=2, epilogue=ALL),
    "group-merged": DirectConvSpec(1, 64, 128, (9, 9), (3, 3), pads=(1,) * 4, group=16),
    "group-banded": DirectConvSpec(2, 60, 72, (9, 9), (3, 3), pads=(1,) * 4, group=4, epilogue=ALL),
    "group-few": DirectConvSpec(1, 12, 20, (14, 20), (1, 1), group=4),
    "first": DirectConvSpec(1, 3, 64, (47, 60), (7, 7), (2, 2), (3, 3, 3, 3), plain_input=True, epilogue=ALL),
    "long": DirectConvSpec(1, 20, 48, (9, 31), (3, 3), pads=(1,) * 4, epilogue=LONG),
    "overlap": DirectConvSpec(1, 16, 32, (1, 199), (1, 1), epilogue=LONG),
    "in-place": DirectConvSpec(1, 16, 32, (1, 199), (1, 1), epilogue=replace(ALL, inplace=True)),
    "first-3x3": DirectConvSpec(2, 1, 20, (28, 28), (3, 3), pads=(1,) * 4, plain_input=True),
}


DIRECT |= {f"1x1-{n}": DirectConvSpec(1, 16, 32, (1, n), (1, 1), epilogue=ALL) for n in (25, 27, 41, 69, 98)}


@pytest.mark.parametrize(("cpu", "threads"), [("host", 1), ("host", 3), ("haswell", 1)])
@pytest.mark.parametrize("name", DIRECT)
def test_direct(name: str, cpu: str, threads: int) -> None:
    """1x1 to 7x7, strides, pads, dilations, groups, odd channel counts, a plain first layer."""
    spec, target = DIRECT[name], named(cpu, threads)
    assert supports_direct(spec, target)
    check_blocked(spec, target, emit_conv_direct, pack_conv)


DEPTHWISE = {
    "3x3": DirectConvSpec(2, 32, 32, (14, 56), (3, 3), pads=(1,) * 4, group=32, epilogue=ALL),
    "3x3-stride": DirectConvSpec(1, 24, 24, (15, 31), (3, 3), (2, 2), (0, 1, 1, 1), group=24),
    "5x5": DirectConvSpec(1, 20, 20, (7, 7), (5, 5), pads=(2,) * 4, group=20, epilogue=LATE),
    "1d-dilated": DirectConvSpec(1, 16, 16, (1, 40), (1, 5), (1, 1), (0, 8, 0, 0), (1, 2), 16),
}


DEPTHWISE |= {
    f"{size}x{size}-{stride}-{width}": DirectConvSpec(
        1, 16, 16, (4, width), (size, size), (stride, stride), (size // 2,) * 4, (1, 1), 16
    )
    for size, stride, width in [
        *((3, 1, width) for width in (13, 15, 18, 22, 25, 29, 57)),  # ends of every length
        *((5, 1, width) for width in (16, 29, 34)),
        *((5, 2, width) for width in (31, 44)),
    ]
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(name: str, threads: int) -> None:
    """Filters of one channel each, strides, pads and dilations."""
    spec, target = DEPTHWISE[name], host(threads)
    assert supports_depthwise(spec)
    check_blocked(spec, target, emit_depthwise, pack_depthwise)


def plain(spec: DirectConvSpec) -> GenericConvSpec:
    """The same convolution on plain arrays."""
    return GenericConvSpec(
        (spec.batch, spec.in_channels, *spec.size),
        spec.out_channels,
        spec.kernel,
        spec.strides,
        spec.pads,
        spec.dilations,
        spec.group,
        epilogue=spec.epilogue,
    )


def check_blocked(spec, target, emit, pack, tolerance: float = 2e-5, scratch: int = 0) -> float:
    """Run a kernel on channel-blocked arrays; returns its largest absolute error."""
    lanes = target.lanes
    y_shape, x_shape, w_shape, *_ = plain(spec).operand_shapes()
    x, w, bias = random(*x_shape), random(*w_shape), random(spec.out_channels)
    residual = random(*y_shape, seed=9)
    epilogue = spec.epilogue
    want = reference(
        plain(spec), x, w, bias if epilogue.bias else None, residual if epilogue.extras else None
    )
    inputs = [x if spec.plain_input else block_channels(x, lanes), pack(w, spec, target)]
    inputs += [pack_bias(bias, target)] if epilogue.bias else []
    inputs += [block_channels(residual, lanes)] if epilogue.extras else []
    inputs += [np.full(scratch // 4, np.nan, np.float32)] if scratch else []
    y = aligned(np.full(block_channels(want, lanes).shape, np.nan, np.float32))
    StandaloneKernel(emit, spec, target)(y, *[aligned(a) for a in inputs])
    got = unblock_channels(y, spec.out_channels)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return float(np.abs(got - want).max())


PLANE = {
    "one-channel": PlaneConvSpec(2, 5, 1, (9, 37), (3, 3), epilogue=LATE),
    "signal": PlaneConvSpec(1, 2, 3, (1, 200), (1, 9), dilations=(1, 2)),
    "phases": PlaneConvSpec(1, 6, 2, (3, 40), (2, 4), phases=3),
    "eight-channels": PlaneConvSpec(1, 4, 8, (13, 80), (5, 2), 2, (2, 1), epilogue=ALL),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PLANE)
def test_plane(name: str, threads: int) -> None:
    """Few output channels, rows that are no multiple of a run."""
    spec, target = PLANE[name], host(threads)
    assert supports_plane(spec, target)
    strides = (spec.row_stride, 1)
    general = GenericConvSpec(
        (spec.batch, spec.in_channels, *spec.size),
        spec.out_channels,
        spec.kernel,
        strides,
        (0, 0, 0, 0),
        spec.dilations,
        epilogue=spec.epilogue,
    )
    y_shape, x_shape, w_shape, *_ = general.operand_shapes()
    x, w, bias = random(*x_shape), random(*w_shape), random(spec.out_channels)
    residual = random(*y_shape, seed=9)
    epilogue = spec.epilogue
    want = reference(general, x, w, bias if epilogue.bias else None, residual if epilogue.extras else None)
    inputs = [x, pack_plane(w, spec.phases)] + [bias] * epilogue.bias + [residual] * epilogue.extras
    y = aligned(np.full(y_shape, np.nan, np.float32))
    StandaloneKernel(emit_conv_plane, spec, target)(y, *[aligned(a) for a in inputs])
    np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)


WINOGRAD = {
    "even": DirectConvSpec(2, 32, 64, (12, 16), (3, 3), pads=(1, 1, 1, 1), epilogue=ALL),
    "edges": DirectConvSpec(2, 16, 32, (13, 7), (3, 3), pads=(1, 1, 1, 1), epilogue=ALL),
    "no-pads": DirectConvSpec(1, 16, 48, (9, 30), (3, 3)),
    "uneven-pads": DirectConvSpec(1, 16, 16, (5, 6), (3, 3), pads=(0, 2, 1, 0)),
    "odd-channels": DirectConvSpec(1, 20, 37, (14, 14), (3, 3), pads=(1,) * 4, epilogue=ALL),
    "one-pixel": DirectConvSpec(3, 16, 16, (1, 1), (3, 3), pads=(1, 1, 1, 1)),
    "many-tiles": DirectConvSpec(2, 16, 16, (60, 61), (3, 3), pads=(1,) * 4, epilogue=ALL),
}


TWO = {"kernel": (3, 3), "strides": (2, 2)}
STRIDED = {
    "even": DirectConvSpec(2, 32, 64, (16, 24), **TWO, pads=(1, 1, 1, 1), epilogue=ALL),
    "edges": DirectConvSpec(2, 16, 32, (13, 7), **TWO, pads=(1, 1, 1, 1), epilogue=ALL),
    "no-pads": DirectConvSpec(1, 16, 48, (19, 61), **TWO),
    "uneven-pads": DirectConvSpec(3, 20, 37, (14, 30), **TWO, pads=(0, 0, 1, 1), epilogue=ALL),
    "one-pixel": DirectConvSpec(3, 16, 16, (1, 1), **TWO, pads=(1, 1, 1, 1)),
    "many-tiles": DirectConvSpec(2, 16, 16, (120, 113), **TWO, pads=(1, 1, 1, 1)),
}


@pytest.mark.parametrize("cpu", ["host", "haswell"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", STRIDED)
def test_winograd_of_stride_2(name: str, threads: int, cpu: str) -> None:
    """Nine by nine pixels a tile of outputs, whole tiles and clipped ones."""
    spec, target = WinogradSpec(STRIDED[name]), named(cpu, threads)
    assert supports_winograd(spec.conv) and not supports_winograd(spec.conv, 2)

    def emit(module, kernel, conv, target):
        return emit_winograd(module, kernel, WinogradSpec(conv), target)

    def pack(weights, conv, target):
        return pack_winograd(weights, WinogradSpec(conv), target)

    check_blocked(spec.conv, target, emit, pack, scratch=winograd_scratch_bytes(spec, target))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(name: str, tile: int, threads: int) -> None:
    """Both tile sizes, whole tiles and clipped ones, padding on any side."""
    conv, target = WINOGRAD[name], host(threads)
    assert supports_winograd(conv)
    size = winograd_scratch_bytes(WinogradSpec(conv, tile), target)

    def emit(module, kernel, spec, target):
        return emit_winograd(module, kernel, WinogradSpec(spec, tile), target)

    def pack(weights, spec, target):
        return pack_winograd(weights, WinogradSpec(spec, tile), target)

    check_blocked(conv, target, emit, pack, scratch=size)


LINES = {
    "row": DirectConvSpec(2, 32, 64, (3, 40), (1, 5), pads=(0, 2, 0, 2), epilogue=ALL),
    "column": DirectConvSpec(2, 16, 32, (17, 9), (7, 1), pads=(3, 0, 3, 0), epilogue=ALL),
    "no-pads": DirectConvSpec(1, 16, 48, (1, 500), (1, 3)),
    "even-taps": DirectConvSpec(1, 20, 37, (1, 31), (1, 4), pads=(0, 2, 0, 1), epilogue=ALL),
    "two-taps": DirectConvSpec(1, 16, 16, (23, 1), (2, 1), pads=(1, 0, 0, 0)),
    "one-pixel": DirectConvSpec(3, 16, 16, (1, 1), (1, 5), pads=(0, 2, 0, 2)),
    "many-tiles": DirectConvSpec(2, 16, 16, (60, 61), (3, 1), pads=(1, 0, 1, 0), epilogue=ALL),
}


DILATED = {
    "dilated-3x3": DirectConvSpec(
        2, 20, 37, (13, 18), (3, 3), pads=(2, 3, 2, 3), dilations=(2, 3), epilogue=ALL
    ),
    "dilated-row": DirectConvSpec(
        1, 16, 32, (2, 45), (1, 3), pads=(0, 5, 0, 5), dilations=(1, 5), epilogue=ALL
    ),
    "dilated-column": DirectConvSpec(1, 16, 32, (31, 3), (5, 1), pads=(4, 0, 0, 0), dilations=(2, 1)),
    "dilated-far": DirectConvSpec(1, 16, 16, (6, 7), (3, 3), pads=(12,) * 4, dilations=(12, 12)),
    "dilated-whole": DirectConvSpec(1, 32, 16, (32, 32), (3, 3), dilations=(2, 2)),
}
SQUARES = {
    "five": DirectConvSpec(2, 20, 37, (13, 18), (5, 5), pads=(2, 2, 2, 2), epilogue=ALL),
    "four": DirectConvSpec(1, 16, 32, (9, 14), (4, 4), pads=(1, 2, 2, 1)),
    "two": DirectConvSpec(2, 32, 16, (11, 12), (2, 2), pads=(0, 1, 1, 0), epilogue=ALL),
}


@pytest.mark.parametrize("cpu", ["host", "haswell"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", [*LINES, *SQUARES, *DILATED])
def test_winograd_of_other_filters(name: str, threads: int, cpu: str) -> None:
    """Rows, columns, squares and dilated taps, every number of outputs that a tile can have."""
    conv, target = (LINES | SQUARES | DILATED)[name], named(cpu, threads)
    for tile in winograd_tiles(conv):

        def emit(module, kernel, spec, target, tile=tile):
            return emit_winograd(module, kernel, WinogradSpec(spec, tile), target)

        def pack(weights, spec, target, tile=tile):
            return pack_winograd(weights, WinogradSpec(spec, tile), target)

        check_blocked(
            conv, target, emit, pack, scratch=winograd_scratch_bytes(WinogradSpec(conv, tile), target)
        )


def test_winograd_tiles() -> None:
    """The longer a filter, the smaller its tiles; padding beside a line leaves it direct."""
    line = DirectConvSpec(1, 16, 16, (8, 8), (1, 3), pads=(0, 1, 0, 1))
    assert winograd_tiles(line) == (2, 4, 6)
    assert winograd_tiles(replace(line, kernel=(7, 1), pads=(3, 0, 3, 0))) == (2,)
    assert winograd_tiles(replace(line, kernel=(1, 8))) == ()
    assert winograd_tiles(replace(line, pads=(1, 1, 1, 1))) == ()
    assert winograd_tiles(replace(line, strides=(1, 2))) == ()
    assert winograd_tiles(replace(line, kernel=(3, 3), strides=(2, 2), dilations=(2, 2))) == ()
    assert winograd_tiles(replace(line, kernel=(5, 5))) == (2,)
    assert winograd_tiles(replace(line, kernel=(2, 2))) == (3, 5)
    assert winograd_tiles(replace(line, kernel=(3, 5))) == winograd_tiles(replace(line, kernel=(1, 1))) == ()


def test_winograd_shares_channels_of_few_tiles() -> None:
    """One block of tiles, several workers: they share the output channels."""
    spec = WinogradSpec(DirectConvSpec(1, 256, 256, (7, 7), (3, 3), pads=(1,) * 4))
    assert plan_winograd(spec, host(3)).parts >= 3
    assert plan_winograd(spec, host(1)).parts == 1


@pytest.mark.parametrize("kernel", [(1, 1), (5, 5)])
def test_winograd_takes_few_filters(kernel: tuple[int, int]) -> None:
    """Other filters, strides, groups and plain inputs are left to the direct kernel."""
    spec = DirectConvSpec(1, 16, 16, (8, 8), (3, 3))
    assert not supports_winograd(replace(spec, kernel=kernel))
    assert not supports_winograd(replace(spec, strides=(2, 1)))
    assert not supports_winograd(replace(spec, group=2))
    assert not supports_winograd(replace(spec, plain_input=True))
