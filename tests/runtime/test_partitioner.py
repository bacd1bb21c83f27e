"""Partitions: the behaviours that Glow's PartitionerTest checks. Names of the list are in parentheses.

Bytes of constants are what memory bounds here (Glow counts inputs and outputs of a partition, too). Not here:
cards, contexts and SRAM as such (they are devices with rates and memory); fp16 conversion (its own pass);
direct calls and JSON of a DAG (the plan is in the IR, which round-trips).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_networks import divided, expected, feed, layers, main_of, same, served
from onnx import TensorProto, helper, numpy_helper
from xdsl.printer import Printer

import glow_compiler as glow
from glow_backends.cpu.backend import CpuBackend
from glow_backends.interpreter.backend import InterpreterBackend
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.dialects import context
from glow_dialects.ops.module import GetOp, SaveOp, functions
from glow_dialects.parse import parse_module
from glow_passes.partition.cut import Place, cut
from glow_passes.partition.nodes import memory_of, node_graph
from glow_passes.partition.partition import partition
from glow_passes.partition.split import partitions

LAYER = 16 * 16 * 4
"""Bytes of a layer's weights in these networks."""


# --- by memory ----------------------------------------------------------------------------------


def test_basic_by_memory() -> None:
    """(Basic1) Three devices with room for a layer each: three partitions, the same bits, saves in place."""
    model = layers(3)
    inputs = feed(model)
    count, outputs = served(model, [glow.Device(memory=LAYER)] * 3, inputs)
    assert count == 3
    same(outputs, expected(model, inputs))


def test_saves_are_where_their_values_are() -> None:
    """(Basic1) Each partition saves only what it computes."""
    function = main_of(layers(3))
    for made in partition(function, [Place(memory=LAYER)] * 3):
        computed = {r for op in made.body.block.ops for r in op.results}
        assert all(op.input in computed for op in made.body.block.ops if isinstance(op, SaveOp))


def test_basic_saturated() -> None:
    """(Basic2) Two partitions, twice, on four devices."""
    model = layers(2)
    inputs = feed(model)
    with glow.HostManager([glow.Device(memory=LAYER)] * 4) as host:
        network = host.add_network("net", model, replicas="saturate")
        assert (len(network.partitions), len(network.replicas)) == (2, 2)
        for _ in range(4):
            same(host.run("net", inputs), expected(model, inputs))


def test_too_little_memory() -> None:
    """(Error1) All devices together have less than the network needs."""
    with pytest.raises(glow.PartitionError, match=f"{3 * LAYER} bytes of constants do not fit"):
        divided(layers(3), [glow.Device(memory=2 * LAYER)])


def test_one_node_larger_than_any_device() -> None:
    """(memoryUsageValidation1)"""
    with pytest.raises(
        glow.PartitionError, match=f"has {LAYER} bytes of constants, the largest device has 99"
    ):
        divided(layers(1), [glow.Device(memory=99)] * 9)


def test_as_few_as_there_is_room_for() -> None:
    """Partitions are as few as the memory allows; a device with all of the room has all."""
    for memory, wanted in ((LAYER, 4), (2 * LAYER, 2), (3 * LAYER, 2), (4 * LAYER, 1)):
        assert len(divided(layers(4), [glow.Device(memory=memory)] * 4)) == wanted


def test_unlike_devices() -> None:
    """Large partitions go to the devices that have room for them, in whatever order these are."""
    devices = [glow.Device(memory=LAYER), glow.Device(memory=3 * LAYER)]
    parts = divided(layers(4), devices)
    assert sorted((place, size) for _, place, size in parts) == [(0, LAYER), (1, 3 * LAYER)]


def test_several_partitions_of_one_device() -> None:
    """Where one run of nodes a device does not fit, devices have several."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 8))
    for number, size in enumerate((64, 8, 8, 64)):  # in bytes x 32: 512, 512, 64, ...
        w = g.constant(rng.standard_normal((x.shape[1], size)).astype(np.float32), f"w{number}")
        x = g.tanh(g.matmul(x, w))
    g.save(x, "y")
    total = (8 * 64 + 64 * 8 + 8 * 8 + 8 * 64) * 4
    devices = [glow.Device(memory=2048 + 2048 + 256), glow.Device(memory=2048)]
    assert total == 2048 * 3 + 256
    inputs = feed(g)
    _, outputs = served(g, devices, inputs)
    same(outputs, expected(g, inputs))


def test_shared_constants_count_once_a_partition() -> None:
    """(graphMemInfo) Two layers with the same weights in one partition have them once."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 16))
    w = g.constant(np.eye(16, dtype=np.float32) + 1, "w")
    g.save(g.matmul(g.tanh(g.matmul(x, w)), w), "y")
    assert divided(g, [glow.Device(memory=LAYER)]) == [("main_0", 0, LAYER)]
    assert [size for _, _, size in divided(g, [glow.Device(memory=LAYER)] * 2, 2)] == [LAYER, LAYER]


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        ("relu", (64 * 4, 64 * 4, 0)),
        ("weights", (4 * 16 * 4, 4 * 16 * 4, LAYER)),
        ("twice", (4 * 16 * 4, 2 * 4 * 16 * 4, LAYER)),
    ],
)
def test_memory_of_functions(build: str, wanted: tuple[int, int, int]) -> None:
    """(funcMemInfo x3) Bytes of inputs, outputs and constants, each tensor once."""
    g = glow.GraphBuilder()
    if build == "relu":
        g.save(g.relu(g.placeholder("x", (64,))), "y")
    else:
        x = g.placeholder("x", (4, 16))
        w = g.constant(np.zeros((16, 16), np.float32), "w")
        g.save(g.matmul(x, w), "y")
        if build == "twice":
            g.save(g.relu(g.matmul(x, w)), "z")
    memory = memory_of(main_of(g))
    assert (memory.inputs, memory.outputs, memory.constants) == wanted


def test_outputs_of_several_results_count_once() -> None:
    """(graphMemInfoCalculation2) A node with two results that are read twice is one transfer each."""
    g = glow.GraphBuilder()
    values, indices = g.top_k(g.placeholder("x", (4, 8)), 2)
    g.save(g.add(g.relu(values), g.tanh(values)), "y")
    g.save(indices, "i")
    function = main_of(g)
    graph = node_graph(function)
    top = graph.nodes[0].op
    for node in graph.nodes:
        from xdsl.dialects.builtin import IntegerAttr, i64

        node.op.attributes["partition"] = IntegerAttr(0 if node.op is top else 1, i64)
    first, second = partition(function, [Place(), Place()])
    assert sum(isinstance(op, SaveOp) for op in first.body.block.ops) == 2
    assert sum(isinstance(op, GetOp) for op in second.body.block.ops) == 2


# --- by time ------------------------------------------------------------------------------------


def test_load_balanced() -> None:
    """(loadBalancedPartition) Three equal parts, the same bits; the plan survives printing and parsing."""
    model = layers(6, size=64)
    inputs = feed(model)
    count, outputs = served(model, ["cpu"] * 3, inputs, partition=3)
    assert count == 3
    same(outputs, expected(model, inputs))
    assert [s for _, _, s in divided(model, [glow.Device()] * 3, 3)] == [2 * 64 * 64 * 4] * 3


def test_plans_round_trip() -> None:
    """(loadBalancedPartition, DAG serialisation)"""
    module = layers(4).module.clone()
    made = partition(next(functions(module)), [Place("a"), Place("b")], 2)
    from io import StringIO

    text = StringIO()
    Printer(text).print_op(module)
    again = partitions(parse_module(text.getvalue(), "plan", context()))
    assert [f.attributes for f in again] == [f.attributes for f in made]


def test_roofline() -> None:
    """(Basic1Roofline) A node's time is its arithmetic or its traffic, whichever takes longer."""
    from glow_passes.partition.cut import _Sequence

    graph = node_graph(main_of(layers(1)))
    sequence = _Sequence(graph)
    product = next(i for i, n in enumerate(graph.nodes) if n.constants)
    node = graph.nodes[product]
    assert node.work == 2 * 4 * 16 * 16
    assert node.traffic == (4 * 16 + 16 * 16 + 4 * 16) * 4
    slow = Place(flops=10.0, bandwidth=1e9)
    narrow = Place(flops=1e9, bandwidth=10.0)
    assert sequence.seconds(slow)[product] == node.work / 10
    assert sequence.seconds(narrow)[product] == node.traffic / 10


def test_faster_devices_get_more() -> None:
    model = layers(6, size=64)
    devices = [glow.Device(flops=1e10, bandwidth=1e12), glow.Device(flops=5e10, bandwidth=1e12)]
    sizes = {place: size for _, place, size in divided(model, devices, 2)}
    assert sizes[0] == 64 * 64 * 4 and sizes[1] == 5 * 64 * 64 * 4


def test_cuts_go_where_little_crosses() -> None:
    """(SelectRepFunc and the cost of communication) Of equal cuts, the one over the smaller value."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 64))
    for number, (rows, columns) in enumerate(((64, 64), (64, 4), (4, 64), (64, 64))):
        x = g.matmul(x, g.constant(rng.standard_normal((rows, columns)).astype(np.float32), f"w{number}"))
    g.save(x, "y")
    function = main_of(g)
    plan = cut(node_graph(function), [Place(link=1e3)] * 2, 2)
    crossing = [v for w, r, v in node_graph(function).edges() if plan[w][0] != plan[r][0]]
    assert [str(v.type) for v in crossing] == ["tensor<4x4xf32>"]


def test_more_partitions_than_nodes() -> None:
    with pytest.raises(glow.PartitionError, match="99 partitions"):
        divided(layers(2), [glow.Device()] * 99, 99)


@pytest.mark.parametrize("count", [3, 4])
def test_more_partitions_than_devices(count: int) -> None:
    """(logicalIDTest0/1) Devices have several."""
    model = layers(4)
    inputs = feed(model)
    found, outputs = served(model, ["cpu", "cpu"], inputs, partition=count)
    assert found == count
    same(outputs, expected(model, inputs))


@pytest.mark.parametrize("replicas", [2, "saturate"])
def test_saturated_by_count(replicas: Any) -> None:
    """(saturateKDevices) Two of three devices, or all."""
    with glow.HostManager(["cpu"] * 3) as host:
        network = host.add_network("net", layers(1), replicas=replicas)
        assert len({m for r in network.replicas for m in r.managers}) == (2 if replicas == 2 else 3)


# --- tables -------------------------------------------------------------------------------------


def tables(count: int = 6, rows: int = 64, width: int = 8, behind: Any = None) -> glow.GraphBuilder:
    """Rows of embedding tables side by side, each with what is `behind` it, and a layer on top of them."""
    rng = np.random.default_rng(3)
    g = glow.GraphBuilder()
    parts = []
    for number in range(count):
        indices = g.placeholder(f"i{number}", (4,), np.dtype(np.int64))
        table = g.constant(rng.standard_normal((rows, width)).astype(np.float32), f"t{number}")
        rows_of = g.gather(table, indices)
        parts.append(behind(g, rows_of) if behind else rows_of)
    both = g.concat(parts, axis=1)
    w = g.constant(rng.standard_normal((both.shape[1], 4)).astype(np.float32), "w")
    g.save(g.sigmoid(g.matmul(both, w)), "y")
    return g


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_tables_are_spread(devices: int) -> None:
    """(SparseNN) Tables over devices, by their bytes; the dense part behind them."""
    model = tables()
    table = 64 * 8 * 4
    memory = -(-6 // devices) * table + 6 * 8 * 4 * 4
    rng = np.random.default_rng(0)
    inputs = {f"i{n}": rng.integers(0, 64, 4) for n in range(6)}
    with glow.HostManager([glow.Device(memory=memory)] * devices) as host:
        network = host.add_network("net", model)
        assert len(network.partitions) >= min(devices, 3)
        assert all(c.used <= memory for c in host.device_statistics().values())
        same(host.run("net", inputs), expected(model, inputs))


BEHIND: dict[str, Any] = {
    "layer norm": lambda g, x: g.layer_norm(x),
    "clip": lambda g, x: g.clip(x, -0.5, 0.5),
    "tanh": lambda g, x: g.tanh(x),
    "tile": lambda g, x: g.concat([x, x], axis=1),
    "shared splats": lambda g, x: g.add(g.layer_norm(x), 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("kind", ["cpu", "process"])
def test_nodes_behind_tables(behind: str, kind: str) -> None:
    """(SparseNN) What follows tables goes with them or not; bytes of devices and bits are right."""
    model = tables(6, behind=BEHIND[behind])
    bound = 2 * 64 * 8 * 4 + 2 * 6 * 8 * 4 * 4  # two tables, and the layer on top
    rng = np.random.default_rng(0)
    inputs = {f"i{n}": rng.integers(0, 64, 4) for n in range(6)}
    with glow.HostManager([glow.Device(kind, memory=bound)] * 3) as host:
        network = host.add_network("net", model)
        used = host.device_statistics().values()
        assert len(network.partitions) >= 3 and all(0 < c.used <= bound for c in used)
        same(host.run("net", inputs), expected(model, inputs))


def test_partitions_side_by_side() -> None:
    """(SparseNN) Partitions that do not need each other run at the same time."""
    model = tables(4)
    with glow.HostManager(["cpu"] * 3) as host:
        network = host.add_network("net", model, partition=3)
        roots = [p for p in network.partitions if not any(n in network.writers for n in p.inputs)]
        assert len(roots) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "process"])
@pytest.mark.parametrize("devices", [2, 3, 5])
def test_a_table_larger_than_any_device(kind: str, devices: int) -> None:
    """Its rows are spread; indices count from both ends, and those of no row are errors as before."""
    rng = np.random.default_rng(5)
    g = glow.GraphBuilder()
    table = g.constant(rng.standard_normal((1001, 16)).astype(np.float32), "table")
    rows = g.gather(table, g.placeholder("i", (7, 3), np.dtype(np.int64)))
    w = g.constant(rng.standard_normal((16, 4)).astype(np.float32), "w")
    g.save(g.tanh(g.matmul(g.reshape(rows, (21, 16)), w)), "y")
    memory = 1001 * 64 // devices + 600
    indices = rng.integers(-1001, 1001, (7, 3))
    indices.flat[:4] = 0, -1, 1000, -1001
    with glow.HostManager([glow.Device(kind, memory=memory)] * devices) as host:
        host.add_network("net", g)
        used = [c.used for c in host.device_statistics().values()]
        assert sum(used) == 1001 * 64 + 256 and all(0 < u <= memory for u in used)
        same(host.run("net", {"i": indices}), expected(g, {"i": indices}))


def test_indices_of_spread_tables_are_checked(tmp_path: Path) -> None:
    """An index of no row is an error there, too, whichever end it is beyond."""
    table = np.arange(100, dtype=np.float32).reshape(50, 2)
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"])]
    graph = helper.make_graph(nodes, "g", [i], [y], [numpy_helper.from_array(table, "t")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with glow.HostManager([glow.Device(memory=150)] * 4) as host:
        host.add_network("net", model)
        for good in (0, 49, -50, 25):
            np.testing.assert_array_equal(host.run("net", {"i": np.array([good])})["y"], table[[good]])
        for bad in (50, -51, 1000, -1000):
            with pytest.raises(glow.GlowError, match="out of range"):
                host.run("net", {"i": np.array([bad])})


def test_tables_that_fit_nowhere() -> None:
    """(SparseNN, forced failure)"""
    with pytest.raises(glow.PartitionError, match="13056 bytes of constants do not fit"):
        divided(tables(), [glow.Device(memory=2000)] * 6)


SPLATS = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %s = glow.splat {value = 1.0 : f32} : () -> tensor<4xf32>
  %a = glow.add %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = glow.mul %a, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}
"""


def test_splats_are_copied_to_who_reads_them() -> None:
    """(SparseNN, splats cloned per user) A number costs no transfer."""
    module = parse_module(SPLATS, "splats", context())
    made = partition(next(functions(module)), [Place()] * 2, 2)
    assert all(any(op.name == "glow.splat" for op in f.body.block.ops) for f in made)
    transfers = [op for f in made for op in f.body.block.ops if isinstance(op, SaveOp)]
    assert len(transfers) == 2  # what the second reads, and the output


# --- by support ---------------------------------------------------------------------------------


def network_of_three() -> glow.GraphBuilder:
    """relu(a) * b - a: products on one device, differences on another."""
    g = glow.GraphBuilder()
    a, b = g.placeholder("a", (4, 8)), g.placeholder("b", (4, 8))
    g.save(g.sub(g.mul(g.relu(a), b), a), "y")
    return g


class NoProducts(InterpreterBackend):
    """A backend without products."""

    name = "no products"

    def supports(self, op: GraphOp) -> bool:
        return op.name != "glow.mul" and super().supports(op)


class OnlyProducts(CpuBackend):
    """A backend with nothing but products."""

    name = "only products"

    def supports(self, op: GraphOp) -> bool:
        return op.name in ("glow.mul", "glow.get", "glow.save") and super().supports(op)


@pytest.mark.parametrize(
    "devices",
    [
        (glow.Device(backend=OnlyProducts(), name="a"), glow.Device(backend=NoProducts(), name="b")),
        (
            glow.Device("interpreter", unsupported=("glow.mul",), name="a"),
            glow.Device("cpu", unsupported=("glow.sub", "glow.relu"), name="b"),
        ),
        (
            glow.Device("interpreter", supported=("glow.sub", "glow.relu"), name="a"),
            glow.Device("cpu", supported=("glow.mul",), name="b"),
        ),
    ],
    ids=["supports", "nonSupported", "supported"],
)
def test_heterogeneous(devices: Sequence[glow.Device]) -> None:
    """(heterogeneous x3) Each node on a device that runs it, in three functions."""
    model = network_of_three()
    inputs = feed(model)
    with glow.HostManager(devices) as host:
        network = host.add_network("net", model)
        assert len(network.partitions) == 3
        used = [m.name for m in network.replicas[0].managers]
        assert used[0] == used[2] != used[1]
        got = host.run("net", inputs)
    wanted = np.maximum(inputs["a"], 0) * inputs["b"] - inputs["a"]
    np.testing.assert_allclose(got["y"], wanted, rtol=1e-6)


def test_nodes_that_no_device_runs() -> None:
    devices = [
        glow.Device("interpreter", supported=("glow.relu",), name="a"),
        glow.Device("cpu", supported=("glow.mul",), name="b"),
    ]
    with (
        glow.HostManager(devices) as host,
        pytest.raises(glow.PartitionError, match=r"no device supports.*glow.sub"),
    ):
        host.add_network("net", network_of_three(), partition="memory")


def test_unlike_devices_that_all_run_everything() -> None:
    """The first kind has it all: nothing is divided for the sake of it."""
    model = layers(2)
    inputs = feed(model)
    count, outputs = served(model, ["cpu", "interpreter"], inputs)
    assert count == 1
    same(outputs, expected(model, inputs))


def test_devices_look_up_at_once() -> None:
    """Of a table over four devices three look up without each other; the last joins what they found."""
    rng = np.random.default_rng(6)
    g = glow.GraphBuilder()
    table = g.constant(rng.standard_normal((1000, 16)).astype(np.float32), "table")
    g.save(g.tanh(g.gather(table, g.placeholder("i", (7,), np.dtype(np.int32)))), "y")
    with glow.HostManager([glow.Device(memory=1000 * 64 // 4 + 100)] * 4) as host:
        network = host.add_network("net", g)
        waits = [sum(n in network.writers for n in part.inputs) for part in network.partitions]
        assert sorted(waits)[:3] == [0, 0, 0] and len(waits) == 4
        inputs = {"i": np.array([0, -1, 999, -1000, 250, 500, 749], np.int32)}
        same(host.run("net", inputs), expected(g, inputs))


def test_joins_move_where_parts_then_run_side_by_side() -> None:
    """A part that needs the one before for more than a join keeps what it has."""
    model = layers(4, join=True)
    function = next(functions(model.module))
    plan = cut(node_graph(function), [Place()] * 3, 3)
    parts = [part for part, _ in plan]
    assert parts == sorted(parts)
