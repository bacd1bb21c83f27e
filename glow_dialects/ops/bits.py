"""Counts of bits: popcount count_leading_zeros."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, dtype_of, element_type, tensor, typed
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.elementwise import UnaryOp, check_kinds
from glow_dialects.ops.logic import BitwiseAndOp, BitwiseNotOp, BitwiseOrOp, ShiftRightOp


class BitCountOp(UnaryOp):
    """How many bits of each integer are of a kind."""

    def check(self) -> None:
        check_kinds(self, "iu", "integers")

    def formula(self, x: Term) -> Term:
        def cast(v: Term, element: Attribute) -> Term:
            return v.apply(BitCastOp, results=tensor(v.shape, element))

        element, width = x.element, _width(x)
        unsigned = element_type(f"uint{width}")
        plain = x if element == unsigned else cast(x, unsigned)
        count = _ones(self.ones(plain), width)
        return count if element == unsigned else cast(count, element)

    def ones(self, x: Term) -> Term:
        """An unsigned integer with as many ones."""
        raise NotImplementedError(self.name)


def _width(x: Term) -> int:
    return 8 * dtype_of(typed(x.value)).itemsize


def _ones(x: Term, width: int) -> Term:
    """The ones of each, by sums of ever wider fields."""
    shift = 1
    while shift < width:
        fields = ((1 << width) - 1) // ((1 << shift) + 1)  # of `shift` ones and as many zeros
        mask = Term(x.b.constant(np.array(fields, f"uint{width}")), x.b)
        x = x.apply(BitwiseAndOp, mask) + x.apply(ShiftRightOp, shift).apply(BitwiseAndOp, mask)
        shift *= 2
    return x


@graph_op
class PopcountOp(BitCountOp):
    """How many bits are one"""

    name = "glow.popcount"
    STABLEHLO = "popcnt"

    def function(self, x: Array) -> Array:
        return np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype)

    def ones(self, x: Term) -> Term:
        return x


@graph_op
class CountLeadingZerosOp(BitCountOp):
    """How many bits above the highest one are zero"""

    name = "glow.count_leading_zeros"
    STABLEHLO = "count_leading_zeros"

    def function(self, x: Array) -> Array:
        bits = x.view(f"u{x.itemsize}")
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < 8 * x.itemsize:
                bits = bits | bits >> bits.dtype.type(shift)
        return (8 * x.itemsize - np.bitwise_count(bits)).astype(x.dtype)

    def ones(self, x: Term) -> Term:
        # The highest one is copied into all bits below.
        shift = 1
        while shift < _width(x):
            x = x.apply(BitwiseOrOp, x.apply(ShiftRightOp, shift))
            shift *= 2
        return x.apply(BitwiseNotOp)


SAMPLES = tuple(
    Sample(op, (x.astype(kind),), smooth=False)
    for op in (PopcountOp, CountLeadingZerosOp)
    for kind in ("int32", "uint8", "int64", "int8", "uint32")
    for x in (np.concatenate([random(9, dtype="int64", low=-99, high=99), [0, 1, -1, 64, 2**62 - 5]]),)
)
