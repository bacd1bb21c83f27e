"""tile: a tensor repeated whole along each axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_length, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.reshape import ReshapeOp


@graph_op
class TileOp(PureOp):
    """`repeats[i]` copies of the input one after another along axis i."""

    name = "glow.tile"
    MOVES_ELEMENTS = True
    repeats = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, repeats = shape_of(self.input), self.repeats
        check_length(self.name, "repeats", repeats, len(shape))
        if min((*repeats, 0)) < 0:
            raise VerifyException(f"glow.tile: repeats {list(repeats)} are negative; give 0 or more")
        return [tensor([n * r for n, r in zip(shape, repeats, strict=True)], element_of(self.input))]

    def _split(self) -> list[int]:
        """(repeats[0], size 0, repeats[1], size 1, ...)."""
        pairs = zip(self.repeats, shape_of(self.input), strict=True)
        return [n for pair in pairs for n in pair]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.reduce import ReduceSumOp

        split = self._split()
        wide = b(ReshapeOp.to(dy, split))
        return [b(ReduceSumOp(wide, axes=tuple(range(0, len(split), 2))))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        split = self._split()
        ones = [1 if i % 2 == 0 else n for i, n in enumerate(split)]
        wide = b(ReshapeOp.to(self.input, ones))
        full = b(ExpandOp(wide, results=tensor(split, element_of(self.input))))
        return [b(ReshapeOp(full, results=self.result.type))]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = np.tile(input, self.repeats)


SAMPLES = (
    Sample(TileOp, (random(2, 3),), {"repeats": (2, 1)}),
    Sample(TileOp, (random(2, 1, 3),), {"repeats": (1, 4, 2)}),
    Sample(TileOp, (random(3),), {"repeats": (0,)}),
)
