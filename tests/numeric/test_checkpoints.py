"""Checkpoints: what they belong to, and weights alone that any training takes from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_training import BATCH, data, mlp

import glow_compiler as glow
from glow_compiler import checkpoint
from glow_compiler.trainer import Trainer
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import random
from glow_frontends.builder import GraphBuilder
from glow_runtime.weights import save_arrays

optim = glow.optim


def test_other_checkpoints(tmp_path: Path) -> None:
    """Checkpoints of other trainings, and files that are none."""
    path = tmp_path / "a.safetensors"
    trainer = Trainer(mlp(), optimizer=optim.Adam(), backend="interpreter")
    trainer.save(path)
    other = Trainer(mlp(), optimizer=optim.SGD(lr=0.1), backend="interpreter")
    with pytest.raises(GlowError, match="checkpoint of another training"):
        other.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(GlowError, match="not a checkpoint"):
        trainer.load(path)
    with pytest.raises(GlowError, match="no such checkpoint"):
        trainer.load(tmp_path / "b.safetensors")


def other_network(kind: str, batch: int = BATCH) -> GraphBuilder:
    """Like `mlp` in names and shapes of its weights, with something else beside them."""
    g = GraphBuilder()
    x = g.placeholder("x", (batch, 6))
    w1, b1 = g.constant(random(6, 7, seed=1), "w1"), g.constant(random(7, seed=2), "b1")
    w2, b2 = g.constant(random(7, 4, seed=3), "w2"), g.constant(random(4, seed=4), "b2")
    hidden = g.fully_connected(x, w1, b1)
    match kind:
        case "tanh":
            hidden = g.tanh(hidden)
        case "leaky":
            hidden = g.leaky_relu(hidden, alpha=0.2)
        case "dropout":
            hidden = g.dropout(g.relu(hidden), ratio=0.5)
        case _:
            hidden = g.clip(g.relu(hidden), max=float(kind))
    g.save(g.fully_connected(hidden, w2, b2), "y")
    return g


@pytest.mark.parametrize(
    ("network", "loss", "optimizer", "message"),
    [
        ("tanh", "cross_entropy", optim.Adam(), r"operator \d+ is `relu .*` there, `tanh .*` here"),
        ("leaky", "cross_entropy", optim.Adam(), "`leaky_relu "),
        ("2", "cross_entropy", optim.Adam(), "`fully_connected .* there, `clip"),
        ("", "mse", optim.Adam(), "the loss is cross_entropy of 'y' there, mse of 'y' here"),
        ("", "cross_entropy", optim.AdamW(), "the optimizer is adam there, adamw here"),
    ],
)
def test_checkpoint_of_another_graph(
    tmp_path: Path, network: str, loss: str, optimizer: Any, message: str
) -> None:
    """Names and shapes are the same, the training is not: the difference is named, nothing is changed."""
    path = tmp_path / "a.safetensors"
    trainer = Trainer(mlp(), optimizer=optim.Adam(), backend="interpreter")
    trainer.step(*data(1)[0])
    trainer.save(path)
    built = other_network(network) if network else mlp()
    other = Trainer(built, loss, optimizer, backend="interpreter")
    before = other.parameters()
    with pytest.raises(GlowError, match=message):
        other.load(path)
    for name, array in other.parameters().items():
        np.testing.assert_array_equal(array, before[name])
    assert other.load_weights(path) == ["w1", "b1", "w2", "b2"]
    for name, array in other.parameters().items():
        np.testing.assert_array_equal(array, trainer.parameters()[name])


def test_checkpoint_of_other_numbers(tmp_path: Path) -> None:
    """Rates and the number of samples a step may change; constants, seeds of dropouts may not."""
    path = tmp_path / "a.safetensors"

    def made(network: str, batch: int = BATCH, seed: int = 0, lr: float = 0.1) -> Trainer:
        built = other_network(network, batch)
        return Trainer(built, optimizer=optim.Adam(lr=lr), backend="interpreter", seed=seed)

    made("2").save(path)
    made("2", batch=4, lr=0.2).load(path)
    with pytest.raises(GlowError, match=r"operator \d+ is `clip .*2.* there, `clip .*3.* here"):
        made("3").load(path)
    made("dropout").save(path)
    made("dropout", batch=16).load(path)
    with pytest.raises(GlowError, match="seed 0 was used for dropout; here it is 1"):
        made("dropout", seed=1).load(path)
    trainer = made("2")
    trainer.fit([(x, y) for x, y in data(3)], 1, progress=False)
    trainer._position = 2  # pyright: ignore[reportPrivateUsage]
    trainer.save(path)
    with pytest.raises(GlowError, match="within an epoch of batches of 8; here they have 4"):
        made("2", batch=4).load(path)


def test_frozen_weights_belong_to_a_checkpoint(tmp_path: Path) -> None:
    """A head that was trained on other frozen layers is of another graph."""
    path = tmp_path / "a.safetensors"

    def made(first: float) -> Trainer:
        g = GraphBuilder()
        x = g.placeholder("x", (BATCH, 6))
        w1 = g.constant(random(6, 7, seed=1) * np.float32(first), "w1")
        g.save(g.matmul(g.relu(g.matmul(x, w1)), g.constant(random(7, 4, seed=3), "w2")), "y")
        return Trainer(g, trainable=["w2"], backend="interpreter")

    made(1.0).save(path)
    made(1.0).load(path)
    with pytest.raises(GlowError, match="constant tensor<6x7xf32> #"):
        made(2.0).load(path)


def test_weights_of_files(tmp_path: Path) -> None:
    """Some weights of a checkpoint of another network, and of a file that other programs wrote."""
    from safetensors.numpy import save_file

    path = tmp_path / "a.safetensors"
    source = Trainer(mlp(), optimizer=optim.Adam(), backend="interpreter")
    source.step(*data(1)[0])
    source.save(path)
    g = GraphBuilder()
    x = g.placeholder("x", (BATCH, 6))
    w1, b1 = g.constant(random(6, 7, seed=8), "w1"), g.constant(random(7, seed=9), "b1")
    g.save(g.matmul(g.relu(g.fully_connected(x, w1, b1)), g.constant(random(7, 2, seed=3), "w2")), "y")
    trainer = Trainer(g, backend="interpreter")
    with pytest.raises(GlowError, match=r"'w2' is float32\[7, 4\] there, here float32\[7, 2\]"):
        trainer.load_weights(path)
    assert trainer.load_weights(path, ["?1"]) == ["w1", "b1"]
    np.testing.assert_array_equal(trainer.parameters()["w1"], source.parameters()["w1"])
    with pytest.raises(GlowError, match=r"no weight matches 'head\*'; there are: w1, b1, w2"):
        trainer.load_weights(path, "head*")
    save_file({"w2": random(7, 2, seed=5), "more": random(3)}, path)
    assert trainer.load_weights(path, "w2") == ["w2"]
    np.testing.assert_array_equal(trainer.parameters()["w2"], random(7, 2, seed=5))
    with pytest.raises(GlowError, match="'w1' is missing"):
        trainer.load_weights(path)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("", "not an object of JSON"),
        ("[1]", "not an object of JSON"),
        ("5", "not an object of JSON"),
        ('{"a":' * 100_000, "not an object of JSON"),
        ("{}", "steps, epoch, position, seed cannot be read"),
        ({"steps": None}, "its steps cannot"),
        ({"epoch": "x", "seed": [1]}, "its epoch, seed cannot"),
        ({"position": 10**400}, "its position cannot"),
        ({"belonging": 7}, "its belonging.fields cannot"),
        ({"belonging": {"graph": 5}}, "its belonging.graph cannot"),
        ({"belonging": {"graph": [5]}}, "its belonging.graph cannot"),
        ({"belonging": {"batch": None}}, "its belonging.batch cannot"),
    ],
)
def test_damaged_facts(tmp_path: Path, facts: str | dict[str, Any], message: str) -> None:
    """A training state of other types is refused, and the training goes on as if it had not been read."""
    path = tmp_path / "a.safetensors"
    trainer = Trainer(mlp(), optimizer=optim.SGD(lr=0.1), backend="interpreter")
    trainer.save(path)
    arrays, there = checkpoint._opened(path)
    text = facts if isinstance(facts, str) else json.dumps({**(there or {}), **facts})
    save_arrays(arrays, path, {"glow.training": text})
    with pytest.raises(GlowError, match=message):
        trainer.load(path)
    trainer.step(*data(1)[0])
