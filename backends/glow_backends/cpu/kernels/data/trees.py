"""Ensembles of decision trees.

Chains go down together, without a branch that depends on data: one sample each in one tree, or, for samples
that do not fill the chains, one tree each for one sample. Each step moves every chain one node down; chains
that have reached a leaf stay there, and the loop ends when all have. A chain waits for memory most of the
time, so that several take hardly longer than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, F64, I8, I32, I64, KernelBuilder
from glow_backends.cpu.emit.memory import ceil_div, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array
from glow_dialects.ops.tree_sums import TreeSumsOp

CHAINS = 8
"""Chains that go down together: with 4, 100 trees take 1.05 to 1.5 times as long, with 16 1.1 times."""
BLOCK_BYTES = 16 * 1024
"""Samples that pass through a tree one after the other: they stay in the L1 cache for the next tree."""
NODE_BYTES = 16
"""A node: its split (8 bytes; f32 takes 4), its feature and the place of its left branch (in bytes)."""


@dataclass(frozen=True)
class TreesSpec:
    """Operands: result [samples, targets], input [samples, width], nodes, weights, roots (`pack_trees`)."""

    samples: int
    width: int
    trees: int
    targets: int
    depth: int
    #: Whether NaN goes left somewhere.
    missing: bool
    #: The type of samples, splits, weights and sums.
    dtype: str = "f32"


def pack_trees(spec: TreesSpec, tables: Sequence[Array]) -> list[Array]:
    """Nodes, weights and roots (in bytes) of the operator's tables (features, splits, left, weights, roots).

    Behind the last node lies an empty leaf: roots that fill up the chains lead there.
    """
    features, splits, left, weights, roots = tables
    count = len(left)
    places = np.full(ceil_div(len(roots), CHAINS) * CHAINS, count)
    places[: len(roots)] = roots
    nothing = np.zeros((1, spec.targets), weights.dtype)
    nodes = _records(np.append(features, 0), np.append(splits, splits[:0].sum()), np.append(left, count))
    return [nodes, np.concatenate([weights, nothing]), (NODE_BYTES * places).astype(np.int32)]


def _records(features: Array, splits: Array, left: Array) -> Array:
    nodes = np.zeros((len(left), NODE_BYTES), np.uint8)
    nodes[:, : splits.itemsize] = splits.reshape(-1, 1).view(np.uint8)
    nodes[:, 8:] = np.stack([features, NODE_BYTES * left], 1).astype(np.int32).view(np.uint8)
    return nodes


def emit_trees(module: ir.Module, name: str, spec: TreesSpec, target: CpuTarget) -> ir.Function:
    """Emit the sums; see `TreesSpec` for the operands."""
    k = KernelBuilder(module, name, 5, target)
    if spec.targets:
        _Trees(k, spec).blocks()
    return k.finish()


class _Trees:
    """The kernel in the making."""

    def __init__(self, k: KernelBuilder, spec: TreesSpec) -> None:
        self.k, self.spec = k, spec
        self.real = F64 if spec.dtype == "f64" else F32
        self.row_bytes = spec.width * (8 if spec.dtype == "f64" else 4)
        self.result, self.input, self.nodes, self.weights, self.roots = k.operands

    def blocks(self) -> None:
        """Blocks of samples, each through all trees: what fills the chains by sample, the rest by tree."""
        k, spec = self.k, self.spec
        block = max(1, min(16, BLOCK_BYTES // max(1, CHAINS * self.row_bytes))) * CHAINS
        work = 64 * spec.samples * max(1, spec.trees)
        low, high = common.share(k, ceil_div(spec.samples, block), work)
        with k.loop(low, high) as number:
            first = k.i(k.mul(number, block))
            end = k.i(minimum(k, k.add(first, block), k.i(spec.samples)))
            with k.loop(k.mul(first, spec.targets), k.mul(end, spec.targets)) as place:
                k.store(ir.Constant(self.real, 0.0), self.result, place, self.real)
            whole = k.b.sub(end, k.b.urem(k.b.sub(end, first), k.i(CHAINS)))
            self._by_sample(first, whole)
            with k.loop(whole, end) as row:
                self._by_tree(row)

    def _by_sample(self, first: ir.Value, end: ir.Value) -> None:
        """Samples through one tree after the other, a chain each."""
        k, spec = self.k, self.spec
        with k.loop(0, spec.trees) as tree:
            root = k.load(self.roots, tree, I32)
            with k.loop(first, end, CHAINS) as start:
                rows = [self._row(k.add(start, j)) for j in range(CHAINS)]
                leaves = self._down(rows, [root] * CHAINS)
                with k.loop(0, spec.targets) as target:
                    at = k.add(k.mul(start, spec.targets), target)
                    for j, leaf in enumerate(leaves):
                        self._add(k.add(at, j * spec.targets), [self._weight(leaf, target)])

    def _by_tree(self, row: ir.Value) -> None:
        """One sample through all trees, a chain each; the sums are taken in the trees' order."""
        k, spec = self.k, self.spec
        with k.loop(0, spec.trees, CHAINS) as start:
            roots = [k.load(self.roots, k.add(start, j), I32) for j in range(CHAINS)]
            leaves = self._down([self._row(row)] * CHAINS, roots)
            with k.loop(0, spec.targets) as target:
                at = k.add(k.mul(row, spec.targets), target)
                self._add(at, [self._weight(leaf, target) for leaf in leaves])

    def _row(self, row: ir.Value | int) -> ir.Value:
        return self.k.gep(self.input, self.k.mul(row, self.row_bytes), I8)

    def _weight(self, leaf: ir.Value, target: ir.Value) -> ir.Value:
        k = self.k
        row = k.b.udiv(k.b.zext(leaf, I64), k.i(NODE_BYTES))
        return k.load(self.weights, k.add(k.mul(row, self.spec.targets), target), self.real)

    def _add(self, place: ir.Value | int, weights: Sequence[ir.Value]) -> None:
        """Add weights to the result, one after the other."""
        k = self.k
        total = k.load(self.result, place, self.real)
        for weight in weights:
            total = k.b.fadd(total, weight)
        k.store(total, self.result, place, self.real)

    def _down(self, rows: Sequence[ir.Value], roots: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """The leaves (in bytes) that chains of samples at `rows` reach from `roots`."""
        k, b = self.k, self.k.b
        head, step, done = b.block, *(k.function.append_basic_block(n) for n in ("step", "leaves"))
        b.branch(step)
        b.position_at_end(step)
        turn = b.phi(I64)
        turn.add_incoming(k.i(0), head)
        places = [b.phi(I32) for _ in roots]
        moved: ir.Value = ir.Constant(I32, 0)
        after: list[ir.Value] = []
        for place, root, row in zip(places, roots, rows, strict=True):
            place.add_incoming(root, head)
            after.append(self._branch(place, row))
            moved = b.or_(moved, b.xor(after[-1], place))
        for place, to in zip(places, after, strict=True):
            place.add_incoming(to, step)
        following = b.add(turn, k.i(1))
        turn.add_incoming(following, step)
        more = b.and_(
            b.icmp_signed("!=", moved, ir.Constant(I32, 0)),
            b.icmp_signed("<", following, k.i(self.spec.depth)),
        )
        b.cbranch(more, step, done)
        b.position_at_end(done)
        return after

    def _branch(self, place: ir.Value, row: ir.Value) -> ir.Value:
        """The node behind the one at `place` for the sample at `row`."""
        k, b = self.k, self.k.b
        node = k.gep(self.nodes, b.zext(place, I64), I8)
        feature, left = k.load(node, 2, I32), k.load(node, 3, I32)
        column = feature
        if self.spec.missing:
            column = b.xor(
                feature, b.ashr(feature, ir.Constant(I32, 31))
            )  # -1 - feature where it is negative
        value = k.load(row, b.zext(column, I64), self.real)
        goes = b.not_(b.fcmp_ordered("<=", value, k.load(node, 0, self.real)))
        if self.spec.missing:
            absent = b.and_(
                b.fcmp_unordered("uno", value, value), b.icmp_signed("<", feature, ir.Constant(I32, 0))
            )
            goes = b.and_(goes, b.not_(absent))
        right = b.add(left, b.select(goes, ir.Constant(I32, NODE_BYTES), ir.Constant(I32, 0)))
        return b.select(b.icmp_signed("==", left, place), place, right)


class Trees(Kernel[TreeSumsOp, TreesSpec]):
    """Sums over trees."""

    OPS = (TreeSumsOp,)
    emit = staticmethod(emit_trees)

    def match(self, op: TreeSumsOp, context: CallContext) -> TreesSpec | None:
        (samples, width), (nodes, targets) = shape(op.input), shape(op.weights)
        features = context.constant(op.features)
        if features is None or not width or NODE_BYTES * (nodes + 1) >= 1 << 31:
            return None
        missing = bool((features < 0).any())
        return TreesSpec(
            samples, width, prod(shape(op.roots)), targets, op.depth, missing, dtype_name(op.input)
        )

    def operands(self, op: TreeSumsOp, spec: TreesSpec, context: CallContext) -> list[Operand | None]:
        known = [context.constant(v) for v in (op.features, op.splits, op.left, op.weights, op.roots)]
        tables = [t for t in known if t is not None]
        if len(tables) < len(known):
            return [None]
        return [op.result, op.input, *(table("trees", a) for a in pack_trees(spec, tables))]
