"""Networks for tests of devices and hosts, and devices of every kind that they have a meaning for."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.ops.module import FuncOp, functions
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction, ProgramFunction
from glow_runtime.devices.manager import DeviceManager, Run
from glow_runtime.host.host import HostManager
from glow_runtime.host.network import Network, Replica, open_check
from glow_runtime.host.partitions import Partition, Room, divide
from glow_runtime.program_source import Signature

#: Kinds that run on this machine without anything else.
KINDS = ("cpu", "interpreter", "process")


def layers(count: int = 3, size: int = 16, seed: int = 0, join: bool = False) -> glow.GraphBuilder:
    """y = relu(... relu(x w0) ... w[n-1]), w of size x size floats; `join` adds the first to the last."""
    rng = np.random.default_rng(seed)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, size))
    first = None
    for number in range(count):
        w = g.constant(rng.standard_normal((size, size)).astype(np.float32) / size, f"w{number}")
        x = g.relu(g.matmul(x, w))
        first = x if first is None else first
    g.save(g.add(x, first) if join and first is not None else x, "y")
    return g


def diamond(size: int = 16) -> glow.GraphBuilder:
    """Two inputs, each through a layer; their sum; two outputs of it: two roots, a join, two leaves."""
    rng = np.random.default_rng(1)
    g = glow.GraphBuilder()

    def weights(name: str) -> Any:
        return g.constant(rng.standard_normal((size, size)).astype(np.float32) / size, name)

    a, b = g.placeholder("a", (4, size)), g.placeholder("b", (4, size))
    both = g.add(g.tanh(g.matmul(a, weights("wa"))), g.sigmoid(g.matmul(b, weights("wb"))))
    g.save(g.relu(g.matmul(both, weights("wy"))), "y")
    g.save(g.tanh(g.matmul(both, weights("wz"))), "z")
    return g


def feed(model: glow.GraphBuilder | ModuleOp, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs."""
    rng = np.random.default_rng(seed)
    module = model.module if isinstance(model, glow.GraphBuilder) else model
    from glow_backends.base import ports

    return {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in ports(module, "input")}


def expected(model: Any, inputs: Mapping[str, Any], kind: str = "cpu") -> dict[str, np.ndarray]:
    """What the undivided program of the same backend gives."""
    backend = "interpreter" if kind == "interpreter" else "cpu"
    return glow.compile(model, backend=backend).run(inputs)


def same(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Bit for bit."""
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value, strict=True)


def function_of(
    model: glow.GraphBuilder | ModuleOp, device: Device | None = None, name: str = "net"
) -> DeviceFunction:
    """A whole model as one compiled function."""
    device = device or Device()
    module = model.module if isinstance(model, glow.GraphBuilder) else model
    division = divide(name, module, [Room(device, "d", None)], 1)
    function = division.partitions[0].function
    function.name = name
    return function


def run_on(
    manager: DeviceManager, function: str, inputs: Mapping[str, Any], resident: Sequence[str] = ()
) -> Any:
    """Outputs of one run, queued and waited for."""
    answer: list[tuple[Any, BaseException | None]] = []
    ended = threading.Event()

    def done(outputs: Any, error: BaseException | None) -> None:
        answer.append((outputs, error))
        ended.set()

    manager.submit(Run(function, inputs, done, frozenset(resident)))
    assert ended.wait(120), "a run does not end"
    assert len(answer) == 1, "done is called once"
    outputs, error = answer[0]
    if error is not None:
        raise error
    return outputs


class SlowProgram:
    """A function that waits until it may go on, and notes who runs: for tests of order and limits."""

    def __init__(self, fails: bool = False) -> None:
        self.started: list[str] = []
        self.go = threading.Event()
        self.fails = fails

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """y = x, when it may."""
        self.started.append(str(inputs["x"].flat[0]))
        assert self.go.wait(120)
        if self.fails:
            raise glow.DeviceError("it fails, as the test wants")
        return {"y": inputs["x"]}


class SlowFunction(ProgramFunction):
    """`SlowProgram` in the form that devices load."""

    def __init__(self, name: str, program: SlowProgram, size: int = 0) -> None:
        self.name, self.inputs, self.outputs, self.constant_bytes = name, ["x"], ["y"], size
        self.slow = program

    def runner(self) -> Any:
        return self.slow


def slow_network(host: HostManager, name: str = "slow", fails: bool = False) -> SlowProgram:
    """Put a network of one slow function on the host's first device."""
    program = SlowProgram(fails)
    function = SlowFunction(f"{name}/main", program)
    x, y = (Signature(n, (1,), np.dtype(np.float32)) for n in "xy")
    network = Network(name, 0, [Partition("main", function, 0)], [x], [y], open_check)
    host.devices[0].load(function)
    network.replicas.append(Replica([host.devices[0]]))
    host.networks[name] = network
    return program


def number(value: float) -> dict[str, np.ndarray]:
    return {"x": np.full(1, value, np.float32)}


def started(program: SlowProgram, count: int) -> None:
    """Wait until so many runs have started."""
    for _ in range(6000):
        if len(program.started) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("runs do not start")


def main_of(model: glow.GraphBuilder) -> FuncOp:
    return next(functions(model.module.clone()))


def divided(
    model: glow.GraphBuilder, devices: Sequence[glow.Device], count: int = 0
) -> list[tuple[str, int, int]]:
    """(name, device, bytes) of the partitions of a model."""
    rooms = [Room(d, f"d{i}", d.memory) for i, d in enumerate(devices)]
    division = divide("net", model.module, rooms, count)
    return [(p.name, p.place, p.constant_bytes) for p in division.partitions]


def served(
    model: glow.GraphBuilder, devices: Sequence[Any], inputs: Mapping[str, Any], **options: Any
) -> tuple[int, dict[str, Any]]:
    """(partitions, outputs) of a model on a host."""
    with glow.HostManager(devices) as host:
        network = host.add_network("net", model, **options)
        return len(network.partitions), host.run("net", inputs)
