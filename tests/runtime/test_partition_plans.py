"""Plans in programs, and what is divided: the rest of Glow's PartitionerTest."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from host_networks import diamond, divided, expected, feed, layers, main_of, same, served
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_dialects.ops.module import ConstantOp, functions, lookup
from glow_dialects.parse import parse_module
from glow_passes.partition.cut import Place
from glow_passes.partition.partition import partition
from glow_passes.partition.split import extract, partition_of

LAYER = 16 * 16 * 4
"""Bytes of a layer's weights in these networks."""


PLANNED = """
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {{
  %x = glow.get @x : tensor<4xf32>
  %a = glow.relu %x {{partition = {0}}} : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.tanh %a {{partition = {1}}} : (tensor<4xf32>) -> tensor<4xf32>
  %c = glow.add %b, %x {{partition = {2}}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %c to @y : tensor<4xf32>
}}
"""


def planned(*parts: int) -> ModuleOp:
    return parse_module(PLANNED.format(*parts), "planned", context())


@pytest.mark.parametrize("parts", [(0, 1, 2), (0, 1, 1), (5, 3, 1), (0, 0, 0)])
def test_plan_of_the_program(parts: tuple[int, int, int]) -> None:
    """(partitionFromConfig, ...WithLogicalDevices) The program says which node is where."""
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    with glow.HostManager(["cpu"] * 3) as host:
        network = host.add_network("net", planned(*parts), partition="memory")
        assert len(network.partitions) == len(set(parts))
        got = host.run("net", {"x": x})["y"]
    np.testing.assert_allclose(got, np.tanh(np.maximum(x, 0)) + x, rtol=1e-6)


@pytest.mark.parametrize("how", ["auto", "memory", 2])
@pytest.mark.parametrize("parts", [(0, 1, 0), (2, 7, 2)])
def test_cyclic_plans(parts: tuple[int, int, int], how: Literal["auto", "memory", 2]) -> None:
    """(dagValidation x2, and with hints) The error names the nodes, however the rest is divided."""
    with (
        glow.HostManager(["cpu"]) as host,
        pytest.raises(glow.PartitionError, match="circle: node 'a'.*feeds 'b'"),
    ):
        host.add_network("net", planned(*parts), partition=how)


@pytest.mark.parametrize("storage", [False, True])
def test_halves(storage: bool) -> None:
    """(...WithLogicalDevicesFp16, FP16StaticPlaceholderInference) A network of 16-bit floats, by plan."""
    module = glow.convert_floats(layers(3), "f16", storage=storage)
    inputs = feed(module)
    wanted = expected(module, inputs)
    for number, op in enumerate(op for op in module.walk() if op.name == "glow.matmul"):
        op.attributes["partition"] = IntegerAttr(number, i64)
    with glow.HostManager(["cpu", "process"]) as host:
        network = host.add_network("net", module)
        assert len(network.partitions) == 3
        same(host.run("net", inputs), wanted)
        halves = 16 * 16 * 2
        assert [p.constant_bytes for p in network.partitions] == [halves] * 3


def test_several_functions_are_no_network() -> None:
    module = planned(0, 0, 0)
    extra = next(functions(module)).clone()
    from xdsl.dialects.builtin import StringAttr

    extra.properties["sym_name"] = StringAttr("second")
    module.body.block.add_op(extra)
    with glow.HostManager(["cpu"]) as host, pytest.raises(glow.PartitionError, match="main, second"):
        host.add_network("net", module, partition=1)


def test_pre_partitioned() -> None:
    """(PrePartitioned) Functions of a program that is divided already, one a module, share their arrays."""
    function = main_of(layers(2))
    made = partition(function, [Place(memory=LAYER)] * 2)
    modules = [extract(f) for f in made]
    x = feed(layers(2))["x"]
    between = glow.compile(modules[0]).run({"x": x})
    outputs = glow.compile(modules[1]).run(between)
    same(outputs, expected(layers(2), {"x": x}))
    constants = [op for m in modules for op in m.ops if isinstance(op, ConstantOp)]
    assert len(constants) == 2
    original = lookup(made[0], constants[0].sym_name.data)
    assert isinstance(original, ConstantOp)
    assert constants[0].array() is original.array()


def test_constants_are_folded_before_it_is_divided() -> None:
    """(RecordedConstantFolding) What is known when compiling is no partition's work."""
    g = glow.GraphBuilder()
    a, b = (g.constant(np.full((16, 16), v, np.float32), n) for v, n in ((1, "a"), (2, "b")))
    g.save(g.matmul(g.placeholder("x", (4, 16)), g.add(a, b)), "y")
    assert divided(g, [glow.Device(memory=LAYER)]) == [("main_0", 0, LAYER)]


def test_branches() -> None:
    """A model whose branches are decided by data is one function, unless both are computed."""
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    inner = [
        helper.make_graph([helper.make_node(op, ["x"], [n])], n, [], [helper.make_empty_tensor_value_info(n)])
        for op, n in (("Relu", "p"), ("Neg", "q"))
    ]
    for graph in inner:
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner[0], else_branch=inner[1])
    graph = helper.make_graph([node], "g", [x, c], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = {"x": np.array([-1, 0, 1], np.float32), "c": np.array(False)}
    with glow.HostManager([glow.Device(memory=1 << 20)] * 2) as host:
        assert len(host.add_network("net", model).partitions) == 1
        np.testing.assert_array_equal(host.run("net", inputs)["y"], -inputs["x"])
        host.add_network("two", model, partition=2)
        np.testing.assert_array_equal(host.run("two", inputs)["y"], -inputs["x"])


def test_graphs_with_several_roots_and_leaves() -> None:
    model = diamond()
    inputs = feed(model)
    for count in (2, 3, 4):
        found, outputs = served(model, ["cpu"] * 2, inputs, partition=count)
        assert found == count
        same(outputs, expected(model, inputs))


def test_partitions_name_their_nodes_parts() -> None:
    """The numbers of functions are those of the plan, in an order in which they can run."""
    module = planned(5, 3, 1)
    made = partition(next(functions(module)), [Place()])
    assert [partition_of(f) for f in made] == [5, 3, 1]


@pytest.mark.parametrize("kind", ["cpu", "process"])
def test_mixtures_of_experts(kind: str) -> None:
    """Experts over devices: each device has some, by their bytes, and the bits are those of the whole."""
    rng = np.random.default_rng(0)
    experts, width, inner, tokens = 4, 16, 32, 8
    first, second = (
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) / 4, n)
        for n, s in (("first", (experts, inner, width)), ("second", (experts, width, inner)))
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [tokens, width])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [tokens, experts])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [tokens, width])
    names = ["x", "scores", "first", "", "second"]
    node = helper.make_node("MoE", names, ["y"], domain="com.microsoft", k=2, activation_type="relu")
    graph = helper.make_graph([node], "g", [x, scores], [y], [first, second])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    inputs = {
        "x": rng.standard_normal((tokens, width)).astype(np.float32),
        "scores": rng.standard_normal((tokens, experts)).astype(np.float32),
    }
    expert = 2 * width * inner * 4
    with glow.HostManager([glow.Device(kind, memory=2 * expert + 64)] * 2) as host:
        network = host.add_network("moe", model)
        used = [c.used for c in host.device_statistics().values()]
        assert len(network.partitions) == 2 and all(u >= 2 * expert for u in used)
        same(host.run("moe", inputs), expected(model, inputs))
