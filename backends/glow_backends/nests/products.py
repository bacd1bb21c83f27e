"""Products of matrices as kernels: what one computes, described with its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntAttr,
    StringAttr,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from glow_backends.nests.bodies import product_step, sum_step, view
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.finish import Finish, finish_sums
from glow_backends.nests.instructions import Instruction
from glow_backends.nests.operations import LocalOp, Loop, LoopsAttr, NestOp, PackOp
from glow_backends.nests.schedule import Schedule, ScheduleAttr
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.element_types import by
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import Array, broadcast_shapes


@dataclass(frozen=True)
class Product:
    """y = finish(sum over k of (a - a_zero) * (b - b_zero)): numpy.matmul's axes, batches that broadcast.

    `packed`: b comes as its schedule wants it. The views of the kernel: y, a, b, and those of `finish`.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    out: str
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    packed: bool = False
    a_zero: int = 0
    b_zero: int = 0
    finish: Finish = field(default_factory=Finish)

    @property
    def batch(self) -> tuple[int, ...]:
        """The result's batch shape."""
        return broadcast_shapes(self.a_batch, self.b_batch)

    @property
    def sums(self) -> str:
        """The element type of the sums."""
        return "i32" if self.a in ("u8", "i8") else "f32" if self.a in ("bf16", "f16") else self.a

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the loops by their names."""
        return {**{f"b{i}": n for i, n in enumerate(self.batch)}, "i": self.m, "j": self.n, "k": self.k}


def steps_of(depth: int, unit: Instruction) -> int:
    """How many instructions a sum takes."""
    return -(-depth // unit.k)


def packed_shape(batch: Sequence[int], depth: int, columns: int, s: Schedule) -> tuple[int, ...]:
    """b for a schedule: panels, steps, [parts], tiles of a panel, groups, columns, elements of a group."""
    unit, panels = s.unit, -(-columns // s.width)
    parts = (unit.parts,) if unit.parts > 1 else ()
    inner = (s.columns, unit.k // unit.group, unit.columns(s.lanes), unit.group)
    return (*batch, panels, steps_of(depth, unit), *parts, *inner)


def rows_shape(batch: Sequence[int], rows: int, depth: int, s: Schedule) -> tuple[int, ...]:
    """a for a schedule: [parts], rows, an odd number of lines of an instruction's depth."""
    parts = (s.unit.parts,) if s.unit.parts > 1 else ()
    return (*batch, *parts, rows, steps_of(depth, s.unit) // 2 * 2 + 1, s.unit.k)


def shapes_of(p: Product, s: Schedule) -> list[tuple[int, ...]]:
    """The shapes of the views of a product's kernel."""
    given_b = packed_shape(p.b_batch, p.k, p.n, s) if p.packed else (*p.b_batch, p.k, p.n)
    f = p.finish
    return [
        (*p.batch, p.m, p.n),
        (*p.a_batch, p.m, p.k),
        given_b,
        *([(p.n,)] if f.bias else []),
        *([(p.n if f.factor == "column" else 1,)] if f.factor else []),
        *([(3,)] if f.limits else []),
        *([(*p.batch, p.m, p.n)] * f.extras),
    ]


def split(values: Array, parts: int, dtype: np.dtype[Any]) -> list[Array]:
    """Numbers as sums of narrower ones, each the nearest to what is left."""
    found: list[Array] = []
    for _ in range(parts):
        found.append(values.astype(dtype))
        values = values - found[-1].astype(values.dtype)
    return found


def pack_columns(matrix: Array, s: Schedule) -> Array:
    """A known b, (..., k, n), as a schedule wants it: see `packed_shape`."""
    unit, (*batch, depth, columns) = s.unit, matrix.shape
    shape = packed_shape(batch, depth, columns, s)
    panels, steps, n = shape[len(batch)], steps_of(depth, unit), unit.columns(s.lanes)
    padded = pad_to(pad_to(matrix, len(batch), steps * unit.k), len(batch) + 1, panels * s.width)
    cut = padded.reshape(*batch, steps, unit.k // unit.group, unit.group, panels, s.columns, n)
    first = len(batch)
    order = (first + 3, first, first + 4, first + 1, first + 5, first + 2)
    whole, dtype = cut.transpose(*range(first), *order), by("short")[unit.b].dtype
    if unit.parts == 1:
        return np.ascontiguousarray(whole.astype(dtype))
    return np.ascontiguousarray(np.stack(split(whole, unit.parts, dtype), first + 2))


class _Writer:
    def __init__(self, p: Product, s: Schedule) -> None:
        self.p, self.s, self.unit = p, s, s.unit
        self.ops: list[Operation] = []
        loops = [*list(p.sizes)[:-1], *(["t"] if s.unit.parts > 1 else []), "k"]
        self.places = {name: AffineExpr.dimension(i) for i, name in enumerate(loops)}

    def index(self, *places: str | AffineExpr | int) -> AffineMap:
        known = [
            AffineExpr.constant(v) if isinstance(v, int) else self.places[v] if isinstance(v, str) else v
            for v in places
        ]
        return AffineMap(len(self.places), 0, tuple(known))

    def batches(self, shape: Sequence[int]) -> list[str | int]:
        """Where an operand of a batch shape is, for an index of the whole."""
        first = len(self.p.batch) - len(shape)
        return [0 if not isinstance(n, Extent) and n == 1 else f"b{first + i}" for i, n in enumerate(shape)]

    def local(self, shape: Sequence[int], kind: str) -> SSAValue:
        op = LocalOp(result_types=[view(shape, kind)])
        self.ops.append(op)
        return op.result

    def pack(
        self, source: SSAValue, shape: Sequence[int], kind: str, index: AffineMap, axis: int, shift: int
    ) -> SSAValue:
        op = PackOp.create(
            operands=[source],
            result_types=[view(shape, kind, self.unit.alignment)],
            properties={
                "index": AffineMapAttr(index),
                **({"parts": IntAttr(axis)} if self.unit.parts > 1 else {}),
                **({"shift": IntAttr(shift)} if shift else {}),
            },
        )
        self.ops.append(op)
        return op.results[0]

    def nest(
        self,
        loops: Sequence[str],
        reduced: Sequence[str],
        ins: Sequence[tuple[SSAValue, AffineMap]],
        extras: Sequence[tuple[SSAValue, AffineMap]],
        out: tuple[SSAValue, AffineMap],
        bodies: tuple[Region, Region | None],
        numbers: dict[str, SSAValue],
    ) -> None:
        sizes = {**self.p.sizes, "t": len(self.unit.products)}
        opened = {n: isinstance(sizes[n], Extent) for n in (*loops, *reduced)}
        known = [Loop(n, None if opened[n] else sizes[n], n in reduced) for n in (*loops, *reduced)]
        order = [list(self.places).index(n) for n in (*loops, *reduced)]
        maps = [AffineMapAttr(_of_loops(m, order)) for _, m in (*ins, *extras, out)]
        op = NestOp(
            operands=[
                [numbers[n] for n in (*loops, *reduced) if opened[n]],
                [v for v, _ in ins],
                [v for v, _ in extras],
                out[0],
            ],
            regions=[bodies[0], [v for v in bodies[1:] if v is not None]],
            properties={"loops": LoopsAttr(tuple(known)), "maps": ArrayAttr(maps)},
        )
        self.ops.append(op)


def _of_loops(index: AffineMap, order: Sequence[int]) -> AffineMap:
    """A map over all loops as one over some of them, in another order."""
    new: list[AffineExpr] = [AffineExpr.constant(0)] * index.num_dims
    for place, old in enumerate(order):
        new[old] = AffineExpr.dimension(place)
    return AffineMap(len(order), 0, tuple(e.replace_dims_and_symbols(new, []) for e in index.results))


def describe(p: Product, s: Schedule, name: str = "product") -> KernelOp:
    """The kernel of a product."""
    w, unit = _Writer(p, s), s.unit
    a_at, b_at = w.batches(p.a_batch), w.batches(p.b_batch)
    finish_kinds = [p.sums] * p.finish.bias + ["f32"] * (bool(p.finish.factor) + p.finish.limits)
    finish_kinds += [p.out] * p.finish.extras
    kinds = [p.out, p.a, unit.b if p.packed else p.b, *finish_kinds]
    aligned = unit.alignment if p.packed else 1
    views = [
        view(shape, kind, aligned if number == 2 else 1)
        for number, (shape, kind) in enumerate(zip(shapes_of(p, s), kinds, strict=True))
    ]
    opened = [n for n, size in p.sizes.items() if isinstance(size, Extent)]
    block = Block(arg_types=[*views, *(IndexType() for _ in opened)])
    y, a, b, *extras = block.args[: len(views)]
    numbers: dict[str, SSAValue] = dict(zip(opened, block.args[len(views) :], strict=True))
    a_map, b_map = w.index(*a_at, "i", "k"), w.index(*b_at, "k", "j")
    kinds = p.a, unit.b if p.packed else p.b
    shifts = _shifts(p, unit)
    if s.pack_a:
        a, kinds = _pack_a(w, a, shifts[0]), (unit.a, kinds[1])
        a_map = _rows_map(w, a_at)
    if s.pack_b:
        b = b if p.packed else _pack_b(w, b, shifts[1])
        b_map, kinds = _panels_map(w, b_at), (kinds[0], unit.b)
    zeros = zeros_of(p, s)
    loops = [*(f"b{i}" for i in range(len(p.batch))), "i", "j"]
    terms: list[tuple[SSAValue, AffineMap]] = []
    for zero, read, index, axis, size, kind in (
        (zeros[0], b, b_map, "j", p.n, kinds[1]),
        (zeros[1], a, a_map, "i", p.m, kinds[0]),
    ):
        if zero:
            own = [n for n in loops[:-2] if list(w.places).index(n) in _used(index)]
            room = w.local((*(p.sizes[n] for n in own), size), p.sums), w.index(*own, axis)
            step = sum_step(kind, p.sums), None
            w.nest([*own, axis], ["k"], [(read, index)], [], room, step, numbers)
            terms.append(room)
    columns = _of_columns(w, extras)
    out = y, w.index(*loops)
    bodies = (
        product_step(*kinds, p.sums),
        finish_sums(p.finish, (p.sums, p.out), zeros, numbers.get("k", p.k)),
    )
    reduced = [n for n in w.places if n not in loops]
    more = [(v, out[1]) for v in extras[len(extras) - p.finish.extras :]]
    w.nest(loops, reduced, [(a, a_map), (b, b_map)], [*terms, *columns, *more], out, bodies, numbers)
    block.add_ops(w.ops)
    return KernelOp(
        regions=[Region(block)], properties={"sym_name": StringAttr(name), "schedule": ScheduleAttr(s)}
    )


def _of_columns(w: _Writer, extras: Sequence[SSAValue]) -> list[tuple[SSAValue, AffineMap]]:
    """What a finish reads of each column, or once: bias, factors, limits."""
    finish = w.p.finish
    read = [(extras[0], w.index("j"))] if finish.bias else []
    if finish.factor:
        read.append((extras[finish.bias], w.index("j" if finish.factor == "column" else 0)))
    if finish.limits:
        read += [(extras[finish.bias + bool(finish.factor)], w.index(i)) for i in range(3)]
    return read


def zeros_of(p: Product, s: Schedule) -> tuple[int, int]:
    """The zero points of the operands as an instruction takes them: where there are any, sums are needed.

    That of a takes the sums of b's columns, that of b those of a's rows.
    """
    shifts = _shifts(p, s.unit)
    return p.a_zero + shifts[0], p.b_zero + shifts[1]


def _shifts(p: Product, unit: Instruction) -> tuple[int, int]:
    """What is added to bytes of each operand that an instruction takes with the other sign."""
    a, b = (
        0 if given == wanted or given not in ("u8", "i8") else 128 if given == "i8" else -128
        for given, wanted in ((p.a, unit.a), (p.b, unit.b))
    )
    return a, 0 if p.packed else b


def _parts(w: _Writer) -> tuple[list[AffineExpr], list[AffineExpr]]:
    """Which parts of a and of b a turn of `t` multiplies: those of `Instruction.products`, in that order."""
    if w.unit.parts == 1:
        return [], []
    t = w.places["t"]
    first, second = (t * -1 + 2) // 2, t % 2
    assert w.unit.products == tuple((first.eval(at, []), second.eval(at, [])) for at in _turns(w))
    return [first], [second]


def _turns(w: _Writer) -> list[list[int]]:
    place = list(w.places).index("t")
    return [[number * (i == place) for i in range(len(w.places))] for number in range(len(w.unit.products))]


def _used(index: AffineMap) -> set[int]:
    return {d for e in index.results for d in e.used_dims()}


def _pack_a(w: _Writer, a: SSAValue, shift: int) -> SSAValue:
    p, unit = w.p, w.unit
    shape, batch = rows_shape(p.a_batch, p.m, p.k, w.s), len(p.a_batch)
    d = [AffineExpr.dimension(i) for i in range(batch + 3)]
    index = AffineMap(batch + 3, 0, (*d[:batch], d[batch], d[batch + 1] * unit.k + d[batch + 2]))
    return w.pack(a, shape, unit.a, index, batch, shift)


def _rows_map(w: _Writer, batch: Sequence[str | int]) -> AffineMap:
    k = w.places["k"]
    return w.index(*batch, *_parts(w)[0], "i", *_cut(k, w.unit.k))


def _pack_b(w: _Writer, b: SSAValue, shift: int) -> SSAValue:
    p, unit = w.p, w.unit
    shape, batch = packed_shape(p.b_batch, p.k, p.n, w.s), len(p.b_batch)
    d = [AffineExpr.dimension(i) for i in range(batch + 6)]
    panel, step, v, g, n, e = d[batch:]
    index = AffineMap(
        batch + 6,
        0,
        (
            *d[:batch],
            step * unit.k + g * unit.group + e,
            panel * w.s.width + v * unit.columns(w.s.lanes) + n,
        ),
    )
    return w.pack(b, shape, unit.b, index, batch + 2, shift)


def _panels_map(w: _Writer, batch: Sequence[str | int]) -> AffineMap:
    panel, step, *inner = panel_places(w.places["j"], w.places["k"], w.s)
    return w.index(*batch, panel, step, *_parts(w)[1], *inner)


def panel_places(j: AffineExpr, k: AffineExpr, s: Schedule) -> tuple[AffineExpr, ...]:
    """Where a column and a depth are in a packed b without parts: see `packed_shape`."""
    unit, n = s.unit, s.unit.columns(s.lanes)
    panel, column = _cut(j, s.width)
    step, deep = _cut(k, unit.k)
    v, (g, e) = _cut(column, n)[0], _cut(deep, unit.group)
    return panel, step, v, g, _cut(j, n)[1], e


def _cut(index: AffineExpr, size: int) -> tuple[AffineExpr, AffineExpr]:
    """The number of a part of some size, and the place in it."""
    return (index, AffineExpr.constant(0)) if size == 1 else (index // size, index % size)
