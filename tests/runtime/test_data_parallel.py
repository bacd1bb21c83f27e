"""Training whose batches several devices share equals training on one, within rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def network(batch: int = 8) -> glow.GraphBuilder:
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (batch, 6))
    w = g.constant(rng.standard_normal((6, 16)).astype(np.float32) / 3, "w")
    v = g.constant(rng.standard_normal((16, 3)).astype(np.float32) / 3, "v")
    g.save(g.softmax(g.matmul(g.tanh(g.matmul(x, w)), v)), "y")
    return g


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((count, 6)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)


def trained(devices: Any, optimizer: Any, steps: int = 6, **options: Any) -> tuple[list[float], Any]:
    trainer = glow.Trainer(network(), optimizer=optimizer, devices=devices, **options)
    x, labels = data(8 * steps)
    losses = [trainer.step(x[i : i + 8], labels[i : i + 8]) for i in range(0, 8 * steps, 8)]
    return losses, trainer


@pytest.mark.slow
@pytest.mark.parametrize(
    "devices", [["cpu"] * 2, ["process"] * 2, ["cpu"] * 4, ["interpreter", "interpreter"]]
)
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_equal_to_one_device(devices: list[str], name: str) -> None:
    optimizer = glow.optim.SGD(lr=0.1, momentum=0.9) if name == "sgd" else glow.optim.Adam(lr=0.01)
    wanted, one = trained((), optimizer)
    losses, several = trained(devices, optimizer)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert losses[-1] != losses[0]
    for parameter, value in one.parameters().items():
        np.testing.assert_allclose(several.parameters()[parameter], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["cpu", "process", "interpreter"])
def test_buckets_of_gradients(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a step give the bits of one, and leave nothing on the devices."""
    optimizer = glow.optim.Adam(lr=0.01)
    wanted, one = trained([kind] * 2, optimizer)
    monkeypatch.setattr("glow_compiler.data_parallel.BUCKET_BYTES", 64)
    losses, several = trained([kind] * 2, optimizer)
    assert losses == wanted
    for parameter, value in one.parameters().items():
        np.testing.assert_array_equal(several.parameters()[parameter], value)
    parts = [len(m.statistics().functions) for m in several._whole.program._devices.managers]
    assert parts == [3, 3] and [
        len(m.statistics().functions) for m in one._whole.program._devices.managers
    ] == [1, 1]


def test_a_loss_that_is_a_sum() -> None:
    options = {"loss_options": {"reduction": "sum"}}
    wanted, _ = trained((), glow.optim.SGD(lr=0.02), **options)
    losses, _ = trained(["cpu", "cpu"], glow.optim.SGD(lr=0.02), **options)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)


@pytest.mark.slow
def test_fit_predict_and_checkpoints(tmp_path: Any) -> None:
    """All that a trainer does; odd batches are one device's."""
    x, labels = data(45)
    histories = []
    for devices in ((), ["cpu", "cpu"]):
        trainer = glow.Trainer(network(), optimizer=glow.optim.SGD(lr=0.2), devices=devices)
        histories.append([h["loss"] for h in trainer.fit((x, labels), 3, progress=False)])
        assert trainer.predict(x).shape == (45, 3)
        trainer.save(tmp_path / "c.safetensors")
        again = glow.Trainer(network(), optimizer=glow.optim.SGD(lr=0.2), devices=devices)
        again.load(tmp_path / "c.safetensors")
        np.testing.assert_array_equal(again.parameters()["w"], trainer.parameters()["w"])
        assert again.step(x[:8], labels[:8]) == trainer.step(x[:8], labels[:8])
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-5)


def test_running_averages_are_shared() -> None:
    """A batch normalisation takes the statistics of each part; its averages are the mean of the devices'."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (8, 4, 3, 3))
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    h = g.batch_norm(
        x, g.constant(ones, "s"), g.constant(zeros, "b"), g.constant(zeros, "m"), g.constant(ones, "q")
    )
    w = g.constant(rng.standard_normal((36, 2)).astype(np.float32) / 6, "w")
    g.save(g.softmax(g.matmul(g.reshape(h, (8, 36)), w)), "y")
    trainer = glow.Trainer(g, optimizer=glow.optim.SGD(lr=0.1), momentum=0.9, devices=["cpu", "cpu"])
    inputs = rng.standard_normal((8, 4, 3, 3)).astype(np.float32) + 2
    trainer.step(inputs, np.zeros(8, np.int64))
    means = next(a for n, a in trainer.state.items() if n.startswith("m"))
    np.testing.assert_allclose(means, 0.1 * inputs.mean((0, 2, 3)), rtol=1e-4)


def test_a_device_that_fails() -> None:
    """The step fails, and nothing is updated."""
    _, trainer = trained(["cpu", "cpu"], glow.optim.SGD(lr=0.1), steps=1)
    before = trainer.parameters()
    program = trainer._whole.program
    program._devices.managers[1].close()
    x, labels = data(8)
    with pytest.raises(glow.DeviceError, match="closed"):
        trainer.step(x, labels)
    for name, value in before.items():
        np.testing.assert_array_equal(trainer.parameters()[name], value)


def test_one_device_is_not_several() -> None:
    with pytest.raises(glow.GlowError, match="two devices or more"):
        glow.Trainer(network(), devices=["cpu"])
