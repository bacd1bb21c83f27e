"""Steps of fewer samples than a model was made for, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_export import exported

import glow_compiler as glow
from glow_dialects.core.errors import BindingError
from glow_dialects.core.sample import random

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
BATCH, CLASSES = 8, 4


class Attention(nn.Module):
    """A token that is put before the others, and places; heads and samples share an axis inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 6, 16) / 10)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Any) -> Any:
        """[N, 5, 16]."""
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


class Recurrent(nn.Module):
    """First states of zeros for each sample; the samples are axis 0 or 1."""

    def __init__(self, samples_first: bool) -> None:
        super().__init__()
        self.axis = int(samples_first)
        self.lstm = nn.LSTM(6, 12, bidirectional=True, num_layers=2, batch_first=samples_first)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x: Any) -> Any:
        """[N, T, 6] or [T, N, 6]."""
        return self.head(self.lstm(x)[0].select(self.axis, -1))


class Planes(nn.Module):
    """Statistics of the batch, shuffled channels, a resize."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(8)
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=4, padding=1)
        self.head = nn.Linear(8 * 8 * 8, CLASSES)

    def forward(self, x: Any) -> Any:
        """[N, 3, 8, 8]."""
        n = x.shape[0]
        x = self.norm(self.first(x)).relu().view(n, 4, 2, 8, 8).transpose(1, 2).reshape(n, 8, 8, 8)
        return self.head(F.max_pool2d(self.second(F.interpolate(x, scale_factor=2.0)), 2).flatten(1))


class Pair(nn.Module):
    """Two inputs, and a gather by the samples' numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(11, 8), nn.Linear(14, CLASSES)

    def forward(self, words: Any, x: Any) -> Any:
        """[N, 3] of 11 words, [N, 6]."""
        return self.head(torch.cat([self.words(words).mean(1), x[torch.arange(x.shape[0])]], 1))


CASES: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[Any, ...]]]] = {
    "attention": (Attention, lambda n: (torch.randn(n, 5, 16),)),
    "recurrent, samples first": (lambda: Recurrent(True), lambda n: (torch.randn(n, 5, 6),)),
    "recurrent": (lambda: Recurrent(False), lambda n: (torch.randn(5, n, 6),)),
    "planes": (Planes, lambda n: (torch.randn(n, 3, 8, 8),)),
    "pair": (Pair, lambda n: (torch.randint(0, 11, (n, 3)), torch.randn(n, 6))),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "interpreter") for name in CASES), ("attention", "cpu"), ("planes", "cpu")]
)
def test_fewer_samples(name: str, backend: str) -> None:
    """Whole and smaller batches in turn, with the states of the optimiser."""
    make, data = CASES[name]
    torch.manual_seed(1)
    net = make()
    model = exported(net, *data(BATCH), symbolic=False)
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.Adam(1e-2), backend=backend)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for count in (BATCH, 5, BATCH, 1, 5):
        inputs, labels = data(count), torch.arange(count) % CLASSES
        optimizer.zero_grad()
        loss = F.cross_entropy(net(*inputs), labels)
        loss.backward()
        optimizer.step()
        arrays = [i.numpy() for i in inputs]
        got = trainer.step(arrays if len(arrays) > 1 else arrays[0], labels.numpy())
        assert got == pytest.approx(loss.item(), rel=1e-4)


def test_models_that_mix_samples() -> None:
    """Two samples become a row: the model stays one for eight."""
    g = glow.GraphBuilder()
    w = g.constant(random(12, CLASSES), "w")
    g.save(g.matmul(g.reshape(g.placeholder("x", (BATCH, 6)), (4, 12)), w), "y")
    trainer = glow.Trainer(g, backend="interpreter")
    with pytest.raises(
        BindingError, match=r"a batch of 3 samples: glow.reshape.* does not keep samples apart"
    ):
        trainer.step(random(3, 6), np.zeros(3, np.int64))
