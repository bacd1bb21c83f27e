"""glow-reduce: small models and programs on which a command still fails in the same way."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import commands
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from random_graphs import graph
from xdsl.ir import Operation

import glow_compiler as glow
from glow_backends.interpreter.modules import run_module
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.memory import DeallocOp
from glow_frontends.onnx import import_model
from glow_frontends.onnx.parts import with_outputs
from glow_tools import reduce_ir, reduce_onnx
from glow_tools.context import tool_context
from glow_tools.delta import smallest
from glow_tools.onnxruntime_run import onnxruntime_outputs
from glow_tools.pipelines import parse
from glow_tools.reduce import main
from glow_tools.reduce_ir import IrCase
from glow_tools.reduce_onnx import OnnxCase

SEEDS = [pytest.param(s, marks=[pytest.mark.slow] if s else []) for s in range(6)]


def test_smallest() -> None:
    """Any culprits among any number are found, and no others, in few attempts."""
    rng = random.Random(0)
    for size in (1, 2, 3, 10, 100, 1000):
        for count in (1, 2, 3):
            culprits = set(rng.sample(range(size), min(count, size)))
            tried = 0

            def wrong(some: list[int], culprits: set[int] = culprits) -> bool:
                nonlocal tried
                tried += 1
                return culprits <= set(some)

            assert set(smallest(range(size), wrong)) == culprits
            assert tried <= 40 * count * len(culprits)


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_models_have_their_values(seed: int) -> None:
    """What stands in place of left-out nodes has their values: every part computes what the whole did."""
    made = graph(seed)
    model = made.model()
    every = [o for n in model.graph.node for o in n.output]
    want = onnxruntime_outputs(with_outputs(model, every).SerializeToString(), made.feed, plain=True)
    cutter = reduce_onnx._Cutter(OnnxCase(model, made.feed))
    nodes, rng = list(model.graph.node), random.Random(seed)
    for _ in range(8):
        some = [n for n in nodes if rng.random() < 0.5] or nodes[:1]
        case = cutter.part(some)
        for name, value in onnxruntime_outputs(case.model.SerializeToString(), case.feed).items():
            np.testing.assert_allclose(value, want[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_graphs_have_their_values(seed: int) -> None:
    """Parts of graphs are valid, and compute what the whole did."""
    case = lowered(seed, "optimize")
    want, rng = run_module(case.module, case.feed), random.Random(seed)

    def right(part: IrCase | None) -> bool:
        assert part is not None
        part.module.verify()
        for name, value in run_module(part.module, part.feed).items():
            if name in want:
                np.testing.assert_allclose(value, want[name], rtol=1e-4, atol=1e-5)
        return rng.random() < 0.5

    assert len(nodes_of(reduce_ir._fewer_nodes(case, "main", right))) < len(nodes_of(case))


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_instructions_are_whole(seed: int) -> None:
    """Parts of programs are valid and read nothing that nobody wrote."""
    case = lowered(seed, "lower,instr")
    rng = random.Random(seed)

    def right(part: IrCase) -> bool:
        values = run_module(part.module, part.feed)
        assert not any(np.isnan(v).any() for v in values.values())
        return bool(values) and rng.random() < 0.5

    assert len(nodes_of(reduce_ir.reduced(case, right))) < len(nodes_of(case))


def lowered(seed: int, pipeline: str) -> IrCase:
    """A random graph after a pipeline."""
    made = graph(seed)
    module = import_model(made.model())
    for item in parse(pipeline):
        item.apply(tool_context(), module)
    return IrCase(module, made.feed)


def nodes_of(case: IrCase) -> list[Operation]:
    """Nodes and instructions, but for ends of lives."""
    kinds = (GraphOp, InstrOp)
    return [op for op in case.module.walk() if isinstance(op, kinds) and not isinstance(op, DeallocOp)]


def softmax_model(path: Path) -> OnnxCase:
    """A random graph with a softmax, its file and inputs beside it."""
    seed = next(s for s in range(100) if any(n.op_type == "Softmax" for n in graph(s).nodes))
    made = graph(seed)
    case = OnnxCase(made.model(), made.feed)
    case.write(path)
    np.savez(path.with_suffix(".npz"), **made.feed)
    return case


def script(folder: Path, text: str) -> str:
    """A command that runs Python on the file it is given."""
    file = folder / "check.py"
    file.write_text(text)
    return f"{sys.executable} {file}"


@pytest.mark.slow
def test_model(tmp_path: Path) -> None:
    """One node is left, of small shape, with what repeats it."""
    file, out = tmp_path / "model.onnx", tmp_path / "small.onnx"
    softmax_model(file)
    check = script(
        tmp_path,
        "import sys, onnx\nmodel = onnx.load(sys.argv[1])\nonnx.checker.check_model(model)\n"
        "sys.exit(3 if any(n.op_type == 'Softmax' for n in model.graph.node) else 0)\n",
    )
    done = commands.run(main, file, "--check", check, "--inputs", file.with_suffix(".npz"), "-o", out)
    assert done.status == 0, done
    small = onnx.load(out)
    assert [n.op_type for n in small.graph.node] == ["Softmax"]
    feed = dict(np.load(out.with_suffix(".npz")))
    assert onnxruntime_outputs(str(out), feed) and max(max(a.shape) for a in feed.values()) == 1
    assert "became 1 nodes" in done.output and f"again: {check} {out}" in done.output


def network() -> glow.GraphBuilder:
    """Products, a softmax, a tanh."""
    g, rng = glow.GraphBuilder(), np.random.default_rng(0)
    x = g.placeholder("x", (4, 6))
    w = g.constant(rng.standard_normal((6, 8)).astype(np.float32), "w")
    v = g.constant(rng.standard_normal((8, 3)).astype(np.float32), "v")
    h = g.relu(g.matmul(x, w))
    g.save(g.add(g.matmul(g.softmax(h), v), g.matmul(g.tanh(h), v)), "y")
    return g


@pytest.mark.parametrize("pipeline", ["", "lower", "lower,instr", "cpu"])
def test_program(tmp_path: Path, pipeline: str) -> None:
    """Graphs, lowered graphs and instructions: what is left holds the tanh, runs, and little more."""
    module = glow.load(network())
    for item in parse(pipeline):
        item.apply(tool_context(), module)
    file, out = tmp_path / "net.mlir", tmp_path / "small.mlir"
    glow.save(module, file)
    check = script(tmp_path, "import sys\nsys.exit('tanh' in open(sys.argv[1]).read())\n")
    done = commands.run(main, file, "--check", check, "-o", out)
    assert done.status == 0, done
    small = glow.load(out)
    small.verify()
    assert run_module(small, dict(np.load(out.with_suffix(".npz"))))
    assert len(nodes_of(IrCase(small, {}))) <= 3, out.read_text()


def test_passes_and_message(tmp_path: Path) -> None:
    """Passes that do not matter go, and so does what another message would come of."""
    file, out = tmp_path / "net.mlir", tmp_path / "small.mlir"
    glow.save(network(), file)
    check = script(
        tmp_path,
        "import sys\ntext = open(sys.argv[2]).read()\n"
        "if 'glow.softmax' not in text:\n    sys.exit('another error')\n"
        "if 'glow-cse' in sys.argv[1]:\n    sys.exit('the wrong sum')\n",
    )
    options = ("--passes", "optimize", "--message", "wrong sum", "-o", out)
    done = commands.run(main, file, "--check", f"{check} {{passes}} {{}}", *options)
    assert done.status == 0 and "passes: glow-cse" in done.output, done
    assert "1 nodes" in done.output and "glow.softmax" in out.read_text()


def test_time(tmp_path: Path) -> None:
    """What is found until the time is up is written."""
    file, out = tmp_path / "model.onnx", tmp_path / "small.onnx"
    softmax_model(file)
    done = commands.run(main, file, "--check", "false", "--seconds", 0, "-o", out)
    assert done.status == 0 and "stopped after 0 s" in done.messages, done
    assert len(onnx.load(out).graph.node) == len(onnx.load(file).graph.node)


def test_wrong_uses(tmp_path: Path) -> None:
    """One message each."""
    file, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    softmax_model(file)
    commands.refused(commands.run(main, file, "--check", "true", "-o", out), "--check does not fail")
    assert not out.exists()
    done = commands.run(main, file, "--check", "false", "--message", "horse", "-o", out)
    commands.refused(done, "with 'horse'")
    commands.refused(commands.run(main, "x.py", "--check", "false"), "x.py: No such file")
    commands.refused(commands.run(main, file, "--check", "false", "-o", "a.mlir"), ".onnx", status=2)
    commands.refused(commands.run(main, file, "--check", "f {passes}"), "--passes", status=2)
    commands.refused(commands.run(main, file, "--check", "f", "--passes", "cpu"), "{passes}", status=2)
    done = commands.run(main, tmp_path / "none.onnx", "--check", "false")
    assert done.status == 1 and "none.onnx" in done.messages and "Traceback" not in done.messages
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    model = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "open", [x], [x])
    model.output[0].name = "y"
    onnx.save(helper.make_model(model), file)
    done = commands.run(main, file, "--check", "false", "-o", out)
    assert done.status == 0 and "--shape n=1" in done.messages
