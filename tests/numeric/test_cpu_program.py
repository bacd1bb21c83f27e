"""The CPU program: memory, host steps, threads, errors on the host."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from xdsl.parser import Parser

from glow_backends.base import get_backend
from glow_backends.cpu.program import CpuProgram
from glow_backends.cpu.workers import Workers
from glow_dialects.dialects import context
from glow_dialects.ops.relu import ReluInstr

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
def test_instructions_without_a_kernel_run_on_the_host(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glow_backends.cpu.select.call_for", lambda op, context: None)
    program = compiled(CHAIN, threads)
    assert program.report.notes["host instructions"] == 2
    np.testing.assert_array_equal(program.run({"x": sample()})["y"], np.maximum(sample(), 0))


def test_an_error_on_the_host_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a host step is raised by `run`, and the program runs again afterwards."""
    monkeypatch.setattr("glow_backends.cpu.select.call_for", lambda op, context: None)
    program = compiled(CHAIN)

    def broken(self: ReluInstr, result: np.ndarray, input: np.ndarray) -> None:
        raise ValueError("told to fail")

    with monkeypatch.context() as patch:
        patch.setattr(ReluInstr, "reference", broken)
        with pytest.raises(ValueError, match="told to fail"):
            program.run({"x": sample()})
    np.testing.assert_array_equal(program.run({"x": sample()})["y"], np.maximum(sample(), 0))


def test_a_view_inside_a_line_is_not_given_to_kernels() -> None:
    """Kernels rely on aligned operands: a view that is not aligned runs on the host."""
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
    assert program.report.notes["host instructions"] == 1
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x[5:25], 0))


def test_a_worker_that_fails_does_not_stop_the_others() -> None:
    workers = Workers(3)
    seen: list[int] = []

    def job(worker: int) -> None:
        seen.append(worker)
        if worker == 2:
            raise RuntimeError("worker 2")

    with pytest.raises(RuntimeError, match="worker 2"):
        workers.run(job)
    workers.run(seen.append)
    assert sorted(seen) == [0, 0, 1, 1, 2, 2]
