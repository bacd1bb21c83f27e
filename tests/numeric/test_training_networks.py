"""Gradients of whole networks, imported from ONNX, against PyTorch's autograd on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_export import exported_for_training

import glow_compiler as glow
from glow_compiler.trainer import Trainer
from glow_dialects.core.sample import random
from glow_dialects.core.types import Array

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
nn = torch.nn


def check(net: Any, x: Array, labels: Array, backend: str, steps: int = 1, tolerance: float = 1e-4) -> None:
    """Loss and every gradient of a step; weights after several steps."""
    net.eval()
    model = exported_for_training(net, torch.tensor(x))
    net.train()
    trainer = Trainer(model, "cross_entropy", glow.optim.SGD(lr=0.1), backend=backend)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    names = {n for n, _ in net.named_parameters()}
    assert len(trainer.parameters()) == len(names)
    for _ in range(steps):
        before = trainer.parameters()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        assert trainer.step({trainer.inputs[0].name: x}, labels) == pytest.approx(loss.item(), rel=tolerance)
        after = trainer.parameters()
        for name, parameter in net.named_parameters():
            if name not in before:
                continue  # the exporter renamed it: weights after the steps are compared below
            got, want = (before[name] - after[name]) / 0.1, parameter.grad.numpy()
            scale = max(np.abs(want).max(), 1e-3)
            assert np.abs(got - want).max() <= tolerance * scale + 1e-6, name
        optimizer.step()
    net.eval()
    with torch.no_grad():
        want = net(torch.tensor(x)).numpy()
    np.testing.assert_allclose(trainer.predict({trainer.inputs[0].name: x}), want, rtol=1e-3, atol=1e-4)


class Words(nn.Module):
    """An embedding, averaged over the sequence, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        """Logits for [N, T] word numbers."""
        return self.head(self.embedding(x).mean(1))


def lenet() -> Any:
    """LeNet-5 with max pooling."""
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


class Residual(nn.Module):
    """A ResNet18 basic block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.b = nn.BatchNorm2d(outputs)
        self.c = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.d = nn.BatchNorm2d(outputs)
        self.e = None
        if stride != 1 or inputs != outputs:
            self.e = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """relu(two convolutions + shortcut)."""
        y = self.d(self.c(torch.relu(self.b(self.a(x)))))
        return torch.relu(y + (x if self.e is None else self.e(x)))


class Sequence(nn.Module):
    """An LSTM over a sequence and a classifier of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Logits for [T, N, 5]."""
        return self.head(self.lstm(x)[0][-1])


class Attention(nn.Module):
    """A transformer block of two heads over 6 places of 8 numbers, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Logits for [N, 6, 8]."""
        q, k, v = self.qkv(self.first(x)).reshape(-1, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(-1, 6, 8))
        x = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return self.head(x.mean(1))


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_lenet(backend: str) -> None:
    """Convolutions, pools, fully connected layers."""
    torch.manual_seed(0)
    check(lenet(), random(4, 1, 28, 28), np.array([3, 0, 9, 3]), backend, steps=3)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_resnet_blocks(backend: str) -> None:
    """Batch statistics, strided convolutions, shortcuts; running averages for inference."""
    torch.manual_seed(0)
    net = nn.Sequential(
        Residual(3, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )
    check(net, random(6, 3, 8, 8), np.array([0, 1, 2, 3, 4, 0]), backend, steps=3)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_lstm(backend: str) -> None:
    """A recurrent network, unrolled for its gradient."""
    torch.manual_seed(0)
    net = Sequence()
    net.eval()
    model = exported_for_training(net, torch.tensor(random(4, 2, 5)))
    trainer = Trainer(model, "cross_entropy", glow.optim.SGD(lr=0.1), backend=backend)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, labels = random(4, 2, 5), np.array([0, 2])
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, labels) == pytest.approx(loss.item(), rel=1e-4)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_transformer_block(backend: str) -> None:
    """Attention, layer normalisation, GELU."""
    torch.manual_seed(0)
    check(Attention(), random(3, 6, 8), np.array([0, 1, 2]), backend, steps=3)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_embedding(backend: str) -> None:
    """Rows that are used several times get the sum of their gradients."""
    torch.manual_seed(0)
    words = np.random.default_rng(0).integers(0, 11, (4, 7))
    check(Words(), words, np.array([0, 1, 2, 1]), backend, steps=3)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_group_norm(backend: str) -> None:
    """Scales that the backward pass reads through a reshape keep their old values until it has."""
    torch.manual_seed(0)
    layers: list[Any] = []
    for _ in range(3):
        layers += [nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 25, 3))
    for norm in net:
        if isinstance(norm, nn.GroupNorm):
            nn.init.uniform_(norm.weight, 0.5, 2.0)
            nn.init.uniform_(norm.bias)
    check(net, random(3, 4, 5, 5), np.array([0, 1, 2]), backend, steps=4)
