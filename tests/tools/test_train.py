"""glow-train: a small classifier learns, goes on from a checkpoint, and is written in both forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import refused, run

import glow_compiler as glow
from glow_tools import train

pytestmark = pytest.mark.slow


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Two classes that a line divides, a linear model, and data to train and test on."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("points", (16, 2))
    w = g.constant(np.zeros((2, 2), np.float32), "w")
    b = g.constant(np.zeros(2, np.float32), "b")
    g.save(g.fully_connected(x, w, b), "scores")
    glow.save(g, tmp_path / "net.mlir")
    for name, count in (("train", 256), ("test", 64)):
        points = rng.standard_normal((count, 2)).astype(np.float32)
        labels = (points[:, 0] + 2 * points[:, 1] > 0.3).astype(np.int64)
        np.savez(tmp_path / f"{name}.npz", x=points, y=labels)
    return tmp_path


def test_learns(task: Path) -> None:
    """Accuracy on the test data after a few epochs, and the written models compute the same."""
    data = ("--data", task / "train.npz", "--test", task / "test.npz", "--lr", "0.5")
    done = run(train.main, task / "net.mlir", *data, "--epochs", "8", "-o", task / "out.onnx")
    assert done.status == 0, done
    last = [line for line in done.output.splitlines() if line.startswith("epoch 8")][0]
    assert float(last.rpartition("validation_accuracy ")[2].split(",")[0]) > 0.95, done.output
    with np.load(task / "test.npz") as test:
        points, labels = test["x"][:16], test["y"][:16]
    scores = glow.compile(task / "out.onnx").run({"points": points})["scores"]
    assert (scores.argmax(axis=1) == labels).mean() > 0.9


def test_goes_on(task: Path) -> None:
    """Two runs with a checkpoint are one run."""
    data = ("--data", task / "train.npz", "--optimizer", "adam", "--lr", "0.05")
    once = task / "once.mlir"
    assert run(train.main, task / "net.mlir", *data, "--epochs", "4", "-o", once).status == 0
    twice, state = task / "twice.mlir", task / "state"
    for epochs in ("2", "4"):
        more = ("--epochs", epochs, "--checkpoint", state, "-o", twice)
        assert run(train.main, task / "net.mlir", *data, *more).status == 0
    assert once.read_text() == twice.read_text()


def test_weights_of_a_checkpoint(task: Path) -> None:
    """A training with another optimiser begins with what a first one reached; it cannot go on from it."""
    data, state = ("--data", task / "train.npz", "--lr", "0"), task / "state"
    first = ("--data", task / "train.npz", "--lr", "0.5", "--checkpoint", state, "-o", task / "one.mlir")
    assert run(train.main, task / "net.mlir", *first).status == 0
    adam = ("--optimizer", "adam")
    refused(
        run(train.main, task / "net.mlir", *data, *adam, "--checkpoint", state), "another training", "sgd"
    )
    more = (*adam, "--weights", state, "-o", task / "two.mlir")
    assert run(train.main, task / "net.mlir", *data, *more).status == 0
    assert (task / "one.mlir").read_text() == (task / "two.mlir").read_text()


def test_without_labels(task: Path) -> None:
    """A model whose output is its loss learns from inputs alone."""
    g = glow.GraphBuilder()
    x, w = g.placeholder("points", (16, 2)), g.constant(np.zeros((2, 1), np.float32), "w")
    error = g.sub(g.matmul(x, w), g.constant(np.full((1, 1), 2, np.float32), "goal"))
    g.save(g.mul(error, error), "loss")
    glow.save(g, task / "own.mlir")
    np.savez(task / "points.npz", x=np.load(task / "train.npz")["x"] + 1)
    data = (
        "--data",
        task / "points.npz",
        "--test",
        task / "points.npz",
        "--loss",
        "output",
        "--trainable",
        "w",
    )
    done = run(train.main, task / "own.mlir", *data, "--lr", "0.1", "--schedule", "cosine", "--epochs", "3")
    assert done.status == 0, done
    losses = [float(line.rpartition("loss ")[2].split(",")[0]) for line in done.output.splitlines()]
    assert len(losses) == 3 and max(losses) < 2  # 4 at the start


def test_bad_input(task: Path) -> None:
    """What is missing or does not fit."""
    net, data = task / "net.mlir", task / "train.npz"
    refused(run(train.main, net), "--data", status=2)
    refused(run(train.main, net, "--data", data, "-o", "out.txt"), "NAME.onnx", status=2)
    refused(run(train.main, net, "--data", task / "none.npz"), "none.npz")
    refused(run(train.main, net, "--data", net), "net.mlir")
    np.save(task / "one.npy", np.zeros(3))
    refused(run(train.main, net, "--data", task / "one.npy"), "one.npy: one array; a .npz archive")
    refused(run(train.main, net, "--data", data, "--labels", "z"), "no labels 'z'", "x, y")
    refused(run(train.main, net, "--data", data, "--loss", "hope"), "hope", "cross_entropy")
    refused(run(train.main, net, "--data", data, "--batch", "7"), "7")
    refused(run(train.main, net, "--data", data, "--optimizer", "adam", "--momentum", "0.9"), "sgd")
    np.savez(task / "other.npz", a=np.zeros(3), y=np.zeros(3, np.int64))
    refused(run(train.main, net, "--data", task / "other.npz"), "no input 'points'", "a")
    np.savez(task / "labels.npz", x=np.zeros((32, 2), np.float32), y=np.full(32, 9))
    refused(run(train.main, net, "--data", task / "labels.npz"), "9")


def test_script(task: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A script runs with its own arguments."""
    script = task / "own.py"
    script.write_text("import sys\nprint('arguments', sys.argv[1:])\n")
    assert "arguments ['--deep', '3']" in run(train.main, script, "--deep", "3").output
    refused(run(train.main, task / "none.py"), "none.py")
