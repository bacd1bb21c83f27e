"""Kernels of training on blocked activations against PyTorch and NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from epilogues import chain
from kernel_runner import CPU, run_kernel

from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.filters import FilterPackSpec, pack_filter, plain_filter
from glow_backends.cpu.kernels.conv.conv_direct import emit_conv_direct, pack_conv
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.conv_weights import (
    ConvWeightsSpec,
    conv_weights_scratch_bytes,
    emit_conv_weights,
)
from glow_backends.cpu.kernels.conv.filter_pack import emit_filter_pack
from glow_backends.cpu.kernels.conv.winograd_changing import (
    ChangingSpec,
    changing_scratch_bytes,
    emit_winograd_changing,
    supports_changing,
)
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec
from glow_backends.cpu.kernels.conv.winograd_weights import (
    emit_winograd_weights,
    winograd_weights_scratch_bytes,
)
from glow_backends.cpu.kernels.norm.batch_norm_blocked import BlockedNormSpec, emit_batch_norm_blocked
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackwardSpec
from glow_backends.cpu.kernels.pool.pool_backward_blocked import emit_pool_backward_blocked
from glow_backends.cpu.target import named
from glow_dialects.core.blocks import block_channels, unblock_channels

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

LANES = named(CPU).lanes


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal values."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["OIHW", "OHWI", "IOHW", "IHWO"])
@pytest.mark.parametrize(
    ("out", "inner", "kernel", "tile"), [(48, 20, (3, 3), 4), (40, 5, (3, 3), 2), (32, 18, (5, 2), 0)]
)
def test_pack_filter(
    out: int, inner: int, kernel: tuple[int, int], tile: int, form: str, threads: int
) -> None:
    """The kernel packs as NumPy does, in every order of axes; unfilled blocks stay unwritten."""
    size = {"O": out, "I": inner, "H": kernel[0], "W": kernel[1]}
    filters = random(*(size[axis] for axis in form))
    width = LANES * 2
    spec = FilterPackSpec(out, inner, kernel, form, LANES, width, tile)
    want = pack_filter(plain_filter(filters, form), LANES, width, tile)
    (got,) = run_kernel(emit_filter_pack, spec, [(want.shape, np.float32)], [filters], threads)

    def live(packed: np.ndarray) -> np.ndarray:
        # output channels, input channels, then what is made of the taps
        whole = packed.transpose((1, 4, 2, 3, 0) if tile else (0, 5, 1, 4, 2, 3))
        rest = whole.shape[4:]
        return whole.reshape(-1, whole.shape[2] * whole.shape[3], *rest)[:out, :inner]

    np.testing.assert_allclose(live(got), live(want), rtol=1e-5, atol=1e-6)


CONVS: list[dict[str, Any]] = [
    {"in_channels": 2 * LANES, "out_channels": 2 * LANES, "size": (6, 6), "pads": (1, 1, 1, 1)},
    {"in_channels": LANES + 4, "out_channels": LANES + 8, "size": (7, 9), "strides": (2, 1)},
    {"in_channels": 3, "out_channels": 2 * LANES, "size": (8, 8), "pads": (0, 1, 1, 0), "plain_input": True},
    {
        "in_channels": 2 * LANES,
        "out_channels": LANES,
        "size": (5, 8),
        "dilations": (2, 1),
        "pads": (2, 1, 0, 1),
    },
]


WINOGRAD = [
    {"in_channels": 2 * LANES, "out_channels": 2 * LANES, "size": (8, 8), "pads": (1, 1, 1, 1)},
    {"in_channels": LANES + 4, "out_channels": LANES + 8, "size": (9, 7), "pads": (0, 1, 1, 0)},
    {"in_channels": LANES, "out_channels": LANES, "size": (70, 67), "pads": (1, 1, 1, 1)},
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["OIHW", "OHWI"])
@pytest.mark.parametrize(("winograd", "case"), [*((False, c) for c in CONVS), *((True, c) for c in WINOGRAD)])
def test_conv_weights(winograd: bool, case: dict[str, Any], form: str, threads: int) -> None:
    """The gradient of the filter is PyTorch's."""
    emit, size_of = emit_conv_weights, conv_weights_scratch_bytes
    if winograd:
        emit, size_of = emit_winograd_weights, winograd_weights_scratch_bytes
    conv = DirectConvSpec(batch=4, kernel=(3, 3), **case)
    top, left, bottom, right = conv.pads
    x = random(4, conv.in_channels, *conv.size)
    dy = random(4, conv.out_channels, *conv.out_size, seed=1)
    padded = torch.nn.functional.pad(torch.tensor(x).double(), (left, right, top, bottom))
    shape = (conv.out_channels, conv.in_channels, 3, 3)
    window: dict[str, Any] = {"stride": conv.strides, "dilation": conv.dilations}
    want = torch.nn.grad.conv2d_weight(padded, shape, torch.tensor(dy).double(), **window).numpy()
    want = want.transpose(["OIHW".index(axis) for axis in form])
    spec = ConvWeightsSpec(conv, form)
    scratch = np.zeros(size_of(spec, named(CPU, threads)), np.uint8)
    inputs = [x if conv.plain_input else block_channels(x, LANES), block_channels(dy, LANES), scratch]
    (got,) = run_kernel(emit, spec, [(want.shape, np.float32)], inputs, threads)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("channels", "size", "offset"), [(2 * LANES, (4, 4), 0), (LANES + 3, (3, 5), 100)])
def test_batch_norm(channels: int, size: tuple[int, int], offset: float, threads: int) -> None:
    """Statistics, result with its steps, and gradients behind a relu are PyTorch's."""
    x = random(3, channels, *size) + np.float32(offset)
    scale, bias, residual = random(channels), random(channels, seed=1), random(3, channels, *size, seed=2)
    dy = random(3, channels, *size, seed=3)
    held = torch.tensor(x).double().requires_grad_()
    weights = [torch.tensor(v).double().requires_grad_() for v in (scale, bias)]
    y = torch.nn.functional.batch_norm(held, None, None, *weights, training=True, eps=1e-5)
    y = torch.relu(y + torch.tensor(residual).double())
    y.backward(torch.tensor(dy).double())
    spec = BlockedNormSpec(3, channels, size[0] * size[1], 1e-5)
    program = chain("add", "relu")
    blocks = [block_channels(v, LANES) for v in (x, residual, dy)]
    outputs = [(blocks[0].shape, np.float32)] + [((channels,), np.float32)] * 2
    forward = replace(spec, epilogue=Epilogue(program=program))
    inputs = [blocks[0], scale, bias, blocks[1]]
    got, mean, variance = run_kernel(emit_batch_norm_blocked, forward, outputs, inputs, threads)
    near: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5 * (1 + offset)}
    np.testing.assert_allclose(unblock_channels(got, channels), y.detach().numpy(), **near)
    np.testing.assert_allclose(mean, x.mean(axis=(0, 2, 3), dtype=np.float64), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(axis=(0, 2, 3), dtype=np.float64), rtol=1e-4)
    backward = replace(spec, backward=True, gate=True)
    inputs = [blocks[0], scale, mean, variance, blocks[2], got]
    dx, dscale, dbias = run_kernel(emit_batch_norm_blocked, backward, outputs, inputs, threads)
    assert held.grad is not None
    np.testing.assert_allclose(unblock_channels(dx, channels), held.grad.numpy(), **near)
    for mine, weight in zip((dscale, dbias), weights, strict=True):
        assert weight.grad is not None
        np.testing.assert_allclose(mine, weight.grad.numpy(), rtol=1e-3, atol=1e-4 * (1 + offset))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("out", "inner", "form"), [(3, 2, "IOHW"), (2, 1, "OIHW"), (24, 24, "OHWI"), (2, 2, "IHWO")]
)
def test_winograd_changing(out: int, inner: int, form: str, threads: int) -> None:
    """A convolution by a plain filter, with its epilogue, is PyTorch's; many channels come in parts."""
    outs, ins = out * LANES - 3 * (inner == 2), inner * LANES + 5 * (inner == 1)
    size = {"O": outs, "I": ins, "H": 3, "W": 3}
    filters = random(*(size[axis] for axis in form)) / np.float32(np.sqrt(9 * ins))
    x, extra = random(2, ins, 5, 8), random(2, outs, 5, 8, seed=1)
    w = torch.tensor(np.ascontiguousarray(plain_filter(filters, form))).double()
    want = torch.relu(
        torch.nn.functional.conv2d(torch.tensor(x).double(), w, padding=1) + torch.tensor(extra)
    )
    epilogue = Epilogue(program=chain("add", "relu"))
    conv = DirectConvSpec(2, ins, outs, (5, 8), (3, 3), pads=(1, 1, 1, 1), epilogue=epilogue)
    spec = ChangingSpec(WinogradSpec(conv), form)
    target = named(CPU, threads)
    assert supports_changing(spec.winograd, target)
    blocks = block_channels(extra, LANES)
    inputs = [
        block_channels(x, LANES),
        filters,
        blocks,
        np.zeros(changing_scratch_bytes(spec, target), np.uint8),
    ]
    (got,) = run_kernel(emit_winograd_changing, spec, [(blocks.shape, np.float32)], inputs, threads)
    np.testing.assert_allclose(unblock_channels(got, outs), want.numpy(), rtol=1e-4, atol=2e-5)


POOLS: list[dict[str, Any]] = [
    {"size": (6, 8), "kernel": (2, 2), "strides": (2, 2)},
    {"size": (7, 6), "kernel": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0)},
    {"size": (4, 5), "kernel": (4, 5), "strides": (1, 1)},
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["max", "avg", "counted"])
@pytest.mark.parametrize("case", POOLS)
def test_pool_backward(case: dict[str, Any], mode: str, threads: int) -> None:
    """Gradients of pools are PyTorch's."""
    pads = case.get("pads", (0, 0, 0, 0))
    kind, counted = "max" if mode == "max" else "avg", mode == "counted"
    window: dict[str, Any] = {"pads": (0, 0, 0, 0), "dilations": (1, 1), **case}
    spec = PoolBackwardSpec(kind, 4, count_include_pad=counted, **window)
    x, dy = random(2, 2 * LANES, *spec.size), random(2, 2 * LANES, *spec.outputs, seed=1)
    held = torch.tensor(x).double().requires_grad_()
    fill = float("-inf") if mode == "max" else 0.0
    padded = torch.nn.functional.pad(held, (pads[1], pads[3], pads[0], pads[2]), value=fill)
    if mode == "max":
        y = torch.nn.functional.max_pool2d(padded, spec.kernel, spec.strides)
    else:
        y = torch.nn.functional.avg_pool2d(padded, spec.kernel, spec.strides)
        if not counted:
            ones = torch.nn.functional.pad(torch.ones_like(held), (pads[1], pads[3], pads[0], pads[2]))
            y = y / torch.nn.functional.avg_pool2d(ones, spec.kernel, spec.strides)
    y.backward(torch.tensor(dy).double())
    assert held.grad is not None
    inputs = [block_channels(v, LANES) for v in ((x, dy) if mode == "max" else (dy,))]
    outputs = [(block_channels(x, LANES).shape, np.float32)]
    (got,) = run_kernel(emit_pool_backward_blocked, spec, outputs, inputs, threads)
    np.testing.assert_allclose(unblock_channels(got, 2 * LANES), held.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_images_inside() -> None:
    """Where weights are large and images small, a block of output channels takes all images: same sums."""
    conv = DirectConvSpec(5, 16 * LANES, 64 * LANES, (3, 4), (3, 3), pads=(1, 1, 1, 1))
    target = named(CPU, 2)
    assert (
        plan_conv(conv, target).images_inside and not plan_conv(replace(conv, batch=1), target).images_inside
    )
    x, w = random(5, 16 * LANES, 3, 4), random(64 * LANES, 16 * LANES, 3, 3) / np.float32(12 * LANES**0.5)
    want = torch.nn.functional.conv2d(torch.tensor(x).double(), torch.tensor(w).double(), padding=1).numpy()
    inputs = [block_channels(x, LANES), pack_conv(w, conv, target)]
    outputs = [(block_channels(want.astype(np.float32), LANES).shape, np.float32)]
    (got,) = run_kernel(emit_conv_direct, conv, outputs, inputs, 2)
    np.testing.assert_allclose(unblock_channels(got, 64 * LANES), want, rtol=1e-4, atol=1e-5)
