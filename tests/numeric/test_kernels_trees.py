"""The kernels of tree ensembles against a walk of each sample through each tree."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data.tree_masks import (
    Shapes,
    TreeMasksSpec,
    emit_tree_masks,
    pack_masks,
    shapes_of,
)
from glow_backends.cpu.kernels.data.tree_order import order_of
from glow_backends.cpu.kernels.data.trees import TreesSpec, emit_trees, pack_trees
from glow_dialects.core.types import Array


def random_trees(rng: np.random.Generator, trees: int, width: int, targets: int, depth: int) -> list[Array]:
    """features, splits, left, weights, roots of trees of uneven depth."""
    features, left = [0] * trees, list(range(trees))
    todo = [(root, 0) for root in range(trees)]
    while todo:
        node, level = todo.pop()
        if level == depth or (level and rng.random() < 0.3):
            continue
        feature = int(rng.integers(width))
        features[node] = feature if rng.random() < 0.5 else -1 - feature
        left[node] = len(left)
        for _ in range(2):
            left.append(len(left))
            features.append(0)
        todo += [(left[node], level + 1), (left[node] + 1, level + 1)]
    splits = rng.standard_normal(len(left)).astype(np.float32)
    weights = rng.standard_normal((len(left), targets)).astype(np.float32)
    tables = np.array(features, np.int32), splits, np.array(left, np.int32)
    return [*tables, weights, np.arange(trees, dtype=np.int32)]


def descended(x: Array, tables: list[Array]) -> Array:
    """The sums, sample by sample and tree by tree."""
    features, splits, left, weights, roots = tables
    out = np.zeros((len(x), weights.shape[1]))
    for row, sample in zip(out, x, strict=True):
        for node in roots.tolist():
            while left[node] != node:
                feature = int(features[node])
                value = sample[feature if feature >= 0 else -1 - feature]
                stays = feature < 0 if np.isnan(value) else value <= splits[node]
                node = int(left[node]) + (not stays)
            row += weights[node]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("samples", [1, 3, 33, 300])
@pytest.mark.parametrize(("trees", "targets", "dtype"), [(1, 1, "f32"), (37, 1, "f64"), (90, 5, "f32")])
@pytest.mark.parametrize("missing", [False, True])
def test_sums(samples: int, trees: int, targets: int, dtype: str, missing: bool, threads: int) -> None:
    """Chains of samples and of trees, blocks that are not full, numbers that are missing."""
    rng = np.random.default_rng(samples + trees)
    real = np.float32 if dtype == "f32" else np.float64
    x = rng.standard_normal((samples, 6)).astype(real)
    x[samples // 2 :][rng.random(x[samples // 2 :].shape) < 0.1] = np.nan  # blocks without and with NaN
    features, splits, left, weights, roots = random_trees(rng, trees, 6, targets, 7)
    features = features if missing else np.where(features < 0, -1 - features, features)
    tables = [features, splits.astype(real), left, weights.astype(real), roots]
    packed = pack_trees(tables)
    form = missing, packed.bits, packed.wide, 256
    spec = TreesSpec(samples, 6, trees, targets, 7, *form, dtype)
    results = [((samples, targets), np.dtype(real))]
    (got,) = run_kernel(emit_trees, spec, results, [x, packed.nodes, packed.weights, packed.roots], threads)
    np.testing.assert_allclose(got, descended(x, tables), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("samples", [1, 8, 33, 100])
@pytest.mark.parametrize(
    ("trees", "targets", "depth", "dtype"),
    [
        (1, 1, 1, "f32"),
        (37, 1, 5, "f64"),
        (60, 5, 6, "f32"),
        (20, 2, 9, "f64"),
        (9, 2, 9, "f32"),
        (9, 1, 0, "f32"),
    ],
)
def test_masks(samples: int, trees: int, targets: int, depth: int, dtype: str, threads: int) -> None:
    """One word of bits and several, vectors that are not full, missing numbers, trees of one leaf."""
    rng = np.random.default_rng(samples + trees)
    real = np.float32 if dtype == "f32" else np.float64
    x = rng.standard_normal((samples, 6)).astype(real)
    x[rng.random(x.shape) < 0.1] = np.nan
    features, splits, left, weights, roots = random_trees(rng, trees, 6, targets, depth)
    x.flat[::7] = rng.choice(splits, x.flat[::7].size)
    weights[:, :-1] *= rng.random(targets - 1) < 0.5
    tables = [features, splits.astype(real), left, weights.astype(real), roots]
    columns, packed = pack_masks(tables, shapes_of(left, roots), 32 // x.itemsize)
    single = len(packed[1]) == trees
    spec = TreeMasksSpec(samples, 6, len(columns), trees, targets, len(packed[0]), single, dtype)
    results = [((samples, targets), np.dtype(real))]
    room = np.zeros(spec.scratch * threads, real)
    (got,) = run_kernel(emit_tree_masks, spec, results, [x, columns, *packed, room], threads)
    np.testing.assert_allclose(got, descended(x, tables), rtol=1e-4, atol=1e-4)


def test_order() -> None:
    """Every node has its place, branches lie next to each other, and two questions' nodes near each other."""
    rng = np.random.default_rng(1)
    features, _, left, _, roots = random_trees(rng, 5, 6, 1, 9)
    order = order_of(left, roots)
    assert order.nodes[order.roots].tolist() == roots.tolist()
    inner = np.flatnonzero(order.ways >= 0)
    assert sorted(order.nodes[order.nodes >= 0]) == list(range(len(features)))
    below = inner + order.ways[inner]
    np.testing.assert_array_equal(order.nodes[below], left[order.nodes[inner]])
    np.testing.assert_array_equal(order.nodes[below + 1], left[order.nodes[inner]] + 1)
    assert (order.ways[inner] <= 4).mean() > 0.6


def test_far_columns_take_long_words() -> None:
    """Ways and columns that 32 bits do not hold."""
    left = np.array([1, 1, 2], np.int32)
    weights, roots = np.array([[0], [1], [2]], np.float32), np.zeros(1, np.int32)
    tables = [np.array([1 << 30, 0, 0], np.int32), np.zeros(3, np.float32), left, weights, roots]
    packed = pack_trees(tables)
    assert packed.wide
    assert packed.nodes.view(np.int64)[:, 1].tolist()[0] & (1 << packed.bits) - 1 == 1 << 30


def test_what_is_asked_and_what_goes_down() -> None:
    """Uneven trees of hundreds of leaves are asked; even ones, and one about many columns, go down."""

    def uneven(trees: int, leaves: int) -> Shapes:
        nodes = 2 * leaves - 1
        each = np.minimum(np.arange(nodes) // 2 * 2 + 1, nodes - 2)
        each = np.where(np.arange(nodes) % 2 == 0, each, np.arange(nodes))  # every left branch is a leaf
        each[-1] = nodes - 1
        left = np.concatenate([each + nodes * t for t in range(trees)]).astype(np.int32)
        return shapes_of(left, (nodes * np.arange(trees)).astype(np.int32))

    def even(depth: int) -> Shapes:
        nodes = np.arange(2 ** (depth + 1) - 1)
        left = np.where(nodes < 2**depth - 1, 2 * nodes + 1, nodes).astype(np.int32)
        return shapes_of(left, np.zeros(1, np.int32))

    assert uneven(50, 200).worth(32, 20)
    assert even(6).worth(32, 2)
    assert not even(6).worth(32, 20)
    assert not even(9).worth(32, 2)
