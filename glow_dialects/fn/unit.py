"""Building the graph operators of a primitive on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import dtype_of, element_of, element_type, shape_of, tensor
from glow_dialects.ops import card_of


@cache
def operator_named(name: str) -> Any:
    """The class of a graph operator by its name."""
    card = card_of(name)
    assert card is not None, name
    classes = (c for c in vars(card).values() if isinstance(c, type))
    return next(c for c in classes if getattr(c, "name", "") == f"glow.{name}")


def promoted(kinds: Sequence[np.dtype], weak: Sequence[bool]) -> np.dtype:
    """The element type of operands: NumPy's, in which Python's numbers (`weak`) count by their kind only."""
    strong = [k for k, w in zip(kinds, weak, strict=True) if not w]
    if any(k.kind == "V" for k in strong):  # floats that NumPy does not know are wider than any number
        return reduce(np.promote_types, strong)
    numbers = [k.type(0).item() for k, w in zip(kinds, weak, strict=True) if w]
    return np.result_type(*strong, *numbers)


def real_type(kind: np.dtype) -> np.dtype:
    """The floats that NumPy computes mathematical functions of an element type in: of int8, float16."""
    return np.promote_types(kind, np.float16) if kind.kind in "biu" else kind


def limits(kinds: Sequence[np.dtype], weak: Sequence[bool]) -> tuple[int, int] | None:
    """The least and the largest of Python's ints that arrays of ints beside them hold; None where all are."""
    if True not in weak or False not in weak:
        return None
    common = promoted(kinds, weak)
    if common.kind not in "iu" or common.name == "int64":
        return None
    info = np.iinfo(common)
    return int(info.min), min(int(info.max), 2**63 - 1)


class Unit:
    """Builds the operators of one primitive in a block whose arguments are its tensors.

    `wide` are those of the `weak` ones that are ints which the element type of the others may not hold.
    """

    def __init__(self, b: Builder, weak: Sequence[bool], wide: Sequence[bool] = ()) -> None:
        self.b = b
        self.weak = weak
        self.wide = wide or [False] * len(weak)

    def op(
        self,
        name: str,
        *values: SSAValue | Sequence[SSAValue],
        results: Attribute | None = None,
        **options: object,
    ) -> SSAValue:
        """One operator of a card, by name."""
        return self.b(operator_named(name)(*values, results=results, **options))

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The value with another element type."""
        if element_of(value) == element:
            return value
        return self.op("cast", value, results=tensor(shape_of(value), element))

    def real(self, value: SSAValue) -> SSAValue:
        """The value in the floats that NumPy's mathematical functions compute it in."""
        return self.cast(value, element_type(real_type(dtype_of(value.type))))

    def common(self, values: Sequence[SSAValue], weak: Sequence[bool]) -> list[SSAValue]:
        """Values of one element type, by NumPy's rule: that of the arrays, which a weak number can widen."""
        kinds = [dtype_of(v.type) for v in values]
        return [self.cast(v, element_type(promoted(kinds, weak))) for v in values]

    def reals(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Operands in the floats of their common type that NumPy's mathematical functions compute in."""
        kinds = [dtype_of(v.type) for v in values]
        strong = {k.kind for k, weak in zip(kinds, self.weak, strict=True) if not weak}
        if promoted(kinds, self.weak).kind in "iu" and strong & {"i", "u"}:
            # The floats of each: float16 of int8 and uint8, whose common type is int16.
            kinds = [k if weak else real_type(k) for k, weak in zip(kinds, self.weak, strict=True)]
        element = element_type(real_type(promoted(kinds, self.weak)))
        return [self.cast(v, element) for v in values]

    def exact(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Operands of one element type that holds each of them, to be compared."""
        return self.common(values, [a and not b for a, b in zip(self.weak, self.wide, strict=True)])

    def within(self, bound: SSAValue, values: Sequence[SSAValue]) -> SSAValue:
        """An int as the nearest one that the element type of `values`, which it is one of, holds."""
        range_ = limits([dtype_of(v.type) for v in values], self.weak)
        if range_ is None:
            return bound
        low, high = range_
        least = self.op("max", bound, self.b.scalar(low, bound))
        return least if high == 2**63 - 1 else self.op("min", least, self.b.scalar(high, bound))

    def size(self, value: int) -> SSAValue:
        """An int, one that follows from sizes that the run tells too."""
        if isinstance(value, Extent):
            return self.op("sizes", values=(value,), results=tensor((), i64))
        return self.b.constant(np.array(value, np.int64))

    def numbers(self, count: int) -> SSAValue:
        """The ints from 0 on."""
        if isinstance(count, Extent):
            return self.op("iota", results=tensor((count,), i64))
        return self.b.constant(np.arange(count))

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements under another shape."""
        kind = tensor(shape, element_of(value))
        return value if value.type == kind else self.op("reshape", value, results=kind)

    def expand(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast to a shape."""
        kind = tensor(shape, element_of(value))
        return value if value.type == kind else self.op("expand", value, results=kind)

    def summed(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Summed over the axes along which a value of `shape` was broadcast."""
        have, want = shape_of(value), tuple(shape)
        if have == want:
            return value
        lead = len(have) - len(want)
        if lead < 0:
            return self.expand(value, want)
        axes = [*range(lead)] + [i + lead for i, s in enumerate(want) if s == 1 and have[i + lead] != 1]
        total = self.op("reduce_sum", value, axes=tuple(axes), keepdims=True) if axes else value
        reshaped = self.reshape(total, want) if prod(shape_of(total)) == prod(want) else None
        return reshaped if reshaped is not None else self.expand(total, want)
