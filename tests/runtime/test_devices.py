"""Devices: the behaviours that Glow's DeviceManagerTest checks, on each kind that they have a meaning for.

Not here: TensorCopyRawToDevice (arrays are the only form of tensors), and the dummy device that runs inline
(that is `run_here`, below).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from host_networks import (
    KINDS,
    SlowFunction,
    SlowProgram,
    expected,
    feed,
    function_of,
    layers,
    number,
    run_on,
    same,
    started,
)

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_dialects.parse import parse_module
from glow_runtime.devices.device import Device
from glow_runtime.devices.manager import DeviceManager, Run, machine_memory
from glow_runtime.devices.process import ProcessManager, Resident
from glow_runtime.devices.registry import kinds, manager_of

COUNTER = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @s state : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %s = glow.get @s : tensor<4xf32>
  %a = glow.add %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %a to @s : tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}
"""


ROWS = """
glow.placeholder @x input : tensor<4x2xf32>
glow.placeholder @i input : tensor<1xi64>
glow.placeholder @y output : tensor<1x2xf32>
glow.func @main {
  %x = glow.get @x : tensor<4x2xf32>
  %i = glow.get @i : tensor<1xi64>
  %a = glow.gather %x, %i {axis = 0, checked = "rows"} : (tensor<4x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  glow.save %a to @y : tensor<1x2xf32>
}
"""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def manager(kind: str) -> Iterator[DeviceManager]:
    made = manager_of(Device(kind))
    yield made
    made.close()


def load(manager: DeviceManager, model: glow.GraphBuilder, name: str = "net") -> None:
    manager.load(function_of(model, manager.device, name))


def test_basic(manager: DeviceManager, kind: str) -> None:
    model = layers()
    load(manager, model)
    inputs = feed(model)
    same(run_on(manager, "net", inputs), expected(model, inputs, kind))
    counts = manager.statistics()
    assert (counts.runs, counts.errors, counts.functions) == (1, 0, ["net"])
    assert 0 < counts.busy < 60


def test_run_here(manager: DeviceManager, kind: str) -> None:
    """Inline, by the caller's thread."""
    model = layers()
    load(manager, model)
    inputs = feed(model)
    outputs = manager.run_here("net", inputs)
    assert outputs is not None
    same(outputs, expected(model, inputs, kind))


def test_multi_run(manager: DeviceManager, kind: str) -> None:
    """Many runs of one function, from several threads, each with its own inputs and outputs."""
    model = layers()
    load(manager, model)
    wanted = [expected(model, feed(model, seed), kind) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: run_on(manager, "net", feed(model, i % 4)), range(20)))
    for turn, outputs in enumerate(results):
        same(outputs, wanted[turn % 4])


def test_results_are_the_callers(manager: DeviceManager) -> None:
    """Later runs do not change them."""
    model = layers()
    load(manager, model)
    first = run_on(manager, "net", feed(model, 1))
    kept = {n: v.copy() for n, v in first.items()}
    run_on(manager, "net", feed(model, 2))
    same(first, kept)


def test_multi_function(manager: DeviceManager, kind: str) -> None:
    one, two = layers(1), layers(2)
    load(manager, one, "one")
    load(manager, two, "two")
    inputs = feed(one)
    same(run_on(manager, "two", inputs), expected(two, inputs, kind))
    same(run_on(manager, "one", inputs), expected(one, inputs, kind))


def test_multi_module(manager: DeviceManager, kind: str) -> None:
    """Functions of modules that know nothing of each other, with symbols of the same names."""
    one, two = layers(2, seed=1), layers(2, seed=2)
    load(manager, one, "one")
    load(manager, two, "two")
    inputs = feed(one)
    first, second = (run_on(manager, name, inputs) for name in ("one", "two"))
    same(first, expected(one, inputs, kind))
    same(second, expected(two, inputs, kind))
    assert not np.array_equal(first["y"], second["y"])


def test_reuse_module(kind: str) -> None:
    """One compiled function on two devices."""
    model = layers()
    inputs = feed(model)
    devices = [manager_of(Device(kind, name=f"d{i}")) for i in range(2)]
    function = function_of(model, devices[0].device)
    try:
        for device in devices:
            device.load(function)
        for device in devices:
            same(run_on(device, "net", inputs), expected(model, inputs, kind))
        devices[0].evict("net")
        same(run_on(devices[1], "net", inputs), expected(model, inputs, kind))
    finally:
        for device in devices:
            device.close()


def test_transfer_static_placeholder(manager: DeviceManager) -> None:
    """A state keeps its value on the device from run to run."""
    manager.load(function_of(parse_module(COUNTER, "counter", context()), manager.device))
    x = np.arange(4, dtype=np.float32)
    for turn in range(1, 4):
        np.testing.assert_array_equal(run_on(manager, "net", {"x": x})["y"], turn * x)


def test_partial_tensor_copy(kind: str) -> None:
    """Inputs of fewer samples than the network's batch: the rest is padding, and not in the result."""
    model = layers(1)
    inputs = feed(model)
    wanted = expected(model, inputs, kind)
    with glow.HostManager([kind]) as host:
        host.add_network("net", model, batching=glow.Batching(4, delay=0.0))
        part = host.run("net", {"x": inputs["x"][:2]})
    np.testing.assert_array_equal(part["y"], wanted["y"][:2])


def test_set_device_memory(kind: str) -> None:
    """The memory that the user says, or the machine's."""
    for memory, wanted in ((None, machine_memory()), (12345, 12345)):
        made = manager_of(Device(kind, memory=memory))
        assert (made.memory, made.available, made.used) == (wanted, wanted, 0)
        made.close()


def test_available_memory(kind: str) -> None:
    """An exact fit is loaded; the next is refused; evicted, it makes room for another."""
    made = manager_of(Device(kind, memory=3 * 16 * 16 * 4))
    try:
        load(made, layers(3), "first")
        assert made.available == 0
        with pytest.raises(glow.DeviceMemoryError, match="'second' has 1024 bytes of constants, 0 of 3072"):
            load(made, layers(1), "second")
        assert not made.has("second")
        made.evict("first")
        assert made.available == 3072
        load(made, layers(1), "second")
        assert made.available == 2048
    finally:
        made.close()


def test_evict_what_is_not_there(manager: DeviceManager) -> None:
    with pytest.raises(glow.DeviceError, match="has no function 'net'"):
        manager.evict("net")
    with pytest.raises(glow.DeviceError, match="has no function 'net'"):
        run_on(manager, "net", {})


def test_a_function_is_there_as_long_as_somebody_has_it(manager: DeviceManager, kind: str) -> None:
    model = layers(1)
    function = function_of(model, manager.device)
    manager.load(function)
    manager.load(function)
    assert manager.used == 1024
    manager.evict("net")
    same(run_on(manager, "net", feed(model)), expected(model, feed(model), kind))
    manager.evict("net")
    assert not manager.has("net")


def test_errors_of_a_run_are_its_own(manager: DeviceManager, kind: str) -> None:
    """Only the run that is wrong fails; the device goes on."""
    manager.load(function_of(parse_module(ROWS, "rows", context()), manager.device))
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(glow.GlowError, match="rows.*9"):
        run_on(manager, "net", {"x": x, "i": np.array([9])})
    assert run_on(manager, "net", {"x": x, "i": np.array([3])})["y"].shape == (1, 2)
    assert manager.statistics().errors == 1


def test_device_resident_tensors() -> None:
    """An output stays on the device, is an input of the next function, and may be fetched."""
    made = manager_of(Device("process"))
    one, two = layers(1), layers(1, seed=5)
    try:
        load(made, one, "one")
        load(made, two, "two")
        inputs = feed(one)
        left = run_on(made, "one", inputs, resident=["y"])["y"]
        assert isinstance(left, Resident) and left.shape == (4, 16) and left.dtype == np.float32
        wanted = expected(one, inputs)["y"]
        same(run_on(made, "two", {"x": left}), expected(two, {"x": wanted}))
        np.testing.assert_array_equal(made.fetch(left), wanted)
        made.release(left)
        run_on(made, "one", inputs)  # the device hears of it with the next run
        with pytest.raises(KeyError):
            made.fetch(left)
    finally:
        made.close()


def test_a_tensor_of_another_device_is_moved() -> None:
    one, two = manager_of(Device("process")), manager_of(Device("process"))
    model = layers(1)
    try:
        load(one, model)
        load(two, model)
        inputs = feed(model)
        left = run_on(one, "net", inputs, resident=["y"])["y"]
        wanted = expected(model, {"x": expected(model, inputs)["y"]})
        same(run_on(two, "net", {"x": left}), wanted)
    finally:
        one.close()
        two.close()


def test_every_core_of_a_device_works() -> None:
    """(runOnAllThreads) As many runs at the same time as it has cores, and no more."""
    made = manager_of(Device("cpu", cores=3))
    program = SlowProgram()
    ended: list[Any] = []
    try:
        made.load(SlowFunction("slow", program))
        for turn in range(5):
            made.submit(Run("slow", number(turn), lambda outputs, error: ended.append(outputs or error)))
        started(program, 3)
        time.sleep(0.05)
        assert len(program.started) == 3
        program.go.set()
        started(program, 5)
    finally:
        made.close()
    assert sorted(int(outputs["y"][0]) for outputs in ended) == [0, 1, 2, 3, 4]


def test_closing_fails_what_comes(manager: DeviceManager) -> None:
    load(manager, layers(1))
    manager.close()
    with pytest.raises(glow.DeviceError, match="closed"):
        run_on(manager, "net", feed(layers(1)))
    with pytest.raises(glow.DeviceError, match="closed"):
        load(manager, layers(1), "other")


# --- processes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [False, True])
def test_a_crash_is_the_processs_own(retry: bool) -> None:
    """The run that it ends fails, or is repeated; the next ones find the functions again."""
    made = manager_of(Device("process", retry=retry))
    assert isinstance(made, ProcessManager)
    model = layers()
    inputs = feed(model)
    try:
        load(made, model)
        for _ in range(3):
            os.kill(made.pid, signal.SIGKILL)
            if retry:
                same(run_on(made, "net", inputs), expected(model, inputs))
            else:
                with pytest.raises(glow.DeviceError, match="ended in the middle of 'net'"):
                    run_on(made, "net", inputs)
            same(run_on(made, "net", inputs), expected(model, inputs))
        assert made.statistics().restarts == 3
    finally:
        made.close()


def test_a_device_that_only_crashes_is_given_up() -> None:
    made = manager_of(Device("process"))
    assert isinstance(made, ProcessManager)
    model = layers(1)
    try:
        load(made, model)
        for _ in range(8):
            if made.state != "ready":
                break
            os.kill(made.pid, signal.SIGKILL)
            with pytest.raises(glow.DeviceError):
                run_on(made, "net", feed(model))
        assert made.state == "failed"
        with pytest.raises(glow.DeviceError, match="failed"):
            run_on(made, "net", feed(model))
    finally:
        made.close()


def test_workers_end_with_their_host() -> None:
    made = manager_of(Device("process"))
    assert isinstance(made, ProcessManager)
    pid = made.pid
    made.close()
    for _ in range(200):
        if not os.path.exists(f"/proc/{pid}"):
            break
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_large_tensors_travel_whole() -> None:
    """Larger than any block that was there before, then smaller again, and empty ones."""
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (300, 1000))), "y")
    small = glow.GraphBuilder()
    small.save(small.relu(small.placeholder("x", (3,))), "y")
    made = manager_of(Device("process"))
    try:
        load(made, small, "small")
        load(made, g, "large")
        for name, shape in (("small", (3,)), ("large", (300, 1000)), ("small", (3,)), ("large", (300, 1000))):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            np.testing.assert_array_equal(run_on(made, name, {"x": x})["y"], np.maximum(x, 0))
    finally:
        made.close()


# --- descriptions -------------------------------------------------------------------------------


def test_devices_as_text() -> None:
    assert Device.parse("cpu:0") == Device("cpu", name="cpu:0")
    parsed = Device.parse("process:1,memory=64M,cores=2,threads=3,retry=yes")
    assert parsed == Device("process", "process:1", 64 << 20, cores=2, threads=3, retry=True)
    for text, message in (
        ("cpu,colour=red", "'colour=red' is not one of"),
        ("cpu,memory=much", "not a size in bytes"),
        ("cpu,cores=0", "at least one core"),
    ):
        with pytest.raises(glow.DeviceError, match=message):
            Device.parse(text)
    with pytest.raises(glow.DeviceError, match="memory=-1"):
        Device(memory=-1)


def test_kinds() -> None:
    assert {*KINDS, "ray"} <= kinds().keys()
    with pytest.raises(glow.DeviceError, match="no kind of device 'abacus'; there are: cpu, interpreter"):
        manager_of(Device("abacus"))


def test_devices_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that an entry point offers is used as ours are; one that does not load is ignored."""
    from importlib.metadata import EntryPoint

    entries = (
        EntryPoint("thread", "glow_runtime.devices.local:LocalManager", "glow.devices"),
        EntryPoint("broken", "glow_runtime.devices.nothing:Manager", "glow.devices"),
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    with pytest.warns(RuntimeWarning, match="'broken'.*is ignored"), glow.HostManager(["thread"]) as host:
        model = layers(1)
        host.add_network("net", model)
        same(host.run("net", feed(model)), expected(model, feed(model)))
