"""A character model of the repository's own documents: an LSTM predicts the next character at each place.

python examples/training/char_rnn.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from recipes import SEED, Array, show, train_in_pytorch
from recurrent import PyTorchNetwork, network, weights

import glow_compiler as glow

DOCUMENTS = Path(__file__).parents[2] / "docs"
STEPS, BATCH, LENGTH, HIDDEN, CHARACTERS = 1000, 16, 20, 64, 64
RATE = 0.01
START = weights(CHARACTERS, HIDDEN, CHARACTERS)


@cache
def text() -> str:
    """The documents, lower case."""
    return "".join(p.read_text(encoding="utf-8") for p in sorted(DOCUMENTS.glob("*.md"))).lower()


def digest() -> str:
    """Of the text: an accuracy is that of a text, and documents change."""
    return sha256(text().encode()).hexdigest()


@cache
def data() -> tuple[Array, Array]:
    """The text as codes, the part to learn from and the last tenth.

    The most frequent characters have codes; others count as a space.
    """
    common = sorted(set(text()), key=lambda c: (-text().count(c), c))[:CHARACTERS]
    codes = {c: i for i, c in enumerate(common)}
    found = np.array([codes.get(c, codes[" "]) for c in text()])
    return np.split(found, [len(found) * 9 // 10])


def batch(codes: Array, step: int) -> tuple[Array, Array]:
    """(one-hot characters [T, N, C], the next ones [T N])."""
    starts = np.random.default_rng([SEED, step]).integers(0, len(codes) - LENGTH - 1, BATCH)
    windows = np.stack([codes[s : s + LENGTH + 1] for s in starts], axis=1)
    return np.eye(CHARACTERS, dtype=np.float32)[windows[:-1]], windows[1:].reshape(-1)


def share_right(predict: Callable[[Array], Array]) -> float:
    """How many of the next characters are predicted right, in text that training did not see."""
    rows = [batch(data()[1], i) for i in range(50)]
    return float(np.mean([predict(x).argmax(1) == y for x, y in rows]))


def train(backend: str = "cpu") -> float:
    """Share of right predictions after training with Glow."""
    model = network(START, LENGTH, BATCH, every=True)
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.Adam(RATE), backend=backend)
    for step in range(STEPS):
        trainer.step(*batch(data()[0], step))
    return share_right(trainer.predict)


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    import torch

    net = PyTorchNetwork(START, every=True)
    optimizer = torch.optim.Adam(net.parameters, RATE)
    train_in_pytorch(net, optimizer, (batch(data()[0], step) for step in range(STEPS)))
    with torch.no_grad():
        return share_right(lambda x: net(torch.tensor(x)).numpy())


if __name__ == "__main__":
    show("char_rnn", train, train_with_pytorch)
