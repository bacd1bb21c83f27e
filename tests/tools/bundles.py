"""A small network, and the C programs that run what glow-compile makes of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import glow_compiler as glow

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def network(folder: Path, name: str = "net", channels: int = 8) -> Path:
    """A small convolutional network in a file."""
    rng = np.random.default_rng(channels)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 3, 9, 9))
    w = g.constant(rng.standard_normal((channels, 3, 3, 3)).astype(np.float32), "w")
    m = g.constant(rng.standard_normal((channels * 16, 5)).astype(np.float32), "m")
    y = g.max_pool(g.relu(g.conv(x, w, pads=(1, 1, 1, 1))), kernel=(2, 2), strides=(2, 2))
    g.save(g.softmax(g.matmul(g.flatten(y), m)), "probabilities")
    path = folder / f"{name}.mlir"
    glow.save(g, path)
    return path


def build(folder: Path, source: str, *objects: str, cc: str = "cc") -> Path:
    """Compile and link a C program with all warnings as errors; a static one for another processor."""
    target = folder / "program"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c11"] + ["-static"] * (cc != "cc")
    subprocess.run([cc, *flags, source, *objects, "-lm", "-o", str(target)], cwd=folder, check=True)
    return target


def outputs(folder: Path, program: Path, *emulator: str) -> tuple[np.ndarray, np.ndarray]:
    """What the example of `network` computes for random data, and what the interpreter computes."""
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    x.tofile(folder / "x.bin")
    subprocess.run([*emulator, str(program), "net.weights", "x.bin"], cwd=folder, check=True)
    got = np.fromfile(folder / "probabilities.out", np.float32).reshape(1, 5)
    net = glow.compile(network(folder), backend="interpreter")
    return got, net.run({"x": x})["probabilities"]
