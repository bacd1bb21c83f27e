"""splat: a tensor of one value."""

from __future__ import annotations

import numpy as np
from xdsl.irdl import result_def, traits_def
from xdsl.traits import Pure

from glow_dialects.core.graph_op import Leaf, PureOp, graph_op
from glow_dialects.core.properties import float_prop
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor


@graph_op
class SplatOp(PureOp):
    """Every element is `value`, converted to the element type."""

    name = "glow.splat"
    DATA_PARALLEL = True
    traits = traits_def(Pure(), Leaf())
    value = float_prop()
    result = result_def(Tensor)

    def array(self) -> Array:
        """The values, as a stride-0 view."""
        scalar = np.array(self.value).astype(dtype_of(self.result.type))
        return np.broadcast_to(scalar, shape_of(self.result))

    def reference(self, result: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = np.array(self.value).astype(result.dtype)


SAMPLES = (
    Sample(SplatOp, properties={"value": 1.5}, results=tensor((2, 3))),
    Sample(SplatOp, properties={"value": -3.0}, results=tensor((), "int32")),
    Sample(SplatOp, properties={"value": 1.0}, results=tensor((4,), "bool")),
)
