"""Convolution kernels of the CPU backend against PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from glow_backends.cpu.kernels.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.kernels.epilogue import Epilogue
from glow_backends.cpu.kernels.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import host

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Uniform values in [-1, 1)."""
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(dtype)


def finish(y: np.ndarray, residual: np.ndarray | None, epilogue: Epilogue) -> np.ndarray:
    """The epilogue without the bias, in NumPy."""
    if residual is not None:
        y = y + residual
    if epilogue.low is not None:
        y = np.maximum(y, epilogue.low)
    if epilogue.high is not None:
        y = np.minimum(y, epilogue.high)
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


ALL = Epilogue(bias=True, residual=True, low=0.0, high=1.5)
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
    residual = random(*shapes[0], seed=9, dtype=dtype) if spec.epilogue.residual else None
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
