"""identity: the input itself."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor


@graph_op
class IdentityOp(PureOp):
    """The input, unchanged: a view of it where a pass does not remove it."""

    name = "glow.identity"
    ONNX = "Identity"
    MOVES_ELEMENTS = True
    DATA_PARALLEL = True
    VIEW = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [grads[0]]

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        array = arrays[0]
        assert array is not None
        return [array]


SAMPLES = (Sample(IdentityOp, (random(2, 3),)), Sample(IdentityOp, (random(),)))
