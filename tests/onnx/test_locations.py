"""Names of ONNX nodes: they reach every step of a program, whatever passes make of the nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glow_backends.base import ports
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.profile import profile
from glow_dialects.core.location import names, shortened
from glow_dialects.instr.memory import InstrFuncOp, WeightOp
from glow_tools.bench_kernels import planned

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(array, name)


def _save(path: Path, nodes: list[onnx.NodeProto], shape: list[int], **extra: object) -> Path:
    """A model of x and y with these nodes."""
    weights = extra.pop("weights", [])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "g", [x], [y], weights)  # pyright: ignore[reportArgumentType]
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=9, **extra), path)
    return path


def _steps(function: InstrFuncOp) -> dict[str, tuple[str, ...]]:
    """The names of instructions by their kind."""
    known = {op.name.partition(".")[2]: names(op.location) for op in function.block.ops}
    return {kind: known[kind] for kind in known if kind not in ("weight", "alloc", "dealloc")}


def test_fused_nodes(tmp_path: Path) -> None:
    """A kernel carries the names of all nodes that it computes, in order; unnamed ones by their output."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["a", "s", "s", "s", "v"], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["y"], "pool", kernel_shape=[2, 2]),
    ]
    weights = [_weight("w", 16, 16, 3, 3), _weight("s", 16)]
    weights.append(numpy_helper.from_array(np.ones(16, np.float32), "v"))
    path = _save(tmp_path / "net.onnx", nodes, [1, 16, 8, 8], weights=weights)
    _, function, _ = planned(str(path), {}, CpuBackend())
    steps = _steps(function)
    assert steps["conv"] == ("first", "norm", "c")
    assert steps["pool"] == ("pool",)
    assert all(names(op.location) for op in function.block.ops if not isinstance(op, WeightOp))


def test_nodes_of_functions(tmp_path: Path) -> None:
    """A named node of a function is called after the node that calls it, too."""
    inner = [
        helper.make_node("Exp", ["a"], ["b"], "grow"),
        helper.make_node("Softmax", ["b"], ["c"]),
    ]
    body = helper.make_function("own", "Odd", ["a"], ["c"], inner, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Odd", ["x"], ["y"], "outer", domain="own")]
    path = _save(tmp_path / "net.onnx", nodes, [4, 40], functions=[body])
    _, function, _ = planned(str(path), {}, CpuBackend())
    assert {name for found in _steps(function).values() for name in found} == {"outer/grow", "outer"}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["squeezenet", "inception_v1", "shufflenet"])
def test_every_step_of_a_model(model: str) -> None:
    """All steps of a profile are called after nodes of the file, and all convolutions are found in them."""
    path = LIGHT / f"light_{model}.onnx"
    proto = onnx.load(path)
    called = {node.name or node.output[0]: node.op_type for node in proto.graph.node}
    backend = CpuBackend()
    module, function, _ = planned(str(path), {}, backend)
    feed = {port.name: np.zeros(port.shape, port.dtype) for port in ports(module, "input")}
    steps = profile(module, function, backend.target, feed, runs=1).steps
    assert all(step.nodes and called.keys() >= set(step.nodes) for step in steps)
    convolutions = {name for name, kind in called.items() if kind == "Conv"}
    assert convolutions == {n for step in steps for n in step.nodes} & convolutions


def test_shortened() -> None:
    assert shortened(("a", "b", "c"), 3) == "a + b + c"
    assert shortened(("a", "b", "c", "d"), 3) == "a + b + ... + d"
