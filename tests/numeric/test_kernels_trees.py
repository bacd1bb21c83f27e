"""The kernel of tree ensembles against a walk of each sample through each tree."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data.trees import TreesSpec, emit_trees
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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("samples", [1, 3, 33, 300])
@pytest.mark.parametrize(("trees", "targets"), [(1, 1), (37, 1), (90, 5)])
def test_sums(samples: int, trees: int, targets: int, threads: int) -> None:
    """Lanes of samples and of trees, blocks that are not full, numbers that are missing."""
    rng = np.random.default_rng(samples + trees)
    x = rng.standard_normal((samples, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    tables = random_trees(rng, trees, 6, targets, 7)
    spec = TreesSpec(samples, 6, trees, targets, 7)
    (got,) = run_kernel(emit_trees, spec, [((samples, targets), np.dtype(np.float32))], [x, *tables], threads)
    np.testing.assert_allclose(got, descended(x, tables), rtol=1e-4, atol=1e-4)
