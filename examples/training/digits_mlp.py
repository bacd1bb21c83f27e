"""Handwritten digits (scikit-learn's 8x8 images) with a small network, against the same in PyTorch.

python examples/training/digits_mlp.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import glow_compiler as glow

EPOCHS, BATCH = 20, 32
Weights = dict[str, np.ndarray]


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(training images, labels, test images, labels): 1437 and 360 of them."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1437], order[1437:]
    return x[train], y[train], x[test], y[test]


def weights() -> Weights:
    """64 -> 128 -> 10."""
    rng = np.random.default_rng(1)
    return {
        "hidden.weight": rng.normal(0, 0.18, (64, 128)).astype(np.float32),
        "hidden.bias": np.zeros(128, np.float32),
        "out.weight": rng.normal(0, 0.12, (128, 10)).astype(np.float32),
        "out.bias": np.zeros(10, np.float32),
    }


def network(start: Weights) -> glow.GraphBuilder:
    """The network with its initial weights as constants."""
    g = glow.GraphBuilder()
    w = {name: g.constant(array, name) for name, array in start.items()}
    x = g.placeholder("image", (BATCH, 64))
    hidden = g.relu(g.fully_connected(x, w["hidden.weight"], w["hidden.bias"]))
    g.save(g.fully_connected(hidden, w["out.weight"], w["out.bias"]), "scores")
    return g


def batches(epoch: int, count: int) -> list[np.ndarray]:
    """Sample numbers of each step of an epoch."""
    order = np.random.default_rng(epoch).permutation(count)
    return [order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH)]


def train(backend: str = "cpu") -> float:
    """Accuracy on the test images after training with Glow."""
    x, y, test_x, test_y = data()
    trainer = glow.Trainer(
        network(weights()), "cross_entropy", glow.optim.SGD(lr=0.1, momentum=0.9), backend=backend
    )
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            trainer.step(x[chosen], y[chosen])
    return trainer.evaluate(test_x, test_y)["accuracy"]


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    import torch

    x, y, test_x, test_y = data()
    w = {n: torch.tensor(a, requires_grad=True) for n, a in weights().items()}

    def scores(images: np.ndarray) -> torch.Tensor:
        hidden = torch.relu(torch.tensor(images) @ w["hidden.weight"] + w["hidden.bias"])
        return hidden @ w["out.weight"] + w["out.bias"]

    optimizer = torch.optim.SGD(w.values(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores(x[chosen]), torch.tensor(y[chosen])).backward()
            optimizer.step()
    return float((scores(test_x).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    print(f"glow    {train():.4f}")
    print(f"pytorch {train_with_pytorch():.4f}")
