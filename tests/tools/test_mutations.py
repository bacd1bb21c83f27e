"""Damage to files that the project wrote: a right answer or one clear error, never a wrong answer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.cpu import cache
from glow_compiler.quantization import profile
from glow_compiler.trainer import Trainer
from glow_dialects.core.errors import GlowError
from glow_passes.quantize.profile import Profile

MUTATIONS = 250
"""Mutations of each kind of file; there are four kinds."""
X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(2, 30)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut off, repeated, overwritten or left out at a random place."""
    at, length = rng.randrange(len(data)), rng.choice((1, 1, 2, 8, 100))
    match rng.randrange(6):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at : at + length] + data[at:]
        case 3:
            return data[:at] + rng.randbytes(len(data[at : at + length])) + data[at + length :]
        case 4:
            return data[:at] + bytes(len(data[at : at + length])) + data[at + length :]
        case _:
            return data[:at] + data[at + length :]


def network() -> glow.GraphBuilder:
    """Two layers, their weights large enough for a file."""
    g, rng = glow.GraphBuilder(), np.random.default_rng(0)
    w = g.constant(rng.standard_normal((30, 20)).astype(np.float32), "w")
    v = g.constant(rng.standard_normal((20, 9)).astype(np.float32), "v")
    g.save(g.matmul(g.relu(g.matmul(g.placeholder("x", (2, 30)), w)), v), "y")
    return g


def check(files: list[Path], read: Callable[[], None]) -> None:
    """Read after each of MUTATIONS mutations of one of the files: as before, or a GlowError."""
    rng = random.Random(0)
    before = {file: file.read_bytes() for file in files}
    for _ in range(MUTATIONS):
        file = rng.choice([f for f in files if before[f]])
        file.write_bytes(mutated(before[file], rng))
        try:
            read()
        except GlowError as error:
            assert str(error).strip() and "Traceback" not in str(error)
        for name, data in before.items():
            if not name.exists() or name.read_bytes() != data:
                name.parent.mkdir(parents=True, exist_ok=True)
                name.write_bytes(data)
    read()


@pytest.mark.slow
def test_weights(tmp_path: Path) -> None:
    """A weights file beside its program."""
    glow.save(network(), tmp_path / "m.mlir")
    want = {n: a.copy() for n, a in _constants(tmp_path / "m.mlir").items()}

    def read() -> None:
        for name, array in _constants(tmp_path / "m.mlir").items():
            np.testing.assert_array_equal(array, want[name])

    check([tmp_path / "m.weights.safetensors"], read)


def _constants(path: Path) -> dict[str, np.ndarray]:
    from glow_runtime.weights import resources

    return {r.name: r.array for r, _ in resources(glow.load(path)) if r.array is not None}


def test_checkpoints(tmp_path: Path) -> None:
    """Every state of a training, and where it stands."""
    path, trainer = tmp_path / "t.safetensors", Trainer(network(), loss="mse", backend="interpreter")
    trainer.save(path)
    want = {n: a.copy() for n, a in trainer.state.items()}

    def read() -> None:
        for array in trainer.state.values():
            array[...] = 0
        trainer.load(path)
        for name, array in trainer.state.items():
            np.testing.assert_array_equal(array, want[name])
        assert (trainer.steps, trainer.epoch) == (0, 0)

    check([path], read)


def test_profiles(tmp_path: Path) -> None:
    """Ranges of values."""
    path = tmp_path / "p.yaml"
    profile(glow.load(network()), [{"x": X}], "interpreter").save(path)
    want = Profile.load(path)

    def read() -> None:
        got = Profile.load(path)
        assert (got.graph, got.batches, got.shapes) == (want.graph, want.batches, want.shapes)
        for name, histogram in got.values.items():
            np.testing.assert_array_equal(histogram.counts, want.values[name].counts)
            assert (histogram.low, histogram.high) == (want.values[name].low, want.values[name].high)

    check([path], read)


@pytest.mark.slow
def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files of a remembered program: what is damaged is made again."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "cache"))
    from glow_frontends.onnx.export import save_model

    model = tmp_path / "m.onnx"
    save_model(glow.load(network()), model)
    os.utime(model, (0, 0))
    want = glow.compile(network(), backend="interpreter").run({"x": X})["y"]

    def read() -> None:
        cache.forget_recent()
        np.testing.assert_allclose(glow.compile(model).run({"x": X})["y"], want, rtol=1e-5, atol=1e-6)

    read()
    read()
    files = sorted(f for f in (tmp_path / "cache").rglob("*") if f.is_file())
    assert {"program.json", "weights.bin"} <= {f.name for f in files}
    check(files, read)
    shutil.rmtree(tmp_path / "cache")
    read()
