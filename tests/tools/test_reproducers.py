"""Failures that are named, announced and repeated: reproducers, weights beside programs, diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import commands
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_dialects.ops.softmax import SoftmaxOp
from glow_passes.failure import BrokenPassError
from glow_passes.pipeline import PassRunner
from glow_tools import opt, run

PROGRAM = """glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %a = glow.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  glow.save %a to @y : tensor<2xf32>
}
"""
WRONG = PROGRAM.replace("-> tensor<2xf32>", "-> tensor<3xf32>").replace("save %a", "save %x")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A network with weights in a file beside it."""
    g = glow.GraphBuilder()
    w = g.constant(np.linspace(-1, 1, 800, dtype=np.float32).reshape(8, 100), "w")
    g.save(g.softmax(g.relu(g.matmul(g.placeholder("x", (2, 8)), w)), axis=1), "y")
    glow.save(g, tmp_path / "net.mlir")
    return tmp_path / "net.mlir"


def value(program: Path, tmp_path: Path) -> np.ndarray:
    """What a program computes on fixed inputs."""
    out = tmp_path / "out.npz"
    assert run.main([str(program), "--random", "0", "--output", str(out), "--backend", "interpreter"]) == 0
    return np.load(out)["y"]


def test_outputs_keep_weights(net: Path, tmp_path: Path) -> None:
    """What a pipeline prints to a file runs, and so does each file of a dump."""
    want = value(net, tmp_path)
    out = tmp_path / "a" / "lowered.mlir"
    out.parent.mkdir()
    assert opt.main([str(net), "-p", "optimize", "-o", str(out), "--dump", str(tmp_path / "steps")]) == 0
    assert np.array_equal(value(out, tmp_path), want)
    steps = sorted((tmp_path / "steps").glob("*.mlir"))
    assert len(steps) > 3
    for step in (steps[0], steps[-1]):
        assert np.array_equal(value(step, tmp_path), want)
    weights = {p.stat().st_ino for p in (tmp_path / "steps").glob("*.weights.safetensors")}
    assert len(weights) < len(steps)  # equal ones are one on the disk


def test_reproducer_repeats(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reproducer, in a folder that it makes, has weights, processor and the passes that are left."""
    file = tmp_path / "new" / "r.mlir"
    passes = "glow-dce,glow-apply-profile{profile=nofile},lower"
    assert opt.main([str(net), "-p", passes, "--mcpu", "haswell", "--reproducer", str(file)]) == 1
    message = capsys.readouterr().err
    assert "no such profile: nofile" in message and "in pass glow-apply-profile" in message
    assert (tmp_path / "new" / "r.weights.safetensors").exists()
    first = file.read_text().splitlines()[0]
    assert first.startswith("// RUN: glow-opt %s -p 'glow-apply-profile{") and first.endswith(
        "--mcpu haswell"
    )
    assert opt.main(["--run-reproducer", str(file)]) == 1
    assert "no such profile: nofile" in capsys.readouterr().err
    assert np.array_equal(value(file, tmp_path), value(net, tmp_path))
    assert opt.main(["--run-reproducer", str(net)]) == 1
    assert "is no reproducer" in capsys.readouterr().err


def test_a_listing_that_fails_leaves_a_reproducer(net: Path, tmp_path: Path) -> None:
    """-t asm of a program that is not planned."""
    file = tmp_path / "r.mlir"
    assert opt.main([str(net), "-t", "asm", "--reproducer", str(file)]) == 1
    assert "-t asm" in file.read_text().splitlines()[0]


@dataclass(frozen=True)
class OutOfRangePass(ModulePass):
    """Gives softmax an axis that there is not."""

    name = "test-out-of-range"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for node in op.walk():
            if isinstance(node, SoftmaxOp):
                node.properties["axis"] = IntegerAttr(9, i64)


@dataclass(frozen=True)
class ForgetfulPass(ModulePass):
    """Looks for what is not there."""

    name = "test-forgetful"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("boom")


def test_passes_are_named(net: Path) -> None:
    """A pass that breaks the program, or raises by mistake, is named; the program is not blamed."""
    module = glow.load(net)
    with pytest.raises(
        BrokenPassError, match=r"test-out-of-range made the program invalid: .*axis 9(.|\n)*softmax"
    ):
        PassRunner(context(), verify=True).run(module, [OutOfRangePass()])
    with pytest.raises(BrokenPassError, match="pass test-forgetful failed: internal error.*KeyError: 'boom'"):
        PassRunner(context()).run(module, [ForgetfulPass()])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PROGRAM, None),
        ("// expected-error {{bad}}\n" + PROGRAM, "x.mlir:1: expected error {{bad}} was not reported"),
        (WRONG, "x.mlir:5: unexpected error"),
        ("// expected-error@unknown {{tensor<3xf32>}}\n" + WRONG, None),
        ("// expected-error@unknown {{tensor<4xf32>}}\n" + WRONG, "x.mlir:6: unexpected error"),
        (f"{PROGRAM}// -----\n\n) // expected-error {{{{}}}}\n", None),
        (f"{PROGRAM}// -----\n// expected-error@+2 {{{{}}}}\n\n)\n", None),
        (f"{PROGRAM}// -----\n// expected-error@+1 {{{{}}}}\n\n)\n", "x.mlir:11: unexp"),
        (f"{PROGRAM}//-----\n{WRONG}", "x.mlir:13: unexpected error"),
    ],
)  # fmt: skip
def test_verify_diagnostics(
    text: str,
    problem: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Missing and unexpected errors fail, with lines of the file."""
    monkeypatch.chdir(tmp_path)
    Path("x.mlir").write_text(text)
    code = opt.main(["x.mlir", "--split-input-file", "--verify-diagnostics"])
    message = capsys.readouterr().err
    assert code == (problem is not None) and (problem or "") in message, message


def test_good_parts_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is wrong does not take the others with it; the message says where it begins."""
    file = tmp_path / "x.mlir"
    file.write_text(f"{WRONG}// -----\n{PROGRAM}")
    assert opt.main([str(file), "--split-input-file"]) == 1
    shown = capsys.readouterr()
    assert "glow.relu" in shown.out and "x.mlir:5:3: the program is not valid" in shown.err


def test_the_function_that_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Labels of blocks are no marks of errors: the second function is wrong, not the first."""
    file = tmp_path / "x.mlir"
    first = "glow_fn.func @first(%x : f64) {\n  glow_fn.return %x\n}\n"
    second = "glow_fn.func @second(%x : f64) {\n  %f = glow_fn.ref @first : (f64) -> f64\n"
    second += "  %y = glow_fn.call %f(%x, %x) : f64\n  glow_fn.return %y\n}\n"
    file.write_text(first + second)
    assert opt.main([str(file)]) == 1
    assert '"first"' not in (message := capsys.readouterr().err) and "glow_fn.call" in message


def test_times_add_up(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tree of times has a row for each part, pass and its options; rows add up to the row above them."""
    assert opt.main([str(net), "-p", "optimize", "--timing", "-o", "/dev/null"]) == 0
    rows = [line for line in capsys.readouterr().err.splitlines() if " % " in line]
    tree = {depth: [r.split() for r in rows if r.index(" ms") == 8 + 2 * depth] for depth in (1, 2)}
    assert abs(sum(float(r[2]) for r in tree[1]) - 100) < 1
    names = [" ".join(r[4:]) for r in tree[1]]
    assert names == ["pipeline", "import", "verify", "passes", "emission of mlir", "rest"]
    passes = next(float(r[0]) for r in tree[1] if r[4] == "passes")
    assert abs(sum(float(r[0]) for r in tree[2]) - passes) < 1
    assert {"glow-simplify{recognize=true}", "verification"} <= {r[-1] for r in tree[2]}


def test_saved_graphs_run(tmp_path: Path) -> None:
    """Phases have their weights beside them; without these every backend says what is missing."""
    g = glow.GraphBuilder()
    w = g.constant(np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32), "w")
    g.save(g.tanh(g.matmul(g.placeholder("x", (4, 16)), w)), "y")
    glow.save(g, tmp_path / "net.mlir")
    folder = tmp_path / "phases"
    done = commands.run(opt.main, tmp_path / "net.mlir", "-p", "cpu", "--save-graphs", folder)
    assert done.status == 0, done
    phases = sorted(folder.glob("*.mlir"))
    outputs = [commands.run(run.main, phase, "--random", 0).output.splitlines()[-1] for phase in phases]
    assert len(phases) == 2 and len(set(outputs)) == 1 and outputs[0].startswith("y: float32"), outputs
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    for backend in ("cpu", "interpreter"):
        done = commands.run(run.main, phases[0], "--random", 0, "--backend", backend)
        commands.refused(done, "constant @w has no values: its weights file is missing")
