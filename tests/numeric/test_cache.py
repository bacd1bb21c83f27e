"""The object cache: what is damaged, missing or cannot be written is made again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import glow_compiler as glow
from glow_backends.cpu import cache

X = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
W = np.linspace(0, 2, 8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file, and a cache that is empty."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_recent", type(cache._recent)())
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 4]), ("y", [1, 2]))]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(W, "w")])
    path = tmp_path / "model.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    os.utime(path, (0, 0))  # a file that was just written may change without another time
    return path


def run(model: Path) -> None:
    """Compile as a new process would, and check the answer."""
    cache._recent.clear()
    np.testing.assert_allclose(glow.compile(model)(X), X @ W, rtol=1e-6)


def halved(data: bytes) -> bytes:
    """The first half."""
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    """One bit in the middle turned."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [halved, flipped, lambda data: b"", lambda data: bytes(len(data))])
def test_damaged_files(model: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Every kind of file: objects, programs, notes. Weights are mapped unread; only their size tells."""
    run(model)
    files = [f for f in (tmp_path / "cache").rglob("*") if f.is_file() and f.name != "weights.bin"]
    assert {"program.json", "code.0.o"} <= {f.name for f in files}
    assert {"cache", "notes"} <= {f.parent.name for f in files}
    before = {f: f.read_bytes() for f in files}
    for file, data in before.items():
        file.write_bytes(damage(data))
    run(model)
    assert all(file.read_bytes() == data for file, data in before.items() if file.suffix == ".o")


def test_weights_cut_short(model: Path, tmp_path: Path) -> None:
    """A mapped file that ends early would end the process."""
    run(model)
    for file in (tmp_path / "cache").rglob("weights.bin"):
        file.write_bytes(halved(file.read_bytes()))
    run(model)


def test_weights_of_the_same_size_that_were_changed(model: Path, tmp_path: Path) -> None:
    """Numbers that another hand wrote are not answered with."""
    run(model)
    files = [*(tmp_path / "cache").rglob("weights.bin")]
    assert files
    for file in files:
        os.chmod(file, 0o600)
        file.write_bytes(bytes(file.stat().st_size))
        os.utime(file, (1, 1))
    run(model)


def test_without_a_home_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run users that have none: nothing is kept."""
    monkeypatch.delenv("GLOW_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache.directory() is None
    run(model)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.directory() is None


def test_a_cache_that_cannot_be_written(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the folder should be."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "file"))
    run(model)


def test_nothing_is_left_of_failed_writes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of what could not be written."""

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    run(model)
    assert not [f for f in (tmp_path / "cache").rglob("*") if f.is_file()]


def test_a_folder_that_others_can_write(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is kept there, and nothing is read: a cache holds machine code. The message comes once."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("GLOW_CACHE_DIR", str(shared))
    assert cache.directory() is None
    run(model)
    assert not list(shared.iterdir())
    assert caplog.text.count("other users can write") == 1
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "own"))
    assert cache.directory() == tmp_path / "own"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(cache, "_user", lambda: shared.stat().st_uid + 1)
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    assert (cache.directory() is None) == (tmp_path.stat().st_uid != 0)


def test_old_objects_and_leftovers_go(model: Path, tmp_path: Path) -> None:
    """The oldest objects above a size, and what killed processes left."""
    run(model)
    folder = tmp_path / "cache"
    old, new = folder / "old.o", folder / "new.o"
    left = [folder / f".a.o.{0:016x}", folder / "notes" / f".n.{1:016x}", folder / "programs" / "tmpabc"]
    for file in (old, new, *left[:2]):
        file.write_bytes(bytes(100))
    left[2].mkdir()
    for file in (old, *left):
        os.utime(file, (0, 0))
    cache.forget_old_programs()
    cache.forget_old_objects()
    assert not any(file.exists() for file in left)
    assert old.exists() and new.exists()
    cache.forget_old_objects(limit=150)
    assert not old.exists()
    run(model)


def test_the_limit_is_an_option(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """GLOW_CACHE_BYTES bounds what is kept; a text that is no number is told, and the default stays."""
    run(model)
    monkeypatch.setenv("GLOW_CACHE_BYTES", "0K")
    cache.forget_old_programs()
    cache.forget_old_objects()
    assert not list((tmp_path / "cache" / "programs").iterdir()) and not list(
        (tmp_path / "cache").glob("*.o")
    )
    monkeypatch.setenv("GLOW_CACHE_BYTES", "much")
    assert cache.most_bytes() == 5 << 30
    assert "GLOW_CACHE_BYTES is ignored: 'much' is not a size in bytes" in caplog.text


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Programs of any size are remembered on the disk, and that a model cannot have one."""
    code = (
        "import sys, numpy as np, glow_compiler as glow\n"
        "net = glow.compile(sys.argv[1])\n"
        "for n in (2, 5, 9):\n"
        "    net.run({'x': np.ones((n, 8), np.float32)})\n"
        "print(sorted(m for m in sys.modules if m in ('glow_passes', 'glow_backends.cpu.build')))\n"
    )
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(made, tmp_path / "m.onnx")
    os.utime(tmp_path / "m.onnx", (1e9, 1e9))
    environment = {**os.environ, "GLOW_CACHE_DIR": str(tmp_path / "cache")}
    texts = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "m.onnx")],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout
        for _ in range(2)
    ]
    assert texts[0] != "[]\n" and texts[1] == "[]\n"
