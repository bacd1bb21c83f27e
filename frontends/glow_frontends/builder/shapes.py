"""Data movement of the builder."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from glow_dialects.core.errors import ShapeError
from glow_dialects.core.types import element_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.depth_to_space import DepthToSpaceOp, SpaceToDepthOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.one_hot import OneHotOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.trilu import TriluOp
from glow_frontends.builder.core import Like, Operators, Unary, Value, axis_of


class Shapes(Operators):
    """Reshapes, joins, slices, gathers and scatters."""

    identity: Unary

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

    def concat(self, values: Sequence[Like], axis: int) -> Value:
        """Tensors side by side along an axis."""
        first = self.value(values[0])
        return self.one(ConcatOp, [first, *values[1:]], axis=axis_of(first, axis))

    def slice(
        self, x: Like, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None
    ) -> Value:
        """Elements [start, end) of every axis, each `step`-th."""
        strides = tuple(steps or (1,) * len(starts))
        return self.one(SliceOp, x, starts=tuple(starts), ends=tuple(ends), steps=strides)

    def insert_slice(self, big: Like, small: Like, starts: Sequence[int]) -> Value:
        """`big` with `small` written over it from `starts` on."""
        return self.one(InsertOp, big, small, starts=tuple(starts))

    def tile(self, x: Like, repeats: Sequence[int]) -> Value:
        """Each axis repeated as a whole."""
        return self.one(TileOp, x, repeats=tuple(repeats))

    def pad(self, x: Like, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Value:
        """Elements added at the borders: all begins, then all ends."""
        return self.one(PadOp, x, pads=tuple(pads), mode=mode, value=float(value))

    def expand(self, x: Like, shape: Sequence[int]) -> Value:
        """Broadcast to a shape."""
        value = self.value(x)
        return self.one(ExpandOp, value, results=tensor(tuple(shape), element_of(value.ssa)))

    def flip(self, x: Like, axes: Sequence[int]) -> Value:
        """Axes in reverse order."""
        value = self.value(x)
        return self.one(FlipOp, value, axes=tuple(axis_of(value, a) for a in axes))

    def gather(self, data: Like, indices: Like, axis: int = 0) -> Value:
        """Slices of an axis, by index."""
        value = self.value(data)
        return self.one(GatherOp, value, indices, axis=axis_of(value, axis))

    def gather_nd(self, data: Like, indices: Like, batch_dims: int = 0) -> Value:
        """Slices by vectors of indices (ONNX GatherND)."""
        return self.one(GatherNdOp, data, indices, batch_dims=batch_dims)

    def gather_elements(self, data: Like, indices: Like, axis: int = 0) -> Value:
        """One element an index, along an axis."""
        value = self.value(data)
        return self.one(GatherElementsOp, value, indices, axis=axis_of(value, axis))

    def scatter_nd(self, data: Like, indices: Like, updates: Like, reduction: str = "none") -> Value:
        """`data` with slices replaced or combined (ONNX ScatterND)."""
        return self.one(ScatterNdOp, data, indices, updates, reduction=reduction)

    def scatter_elements(
        self, data: Like, indices: Like, updates: Like, axis: int = 0, reduction: str = "none"
    ) -> Value:
        """`data` with elements replaced or combined, along an axis."""
        value = self.value(data)
        where = axis_of(value, axis)
        return self.one(ScatterElementsOp, value, indices, updates, axis=where, reduction=reduction)

    def one_hot(self, indices: Like, values: Like, depth: int, axis: int = -1) -> Value:
        """values[1] where the index is, values[0] elsewhere."""
        value = self.value(indices)
        where = axis_of(value, axis, more=1)
        return self.one(OneHotOp, value, values, depth=depth, axis=where)

    def top_k(self, x: Like, k: int, axis: int = -1, largest: bool = True) -> tuple[Value, Value]:
        """The k largest (or smallest) of an axis, sorted, and where they are (i64)."""
        value = self.value(x)
        where = axis_of(value, axis)
        values, indices = self.insert(TopKOp, value, k=k, axis=where, largest=largest)
        return values, indices

    def trilu(self, x: Like, upper: bool = True, k: int = 0) -> Value:
        """The upper or lower triangle of the last two axes."""
        return self.one(TriluOp, x, upper=upper, k=k)

    def depth_to_space(self, x: Like, block: int, mode: str = "DCR") -> Value:
        """Channels to pixels (NCHW)."""
        return self.one(DepthToSpaceOp, x, block=block, mode=mode)

    def space_to_depth(self, x: Like, block: int) -> Value:
        """Pixels to channels (NCHW)."""
        return self.one(SpaceToDepthOp, x, block=block)

    def resize(self, x: Like, sizes: Sequence[int], mode: str = "nearest", **options: object) -> Value:
        """Every axis resampled to `sizes`; `options` are the properties of `glow.resize`."""
        return self.one(ResizeOp, x, sizes=tuple(sizes), mode=mode, **options)
