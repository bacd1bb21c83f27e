"""From data to answers: LeNet is trained on digits, written as ONNX, compiled, and reads digits it never saw.

python examples/training/read_digits.py

Half a minute, no download. Beside each other, on one thread: what the native program and onnxruntime read,
and how long a batch takes them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
from lenet_mnist import BATCH, EPOCHS, RATE, data, network, weights
from recipes import Array, batches

import glow_compiler as glow

RUNS = 20


def trained() -> glow.Trainer:
    """LeNet after 4,000 digits."""
    x, y, _, _ = data()
    trainer = glow.Trainer(network(weights()), "cross_entropy", glow.optim.Adam(RATE))
    for images, labels in batches(x, y, EPOCHS, BATCH):
        trainer.step(images, labels)
    return trainer


def read(scores: Callable[[Array], Array], images: Array) -> tuple[Array, float]:
    """The digits that a program reads, and the least seconds for a batch."""
    digits = np.concatenate([scores(images[i : i + BATCH]).argmax(1) for i in range(0, len(images), BATCH)])
    seconds: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        scores(images[:BATCH])
        seconds.append(time.perf_counter() - start)
    return digits, min(seconds)


def main(path: Path) -> float:
    """Train, compile, compare; returns the share of unseen digits that are read right."""
    print(f"training LeNet on 4,000 handwritten digits, {EPOCHS} times over ...")
    trained().export(path)
    _, _, images, labels = data()
    whole = len(images) // BATCH * BATCH
    images, labels = images[:whole], labels[:whole]
    net = glow.compile(path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ours, our_time = read(lambda x: np.asarray(net(x)), images)
    theirs, their_time = read(lambda x: np.asarray(session.run(None, {"image": x})[0]), images)
    for name, digits, seconds in (("glow", ours, our_time), ("onnxruntime", theirs, their_time)):
        right = np.mean(digits == labels)
        print(f"{name:12} {right:.1%} of {whole} unseen digits right, {seconds * 1e6:5.0f} us for {BATCH}")
    print(f"{np.mean(ours == theirs):.1%} read alike")
    return float(np.mean(ours == labels))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "lenet.onnx")
