"""Accuracy of quantised networks: every schema and calibration on two networks trained here.

    python -m benchmarks.quantization

A LeNet and a small residual network are trained on scikit-learn's handwritten digits (1200 images,
540 others to test), quantised with 60 training images, and run on the CPU. The table is Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import glow_compiler as glow
from glow_compiler.quantization import Profile, profile, quantize
from glow_passes.quantize.calibration import CALIBRATIONS
from glow_passes.quantize.schema import SCHEMAS

BATCH = 60


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images N x 1 x 8 x 8 in [0, 1] and their digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    return images[: 1797 // BATCH * BATCH], data.target[: 1797 // BATCH * BATCH]


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    fan = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
    return (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)


def lenet() -> glow.GraphBuilder:
    """Two convolutions, two pools, two products."""
    rng, g = np.random.default_rng(0), glow.GraphBuilder()
    x = g.placeholder("x", (BATCH, 1, 8, 8))
    x = g.relu(
        g.conv(
            x, g.constant(_weights(rng, 6, 1, 3, 3)), g.constant(np.zeros(6, np.float32)), pads=(1, 1, 1, 1)
        )
    )
    x = g.max_pool(x, kernel=(2, 2), strides=(2, 2))
    x = g.relu(
        g.conv(
            x, g.constant(_weights(rng, 16, 6, 3, 3)), g.constant(np.zeros(16, np.float32)), pads=(1, 1, 1, 1)
        )
    )
    x = g.max_pool(x, kernel=(2, 2), strides=(2, 2))
    x = g.reshape(x, (BATCH, 64))
    x = g.relu(g.fully_connected(x, g.constant(_weights(rng, 64, 48)), g.constant(np.zeros(48, np.float32))))
    g.save(g.fully_connected(x, g.constant(_weights(rng, 48, 10)), g.constant(np.zeros(10, np.float32))), "y")
    return g


def residual() -> glow.GraphBuilder:
    """A convolution and three residual blocks with batch normalisation, a mean and a product."""
    rng, g = np.random.default_rng(0), glow.GraphBuilder()

    def block(x: Any, inner: int, out: int) -> Any:
        y = g.conv(x, g.constant(_weights(rng, out, inner, 3, 3)), pads=(1, 1, 1, 1))
        ones, zeros = np.ones(out, np.float32), np.zeros(out, np.float32)
        return g.batch_norm(y, *map(g.constant, (ones, zeros, zeros.copy(), ones.copy())))

    x = g.relu(block(g.placeholder("x", (BATCH, 1, 8, 8)), 1, 16))
    for _ in range(3):
        x = g.relu(g.add(x, block(g.relu(block(x, 16, 16)), 16, 16)))
    x = g.reshape(g.avg_pool(x, kernel=(8, 8)), (BATCH, 16))
    g.save(g.fully_connected(x, g.constant(_weights(rng, 16, 10)), g.constant(np.zeros(10, np.float32))), "y")
    return g


def accuracy(module: Any, images: np.ndarray, labels: np.ndarray) -> float:
    """Top-1, percent."""
    net = glow.compile(module)
    right = 0
    for start in range(0, len(images), BATCH):
        scores = net.run({"x": images[start : start + BATCH]})["y"]
        right += int((scores.argmax(axis=1) == labels[start : start + BATCH]).sum())
    return 100 * right / len(images)


def rows(module: Any, taken: Profile, images: np.ndarray, labels: np.ndarray) -> Iterator[tuple[str, float]]:
    """What was quantised how, and its top-1."""
    for schema in SCHEMAS:
        for calibration in CALIBRATIONS:
            made = quantize(module, taken, schema=schema, calibration=calibration)
            yield f"{schema}, {calibration}", accuracy(made, images, labels)
    yield (
        "asymmetric, one scale a tensor",
        accuracy(quantize(module, taken, per_channel=False), images, labels),
    )
    yield "asymmetric, int16", accuracy(quantize(module, taken, precision="int16"), images, labels)
    yield "bf16", accuracy(glow.convert_floats(module, "bf16"), images, labels)


def main() -> None:
    """Train, quantise, print the table."""
    images, labels = digits()
    train, test = slice(0, 1200), slice(1200, None)
    columns: dict[str, dict[str, float]] = {}
    for name, build, epochs in (("LeNet", lenet, 20), ("residual network", residual, 12)):
        trainer = glow.Trainer(build(), loss="cross_entropy", optimizer=glow.optim.Adam(lr=0.005))
        trainer.fit((images[train], labels[train]), epochs=epochs, progress=False)
        module = trainer.module()
        taken = profile(module, [{"x": images[:BATCH]}])
        column = {"float": accuracy(module, images[test], labels[test])}
        columns[name] = column | dict(rows(module, taken, images[test], labels[test]))
    print("| | " + " | ".join(columns) + " |\n| --- |" + " --- |" * len(columns))
    for row in next(iter(columns.values())):
        print(f"| {row} | " + " | ".join(f"{column[row]:.2f}" for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
