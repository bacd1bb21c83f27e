"""The byte range of a buffer within its allocation, through views, and overlap tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from glow_dialects.core.types import bytes_of, dtype_of, shape_of
from glow_dialects.instr.loops import loop_of
from glow_dialects.instr.memory import ViewOp, origin
from glow_dialects.instr.strides import strides_of

_CANDIDATES = 4096
"""Combinations of indices that are tried before two buffers are taken to meet."""


@dataclass(frozen=True)
class Region:
    """Places `start + sum(factor * index) + sum(stride * i)` of `width` bytes each, of a buffer `base`.

    `terms` has the factor of each loop's index, `dims` size and stride in bytes of each dimension.
    """

    base: SSAValue
    start: int
    terms: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    dims: tuple[tuple[int, int], ...] = ()
    width: int = 1

    @property
    def end(self) -> int:
        """The byte behind the last place, for indices that are 0."""
        return self.start + self.width + sum((size - 1) * stride for size, stride in self.dims)


def region_of(buffer: SSAValue) -> Region:
    """Where a buffer lies in the alloc or weight behind it."""
    kind, start = buffer.type, 0
    terms: Counter[SSAValue] = Counter()
    while type(view := buffer.owner) is ViewOp:
        buffer = view.source
        width = dtype_of(buffer.type).itemsize
        start += view.offset.value.data * width
        for index, factor in view.terms().items():
            terms[index] += factor * width
    strides = strides_of(kind)
    if strides is None:
        return Region(buffer, start, dict(terms), (), bytes_of(kind))
    width = dtype_of(kind).itemsize
    dims = tuple((n, s * width) for n, s in zip(shape_of(kind), strides, strict=True))
    return Region(buffer, start, dict(terms), dims, width)


def overlap(first: SSAValue, second: SSAValue, same_turn: bool = True) -> bool:
    """Whether two buffers share bytes, as far as views tell.

    `same_turn`: loops' indices are the same for both; else they are any two.
    """
    if origin(first) is not origin(second):
        return False
    return meet(region_of(first), region_of(second), same_turn)


def meet(a: Region, b: Region, same_turn: bool = True) -> bool:
    """Whether two regions of one buffer share bytes, for some indices."""
    if not (a.terms or b.terms or a.dims or b.dims):
        return a.start < b.start + b.width and b.start < a.start + a.width
    if not (a.terms or b.terms) and (a.end <= b.start or b.end <= a.start):
        return False
    # Places of a less places of b are sums of stride * t, t in a range: one of them must be this near.
    distance = b.start - a.start
    ranges: dict[int, tuple[int, int]] = {}

    def vary(stride: int, low: int, high: int) -> None:
        if stride < 0:
            stride, low, high = -stride, -high, -low
        known = ranges.get(stride, (0, 0))
        ranges[stride] = (known[0] + low, known[1] + high)

    for sign, region in ((1, a), (-1, b)):
        if any(size == 0 for size, _ in region.dims) or region.width == 0:
            return False
        for size, stride in region.dims:
            vary(stride, *((0, size - 1) if sign > 0 else (1 - size, 0)))
    for factor, turns in _index_terms(a, b, same_turn):
        distance -= factor * turns.start
        vary(factor * turns.step, 0, len(turns) - 1)
    steps = sorted((s, r) for s, r in ranges.items() if s)[::-1]
    return _reach(steps, distance - a.width + 1, distance + b.width - 1, [_CANDIDATES])


def _index_terms(a: Region, b: Region, same_turn: bool) -> list[tuple[int, range]]:
    """(factor, range) of the indices in the difference of two regions' places."""
    if same_turn:
        both: Counter[SSAValue] = Counter(a.terms)
        both.subtract(b.terms)
        return [(factor, loop_of(index).turns) for index, factor in both.items() if factor]
    signed = [(i, f) for i, f in a.terms.items()] + [(i, -f) for i, f in b.terms.items()]
    return [(factor, loop_of(index).turns) for index, factor in signed]


def _reach(steps: list[tuple[int, tuple[int, int]]], low: int, high: int, left: list[int]) -> bool:
    """Whether a sum of stride * t, t in the range of each stride, lies in [low, high]."""
    if not steps:
        return low <= 0 <= high
    (stride, (first, last)), rest = steps[0], steps[1:]
    least = sum(s * r[0] for s, r in rest)
    most = sum(s * r[1] for s, r in rest)
    start = max(first, -(-(low - most) // stride))
    stop = min(last, (high - least) // stride)
    for t in range(start, stop + 1):
        left[0] -= 1
        if left[0] < 0 or _reach(rest, low - stride * t, high - stride * t, left):
            return True
    return False


def same_place(first: SSAValue, second: SSAValue) -> bool:
    """Whether two buffers are the same bytes, in the same order."""
    return origin(first) is origin(second) and region_of(first) == region_of(second)
