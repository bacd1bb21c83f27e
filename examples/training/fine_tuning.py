"""Fine-tuning: an ONNX model that knows the digits 0 to 4 learns 5 to 9 by its last layer alone.

python examples/training/fine_tuning.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from digits_mlp import BATCH, Weights, batches, data, network, weights

import glow_compiler as glow

FIRST, SECOND = 15, 15
RATE = 0.1


def parts() -> tuple[list[tuple[np.ndarray, np.ndarray]], list[tuple[np.ndarray, np.ndarray]]]:
    """Training and test samples of the digits 0 to 4 and of 5 to 9, labels 0 to 4."""
    x, y, test_x, test_y = data()
    train = [(x[y < 5], y[y < 5]), (x[y >= 5], y[y >= 5] - 5)]
    test = [(test_x[test_y < 5], test_y[test_y < 5]), (test_x[test_y >= 5], test_y[test_y >= 5] - 5)]
    return train, test


def pretrained(path: Path, backend: str = "cpu") -> Weights:
    """Train on the first digits and export the model; returns its weights."""
    (x, y), _ = parts()[0]
    trainer = glow.Trainer(network(weights()), "cross_entropy", glow.optim.SGD(RATE), backend=backend)
    for epoch in range(FIRST):
        for chosen in batches(epoch, len(x)):
            trainer.step(x[chosen], y[chosen])
    trainer.export(path)
    return trainer.parameters()


def train(path: Path, backend: str = "cpu") -> float:
    """Accuracy on the other digits after training the last layer of the exported model."""
    (_, (x, y)), (_, (test_x, test_y)) = parts()
    trainer = glow.Trainer(
        path, "cross_entropy", glow.optim.SGD(RATE), trainable=["out.*"], batch=BATCH, backend=backend
    )
    for epoch in range(SECOND):
        for chosen in batches(epoch, len(x)):
            trainer.step(x[chosen], y[chosen])
    return trainer.evaluate(test_x, test_y)["accuracy"]


def train_with_pytorch(start: Weights) -> float:
    """The same recipe in PyTorch."""
    import torch

    (_, (x, y)), (_, (test_x, test_y)) = parts()
    w = {n: torch.tensor(a, requires_grad=n.startswith("out")) for n, a in start.items()}

    def scores(images: np.ndarray) -> torch.Tensor:
        hidden = torch.relu(torch.tensor(images) @ w["hidden.weight"] + w["hidden.bias"])
        return hidden @ w["out.weight"] + w["out.bias"]

    optimizer = torch.optim.SGD([w["out.weight"], w["out.bias"]], lr=RATE)
    for epoch in range(SECOND):
        for chosen in batches(epoch, len(x)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores(x[chosen]), torch.tensor(y[chosen])).backward()
            optimizer.step()
    return float((scores(test_x).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "digits.onnx"
        start = pretrained(model)
        print(f"glow    {train(model):.4f}")
        print(f"pytorch {train_with_pytorch(start):.4f}")
