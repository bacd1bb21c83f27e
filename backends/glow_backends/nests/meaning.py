"""What kernels compute, in NumPy: the reference of every lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.operations import LocalOp, Loop, NestOp, NumberOp, PackOp, YieldOp, memory_of
from glow_backends.nests.products import split
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, element_of, tensor, tensor_of


def run_kernel(kernel: KernelOp, views: Sequence[Array], numbers: Sequence[int] = ()) -> None:
    """Run a kernel on the arrays of its views, the written one first, and the numbers of the call.

    Arrays are without borders, which are read as zeros.
    """
    known: dict[SSAValue, Array | int] = dict(zip(kernel.body.block.args, [*views, *numbers], strict=True))
    for op in kernel.body.block.ops:
        if isinstance(op, PackOp):
            known[op.result] = _packed(op, cast(Array, known[op.source]), known)
        elif isinstance(op, NestOp):
            _run_nest(op, known)
        else:
            assert isinstance(op, LocalOp)
            known[op.result] = np.zeros(_shape(op.result, None), dtype_of(op.result.type))


def _run_nest(op: NestOp, known: Mapping[SSAValue, Array | int]) -> None:
    sizes = iter(cast(int, known[v]) for v in op.sizes)
    loops = [Loop(v.name, next(sizes) if v.size is None else v.size, v.reduced) for v in op.loops.data]
    kept = [v.size or 0 for v in loops if not v.reduced]
    grid = iter(np.indices(kept).reshape(len(kept), -1))
    places: list[Array | int] = [0 if v.reduced else next(grid) for v in loops]
    maps = [m.data for m in op.maps]
    out = cast(Array, known[op.out])
    number = op.start.value.data if op.start is not None else 0
    count = int(np.prod(kept, dtype=np.int64))
    total = np.full(count, number, dtype_of(op.step.block.args[0].type))
    inner = [i for i, v in enumerate(loops) if v.reduced]
    for point in product(*(range(loops[i].size or 0) for i in inner)):
        for i, at in zip(inner, point, strict=True):
            places[i] = at
        read = [_read(known, v, m, places) for v, m in zip(op.ins, maps, strict=False)]
        total = _run_body(op.step, [total, *read], count, known)
    if op.finish is not None:
        own = maps[len(op.ins) : -1]
        extras = [_read(known, v, m, places) for v, m in zip(op.extras, own, strict=True)]
        total = _run_body(op.finish, [total, *extras], count, known)
    out[_index(maps[-1], places, count)] = total


def _index(index: AffineMap, places: Sequence[Array | int], count: int) -> tuple[Array, ...]:
    """The places in a view of every index of the kept loops."""
    at = cast("Sequence[int]", places)
    return tuple(np.broadcast_to(np.asarray(e.eval(at, [])), (count,)) for e in index.results)


def _read(
    known: Mapping[SSAValue, Array | int], view: SSAValue, index: AffineMap, places: Sequence[Array | int]
) -> Array:
    array, border = cast(Array, known[view]), memory_of(view.type).border
    count = next((len(p) for p in places if isinstance(p, np.ndarray)), 1)
    at = _index(index, places, count)
    if border:
        array = np.pad(array, [(b, b) for b in border])
        at = tuple(i + b for i, b in zip(at, border, strict=True))
    assert all(((i >= 0) & (i < n)).all() for i, n in zip(at, array.shape, strict=True)), "out of a view"
    return array[at]


def _run_body(
    body: Region, arrays: Sequence[Array], count: int, numbers: Mapping[SSAValue, Array | int]
) -> Array:
    """The value that a body yields for elements side by side."""
    known: dict[SSAValue, Array] = dict(zip(body.block.args, arrays, strict=True))
    for op in body.block.ops:
        if isinstance(op, YieldOp):
            return np.broadcast_to(known[op.value], (count,))
        if isinstance(op, NumberOp):
            known[op.result] = np.asarray(numbers[op.number], dtype_of(op.result.type))
            continue
        assert isinstance(op, GraphOp)
        values = [known[v] for v in op.operands]
        block = Block(arg_types=[tensor_of(a) for a in values])
        shape = np.broadcast_shapes(*(a.shape for a in values))
        kind = tensor(shape, element_of(op.results[0]))
        twin = type(op).create(operands=block.args, result_types=[kind], properties=dict(op.properties))
        known[op.results[0]] = twin.evaluate(values)[0]
    raise AssertionError("a body yields a value")


def _packed(op: PackOp, source: Array, known: Mapping[SSAValue, Array | int]) -> Array:
    shape, parts = _shape(op.result, (op, source)), op.parts.data if op.parts is not None else None
    own = [n for i, n in enumerate(shape) if i != parts]
    places = list(np.indices(own).reshape(len(own), -1))
    at = _index(op.index.data, places, int(np.prod(own)))
    inside = np.all([(i >= 0) & (i < n) for i, n in zip(at, source.shape, strict=True)], axis=0)
    found = source[tuple(np.where(inside, i, 0) for i in at)]
    dtype = dtype_of(op.result.type)
    if parts is None:
        if op.shift is not None:
            found = found.astype(np.int32) + op.shift.data
        return np.where(inside, found, 0).astype(dtype).reshape(own)
    pieces = split(np.where(inside, found, np.zeros((), found.dtype)), shape[parts], dtype)
    return np.stack([p.reshape(own) for p in pieces], parts)


def _shape(view: SSAValue, packed: tuple[PackOp, Array] | None) -> tuple[int, ...]:
    """The shape of a room; an open axis of a packed view is as long as it takes to hold the source."""
    assert isinstance(view.type, MemRefType)
    shape = list(view.type.get_shape())
    if DYNAMIC_INDEX not in shape:
        return tuple(shape)
    assert packed is not None, "the sizes of rooms are known"
    op, source = packed
    for axis, size in enumerate(shape):
        if size == DYNAMIC_INDEX:
            shape[axis] = _room(op, axis, source.shape)
    return tuple(shape)


def _room(op: PackOp, axis: int, sizes: Sequence[int]) -> int:
    """How many indices of a packed axis begin inside the source."""
    dims = op.index.data.num_dims
    place = axis - (op.parts is not None and op.parts.data < axis)
    zero, one = [0] * dims, [int(i == place) for i in range(dims)]
    steps = [e.eval(one, []) - e.eval(zero, []) for e in op.index.data.results]
    return max((-(-n // s) for n, s in zip(sizes, steps, strict=True) if s), default=1)
