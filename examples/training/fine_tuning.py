"""Fine-tuning: an ONNX model that knows the digits 0 to 4 learns 5 to 9 by its last layer alone.

python examples/training/fine_tuning.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from digits_mlp import BATCH, data, forward, network, weights
from recipes import Array, batches, show, train_in_pytorch

import glow_compiler as glow

FIRST, SECOND, RATE = 15, 15, 0.1


def parts() -> tuple[list[tuple[Array, Array]], list[tuple[Array, Array]]]:
    """Training and test samples of the digits 0 to 4 and of 5 to 9, labels 0 to 4."""
    x, y, test_x, test_y = data()
    train = [(x[y < 5], y[y < 5]), (x[y >= 5], y[y >= 5] - 5)]
    test = [(test_x[test_y < 5], test_y[test_y < 5]), (test_x[test_y >= 5], test_y[test_y >= 5] - 5)]
    return train, test


def pretrain(path: Path, backend: str) -> None:
    """Train on the first digits and export the model."""
    first, _ = parts()[0]
    trainer = glow.Trainer(network(weights()), "cross_entropy", glow.optim.SGD(RATE), backend=backend)
    for images, labels in batches(*first, FIRST, BATCH):
        trainer.step(images, labels)
    trainer.export(path)


def train(backend: str = "cpu") -> float:
    """Accuracy on the other digits after training the last layer of the exported model."""
    (_, second), (_, test) = parts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        pretrain(path, backend)
        optimizer = glow.optim.SGD(RATE)
        trainer = glow.Trainer(path, "cross_entropy", optimizer, trainable=["out.*"], backend=backend)
    for images, labels in batches(*second, SECOND, BATCH):
        trainer.step(images, labels)
    return trainer.evaluate(*test)["accuracy"]


def train_with_pytorch() -> float:
    """The same recipe in PyTorch, the first part too."""
    import torch

    (first, second), (_, (test_x, test_y)) = parts()
    w = {n: torch.tensor(a, requires_grad=True) for n, a in weights().items()}
    for samples, epochs, names in ((first, FIRST, list(w)), (second, SECOND, ["out.weight", "out.bias"])):
        optimizer = torch.optim.SGD([w[n] for n in names], RATE)
        train_in_pytorch(lambda images: forward(w, images), optimizer, batches(*samples, epochs, BATCH))
    return float((forward(w, torch.tensor(test_x)).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    show("fine_tuning", train, train_with_pytorch)
