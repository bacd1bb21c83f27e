"""Data movement of the builder."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from glow_dialects.core.errors import ShapeError
from glow_dialects.core.types import element_of, tensor
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.one_hot import OneHotOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_frontends.builder.core import Layer, Layers, Like, Operators, Unary, Value, axis_of


class Shapes(Operators):
    """Reshapes, joins, slices, gathers and scatters."""

    identity: Unary
    concat: Layer
    tile: Layer
    pad: Layer
    flip: Layer
    gather: Layer
    gather_nd: Layer
    gather_elements: Layer
    scatter_nd: Layer
    scatter_elements: Layer
    top_k: Layers
    trilu: Layer
    depth_to_space: Layer
    space_to_depth: Layer
    resize: Layer

    def reshape(self, x: Like, shape: Sequence[int]) -> Value:
        """The same elements in another shape; one extent may be -1."""
        value = self.value(x)
        wanted = list(shape)
        if -1 in wanted:
            rest = prod(d for d in wanted if d != -1)
            wanted[wanted.index(-1)] = prod(value.shape) // rest if rest else 0
        if prod(wanted) != prod(value.shape):
            raise ShapeError(f"glow.reshape: {value.type} has no shape {tuple(shape)}")
        return self.one(ReshapeOp, value, results=tensor(wanted, element_of(value.ssa)))

    def flatten(self, x: Like, axis: int = 1) -> Value:
        """Two dimensions: those before `axis`, and the rest."""
        value = self.value(x)
        return self.reshape(value, (prod(value.shape[:axis]), prod(value.shape[axis:])))

    def transpose(self, x: Like, permutation: Sequence[int] | None = None) -> Value:
        """Axes in another order, reversed by default."""
        value = self.value(x)
        order = tuple(reversed(range(len(value.shape)))) if permutation is None else tuple(permutation)
        return self.one(TransposeOp, value, permutation=order)

    def slice(
        self, x: Like, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None
    ) -> Value:
        """Elements [start, end) of every axis, each `step`-th."""
        strides = tuple(steps or (1,) * len(starts))
        return self.one(SliceOp, x, starts=tuple(starts), ends=tuple(ends), steps=strides)

    def insert_slice(self, big: Like, small: Like, starts: Sequence[int]) -> Value:
        """`big` with `small` written over it from `starts` on."""
        return self.one(InsertOp, big, small, starts=tuple(starts))

    def expand(self, x: Like, shape: Sequence[int]) -> Value:
        """Broadcast to a shape."""
        value = self.value(x)
        return self.one(ExpandOp, value, results=tensor(tuple(shape), element_of(value.ssa)))

    def one_hot(self, indices: Like, values: Like, depth: int, axis: int = -1) -> Value:
        """values[1] where the index is, values[0] elsewhere."""
        value = self.value(indices)
        return self.one(OneHotOp, value, values, depth=depth, axis=axis_of(value, axis, more=1))
