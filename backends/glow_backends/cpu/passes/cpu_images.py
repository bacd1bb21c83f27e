"""glow-cpu-images: layers whose activations exceed the cache take a batch a few images at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.kernels.conv.choice import algorithm_cycles
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp, PlaneConvOp
from glow_backends.cpu.kernels.conv.conv_plan import plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import conv_spec
from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.kernels.pool.pool_ops import PoolOp
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.builder import Builder
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import bytes_of, element_of, present, shape_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, functions
from glow_dialects.ops.slice import SliceOp
from glow_passes.contract import GraphPass

MOST_PARTS = 16
"""Into how many parts a batch is cut at most: each is code of its own in the program."""


def _constant(value: SSAValue) -> bool:
    return isinstance(value.owner, GetOp) and isinstance(value.owner.target(), ConstantOp)


def _batched(op: GraphOp) -> list[SSAValue]:
    """The operands that have as many images as the result; the others belong to all images."""
    shared: list[SSAValue] = []
    if isinstance(op, ConvOp | PlaneConvOp):
        shared = [op.filter, *present(op.bias)]
    rank, images = len(shape_of(op.results[0])), shape_of(op.results[0])[0]
    values = [v for v in op.operands if v not in shared]
    if isinstance(op, StackOp):
        values = [v for v in values if len(shape_of(v)) == rank and shape_of(v)[0] == images]
    return values


def takes_parts(op: Operation) -> int | None:
    """The number of images, if the result for each depends on that image alone; else None."""
    match op:
        case ConvOp() | PlaneConvOp():
            fits = _constant(op.filter)
        case SliceOp():
            sizes = shape_of(op.input)
            fits = bool(sizes) and (op.starts[0], op.ends[0]) == (0, sizes[0])
            fits = fits and op.steps[0] == 1
        case ConcatOp():
            fits = op.axis != 0
        case StackOp():
            fits = len(shape_of(op.results[0])) > 1 and op.predicate is None
        case _:
            fits = isinstance(op, PoolOp | BlockOp | UnblockOp | PermuteChannelsOp)
    images = shape_of(op.results[0])[0] if fits else 0
    return images if not isinstance(images, Extent) and images > 1 else None


def _cycles(op: GraphOp, images: int, target: CpuTarget, winograd: bool) -> float:
    """Estimated cycles of the sums of a layer on a number of images."""
    if not isinstance(op, ConvOp) or op.algorithm != "direct":
        return 0.0
    spec = replace(conv_spec(op), batch=images)
    costs = algorithm_cycles(spec, target, winograd)
    name = min(costs, key=lambda n: costs[n])
    weights = bytes_of(op.filter.type)
    image = estimate(bytes_of(op.results[0].type) + bytes_of(op.input.type))
    kept = weights + image // shape_of(op.input)[0] <= target.l2
    if name != "direct" or kept or plan_conv(spec, target).images_inside:
        return costs[name]
    return images * algorithm_cycles(replace(spec, batch=1), target, False)[name]  # weights pass for each


def gain(op: GraphOp, images: int, part: int, target: CpuTarget, winograd: bool) -> float:
    """Estimated cycles won where a layer takes `part` of its images at a time.

    Activations that no longer leave the cache are won, weights that pass more often are lost.
    """
    moved = sum(estimate(bytes_of(v.type)) for v in [*_batched(op), *op.results])

    def beyond(size: float) -> float:
        return max(0.0, 1 - target.l2 * target.threads / size) if size else 0.0

    fewer, costs = beyond(moved) - beyond(moved * part / images), target.costs
    won = moved * fewer / costs.bytes_a_cycle * costs.shown_streaming
    lost = images // part * _cycles(op, part, target, winograd) - _cycles(op, images, target, winograd)
    return won - lost


def best_runs(gains: Sequence[float]) -> list[tuple[float, int, int]]:
    """Sums of neighbouring gains and their ranges: the greatest one, then those on both sides of it."""
    best, total, start = (0.0, 0, 0), 0.0, 0
    for i, value in enumerate(gains):
        if total <= 0:
            total, start = 0.0, i
        total += value
        best = max(best, (total, start, i + 1))
    cycles, start, stop = best
    if cycles <= 0:
        return []
    after = [(c, low + stop, high + stop) for c, low, high in best_runs(gains[stop:])]
    return [*best_runs(gains[:start]), best, *after]


def _part_of(op: GraphOp, operands: dict[SSAValue, SSAValue], part: int) -> GraphOp:
    """The same layer on a part of its images."""
    groups = [[operands.get(v, v) for v in op.operand_group(name)] for name, _ in op.operand_groups()]
    known: dict[str, Any] = {n: a for n, a in op.properties.items() if n != SEGMENTS}
    if isinstance(op, SliceOp):
        known["ends"] = (part, *op.ends[1:])
    if op.regions:
        known["body"] = op.regions[0].clone()
    results = [tensor((part, *shape_of(r)[1:]), element_of(r)) for r in op.results]
    return type(op)(*groups, results=results, **known)


def split(run: Sequence[GraphOp], images: int, part: int) -> None:
    """Let neighbouring layers take `part` of their images at a time, one part after another."""
    inside = set(run)
    b = Builder.after(run[-1])  # where all operands are known
    wanted = [r for op in run for r in op.results if any(u.operation not in inside for u in r.uses)]
    pieces: dict[SSAValue, list[SSAValue]] = {v: [] for v in wanted}
    for first in range(0, images, part):
        known: dict[SSAValue, SSAValue] = {}
        for op in run:
            b.location = op.location
            for value in _batched(op):
                if value not in known:
                    sizes = (part, *shape_of(value)[1:])
                    known[value] = b(SliceOp.window(value, (first, *(0,) * (len(sizes) - 1)), sizes))
            new = _part_of(op, known, part)
            b.insert(new)
            for old, result in zip(op.results, new.results, strict=True):
                known[old] = result
                if old in pieces:
                    pieces[old].append(result)
    for value, parts in pieces.items():
        assert isinstance(value.owner, GraphOp)
        b.location = value.owner.location
        joined = b(ConcatOp(parts, axis=0))
        joined.name_hint = value.name_hint
        value.replace_uses_with_if(joined, lambda use: use.operation not in inside)
    for op in reversed(run):
        op.detach()
        op.erase()


def _runs(function: FuncOp) -> list[tuple[int, list[GraphOp]]]:
    """Neighbouring layers of the same number of images that can be split."""
    runs: list[tuple[int, list[GraphOp]]] = []
    images: int | None = None
    for op in function.body.block.ops:
        if isinstance(op, GetOp):
            continue
        now = takes_parts(op)
        if now is not None and isinstance(op, GraphOp):
            if now != images:
                runs.append((now, []))
            runs[-1][1].append(op)
        images = now
    return runs


def split_batches(function: FuncOp, target: CpuTarget, winograd: bool) -> None:
    """Split the runs of layers that gain by it, all into the parts by which they gain most."""
    for images, ops in _runs(function):
        parts = [p for p in range(target.threads, images) if not images % p and images // p <= MOST_PARTS]
        candidates = [(best_runs([gain(op, images, p, target, winograd) for op in ops]), p) for p in parts]
        if not candidates:
            continue
        runs, part = max(candidates, key=lambda f: sum(cycles for cycles, _, _ in f[0]))
        for _, start, stop in runs:
            if stop > start + 1:
                split(ops[start:stop], images, part)


@dataclass(frozen=True)
class CpuImagesPass(GraphPass):
    """Convolutions and what stands between them on large images go through a batch part by part.

    What one layer writes is then still in the cache when the next reads it. Layers with more weights
    than activations keep the whole batch, for which their weights pass once. `cpu` and `threads`
    describe the target, `winograd` the algorithms that it may use.
    """

    name = "glow-cpu-images"
    OPTIONAL = True
    cpu: str = "host"
    threads: int = 1
    winograd: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named(self.cpu, self.threads)
        for function in functions(op):
            split_batches(function, target, self.winograd)
