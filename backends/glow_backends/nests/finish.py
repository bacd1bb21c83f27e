"""What becomes of the sums of a nest before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import Region, SSAValue

from glow_backends.nests.bodies import Body, body
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import RoundOp


class Steps(Protocol):
    """Element-wise steps of someone else's, which can be written as operators."""

    @property
    def extras(self) -> int:
        """How many views they read, of the result's shape."""
        ...

    def write(self, t: Body, value: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        """Append them to a body; what becomes of a value."""
        ...


@dataclass(frozen=True)
class Finish:
    """What becomes of a sum: with `bias` a number of its column is added; with a `factor` of each "column" or
    of "all" it is a float times that; with `limits`, not below the first of three numbers nor above the
    second, rounded, plus the third, and stored. `scale` comes before the bias, `steps` behind it: they read
    elements of views of the result's shape."""

    bias: bool = False
    factor: str = ""
    limits: bool = False
    scale: float | None = None
    steps: Steps | None = None

    @property
    def extras(self) -> int:
        """Views of the result's shape that it reads."""
        return 0 if self.steps is None else self.steps.extras


def finish_sums(
    f: Finish, kinds: tuple[str, str], zeros: tuple[int, int] = (0, 0), depth: int | SSAValue = 0
) -> Region | None:
    """The body that makes a result of a sum, of element types `kinds`; None where it is one.

    `zeros`: of factors a - zero and b - zero, whose sums of columns and of rows come behind the sum of
    `depth` products of a and b.
    """
    sums, out = kinds
    taken = [sums, *(sums for z in zeros if z), *([sums] if f.bias else [])]
    taken += (["f32"] if f.factor else []) + ["f32"] * (3 if f.limits else 0) + [out] * f.extras
    if len(taken) == 1 and f.scale is None and f.steps is None:
        return None

    def write(t: Body, total: SSAValue, *rest: SSAValue) -> SSAValue:
        left = list(rest)
        for zero in zeros:
            if zero:
                total = t.add(SubOp, total, t.add(MulOp, left.pop(0), t.number(zero, sums)))
        if zeros[0] and zeros[1]:
            count = t.number(depth, sums) if isinstance(depth, int) else t.size(depth)
            total = t.add(AddOp, total, t.add(MulOp, count, t.number(zeros[0] * zeros[1], sums)))
        if f.scale is not None:
            total = t.add(MulOp, total, t.number(f.scale, sums))
        if f.bias:
            total = t.add(AddOp, total, left.pop(0))
        if f.factor:
            total = t.add(MulOp, t.cast(total, "f32"), left.pop(0))
        if f.limits:
            low, high, zero = (left.pop(0) for _ in range(3))
            total = t.add(AddOp, rounded_between(t, total, low, high), zero)
        if f.steps is not None:
            total = f.steps.write(t, total, left)
        return t.cast(total, out)

    return body(taken, write)


def rounded_between(t: Body, value: SSAValue, low: SSAValue, high: SSAValue) -> SSAValue:
    """A number, which is not NaN, between two others, rounded to even."""
    value = t.add(SelectOp, t.add(CmpGtOp, low, value, kind="i1"), low, value, like=value)
    value = t.add(SelectOp, t.add(CmpGtOp, value, high, kind="i1"), high, value, like=value)
    return t.add(RoundOp, value)
