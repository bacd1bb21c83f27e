"""A sequence task that needs memory: which symbol came right after the marker, steps ago?

python examples/training/lstm_sequence.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from networks import exported
from torch import nn

import glow_compiler as glow

STEPS, BATCH, LENGTH, SYMBOLS = 600, 32, 10, 4


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """(one-hot symbols and the marker [T, N, symbols + 1], the symbol after the marker [N])."""
    rng = np.random.default_rng(step)
    codes = rng.integers(0, SYMBOLS, (LENGTH, BATCH))
    marker = rng.integers(0, LENGTH - 3, BATCH)
    answer = codes[marker + 1, np.arange(BATCH)]
    codes[marker, np.arange(BATCH)] = SYMBOLS
    return np.eye(SYMBOLS + 1, dtype=np.float32)[codes], answer


class Network(nn.Module):
    """LSTM and a classifier of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(SYMBOLS + 1, 32)
        self.head = nn.Linear(32, SYMBOLS)

    def forward(self, x: Any) -> Any:
        """Scores [N, symbols]."""
        return self.head(self.lstm(x)[0][-1])


def network() -> Network:
    """The network with its initial weights."""
    torch.manual_seed(0)
    return Network()


def accuracy(predict: Any) -> float:
    """Share of right answers over batches that training did not see."""
    rows = [batch(10_000 + i) for i in range(20)]
    return float(np.mean([predict(x).argmax(1) == y for x, y in rows]))


def train(backend: str = "cpu") -> float:
    """Accuracy after training with Glow."""
    model = exported(network(), torch.tensor(batch(0)[0]))
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.Adam(lr=0.01, clip_norm=1.0), backend=backend)
    for step in range(STEPS):
        trainer.step(*batch(step))
    return accuracy(glow.compile(trainer.module(), backend))


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y)).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        return accuracy(lambda x: net(torch.tensor(x)).numpy())


if __name__ == "__main__":
    print(f"glow    {train():.4f}")
    print(f"pytorch {train_with_pytorch():.4f}")
