"""Handwritten digits (scikit-learn's 8x8 images) with a small network, against the same in PyTorch.

python examples/training/digits_mlp.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from recipes import Array, Weights, batches, constants, show, train_in_pytorch, uniform
from sklearn.datasets import load_digits

import glow_compiler as glow

EPOCHS, BATCH, RATE, MOMENTUM = 20, 32, 0.1, 0.9


def data() -> tuple[Array, Array, Array, Array]:
    """(training images, labels, test images, labels): 1437 and 360 of them."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1437], order[1437:]
    return x[train], y[train], x[test], y[test]


def weights() -> Weights:
    """64 -> 128 -> 10."""
    return uniform(
        {
            "hidden.weight": ((64, 128), 64),
            "hidden.bias": ((128,), 64),
            "out.weight": ((128, 10), 128),
            "out.bias": ((10,), 128),
        }
    )


def network(start: Weights) -> glow.GraphBuilder:
    """The network with its initial weights as constants."""
    g = glow.GraphBuilder()
    w = constants(g, start)
    x = g.placeholder("image", (BATCH, 64))
    hidden = g.relu(g.fully_connected(x, w["hidden.weight"], w["hidden.bias"]))
    g.save(g.fully_connected(hidden, w["out.weight"], w["out.bias"]), "scores")
    return g


def forward(w: Any, x: Any) -> Any:
    """The same network on PyTorch's tensors."""
    hidden = (x @ w["hidden.weight"] + w["hidden.bias"]).relu()
    return hidden @ w["out.weight"] + w["out.bias"]


def train(backend: str = "cpu") -> float:
    """Accuracy on the test images after training with Glow."""
    x, y, test_x, test_y = data()
    optimizer = glow.optim.SGD(RATE, momentum=MOMENTUM)
    trainer = glow.Trainer(network(weights()), "cross_entropy", optimizer, backend=backend)
    for images, labels in batches(x, y, EPOCHS, BATCH):
        trainer.step(images, labels)
    return trainer.evaluate(test_x, test_y)["accuracy"]


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    import torch

    x, y, test_x, test_y = data()
    w = {n: torch.tensor(a, requires_grad=True) for n, a in weights().items()}
    optimizer = torch.optim.SGD(w.values(), RATE, momentum=MOMENTUM)
    train_in_pytorch(lambda images: forward(w, images), optimizer, batches(x, y, EPOCHS, BATCH))
    return float((forward(w, torch.tensor(test_x)).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    show("digits_mlp", train, train_with_pytorch)
