"""Ensembles of decision trees.

A vector holds one sample a lane, all in one tree, or, where samples are few, one tree a lane for one
sample. Each step fetches what the lanes' nodes ask and moves every lane one branch down; lanes that
have reached a leaf stay there, and the vector is done when all have. Two vectors go down together,
since each waits for memory most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, I32, I64, KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.tree_sums import TreeSumsOp

TOGETHER = 2
"""Vectors that go down together."""
SUMS = 4096
"""Sums of a block of samples that are kept at hand, at most."""


@dataclass(frozen=True)
class TreesSpec:
    """Operands: result [samples, targets], input [samples, width], features, splits, left, weights, roots."""

    samples: int
    width: int
    trees: int
    targets: int
    depth: int

    def steps(self, lanes: int) -> int:
        """How often the samples of a block are taken together; each time for all trees."""
        return max(1, min(8, SUMS // (TOGETHER * lanes * self.targets)))


def emit_trees(module: ir.Module, name: str, spec: TreesSpec, target: CpuTarget) -> ir.Function:
    """Emit the sums; see `TreesSpec` for the operands."""
    k = KernelBuilder(module, name, 7, target)
    trees = _Trees(k, spec)
    if spec.samples * spec.targets:
        few = 2 * spec.samples <= trees.lanes and spec.trees >= trees.lanes
        trees.by_tree() if few else trees.by_sample()
    return k.finish()


class _Trees:
    """The kernel in the making."""

    def __init__(self, k: KernelBuilder, spec: TreesSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.result, self.input, *self.tables, self.weights, self.roots = k.operands

    def by_sample(self) -> None:
        """Blocks of samples, each through all trees in turn."""
        k, spec, lanes = self.k, self.spec, self.lanes
        width = TOGETHER * lanes
        block = width * spec.steps(lanes)
        sums = k.stack(block * spec.targets)
        count = ceil_div(spec.samples, block)
        low, high = common.share(k, count, 64 * spec.samples * max(1, spec.trees))
        with k.loop(low, high) as number:
            first = k.mul(number, block)
            here = k.i(minimum(k, k.b.sub(k.i(spec.samples), k.i(first)), block))
            with k.loop(0, block * spec.targets, lanes) as place:
                k.store(k.splat(0.0, lanes), sums, place)
            origin = k.gep(self.input, k.mul(first, spec.width))
            with k.loop(0, spec.trees) as tree:
                root = k.splat(k.load(self.roots, tree, I32), lanes, I32)
                with k.loop(0, here, width) as start:
                    rows = [self._rows(start, j * lanes, here) for j in range(TOGETHER)]
                    leaves = self._down(origin, rows, [root] * TOGETHER)
                    for j, leaf in enumerate(leaves):
                        self._add(leaf, sums, k.add(start, j * lanes), block)
            with k.loop(0, here) as row, k.loop(0, spec.targets) as target:
                value = k.load(sums, k.add(k.mul(target, block), row))
                to = k.add(k.mul(k.add(first, row), spec.targets), target)
                k.store(value, self.result, to)

    def by_tree(self) -> None:
        """Each sample through as many trees at once as a vector has lanes."""
        k, spec, lanes = self.k, self.spec, self.lanes
        width = TOGETHER * lanes
        sums = k.stack(lanes * spec.targets)
        low, high = common.share(k, spec.samples, 64 * spec.samples * spec.trees)
        with k.loop(low, high) as row:
            with k.loop(0, lanes * spec.targets, lanes) as place:
                k.store(k.splat(0.0, lanes), sums, place)
            origin = k.gep(self.input, k.mul(row, spec.width))
            same = k.splat(0, lanes, I32)
            with k.loop(0, spec.trees, width) as start:
                numbers = [self._numbers(k.add(start, j * lanes)) for j in range(TOGETHER)]
                valid = [k.b.icmp_signed("<", n, k.splat(spec.trees, lanes, I32)) for n in numbers]
                safe = [k.b.select(v, n, same) for v, n in zip(valid, numbers, strict=True)]
                roots = [k.gather(self.roots, n, I32) for n in safe]
                for leaf, inside in zip(self._down(origin, [same] * TOGETHER, roots), valid, strict=True):
                    self._add(leaf, sums, 0, lanes, inside)
            with k.loop(0, spec.targets) as target:
                parts = k.load(sums, k.mul(target, lanes), lanes=lanes)
                name = f"llvm.vector.reduce.fadd.v{lanes}f32"
                total = k.named_intrinsic(name, [ir.Constant(F32, 0.0), parts], [])
                k.store(total, self.result, k.add(k.mul(row, spec.targets), target))

    def _numbers(self, start: Index) -> ir.Value:
        """start, start + 1, ... in the lanes."""
        k = self.k
        steps = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        return k.b.add(k.splat(k.b.trunc(k.i(start), I32), self.lanes, I32), steps)

    def _rows(self, start: ir.Value, more: int, count: ir.Value) -> ir.Value:
        """Where the rows of the lanes begin, behind the first of the block; none behind the last."""
        k = self.k
        rows = self._numbers(k.add(start, more))
        last = k.splat(k.b.trunc(k.b.sub(count, k.i(1)), I32), self.lanes, I32)
        rows = k.b.select(k.b.icmp_signed("<", rows, last), rows, last)
        return k.b.mul(rows, k.splat(self.spec.width, self.lanes, I32))

    def _down(
        self, origin: ir.Value, rows: Sequence[ir.Value], roots: Sequence[ir.Value]
    ) -> Sequence[ir.Value]:
        """The leaves of vectors of nodes."""
        k, b = self.k, self.k.b
        head, check, step, done = b.block, *(k.function.append_basic_block(n) for n in ("at", "step", "leaf"))
        b.branch(check)
        b.position_at_end(check)
        turn = b.phi(I64)
        turn.add_incoming(k.i(0), head)
        nodes = [b.phi(r.type) for r in roots]
        for node, root in zip(nodes, roots, strict=True):
            node.add_incoming(root, head)
        below = [k.gather(self.tables[2], node, I32) for node in nodes]
        moves = [b.icmp_signed("!=", to, node) for to, node in zip(below, nodes, strict=True)]
        some = moves[0]
        for more in moves[1:]:
            some = b.or_(some, more)
        open_ = b.and_(
            k.intrinsic("vector.reduce.or", [some], ir.IntType(1)),
            b.icmp_signed("<", turn, k.i(self.spec.depth)),
        )
        b.cbranch(open_, step, done)
        b.position_at_end(step)
        for node, row, to, move in zip(nodes, rows, below, moves, strict=True):
            node.add_incoming(b.select(move, self._branch(origin, node, row, to), node), b.block)
        turn.add_incoming(b.add(turn, k.i(1)), b.block)
        b.branch(check)
        b.position_at_end(done)
        return nodes

    def _branch(self, origin: ir.Value, node: ir.Value, row: ir.Value, left: ir.Value) -> ir.Value:
        """The next nodes of lanes at `node`."""
        k, b, lanes = self.k, self.k.b, self.lanes
        feature = k.gather(self.tables[0], node, I32)
        split = k.gather(self.tables[1], node)
        negative = b.icmp_signed("<", feature, k.splat(0, lanes, I32))
        column = b.xor(feature, b.sext(negative, feature.type))  # -1 - feature where it is negative
        value = k.gather(origin, b.add(row, column))
        missing = b.and_(negative, b.fcmp_unordered("uno", value, value))
        stays = b.or_(b.fcmp_ordered("<=", value, split), missing)
        return b.sub(b.add(left, k.splat(1, lanes, I32)), b.zext(stays, left.type))

    def _add(
        self, leaf: ir.Value, sums: ir.Value, place: Index, stride: int, valid: ir.Value | None = None
    ) -> None:
        """Add the weights of leaves to the sums of each target at `place`, targets `stride` apart."""
        k, lanes, targets = self.k, self.lanes, self.spec.targets
        row = k.b.mul(leaf, k.splat(targets, lanes, I32))
        with k.loop(0, targets) as target:
            column = k.splat(k.b.trunc(target, I32), lanes, I32)
            weight = k.gather(self.weights, k.b.add(row, column))
            if valid is not None:
                weight = k.b.select(valid, weight, k.splat(0.0, lanes))
            at = k.add(k.mul(target, stride), place)
            k.store(k.b.fadd(k.load(sums, at, lanes=lanes), weight), sums, at)


class Trees(Kernel[TreeSumsOp, TreesSpec]):
    """Sums over trees."""

    OPS = (TreeSumsOp,)
    emit = staticmethod(emit_trees)

    def match(self, op: TreeSumsOp, context: CallContext) -> TreesSpec | None:
        (samples, width), (nodes, targets) = shape(op.input), shape(op.weights)
        if dtype_name(op.input) != "f32" or targets > SUMS // (TOGETHER * context.target.lanes):
            return None
        if max(nodes * targets, width * SUMS) >= 1 << 31:
            return None
        return TreesSpec(samples, width, prod(shape(op.roots)), targets, op.depth)
