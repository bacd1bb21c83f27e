"""Packed weights: one copy for all programs of a backend, in memory and on disk."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from glow_backends.cpu import bundle
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.kernels.conv.conv_direct import pack_conv, packing
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.program import CpuProgram
from glow_backends.cpu.target import host
from glow_backends.cpu.weights import WeightPool, content_of
from glow_frontends.builder import GraphBuilder
from glow_runtime.compile import compile_module


def _two_shapes() -> tuple[list[CpuProgram], np.ndarray]:
    """One network with large weights for two batches, by one backend."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 300)).astype(np.float32)
    backend = CpuBackend()
    made: list[CpuProgram] = []
    for batch in (96, 192):
        g = GraphBuilder()
        x = g.placeholder("x", (batch, 64))
        g.save(g.matmul(x, g.constant(weights, f"w{batch}")), "y")
        program = compile_module(g.module, backend)
        assert isinstance(program, CpuProgram)
        made.append(program)
    return made, weights


def test_programs_of_a_backend_share_packed_weights() -> None:
    (first, second), weights = _two_shapes()
    assert second.bundle.weights.nbytes < weights.nbytes <= first.bundle.weights.nbytes
    assert any(block is first.bundle.weights for block in second.bundle.shared)
    del first  # its weights stay
    x = np.random.default_rng(1).standard_normal((192, 64)).astype(np.float32)
    np.testing.assert_allclose(second.run({"x": x})["y"], x @ weights, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second.bind({"x": x})()["y"], x @ weights, rtol=1e-4, atol=1e-4)


def test_shared_weights_are_one_file(tmp_path: Path) -> None:
    programs, weights = _two_shapes()
    for number, program in enumerate(programs):
        bundle.write(program.bundle, tmp_path / str(number))
    assert (tmp_path / "0" / "weights.bin").stat().st_nlink == 2
    read = bundle.read(bundle.Folder(tmp_path / "1"))
    assert read is not None
    x = np.random.default_rng(1).standard_normal((192, 64)).astype(np.float32)
    made = CpuProgram(read, programs[1].target).run({"x": x})["y"]
    np.testing.assert_allclose(made, x @ weights, rtol=1e-4, atol=1e-4)


def test_programs_map_a_file_once(tmp_path: Path) -> None:
    """The same pages in two places would be counted twice."""
    (first, _), _ = _two_shapes()
    bundle.write(first.bundle, tmp_path / "p")
    once, again = (bundle.read(bundle.Folder(tmp_path / "p")) for _ in range(2))
    assert once is not None and again is not None
    assert again.weights is once.weights
    np.testing.assert_array_equal(once.weights, first.bundle.weights)


def test_a_pool_keeps_the_block_that_it_knows() -> None:
    """A program that is read while the one that was written lives brings no second copy."""
    pool, first, second = WeightPool(), np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    pool.add(first, {"a": 0})
    pool.add(second, {"a": 32, "b": 16})
    (block, offset), other = pool.find("a") or (None, 0), pool.find("b")
    assert block is first and offset == 0 and other is not None and other[0] is second
    del first, block
    pool.add(second, {"a": 32})
    found = pool.find("a")
    assert found is not None and found[0] is second and found[1] == 32


def test_large_programs_are_remembered_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for one that is being written waits for it."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    backend, (program, _), go_on = CpuBackend(), _two_shapes()[0], threading.Event()
    program.report.weight_bytes = 1 << 30
    write = CpuBackend.write_program

    def slowly(self: CpuBackend, program: CpuProgram, folder: Path) -> None:
        assert go_on.wait(60)
        write(self, program, folder)

    monkeypatch.setattr(CpuBackend, "write_program", slowly)
    backend.remember("model", program)
    assert not list(tmp_path.glob("programs/*/program.json"))
    threading.Timer(0.1, go_on.set).start()
    again = backend.recall("model")
    assert again is not None
    x = np.random.default_rng(1).standard_normal((96, 64)).astype(np.float32)
    np.testing.assert_array_equal(again.run({"x": x})["y"], program.run({"x": x})["y"])


def test_contents_are_told_apart(tmp_path: Path) -> None:
    """By value, type and shape; an array in a mapped file by its place."""
    x = np.arange(12, dtype=np.float32)
    assert content_of(x) == content_of(x.copy()) != content_of(x.reshape(3, 4))
    assert content_of(x) != content_of(x + 1) and content_of(x) != content_of(x.view(np.int32))
    assert content_of(np.broadcast_to(x[:1], (3,))) == content_of(np.zeros(3, np.float32))
    x.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", np.float32, "r")
    assert content_of(mapped[:4]) == content_of(np.memmap(tmp_path / "x", np.float32, "r")[:4])
    assert len({content_of(mapped[i : i + 4]) for i in range(8)} | {content_of(mapped[:8:2])}) == 9


@pytest.mark.parametrize("channels", [(3, 16, 1), (16, 48, 1), (40, 80, 1), (64, 112, 1), (24, 24, 2)])
def test_convolutions_of_one_packing_have_equal_filters(channels: tuple[int, int, int]) -> None:
    """Whatever their images are."""
    inner, outer, group = channels
    target = host()
    rng = np.random.default_rng(0)
    seen: dict[str, np.ndarray] = {}
    weights = rng.standard_normal((outer, inner // group, 3, 3)).astype(np.float32)
    for size in range(5, 60):
        spec = DirectConvSpec(
            batch=1 + size % 3,
            in_channels=inner,
            out_channels=outer,
            size=(size, 65 - size),
            kernel=(3, 3),
            pads=(1, 1, 1, 1),
            group=group,
            plain_input=inner == 3,
            uneven=size % 2 == 1,
        )
        packed = pack_conv(weights, spec, target)
        same = seen.setdefault(packing(spec, target), packed)
        assert same.shape == packed.shape
        np.testing.assert_array_equal(packed, same)
