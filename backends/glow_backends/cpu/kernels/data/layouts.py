"""Data-movement operators as copies between boxes (see kernels/copy.py)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from glow_backends.cpu.emit.common import broadcast_strides, product, row_major
from glow_backends.cpu.kernels.data.copy import Box, CopySpec
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.extent import Extent, are_equal
from glow_dialects.ops.pad import sources

Shape = Sequence[int]
_MOST_BOXES = 48


def transpose_spec(shape: Shape, permutation: Shape, width: int) -> CopySpec:
    """result axis i is source axis permutation[i]."""
    strides = row_major(shape)
    extents = tuple(shape[p] for p in permutation)
    box = Box(extents, 0, row_major(extents), 0, 0, tuple(strides[p] for p in permutation))
    return CopySpec(width, 1, (box,))


def slice_spec(shape: Shape, starts: Shape, steps: Shape, extents: Shape, width: int) -> CopySpec:
    """result[i] = source[starts + i * steps], the result of shape `extents`."""
    strides = row_major(shape)
    start = sum(a * s for a, s in zip(starts, strides, strict=True))
    origin = tuple(a * s for a, s in zip(steps, strides, strict=True))
    box = Box(tuple(extents), 0, row_major(extents), 0, start, origin)
    return CopySpec(width, 1, (box,))


def concat_spec(shapes: Sequence[Shape], axis: int, width: int) -> CopySpec:
    """The sources one after another along `axis`."""
    axis %= len(shapes[0])
    total = list(shapes[0])
    total[axis] = sum(s[axis] for s in shapes)
    strides = row_major(total)
    boxes: list[Box] = []
    at = 0
    for number, shape in enumerate(shapes):
        boxes.append(Box(tuple(shape), at * strides[axis], strides, number, 0, row_major(shape)))
        at += shape[axis]
    return CopySpec(width, len(shapes), tuple(boxes))


def insert_spec(
    big: Shape, small: Shape, starts: Shape, steps: Shape, width: int, whole: bool = True
) -> CopySpec:
    """The second source placed `steps` apart into a copy of the first; not `whole`: into what is there.

    Operands: result, small (not whole), or result, big, small.
    """
    strides = row_major(big)
    to = sum(a * s for a, s in zip(starts, strides, strict=True))
    apart = tuple(a * s for a, s in zip(steps, strides, strict=True))
    part = Box(tuple(small), to, apart, int(whole), 0, row_major(small))
    if not whole:
        return CopySpec(width, 1, (part,))
    if any(step != 1 for step in steps):
        return CopySpec(width, 2, (Box(tuple(big), 0, strides, 0, 0, strides), part), ordered=True)
    # Of the big one what is around the small one: along an axis where the axes before are inside.
    extents, place = list(big), 0
    boxes = [part]
    for axis, (n, start) in enumerate(zip(small, starts, strict=True)):
        for count, at in ((start, 0), (big[axis] - start - n, start + n)):
            border, first = (*extents[:axis], count, *extents[axis + 1 :]), place + at * strides[axis]
            boxes.append(Box(border, first, strides, 0, first, strides))
        extents[axis] = n
        place += start * strides[axis]
    return CopySpec(width, 2, tuple(b for b in boxes if product(b.extents)))


def tile_spec(shape: Shape, repeats: Shape, width: int) -> CopySpec:
    """The source repeated along every axis."""
    total = row_major([n * r for n, r in zip(shape, repeats, strict=True)])
    extents: list[int] = []
    to: list[int] = []
    origin: list[int] = []
    for n, r, out, have in zip(shape, repeats, total, row_major(shape), strict=True):
        extents += [r, n]
        to += [n * out, out]
        origin += [0, have]
    return CopySpec(width, 1, (Box(tuple(extents), 0, tuple(to), 0, 0, tuple(origin)),))


def expand_spec(shape: Shape, target: Shape, width: int) -> CopySpec:
    """The source broadcast to `target` by NumPy's rule."""
    box = Box(tuple(target), 0, row_major(target), 0, 0, broadcast_strides(shape, target))
    return CopySpec(width, 1, (box,))


def flip_spec(shape: Shape, axes: Shape, width: int) -> CopySpec:
    """The order along `axes` reversed."""
    chosen = {a % len(shape) for a in axes}
    starts = [n - 1 if i in chosen else 0 for i, n in enumerate(shape)]
    steps = [-1 if i in chosen else 1 for i in range(len(shape))]
    return slice_spec(shape, starts, steps, shape, width)


def pad_constant_spec(shape: Shape, pads: Shape, width: int, fill: int) -> CopySpec:
    """The source with `pads` (begins, then ends) elements of the bit pattern `fill` around it."""
    rank = len(shape)
    total = [n + pads[i] + pads[i + rank] for i, n in enumerate(shape)]
    strides = row_major(total)
    # An axis is filled where the axes before it are inside, and along all of those after it.
    extents, to = list(total), 0
    boxes: list[Box] = []
    for axis, n in enumerate(shape):
        for count, at in ((pads[axis], 0), (pads[axis + rank], pads[axis] + n)):
            border = [*extents[:axis], count, *extents[axis + 1 :]]
            boxes.append(Box(tuple(border), to + at * strides[axis], strides))
        extents[axis] = n
        to += pads[axis] * strides[axis]
    boxes.append(Box(tuple(shape), to, strides, 0, 0, row_major(shape)))
    return CopySpec(width, 1, tuple(b for b in boxes if product(b.extents)), fill)


Run = tuple[int, int, int, int]
"""(position, count, first place, step) of equally spaced places along an axis."""


def lookup_spec(shape: Shape, sizes: Shape, runs: Sequence[Sequence[Run]], width: int) -> CopySpec | None:
    """result[i, j, ...] = source[places[0][i], places[1][j], ...], of `sizes`, by the runs of places.

    None where that takes too many copies.
    """
    if product([len(r) for r in runs]) > _MOST_BOXES:
        return None
    have, strides = row_major(shape), row_major(sizes)
    boxes: list[Box] = []
    for choice in itertools.product(*runs):
        boxes.append(
            Box(
                tuple(count for _, count, _, _ in choice),
                sum(at * s for (at, *_), s in zip(choice, strides, strict=True)),
                strides,
                0,
                sum(first * s for (*_, first, _), s in zip(choice, have, strict=True)),
                tuple(step * s for (*_, step), s in zip(choice, have, strict=True)),
            )
        )
    return CopySpec(width, 1, tuple(boxes))


def padded_runs(size: int, begin: int, end: int, mode: str) -> Sequence[Run]:
    """The runs of places along a padded axis of a known size, or of one that the padding does not exceed."""
    if not isinstance(size, Extent):
        return _runs([int(i) for i in sources(size, begin, end, mode)])
    inner, behind = (begin, size, 0, 1), begin + size
    runs: tuple[Run, ...]
    if mode == "edge":
        runs = (0, begin, 0, 0), inner, (behind, end, size - 1, 0)
    elif mode == "wrap":
        runs = (0, begin, size - begin, 1), inner, (behind, end, 0, 1)
    else:
        runs = (0, begin, begin, -1), inner, (behind, end, size - 2, -1)
    if mode != "edge" and size <= max(begin, end):
        raise OpenSizes("a border is wider than the copied part")
    return [run for run in runs if not are_equal(run[1], 0)]


def _runs(places: Sequence[int]) -> list[Run]:
    """Maximal runs; those of step 1 are preferred."""
    runs: list[Run] = []
    at = 0
    while at < len(places):
        best = (at, 1, places[at], 0)
        if at + 1 < len(places):
            step, end = places[at + 1] - places[at], at + 2
            while end < len(places) and places[end] - places[end - 1] == step:
                end += 1
            # The last element of a border often starts the run of the interior.
            if end - at > 2 or abs(step) == 1 or end == len(places):
                best = (at, end - at, places[at], step)
        runs.append(best)
        at += best[1]
    return runs


def _squares(channels: int, block: int, mode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How the channels split into depth and block, and the axes of the image that has them in squares."""
    depth = channels // block**2
    if mode == "CRD":
        return (depth, block, block), (0, 1, 4, 2, 5, 3)
    return (block, block, depth), (0, 3, 4, 1, 5, 2)


def depth_to_space_spec(shape: Shape, block: int, mode: str, width: int) -> CopySpec:
    """Channels of NCHW to squares of pixels, in ONNX's mode DCR or CRD."""
    n, c, h, w = shape
    split, order = _squares(c, block, mode)
    return transpose_spec((n, *split, h, w), order, width)


def space_to_depth_spec(shape: Shape, block: int, mode: str, width: int) -> CopySpec:
    """Squares of pixels of NCHW to channels: undoes `depth_to_space_spec`."""
    n, c, h, w = shape
    split, order = _squares(c * block**2, block, mode)
    deep = (n, *split, h // block, w // block)
    back = tuple(order.index(i) for i in range(6))
    return transpose_spec([deep[i] for i in order], back, width)


def block_spec(shape: Shape, lanes: int, width: int, channels_last: bool = False) -> CopySpec:
    """NCHW (or NHWC) -> NCHWc with c = lanes, channels padded with zeros."""
    if channels_last:
        n, channels, spatial = shape[0], shape[-1], product(shape[1:-1])
        channel, pixel = 1, channels
    else:
        n, channels, spatial = shape[0], shape[1], product(shape[2:])
        channel, pixel = spatial, 1
    blocks, rest = divmod(channels, lanes)
    total = blocks + (rest > 0)
    to = (total * spatial * lanes, spatial * lanes, lanes, 1)
    origin = (channels * spatial, channel * lanes, pixel, channel)
    boxes: list[Box] = []
    if blocks:
        boxes.append(Box((n, blocks, spatial, lanes), 0, to, 0, 0, origin))
    if rest:
        done = blocks * lanes
        boxes.append(Box((n, 1, spatial, rest), done * spatial, to, 0, done * channel, origin, lanes))
    return CopySpec(width, 1, tuple(boxes))


def unblock_spec(shape: Shape, channels: int, width: int, channels_last: bool = False) -> CopySpec:
    """NCHWc -> NCHW (or NHWC) with `channels` channels."""
    n, total, *size, lanes = shape
    spatial = product(size)
    channel, pixel = (1, channels) if channels_last else (spatial, 1)
    origin = (total * spatial * lanes, spatial * lanes, lanes, 1)
    to = (channels * spatial, channel * lanes, pixel, channel)
    blocks, rest = divmod(channels, lanes)
    boxes: list[Box] = []
    if blocks:
        boxes.append(Box((n, blocks, spatial, lanes), 0, to, 0, 0, origin))
    if rest:
        done = blocks * lanes
        boxes.append(Box((n, 1, spatial, rest), done * channel, to, 0, done * spatial, origin))
    return CopySpec(width, 1, tuple(boxes))
