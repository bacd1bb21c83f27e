"""Ensembles of decision trees.

Chains go down together, without a branch that depends on data: one sample each in one tree, or, for samples
that do not fill the chains, one tree each for one sample. Each step moves every chain one node down; chains
that have reached a leaf stay there, and the loop ends when all have. A chain waits for memory most of the
time, so that several take hardly longer than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, F64, I8, I32, I64, KernelBuilder
from glow_backends.cpu.emit.memory import ceil_div, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.data.tree_order import order_of
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array
from glow_dialects.ops.tree_sums import TreeSumsOp

CHAINS = 16
"""Chains that go down together: with 4, 100 trees take 1.05 to 1.5 times as long, with 16 1.1 times."""
LANES = 8
"""Numbers that are asked at once whether they are NaN."""
STEPS = 4
"""Steps down between two looks whether all chains have reached a leaf."""
BLOCK_BYTES = 16 * 1024
"""Samples that pass through a small tree one after the other: they stay in the L1 cache for the next tree."""


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
    #: Lower bits of a node's word, which name the column, and whether words have 64 bits.
    bits: int
    wide: bool
    #: Bytes of samples that pass through a tree one after the other.
    block: int = BLOCK_BYTES
    #: The type of samples, splits, weights and sums.
    dtype: str = "f32"

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 8 if self.dtype == "f64" else 4

    @property
    def node(self) -> int:
        """Bytes of a node: its split, and its word in the other half."""
        return 16 if self.wide else 8


@dataclass(frozen=True)
class Packed:
    """Nodes, the weights of each, and places of roots; `bits` and `wide` as in the spec.

    A node's word is the way to its left branch in nodes, times 2^bits, and its column; where NaN goes left
    somewhere, twice the column and whether it does here. The right branch is the next node. A leaf's split
    is NaN and its left branch the node before it, so that it leads to itself. Behind the last tree lies an
    empty leaf: roots that fill up the chains lead there.
    """

    nodes: Array
    weights: Array
    roots: Array
    bits: int
    wide: bool


def pack_trees(tables: Sequence[Array]) -> Packed:
    """The tables (features, splits, left, weights, roots) of the operator as the kernel reads them."""
    features, splits, left, weights, roots = tables
    order = order_of(left, roots)
    nodes, ways = (np.append(a, -1) for a in order[:2])
    inner = ways >= 0
    asked = np.where(inner, features[nodes], 0).astype(np.int64)
    columns = np.where(asked < 0, -1 - asked, asked)
    if (features < 0).any():
        columns = 2 * columns + (asked < 0)
    bits = int(columns.max()).bit_length()
    bits = next(
        b for b in (8, 16, bits) if b >= bits
    )  # whole bytes are taken out of a word in one instruction
    wide = splits.itemsize > 4 or bool(int(ways.max() + 1) << bits >= 1 << 31)
    words = (np.where(inner, ways, -1) << bits) + columns
    known = np.where(inner, splits[nodes], np.nan).astype(splits.dtype)
    half = 8 if wide else 4
    packed = np.zeros((len(nodes), 2 * half), np.uint8)
    packed[:, : splits.itemsize] = known.reshape(-1, 1).view(np.uint8)
    packed[:, half:] = words.astype(f"i{half}").reshape(-1, 1).view(np.uint8)
    reached = np.where(nodes[:, None] >= 0, weights[nodes], 0).astype(weights.dtype)
    places = np.full(ceil_div(len(roots), CHAINS) * CHAINS, len(nodes) - 1)
    places[: len(roots)] = order.roots
    return Packed(packed, reached, places, bits, wide)


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
        self.word = I64 if spec.wide else I32
        self.row_bytes = spec.width * spec.size
        self.absent = False
        self.result, self.input, self.nodes, self.weights, self.roots = k.operands

    def blocks(self) -> None:
        """Blocks of samples, each through all trees: what fills the chains by sample, the rest by tree."""
        k, spec = self.k, self.spec
        block = max(1, spec.block // (CHAINS * self.row_bytes)) * CHAINS
        work = 64 * spec.samples * max(1, spec.trees)
        low, high = common.share(k, ceil_div(spec.samples, block), work)
        with k.loop(low, high) as number:
            first = k.i(k.mul(number, block))
            end = k.i(minimum(k, k.add(first, block), k.i(spec.samples)))
            with k.loop(k.mul(first, spec.targets), k.mul(end, spec.targets)) as place:
                k.store(ir.Constant(self.real, 0.0), self.result, place, self.real)
            if spec.missing:
                with k.b.if_else(self._some_absent(first, end)) as (then, otherwise):
                    with then:
                        self._samples(first, end, True)
                    with otherwise:
                        self._samples(first, end, False)
            else:
                self._samples(first, end, False)

    def _some_absent(self, first: ir.Value, end: ir.Value) -> ir.Value:
        """Whether a number of some samples is NaN."""
        k, b, width = self.k, self.k.b, self.spec.width
        low, high = k.i(k.mul(first, width)), k.i(k.mul(end, width))
        whole = b.sub(high, b.urem(b.sub(high, low), k.i(LANES)))
        flags = ir.VectorType(ir.IntType(1), LANES)

        def some(place: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            value = k.load(self.input, place, self.real, LANES)
            return [b.or_(found[0], b.fcmp_unordered("uno", value, value))]

        def one(place: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            value = k.load(self.input, place, self.real)
            return [b.or_(found[0], b.fcmp_unordered("uno", value, value))]

        (many,) = k.reduce_loop(low, whole, LANES, [ir.Constant(flags, [0] * LANES)], some)
        found = b.icmp_unsigned("!=", b.bitcast(many, ir.IntType(LANES)), ir.Constant(ir.IntType(LANES), 0))
        (found,) = k.reduce_loop(whole, high, 1, [found], one)
        return found

    def _samples(self, first: ir.Value, end: ir.Value, absent: bool) -> None:
        """A block of samples; where `absent`, numbers may be NaN."""
        k = self.k
        self.absent = absent
        whole = k.b.sub(end, k.b.urem(k.b.sub(end, first), k.i(CHAINS)))
        self._by_sample(first, whole)
        with k.loop(whole, end) as row:
            self._by_tree(row)

    def _by_sample(self, first: ir.Value, end: ir.Value) -> None:
        """Samples through one tree after the other, a chain each."""
        k, spec = self.k, self.spec
        with k.loop(0, spec.trees) as tree:
            root = k.load(self.roots, tree, I64)
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
            roots = [k.load(self.roots, k.add(start, j), I64) for j in range(CHAINS)]
            leaves = self._down([self._row(row)] * CHAINS, roots)
            with k.loop(0, spec.targets) as target:
                at = k.add(k.mul(row, spec.targets), target)
                self._add(at, [self._weight(leaf, target) for leaf in leaves])

    def _row(self, row: ir.Value | int) -> ir.Value:
        return self.k.gep(self.input, self.k.mul(row, self.row_bytes), I8)

    def _weight(self, leaf: ir.Value, target: ir.Value) -> ir.Value:
        k = self.k
        return k.load(self.weights, k.add(k.mul(leaf, self.spec.targets), target), self.real)

    def _add(self, place: ir.Value | int, weights: Sequence[ir.Value]) -> None:
        """Add weights to the result, one after the other."""
        k = self.k
        total = k.load(self.result, place, self.real)
        for weight in weights:
            total = k.b.fadd(total, weight)
        k.store(total, self.result, place, self.real)

    def _down(self, rows: Sequence[ir.Value], roots: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """The leaves that chains of samples at `rows` reach from `roots`."""
        k, b = self.k, self.k.b
        entry, look, step, done = (
            b.block,
            *(k.function.append_basic_block(n) for n in ("look", "step", "done")),
        )
        b.branch(look)
        b.position_at_end(look)
        places = [b.phi(I64) for _ in roots]
        words = self._words(places)
        leaves = reduce(b.and_, words)  # only words of leaves are negative
        b.cbranch(b.icmp_signed("<", leaves, ir.Constant(I64, 0)), done, step)
        b.position_at_end(step)
        after: list[ir.Value] = list(places)
        for number in range(STEPS):
            words = words if number == 0 else self._words(after)
            after = [self._branch(*each) for each in zip(after, words, rows, strict=True)]
        b.branch(look)
        for place, root, to in zip(places, roots, after, strict=True):
            place.add_incoming(root, entry)
            place.add_incoming(to, step)
        b.position_at_end(done)
        return places

    def _words(self, places: Sequence[ir.Value]) -> list[ir.Value]:
        words = [self.k.load(self._node(place), 1, self.word) for place in places]
        return [w if self.spec.wide else self.k.b.sext(w, I64) for w in words]  # extended as they are loaded

    def _node(self, place: ir.Value) -> ir.Value:
        return self.k.gep(self.nodes, self.k.mul(place, self.spec.node), I8)

    def _branch(self, place: ir.Value, word: ir.Value, row: ir.Value) -> ir.Value:
        """The index of the node that follows a node (given by its word), for the sample at `row`."""
        k, b, spec = self.k, self.k.b, self.spec
        split = k.load(self._node(place), 0, self.real)
        named = b.and_(word, ir.Constant(I64, (1 << spec.bits) - 1))
        column = b.lshr(named, ir.Constant(I64, 1)) if spec.missing else named
        value = k.load(row, column, self.real)
        goes = b.fcmp_unordered(">", value, split)
        if self.absent:
            stays = b.trunc(named, ir.IntType(1))
            goes = b.select(stays, b.fcmp_ordered(">", value, split), goes)
        way = b.ashr(word, ir.Constant(I64, spec.bits))
        return b.add(b.add(place, way), b.zext(goes, I64))


class Trees(Kernel[TreeSumsOp, TreesSpec]):
    """Sums over trees."""

    OPS = (TreeSumsOp,)
    emit = staticmethod(emit_trees)

    def match(self, op: TreeSumsOp, context: CallContext) -> TreesSpec | None:
        (samples, width), targets = shape(op.input), shape(op.weights)[1]
        tables = self._tables(op, context)
        if tables is None or not width:
            return None
        packed = pack_trees(tables)
        tree = packed.nodes.size // max(1, prod(shape(op.roots)))
        block = BLOCK_BYTES
        while block < min(tree, context.target.l2 // 2):  # a large tree is read once for many samples
            block *= 2
        missing = bool((tables[0] < 0).any())
        form = missing, packed.bits, packed.wide, block
        return TreesSpec(
            samples, width, prod(shape(op.roots)), targets, op.depth, *form, dtype_name(op.input)
        )

    def _tables(self, op: TreeSumsOp, context: CallContext) -> list[Array] | None:
        known = [context.constant(v) for v in (op.features, op.splits, op.left, op.weights, op.roots)]
        tables = [t for t in known if t is not None]
        return tables if len(tables) == len(known) else None

    def operands(self, op: TreeSumsOp, spec: TreesSpec, context: CallContext) -> list[Operand | None]:
        tables = self._tables(op, context)
        if tables is None:
            return [None]
        packed = pack_trees(tables)
        return [
            op.result,
            op.input,
            *(table("trees", a) for a in (packed.nodes, packed.weights, packed.roots)),
        ]
