"""Layers of little arithmetic: integers would cost their accuracy and save next to no time."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.types import Array, shape_of
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import FuncOp
from glow_passes.quantize.channels import LAYERS, output_axis

#: Grouped convolutions with fewer products an output are bound by memory; each of their channels has
#: a range of its own, which one scale for all of them does not fit.
FEW = 128
#: 3 x 3 convolutions of fewer outputs a channel gain little from the tiles of float kernels.
TILED = 400
#: All other light layers together have at most this part of a network's products.
PART = 0.01


def products(op: Operation, weights: Array) -> int:
    """How many products a layer computes."""
    return prod(shape_of(op.results[0])) * _each(op, weights)


def _each(op: Operation, weights: Array) -> int:
    return weights.size // max(weights.shape[output_axis(op)], 1)


def light_layers(function: FuncOp, array: Callable[[SSAValue], Array | None]) -> set[Operation]:
    """Depthwise and similar convolutions, and the smallest layers up to PART of all products.

    The latter are the two products of a squeeze-and-excitation block and many a last layer.
    """
    found: set[Operation] = set()
    sizes: list[tuple[int, Operation]] = []
    total = 0
    for op in function.body.block.ops:
        weights = array(op.operands[1]) if isinstance(op, LAYERS) else None
        if weights is None:
            continue
        size = products(op, weights)
        total += size
        if isinstance(op, ConvOp) and op.group > 1 and _each(op, weights) < FEW:
            found.add(op)
        else:
            sizes.append((size, op))
    spent = 0
    for size, op in sorted(sizes, key=lambda entry: entry[0]):
        spent += size
        if spent > PART * total:
            break
        found.add(op)
    return found


def tiled_layers(function: FuncOp) -> set[Operation]:
    """Convolutions that float kernels compute by tiles with a quarter of the products.

    Two passes on the bytes of 16-bit integers take longer than these.
    """
    found: set[Operation] = set()
    for op in function.body.block.ops:
        if isinstance(op, ConvOp) and op.group == 1:
            plain = set(op.strides) == {1} and set(op.dilations) == {1}
            if op.kernel == (3, 3) and plain and prod(op.sizes(op.result)[2]) >= TILED:
                found.add(op)
    return found
