"""glow-branches: convolutions of one value whose results are added are one convolution.

conv(x, v) + conv(x, w) + x * s  ->  conv(x, v + w + diag(s)), smaller filters inside the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.conv import ConvOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite
from glow_passes.graph.linear import Linear, channel_vector, linear_of
from glow_passes.graph.match import terms
from glow_passes.legality import legal_nodes


@dataclass(frozen=True)
class _Branch:
    """A term that is linear in x: a filter O x I/group x kernel and its window's properties."""

    filter: Array
    group: int
    begins: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    bias: Array | None

    @property
    def kernel(self) -> tuple[int, ...]:
        """Extents of the filter."""
        return self.filter.shape[2:]


def _of_convolution(linear: Linear) -> _Branch:
    """The branch of a convolution."""
    op, weights = linear.op, linear.weights
    begins = op.pads[: weights.ndim - 2]
    filter = np.moveaxis(weights, -1, 1) if linear.last else weights
    return _Branch(filter, op.group, begins, op.strides, op.dilations, linear.bias)


def _beside(value: SSAValue, linear: Linear | None, main: Linear, r: Rewriter) -> _Branch | None:
    """The branch of another term of a sum (`linear` if it is one) that is linear in what `main` reads."""
    source = main.op.input
    if linear is not None and isinstance(linear.op, ConvOp):
        same = linear.op.input is source and linear.last == main.last
        return _of_convolution(linear) if same else None
    factor: Array | None = None
    if value is source:
        factor = np.ones(main.channels)
    else:
        product = producer(value, MulOp, single=True)
        if product is not None and product.lhs is source and value.type == source.type:
            array = r.array(product.rhs)
            factor = None if array is None else channel_vector(array, main)
    if factor is None:
        return None
    ones = (1,) * (len(shape_of(source)) - 2)
    filter = factor.astype(np.float64).reshape(-1, 1, *ones)
    return _Branch(filter, len(factor), (0,) * len(ones), ones, ones, None)


def _inside(branch: _Branch, main: _Branch) -> Array | None:
    """The filter of `branch` as one of `main`'s shape and group; None where it does not fit in."""
    if branch.strides != main.strides or branch.group % main.group:
        return None
    places: list[slice] = []
    for axis, (size, room) in enumerate(zip(branch.kernel, main.kernel, strict=True)):
        step = main.dilations[axis]
        shift, rest = divmod(main.begins[axis] - branch.begins[axis], step)
        spread = size > 1 and branch.dilations[axis] != step
        if rest or spread or shift < 0 or shift + size > room:
            return None
        places.append(slice(shift, shift + size))
    merged = branch.group // main.group
    whole = np.zeros(main.filter.shape)  # float64, whatever the weights are: sums are rounded once
    outputs, inputs = len(whole) // branch.group, branch.filter.shape[1]
    for group in range(branch.group):
        rows = slice(group * outputs, (group + 1) * outputs)
        first = group % merged * inputs
        whole[(rows, slice(first, first + inputs), *places)] = branch.filter[rows]
    return whole


def one_convolution(op: AddOp, r: Rewriter) -> SSAValue | None:
    """conv(x, v) + conv(x, w) + y -> conv(x, v + w) + y."""
    if dtype_of(op.result.type).name not in ("float32", "float64"):
        return None  # sums of weights would be rounded
    parts = terms(op)
    linears = [linear_of(v, r) for v in parts]
    mains = [m for m in linears if m is not None and isinstance(m.op, ConvOp)]
    for main in sorted(mains, key=lambda m: (-prod(_of_convolution(m).kernel), m.op.group)):
        whole = _of_convolution(main)
        filter, bias = whole.filter, whole.bias
        others: list[SSAValue] = []
        for value, linear in zip(parts, linears, strict=True):
            if linear is main:
                continue
            branch = _beside(value, linear, main, r)
            part = None if branch is None else _inside(branch, whole)
            if branch is None or part is None:
                others.append(value)
                continue
            filter = filter + part
            if branch.bias is not None:
                bias = branch.bias if bias is None else bias + branch.bias
        if len(others) == len(parts) - 1:
            continue
        total = main.rebuilt(np.moveaxis(filter, 1, -1) if main.last else filter, bias, r)
        for other in others:
            total = r(AddOp(total, other))
        return total
    return None


PATTERNS = (Pattern((AddOp,), one_convolution),)


@dataclass(frozen=True)
class BranchesPass(GraphPass):
    """Sums of convolutions, and of factors, of one value as one convolution."""

    name = "glow-branches"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS, legal_nodes())
