"""literal: a small constant tensor written in the function, for shapes, axes and scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.irdl import BaseAttr, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import BitsAttr, array_of, dense
from glow_dialects.core.graph_op import Leaf, PureOp, graph_op
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array, Tensor, tensor_of, typed


@graph_op
class LiteralOp(PureOp):
    """A constant tensor whose values are an attribute; large ones belong in glow.constant."""

    name = "glow.literal"
    value = prop_def(BaseAttr(DenseIntOrFPElementsAttr) | BaseAttr(BitsAttr))
    result = result_def(Tensor)
    traits = traits_def(Pure(), Leaf())

    @staticmethod
    def of(array: Array) -> LiteralOp:
        """The literal of a NumPy array."""
        kind = tensor_of(array)
        return LiteralOp(results=kind, value=dense(kind, array))

    def array(self) -> Array:
        """The values."""
        array = array_of(self.value, typed(self.result))
        assert array is not None
        return array

    def check(self) -> None:
        if self.value.get_type() != self.result.type:
            raise VerifyException(
                f"glow.literal: value is {self.value.get_type()}, result {self.result.type}"
                "; both need the same type"
            )

    def reference(self, result: Array) -> None:
        value: Any = self.properties["value"]
        array = array_of(value, typed(value.get_type()))
        assert array is not None
        result[...] = array


def _sample(array: Array) -> Sample:
    kind = tensor_of(array)
    return Sample(LiteralOp, properties={"value": dense(kind, array)}, results=kind)


SAMPLES = (
    _sample(np.array([[1.5, -2.0], [np.inf, 0.0]], np.float32)),
    _sample(np.array([1, -2, 3], np.int64)),
    _sample(np.array(7, np.uint8)),
    _sample(np.array([True, False])),
)
