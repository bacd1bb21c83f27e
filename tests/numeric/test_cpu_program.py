"""The CPU program: memory, host steps, threads, errors on the host."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from xdsl.parser import Parser

from glow_backends.base import get_backend
from glow_backends.cpu import bundle, cache
from glow_backends.cpu.memory import (
    LARGE_PAGE,
    WeightBlock,
    address,
    copy_released,
    file_block,
    release,
    work_memory,
)
from glow_backends.cpu.program import CpuProgram
from glow_dialects.dialects import context
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.relu import ReluOp

CHAIN = """
glow.placeholder @x : tensor<300x70xf32>
glow.placeholder @y output : tensor<300x70xf32>
glow_instr.func @main attributes {arena = 84480 : i64} declare {
  %x = glow_instr.weight @x mutable : memref<300x70xf32>
  %y = glow_instr.weight @y mutable : memref<300x70xf32>
} program {
  %t = glow_instr.alloc at 0 : memref<300x70xf32>
  glow_instr.relu @out %t, @in %x : memref<300x70xf32>, memref<300x70xf32>
  glow_instr.relu @out %y, @in %t : memref<300x70xf32>, memref<300x70xf32>
  glow_instr.dealloc @out %t : memref<300x70xf32>
}
"""


def compiled(text: str, threads: int = 1) -> CpuProgram:
    """The program of a planned module."""
    module = Parser(context(), text).parse_module()
    module.verify()
    made = get_backend("cpu", threads=threads).compile(module)
    assert isinstance(made, CpuProgram)
    return made


def sample(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((300, 70)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_give_the_same(threads: int) -> None:
    program = compiled(CHAIN, threads)
    for seed in range(5):
        x = sample(seed)
        np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_threads_that_have_gone_to_sleep_are_woken() -> None:
    program = compiled(CHAIN, 2)
    assert program.bundle.threads == 2
    x = sample()
    bound = program.bind({"x": x})
    for pause in (0.0, 0.0, 0.01, 0.0, 0.05, 0.001, 0.0):
        time.sleep(pause)
        bound.outputs["y"][...] = -1
        np.testing.assert_array_equal(bound()["y"], np.maximum(x, 0))


def test_threads_end_with_their_program() -> None:
    before = set(threading.enumerate())
    program = compiled(CHAIN, 3)
    program.run({"x": sample()})
    workers = set(threading.enumerate()) - before
    assert len(workers) == 2
    del program
    gc.collect()
    for worker in workers:
        worker.join(timeout=300)
        assert not worker.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_has_threads_of_its_own() -> None:
    """A server loads a model, runs it once and then forks."""
    program = compiled(CHAIN, 2)
    x = sample()
    program.run({"x": x})
    child = os.fork()
    if not child:
        right = np.array_equal(program.run({"x": x})["y"], np.maximum(x, 0))
        os._exit(0 if right else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_a_program_with_little_to_do_runs_on_one_thread() -> None:
    program = compiled(CHAIN.replace("300x70", "3x70"), 2)
    assert (program.bundle.threads, program.report.notes["threads"]) == (1, 1)
    x = sample()[:3]
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_inputs_of_any_alignment_and_order() -> None:
    """Unaligned, transposed and reversed arrays are copied, and left as they are."""
    program = compiled(CHAIN)
    x = sample()
    raw = np.empty(x.nbytes + 4, np.uint8)[4:].view(np.float32).reshape(x.shape)
    raw[...] = x
    for given in (raw, np.asfortranarray(x), x[::-1]):
        before = given.copy()
        np.testing.assert_array_equal(program.run({"x": given})["y"], np.maximum(given, 0))
        np.testing.assert_array_equal(given, before)


def test_results_are_the_callers() -> None:
    """A later run does not change earlier results."""
    program = compiled(CHAIN)
    first = program.run({"x": sample(1)})["y"]
    program.run({"x": sample(2)})
    np.testing.assert_array_equal(first, np.maximum(sample(1), 0))


def test_calls_from_many_threads() -> None:
    """One program may be run from several threads at a time."""
    program = compiled(CHAIN)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = sample(seed)
        for _ in range(20):
            if not np.array_equal(program.run({"x": x})["y"], np.maximum(x, 0)):
                wrong.append(seed)

    callers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.parametrize("threads", [1, 2])
def test_instructions_without_a_kernel_run_on_the_host(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_backends.cpu.select.call_for", lambda op, context: None)
    program = compiled(CHAIN, threads)
    assert program.report.notes["host instructions"] == 2
    np.testing.assert_array_equal(program.run({"x": sample()})["y"], np.maximum(sample(), 0))


def test_an_error_on_the_host_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a host step is raised by `run`, and the program runs again afterwards."""
    monkeypatch.setattr("glow_backends.cpu.select.call_for", lambda op, context: None)
    program = compiled(CHAIN)

    def broken(self: object, result: np.ndarray, input: np.ndarray) -> None:
        raise ValueError("told to fail")

    with monkeypatch.context() as patch:
        assert ReluOp.INSTR is not None
        patch.setattr(ReluOp.INSTR, "reference", broken)
        with pytest.raises(ValueError, match="told to fail"):
            program.run({"x": sample()})
    np.testing.assert_array_equal(program.run({"x": sample()})["y"], np.maximum(sample(), 0))


def test_a_view_inside_a_line_is_given_to_kernels() -> None:
    """Kernels rely on no more than elements that are aligned."""
    program = compiled("""
glow.placeholder @x : tensor<40xf32>
glow.placeholder @y output : tensor<20xf32>
glow_instr.func @main attributes {arena = 0 : i64} declare {
  %x = glow_instr.weight @x mutable : memref<40xf32>
  %y = glow_instr.weight @y mutable : memref<20xf32>
} program {
  %v = glow_instr.tensorview %x offset 5 : memref<40xf32> to memref<20xf32>
  glow_instr.relu @out %y, @in %v : memref<20xf32>, memref<20xf32>
}
""")
    x = np.linspace(-1, 1, 40, dtype=np.float32)
    assert not program.report.notes.get("host instructions")
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x[5:25], 0))


STATEFUL = """
glow.placeholder @x : tensor<16xf32>
glow.placeholder @s state {init = #glow.resource<"s">} : tensor<16xf32>
glow.placeholder @y output : tensor<16xf32>
glow_instr.func @main attributes {arena = 0 : i64} declare {
  %x = glow_instr.weight @x mutable : memref<16xf32>
  %s = glow_instr.weight @s mutable : memref<16xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  glow_instr.copy @out %y, @in %s : memref<16xf32>, memref<16xf32>
  glow_instr.relu @out %s, @in %x : memref<16xf32>, memref<16xf32>
}
"""


def with_state() -> CpuProgram:
    """A program that returns its state and keeps relu(x) as the next; the state starts as 0..15."""
    module = Parser(context(), STATEFUL).parse_module()
    for op in module.body.block.ops:
        init: Any = op.properties.get("init")
        if init is not None:
            init.data.array = np.arange(16, dtype=np.float32)
    made = get_backend("cpu").compile(module)
    assert isinstance(made, CpuProgram)
    return made


def test_a_state_is_kept_between_runs() -> None:
    program = with_state()
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.arange(16))
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_a_bundle_written_and_read_runs_the_same(tmp_path: Path) -> None:
    program = with_state()
    bundle.write(program.bundle, tmp_path / "p")
    read = bundle.read(bundle.Folder(tmp_path / "p"))
    assert read is not None
    again = CpuProgram(read, program.target)
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    assert again.inputs == program.inputs and again.outputs == program.outputs
    np.testing.assert_array_equal(again.run({"x": x})["y"], np.arange(16))
    np.testing.assert_array_equal(again.run({"x": x})["y"], np.maximum(x, 0))


def test_weights_keep_their_contents_while_their_memory_grows() -> None:
    """What was placed first stays where it was."""
    block = WeightBlock()
    arrays = [np.arange(n, dtype=np.float32) for n in (100, 50_000, 9_000_000, 10_000_000)]
    places = [block.place(str(i), a) for i, a in enumerate(arrays)]
    memory = block.build()
    for start, array in zip(places, arrays, strict=True):
        np.testing.assert_array_equal(memory[start : start + array.nbytes].view(np.float32), array)


def test_memory_in_large_pages_is_aligned_and_empty() -> None:
    """Sizes on both sides of a large page."""
    for size in (1, 100, LARGE_PAGE + 100):
        memory = work_memory(size)
        assert memory.shape == (size,) and address(memory) % 64 == 0 and not memory.any()
        memory[...] = 1


def test_a_file_block_has_the_size_it_should(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 255, LARGE_PAGE + 3, np.uint8)
    (tmp_path / "w").write_bytes(data.tobytes())
    np.testing.assert_array_equal(file_block(tmp_path / "w", data.nbytes), data)
    with pytest.raises(ValueError, match="2097155 bytes, 7 expected"):
        file_block(tmp_path / "w", 7)


@pytest.mark.parametrize("damage", ["program.json", "weights.bin", "code.0.o", "state.0"])
def test_a_damaged_bundle_is_no_bundle(tmp_path: Path, damage: str) -> None:
    program = with_state()
    program.bundle.weights = np.zeros(64, np.uint8)
    bundle.write(program.bundle, tmp_path / "p")
    assert bundle.read(bundle.Folder(tmp_path / "p")) is not None
    file = tmp_path / "p" / damage
    file.write_bytes(file.read_bytes()[:-1])
    assert bundle.read(bundle.Folder(tmp_path / "p")) is None
    file.unlink()
    assert bundle.read(bundle.Folder(tmp_path / "p")) is None


def test_the_oldest_programs_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    for name in "ab":
        (tmp_path / "programs" / name).mkdir(parents=True)
        (tmp_path / "programs" / name / "weights.bin").write_bytes(b"x" * 100)
    os.utime(tmp_path / "programs" / "a", (1, 1))
    cache.forget_old_programs(limit=150)
    assert [p.name for p in (tmp_path / "programs").iterdir()] == ["b"]


def test_the_cpu_backend_recalls_what_it_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    backend = get_backend("cpu")
    assert backend.recall("model") is None
    backend.remember("model", compiled(CHAIN))
    again = backend.recall("model")
    assert again is not None
    np.testing.assert_array_equal(again.run({"x": sample()})["y"], np.maximum(sample(), 0))
    assert get_backend("cpu", threads=2).recall("model") is None


CONSUMED = """
glow.constant @w = #glow.resource<"w"> : tensor<64x32xf32>
glow.placeholder @x : tensor<4x64xf32>
glow.placeholder @y output : tensor<4x32xf32>
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<4x64xf32>
  %w = glow_instr.weight @w constant : memref<64x32xf32>
  %y = glow_instr.weight @y mutable : memref<4x32xf32>
} program {
  glow_instr.matmul @out %y, @in %x, @in %w : memref<4x32xf32>, memref<4x64xf32>, memref<64x32xf32>
}
"""


def test_a_consumed_module_gives_up_its_constants() -> None:
    module = Parser(context(), CONSUMED).parse_module()
    (constant,) = (op for op in module.body.block.ops if isinstance(op, ConstantOp))
    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    constant.set_array(w)
    backend, x = get_backend("cpu"), np.ones((4, 64), np.float32)
    kept = backend.compile(module).run({"x": x})["y"]
    assert constant.array() is not None
    consumed = backend.consume(module).run({"x": x})["y"]
    assert constant.array() is None
    np.testing.assert_array_equal(kept, consumed)
    np.testing.assert_allclose(kept, x @ w, rtol=1e-4, atol=1e-4)


def test_results_that_are_held_are_left_alone() -> None:
    """Arrays, and parts of arrays, that a caller keeps; what it lets go of is used again."""
    program = compiled(CHAIN)
    held = [program.run({"x": sample(seed)})["y"] for seed in range(4)]
    rows = [program.run({"x": sample(seed)})["y"][7] for seed in range(4)]
    views = [program.run({"x": sample(seed)})["y"].data for seed in range(4)]
    for seed in range(4):
        right = np.maximum(sample(seed), 0)
        np.testing.assert_array_equal(held[seed], right)
        np.testing.assert_array_equal(rows[seed], right[7])
        np.testing.assert_array_equal(views[seed], right)
    places = set[int]()
    for seed in range(9):
        y = program.run({"x": sample(seed)})["y"]
        places.add(address(y))
    assert len(places) == 2


def test_what_callers_make_of_results_leaves_later_ones_alone() -> None:
    """That nobody may write, say: each result is an array of its own."""
    program = compiled(CHAIN)
    for seed in range(4):
        y = program.run({"x": sample(seed)})["y"]
        assert y.flags.writeable
        np.testing.assert_array_equal(y, np.maximum(sample(seed), 0))
        y.flags.writeable = False


def test_a_program_does_not_hold_its_inputs() -> None:
    program, x = compiled(CHAIN), sample()
    before = sys.getrefcount(x)
    program.run({"x": x})
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("offset", [4, 16, 20, 1])
def test_inputs_lie_anywhere(offset: int) -> None:
    """Also where no element of their type may."""
    program = compiled(CHAIN)
    raw = np.zeros(84000 + 128, np.uint8)
    start = -address(raw) % 64 + offset
    x = np.ndarray((300, 70), np.float32, raw, start)
    x[...] = sample()
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(sample(), 0))


def _resident() -> int:
    """Bytes of mapped files in this process's memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssFile:")[1].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("mode", ["r", "c"])
def test_copied_files_leave_the_memory(tmp_path: Path, mode: Literal["r", "c"]) -> None:
    """But what was written to private pages stays."""
    want = np.random.default_rng(0).integers(0, 1 << 40, 7 << 20)
    (tmp_path / "t").write_bytes(b"abcd" + want.tobytes())
    mapped = np.memmap(tmp_path / "t", np.uint8, mode)[4:].view(np.int64)
    if mode == "c":
        mapped[5000] = want[5000] = 7
    target, before = np.zeros_like(want), _resident()
    copy_released(target, mapped)
    if mode == "r":
        assert _resident() - before < want.nbytes // 2
    np.testing.assert_array_equal(target, want)
    np.testing.assert_array_equal(mapped, want)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_packed_files_leave_the_memory(tmp_path: Path) -> None:
    """A view of any strides; what it says stays."""
    want = np.random.default_rng(0).integers(0, 1 << 40, (7, 1 << 20))
    (tmp_path / "t").write_bytes(want.tobytes())
    mapped = np.memmap(tmp_path / "t", np.int64, "r").reshape(want.shape)
    for view in (mapped[1:].T, mapped[::-1]):
        before = _resident()
        assert view.sum() != 0
        touched = _resident()
        release(view)
        assert touched - before > want.nbytes // 2 and _resident() - before < want.nbytes // 8
    np.testing.assert_array_equal(mapped, want)
    release(want)
