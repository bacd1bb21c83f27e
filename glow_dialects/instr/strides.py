"""Strided buffers, and the range of offsets that depend on loop indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import Buffer, bytes_of, dtype_of, shape_of
from glow_dialects.instr.loops import loop_of


def strides_of(kind: Attribute) -> tuple[int, ...] | None:
    """The strides of a buffer type in elements, None where its elements are dense and in order."""
    assert isinstance(kind, MemRefType)
    layout = kind.layout
    if type(layout) is NoneAttr:
        return None
    strides = None
    if isinstance(layout, StridedLayoutAttr) and layout.get_offset() == 0:
        strides = layout.get_strides()
    if strides is None or len(strides) != len(shape_of(kind)):
        raise VerifyException(f"{kind}: a layout must be strided, as in memref<2x4xf32, strided<[8, 1]>>")
    found = tuple(s for s in strides if s is not None and s >= 0)
    if len(found) != len(strides):
        raise VerifyException(f"{kind}: strides must be known numbers, none negative")
    return found


def strided(kind: Buffer, strides: Sequence[int]) -> Buffer:
    """A buffer type with strides in elements; none are written where they are those of dense elements."""
    dense = tuple(strides) == dense_strides(shape_of(kind))
    layout = NoneAttr() if dense else StridedLayoutAttr(list(strides))
    return MemRefType(kind.element_type, kind.shape, layout, kind.memory_space)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements without gaps, in the order of the last dimension."""
    return tuple(prod(shape[place + 1 :]) for place in range(len(shape)))


def span_of(kind: Attribute) -> int:
    """Bytes from the first element of a buffer of this type to its last, both included."""
    strides = strides_of(kind)
    if strides is None:
        return bytes_of(kind)
    shape, width = shape_of(kind), dtype_of(kind).itemsize
    if 0 in shape:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * width


def extent_of(offset: int, terms: Mapping[SSAValue, int]) -> tuple[int, int]:
    """The least and the largest value of `offset + sum(factor * index)`."""
    low = high = offset
    for index, factor in terms.items():
        turns = loop_of(index).turns
        ends = (factor * turns[0], factor * turns[-1])
        low, high = low + min(ends), high + max(ends)
    return low, high
