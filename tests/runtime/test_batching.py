"""Dynamic batching: batches form, in time, and everybody gets the own part."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from host_networks import feed, layers
from onnx import TensorProto, helper

import glow_compiler as glow


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(x w), for any number of rows."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 8]) for n in "xy")
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    weight = helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.reshape(-1).tolist())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def rows(seed: int, count: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)}


@pytest.mark.parametrize("kind", ["cpu", "interpreter", "process"])
def test_batches_form(kind: str, model: Path) -> None:
    """Forty requests at once are a few batches; each gets its own rows."""
    net = glow.compile(model)
    with glow.HostManager([kind]) as host:
        host.add_network("net", model, batching=glow.Batching(8, delay=0.05))
        futures = [host.submit("net", rows(n, 1 + n % 3)) for n in range(40)]
        for number, future in enumerate(futures):
            got = future.result(120)["y"]
            np.testing.assert_allclose(got, net.run(rows(number, 1 + number % 3))["y"], rtol=1e-5, atol=1e-6)
        counts = host.statistics()["net"]
        assert counts.succeeded == 40 and 10 <= counts.batches <= 25


def test_one_request_waits_no_longer_than_it_must(model: Path) -> None:
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(8, delay=0.2))
        host.run("net", rows(0))
        began = time.perf_counter()
        host.run("net", rows(0))
        assert 0.19 <= time.perf_counter() - began < 5


def test_a_full_batch_does_not_wait(model: Path) -> None:
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(4, delay=600.0))
        host.submit("net", rows(0, 4)).result(120)
        futures = [host.submit("net", rows(n)) for n in range(4)]
        for future in futures:
            future.result(120)


def watched(network: Any) -> list[int]:
    """The sizes of batches that run from now on."""
    net = network.partitions[0].function.runner()
    run, sizes = net.run, list[int]()

    def noting(inputs: Any) -> Any:
        sizes.append(len(inputs["x"]))
        return run(inputs)

    net.run = noting
    return sizes


def test_nothing_is_padded_where_one_program_serves_any_size(model: Path) -> None:
    """All that batches need is compiled when the network is added."""
    with glow.HostManager(["cpu"]) as host:
        network = host.add_network("net", model, batching=glow.Batching(8, delay=0.0))
        sizes = watched(network)
        programs = {id(network.partitions[0].function.runner().prepare({"x": (n, 8)})) for n in range(1, 9)}  # pyright: ignore
        for count in (1, 2, 3, 5, 6, 7, 8):
            assert host.run("net", rows(0, count))["y"].shape == (count, 8)
        assert sizes == [1, 2, 3, 5, 6, 7, 8] and len(programs) <= 4


@pytest.mark.parametrize(
    ("kind", "given", "wanted"), [("cpu", (4,), [4, 4, 4, 8]), ("interpreter", (), [1, 2, 4, 8])]
)
def test_sizes_are_padded(model: Path, kind: str, given: tuple[int, ...], wanted: list[int]) -> None:
    """Up to the sizes that are asked for, or to powers of two, where each size is a program."""
    with glow.HostManager([kind]) as host:
        network = host.add_network("net", model, batching=glow.Batching(8, 0.0, given))
        sizes = watched(network)
        for count in (1, 2, 3, 7):
            assert host.run("net", rows(0, count))["y"].shape == (count, 8)
        assert sizes == wanted


def test_more_rows_than_a_batch_go_alone(model: Path) -> None:
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(4, delay=0.0))
        assert host.run("net", rows(0, 9))["y"].shape == (9, 8)


def test_wrong_requests_are_their_own(model: Path) -> None:
    """What fits no batch fails alone, and what is in one is not hurt."""
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(4, delay=0.02))
        good = [host.submit("net", rows(n)) for n in range(3)]
        bad = [host.submit("net", {"x": np.zeros((1, 9), np.float32)}), host.submit("net", {})]
        for future in good:
            assert future.result(120)["y"].shape == (1, 8)
        for future in bad:
            assert isinstance(future.exception(120), glow.GlowError)


def test_networks_that_cannot_be_batched() -> None:
    g = glow.GraphBuilder()
    g.save(g.reduce_sum(g.placeholder("x", (4, 5)), axes=(0,)), "y")
    with glow.HostManager(["cpu"]) as host:
        with pytest.raises(glow.BindingError, match="cannot be batched"):
            host.add_network("net", g, batching=glow.Batching(4))
        assert host.devices[0].used == 0 and "net" not in host.networks


def test_cancelled_and_late_requests_leave_the_batch(model: Path) -> None:
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(8, delay=0.3))
        stays, cancelled = host.submit("net", rows(0)), host.submit("net", rows(1))
        late = host.submit("net", rows(2), timeout=0.05)
        assert cancelled.cancel()
        assert isinstance(late.exception(60), glow.DeadlineError)
        assert stays.result(60)["y"].shape == (1, 8)


def test_versions_under_batches(model: Path) -> None:
    """No request fails while the network is swapped."""
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", model, batching=glow.Batching(4, delay=0.001))
        stop = threading.Event()

        def ask(seed: int) -> int:
            count = 0
            while not stop.is_set():
                assert host.run("net", rows(seed))["y"].shape == (1, 8)
                count += 1
            return count

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask, seed) for seed in range(3)]
            for _ in range(3):
                host.update_network("net", model, batching=glow.Batching(4, delay=0.001))
            stop.set()
            assert all(a.result(120) > 0 for a in asking)


def test_a_batch_of_a_fixed_size() -> None:
    """A network of a fixed batch takes fewer rows, which are padded."""
    network = layers(1)
    inputs = feed(network)
    wanted = glow.compile(network).run(inputs)["y"]
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", network, batching=glow.Batching(4, delay=0.05))
        futures = [host.submit("net", {"x": inputs["x"][n : n + 1]}) for n in range(4)]
        got = np.concatenate([f.result(120)["y"] for f in futures])
        np.testing.assert_array_equal(got, wanted)
        assert host.statistics()["net"].batches <= 2


def test_a_full_batch_waits_at_the_device(model: Path) -> None:
    """One batch runs and one is behind it; what is no full batch waits for more."""
    with glow.HostManager(["cpu"]) as host:
        network = host.add_network("net", model, batching=glow.Batching(4, delay=0.0))
        net = network.parts[0].function.runner()
        run, begun, go = net.run, threading.Semaphore(0), threading.Event()

        def slow(inputs: Any) -> Any:
            begun.release()
            assert go.wait(60)
            return run(inputs)

        net.run = slow
        futures = [host.submit("net", rows(0))]
        assert begun.acquire(timeout=60)
        futures += [host.submit("net", rows(n)) for n in range(3)]
        time.sleep(0.05)
        assert host.devices[0].queued == 0
        futures += [host.submit("net", rows(n)) for n in range(3, 9)]
        ended = time.perf_counter() + 60
        while host.devices[0].queued < 1 and time.perf_counter() < ended:
            time.sleep(0.001)
        time.sleep(0.05)
        assert host.devices[0].queued == 1
        go.set()
        for future in futures:
            assert future.result(60)["y"].shape == (1, 8)
        assert host.statistics()["net"].batches == 4
