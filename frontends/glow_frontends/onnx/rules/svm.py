"""Rules of support vector machines: a kernel against every support vector, then sums."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.activation import ClipOp, SigmoidOp, TanhOp
from glow_dialects.ops.arg_reduce import ArgMaxOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, PowOp, SubOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.unary_math import ExpOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import join, take
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.ml import class_labels, pick_labels, post_transform
from glow_frontends.onnx.rules.rule import Versions

FLOAT = np.dtype(np.float32)


def _input(g: Emitter, n: Node) -> Value:
    x = cast_to(g, n[0], FLOAT)
    return x if rank(x) == 2 else g.reshape(x, (1, *shape(x)))


def _kernel(g: Emitter, n: Node, x: Value, vectors: Array) -> Value:
    """The kernel of each sample [N, F] and each vector [V, F] -> [N, V]."""
    gamma, bias, degree = (*(n.numbers("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    kind = n.text("kernel_type", "LINEAR")
    if kind == "RBF":
        wide = g.reshape(x, (shape(x)[0], 1, shape(x)[1]))
        away = g(SubOp, wide, vectors)
        return g(
            ExpOp,
            g(MulOp, g(ReduceSumOp, g(MulOp, away, away), axes=(2,), keepdims=False), g.like(-gamma, x)),
        )
    inner = product(g, x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return inner
    shifted = g(AddOp, g(MulOp, inner, g.like(gamma, x)), g.like(bias, x))
    if kind == "POLY":
        return g(PowOp, shifted, g.like(degree, x))
    if kind == "SIGMOID":
        return g(TanhOp, shifted)
    raise RuleError(f"kernel_type '{kind}'")


def regressor(g: Emitter, n: Node) -> Value:
    """SVMRegressor."""
    x = _input(g, n)
    count = n.integer("n_supports", 0)
    weights = np.array(n.numbers("coefficients"), FLOAT)
    if count:
        vectors = np.array(n.numbers("support_vectors"), FLOAT).reshape(count, -1)
        scores = product(g, _kernel(g, n, x, vectors), weights.reshape(-1, 1))
    else:
        scores = product(g, x, weights.reshape(-1, 1))
    scores = g(AddOp, scores, np.array(n.numbers("rho") or (0.0,), FLOAT)[:1])
    if n.flag("one_class"):
        above = cast_to(g, g(CmpGtOp, scores, g.like(0, scores)), FLOAT)
        return g(SubOp, g(MulOp, above, g.like(2, above)), g.like(1, above))
    return post_transform(g, scores, n.text("post_transform", "NONE"))


def classifier(g: Emitter, n: Node) -> list[Value]:
    """SVMClassifier: one decision a pair of classes, and votes; without vectors one a class."""
    x, labels = _input(g, n), class_labels(n)
    post = n.text("post_transform", "NONE")
    per_class = n.integers("vectors_per_class")
    weights = np.array(n.numbers("coefficients"), FLOAT)
    rho = np.array(n.numbers("rho") or (0.0,), FLOAT)
    if not per_class:
        scores = g(AddOp, product(g, x, np.ascontiguousarray(weights.reshape(len(labels), -1).T)), rho)
        return [pick_labels(g, scores, labels), post_transform(g, scores, post)]
    fitted = [np.array(n.numbers(name) or (), FLOAT) for name in ("prob_a", "prob_b")]
    if fitted[0].size:
        known_inputs(n)  # the iteration that couples pairs ends when data say so
    vectors = np.array(n.numbers("support_vectors"), FLOAT).reshape(sum(per_class), -1)
    decisions, votes = _pairs(per_class, weights.reshape(len(per_class) - 1, -1), rho)
    kernel = _kernel(g, n, x, vectors)
    scores = g(AddOp, product(g, kernel, decisions), rho[: decisions.shape[1]])
    won = cast_to(g, g(CmpGtOp, scores, g.like(0, scores)), FLOAT)
    lost = g(SubOp, g.like(1, won), won)
    total = g(AddOp, product(g, won, votes), product(g, lost, 1 - votes - _absent(per_class)))
    best = g(ArgMaxOp, total, axis=1, keepdims=False, select_last_index=False)
    if fitted[0].size:
        scores = _probabilities(g, scores, fitted, len(per_class))
    elif len(labels) == 2:
        scores = join(g, [g(MulOp, scores, g.like(-1, scores)), scores], 1)
    if labels.dtype == object:
        return [labels[g.known(best, "a label that is a string")], post_transform(g, scores, post)]
    return [take(g, labels, best, 0), post_transform(g, scores, post)]


def _probabilities(g: Emitter, scores: Value, fitted: list[Array], count: int) -> Value:
    """Probabilities [N, classes] from the decisions [N, pairs] by Platt's sigmoids."""
    pairs = shape(scores)[1]
    if any(part.size < pairs for part in fitted):
        raise RuleError(f"{min(p.size for p in fitted)} sigmoids for {pairs} pairs of classes")
    slope, offset = (part[:pairs] for part in fitted)
    argument = g(AddOp, g(MulOp, scores, slope), offset)
    first = g(ClipOp, g(SigmoidOp, g(MulOp, argument, g.like(-1, argument))), min=1e-7, max=1 - 1e-7)
    return _coupled(g.known(first, "probabilities of pairs"), count)


def _coupled(pairs: Array, count: int) -> Array:
    """Probabilities of classes from those of pairs, by Wu, Lin and Weng's second method (2004)."""
    rows = len(pairs)
    won = np.zeros((rows, count, count))
    for index, (i, j) in enumerate(combinations(range(count), 2)):
        won[:, i, j] = pairs[:, index]
        won[:, j, i] = 1 - pairs[:, index]
    system = -won * won.transpose(0, 2, 1)
    system[:, range(count), range(count)] = (won**2).sum(1)
    out = np.full((rows, count), 1 / count)
    active = np.ones(rows, bool)
    for _ in range(max(100, count)):
        image = np.einsum("nij,nj->ni", system, out)
        norm = (image * out).sum(1)
        active &= np.abs(image - norm[:, None]).max(1) >= 0.005 / count
        if not active.any():
            break
        updated = out.copy()
        for k in range(count):
            diagonal = system[:, k, k]
            step = (norm - image[:, k]) / diagonal
            updated[:, k] += step
            norm = (norm + step * (step * diagonal + 2 * image[:, k])) / (1 + step) ** 2
            image = (image + step[:, None] * system[:, k]) / (1 + step[:, None])
            updated /= 1 + step[:, None]
        out = np.where(active[:, None], updated, out)
    return out.astype(FLOAT)


def _pairs(per_class: tuple[int, ...], weights: Array, rho: Array) -> tuple[Array, Array]:
    """Coefficients [V, pairs] of each pair's decision, and [pairs, classes]: the winner."""
    count = len(per_class)
    starts = np.concatenate([[0], np.cumsum(per_class)])
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if rho.size < len(pairs):
        raise RuleError(f"{rho.size} offsets for {len(pairs)} pairs of classes")
    decisions = np.zeros((int(starts[-1]), len(pairs)), FLOAT)
    votes = np.zeros((len(pairs), count), FLOAT)
    for index, (i, j) in enumerate(pairs):
        decisions[starts[i] : starts[i + 1], index] = weights[j - 1, starts[i] : starts[i + 1]]
        decisions[starts[j] : starts[j + 1], index] = weights[i, starts[j] : starts[j + 1]]
        votes[index, i] = 1
    return decisions, votes


def _absent(per_class: tuple[int, ...]) -> Array:
    """[pairs, classes]: 1 for the classes that a pair is not about."""
    count = len(per_class)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    out = np.ones((len(pairs), count), FLOAT)
    for index, pair in enumerate(pairs):
        out[index, list(pair)] = 0
    return out


RULES: dict[str, Versions] = {"SVMClassifier": classifier, "SVMRegressor": regressor}
