"""transpose: axes in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.iteration import Along, Iteration, loops
from glow_dialects.core.mapped import again
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor


@graph_op
class TransposeOp(PureOp):
    """Axis i of the result is axis permutation[i] of the input."""

    name = "glow.transpose"
    MOVES_ELEMENTS = True
    permutation = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        order: tuple[int, ...] = self.permutation
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(
                f"glow.transpose: permutation {list(order)} does not order the axes of {self.input.type}; "
                "name each once"
            )
        return [tensor([shape[i] for i in order], element_of(self.input))]

    def iteration(self) -> Iteration | None:
        shape = shape_of(self.result)
        follows = [Along(self.permutation.index(axis)) for axis in range(len(shape))]
        return Iteration(shape, (loops(len(shape)),), (tuple(follows),))

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        """Channels moved from first to last or back: the blocked value stands for both."""
        axes = tuple(range(form.rank))
        turned = (0, axes[-1], *axes[1:-1]) if form.last else (0, *axes[2:], 1)
        return replace(form, last=not form.last) if tuple(self.permutation) == turned else None

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        return again(self, x, size, b, permutation=(0, *(i + 1 for i in self.permutation)))

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [b(TransposeOp(grads[0], permutation=inverse(self.permutation)))]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = np.transpose(input, self.permutation)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(int(i) for i in np.argsort(permutation))


SAMPLES = (
    Sample(TransposeOp, (random(3, 5),), {"permutation": (1, 0)}),
    Sample(TransposeOp, (random(2, 3, 4, 5),), {"permutation": (0, 2, 3, 1)}),
    Sample(TransposeOp, (random(2, 3, 4),), {"permutation": (2, 0, 1)}),
    Sample(TransposeOp, (random(2, 3, 4),), {"permutation": (0, 1, 2)}),
    Sample(TransposeOp, (random(),), {"permutation": ()}),
    *(
        Sample(
            TransposeOp,
            (random(3, 5, 2, dtype="int32", low=0, high=5).astype(kind),),
            {"permutation": (2, 0, 1)},
            smooth=False,
        )
        for kind in ("float16", "int64", "bool", "float64")
    ),
    Sample(TransposeOp, (random(3, 5, dtype="int8", low=-9, high=9),), {"permutation": (1, 0)}, smooth=False),
)
