"""Common parts of memory-bound kernels: loop nests, worker shares, tails."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.faults import FAULT_BYTES
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent, are_equal

Index = int | ir.Value
PARALLEL_BYTES = 32 * 1024
"""Kernels that touch less memory than this run on one worker: a barrier costs as much."""


def product(values: Sequence[int]) -> int:
    """The product of the values, 1 for none."""
    return math.prod(values)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor broadcast to `target` by NumPy's rule: 0 where repeated."""
    assert len(shape) <= len(target)
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    strides = row_major(padded)
    for have, want in zip(padded, target, strict=True):
        assert have in (1, want), "shapes must broadcast"
    return tuple(0 if n == 1 else s for n, s in zip(padded, strides, strict=True))


@dataclass(frozen=True)
class Dim:
    """One dimension of a loop nest: its extent and each operand's stride in elements."""

    extent: int
    strides: tuple[int, ...]

    def steps(self, k: KernelBuilder) -> list[Index]:
        """The strides as a sized kernel adds them; equal ones are one argument."""
        known = {s: length(k, s) for s in dict.fromkeys(self.strides)}
        return [known[s] for s in self.strides]


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Dim]:
    """The fewest dimensions that visit the same elements: unit ones dropped, neighbours merged.

    strides[operand][axis] counts elements. The result has at least one dimension.
    """
    dims: list[Dim] = []
    for axis, extent in enumerate(shape):
        if are_equal(extent, 1):
            continue
        dim = Dim(extent, tuple(s[axis] for s in strides))
        if dims and all(
            are_equal(outer, inner * extent)
            for outer, inner in zip(dims[-1].strides, dim.strides, strict=True)
        ):
            dims[-1] = Dim(dims[-1].extent * extent, dim.strides)
        else:
            dims.append(dim)
    return dims or [Dim(1, (0,) * len(strides))]


def length(k: KernelBuilder, count: int) -> Index:
    """A number of elements or steps: an argument of a sized kernel, but for 0, 1 and -1."""
    return k.size(count) if isinstance(count, Extent) or (k.sized and not -1 <= count <= 1) else count


def share(k: KernelBuilder, count: int, bytes_touched: int) -> tuple[Index, Index]:
    """This worker's part of range(count); worker 0 has it all when there is little to do."""
    stop = length(k, count)
    if k.target.threads == 1 or estimate(bytes_touched) >= PARALLEL_BYTES:
        return k.share(stop)
    first = k.b.icmp_signed("==", k.worker, k.i(0))
    return 0, k.b.select(first, k.i(stop), k.i(0))


@contextmanager
def last_worker(k: KernelBuilder) -> Generator[None]:
    """Code that only the last worker runs (all of it when there is one)."""
    if k.target.threads == 1:
        yield
        return
    condition = k.b.icmp_signed("==", k.worker, k.i(k.target.threads - 1))
    with k.b.if_then(condition):
        yield


@contextmanager
def first_worker(k: KernelBuilder) -> Generator[None]:
    """Code that only worker 0 runs."""
    if k.target.threads == 1:
        yield
        return
    with k.b.if_then(k.b.icmp_signed("==", k.worker, k.i(0))):
        yield


def best_axis(extents: Sequence[int], threads: int) -> int:
    """Which dimension of independent iterations to divide among workers."""
    for axis, extent in enumerate(extents):
        if extent >= 4 * threads or (extent >= threads and extent % threads == 0):
            return axis
    return max(range(len(extents)), key=lambda a: extents[a])


@contextmanager
def nest(
    k: KernelBuilder, extents: Sequence[int], bytes_touched: int, shared: bool = True
) -> Generator[list[Index]]:
    """Nested loops over the extents, divided among the workers; yields the indices.

    Loops of one iteration are not emitted. `shared` false: the caller divides something else.
    """
    axis = best_axis(estimate(tuple(extents)), k.target.threads) if extents and shared else -1
    if not extents and shared:
        with first_worker(k):
            yield []
        return
    with _nest(k, list(extents), axis, bytes_touched, []) as indices:
        yield indices


@contextmanager
def _nest(
    k: KernelBuilder, extents: list[int], axis: int, bytes_touched: int, done: list[Index]
) -> Generator[list[Index]]:
    level = len(done)
    if level == len(extents):
        yield done
        return
    extent = extents[level]
    if level == axis:
        low, high = share(k, extent, bytes_touched)
    else:
        low, high = 0, length(k, extent)
    if isinstance(high, int) and extent == 1:
        with _nest(k, extents, axis, bytes_touched, [*done, 0]) as indices:
            yield indices
        return
    with (
        k.loop(low, high) as i,
        _nest(k, extents, axis, bytes_touched, [*done, i]) as indices,
    ):
        yield indices


def repeat(
    k: KernelBuilder,
    initial: Sequence[ir.Value],
    condition: Callable[[list[ir.Value]], ir.Value],
    body: Callable[[list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """while condition(values): values = body(values); the values when it ends."""
    head = k.b.block
    check = k.function.append_basic_block("while")
    inner = k.function.append_basic_block("while.body")
    done = k.function.append_basic_block("while.done")
    k.b.branch(check)
    k.b.position_at_end(check)
    carried = [k.b.phi(v.type) for v in initial]
    for phi, value in zip(carried, initial, strict=True):
        phi.add_incoming(value, head)
    k.b.cbranch(condition(list(carried)), inner, done)
    k.b.position_at_end(inner)
    for phi, value in zip(carried, body(list(carried)), strict=True):
        phi.add_incoming(value, k.b.block)
    k.b.branch(check)
    k.b.position_at_end(done)
    return list(carried)


def offset(k: KernelBuilder, indices: Sequence[Index], strides: Sequence[int]) -> Index:
    """sum of index * stride."""
    return k.index(*((i, length(k, s)) for i, s in zip(indices, strides, strict=True)))


def lanes_for(count: int, most: int) -> int:
    """The lanes of vectors that hold `count` elements, if it is known to be few."""
    return most if isinstance(count, Extent) else min(most, power_of_two(count))


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length()


_FEW = 4
"""Vectors that are written out, however many lanes the last one has."""


def sized_strips(
    k: KernelBuilder, low: Index, count: int, lanes: int, unroll: int
) -> Iterator[tuple[Index, int, Active]]:
    """`strips` of a sized kernel, whose code depends little on `count`: the tail's lanes are a mask."""
    if not isinstance(count, Extent) and (not k.sized or count <= _FEW * lanes):
        yield from strips(k, low, count, lanes, unroll)
        return
    whole = count // lanes * lanes
    begin, end = low, k.add(low, k.size(whole))
    if unroll > 1:
        begin = k.add(low, k.size(count // (lanes * unroll) * lanes * unroll))
        with k.loop(low, begin, lanes * unroll) as i:
            for part in range(unroll):
                yield k.add(i, part * lanes), lanes, lanes
    with k.loop(begin, end, lanes) as i:
        yield i, lanes, lanes
    if isinstance(count, Extent) or whole < count:
        yield end, lanes, values.first_lanes(k, lanes, k.size(count - whole))


def covered(
    k: KernelBuilder, low: Index, count: int, lanes: int, unroll: int
) -> Iterator[tuple[Index, int, Active]]:
    """`strips` of a count that is known, `sized_strips` of one that the run tells."""
    yield from (sized_strips if isinstance(count, Extent) else strips)(k, low, count, lanes, unroll)


def strips(
    k: KernelBuilder, low: Index, count: int, lanes: int, unroll: int
) -> Iterator[tuple[Index, int, int]]:
    """Cover range(low, low + count) by vectors: loops over `unroll` vectors, over one, and a tail.

    Yields (position, lanes, active lanes) for code to be emitted at the builder's place; the tail's
    lanes are the least power of two that holds it. The count is known: see `sized_strips`.
    """
    assert not isinstance(count, Extent)
    done = 0
    for group in dict.fromkeys((unroll, 1)):
        step = lanes * group
        whole = (count - done) // step * step
        if whole == 0:
            continue
        begin = k.add(low, done)
        if whole == step:
            for part in range(group):
                yield k.add(begin, part * lanes), lanes, lanes
        else:
            with k.loop(begin, k.add(begin, whole), step) as i:
                for part in range(group):
                    yield k.add(i, part * lanes), lanes, lanes
        done += whole
    if done < count:
        rest = count - done
        yield k.add(low, done), power_of_two(rest), rest


def report(
    k: KernelBuilder, inside: ir.Value, index: ir.Value, limit: Index, faults: ir.Value | None
) -> None:
    """Tell `faults` (see `glow_backends.cpu.faults`), if that is given, of an index that is not `inside` an
    axis of `limit` places.
    """
    if faults is None:
        return
    with k.b.if_then(k.b.not_(inside), likely=False):
        pair = ir.Constant(ir.VectorType(I64, 2), ir.Undefined)
        for number, value in enumerate((k.i(limit), index)):
            pair = k.b.insert_element(pair, value, ir.Constant(I64, number))
        k.b.store(pair, faults, align=FAULT_BYTES)
