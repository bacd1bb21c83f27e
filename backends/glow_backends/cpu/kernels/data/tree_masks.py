"""Ensembles of small decision trees, all questions of which are asked of a vector of samples.

Nothing goes down and no branch depends on data. Bits stand for the leaves of a tree, from left to right. A
question that sends a sample to the right takes away the leaves on its left; of what all questions of the tree
leave, the lowest bit is the leaf that the sample reaches. (QuickScorer: Lucchese and others, 2015.) Bits lie
in words, and each word of a tree has the questions about its own leaves: most are about those of one word.
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

UNROLLED = 4
"""Questions that are asked in one turn of the loop."""
WORD_FACTS = 4
"""Numbers of a word: its first question, the first where NaN goes right, their end; its first leaf."""
TREE_FACTS = 5
"""Numbers of a tree: its first word, their end; the place of its weights; its first target, their end."""
VECTOR_BYTES = 32
"""Bytes of a vector: wider ones take longer for few samples, and as long for many."""
WORTH = 16
"""Questions of a tree for each branch of its mean way down, with which both take as long (256 samples)."""
COLUMN = 5
"""Questions that take as long as laying a column of the samples side by side: it counts for single trees."""
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
    questions: int
    #: Whether the bits of every tree are one word: then trees of 31 leaves take a tenth less time.
    single: bool
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
    leaf_depth: Array

    def words(self, bits: int) -> Array:
        """How many words of `bits` leaves each question takes some of."""
        return (self.end - 1) // bits - self.first // bits + 1

    def worth(self, bits: int, columns: int) -> bool:
        """Whether all questions, about so many columns, take less time than ways down."""
        leaves = np.bincount(self.leaf_tree)
        ways = np.bincount(self.leaf_tree, self.leaf_depth) / np.maximum(1, leaves)
        return bool(self.words(bits).sum() + COLUMN * columns <= WORTH * ways.sum())


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
        parts.append((nodes[~inner], trees[~inner], first[~inner], np.full(int((~inner).sum()), level)))
        first = np.stack([starts, starts + pairs[:, 0]], 1).reshape(-1)
    inner, inner_tree, begin, end = (np.concatenate(p) for p in zip(*parts[::2], strict=True))
    leaf, leaf_tree, place, depth = (np.concatenate(p) for p in zip(*parts[1::2], strict=True))
    order = np.lexsort((place, leaf_tree))
    return Shapes(inner, inner_tree, begin, end, leaf[order], leaf_tree[order], depth[order])


def columns_of(features: Array) -> Array:
    """The columns that questions are about, whichever way NaN goes."""
    return np.where(features < 0, -1 - features, features)


def pack_masks(tables: Sequence[Array], shapes: Shapes, lanes: int) -> tuple[Array, list[Array]]:
    """Columns of the input (i32); questions, words (i32), trees (i32) and weights of the operator's tables.

    A question: its split, the place of its column in the transposed samples, the bits of its word that stay.
    A tree's last word comes first. Of a word's questions, those where NaN goes left come first; each kind is
    filled up to whole turns of the loop.
    """
    features, splits, _, weights, roots = tables
    number, whole = splits.dtype, np.dtype(f"u{splits.dtype.itemsize}")
    bits, trees = 8 * number.itemsize, len(roots)
    asked = features[shapes.inner]
    named = columns_of(asked)
    columns = np.unique(named) if named.size else np.zeros(1, np.int64)
    leaves = np.bincount(shapes.leaf_tree, minlength=trees)
    word_ends = np.cumsum(-(-leaves // bits))
    # Each question once for each word that it takes leaves of.
    taken = shapes.words(bits)
    which = np.repeat(np.arange(len(asked)), taken)
    word = shapes.first[which] // bits + np.arange(len(which)) - np.repeat(np.cumsum(taken) - taken, taken)
    kind = 2 * (word_ends[shapes.inner_tree[which]] - 1 - word) + (asked[which] >= 0)
    counts = np.bincount(kind, minlength=2 * int(word_ends[-1]) if trees else 0)
    starts = np.concatenate([[0], np.cumsum(-(-counts // UNROLLED) * UNROLLED)])
    order = np.argsort(kind, kind="stable")
    ranks = np.arange(len(order)) - np.searchsorted(kind[order], kind[order])
    below = np.array([(1 << i) - 1 for i in range(bits + 1)], whole)
    low, high = (np.clip(v[which] - bits * word, 0, bits) for v in (shapes.first, shapes.end))
    own = np.zeros((len(order), 3), whole)
    own[:, 0], own[:, 1] = (
        splits[shapes.inner][which].view(whole),
        np.searchsorted(columns, named)[which] * lanes,
    )
    own[:, 2] = ~(below[high] ^ below[low])
    questions = np.zeros((starts[-1], 3), whole)
    questions[:, 2] = ~whole.type(0)
    questions[starts[kind[order]] + ranks] = own[order]
    words = np.zeros((len(starts) // 2, WORD_FACTS), np.int32)
    words[:, :3] = np.stack([starts[:-1:2], starts[1::2], starts[2::2]], 1)
    facts, values, place, done = np.zeros((trees, TREE_FACTS), np.int32), list[Array](), 0, 0
    ends = np.searchsorted(shapes.leaf_tree, np.arange(trees + 1))
    for tree, end in enumerate(word_ends.tolist()):
        words[done:end, 3] = bits * np.arange(end - done)[::-1]
        reached = weights[shapes.leaf[ends[tree] : ends[tree + 1]]]
        used = np.flatnonzero(reached.any(0))
        first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        facts[tree] = done, end, place, first, last
        values.append(reached[:, first:last].reshape(-1))
        place, done = place + values[-1].size, end
    weighed = np.concatenate([*values, np.zeros(1, number)])
    return columns.astype(np.int32), [questions, words, facts, weighed]


def emit_tree_masks(module: ir.Module, name: str, spec: TreeMasksSpec, target: CpuTarget) -> ir.Function:
    """Emit the sums; see `TreeMasksSpec` for the operands."""
    k = KernelBuilder(module, name, 8, target)
    _Masks(k, spec).groups()
    return k.finish()


class _Masks:
    """The kernel in the making."""

    def __init__(self, k: KernelBuilder, spec: TreeMasksSpec) -> None:
        self.k, self.spec, self.lanes, self.vectors = k, spec, spec.lanes, spec.vectors
        self.real, self.word = (F64, I64) if spec.dtype == "f64" else (F32, I32)
        self.result, self.input, self.columns, *tables, scratch = k.operands
        self.questions, self.words, self.trees, self.weights = tables
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
        first, last, place, low, high = self._facts(self.trees, tree, TREE_FACTS)
        leaves = [k.splat(0, lanes, I32)] * self.vectors
        leaves = (
            self._word(tree, leaves) if spec.single else k.reduce_loop(first, last, 1, leaves, self._word)
        )
        count = k.b.sub(high, low)
        with k.loop(0, count) as step:
            for v, leaf in enumerate(leaves):
                part = k.b.add(k.b.mul(leaf, self._spread(count)), self._spread(k.b.add(place, step)))
                weight = k.gather(self.weights, part, self.real)
                where = k.add(k.mul(k.add(low, step), lanes), v * spec.targets * lanes)
                total = k.b.fadd(k.load(self.sums, where, self.real, lanes), weight)
                k.store(total, self.sums, where, self.real)

    def _facts(self, table: ir.Value, row: ir.Value, count: int) -> list[ir.Value]:
        """A row of a table of `count` numbers."""
        k = self.k
        at = k.mul(row, count)
        return [k.b.sext(k.load(table, k.add(at, i), I32), I64) for i in range(count)]

    def _spread(self, number: ir.Value) -> ir.Value:
        return self.k.splat(self.k.b.trunc(number, I32), self.lanes, I32)

    def _word(self, word: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        """The leaves that the samples reach: of this word, where it keeps a bit, or `found` behind it."""
        k, b, lanes = self.k, self.k.b, self.lanes
        start, plain, end, base = self._facts(self.words, word, WORD_FACTS)
        bits: list[ir.Value] = [k.splat(-1, lanes, self.word)] * self.vectors
        for first, last, unordered in ((start, plain, False), (plain, end, True)):

            def turn(
                index: ir.Value, bits: list[ir.Value], unordered: bool = unordered
            ) -> Sequence[ir.Value]:
                for i in range(UNROLLED):
                    bits = self._question(k.add(index, i), bits, unordered)
                return bits

            bits = k.reduce_loop(first, last, UNROLLED, bits, turn)
        leaves: list[ir.Value] = []
        for kept, other in zip(bits, found, strict=True):
            place = k.named_intrinsic(f"llvm.cttz.v{lanes}i{8 * self.spec.size}", [kept], [(0, 1)])
            place = place if self.word is I32 else b.trunc(place, vector(I32, lanes))
            empty = b.icmp_signed("==", kept, k.splat(0, lanes, self.word))
            further = b.select(empty, other, b.add(place, self._spread(base)))
            leaves.append(place if self.spec.single else further)
        return leaves

    def _question(self, index: ir.Value | int, bits: Sequence[ir.Value], unordered: bool) -> list[ir.Value]:
        """The bits that stay: all of them where a sample goes left."""
        k, lanes, spec = self.k, self.lanes, self.spec
        at = k.mul(index, 3)
        split = k.splat(k.load(self.questions, at, self.real), lanes, self.real)
        mask = k.splat(k.load(self.questions, k.add(at, 2), self.word), lanes, self.word)
        column = k.load(self.questions, k.add(at, 1), self.word)
        column = k.b.sext(column, I64) if self.word is I32 else column
        compare = k.b.fcmp_unordered if unordered else k.b.fcmp_ordered
        after: list[ir.Value] = []
        for v, kept in enumerate(bits):
            value = k.load(self.x, k.add(column, v * spec.columns * lanes), self.real, lanes)
            after.append(k.b.select(compare(">", value, split), k.b.and_(kept, mask), kept))
        return after


class TreeMasks(Kernel[TreeSumsOp, TreeMasksSpec]):
    """Sums over trees of few leaves for their depth."""

    OPS = (TreeSumsOp,)
    emit = staticmethod(emit_tree_masks)

    def match(self, op: TreeSumsOp, context: CallContext) -> TreeMasksSpec | None:
        (samples, width), targets = shape(op.input), shape(op.weights)[1]
        dtype = dtype_name(op.input)
        size = 8 if dtype == "f64" else 4
        few = 2 * samples * size <= VECTOR_BYTES  # which go down in less time
        if not width or not targets or few or context.target.vector_bytes < VECTOR_BYTES:
            return None
        tables = self._tables(op, context)
        if tables is None:
            return None
        shapes = shapes_of(tables[2], tables[4])
        asked = np.unique(columns_of(tables[0][shapes.inner])).size
        if not shapes.worth(8 * size, asked):
            return None
        columns, (questions, words, trees, _) = pack_masks(tables, shapes, 1)
        counts = len(columns), len(trees), targets, len(questions)
        return TreeMasksSpec(samples, width, *counts, len(words) == len(trees), dtype)

    def _tables(self, op: TreeSumsOp, context: CallContext) -> list[Array] | None:
        known = [context.constant(v) for v in (op.features, op.splits, op.left, op.weights, op.roots)]
        tables = [t for t in known if t is not None]
        return tables if len(tables) == len(known) else None

    def operands(self, op: TreeSumsOp, spec: TreeMasksSpec, context: CallContext) -> list[Operand | None]:
        tables = self._tables(op, context)
        if tables is None:
            return [None]
        columns, packed = pack_masks(tables, shapes_of(tables[2], tables[4]), spec.lanes)
        return [op.result, op.input, *(table("trees", a) for a in (columns, *packed))]

    def scratch(self, spec: TreeMasksSpec, target: CpuTarget) -> int:
        return spec.scratch * spec.size * target.threads
