"""A small network to train, and data for it."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.sample import random
from glow_dialects.core.types import Array
from glow_frontends.builder import GraphBuilder

BATCH = 8


def mlp(batch: int = BATCH, probabilities: bool = False) -> GraphBuilder:
    """6 -> 7 -> 4 with relu; weights are constants of the module."""
    g = GraphBuilder()
    x = g.placeholder("x", (batch, 6))
    w1, b1 = g.constant(random(6, 7, seed=1), "w1"), g.constant(random(7, seed=2), "b1")
    w2, b2 = g.constant(random(7, 4, seed=3), "w2"), g.constant(random(4, seed=4), "b2")
    y = g.fully_connected(g.relu(g.fully_connected(x, w1, b1)), w2, b2)
    g.save(g.softmax(y) if probabilities else y, "y")
    return g


def data(steps: int) -> list[tuple[Array, Array]]:
    """Batches that are not random noise only, so that training gets somewhere."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 6)).astype(np.float32)
    labels = rng.integers(0, 4, (steps, BATCH))
    noise = rng.normal(size=(steps, BATCH, 6)).astype(np.float32)
    return [(centres[y] + 0.5 * n, y) for y, n in zip(labels, noise, strict=True)]
