"""A sequence task that needs memory: which symbol came right after the marker, steps ago?

python examples/training/lstm_sequence.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from recipes import SEED, Array, show, train_in_pytorch
from recurrent import PyTorchNetwork, network, weights

import glow_compiler as glow

STEPS, BATCH, LENGTH, SYMBOLS, HIDDEN = 600, 32, 10, 4, 32
RATE, CLIP = 0.01, 1.0
START = weights(SYMBOLS + 1, HIDDEN, SYMBOLS)


def batch(step: int) -> tuple[Array, Array]:
    """(one-hot symbols and the marker [T, N, symbols + 1], the symbol after the marker [N])."""
    rng = np.random.default_rng([SEED, step])
    codes = rng.integers(0, SYMBOLS, (LENGTH, BATCH))
    marker = rng.integers(0, LENGTH - 3, BATCH)
    answer = codes[marker + 1, np.arange(BATCH)]
    codes[marker, np.arange(BATCH)] = SYMBOLS
    return np.eye(SYMBOLS + 1, dtype=np.float32)[codes], answer


def accuracy(predict: Callable[[Array], Array]) -> float:
    """Share of right answers over batches that training did not see."""
    rows = [batch(10_000 + i) for i in range(20)]
    return float(np.mean([predict(x).argmax(1) == y for x, y in rows]))


def train(backend: str = "cpu") -> float:
    """Accuracy after training with Glow."""
    model = network(START, LENGTH, BATCH, every=False)
    optimizer = glow.optim.Adam(RATE, clip_norm=CLIP)
    trainer = glow.Trainer(model, "cross_entropy", optimizer, backend=backend)
    for step in range(STEPS):
        trainer.step(*batch(step))
    return accuracy(trainer.predict)


def train_with_pytorch() -> float:
    """The same recipe in PyTorch."""
    import torch

    net = PyTorchNetwork(START, every=False)
    optimizer = torch.optim.Adam(net.parameters, RATE)
    train_in_pytorch(net, optimizer, map(batch, range(STEPS)), CLIP)
    with torch.no_grad():
        return accuracy(lambda x: net(torch.tensor(x)).numpy())


if __name__ == "__main__":
    show("lstm_sequence", train, train_with_pytorch)
