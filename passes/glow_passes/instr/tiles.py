"""Layers as loops over tiles in a device's memory: matrix products, and convolutions, which are such too."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import AllocOp, DeallocOp, StartCopyOp, ViewOp, WaitOp, origin
from glow_dialects.instr.spaces import MAIN, space_of
from glow_dialects.instr.strides import dense_strides, strided, strides_of

Dims = tuple[tuple[int, int], ...]
"""Size, and stride in elements, of some dimensions."""
Place = tuple[int | SSAValue, int]
"""A number or an index of a loop, and the elements that it counts."""
_O = TypeVar("_O", bound=Operation)


@dataclass(frozen=True)
class Product:
    """y[rows, columns] = a[rows, depth] x b[depth, columns], where rows and depth are several dimensions.

    Those of a convolution's input overlap. `images` products (how many, and the strides of a and y) have
    the same b. Tiles are parts of the first dimension of each.
    """

    y: SSAValue
    a: SSAValue
    b: SSAValue
    a_rows: Dims
    a_depth: Dims
    b_depth: Dims
    b_column: tuple[int, int]
    y_rows: Dims
    y_column: tuple[int, int]
    images: tuple[int, int, int] = (1, 0, 0)


@dataclass(frozen=True)
class Sizes:
    """How much of the first dimension of rows, of the columns and of the depth is in one tile."""

    rows: int
    columns: int
    depth: int


_MOST_PARTS = 16
"""Into how many parts the depth is cut at most: each is code of its own."""


def some_sizes(whole: Sizes, unit: int, tile_bytes: Callable[[Sizes], int], room: int) -> list[Sizes]:
    """Tiles of at most `room` bytes of a product: all of a dimension, or a power of two of it.

    `whole` are the product's sizes; columns are multiples of `unit`. Of each width and depth there are
    the two tiles that have the most rows.
    """
    found: list[Sizes] = []
    for columns in _powers(whole.columns, unit):
        for depth in [n for n in _powers(whole.depth, 1) if n * _MOST_PARTS >= whole.depth]:
            every = [Sizes(rows, columns, depth) for rows in _powers(whole.rows, 1)]
            found += [sizes for sizes in every if tile_bytes(sizes) <= room][:2]
    return found


def _powers(size: int, unit: int) -> list[int]:
    """A size, and `unit` times the powers of two below it, the largest first."""
    return [size, *(unit << k for k in reversed(range(size.bit_length())) if unit << k < size)]


def dense_product(y: SSAValue, a: SSAValue, b: SSAValue) -> Product:
    """y = a x b for matrices."""
    (rows, depth), columns = shape_of(a), shape_of(b)[1]
    column, lines = (columns, 1), ((rows, columns),)
    return Product(y, a, b, ((rows, depth),), ((depth, 1),), ((depth, columns),), column, lines, column)


def conv_product(
    y: SSAValue, a: SSAValue, b: SSAValue, strides: Sequence[int], dilations: Sequence[int]
) -> Product:
    """The convolution (NCHW, one group) of an input that has its border by a filter."""
    (count, outs, *outer), (_, depth, *kernel) = shape_of(y), shape_of(b)
    x, w, z = (dense_strides(shape_of(v)) for v in (a, b, y))
    steps = [s * stride for s, stride in zip(strides, x[2:], strict=True)]
    taps = [d * stride for d, stride in zip(dilations, x[2:], strict=True)]
    return Product(
        y,
        a,
        b,
        a_rows=tuple(zip(outer, steps, strict=True)),
        a_depth=((depth, x[1]), *zip(kernel, taps, strict=True)),
        b_depth=((depth, w[1]), *zip(kernel, w[2:], strict=True)),
        b_column=(outs, w[0]),
        y_rows=tuple(zip(outer, z[2:], strict=True)),
        y_column=(outs, z[1]),
        images=(count, x[0], z[0]),
    )


def pieces(size: int, tile: int) -> list[range]:
    """The starts of tiles of one size, and that of the rest; `step` is the size."""
    whole = size - size % tile
    return [turns for turns in (range(0, whole, tile), range(whole, size, size - whole or 1)) if turns]


def first(dims: Dims, size: int) -> Dims:
    """Dimensions of which the first has another size."""
    return ((size, dims[0][1]), *dims[1:])


def followers(op: InstrOp) -> list[InstrOp]:
    """The element-wise instructions that alone read the result of `op`, one after another.

    relu(conv), add(conv, x): they may be computed tile by tile where `op` is; see `Tiler.follow`.
    """
    found: list[InstrOp] = []
    steps = [] if op.parent is None else list(op.parent.ops)
    while isinstance((result := (found[-1] if found else op).operands[0]).owner, AllocOp):
        users = {use.operation for use in result.uses} - {op, *found}
        readers = [user for user in users if not isinstance(user, DeallocOp)]
        if len(readers) != 1 or not _follows(reader := readers[0], result):
            break
        between = steps[steps.index(op) + 1 : steps.index(reader)]
        read = {origin(v) for v in op.operands[1:]}
        writers = [o for o in between if isinstance(o, InstrOp) and not isinstance(o, DeallocOp)]
        if any(origin(v) in read for o in writers for v in o.written()):
            break
        assert isinstance(reader, InstrOp)
        found.append(reader)
    return found


def _follows(op: Operation, result: SSAValue) -> bool:
    """Whether an instruction works on each element of a result, beside tensors of its shape and numbers."""
    if not isinstance(op, InstrOp) or not op.DATA_PARALLEL or op.predicate is not None:
        return False
    sizes = [shape_of(v) for v in op.operands]
    kinds = [element_of(v) for v in op.operands]
    return (
        op.GRAPH_OP is not None
        and not op.regions
        and not op.results
        and sizes[0] == shape_of(result)
        and [*op.operands].count(result) == 1
        and all(s == sizes[0] or prod(s) == 1 for s in sizes)
        and not any(isinstance(k, UniformQuantizedType) and k.axis.data >= 0 for k in kinds)
        and all(strides_of(v.type) is None and space_of(v) == MAIN for v in op.operands)
    )


class Tiler:
    """Writes the tiles of a product in front of an instruction; a device says what is done with one.

    Tiles are loaded by asynchronous copies, each waited for at once: `hide_latency` sets that right. What is
    `following` (see `followers`) is done with each tile of results before it is stored.
    """

    def __init__(self, op: InstrOp, space: str, following: Sequence[InstrOp] = ()) -> None:
        before = following[-1] if following else op
        assert before.parent is not None
        self.op = op
        self.following = following
        steps = list(before.parent.ops)
        for end in steps[steps.index(op) : steps.index(before)]:
            if isinstance(end, DeallocOp):  # what `op` reads is read where the last of these was
                end.detach()
                before.parent.insert_op_after(end, before)
        self.outside: Block = before.parent
        self.before = before
        self.space = StringAttr(space)
        self.block: Block | None = None
        self.live: list[list[SSAValue]] = [[]]

    def begin(self, sums: SSAValue, column: Place) -> None:
        """Write what is added to the products of a tile, whose columns begin at `column`."""
        raise NotImplementedError

    def accumulate(self, sums: SSAValue, a: SSAValue, b: SSAValue) -> None:
        """Add the product of two matrices to a tile."""
        raise NotImplementedError

    def finish(self, tile: SSAValue, rows: int, column: Place) -> SSAValue:
        """The results in place of the sums."""
        return tile

    def product(self, p: Product, sizes: Sizes, element: Attribute) -> None:
        """All tiles of a product, whose sums have elements of a type."""
        count, a_image, y_image = p.images
        for n in self.loops([range(count)] if count else []):
            for i, rows in self.tiles(p.a_rows[0][0], sizes.rows):
                a_at, y_at = [(n, a_image), (i, p.a_rows[0][1])], [(n, y_image), (i, p.y_rows[0][1])]
                a_rows, whole = first(p.a_rows, rows), sizes.depth >= p.a_depth[0][0]
                kept = self.load(p.a, (*a_rows, *p.a_depth), a_at) if whole else None
                for j, columns in self.tiles(p.b_column[0], sizes.columns):
                    y_dims = (*first(p.y_rows, rows), (columns, p.y_column[1]))
                    tile = self.buffer([size for size, _ in y_dims], element)
                    height = prod(size for size, _ in a_rows)
                    sums = self.matrix(tile, height)
                    self.begin(sums, (j, 1))
                    for turns in pieces(p.a_depth[0][0], sizes.depth):
                        for k in turns:
                            self.live.append([])
                            a_dims = (*a_rows, *first(p.a_depth, turns.step))
                            a = kept or self.load(p.a, a_dims, [*a_at, (k, p.a_depth[0][1])])
                            b_dims = (*first(p.b_depth, turns.step), (columns, p.b_column[1]))
                            b = self.load(p.b, b_dims, [(k, p.b_depth[0][1]), (j, p.b_column[1])])
                            deep = prod(size for size, _ in b_dims[:-1])
                            self.accumulate(sums, self.matrix(a, height), self.matrix(b, deep))
                            self.end()
                    places = [*y_at, (j, p.y_column[1])]
                    result = self.follow(self.finish(tile, height, (j, 1)), y_dims, places)
                    y = self.following[-1].operands[0] if self.following else p.y
                    self.copy(self.view(y, y_dims, places), result)

    def follow(self, tile: SSAValue, dims: Dims, places: Sequence[Place]) -> SSAValue:
        """What follows, on a tile of results; other operands of that shape are loaded by tiles, too."""
        result = self.op.operands[0]
        for op in self.following:
            out = self.buffer([n for n, _ in dims], element_of(op.operands[0]))
            operands = [out]
            for value in op.operands[1:]:
                whole = shape_of(value) == shape_of(result)
                part = (dims, places) if whole else (((1, 1),), ())
                operands.append(tile if value is result else self.load(value, *part))
            copy = type(op).create(operands=operands, properties=dict(op.properties))
            copy.location = op.location
            tile, result = self.add(copy).operands[0], op.operands[0]
        return tile

    def replace(self) -> None:
        """Erase what the tiles stand for."""
        self.end()
        for op in (*reversed(self.following), self.op):
            op.detach()
            op.erase()

    def tiles(self, size: int, tile: int) -> Generator[tuple[int | SSAValue, int]]:
        """Loops over the tiles of a dimension: where each begins, and its size."""
        for turns in pieces(size, tile):
            for index in self.loops([turns]):
                yield index, turns.step

    def loops(self, ranges: Sequence[range]) -> Generator[int | SSAValue]:
        """Loops one after another; what is written for an index is its body."""
        for turns in ranges:
            with self.loop(turns) as index:
                yield index

    @contextmanager
    def loop(self, turns: range) -> Generator[int | SSAValue]:
        """A loop, if there is more than one turn; buffers that are made in the body end there."""
        outer = self.block
        self.live.append([])
        index: int | SSAValue = turns[0]
        if len(turns) > 1:
            loop = self.add(ForOp.of(turns))
            self.block, index = loop.block, loop.index
        yield index
        self.end()
        self.block = outer

    def end(self) -> None:
        """End the buffers that were made last."""
        for buffer in self.live.pop():
            self.add(DeallocOp(buffer))

    def buffer(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A buffer in the device's memory."""
        made = self.add(AllocOp.of(MemRefType(element, shape, memory_space=self.space))).result
        self.live[-1].append(made)
        return made

    def view(self, buffer: SSAValue, dims: Dims, places: Sequence[Place] = ()) -> SSAValue:
        """The part with these dimensions, `place * stride` elements behind the first for all `places`."""
        kind: Any = buffer.type
        part = MemRefType(kind.element_type, [n for n, _ in dims], memory_space=kind.memory_space)
        terms = {p: stride for p, stride in places if isinstance(p, SSAValue)}
        offset = sum(p * stride for p, stride in places if not isinstance(p, SSAValue))
        return self.add(ViewOp.of(buffer, strided(part, [s for _, s in dims]), offset, terms)).result

    def matrix(self, buffer: SSAValue, rows: int) -> SSAValue:
        """A dense buffer as a matrix."""
        columns = prod(shape_of(buffer)) // rows
        return self.view(buffer, ((rows, columns), (columns, 1)))

    def load(self, buffer: SSAValue, dims: Dims, places: Sequence[Place]) -> SSAValue:
        """A part of a buffer, brought into the device's memory."""
        tile = self.buffer([n for n, _ in dims], element_of(buffer))
        self.copy(tile, self.view(buffer, dims, places))
        return tile

    def copy(self, dest: SSAValue, src: SSAValue) -> None:
        """Copy, and wait for it."""
        self.add(WaitOp(self.add(StartCopyOp(dest, src)).results))

    def add(self, op: _O) -> _O:
        """An operation where the loops stand."""
        if self.block is None:
            self.outside.insert_op_before(op, self.before)
        else:
            self.block.add_op(op)
        return op
