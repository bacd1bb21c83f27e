"""Executor, provisioner, threads: the behaviours that Glow's tests of these check. Names are in parentheses.

Not here: the thread pool's own tests (moved captures, executors pinned to threads): devices have threads, and
what runs on them is checked in test_devices.py; run ids: a request is an object, not a number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_networks import KINDS, SlowFunction, SlowProgram, diamond, expected, feed, layers, number, same

import glow_compiler as glow
from glow_compiler.hosts import ModelReader
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction, ProgramFunction, Recipe
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.devices.registry import manager_of
from glow_runtime.host.executor import Execution
from glow_runtime.host.loading import Loader
from glow_runtime.host.network import Network, Replica, open_check
from glow_runtime.host.partitions import Partition
from glow_runtime.host.provisioner import Provisioner
from glow_runtime.program_source import Signature


class Step(ProgramFunction):
    """A function of NumPy that a device runs."""

    def __init__(self, name: str, inputs: Sequence[str], output: str, compute: Callable[..., Any]) -> None:
        self.name, self.inputs, self.outputs, self.constant_bytes = name, list(inputs), [output], 0
        self.compute, self.runs = compute, 0

    def runner(self) -> Any:
        return self

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The output."""
        self.runs += 1
        return {self.outputs[0]: self.compute(*(inputs[n] for n in self.inputs))}


def network_of(steps: Sequence[Step], outputs: Sequence[str], managers: Sequence[DeviceManager]) -> Network:
    """A network of steps, in turn on devices."""
    parts = [Partition(s.name, s, 0) for s in steps]
    signatures = [Signature(n, (1,), np.dtype(np.float32)) for n in outputs]
    network = Network("net", 0, parts, [], signatures, open_check)
    chosen = [managers[i % len(managers)] for i in range(len(steps))]
    for step, manager in zip(steps, chosen, strict=True):
        manager.load(step)
    network.replicas.append(Replica(chosen))
    return network


class Ended:
    """What `finish` was called with, and that it was called once."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, BaseException | None]] = []
        self._event = threading.Event()

    def __call__(self, outputs: Any, error: BaseException | None) -> None:
        self.calls.append((outputs, error))
        self._event.set()

    def result(self) -> Any:
        """The outputs, or the error raised."""
        assert self._event.wait(120)
        assert len(self.calls) == 1
        outputs, error = self.calls[0]
        if error is not None:
            raise error
        return outputs


def execute(network: Network, inputs: Mapping[str, Any]) -> Ended:
    ended = Ended()
    Execution(network, network.replicas[0], inputs, ended).start()
    return ended


@pytest.fixture
def managers() -> Any:
    made = [manager_of(Device(name=f"d{i}")) for i in range(3)]
    yield made
    for manager in made:
        manager.close()


def five(fails: str = "") -> list[Step]:
    """Two roots, a join, two leaves."""

    def at(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(*values: Any) -> Any:
            if name == fails:
                raise glow.DeviceError(f"{name} fails, as the test wants")
            return compute(*values)

        return computed

    return [
        Step("a", ["x"], "va", at("a", lambda x: x + 1)),
        Step("b", ["z"], "vb", at("b", lambda z: z * 2)),
        Step("c", ["va", "vb"], "vc", at("c", lambda a, b: a + b)),
        Step("d", ["vc"], "vd", at("d", lambda c: -c)),
        Step("e", ["vc"], "ve", at("e", lambda c: c * c)),
    ]


# --- executor -----------------------------------------------------------------------------------


def test_empty_graph(managers: list[DeviceManager]) -> None:
    """(EmptyDAG) Success at once."""
    assert execute(network_of([], [], managers), {"x": 1}).result() == {}


def test_single_node(managers: list[DeviceManager]) -> None:
    """(SingleNode)"""
    network = network_of([Step("a", ["x"], "y", lambda x: x + 1)], ["y"], managers)
    assert execute(network, {"x": 2}).result() == {"y": 3}


def test_concurrent_single_node(managers: list[DeviceManager]) -> None:
    """(ConcurrentSingleNode) 100 threads at a barrier."""
    network = network_of([Step("a", ["x"], "y", lambda x: x + 1)], ["y"], managers)
    meeting = threading.Barrier(100)

    def work(number: int) -> Any:
        meeting.wait(120)
        return execute(network, {"x": number}).result()["y"]

    with ThreadPoolExecutor(100) as pool:
        assert list(pool.map(work, range(100))) == [n + 1 for n in range(100)]


@pytest.mark.parametrize("devices", [1, 3])
def test_multi_node(managers: list[DeviceManager], devices: int) -> None:
    """(MultiNode, MultiNodeMultiDevice) In order, on one device and on three."""
    network = network_of(five(), ["vd", "ve"], managers[:devices])
    assert execute(network, {"x": 1, "z": 3}).result() == {"vd": -8, "ve": 64}


def test_concurrent_multi_node(managers: list[DeviceManager]) -> None:
    """(ConcurrentMultiNode) 100 requests, each with its own values."""
    network = network_of(five(), ["vd", "ve"], managers)
    runs = [execute(network, {"x": n, "z": 0}) for n in range(100)]
    assert [r.result()["vd"] for r in runs] == [-(n + 1) for n in range(100)]


@pytest.mark.parametrize(("fails", "never"), [("a", "cde"), ("c", "de"), ("e", "")])
def test_failure(managers: list[DeviceManager], fails: str, never: str) -> None:
    """(MultiNodeWithFailure) The error once; what needed the result never starts; the next request runs."""
    steps = five(fails)
    network = network_of(steps, ["vd", "ve"], managers)
    with pytest.raises(glow.DeviceError, match=f"{fails} fails"):
        execute(network, {"x": 1, "z": 3}).result()
    assert all(s.runs == 0 for s in steps if s.name in never)


def test_the_first_error_counts(managers: list[DeviceManager]) -> None:
    """Nothing starts after an error, what runs ends first, and the first error is the answer."""
    slow, go = SlowProgram(), threading.Event()

    def fails(x: Any) -> Any:
        go.wait(120)
        raise glow.DeviceError("the first")

    steps: list[Any] = [
        Step("a", ["x"], "va", fails),
        SlowFunction("b", slow),
        Step("c", ["va", "y"], "vc", max),
    ]
    network = network_of(steps, ["vc"], managers)
    ended = execute(network, number(1))
    go.set()
    assert not ended._event.wait(0.1)  # b still runs
    slow.go.set()
    with pytest.raises(glow.DeviceError, match="the first"):
        ended.result()
    assert steps[2].runs == 0


def test_a_device_that_has_not_the_function(managers: list[DeviceManager]) -> None:
    """(DEVICE_NOT_FOUND)"""
    network = network_of(five(), ["vd", "ve"], managers)
    managers[2].evict("c")
    with pytest.raises(glow.DeviceError, match="d2 has no function 'c'"):
        execute(network, {"x": 1, "z": 3}).result()


def test_a_closed_device(managers: list[DeviceManager]) -> None:
    network = network_of(five(), ["vd", "ve"], managers)
    managers[0].close()
    with pytest.raises(glow.DeviceError, match="d0 is closed"):
        execute(network, {"x": 1, "z": 3}).result()


def test_partitions_of_a_request_run_at_the_same_time(managers: list[DeviceManager]) -> None:
    """Two roots on two devices meet."""
    meeting = threading.Barrier(2, timeout=120)

    def meet(x: Any) -> Any:
        meeting.wait()
        return x

    steps = [Step(n, ["x"], f"v{n}", meet) for n in "ab"]
    assert execute(network_of(steps, ["va", "vb"], managers), {"x": 5}).result() == {"va": 5, "vb": 5}


def test_requests_follow_each_other_through_the_partitions(managers: list[DeviceManager]) -> None:
    """Pipelining: one request is in the first partition while the one before it is in the second."""
    meeting = threading.Barrier(2, timeout=120)
    met: list[str] = []

    def first(x: int) -> int:
        if x == 2:
            met.append(f"first {meeting.wait()}")
        return x

    def second(x: int) -> int:
        if x == 1:
            met.append(f"second {meeting.wait()}")
        return x

    steps = [Step("a", ["x"], "v", first), Step("b", ["v"], "y", second)]
    network = network_of(steps, ["y"], managers)
    runs = [execute(network, {"x": n}) for n in (1, 2)]
    assert [r.result()["y"] for r in runs] == [1, 2]
    assert len(met) == 2


# --- provisioner --------------------------------------------------------------------------------


def provisioner(managers: Sequence[DeviceManager]) -> Provisioner:
    return Provisioner(Loader(managers), ModelReader())


@pytest.mark.parametrize("kind", KINDS)
def test_provision(kind: str) -> None:
    """(provisionDag)"""
    managers = [manager_of(Device(kind, name=f"d{i}")) for i in range(2)]
    try:
        network = provisioner(managers).provide("net", 1, diamond(), 3, 1, None)
        assert sum(len(m.statistics().functions) for m in managers) == 3
        provisioner(managers).remove(network)
        assert all(m.statistics().functions == [] and m.used == 0 for m in managers)
    finally:
        for manager in managers:
            manager.close()


def test_provision_fails() -> None:
    """(provisionDagFail) Too little memory, and nothing stays."""
    manager = manager_of(Device(memory=1000))
    with pytest.raises(glow.GlowError, match="1024 bytes"):
        provisioner([manager]).provide("net", 1, layers(2), "auto", 1, None)
    assert manager.used == 0 and manager.statistics().functions == []
    manager.close()


def test_provision_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """(provisionFailCleanup) The first is loaded, the second fails: the first goes."""
    managers = [manager_of(Device(name=f"d{i}")) for i in range(2)]

    def refuses(function: DeviceFunction) -> None:
        raise glow.DeviceMemoryError("d1 has changed its mind")

    monkeypatch.setattr(managers[1], "_load", refuses)
    with pytest.raises(glow.DeviceMemoryError, match="changed its mind"):
        provisioner(managers).provide("net", 1, layers(2), 2, 1, None)
    assert all(m.used == 0 and m.statistics().functions == [] for m in managers)
    monkeypatch.undo()
    network = provisioner(managers).provide("net", 1, layers(2), 2, 1, None)
    inputs = feed(layers(2))
    ended = Ended()
    Execution(network, network.replicas[0], inputs, ended).start()
    same(ended.result(), expected(layers(2), inputs))
    for manager in managers:
        manager.close()


def test_a_loader_that_fails_may_be_tried_again(tmp_path: Path) -> None:
    """(DeferredWeightLoader) A recipe that fails in a worker leaves nothing; the next one is loaded."""

    class Broken(ProgramFunction):
        def recipe(self, folder: Path) -> Recipe:
            (folder / "rest").write_text("x")
            raise OSError("the weights are not there yet")

    manager = manager_of(Device("process"))
    try:
        broken = Broken("net", ["x"], ["y"], 8, None, None, None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(OSError, match="not there yet"):
            manager.load(broken)
        assert manager.used == 0 and not manager.has("net")
        from host_networks import function_of, run_on

        manager.load(function_of(layers(1), manager.device))
        same(run_on(manager, "net", feed(layers(1))), expected(layers(1), feed(layers(1))))
    finally:
        manager.close()


def test_each_partition_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas on devices of one kind share the compiled function."""
    from glow_backends.cpu.backend import CpuBackend

    compiled: list[object] = []
    compile_ = CpuBackend.compile

    def counted(self: CpuBackend, *args: Any, **options: Any) -> Any:
        compiled.append(self)
        return compile_(self, *args, **options)

    monkeypatch.setattr(CpuBackend, "compile", counted)
    with glow.HostManager(["cpu"] * 4) as host:
        host.add_network("net", layers(2), partition=2, replicas=2)
    assert len(compiled) == 2
