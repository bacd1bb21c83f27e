"""glow-bisect names what is wrong: faults put into import rules, passes, rewrites, plans and kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from faulty_models import network

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_backends.cpu.emit import pointwise_rules
from glow_backends.cpu.kernels.norm.normalize import LayerNorm
from glow_backends.cpu.kernels.norm.softmax import Softmax
from glow_backends.cpu.kernels.pool.pool import Pool
from glow_backends.cpu.kernels.reduction.reduce import Reduce
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.memory import DeallocOp, instr_functions
from glow_dialects.ops.unary_math import NegOp
from glow_frontends.onnx.rules import families, find_rule
from glow_passes.graph import driver
from glow_passes.graph.cse import CsePass
from glow_passes.instr import plan_memory
from glow_passes.instr.dead_stores import DeadStoresPass
from glow_passes.instr.share_buffers import ShareBuffersPass
from glow_tools.bisect import blamed, main, smallest_case
from glow_tools.context import tool_context
from glow_tools.culprit import Culprit, Search
from glow_tools.pipelines import parse

Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: Patch) -> None:
    """Programs that faults were put in are not remembered."""
    monkeypatch.setenv("GLOW_CACHE_DIR", "")


def rewrite(name: str) -> Fault:
    """A pattern gives the negative of what it should."""

    def inject(patch: Patch) -> None:
        apply = driver._Run.apply

        def wrong(run: Any, op: Any, rule: Any, replacement: Any) -> bool:
            function = getattr(rule, "func", rule)
            if function.__name__ == name and not isinstance(op, NegOp) and replacement is not None:
                replacement = run.rewriter(NegOp(replacement))
            return apply(run, op, rule, replacement)

        patch.setattr(driver._Run, "apply", wrong)

    return inject


def kernel(kind: type[Any], **changes: object) -> Fault:
    """A kernel computes what another spec says."""

    def inject(patch: Patch) -> None:
        match = kind.match

        def wrong(self: Any, op: Any, context: Any) -> Any:
            spec = match(self, op, context)
            return None if spec is None else replace(spec, **changes)

        patch.setattr(kind, "match", wrong)

    return inject


def step(name: str) -> Fault:
    """An element-wise step of kernels is 5 % too large."""

    def inject(patch: Patch) -> None:
        right = pointwise_rules.FLOAT[name]
        patch.setitem(pointwise_rules.FLOAT, name, lambda x, p: right(x, p) * 1.05)

    return inject


def rule(name: str, other: str) -> Fault:
    """An ONNX operator is imported as another one."""

    def inject(patch: Patch) -> None:
        wrong = find_rule("", other, 18)
        patch.setitem(families("")[0], name, wrong)

    return inject


def after(kind: type[Any], spoil: Callable[[Any], None]) -> Fault:
    """A pass does something wrong at its end."""

    def inject(patch: Patch) -> None:
        apply = kind.apply

        def wrong(self: Any, ctx: Any, module: Any) -> None:
            apply(self, ctx, module)
            spoil(module)

        patch.setattr(kind, "apply", wrong)

    return inject


def without_tanh(module: Any) -> None:
    """Readers of a tanh read what it reads."""
    for op in module.walk():
        if op.name == "glow.tanh":
            op.results[0].replace_all_uses_with(op.operands[0])


def instructions(module: Any) -> list[InstrOp]:
    """Those of the first function, but for ends of lives."""
    ops = instr_functions(module)[0].block.ops
    return [op for op in ops if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]


def without_one(module: Any) -> None:
    """A result that is read is not computed."""
    op = next(op for op in instructions(module) if op.name.endswith("softmax"))
    op.detach()
    op.erase()


def other_operand(module: Any) -> None:
    """A normalisation adds its scale in the place of its bias."""
    for op in instructions(module):
        if op.name.endswith("layer_norm"):
            op.operands[3] = op.operands[2]


def all_at_once(patch: Patch) -> None:
    """Every buffer at the beginning of the arena."""
    patch.setattr(plan_memory, "plan_offsets", lambda lives, *_, **__: [0] * len(lives))


FAULTS: dict[str, tuple[Fault, str, str]] = {
    **{
        f"rewrite {name}": (rewrite(name), "rewrite", f".{name}")
        for name in (
            "batch_norm_after_linear",
            "image_to_pool",
            "below_element_wise",
            "matmul_and_bias",
            "divide_by_constant",
            "reshape_of_reshape",
            "to_gemm",
            "step_after",
        )
    },
    "kernel pool": (kernel(Pool, count_include_pad=True), "kernel", ".emit_pool"),
    "kernel layer_norm": (kernel(LayerNorm, epsilon=1.0), "kernel", ".emit_layer_norm"),
    "kernel softmax": (kernel(Softmax, scale=2.0), "kernel", ".emit_softmax"),
    "kernel reduce": (kernel(Reduce, op="min"), "kernel", ".emit_reduce"),
    "step sub": (step("sub"), "kernel", ".emit_elementwise"),
    "step tanh": (step("tanh"), "kernel", ".emit_gemm"),
    "pass cse": (after(CsePass, without_tanh), "pass", "glow-cse"),
    "pass dead stores": (after(DeadStoresPass, without_one), "pass", "glow-dead-stores"),
    "pass share buffers": (after(ShareBuffersPass, other_operand), "pass", "glow-share-buffers"),
    "plan": (all_at_once, "pass", "glow-plan-memory"),
    "import Sigmoid": (rule("Sigmoid", "Tanh"), "import", "Sigmoid: "),
    "import Sub": (rule("Sub", "Add"), "import", "Sub: "),
    "import AveragePool": (rule("AveragePool", "MaxPool"), "import", "AveragePool: "),
    "import ReduceMean": (rule("ReduceMean", "ReduceSum"), "import", "ReduceMean: "),
}


QUICK = ("rewrite divide_by_constant", "kernel softmax", "plan", "import Sub")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in FAULTS]
)
def test_faults(name: str, monkeypatch: Patch) -> None:
    """Each is named in a minute, and shown by a model of at most five nodes."""
    inject, stage, words = FAULTS[name]
    case, search = network(), Search(get_backend("cpu"))
    inject(monkeypatch)
    start = time.process_time()
    found = blamed(case, search)
    seconds = time.process_time() - start
    assert found is not None and found.stage == stage and words in found.name, found
    assert found.shown and found.effect
    assert seconds < 60
    small = smallest_case(case, search, found)
    assert len(small.model.graph.node) <= 5, small.model
    assert found.same(blamed(small, search))
    print(f"{name}: {seconds:.1f} s, {time.process_time() - start:.1f} s reduced, {small.size()}: {found}")


@pytest.mark.slow
def test_nothing_is_wrong(tmp_path: Path) -> None:
    """What every pass and kernel keeps has no culprit, from each level on."""
    file = tmp_path / "model.onnx"
    network().write(file)
    done = commands.run(main, file)
    assert done.status == 0 and "nothing is wrong" in done.output, done
    for number, pipeline in enumerate(("optimize", "lower", "lower,instr")):
        module = glow.load(file)
        for item in parse(pipeline):
            item.apply(tool_context(), module)
        program = tmp_path / f"net{number}.mlir"
        glow.save(module, program)
        done = commands.run(main, program)
        assert done.status == 0 and "nothing is wrong" in done.output, (pipeline, done)


def test_command(tmp_path: Path, monkeypatch: Patch) -> None:
    """What is printed, and the model that is written, of which the same is said."""
    step("tanh")(monkeypatch)
    g = glow.GraphBuilder()
    g.save(g.tanh(g.relu(g.placeholder("x", (4, 6)))), "y")
    file, out = tmp_path / "net.mlir", tmp_path / "small.mlir"
    glow.save(g, file)
    done = commands.run(main, file, "-o", out)
    assert done.status == 1 and done.output.startswith("kernel glow_backends."), done
    assert ".emit_elementwise" in done.output and "glow_cpu_instr.stack @out" in done.output
    assert "max abs error" in done.output and "became 1 nodes" in done.messages
    again = commands.run(main, out, "--inputs", out.with_suffix(".npz"))
    assert again.status == 1 and "glow_instr.tanh @out" in again.output, again


def test_wrong_rewrite_of_a_program(tmp_path: Path, monkeypatch: Patch) -> None:
    """The rewrite among many, with the number of it and where the operation came from."""
    file = tmp_path / "model.onnx"
    network().write(file)
    rewrite("divide_by_constant")(monkeypatch)
    done = commands.run(main, file)
    assert done.status == 1
    first, second, third = done.output.splitlines()[:3]
    assert first == "rewrite glow-simplify: glow_passes.graph.algebra.divide_by_constant"
    assert second.strip().startswith("rewrite ") and "node/div_27" in second
    assert "max abs error" in third


def test_wrong_uses(tmp_path: Path) -> None:
    """One message each."""
    file = tmp_path / "model.onnx"
    network().write(file)
    commands.refused(commands.run(main, "net.py"), "net.py: No such file")
    commands.refused(commands.run(main, file, "-o", "x.mlir"), ".onnx", status=2)
    done = commands.run(main, file, "-p", "glow-cs")
    commands.refused(done, "did you mean glow-cse")
    np.savez(tmp_path / "in.npz", z=np.zeros(3))
    commands.refused(commands.run(main, file, "--inputs", tmp_path / "in.npz"), "unknown input 'z'")
    (tmp_path / "f.mlir").write_text("builtin.module {}")
    commands.refused(commands.run(main, tmp_path / "f.mlir"), "no graph")


def test_culprits_are_compared_by_name() -> None:
    """The same is to blame where stage and name are the same."""
    one = Culprit("pass", "glow-cse", "a", "b")
    assert one.same(replace(one, shown="c")) and not one.same(replace(one, name="glow-dce"))
    assert not one.same(None)
    assert onnx.checker.check_model(network().model) is None
