"""insert: a tensor with a block replaced."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again, whole
from glow_dialects.core.properties import check_length, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of
from glow_dialects.ops.slice import SliceOp


@graph_op
class InsertOp(PureOp):
    """`big` with element starts + i * steps replaced by element i of `small`.

    One start an axis, and one positive step an axis (no steps: all 1).
    """

    name = "glow.insert"
    MOVES_ELEMENTS = True
    INPLACE = ("big",)
    starts = ints_prop()
    steps = ints_prop(())
    big = operand_def(Tensor)
    small = operand_def(Tensor)
    result = result_def(Tensor)

    def strides(self) -> tuple[int, ...]:
        """One step an axis."""
        return self.steps or (1,) * len(shape_of(self.big))

    def ends(self) -> tuple[int, ...]:
        """One past the last replaced element of each axis."""
        sizes = zip(self.starts, shape_of(self.small), self.strides(), strict=True)
        return tuple(a + max(n - 1, 0) * s + (n > 0) for a, n, s in sizes)

    def infer(self) -> Sequence[Attribute]:
        big, small = shape_of(self.big), shape_of(self.small)
        check_length(self.name, "starts", self.starts, len(big))
        check_length(self.name, "steps", self.strides(), len(big))
        if len(small) != len(big) or element_of(self.big) != element_of(self.small):
            raise VerifyException(
                f"glow.insert: {self.small.type} does not go into {self.big.type}"
                "; both need the same rank and element type"
            )
        outside = any(e > n for e, n in zip(self.ends(), big, strict=True))
        if outside or min((*self.starts, 0)) < 0 or min((*self.strides(), 1)) < 1:
            raise VerifyException(
                f"glow.insert: {self.small.type} at {list(self.starts)} by "
                f"{list(self.strides())} leaves {self.big.type}"
                "; move it, or take a smaller one"
            )
        return [self.big.type]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        values = [whole(v, f, size, b) for v, f in zip(x, flags, strict=True)]
        return again(self, values, size, b, starts=(0, *self.starts), steps=(1, *self.strides()))

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        zeros = b.splat(0, self.small)
        outer = b(InsertOp(dy, zeros, starts=self.starts, steps=self.steps))
        inner = b(SliceOp(dy, starts=self.starts, ends=self.ends(), steps=self.strides()))
        return [outer, inner]

    def reference(self, result: Array, big: Array, small: Array) -> None:
        result[...] = big
        starts = self.starts
        steps = self.steps or (1,) * big.ndim
        block = tuple(slice(a, a + n * s, s) for a, n, s in zip(starts, small.shape, steps, strict=True))
        result[block] = small


SAMPLES = (
    Sample(InsertOp, (random(4, 6), random(2, 3)), {"starts": (1, 2)}),
    Sample(InsertOp, (random(4, 6), random(4, 6, seed=1)), {"starts": (0, 0)}),
    Sample(InsertOp, (random(4, 7), random(2, 3)), {"starts": (1, 0), "steps": (2, 3)}),
    Sample(InsertOp, (random(5), random(1)), {"starts": (4,)}),
)
