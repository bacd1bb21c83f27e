"""A convolutional network is trained natively in both layouts and by all workers, as PyTorch trains it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_compiler.trainer import Trainer
from glow_dialects.core.types import Array
from glow_frontends.builder import GraphBuilder

torch = pytest.importorskip("torch")
functional = torch.nn.functional

SHAPES = {
    "first": (24, 3, 3, 3),
    "first.bias": (24,),
    "scale": (24,),
    "shift": (24,),
    "second": (36, 24, 3, 3),
    "third": (32, 36, 3, 3),
    "third.bias": (32,),
    "across": (32, 24, 1, 1),
    "head": (32, 5),
}


def weights() -> dict[str, Array]:
    """First values, OIHW."""
    random = np.random.default_rng(0)
    made = {n: random.normal(size=s, scale=np.prod(s[1:]) ** -0.5) for n, s in SHAPES.items()}
    made["scale"] = np.abs(made["scale"]) + 0.5
    return {n: a.astype(np.float32) for n, a in made.items()}


def network(layout: str, batch: int) -> GraphBuilder:
    """Convolutions with and without stride, pools of both kinds, a normalisation, a shortcut."""
    g, last = GraphBuilder(), layout == "NHWC"
    w = {
        n: g.trainable(a.transpose(0, 2, 3, 1) if last and a.ndim == 4 else a, n)
        for n, a in weights().items()
    }
    x = g.placeholder("x", (batch, 16, 16, 3) if last else (batch, 3, 16, 16))
    pads: Any = (1, 1, 1, 1)
    y = g.conv(x, w["first"], w["first.bias"], pads=pads, layout=layout)
    mean, variance = (g.placeholder(n, (24,), kind="state") for n in ("mean", "variance"))
    y = g.batch_norm(y, w["scale"], w["shift"], mean, variance, layout=layout)
    y = g.max_pool(g.relu(y), (3, 3), strides=(2, 2), pads=pads, layout=layout)
    short = g.conv(y, w["across"], strides=(2, 2), layout=layout)
    y = g.relu(g.conv(y, w["second"], pads=pads, layout=layout))
    y = g.conv(y, w["third"], w["third.bias"], strides=(2, 2), pads=pads, layout=layout)
    y = g.avg_pool(g.relu(g.add(y, short)), (2, 2), strides=(2, 2), layout=layout)
    y = g.reduce_mean(y, (1, 2) if last else (2, 3))
    g.save(g.matmul(g.reshape(y, (batch, 32)), w["head"]), "y")
    return g


def reference(w: dict[str, Any], x: Any) -> Any:
    """The same in PyTorch, NCHW."""
    y = functional.conv2d(x, w["first"], w["first.bias"], padding=1)
    y = functional.batch_norm(y, None, None, w["scale"], w["shift"], training=True)
    y = functional.max_pool2d(torch.relu(y), 3, 2, 1)
    short = functional.conv2d(y, w["across"], stride=2)
    y = torch.relu(functional.conv2d(y, w["second"], padding=1))
    y = functional.conv2d(y, w["third"], w["third.bias"], stride=2, padding=1)
    y = functional.avg_pool2d(torch.relu(y + short), 2)
    return y.mean((2, 3)) @ w["head"]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layouts(layout: str, threads: int) -> None:
    """Loss and every gradient of a step; no instruction runs on the host."""
    random = np.random.default_rng(1)
    x = random.normal(size=(6, 3, 16, 16)).astype(np.float32)
    labels = random.integers(0, 5, 6)
    held = {n: torch.tensor(a).double().requires_grad_() for n, a in weights().items()}
    loss = functional.cross_entropy(reference(held, torch.tensor(x).double()), torch.tensor(labels))
    loss.backward()
    trainer = Trainer(network(layout, 6), "cross_entropy", glow.optim.SGD(lr=1.0), threads=threads)
    assert not trainer.report.notes["host instructions"]
    last = layout == "NHWC"
    before = trainer.parameters()
    got = trainer.step(x.transpose(0, 2, 3, 1) if last else x, labels)
    assert got == pytest.approx(loss.item(), rel=1e-5)
    after = trainer.parameters()
    for name, weight in held.items():
        found = before[name] - after[name]
        found = found.transpose(0, 3, 1, 2) if last and found.ndim == 4 else found
        want = weight.grad.numpy()
        if name == "first.bias":  # a shift in front of a normalisation has no effect
            assert np.abs(found).max() < 1e-5
            continue
        assert np.abs(found - want).max() <= 1e-4 * np.abs(want).max() + 1e-7, name
