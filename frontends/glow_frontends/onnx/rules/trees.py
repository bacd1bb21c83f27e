"""Rules of tree ensembles: sums are one operator, whose nodes ask one kind of question.

Of others (least and largest leaves) every tree descends one level a step, all samples at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.logic import AndOp, IsNanOp, NotOp, OrOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceMinOp, ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.tree_sums import TreeSumsOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.movement import join, take
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.ml import class_labels, pick_labels, post_transform
from glow_frontends.onnx.rules.rule import Versions, check_alike, tables_of

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
COMPARE = (CmpLeOp, CmpLtOp, CmpGeOp, CmpGtOp, CmpEqOp)
POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
LEAVES = ("treeids", "nodeids", "ids")
AGGREGATE = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class Trees:
    """All nodes of all trees; a leaf leads to itself."""

    features: list[int] = field(default_factory=list[int])
    splits: list[float] = field(default_factory=list[float])
    modes: list[int] = field(default_factory=list[int])
    yes: list[int] = field(default_factory=list[int])
    no: list[int] = field(default_factory=list[int])
    missing: list[bool] = field(default_factory=list[bool])
    roots: list[int] = field(default_factory=list[int])
    #: (node, target, weight) of leaves.
    weights: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    def add(self, feature: int, split: float, mode: int, missing: bool = False) -> int:
        """A node that leads to itself until its branches are set."""
        index = len(self.features)
        self.features.append(feature)
        self.splits.append(split)
        self.modes.append(mode)
        self.yes.append(index)
        self.no.append(index)
        self.missing.append(missing)
        return index

    def depth(self) -> int:
        """Branches on the longest way from a root to a leaf; a RuleError for cycles."""
        level, current = 0, set(self.roots)
        while True:
            inner = {i for i in current if self.yes[i] != i or self.no[i] != i}
            if not inner:
                return level
            level += 1
            if level > len(self.features):
                raise RuleError("the trees contain a cycle")
            current = {j for i in inner for j in (self.yes[i], self.no[i])}


def leaves_of(g: Emitter, x: Value, trees: Trees) -> Value:
    """The leaf [N, T] that each sample of x [N, F] reaches in each tree."""
    count = shape(x)[0]
    columns = [np.array(c, np.int64) for c in (trees.features, trees.yes, trees.no)]
    features, yes, no = columns
    splits = np.array(trees.splits, dtype_of_value(x))
    modes = np.array(trees.modes)
    present = sorted(set(modes.tolist()))
    missing = np.array(trees.missing)
    at: Value = np.tile(np.array(trees.roots, np.int64), (count, 1))
    for _ in range(trees.depth()):
        value = g(GatherElementsOp, x, take(g, features, at, 0), axis=1)
        split = take(g, splits, at, 0)
        went = _compare(g, present[0], value, split)
        for mode in present[1:]:
            here = take(g, modes == mode, at, 0)
            went = g(SelectOp, here, _compare(g, mode, value, split), went)
        if missing.any():
            went = g(OrOp, went, g(AndOp, g(IsNanOp, value), take(g, missing, at, 0)))
        at = g(SelectOp, went, take(g, yes, at, 0), take(g, no, at, 0))
    return at


#: Targets of an ensemble that is one operator, and nodes that its form may have for one of the model's.
MOST_TARGETS, MOST_COPIES = 64, 4


@dataclass
class Forest:
    """Trees in the form of `TreeSumsOp`: a node's branches are neighbours, the left one is for x <= split.

    Splits are of the type `real` of the samples.
    """

    trees: Trees
    real: type[np.floating[Any]]
    features: list[int] = field(default_factory=list[int])
    splits: list[float] = field(default_factory=list[float])
    left: list[int] = field(default_factory=list[int])
    #: The model's node of each node.
    origins: list[int] = field(default_factory=list[int])

    def place(self, origin: int) -> int:
        """Room for a node; a leaf until its branches are set."""
        self.features.append(0)
        self.splits.append(0.0)
        self.left.append(len(self.left))
        self.origins.append(origin)
        return len(self.left) - 1

    def ask(self, at: int, feature: int, split: float, missing: bool, sides: tuple[int, int]) -> int:
        """Make node `at` ask x[feature] <= split, NaN going left where `missing`: its left branch's place."""
        self.features[at] = -1 - feature if missing else feature
        self.splits[at] = split
        self.left[at] = self.place(sides[0])
        self.place(sides[1])
        return self.left[at]

    def branch(self, at: int) -> list[int]:
        """Places of the branches of the model's node at `at`, which are made."""
        trees, node = self.trees, self.origins[at]
        mode, feature, missing = trees.modes[node], trees.features[node], trees.missing[node]
        yes, no, split = trees.yes[node], trees.no[node], self.real(trees.splits[node])
        below = float(np.nextafter(split, self.real(-np.inf))) if split > -np.inf else float("nan")
        split = float(split)
        if mode in (0, 1):
            left = self.ask(at, feature, split if mode == 0 else below, missing, (yes, no))
            return [left, left + 1]
        if mode in (2, 3):
            left = self.ask(at, feature, below if mode == 2 else split, not missing, (no, yes))
            return [left, left + 1]
        if mode == 5:
            yes, no, missing = no, yes, False
        inner = self.ask(at, feature, split, missing, (node, no))
        left = self.ask(inner, feature, below, False, (no, yes))
        return [inner + 1, left, left + 1]


def forest_of(trees: Trees, real: type[np.floating[Any]]) -> Forest | None:
    """The trees as `TreeSumsOp` takes them; None where that would take far more nodes."""
    forest = Forest(trees, real)
    todo = [forest.place(root) for root in trees.roots]
    most = MOST_COPIES * len(trees.features) + 64
    for at in todo:
        node = forest.origins[at]
        if trees.yes[node] != node or trees.no[node] != node:
            todo += forest.branch(at)
        if len(forest.left) > most:
            return None
    return forest


def sums_of(g: Emitter, x: Value, trees: Trees, targets: int, aggregate: str, dtype: Any) -> Value:
    """Scores [N, targets] of x [N, F]."""
    width = shape(x)[1]
    for node, feature in enumerate(trees.features):
        if trees.yes[node] != node and not 0 <= feature < width:
            raise RuleError(f"attribute 'nodes_featureids' asks for feature {feature} of {width}")
    forest, real = None, dtype_of_value(x).type
    if aggregate in ("SUM", "AVERAGE") and real in (np.float32, np.float64) and trees.roots:
        forest = forest_of(trees, real) if targets <= MOST_TARGETS else None
    if forest is None:
        return scores_of(g, leaves_of(g, x, trees), trees, targets, aggregate, dtype)
    table = _leaf_weights(trees, targets)[forest.origins].astype(real)
    columns = [np.array(c, np.int32) for c in (forest.features, forest.left, range(len(trees.roots)))]
    splits = np.array(forest.splits, real)
    depth = trees.depth() * (2 if {4, 5} & set(trees.modes) else 1)  # questions of equality are two
    score = g(TreeSumsOp, x, columns[0], splits, columns[1], table, columns[2], depth=depth)
    if aggregate == "AVERAGE":
        score = g(MulOp, score, g.like(1 / len(trees.roots), score))
    return cast_to(g, score, np.dtype(dtype))


def _leaf_weights(trees: Trees, targets: int) -> Array:
    """The value that each node adds to each target."""
    table = np.zeros((len(trees.features), targets), np.float64)
    for node, target, weight in trees.weights:
        table[node, target] += weight
    return table


def _compare(g: Emitter, mode: int, value: Value, split: Value) -> Value:
    if mode == 5:
        return g(NotOp, g(CmpEqOp, value, split))
    return g(COMPARE[mode], value, split)


def scores_of(g: Emitter, leaves: Value, trees: Trees, targets: int, aggregate: str, dtype: Any) -> Value:
    """Scores [N, targets]: the leaves' weights, aggregated over the trees."""
    if aggregate in ("SUM", "AVERAGE"):
        table = _leaf_weights(trees, targets)
    else:
        table = np.full((len(trees.features), targets), np.inf if aggregate == "MIN" else -np.inf)
        for node, target, weight in trees.weights:
            table[node, target] = weight
    picked = take(g, table.astype(dtype), leaves, 0)
    if aggregate == "SUM":
        return g(ReduceSumOp, picked, axes=(1,), keepdims=False)
    if aggregate == "AVERAGE":
        return g(ReduceMeanOp, picked, axes=(1,), keepdims=False)
    best = g(ReduceMinOp if aggregate == "MIN" else ReduceMaxOp, picked, axes=(1,), keepdims=False)
    untouched: Array = np.asarray(~np.isfinite(table).any(axis=0))
    return g(SelectOp, untouched, g.like(0, best), best) if untouched.any() else best


def tree_ensemble(g: Emitter, n: Node) -> Value:
    """TreeEnsemble (version 5): interior nodes and leaves in separate lists."""
    x = n[0]
    with tables_of(n):
        trees = _new_form(n)
    aggregate = _numbered(AGGREGATE, n, "aggregate_function", 1)
    count = n.integer("n_targets")
    _check_targets(trees, count, "leaf_targetids", "n_targets")
    scores = sums_of(g, x, trees, count, aggregate, dtype_of_value(x))
    return post_transform(g, scores, _numbered(POST, n, "post_transform", 0))


def _numbered(names: tuple[str, ...], n: Node, attribute: str, default: int) -> str:
    number = n.integer(attribute, default)
    if not 0 <= number < len(names):
        raise RuleError(f"{attribute} {number}, expected at most {len(names) - 1}")
    return names[number]


def _new_form(n: Node) -> Trees:
    trees = Trees()
    modes = _array(n, "nodes_modes").astype(int).tolist()
    splits = _array(n, "nodes_splits").astype(float).tolist()
    features = n.integers("nodes_featureids")
    missing = n.integers("nodes_missing_value_tracks_true") or (0,) * len(modes)
    check_alike("nodes_modes", len(modes), nodes_splits=splits, nodes_featureids=features)
    check_alike("nodes_modes", len(modes), nodes_missing_value_tracks_true=missing)
    for name in ("nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs"):
        check_alike("nodes_modes", len(modes), **{name: n.integers(name)})
    members = _groups(n.tensor("membership_values"))
    first: list[int] = []
    last: list[list[int]] = []
    for index, mode in enumerate(modes):
        if mode == 6:
            chain = [trees.add(features[index], float(v), 4, bool(missing[index])) for v in next(members, ())]
        else:
            chain = [trees.add(features[index], splits[index], mode, bool(missing[index]))]
        first.append(chain[0])
        last.append(chain)
    weights = _array(n, "leaf_weights").astype(float).tolist()
    targets: tuple[int, ...] = n.integers("leaf_targetids") or ()
    check_alike("leaf_weights", len(weights), leaf_targetids=targets)
    leaves: list[int] = []
    for target, weight in zip(targets, weights, strict=True):
        leaf = trees.add(0, 0.0, 0)
        trees.weights.append((leaf, target, weight))
        leaves.append(leaf)
    for side, ids, leaf_flags in (
        ("yes", n.integers("nodes_truenodeids"), n.integers("nodes_trueleafs")),
        ("no", n.integers("nodes_falsenodeids"), n.integers("nodes_falseleafs")),
    ):
        for index, (to, is_leaf) in enumerate(zip(ids, leaf_flags, strict=True)):
            goal = leaves[int(to)] if is_leaf else first[int(to)]
            chain = last[index]
            for position, node in enumerate(chain):
                if side == "yes":
                    trees.yes[node] = goal
                else:
                    trees.no[node] = chain[position + 1] if position + 1 < len(chain) else goal
    trees.roots = [first[r] for r in n.integers("tree_roots")]
    return trees


def _groups(values: Array | None) -> Any:
    """Member sets, which NaN separates."""
    group: list[float] = []
    for value in [] if values is None else values.reshape(-1).tolist():
        if np.isnan(value):
            yield group
            group = []
        else:
            group.append(value)
    if group:
        yield group


def _array(n: Node, name: str) -> Array:
    tensor = n.tensor(name)
    if tensor is None:
        raise RuleError(f"attribute '{name}' is missing")
    return tensor


def _old_form(n: Node, prefix: str) -> Trees:
    """TreeEnsembleClassifier and Regressor: nodes named by tree and number."""
    trees = Trees()
    tree_ids, node_ids = n.integers("nodes_treeids", ()), n.integers("nodes_nodeids", ())
    splits = n.tensor("nodes_values_as_tensor")
    values = n.numbers("nodes_values") if splits is None else splits.reshape(-1).tolist()
    missing = n.integers("nodes_missing_value_tracks_true") or (0,) * len(node_ids)
    names = n.texts("nodes_modes")
    features = n.integers("nodes_featureids")
    yes, no = n.integers("nodes_truenodeids"), n.integers("nodes_falsenodeids")
    each = {"nodes_treeids": tree_ids, "nodes_values": values, "nodes_missing_value_tracks_true": missing}
    each |= {"nodes_modes": names, "nodes_featureids": features}
    each |= {"nodes_truenodeids": yes, "nodes_falsenodeids": no}
    check_alike("nodes_nodeids", len(node_ids), **each)
    index: dict[tuple[int, int], int] = {}
    for i, key in enumerate(zip(tree_ids, node_ids, strict=True)):
        mode = 0 if names[i] == "LEAF" else MODES.index(names[i])
        index[key] = trees.add(features[i], values[i], mode, bool(missing[i]))
    reached: set[int] = set()
    for i, tree in enumerate(tree_ids):
        if names[i] != "LEAF":
            trees.yes[i], trees.no[i] = index[tree, yes[i]], index[tree, no[i]]
            reached |= {trees.yes[i], trees.no[i]}
    trees.roots = [i for i in range(len(node_ids)) if i not in reached]
    weights = n.tensor(f"{prefix}_weights_as_tensor")
    numbers = n.numbers(f"{prefix}_weights") if weights is None else weights.reshape(-1).tolist()
    ids: dict[str, Any] = {f"{prefix}_{kind}": n.integers(f"{prefix}_{kind}") for kind in LEAVES}
    check_alike(f"{prefix}_weights", len(numbers or ()), **ids)
    of_trees, of_nodes, targets = ids.values()
    keys = zip(of_trees, of_nodes, strict=True)
    for key, target, weight in zip(keys, targets, numbers, strict=True):
        trees.weights.append((index[key], target, weight))
    return trees


def _check_targets(trees: Trees, count: int, ids: str, targets: str) -> None:
    """A RuleError where weights are for targets that there are not."""
    if count < 1:
        raise RuleError(f"attribute '{targets}' gives {count} targets, expected at least 1")
    for _, target, _ in trees.weights:
        if not 0 <= target < count:
            raise RuleError(f"attribute '{ids}' has {target}, where '{targets}' gives {count} targets")


def _base(n: Node) -> Array | None:
    tensor = n.tensor("base_values_as_tensor")
    if tensor is not None:
        return tensor.reshape(-1)
    values = n.numbers("base_values")
    return np.array(values, np.float32) if values else None


def _features(g: Emitter, n: Node) -> Value:
    x = n[0]
    if dtype_of_value(x).kind != "f":
        x = cast_to(g, x, np.dtype(np.float32))
    return x if rank(x) == 2 else g.reshape(x, (1, *shape(x)))


def regressor(g: Emitter, n: Node) -> Value:
    """TreeEnsembleRegressor."""
    x = _features(g, n)
    with tables_of(n):
        trees = _old_form(n, "target")
    aggregate, count = n.text("aggregate_function", "SUM"), n.integer("n_targets")
    _check_targets(trees, count, "target_ids", "n_targets")
    scores = sums_of(g, x, trees, count, aggregate, np.float32)
    base = _base(n)
    if base is not None:
        scores = g(AddOp, scores, base.astype(np.float32))
    return post_transform(g, scores, n.text("post_transform", "NONE"))


def classifier(g: Emitter, n: Node) -> list[Value]:
    """TreeEnsembleClassifier: labels and scores; weights for one of two classes imply the other's."""
    x = _features(g, n)
    with tables_of(n):
        trees = _old_form(n, "class")
    labels = class_labels(n)
    _check_targets(trees, len(labels), "class_ids", "classlabels_*")
    ids = {target for _, target, _ in trees.weights}
    binary = len(labels) == 2 and len(ids) == 1
    if binary:
        trees.weights = [(node, 0, weight) for node, _, weight in trees.weights]
    count = 1 if binary else len(labels)
    scores = sums_of(g, x, trees, count, "SUM", np.float32)
    base = _base(n)
    if base is not None and base.size == count:
        scores = g(AddOp, scores, base.astype(np.float32))
    post = n.text("post_transform", "NONE")
    if not binary:
        return [pick_labels(g, scores, labels), post_transform(g, scores, post)]
    one = post_transform(g, scores, post)
    if post == "NONE" and all(w >= 0 for _, _, w in trees.weights) or post == "LOGISTIC":
        other, border = g(SubOp, g.like(1, one), one), 0.5
    else:
        other, border = g(MulOp, one, g.like(-1, one)), 0.0
    both = join(g, [other, one], 1)
    chosen = g.reshape(g(CmpGtOp, one, g.like(border, one)), (shape(one)[0],))
    picks = cast_to(g, chosen, np.dtype(np.int64))
    if labels.dtype == object:
        return [labels[g.known(picks, "a label that is a string")], both]
    return [take(g, labels, picks, 0), both]


RULES: dict[str, Versions] = {
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
}
