"""One executable, many callers: runs side by side, one compilation for all, forks, cancellation, close."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_backends.base import cores
from glow_backends.cpu.program import CpuProgram
from glow_dialects.core.errors import ClosedError
from glow_dialects.core.object_pool import Pool
from glow_runtime.executable import Executable
from glow_runtime.flights import Flights


def network(backend: str = "cpu", size: int = 64, **options: object) -> Executable:
    """y = relu(x w), with the weights of one seed."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, size))
    w = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    g.save(g.relu(g.matmul(x, g.constant(w, "w"))), "y")
    return glow.compile(g, backend=backend, **options)  # pyright: ignore[reportArgumentType]


def inputs(seed: int, size: int = 64) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((4, size)).astype(np.float32)}


def dynamic(path: Path) -> Path:
    """A model of any batch, in a file."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("backend", "threads"), [("cpu", 1), ("cpu", 2), ("interpreter", 1)])
def test_runs_side_by_side_are_right(backend: str, threads: int) -> None:
    net = network(backend, threads=threads)
    expected = [net.run(inputs(seed))["y"] for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: net.run(inputs(i % 8))["y"], range(200)))
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result, expected[number % 8])


def test_two_runs_are_in_flight_at_once() -> None:
    """Two threads are inside native code at the same time: each waits there for the other."""
    net = network()
    program = net.program
    assert isinstance(program, CpuProgram)
    program.memories.limit = 2
    meeting = threading.Barrier(2, timeout=60)
    enter, met = program.enter, []

    def waiting(frame: object) -> None:
        met.append(meeting.wait())
        enter(frame)

    program.enter = waiting  # pyright: ignore[reportAttributeAccessIssue]
    program.memories = Pool(program.memories._make, 2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda i: net.run(inputs(i))["y"], range(2))
    assert sorted(met) == [0, 1]
    assert not np.array_equal(first, second)


def test_arenas_are_bounded() -> None:
    """As many as there are cores, however many callers."""
    net = network()
    program = net.program
    assert isinstance(program, CpuProgram)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: net.run(inputs(i)), range(100)))
    assert len(program.memories._free) <= cores()


def test_bound_runs_of_several_threads() -> None:
    net = network()
    bounds = [net.bind(inputs(seed)) for seed in range(4)]
    expected = [net.run(inputs(seed))["y"] for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda b: [b() for _ in range(50)], bounds))
    for bound, value in zip(bounds, expected, strict=True):
        np.testing.assert_array_equal(bound.outputs["y"], value)


def test_a_pool_waits_and_hands_on() -> None:
    """Four threads share two things; nobody has one that another has."""
    pool: Pool[list[int]] = Pool(list, 2)

    def use(number: int) -> None:
        for _ in range(500):
            thing = pool.take()
            assert not thing
            thing.append(number)
            time.sleep(0)
            assert thing.pop() == number
            pool.give(thing)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    assert len(pool._free) == 2


def test_a_pool_survives_a_failed_make() -> None:
    answers = iter([MemoryError(), 1])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    pool: Pool[int] = Pool(make, 1)
    with pytest.raises(MemoryError):
        pool.take()
    assert pool.take() == 1


def test_what_many_need_is_compiled_once(tmp_path: Path) -> None:
    net = glow.compile(dynamic(tmp_path / "m.onnx"))
    compiled: list[object] = []
    source = net._source.program

    def counted(shapes: object, values: object) -> object:
        compiled.append(shapes)
        time.sleep(0.05)
        return source(shapes, values)  # pyright: ignore

    net._source.program = counted  # pyright: ignore
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: net.run({"x": np.full((5, 3), i, np.float32)}), range(8)))
    assert len(compiled) == 1
    assert [r["y"][0, 0] for r in results] == list(range(8))


def test_an_error_of_shared_work_reaches_all_and_is_not_kept() -> None:
    flights: Flights[int] = Flights()
    started = threading.Event()
    end = threading.Event()

    def fails() -> int:
        started.set()
        end.wait(60)
        raise glow.ShapeError("no")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(flights.do, "k", fails)
        started.wait(60)
        second = pool.submit(flights.do, "k", lambda: 1)
        time.sleep(0.05)
        end.set()
        assert isinstance(first.exception(), glow.ShapeError)
        assert second.exception() is None or second.exception() is first.exception()  # if it came late
    assert flights.do("k", lambda: 2) == 2


def test_shapes_from_many_threads(tmp_path: Path) -> None:
    net = glow.compile(dynamic(tmp_path / "m.onnx"))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: net.run({"x": -np.ones((n % 5 + 1, 3), np.float32)}), range(40)))
    assert [r["y"].shape for r in results] == [(n % 5 + 1, 3) for n in range(40)]


def test_submit() -> None:
    net = network()
    futures = [net.submit(inputs(seed)) for seed in range(20)]
    for seed, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], net.run(inputs(seed))["y"])
    assert isinstance(net.submit({"z": np.zeros(3, np.float32)}).exception(), glow.BindingError)


def test_what_waits_can_be_cancelled() -> None:
    net = network("interpreter", size=256)
    futures = [net.submit(inputs(0, 256)) for _ in range(200)]
    assert any([f.cancel() for f in reversed(futures)])
    assert all(f.cancelled() or f.result() for f in futures)


def test_asyncio() -> None:
    net = network()

    async def both() -> list[dict[str, np.ndarray]]:
        return await asyncio.gather(*(net.run_async(inputs(seed)) for seed in range(3)))

    for seed, result in enumerate(asyncio.run(both())):
        np.testing.assert_array_equal(result["y"], net.run(inputs(seed))["y"])


def test_closing_frees_and_refuses() -> None:
    net = network()
    program = weakref.ref(net.program)
    with net:
        net.run(inputs(0))
    gc.collect()
    assert program() is None
    for use in (net.run, net.submit, net.bind):
        with pytest.raises(ClosedError, match="closed"):
            use(inputs(0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_while_others_run() -> None:
    """Locks and arenas that other threads hold when a process forks are not missed in the child."""
    net = network(size=256)
    expected = net.run(inputs(1, 256))["y"]
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            net.run(inputs(0, 256))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if not child:
                right = np.array_equal(net.run(inputs(1, 256))["y"], expected)
                right = right and np.array_equal(net.submit(inputs(1, 256)).result(60)["y"], expected)
                os._exit(0 if right else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_threads_for_every_core() -> None:
    net = glow.compile(glow.load(_builder()), threads="auto")
    assert net.run({"x": -np.ones((300, 70), np.float32)})["y"].sum() == 0
    assert net.report().notes["threads"] in (1, cores())


def _builder() -> glow.GraphBuilder:
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (300, 70))), "y")
    return g
