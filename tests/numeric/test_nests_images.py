"""Convolutions that are described as nests: their meaning beside NumPy, and tiles beside today's kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import glow_compiler as glow
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.emit.integer import Requantize, Residual
from glow_backends.cpu.kernels.conv.conv_int8 import (
    Int8ConvSpec,
    emit_conv_int8,
    pack_channels,
    pack_int8_conv,
)
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.tile_conv import image_of, image_schedule
from glow_backends.cpu.lower.images import emit_image_contraction, pixels_of
from glow_backends.cpu.lower.rooms import rooms_of
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget, host
from glow_backends.nests.images import Image, describe_image, pack_filter
from glow_backends.nests.meaning import run_kernel
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.ops.windows import convolve

CONVS = {
    "1x1": DirectConvSpec(2, 40, 64, (7, 9), (1, 1)),
    "1x1-stride": DirectConvSpec(1, 64, 32, (15, 15), (1, 1), (2, 2)),
    "3x3": DirectConvSpec(2, 48, 100, (8, 10), (3, 3), pads=(1, 1, 1, 1)),
    "3x3-stride": DirectConvSpec(1, 130, 48, (11, 9), (3, 3), (2, 2), (0, 1, 2, 1)),
    "5x3-dilated": DirectConvSpec(1, 32, 33, (20, 13), (5, 3), (1, 2), (4, 2, 3, 1), (2, 3)),
    "wide-border": DirectConvSpec(1, 32, 16, (3, 2), (3, 3), (3, 1), (4, 3, 5, 2)),
}
RESIDUAL = Residual(3, 0.5, 7, 0.25, 11, 0, 240)
FORMS = {
    "bytes": Requantize(3, 0, 250),
    "floats": Requantize(real=True),
    "sums": Requantize(sums=True),
    "residual": Requantize(3, 0, 250, residual=RESIDUAL),
}
RNG = np.random.default_rng(0)
#: The machine, as if it had tiles: where it has none, their meaning stands in their place.
MADE = replace(host(), has_amx=True)


def arrays(conv: DirectConvSpec, q: Requantize) -> dict[str, np.ndarray]:
    """The operands of a convolution."""
    out, lanes = -(-conv.out_channels // 16) * 16, 16
    x = RNG.integers(0, 256, (conv.batch, conv.in_channels, *conv.size)).astype(np.uint8)
    blocked = block_channels(x, lanes)
    kind = np.float32 if q.real else np.int32 if q.sums else np.uint8
    shape = (conv.batch, out // lanes, *conv.out_size, lanes)
    return {
        "x": x,
        "blocked": blocked,
        "w": RNG.integers(-128, 128, (conv.out_channels, conv.in_channels, *conv.kernel)).astype(np.int8),
        "bias": pack_channels(RNG.integers(-5000, 5000, conv.out_channels).astype(np.int32), MADE),
        "factor": pack_channels(RNG.uniform(1e-4, 2e-3, conv.out_channels).astype(np.float32), MADE),
        "residual": RNG.integers(0, 256, shape).astype(np.uint8),
        "y": np.zeros(shape, kind),
    }


def operands(p: Image, q: Requantize, v: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Those of the described kernel, but for its result and room."""
    s = image_schedule(p, MADE)
    more = [v["factor"]] if p.finish.factor else []
    more += [q.limits] if p.finish.limits else []
    more += [v["residual"]] if p.finish.extras else []
    return [v["blocked"], pack_filter(v["w"], p, s), v["bias"], *more]


def tiles(p: Image, q: Requantize, v: dict[str, np.ndarray], target: CpuTarget) -> np.ndarray:
    """The result of the code: of tiles where this machine has some, else of their meaning."""
    s = replace(image_schedule(p, target), expand=not host().has_amx)
    kernel = describe_image(p, s)
    kernel.verify()
    y = aligned(v["y"])
    room = sum(rooms_of(kernel).bytes(s, pixels_of(p, s), p.lines(s) * s.unit.k)) * target.threads
    code = StandaloneKernel(_emitted, (kernel, p), target)
    code(y, *map(aligned, (*operands(p, q, v), np.full(room, 0x7F, np.uint8))))
    return y


def _emitted(module: ir.Module, name: str, spec: Any, target: CpuTarget) -> ir.Function:
    kernel, p = spec
    return emit_image_contraction(module, name, kernel, p, target)


def image(conv: DirectConvSpec, q: Requantize) -> Image:
    """The description's spec."""
    p = image_of(Int8ConvSpec(conv, q), MADE)
    assert p is not None
    return p


@pytest.mark.parametrize("name", CONVS)
def test_meaning_is_numpys(name: str) -> None:
    conv = CONVS[name]
    p = image(conv, FORMS["sums"])
    v = arrays(conv, FORMS["sums"])
    run_kernel(describe_image(p, image_schedule(p, MADE)), [v["y"], *operands(p, FORMS["sums"], v)])
    window = conv.strides, conv.pads, conv.dilations, 1
    bias = v["bias"][: conv.out_channels].astype(np.float64)
    want = convolve(v["x"].astype(np.float64), v["w"].astype(np.float64), *window, bias)
    np.testing.assert_array_equal(unblock_channels(v["y"], conv.out_channels), want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CONVS)
def test_tiles_give_what_vectors_give(name: str, form: str, threads: int) -> None:
    """Every byte of the result's channels, by today's kernel and by the described one."""
    conv, q = CONVS[name], FORMS[form]
    v = arrays(conv, q)
    target = replace(MADE, threads=threads)
    spec = Int8ConvSpec(conv, q)
    before = aligned(v["y"])
    residual = [aligned(v["residual"])] if q.residual is not None else []
    StandaloneKernel(emit_conv_int8, spec, host())(
        before,
        aligned(v["blocked"]),
        aligned(pack_int8_conv(v["w"], spec, host())),
        aligned(v["bias"]),
        aligned(v["factor"]),
        *residual,
    )
    after = tiles(image(conv, q), q, v, target)
    count = conv.out_channels
    np.testing.assert_array_equal(unblock_channels(after, count), unblock_channels(before, count))


def test_expansion_is_the_machine() -> None:
    conv, q = CONVS["3x3-stride"], FORMS["bytes"]
    v, p = arrays(conv, q), image(conv, q)
    s = replace(image_schedule(p, MADE), expand=True)
    kernel, y = describe_image(p, s), aligned(v["y"])
    room = sum(rooms_of(kernel).bytes(s, pixels_of(p, s), p.lines(s) * s.unit.k))
    code = StandaloneKernel(_emitted, (kernel, p), host())
    code(y, *map(aligned, (*operands(p, q, v), np.zeros(room, np.uint8))))
    np.testing.assert_array_equal(y, tiles(p, q, v, host()))


def test_quantised_networks_are_the_same_on_tiles() -> None:
    """A block with a residual, strides and channels that are no multiple of a block."""
    g, rng = glow.GraphBuilder(), np.random.default_rng(1)
    x = g.placeholder("x", (2, 48, 9, 9))

    def conv(v: Any, into: int, out: int, taps: int, stride: int = 1) -> Any:
        w = rng.normal(size=(out, into, taps, taps)).astype(np.float32) / (into * taps * taps) ** 0.5
        b = rng.normal(size=out).astype(np.float32) / 10
        pads = (taps // 2,) * 4
        return g.conv(v, g.constant(w), g.constant(b), pads=pads, strides=(stride, stride))

    y = g.relu(conv(g.relu(conv(x, 48, 64, 1)), 64, 48, 3))
    g.save(g.relu(conv(g.relu(g.add(conv(y, 48, 48, 1), x)), 48, 40, 3, 2)), "y")
    samples = [{"x": rng.normal(size=(2, 48, 9, 9)).astype(np.float32)} for _ in range(3)]
    quantized = glow.quantize(g, samples)
    results = []
    vectors = CpuBackend()
    vectors.target = vectors.target.freely
    for backend in (vectors, CpuBackend(), CpuBackend(2)):
        results.append(glow.compile(quantized.clone(), backend=backend).run(samples[0])["y"])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
