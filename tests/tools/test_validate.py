"""glow-opt --validate names the pass after which a program computes something else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from random_graphs import graph
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_backends.interpreter.modules import run_module
from glow_dialects.core.errors import CompileError
from glow_dialects.instr.memory import AllocOp, instr_functions
from glow_frontends.onnx import import_model
from glow_passes.graph import driver
from glow_passes.instr import plan_memory
from glow_passes.instr.plan_memory import plan_function
from glow_tools.closeness import Tolerance
from glow_tools.context import tool_context
from glow_tools.opt import main
from glow_tools.pipelines import parse
from glow_tools.validate import Validator


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Products with a relu and a tanh between, and a sum with zero that a rewrite removes."""
    g, rng = glow.GraphBuilder(), np.random.default_rng(0)
    x = g.placeholder("x", (4, 6))
    w = g.constant(rng.standard_normal((6, 8)).astype(np.float32), "w")
    v = g.constant(rng.standard_normal((8, 3)).astype(np.float32), "v")
    h = g.matmul(x, w)
    y = g.add(g.matmul(g.relu(h), v), g.matmul(g.tanh(h), v))
    g.save(g.add(y, g.constant(np.zeros((4, 3), np.float32), "zero")), "y")
    path = tmp_path / "net.mlir"
    glow.save(g, path)
    return path


def test_right(net: Path, tmp_path: Path) -> None:
    """Every level up to the planned instructions of the CPU, on random and on given inputs."""
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, x=np.ones((4, 6), np.float32))
    for more in ([], ["--inputs", inputs]):
        done = commands.run(main, net, "-p", "cpu", "--validate", *more)
        assert done.status == 0 and "validated: every output" in done.messages, done


def test_beyond_the_interpreter(net: Path) -> None:
    """The program function in `llvm` is not interpreted, which is said."""
    done = commands.run(main, net, "-p", "cpu,convert-glow-instr-to-llvm", "--validate")
    assert done.status == 0 and "validated up to" in done.messages, done


def wrong_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pattern looks at a relu removes it."""
    made = driver._table

    def wrong(patterns: Any) -> Any:
        table = made(patterns)

        def of(kind: Any) -> Any:
            rules = table.of(kind)
            return [lambda op, r: op.operands[0]] if rules and kind.name == "glow.relu" else rules

        return SimpleNamespace(of=of)

    monkeypatch.setattr(driver, "_table", wrong)


def test_wrong_rewrite(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass is named, with output and error; the reproducer repeats it."""
    wrong_rewrite(monkeypatch)
    file = tmp_path / "again.mlir"
    done = commands.run(main, net, "-p", "lower", "--validate", "--reproducer", file)
    assert done.status == 1
    assert "output 'y' is not what it was before the first pass: max abs error" in done.messages
    assert "in pass glow-" in done.messages
    again = commands.run(main, "--run-reproducer", file)
    assert again.status == 1 and "output 'y' is not" in again.messages, again
    assert commands.run(main, net, "-p", "lower").status == 0


def test_wrong_plan(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that lie on each other are seen without the verifier: plans are run as planned."""
    monkeypatch.setattr(plan_memory, "plan_offsets", lambda lives, *_, **__: [0] * len(lives))
    done = commands.run(main, net, "-p", "lower,instr", "--validate", "--disable-verify")
    assert done.status == 1 and "in pass glow-plan-memory" in done.messages, done


def test_wrong_uses(net: Path, tmp_path: Path) -> None:
    """Inputs that are not the program's, programs that cannot be run."""
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, z=np.ones((4, 6), np.float32))
    done = commands.run(main, net, "-p", "lower", "--validate", "--inputs", inputs)
    commands.refused(done, "missing input 'x'")
    done = commands.run(main, "-", "-p", "glow-cse", "--validate", text="builtin.module {}")
    commands.refused(done, "no graph")


def planned(net: Path) -> ModuleOp:
    """The network with its plan."""
    module = glow.load(net)
    for item in parse("lower,instr"):
        item.apply(tool_context(), module)
    return module


def test_interpreter_as_planned(net: Path) -> None:
    """Right plans give the same; a buffer beyond the arena is an error, one without a place, too."""
    module = planned(net)
    (function,) = instr_functions(module)
    plain, own = get_backend("interpreter"), get_backend("interpreter", planned=True)
    feed = {"x": np.ones((4, 6), np.float32)}
    want = plain.compile(module).run(feed)["y"]
    np.testing.assert_array_equal(own.compile(module).run(feed)["y"], want)
    function.properties["arena"] = IntegerAttr(64, i64)
    with pytest.raises(CompileError, match="of an arena of 64"):
        own.compile(module).run(feed)
    alloc = next(op for op in function.block.ops if isinstance(op, AllocOp))
    del alloc.properties["offset"]
    with pytest.raises(CompileError, match="glow-plan-memory"):
        own.compile(module).run(feed)
    plan_function(function)
    np.testing.assert_array_equal(own.compile(module).run(feed)["y"], want)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.slow] if s else []) for s in range(12)])
def test_random_graphs(seed: int) -> None:
    """Every pass of the CPU keeps what random graphs compute; the first value is onnxruntime's."""
    import onnxruntime

    made = graph(seed)
    model = made.model()
    module = import_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    first = run_module(module, made.feed)
    for output, want in zip(session.get_outputs(), session.run(None, made.feed), strict=True):
        np.testing.assert_allclose(first[output.name], want, rtol=1e-3, atol=1e-4)
    check = Validator(made.feed, Tolerance())
    check(module)
    for item in parse("cpu"):
        item.apply(tool_context(), module)
        check(module)
    assert not check.ended


def test_models_of_onnx(tmp_path: Path) -> None:
    """A model file goes straight in."""
    onnx.save(graph(3).model(), tmp_path / "model.onnx")
    done = commands.run(main, tmp_path / "model.onnx", "-p", "optimize", "--validate")
    assert done.status == 0 and "validated" in done.messages, done
