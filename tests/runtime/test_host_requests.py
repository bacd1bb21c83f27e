"""HostManager beyond Glow's list: names, versions, replicas, cancelling, open shapes, crashes, memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from host_networks import KINDS, diamond, expected, feed, layers, number, same, slow_network, started
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_compiler.hosts import ModelReader
from glow_runtime.host.host import HostManager
from glow_runtime.host.network import Replica


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_names_that_there_are_not() -> None:
    with glow.HostManager(["cpu"]) as host:
        host.remove_network("nothing")
        with pytest.raises(glow.NetworkError, match="no network 'nothing'; there are: none"):
            host.run("nothing", {})
        assert isinstance(host.submit("nothing", {}).exception(), glow.NetworkError)
        with pytest.raises(glow.NetworkError, match="no network 'nothing'"):
            host.update_network("nothing", layers(1))
        host.add_network("net", layers(1))
        with pytest.raises(glow.NetworkError, match="already"):
            host.add_network("net", layers(1))


def test_wrong_inputs_are_the_callers_error(kind: str) -> None:
    with glow.HostManager([kind]) as host:
        host.add_network("net", layers(1))
        for inputs, message in (
            ({}, "missing input 'x'"),
            ({"x": np.zeros((4, 15), np.float32)}, "shape"),
            ({"x": np.zeros((4, 16))}, "dtype"),
            ({"x": np.zeros((4, 16), np.float32), "z": 1}, "unknown input 'z'"),
        ):
            with pytest.raises(glow.BindingError, match=message):
                host.run("net", inputs)
            assert isinstance(host.submit("net", inputs).exception(60), glow.BindingError)
        assert host.run("net", feed(layers(1)))["y"].shape == (4, 16)


def test_removing_a_busy_network() -> None:
    """It is refused, or waits for what runs."""
    with glow.HostManager(["cpu"]) as host:
        program = slow_network(host)
        future = host.submit("slow", number(0))
        with pytest.raises(glow.NetworkError, match="busy"):
            host.remove_network("slow", wait=False)
        remover = threading.Thread(target=host.remove_network, args=("slow",))
        remover.start()
        time.sleep(0.05)
        assert remover.is_alive()
        program.go.set()
        remover.join(60)
        assert future.result(0)["y"] == 0 and not host.devices[0].has("slow/main")


def test_closing_ends_what_runs_and_fails_what_waits() -> None:
    host = glow.HostManager(["cpu"], max_active=1)
    program = slow_network(host)
    runs, waits = host.submit("slow", number(0)), host.submit("slow", number(1))
    started(program, 1)
    closer = threading.Thread(target=host.close)
    closer.start()
    assert isinstance(waits.exception(60), glow.ClosedError)
    program.go.set()
    closer.join(60)
    assert runs.result(0)["y"] == 0
    assert isinstance(host.submit("slow", number(0)).exception(), glow.ClosedError)
    with pytest.raises(glow.ClosedError):
        host.add_network("net", layers(1))
    host.close()


def test_cancelling_what_waits() -> None:
    with glow.HostManager(["cpu"], max_active=1) as host:
        program = slow_network(host)
        first, second, third = (host.submit("slow", number(i)) for i in range(3))
        started(program, 1)
        assert second.cancel() and not first.cancel()
        program.go.set()
        assert third.result(60)["y"] == 2
        assert program.started == ["0.0", "2.0"]
        assert host.statistics()["slow"].cancelled == 1


def test_asyncio() -> None:
    model = layers(1)

    async def both(host: HostManager) -> list[Any]:
        return await asyncio.gather(*(host.run_async("net", feed(model, s)) for s in range(3)))

    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model)
        for seed, outputs in enumerate(asyncio.run(both(host))):
            same(outputs, expected(model, feed(model, seed)))


@pytest.mark.slow
def test_versions_are_swapped_between_requests(kind: str) -> None:
    """Requests go on while a new version is loaded; none fails, each answer is of one version."""
    models = [layers(1, seed=1), layers(1, seed=2)]
    inputs = feed(models[0])
    wanted = [expected(m, inputs, kind)["y"].tobytes() for m in models]
    with glow.HostManager([kind]) as host:
        host.add_network("net", models[0])
        stop = threading.Event()
        answers: list[bytes] = []

        def ask() -> None:
            while not stop.wait(0.001):  # which leaves the compiler most of the processor
                answers.append(host.run("net", inputs)["y"].tobytes())

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        versions = [host.update_network("net", models[i % 2]).version for i in range(1, 5)]
        stop.set()
        for thread in threads:
            thread.join(60)
        assert versions == sorted(set(versions))
        assert set(answers) <= set(wanted) and len(answers) > 0
        assert len(host.devices[0].statistics().functions) == 1


def test_least_loaded_replica() -> None:
    """Requests go to the device that has fewest, in turn where they have the same."""
    with glow.HostManager(["cpu", "cpu"]) as host:
        program = slow_network(host)
        network = host.networks["slow"]
        host.devices[1].load(network.partitions[0].function)
        network.replicas.append(Replica([host.devices[1]]))
        futures = [host.submit("slow", number(i)) for i in range(6)]
        assert [r.outstanding for r in network.replicas] == [3, 3]
        program.go.set()
        for future in futures:
            future.result(60)
        assert [host.device_statistics()[m.name].runs for m in host.devices] == [3, 3]


def test_replicas_of_states_are_refused() -> None:
    from test_devices import COUNTER

    from glow_dialects.dialects import context
    from glow_dialects.parse import parse_module

    model = parse_module(COUNTER, "counter", context())
    with glow.HostManager(["cpu", "cpu"]) as host:
        with pytest.raises(glow.NetworkError, match="states"):
            host.add_network("net", model, partition=1, replicas=2)
        host.add_network("net", model, partition=1)
        x = np.ones(4, np.float32)
        assert [host.run("net", {"x": x})["y"][0] for _ in range(3)] == [1, 2, 3]


def dynamic(path: Path) -> Path:
    """relu of a matrix of any number of rows."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_open_shapes(kind: str, tmp_path: Path) -> None:
    """A model of open shapes is whole; `shapes` binds them."""
    model = dynamic(tmp_path / "m.onnx")
    with glow.HostManager([kind]) as host:
        host.add_network("open", model)
        host.add_network("bound", model, shapes={"x": (2, 3)})
        for rows in (1, 2, 5):
            x = -np.ones((rows, 3), np.float32)
            assert host.run("open", {"x": x})["y"].shape == (rows, 3)
        with pytest.raises(glow.BindingError):
            host.run("bound", {"x": np.ones((1, 3), np.float32)})
        for wrong in ({}, {"z": np.ones((1, 3), np.float32)}):
            assert isinstance(host.submit("open", wrong).exception(60), glow.BindingError)


def test_several_outputs_and_roots(kind: str) -> None:
    model = diamond()
    inputs = feed(model)
    with glow.HostManager([kind] * 2) as host:
        host.add_network("net", model, partition=3)
        same(host.run("net", inputs), expected(model, inputs, kind))


@pytest.mark.slow
def test_memory_does_not_grow() -> None:
    """Thousands of requests and dozens of networks leave nothing behind."""
    import gc
    import resource

    model = layers(2)
    inputs = feed(model)
    with glow.HostManager(["cpu"]) as host:

        def work(requests: int, networks: int) -> None:
            for _ in range(networks):
                host.add_network("net", model, partition=2)
                for _ in range(requests // networks):
                    host.run("net", inputs)
                host.remove_network("net")
            gc.collect()

        work(200, 2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(3000, 10)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_leaves_the_host_alone(kind: str) -> None:
    """The child is told to make its own, and whatever it closes, the parent's devices go on."""
    import os

    model = layers(2)
    inputs = feed(model)
    with glow.HostManager([kind]) as host:
        host.add_network("net", model)
        child = os.fork()
        if not child:
            told = [host.submit("net", inputs).exception(60)]
            for call in (lambda: host.run("net", inputs), lambda: host.add_network("n", model)):
                try:
                    call()
                except glow.GlowError as error:
                    told.append(error)
            host.close()
            host.devices[0].close()
            mine = glow.HostManager(["cpu"])
            mine.add_network("net", model)
            good = mine.submit("net", inputs).result(60).keys() == {"y"}
            good = good and [type(e) for e in told] == [glow.ClosedError] * 3
            os._exit(not (good and all("of the process that was forked" in str(e) for e in told)))
        assert os.waitpid(child, 0)[1] == 0
        same(host.submit("net", inputs).result(60), expected(model, inputs, kind))
        assert host.device_statistics()[f"{kind}:0"].restarts == 0


def test_requests_are_gone_when_they_are_answered() -> None:
    """Nothing of a request waits for its deadline: not its arrays, and not its place for long."""
    import weakref

    with glow.HostManager(["cpu"]) as host:
        program = slow_network(host)
        program.go.set()
        left: list[Any] = []
        for turn in range(600):
            inputs = number(turn)
            left.append(weakref.ref(inputs["x"]))
            assert host.submit("slow", inputs, timeout=3600).result(60)["y"] == turn
        time.sleep(0.05)  # the device's thread lets go of the last one
        assert not any(ref() is not None for ref in left[:-1])
        assert len(vars(host)["_deadlines"]._heap) < 300


def test_devices_by_name() -> None:
    with glow.HostManager(["cpu:a", glow.Device("cpu"), glow.Device("cpu", name="cpu:0")]) as host:
        assert [m.name for m in host.devices] == ["cpu:a", "cpu:1", "cpu:0"]
    with pytest.raises(glow.DeviceError, match="one name"):
        glow.HostManager(["cpu:a", "cpu:a"])


def test_a_device_that_cannot_start_leaves_no_other() -> None:
    before = threading.active_count()
    with pytest.raises(glow.DeviceError, match="no kind"):
        HostManager(["cpu", "abacus"], reader=ModelReader())
    assert threading.active_count() == before


@pytest.fixture
def crashing() -> Iterator[HostManager]:
    with glow.HostManager(["process", "process"], max_queue=1000) as host:
        yield host


@pytest.mark.slow
def test_workers_killed_under_load(crashing: HostManager) -> None:
    """No request is lost without an error, no answer is wrong, and service goes on."""
    import os
    import signal

    model = layers(2)
    inputs = feed(model)
    crashing.add_network("net", model, replicas=2)
    wanted = expected(model, inputs)["y"]
    good = bad = 0
    for turn in range(20):
        futures = [crashing.submit("net", inputs) for _ in range(30)]
        os.kill(crashing.devices[turn % 2].pid, signal.SIGKILL)  # pyright: ignore
        for future in futures:
            error = future.exception(120)
            if error is None:
                np.testing.assert_array_equal(future.result()["y"], wanted)
                good += 1
            else:
                assert isinstance(error, glow.DeviceError)
                bad += 1
    assert good + bad == 600 and good > 400 and bad <= 20 * 2
    same(crashing.run("net", inputs), expected(model, inputs))


@pytest.mark.slow
def test_new_shapes_do_not_hold_asyncio_up() -> None:
    """What was quick for other shapes may be compiled, or long: the loop goes on meanwhile."""
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="cubic")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, "h", "w"]) for n in "xy")
    scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 1.37, 1.21])
    graph = helper.make_graph([node], "g", [x], [y], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    async def main(host: HostManager) -> None:
        network = host.add_network("net", model)
        for size in (8, 8, 8, 9):
            await host.run_async("net", {"x": np.zeros((1, 1, size, size), np.float32)})
        network.took(((1, 1, 8, 8),), 1e-5, waited=False)
        assert network.is_quick(((1, 1, 8, 8),)) and not network.is_quick(((1, 1, 700, 700),))
        worst, began = 0.0, time.perf_counter()
        asked = asyncio.create_task(host.run_async("net", {"x": np.zeros((1, 1, 700, 700), np.float32)}))
        while not asked.done():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before)
        taken = time.perf_counter() - began
        assert worst < max(0.5 * taken, 0.2)

    with glow.HostManager(["cpu"]) as host:
        asyncio.run(main(host))
