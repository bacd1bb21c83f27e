"""Layers of little arithmetic: integers would cost their accuracy and save next to no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.estimates import estimate
from glow_dialects.core.types import Array, shape_of
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import FuncOp
from glow_passes.quantize.channels import layer_axes


@dataclass(frozen=True)
class IntegerGains:
    """Which layers gain too little from integers on a target to be worth their rounding.

    `grouped_products`: grouped convolutions with fewer products an output stay float. They are bound by
    memory, and one scale does not fit their channels, each of which has a range of its own.
    `tiled_outputs`: float kernels compute 3 x 3 convolutions of as many outputs a channel by tiles with a
    quarter of the products, which 16-bit integers (two passes on their bytes) do not reach; 0: no such
    kernels. `light_part`: the smallest layers stay float up to this part of a network's products.
    """

    grouped_products: int = 128
    tiled_outputs: int = 0
    light_part: float = 0.01


def products(op: Operation, weights: Array) -> int:
    """How many products a layer computes."""
    return estimate(prod(shape_of(op.results[0]))) * _each(op, weights)


def _each(op: Operation, weights: Array) -> int:
    axes = layer_axes(op)
    assert axes is not None
    return weights.size // max(weights.shape[axes.outputs], 1)


def light_layers(
    function: FuncOp, array: Callable[[SSAValue], Array | None], gains: IntegerGains
) -> set[Operation]:
    """Depthwise and similar convolutions, and the smallest layers up to a part of all products.

    The latter are the two products of a squeeze-and-excitation block and many a last layer.
    """
    ops: set[Operation] = set()
    sizes: list[tuple[int, Operation]] = []
    total = 0
    for op in function.body.block.ops:
        weights = array(op.operands[1]) if layer_axes(op) is not None else None
        if weights is None:
            continue
        size = products(op, weights)
        total += size
        axes = layer_axes(op)
        if axes is not None and axes.groups > 1 and _each(op, weights) < gains.grouped_products:
            ops.add(op)
        else:
            sizes.append((size, op))
    spent = 0
    for size, op in sorted(sizes, key=lambda entry: entry[0]):
        spent += size
        if spent > gains.light_part * total:
            break
        ops.add(op)
    return ops


def tiled_layers(function: FuncOp, gains: IntegerGains) -> set[Operation]:
    """3 x 3 convolutions that the target's float kernels compute by tiles."""
    ops: set[Operation] = set()
    for op in function.body.block.ops if gains.tiled_outputs else ():
        if isinstance(op, ConvOp) and op.group == 1:
            plain = set(op.strides) == {1} and set(op.dilations) == {1}
            if op.kernel == (3, 3) and plain and prod(op.sizes(op.result)[2]) >= gains.tiled_outputs:
                ops.add(op)
    return ops
