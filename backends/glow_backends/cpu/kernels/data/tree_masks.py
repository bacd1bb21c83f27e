"""Ensembles of small decision trees, all questions of which are asked of a vector of samples.

Nothing goes down and no branch depends on data. Bits stand for the leaves of a tree, from left to right. A
question that sends a sample to the right takes away the leaves on its left; of what all questions of the tree
leave, the lowest bit is the leaf that the sample reaches. (QuickScorer: Lucchese and others, 2015.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, F64, I32, I64, KernelBuilder
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import ceil_div, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array
from glow_dialects.ops.tree_sums import TreeSumsOp

MOST_WORDS = 2
"""Words of bits of a tree: with 4, trees of 100 leaves take as long as by going down."""
UNROLLED = 4
"""Questions that are asked in one turn of the loop."""
FACTS = 6
"""Numbers of a tree: its first question, the first where NaN goes right, their end; weights; targets."""
VECTOR_BYTES = 32
"""Bytes of a vector: wider ones take longer for few samples, and as long for many."""
FEWEST = 4
"""Samples of fewer than these go down: one alone takes half the time in trees of 64 leaves."""
MOST_VECTORS = 4
"""Vectors of samples that a question is asked of."""


@dataclass(frozen=True)
class TreeMasksSpec:
    """Operands: result [samples, targets], input [samples, width], columns, tables of `pack_masks`, scratch.

    `columns` of the input are asked for.
    """

    samples: int
    width: int
    columns: int
    trees: int
    targets: int
    words: int
    questions: int
    #: The type of samples, splits, weights and sums; words of bits are as wide.
    dtype: str = "f32"

    @property
    def lanes(self) -> int:
        """Samples of a vector."""
        return VECTOR_BYTES // self.size

    @property
    def vectors(self) -> int:
        """Vectors of samples that are looked at together."""
        return min(MOST_VECTORS, -(-self.samples // self.lanes))

    @property
    def size(self) -> int:
        """Bytes of a number, and of a word."""
        return 8 if self.dtype == "f64" else 4

    @property
    def scratch(self) -> int:
        """Numbers of a worker: for each vector the samples' columns, then sums."""
        return (self.columns + self.targets) * self.lanes * self.vectors


@dataclass(frozen=True)
class Shapes:
    """What is known of the trees' forms: arrays of inner nodes, then of leaves, with the tree of each.

    A node stands as often as a way leads to it. `first` and `end` are of the leaves of its left branch.
    """

    inner: Array
    inner_tree: Array
    first: Array
    end: Array
    leaf: Array
    leaf_tree: Array
    #: The most leaves of a tree.
    most: int


def shapes_of(left: Array, roots: Array) -> Shapes:
    """The forms of trees; leaves are in the order of trees, and from left to right."""
    levels = [(roots, np.arange(len(roots)))]
    while (inner := left[(nodes := levels[-1][0])] != nodes).any():
        below = left[nodes[inner]]
        levels.append((np.stack([below, below + 1], 1).reshape(-1), np.repeat(levels[-1][1][inner], 2)))
    counts = [np.ones(len(levels[-1][0]), np.int64)]
    for nodes, _ in levels[-2::-1]:
        own = np.ones(len(nodes), np.int64)
        own[left[nodes] != nodes] = counts[-1].reshape(-1, 2).sum(1)
        counts.append(own)
    counts.reverse()
    first, parts = np.zeros(len(roots), np.int64), list[tuple[Array, ...]]()
    for level, (nodes, trees) in enumerate(levels):
        inner = left[nodes] != nodes
        pairs = counts[level + 1].reshape(-1, 2) if level + 1 < len(levels) else np.zeros((0, 2), np.int64)
        starts = first[inner]
        parts.append((nodes[inner], trees[inner], starts, starts + pairs[:, 0]))
        parts.append((nodes[~inner], trees[~inner], first[~inner]))
        first = np.stack([starts, starts + pairs[:, 0]], 1).reshape(-1)
    inner, inner_tree, begin, end = (np.concatenate(p) for p in zip(*parts[::2], strict=True))
    leaf, leaf_tree, place = (np.concatenate(p) for p in zip(*parts[1::2], strict=True))
    order = np.lexsort((place, leaf_tree))
    most = int(counts[0].max(initial=1))
    return Shapes(inner, inner_tree, begin, end, leaf[order], leaf_tree[order], most)


def words_of(shapes: Shapes, size: int) -> int:
    """Words of `size` bytes that the bits of every tree fit in."""
    return -(-shapes.most // (8 * size))


def pack_masks(tables: Sequence[Array], shapes: Shapes, words: int, lanes: int) -> tuple[Array, list[Array]]:
    """Columns of the input (i32), and questions, trees (i32) and weights of the operator's tables.

    A question: its split, the place of its column in the transposed samples, words of the bits that stay.
    Questions where NaN goes left come first; each kind is filled up to whole turns of the loop.
    """
    features, splits, _, weights, roots = tables
    number, whole = splits.dtype, np.dtype(f"u{splits.dtype.itemsize}")
    bits, trees = 8 * number.itemsize, len(roots)
    asked = features[shapes.inner]
    named = np.where(asked < 0, -1 - asked, asked)
    columns = np.unique(named) if named.size else np.zeros(1, np.int64)
    kind = 2 * shapes.inner_tree + (asked >= 0)
    sizes = -(-np.bincount(kind, minlength=2 * trees) // UNROLLED) * UNROLLED
    starts = np.concatenate([[0], np.cumsum(sizes)])
    order = np.argsort(kind, kind="stable")
    ranks = np.arange(len(order)) - np.searchsorted(kind[order], kind[order])
    questions = np.zeros((starts[-1], 2 + words), whole)
    questions[:, 2:] = ~whole.type(0)
    own = np.zeros((len(order), 2 + words), whole)
    own[:, 0], own[:, 1] = splits[shapes.inner].view(whole), np.searchsorted(columns, named) * lanes
    below = np.array([(1 << i) - 1 for i in range(bits + 1)], whole)
    for w in range(words):
        low, high = (np.clip(v - bits * w, 0, bits) for v in (shapes.first, shapes.end))
        own[:, 2 + w] = ~(below[high] ^ below[low])
    questions[starts[kind[order]] + ranks] = own[order]
    facts, values, place = np.zeros((trees, FACTS), np.int32), list[Array](), 0
    facts[:, :3] = np.stack([starts[:-1:2], starts[1::2], starts[2::2]], 1)
    ends = np.searchsorted(shapes.leaf_tree, np.arange(trees + 1))
    for tree in range(trees):
        reached = weights[shapes.leaf[ends[tree] : ends[tree + 1]]]
        used = np.flatnonzero(reached.any(0))
        low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        facts[tree, 3:] = place, low, high
        values.append(reached[:, low:high].reshape(-1))
        place += values[-1].size
    weighed = np.concatenate([*values, np.zeros(1, number)])
    return columns.astype(np.int32), [questions, facts, weighed]


def emit_tree_masks(module: ir.Module, name: str, spec: TreeMasksSpec, target: CpuTarget) -> ir.Function:
    """Emit the sums; see `TreeMasksSpec` for the operands."""
    k = KernelBuilder(module, name, 7, target)
    _Masks(k, spec).groups()
    return k.finish()


class _Masks:
    """The kernel in the making."""

    def __init__(self, k: KernelBuilder, spec: TreeMasksSpec) -> None:
        self.k, self.spec, self.lanes, self.vectors = k, spec, spec.lanes, spec.vectors
        self.real, self.word = (F64, I64) if spec.dtype == "f64" else (F32, I32)
        self.result, self.input, self.columns, self.questions, self.trees, self.weights, scratch = k.operands
        self.x = k.gep(scratch, k.mul(k.worker, spec.scratch), self.real)
        self.sums = k.gep(self.x, spec.columns * self.lanes * self.vectors, self.real)

    def groups(self) -> None:
        """Vectors of samples, each through all trees."""
        k, spec = self.k, self.spec
        group, vector_sums = self.lanes * self.vectors, spec.targets * self.lanes
        low, high = common.share(k, ceil_div(spec.samples, group), 4 * spec.samples * spec.questions)
        with k.loop(low, high) as number:
            first = k.i(k.mul(number, group))
            self._transpose(first)
            with k.loop(0, spec.targets * self.vectors) as place:
                nothing = k.splat(0.0, self.lanes, self.real)
                k.store(nothing, self.sums, k.mul(place, self.lanes), self.real)
            with k.loop(0, spec.trees) as tree:
                self._tree(tree)
            for v in range(self.vectors):
                start = k.add(first, v * self.lanes)
                live = minimum(k, k.i(self.lanes), k.b.sub(k.i(spec.samples), k.i(start)))
                with k.loop(0, live) as lane, k.loop(0, spec.targets) as target:
                    place = k.add(k.add(k.mul(target, self.lanes), lane), v * vector_sums)
                    at = k.add(k.mul(k.add(start, lane), spec.targets), target)
                    k.store(k.load(self.sums, place, self.real), self.result, at, self.real)

    def _transpose(self, first: ir.Value) -> None:
        """The columns that are asked for, of the samples of a vector side by side."""
        k, spec, lanes = self.k, self.spec, self.lanes
        for v in range(self.vectors):
            own = k.gep(self.x, v * spec.columns * lanes, self.real)
            places = [k.add(first, v * lanes + lane) for lane in range(lanes)]
            rows = [k.mul(minimum(k, place, k.i(spec.samples - 1)), spec.width) for place in places]
            with k.loop(0, spec.columns) as column:
                source = k.b.sext(k.load(self.columns, column, I32), I64)
                for lane, row in enumerate(rows):
                    value = k.load(self.input, k.add(row, source), self.real)
                    k.store(value, own, k.add(k.mul(column, lanes), lane), self.real)

    def _tree(self, tree: ir.Value) -> None:
        """Add the weights of the leaves that the samples reach."""
        k, spec, lanes = self.k, self.spec, self.lanes
        at = k.mul(tree, FACTS)
        start, plain, end, place, low, high = (
            k.b.sext(k.load(self.trees, k.add(at, i), I32), I64) for i in range(FACTS)
        )
        bits: list[ir.Value] = [k.splat(-1, lanes, self.word)] * (spec.words * self.vectors)
        for first, last, unordered in ((start, plain, False), (plain, end, True)):

            def turn(
                index: ir.Value, bits: list[ir.Value], unordered: bool = unordered
            ) -> Sequence[ir.Value]:
                for i in range(UNROLLED):
                    bits = self._question(k.add(index, i), bits, unordered)
                return bits

            bits = k.reduce_loop(first, last, UNROLLED, bits, turn)
        leaves = [self._lowest(bits[v * spec.words :][: spec.words]) for v in range(self.vectors)]
        count = k.b.sub(high, low)
        with k.loop(0, count) as step:
            for v, leaf in enumerate(leaves):
                part = k.b.add(k.b.mul(leaf, self._spread(count)), self._spread(k.b.add(place, step)))
                weight = k.gather(self.weights, part, self.real)
                where = k.add(k.mul(k.add(low, step), lanes), v * spec.targets * lanes)
                total = k.b.fadd(k.load(self.sums, where, self.real, lanes), weight)
                k.store(total, self.sums, where, self.real)

    def _spread(self, number: ir.Value) -> ir.Value:
        return self.k.splat(self.k.b.trunc(number, I32), self.lanes, I32)

    def _question(self, index: ir.Value | int, bits: Sequence[ir.Value], unordered: bool) -> list[ir.Value]:
        """The bits that stay: all of them where a sample goes left."""
        k, lanes, spec = self.k, self.lanes, self.spec
        at = k.mul(index, 2 + spec.words)
        split = k.splat(k.load(self.questions, at, self.real), lanes, self.real)
        masks = [
            k.splat(k.load(self.questions, k.add(at, 2 + i), self.word), lanes, self.word)
            for i in range(spec.words)
        ]
        column = k.load(self.questions, k.add(at, 1), self.word)
        column = k.b.sext(column, I64) if self.word is I32 else column
        compare = k.b.fcmp_unordered if unordered else k.b.fcmp_ordered
        after: list[ir.Value] = []
        for v in range(self.vectors):
            value = k.load(self.x, k.add(column, v * spec.columns * lanes), self.real, lanes)
            right = compare(">", value, split)
            for word, mask in zip(bits[v * spec.words :], masks, strict=False):
                after.append(k.b.select(right, k.b.and_(word, mask), word))
        return after

    def _lowest(self, bits: Sequence[ir.Value]) -> ir.Value:
        """The place of the lowest bit of several words, i32."""
        k, lanes = self.k, self.lanes
        width, none = 8 * self.spec.size, k.splat(0, lanes, self.word)
        found: ir.Value | None = None
        for number, word in reversed(list(enumerate(bits))):
            place = k.named_intrinsic(f"llvm.cttz.v{lanes}i{width}", [word], [(0, 1)])
            place = k.b.add(place, k.splat(number * width, lanes, self.word))
            empty = k.b.icmp_signed("==", word, none)
            found = place if found is None else k.b.select(empty, found, place)
        assert found is not None
        return found if self.word is I32 else k.b.trunc(found, vector(I32, lanes))


class TreeMasks(Kernel[TreeSumsOp, TreeMasksSpec]):
    """Sums over trees of few leaves."""

    OPS = (TreeSumsOp,)
    emit = staticmethod(emit_tree_masks)

    def match(self, op: TreeSumsOp, context: CallContext) -> TreeMasksSpec | None:
        (samples, width), targets = shape(op.input), shape(op.weights)[1]
        if not width or not targets or samples < FEWEST or context.target.vector_bytes < VECTOR_BYTES:
            return None
        tables, dtype = self._tables(op, context), dtype_name(op.input)
        if tables is None:
            return None
        size, shapes = (8 if dtype == "f64" else 4), shapes_of(tables[2], tables[4])
        words = words_of(shapes, size)
        if words > MOST_WORDS:
            return None
        columns, (questions, trees, _) = pack_masks(tables, shapes, words, VECTOR_BYTES // size)
        counts = len(columns), len(trees), targets, words, len(questions)
        return TreeMasksSpec(samples, width, *counts, dtype)

    def _tables(self, op: TreeSumsOp, context: CallContext) -> list[Array] | None:
        known = [context.constant(v) for v in (op.features, op.splits, op.left, op.weights, op.roots)]
        tables = [t for t in known if t is not None]
        return tables if len(tables) == len(known) else None

    def operands(self, op: TreeSumsOp, spec: TreeMasksSpec, context: CallContext) -> list[Operand | None]:
        tables = self._tables(op, context)
        if tables is None:
            return [None]
        columns, packed = pack_masks(tables, shapes_of(tables[2], tables[4]), spec.words, spec.lanes)
        return [op.result, op.input, *(table("trees", a) for a in (columns, *packed))]

    def scratch(self, spec: TreeMasksSpec, target: CpuTarget) -> int:
        return spec.scratch * spec.size * target.threads
