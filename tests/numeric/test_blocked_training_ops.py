"""What the operators of training on blocks mean: their references against those of the plain operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from epilogues import chain
from xdsl.ir import Block

from glow_backends.cpu.emit.filters import pack_filter
from glow_backends.cpu.fused_body import BodyBuilder, body_of
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.kernels.norm import batch_norm_ops as blocked
from glow_backends.cpu.kernels.pool.pool_ops import PoolBackwardOp
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, tensor, tensor_of
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormTrainOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp
from glow_dialects.ops.select import SelectOp

LANES = 8


def values(*shape: int, seed: int = 0) -> Array:
    """Normal values."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def run(kind: type[GraphOp], *arrays: Array | None, **properties: Any) -> list[Array]:
    """The results of an operator by its reference."""
    given = [a for a in arrays if a is not None]
    arguments = iter(Block(arg_types=[tensor_of(a) for a in given]).args)
    op = kind(*(None if a is None else next(arguments) for a in arrays), **properties)
    op.verify()
    return list(op.evaluate(given))


def blocks(array: Array) -> Array:
    """On channel blocks."""
    return block_channels(array, LANES)


WINDOW = {"strides": (1, 1), "pads": (1, 0, 1, 2), "dilations": (1, 1)}


def test_turned_filter() -> None:
    """A convolution by a filter with its inputs first is the adjoint; `gate` stands behind it."""
    dy, w, y = values(2, 12, 5, 6), values(12, 10, 3, 3), values(2, 10, 5, 6)
    (want,) = run(ConvTransposeOp, dy, w, None, pads=(1, 1, 1, 1))
    body = BodyBuilder([tensor_of(y)] * 2)
    dx, result = body.results
    zero = body.number(0.0, result)
    gated = body.finish(body.add(SelectOp(body.add(CmpGtOp(result, zero)), dx, zero)))
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    (got,) = run(
        BlockedConvOp, blocks(dy), w, None, blocks(y), form="IOHW", body=gated, lanes=LANES, **window
    )
    np.testing.assert_allclose(unblock_channels(got, 10), np.where(y > 0, want, 0), rtol=1e-4, atol=1e-4)


def test_packed_filter() -> None:
    """A filter's form is undone before it is packed."""
    w = values(12, 3, 3, 20)
    (got,) = run(PackFilterOp, w, form="OHWI", lanes=LANES, width=16, tile=4)
    np.testing.assert_array_equal(got, pack_filter(w.transpose(0, 3, 1, 2), LANES, 16, 4))


@pytest.mark.parametrize("form", ["OIHW", "OHWI"])
def test_filter_gradient(form: str) -> None:
    """The plain gradient, in the order of the filter."""
    x, dy = values(2, 10, 5, 6), values(2, 12, 5, 6)
    (want,) = run(ConvBackwardWeightsOp, x, dy, results=tensor((12, 10, 3, 3), np.float32), **WINDOW)
    want = want.transpose(["OIHW".index(axis) for axis in form])
    kind = tensor(want.shape, np.float32)
    for source in (blocks(x), x):
        operands = {"results": kind, "form": form, "lanes": LANES, **WINDOW}
        (got,) = run(ConvWeightsOp, source, blocks(dy), **operands)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_normalisation() -> None:
    """Statistics, steps, and gradients behind a gate."""
    x, dy, other = values(3, 10, 4, 5), values(3, 10, 4, 5, seed=1), values(3, 10, 4, 5, seed=2)
    scale, bias = values(10), values(10, seed=1)
    y, mean, variance = run(BatchNormTrainOp, x, scale, bias)
    body = body_of(chain("add", "relu"))
    got = run(blocked.BatchNormTrainOp, blocks(x), scale, bias, blocks(other), body=body)
    np.testing.assert_allclose(unblock_channels(got[0], 10), np.maximum(y + other, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[2], variance, rtol=1e-5)
    want = run(BatchNormBackwardOp, x, scale, mean, variance, np.where(other > 0, dy, 0))
    operands = (blocks(x), scale, mean, variance, blocks(dy), blocks(other))
    found = run(blocked.BatchNormBackwardOp, *operands)
    found[0] = unblock_channels(found[0], 10)
    for mine, plain in zip(found, want, strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["max", "avg"])
def test_pools(mode: str) -> None:
    """The plain pools' gradients."""
    x, dy = values(2, 10, 5, 6), values(2, 10, 3, 5)
    window = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 0), "dilations": (1, 1)}
    if mode == "max":
        (want,) = run(MaxPoolBackwardOp, x, dy, **window)
    else:
        (want,) = run(AvgPoolBackwardOp, dy, results=tensor(x.shape, np.float32), **window)
    kind = tensor(blocks(x).shape, np.float32)
    source = blocks(x) if mode == "max" else None
    (got,) = run(PoolBackwardOp, blocks(dy), source, results=kind, mode=mode, **window)
    np.testing.assert_allclose(unblock_channels(got, 10), want, rtol=1e-5, atol=1e-6)
