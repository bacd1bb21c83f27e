"""iota, sizes: numbers that follow from tensor sizes alone."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array, Tensor, shape_of, tensor


@graph_op
class IotaOp(PureOp):
    """The numbers 0, 1, 2... along a vector."""

    name = "glow.iota"
    result = result_def(Tensor)

    def check(self) -> None:
        if len(shape_of(self.result)) != 1:
            raise VerifyException(f"glow.iota: the result is {self.result.type}, expected a vector")

    def reference(self, result: Array) -> None:
        result[...] = np.arange(len(result)).astype(result.dtype)


@graph_op
class SizesOp(PureOp):
    """Whole numbers of which some are sizes of tensors that only the run tells; a scalar or a vector."""

    name = "glow.sizes"
    values = ints_prop()
    result = result_def(Tensor)

    @staticmethod
    def of(array: Array, element: Attribute | np.dtype) -> SizesOp:
        """The numbers of an array of objects."""
        return SizesOp(results=tensor(array.shape, element), values=tuple(array.reshape(-1)))

    def array(self) -> Array:
        """The numbers, ints and extents, as an array of objects."""
        made = np.empty(len(self.values), object)
        made[:] = self.values
        return made.reshape(shape_of(self.result))

    def check(self) -> None:
        shape, count = shape_of(self.result), len(self.values)
        if len(shape) > 1 or shape not in ((count,), ()) or (not shape and count != 1):
            raise VerifyException(f"glow.sizes: {count} numbers for {self.result.type}; give one per element")

    def reference(self, result: Array) -> None:
        result[...] = np.array(self.values).reshape(result.shape).astype(result.dtype)


SAMPLES = (
    Sample(IotaOp, results=tensor((5,), "int64")),
    Sample(IotaOp, results=tensor((3,))),
    Sample(SizesOp, properties={"values": (3, 1, 4)}, results=tensor((3,), "int64"), smooth=False),
    Sample(SizesOp, properties={"values": (7,)}, results=tensor((), "int32"), smooth=False),
)
