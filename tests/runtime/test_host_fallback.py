"""A device with another backend's kernels for what it lacks, and backends that compile graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_backends.base import Backend, Program, get_backend, ports
from glow_backends.conformance import check_backend
from glow_backends.interpreter.backend import InterpreterBackend
from glow_backends.phases import phases
from glow_backends.report import Report
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.instr.memory import AllocOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, SaveOp, functions
from glow_dialects.ops.relu import ReluOp
from glow_passes.contract import InstructionPass
from glow_passes.pipeline import PassRunner


class Layers(InterpreterBackend):
    """A device that runs convolutions alone."""

    name = "layers"

    def supports(self, op: GraphOp) -> bool:
        return isinstance(op, ConvOp)


class GraphProgram(Program):
    """Nodes one after another."""

    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.inputs, self.outputs = ports(module, "input"), ports(module, "output", function)
        self.report = Report()
        self.function = function

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        values: dict[SSAValue, Any] = {}
        results: dict[str, Array] = {}
        for op in self.function.body.block.ops:
            if isinstance(op, GetOp):
                target = op.target()
                known = target.array() if isinstance(target, ConstantOp) else None
                values[op.result] = inputs[op.symbol.root_reference.data] if known is None else known
            elif isinstance(op, SaveOp):
                results[op.symbol.root_reference.data] = values[op.input]
            elif isinstance(op, GraphOp):
                made = op.evaluate([values[v] for v in op.operands])
                values |= dict(zip(op.results, made, strict=True))
        return results


class GraphBackend(Backend):
    """A backend without instructions."""

    name = "graphs"

    def supports(self, op: GraphOp) -> bool:
        return not op.can_decompose() or op.name in ("glow.relu", "glow.conv")

    def compile_graph(self, module: ModuleOp, function: str = "main") -> Program:
        chosen = next(f for f in functions(module) if f.sym_name.data == function)
        return GraphProgram(module, chosen)


def network() -> tuple[glow.GraphBuilder, dict[str, Array]]:
    """Two convolutions, a pool, and two branches."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 3, 8, 8))
    first = g.constant(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "f")
    y = g.relu(g.conv(x, first, pads=(1, 1, 1, 1)))
    y = g.max_pool(y, kernel=(2, 2), strides=(2, 2))
    second = g.constant(rng.standard_normal((4, 4, 1, 1)).astype(np.float32), "s")
    g.save(g.reshape(g.add(g.conv(y, second), g.tanh(y)), (2, 64)), "y")
    g.save(g.exp(y), "z")
    return g, {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}


def same(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


def test_the_device_runs_what_it_supports_and_compiled_kernels_the_rest() -> None:
    g, feed = network()
    net = glow.compile(g, backend=glow.HostFallback(Layers(), host="cpu"))
    same(net.run(feed), glow.compile(g, backend="interpreter").run(feed))
    assert net.report().notes["parts"] == {"layers": 2, "cpu": 2}
    assert net.report().kernels > 0


def test_its_name_is_of_both() -> None:
    backend = get_backend("interpreter{late=true}+cpu{threads=1}")
    assert isinstance(backend, glow.HostFallback) and backend.name == "interpreter+cpu"
    with pytest.raises(glow.UnsupportedError, match="no backend 'npv'"):
        get_backend("npv+cpu")


@pytest.mark.slow
def test_fallback_is_conformant() -> None:
    report = check_backend(glow.HostFallback(Layers()), ["conv", "softmax", "max_pool", "lstm", "top_k"])
    assert not report.failures() and report.counts()["agrees"] > 20, report


def test_states_are_shared_between_parts() -> None:
    """A state that one part updates is one array for the others, and for the caller."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 1, 2, 2))
    kept = g.placeholder("kept", (1, 1, 2, 2), kind="state")
    total = g.add(g.conv(x, g.constant(np.ones((1, 1, 1, 1), np.float32), "w")), kept)
    g.update(kept, total)
    g.save(total, "y")
    ones = np.ones((1, 1, 2, 2), np.float32)
    net: Any = glow.compile(g, backend=glow.HostFallback(Layers()))
    for turn in (1, 2, 3):
        np.testing.assert_array_equal(net.run({"x": ones})["y"], turn * ones)
    np.testing.assert_array_equal(net.program.state["kept"], 3 * ones)


def test_each_node_is_asked_about_once() -> None:
    """Views of views are where the value is: chains of any length."""
    asked: list[str] = []

    class Asked(Layers):
        def supports(self, op: GraphOp) -> bool:
            asked.append(op.name)
            return super().supports(op)

    g = glow.GraphBuilder()
    y = g.conv(g.placeholder("x", (1, 1, 2, 2)), g.constant(np.ones((1, 1, 1, 1), np.float32)))
    backend = glow.HostFallback(Asked())
    for _ in range(1500):
        y = g.reshape(g.reshape(y, (4,)), (1, 1, 2, 2))
    g.save(y, "y")
    (function,) = functions(g.module)
    assert len(backend.on_device(function)) == 3001
    assert asked.count("glow.conv") == 1 and "glow.reshape" not in asked


@pytest.mark.parametrize("wrap", [lambda b: b, glow.HostFallback], ids=["alone", "with host"])
@pytest.mark.parametrize(
    ("answer", "told"), [(lambda: {}["x"], "raises KeyError: 'x'"), (lambda: None, "returns None")]
)
def test_what_supports_may_not_say(wrap: Any, answer: Any, told: str) -> None:
    """The message has the backend, the operator and the way out."""

    class Lies(Layers):
        def supports(self, op: GraphOp) -> bool:
            return answer()

    g: Any = glow.GraphBuilder()
    g.save(g.cumprod(g.placeholder("x", (2, 3)), axis=1), "y")
    with pytest.raises(glow.UnsupportedError) as refused:
        glow.compile(g, backend=wrap(Lies()))
    assert f"backend layers: supports() {told} for glow." in str(refused.value)
    assert "it must return True or False for every operator" in str(refused.value)


def test_a_backend_may_compile_graphs() -> None:
    g, feed = network()
    same(glow.compile(g, backend=GraphBackend()).run(feed), glow.compile(g, backend="interpreter").run(feed))
    assert "glow-irgen" not in glow.Pipeline.default(GraphBackend()).names
    report = check_backend(GraphBackend(), ["conv", "relu", "softmax", "max_pool"])
    assert not report.failures(), report


def test_what_no_backend_of_graphs_runs_is_an_error() -> None:
    class OnlyConv(GraphBackend):
        name = "only_conv"

        def supports(self, op: GraphOp) -> bool:
            return isinstance(op, ConvOp)

    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (2, 3))), "y")
    with pytest.raises(glow.UnsupportedError, match=r"only_conv supports neither glow.relu"):
        glow.compile(g, backend=OnlyConv())


def test_a_backend_without_code_is_an_error() -> None:
    class Nothing(Backend):
        name = "nothing"

        def supports(self, op: GraphOp) -> bool:
            return isinstance(op, ReluOp)

    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (2, 3))), "y")
    with pytest.raises(glow.UnsupportedError, match="nothing defines neither compile nor compile_graph"):
        glow.compile(g, backend=Nothing())


def test_passes_behind_the_plan_find_places() -> None:
    """`planned_passes` run last, on buffers that have their places."""
    seen: list[bool] = []

    @dataclass(frozen=True)
    class LookPass(InstructionPass):
        """Note whether every buffer has its place."""

        name = "look"
        KEEPS_PLAN = True

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            seen.extend(a.offset is not None for a in op.walk() if isinstance(a, AllocOp))

    class Looks(InterpreterBackend):
        name = "looks"

        def planned_passes(self) -> Sequence[ModulePass]:
            return (LookPass(),)

    g, feed = network()
    net = glow.compile(g, backend=Looks())
    assert seen and all(seen)
    assert glow.Pipeline.default(Looks()).names[-1] == "look"
    same(net.run(feed), glow.compile(g, backend="interpreter").run(feed))


class Few(GraphBackend):
    """A backend of graphs that runs operators of a few names."""

    name = "few"

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def supports(self, op: GraphOp) -> bool:
        return op.VIEW or op.name.removeprefix("glow.") in self.names

    def compile_graph(self, module: ModuleOp, function: str = "main") -> Program:
        for node in module.walk():
            assert not isinstance(node, GraphOp) or self.supports(node), f"{node.name} was handed over"
        return super().compile_graph(module, function)


FORMULAS: dict[str, tuple[tuple[str, ...], Callable[[Any, Any], Any]]] = {
    "one_over": (("div",), lambda g, x: 1.0 / x),
    "scaled": (("mul", "add"), lambda g, x: x * 2.0 + 1.0),
    "divided": (("div", "mul"), lambda g, x: x / 4.0),
    "sigmoid": (("exp", "add", "div", "mul"), lambda g, x: g.sigmoid(x)),
    "mean": (("reduce_sum", "div", "mul"), lambda g, x: g.reduce_mean(x, axes=(1,))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_simplifying_keeps_to_what_the_backend_runs(name: str) -> None:
    """What is legal stays so: no node comes behind glow-legalize that the backend did not claim."""
    names, formula = FORMULAS[name]
    g = glow.GraphBuilder()
    x = g.placeholder("x", (3, 4))
    g.save(formula(g, x), "y")
    data = np.random.default_rng(0).uniform(1, 2, (3, 4)).astype(np.float32)
    (got,) = glow.compile(g, backend=Few(*names)).run({"x": data}).values()
    (want,) = glow.compile(g, backend="interpreter").run({"x": data}).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_pipelines_refuse_what_compile_refuses() -> None:
    """A backend of instructions is given no node that its `supports` is false for, by neither way."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (3, 4))
    g.save(g.exp(x), "y")
    told = r"backend layers .*supports neither glow\.exp.*'layers\+cpu'"
    with pytest.raises(glow.UnsupportedError, match=told):
        glow.compile(g, backend=Layers())
    passes = [p for _, phase in phases(Layers()) for p in phase]
    with pytest.raises(glow.UnsupportedError, match=told):
        PassRunner(context()).run(g.module, passes)
