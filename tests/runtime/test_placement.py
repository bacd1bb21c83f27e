"""Networks whose programs are made while they serve: branches, loops, nodes on the host and open sizes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from host_networks import same
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_runtime.devices.manager import Run

FLOATS = 64 * 64 * 4
"""Bytes of a layer's weights."""
DEVICES = (["cpu"] * 2, pytest.param(["cpu", "process"], marks=pytest.mark.slow))


def value(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


class Layers:
    """Nodes of a model under construction; each layer is a product and a relu."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.weights: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []

    def weight(self) -> str:
        array = self.rng.standard_normal((64, 64)).astype(np.float32) / 8
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}_{id(self)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def layers(self, x: str, count: int) -> str:
        for _ in range(count):
            x = self.node("Relu", self.node("MatMul", x, self.weight()))
        return x

    def model(self, *ports: onnx.ValueInfoProto, rows: int | str = 4) -> onnx.ModelProto:
        """The model whose output `y` is the last node's."""
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(self.nodes, "g", list(ports), [value("y", [rows, 64])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def loops() -> onnx.ModelProto:
    """Two layers, a loop of as many layers as an input says, two layers."""
    g = Layers()
    count = g.node("Cast", "t", to=TensorProto.INT64)
    before = g.layers("x", 2)
    inner = [
        helper.make_node("MatMul", ["s", g.weight()], ["m"]),
        helper.make_node("Tanh", ["m"], ["s2"]),
        helper.make_node("Identity", ["c"], ["c2"]),
    ]
    takes = [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [4, 64])]
    gives = [value("c2", [], TensorProto.BOOL), value("s2", [4, 64])]
    state = g.node("Loop", count, "", before, body=helper.make_graph(inner, "body", takes, gives))
    g.node("Add", g.layers(state, 2), before)
    return g.model(value("x", [4, 64]), value("t", []))


def branches() -> onnx.ModelProto:
    """Two long branches of six layers, of which an input chooses."""
    g = Layers()
    ways: list[onnx.GraphProto] = []
    for name in ("yes", "no"):
        inner = Layers()
        inner.rng, inner.weights = g.rng, g.weights
        out = inner.layers("x", 6)
        for _ in range(100):  # fewer would be computed both
            out = inner.node("Neg", out)
        ways.append(helper.make_graph(inner.nodes, name, [], [value(out, [4, 64])]))
    g.node("If", "c", then_branch=ways[0], else_branch=ways[1])
    return g.model(value("x", [4, 64]), value("c", [], TensorProto.BOOL))


def hosted() -> onnx.ModelProto:
    """Layers, a node that only the host runs, and layers again, on as many rows as that gave."""
    g = Layers()
    rounded = g.node("Round", g.node("ReduceMax", g.layers("x", 3), axes=[1], keepdims=0))
    g.nodes.append(helper.make_node("Unique", [rounded], ["u", "first"]))
    g.layers(g.node("Gather", "x", "first", axis=0), 3)
    return g.model(value("x", [16, 64]), rows="rows")


def open_rows() -> onnx.ModelProto:
    """Layers of any number of rows."""
    g = Layers()
    g.layers("x", 6)
    return g.model(value("x", ["n", 64]), rows="n")


def pooled() -> onnx.ModelProto:
    """Layers of the mean of any number of rows, as many times as there were rows."""
    g = Layers()
    mean = g.node("ReduceMean", g.layers("x", 2), axes=[0], keepdims=1)
    g.layers(g.node("Expand", g.layers(mean, 3), g.node("Shape", "x")), 1)
    return g.model(value("x", ["n", 64]), rows="n")


def feeds(name: str) -> list[dict[str, np.ndarray]]:
    """Inputs of several requests, in their order."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((16, 64)).astype(np.float32)
    if name == "loops":
        return [{"x": x[:4], "t": np.array(n, np.float32)} for n in (3, 0, 7)]
    if name == "branches":
        return [{"x": x[:4], "c": np.array(c)} for c in (True, False, True)]
    if name == "hosted":
        return [{"x": x}, {"x": 3 * x}, {"x": x}]
    return [{"x": x[:n]} for n in (4, 5, 11, 16, 1, 4)]


MODELS = {"loops": loops, "branches": branches, "hosted": hosted, "open": open_rows, "pooled": pooled}


@pytest.mark.slow
@pytest.mark.parametrize("devices", DEVICES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_partitions_give_the_bits_of_the_whole(name: str, devices: list[str]) -> None:
    model = MODELS[name]()
    whole = glow.compile(model)
    session = ort.InferenceSession(model.SerializeToString())
    with glow.HostManager(devices) as host:
        networks = [host.add_network(str(count), model, partition=count) for count in (2, 3)]
        for inputs in feeds(name):
            wanted = whole.run(inputs)
            np.testing.assert_allclose(
                wanted["y"], np.asarray(session.run(["y"], inputs)[0]), rtol=1e-4, atol=1e-5
            )
            for network in networks:
                same(host.run(network.name, inputs), wanted)
                assert len(network.partitions) == int(network.name)
        for network in networks:
            host.remove_network(network.name)
        assert all(c.used == 0 and not c.functions for c in host.device_statistics().values())


@pytest.mark.parametrize("name", ["open", "pooled"])
def test_one_open_program_serves_further_sizes(name: str) -> None:
    """The second size has the program of any size compiled, in partitions; the third needs nothing new."""
    with glow.HostManager(["process"] * 2) as host:
        network = host.add_network("net", MODELS[name](), partition=2)
        for inputs in feeds("open")[:3]:
            host.run("net", inputs)
        assert [len(program.parts) for program in network.programs] == [2, 2]


def test_memory_bounds_each_device() -> None:
    """Programs that have no room beside others make some, whoever runs at the time."""
    model, inputs = branches(), feeds("branches")
    whole = glow.compile(model)
    wanted = [whole.run(i)["y"].tobytes() for i in inputs]
    bound = 3 * FLOATS + 100
    with glow.HostManager([glow.Device(memory=bound)] * 2) as host:
        network = host.add_network("net", model)
        answers: list[bool] = []

        def ask(which: int) -> None:
            for turn in range(20):
                number = (which + turn) % 3
                answers.append(host.run("net", inputs[number])["y"].tobytes() == wanted[number])

        threads = [threading.Thread(target=ask, args=(which,)) for which in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert answers == [True] * 60
        assert len(network.programs) == 1 and len(network.partitions) == 2
        assert all(0 < c.used <= bound for c in host.device_statistics().values())


def test_what_has_no_room_is_told() -> None:
    """With the node and its bytes, for the request that needs it; others go on."""
    with glow.HostManager([glow.Device(memory=FLOATS - 1)] * 2) as host:
        host.add_network("net", branches())
        error = host.submit("net", feeds("branches")[0]).exception(60)
        assert isinstance(error, glow.PartitionError) and f"has {FLOATS} bytes of constants" in str(error)


def test_loops_stay_whole_on_a_device_that_runs_them() -> None:
    """By support: what the first device lacks is on the second, and the loop on one that has its nodes."""
    model, inputs = loops(), feeds("loops")[0]
    wanted = glow.compile(model).run(inputs)["y"]
    for lacking in ("glow.relu", "glow.tanh"):
        with glow.HostManager([glow.Device(unsupported=(lacking,)), "interpreter"]) as host:
            network = host.add_network("net", model)
            np.testing.assert_allclose(host.run("net", inputs)["y"], wanted, rtol=1e-4, atol=1e-5)
            assert len(network.partitions) > 1


def test_more_partitions_than_can_be() -> None:
    with glow.HostManager(["cpu"]) as host:
        with pytest.raises(glow.PartitionError, match="100 partitions: the nodes .* that can be parted are"):
            host.add_network("net", loops(), partition=100)
        assert not host.devices[0].statistics().functions


def test_replicas_and_batches() -> None:
    """Each program is on as many devices as are asked for; requests are batched as those of the whole."""
    model = open_rows()
    whole = glow.compile(model)
    rows = [i for i in feeds("open") if len(i["x"]) == 4]
    with glow.HostManager(["cpu"] * 4) as host:
        network = host.add_network("net", model, partition=2, replicas=2, batching=glow.Batching(8, 0.01))
        answers = [host.submit("net", rows[0]) for _ in range(8)]
        for answer in answers:
            np.testing.assert_allclose(answer.result(60)["y"], whole.run(rows[0])["y"], rtol=1e-5)
        assert all(len(p.replicas) == 2 for p in network.programs)
        assert host.statistics()["net"].batches < 8


def test_timeline_has_the_partitions_of_each_request() -> None:
    tracer = glow.Tracer(kernels=True)
    with glow.HostManager(["cpu"] * 2, tracer=tracer) as host:
        host.add_network("net", branches(), partition=2)
        for inputs in feeds("branches"):
            host.run("net", inputs)
    events = tracer.events()
    found: dict[int, set[str]] = {}
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    for event in events:
        if event.get("cat") in ("partition", "kernel"):
            found.setdefault(event["args"]["request"], set()).add(names[event["tid"]])
    assert list(found.values()) == [{"host", "cpu:0", "cpu:1"}] * 3


def test_after_its_time_nothing_of_a_request_begins() -> None:
    """Neither its further partitions nor runs that wait on a device."""
    model = loops()
    with glow.HostManager(["cpu"] * 2) as host:
        network = host.add_network("net", model, partition=2)
        inputs = feeds("loops")[0]
        host.run("net", inputs)
        busy, go = threading.Event(), threading.Event()

        def block(outputs: Any, error: Any) -> None:
            busy.set()
            go.wait(60)

        first = network.programs[-1].parts[0].function
        host.devices[0].submit(Run(first.name, {n: inputs[n] for n in first.inputs}, block))
        assert busy.wait(60)
        runs = [d.statistics().runs for d in host.devices]
        late = host.submit("net", inputs, timeout=0.05)
        assert isinstance(late.exception(60), glow.DeadlineError)
        go.set()
        host.run("net", inputs)
        assert [d.statistics().runs for d in host.devices] == [runs[0] + 2, runs[1] + 1]
        assert host.devices[0].statistics().errors == 1


def test_pictures_have_the_programs() -> None:
    with glow.HostManager(["cpu"] * 2) as host:
        host.add_network("net", open_rows(), partition=2)
        for inputs in feeds("open")[:2]:
            host.run("net", inputs)
        assert host.picture().count('[label="net main_') == 4
