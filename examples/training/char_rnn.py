"""A character model of the repository's licence text: an LSTM predicts the next character at each place.

python examples/training/char_rnn.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks import exported
from torch import nn

import glow_compiler as glow

TEXT = Path(__file__).parents[2] / "LICENSE"
STEPS, BATCH, LENGTH, HIDDEN, CHARACTERS = 300, 16, 20, 64, 64


def data() -> np.ndarray:
    """The text as codes: the most frequent characters, lower case; others count as a space."""
    text = TEXT.read_text(encoding="utf-8").lower()
    common = sorted(set(text), key=lambda c: -text.count(c))[:CHARACTERS]
    codes = {c: i for i, c in enumerate(common)}
    return np.array([codes.get(c, codes[" "]) for c in text])


def batch(codes: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """(one-hot characters [T, N, C], the next ones [T N])."""
    starts = np.random.default_rng(step).integers(0, len(codes) - LENGTH - 1, BATCH)
    windows = np.stack([codes[s : s + LENGTH + 1] for s in starts], axis=1)
    return np.eye(CHARACTERS, dtype=np.float32)[windows[:-1]], windows[1:].reshape(-1)


class Network(nn.Module):
    """LSTM and a classifier of every state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(CHARACTERS, HIDDEN)
        self.head = nn.Linear(HIDDEN, CHARACTERS)

    def forward(self, x: Any) -> Any:
        """Scores [T N, C]."""
        return self.head(self.lstm(x)[0].reshape(-1, HIDDEN))


def network() -> Network:
    """The network with its initial weights."""
    torch.manual_seed(0)
    return Network()


def share_right(predict: Any, codes: np.ndarray) -> float:
    """How many of the next characters are predicted right, over batches that training did not see."""
    rows = [batch(codes, 10_000 + i) for i in range(10)]
    return float(np.mean([predict(x).argmax(1) == y for x, y in rows]))


def train(backend: str = "cpu") -> float:
    """Share of right predictions after training with Glow."""
    codes = data()
    model = exported(network(), torch.tensor(batch(codes, 0)[0]))
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.Adam(lr=0.01), backend=backend)
    for step in range(STEPS):
        trainer.step(*batch(codes, step))
    net = glow.compile(trainer.module(), backend)
    return share_right(net, codes)


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    codes, net = data(), network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = batch(codes, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y)).backward()
        optimizer.step()
    with torch.no_grad():
        return share_right(lambda x: net(torch.tensor(x)).numpy(), codes)


if __name__ == "__main__":
    print(f"glow    {train():.4f}")
    print(f"pytorch {train_with_pytorch():.4f}")
