"""one_hot: a new axis that is on at an index and off elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.compare import CmpEqOp, CmpLtOp
from glow_dialects.ops.indexing import check_indices
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp


@graph_op
class OneHotOp(PureOp):
    """values[1] where the index equals the place on the new `axis` of `depth`, else values[0].

    Negative indices count from the end; an index outside the depth is on nowhere.
    """

    name = "glow.one_hot"
    depth = int_prop()
    axis = int_prop()
    indices = operand_def(Tensor)
    values = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, axis = shape_of(self.indices), self.axis
        check_axis(self.name, axis, len(shape) + 1)
        check_indices(self.name, self.indices)
        if shape_of(self.values) != (2,):
            raise VerifyException(
                f"glow.one_hot: values are {self.values.type}, expected an off and an on value; give a "
                "vector of two"
            )
        if self.depth < 0:
            raise VerifyException(f"glow.one_hot: depth {self.depth} is negative; give 0 or more")
        return [tensor((*shape[:axis], self.depth, *shape[axis:]), element_of(self.values))]

    def _mask(self, b: Builder) -> SSAValue:
        """Where the result is on."""
        from glow_dialects.ops.arithmetic import AddOp

        depth: int = self.depth
        axis: int = self.axis
        shape = shape_of(self.indices)
        kind = dtype_of(typed(self.indices))
        index = self.indices
        if kind.kind == "i":
            below = b(CmpLtOp(index, b.scalar(0, index)))
            index = b(SelectOp(below, b(AddOp(index, b.scalar(depth, index))), index))
        index = b(ReshapeOp.to(index, (*shape[:axis], 1, *shape[axis:])))
        places: Array = np.arange(depth).astype(kind).reshape((depth, *(1,) * (len(shape) - axis)))
        return b(CmpEqOp(index, b.constant(places)))

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.concat import ConcatOp
        from glow_dialects.ops.reduce import ReduceSumOp

        mask, zero = self._mask(b), b.scalar(0, dy)
        axes = tuple(range(len(shape_of(dy))))
        parts = (SelectOp(mask, zero, dy), SelectOp(mask, dy, zero))
        sums = [b(ReshapeOp.to(b(ReduceSumOp(b(p), axes=axes)), (1,))) for p in parts]
        return [None, b(ConcatOp(sums, axis=0))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        from glow_dialects.ops.slice import SliceOp

        off, on = (b(ReshapeOp.to(b(SliceOp.window(self.values, (i,), (1,))), ())) for i in (0, 1))
        return [b(SelectOp(self._mask(b), on, off))]

    def reference(self, result: Array, indices: Array, values: Array) -> None:
        axis: int = self.axis
        depth: int = self.depth
        wide = np.expand_dims(indices.astype(np.int64), axis)
        places: Array = np.arange(depth).reshape((depth, *(1,) * (indices.ndim - axis)))
        result[...] = np.where(np.where(wide < 0, wide + depth, wide) == places, values[1], values[0])


_PAIR = np.array([0.5, 2.0], np.float32)
SAMPLES = (
    Sample(OneHotOp, (np.array([1, 0, -1, 7], np.int64), _PAIR), {"depth": 3, "axis": 1}),
    Sample(OneHotOp, (random(2, 3, dtype="int32", low=0, high=4), _PAIR), {"depth": 4, "axis": 0}),
    Sample(
        OneHotOp,
        (random(2, 3, dtype="uint8", low=0, high=4), np.array([0, 1], np.int32)),
        {"depth": 4, "axis": 1},
        smooth=False,
    ),
)
