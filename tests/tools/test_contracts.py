"""Contracts of passes: what cannot work where it stands is refused; what changed nothing is not verified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import refused, run
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_passes import all_passes
from glow_passes.changes import Snapshot
from glow_passes.contract import LevelPass
from glow_passes.pipeline import PassRunner
from glow_tools import opt
from glow_tools.pipelines import every_pass, parse


@pytest.fixture
def net(tmp_path: Path) -> Path:
    g = glow.GraphBuilder()
    g.save(g.relu(g.neg(g.placeholder("x", (2, 8)))), "y")
    glow.save(g, tmp_path / "net.mlir")
    return tmp_path / "net.mlir"


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        ("cpu,glow-cse", ("glow-cse works on graphs (glow.func)", "made by glow-irgen")),
        ("glow-plan-memory", ("glow-plan-memory works on instructions", "graphs (glow.func)")),
        ("instr,lower", ("works on instructions (glow_instr.func)",)),
        ("glow-lift-closures", ("glow-lift-closures works on functions (glow_fn.func)",)),
        ("cpu,glow-share-buffers", ("glow-share-buffers changes buffers after glow-plan", "run it before")),
        ("cpu,glow-shrink-lives,convert-glow-instr-to-llvm", ("reads offsets of buffers",)),
    ],
)  # fmt: skip
def test_refused(net: Path, passes: str, words: tuple[str, ...]) -> None:
    """A wrong order, and a pass that has nothing to work on."""
    refused(run(opt.main, net, "-p", passes), *words)


def test_accepted(net: Path) -> None:
    """Places that are given again, and passes of xDSL and of users, which have no contract."""
    assert run(opt.main, net, "-p", "cpu,glow-share-buffers,glow-plan-memory").status == 0
    assert run(opt.main, net, "-p", "cpu,convert-glow-instr-to-llvm").status == 0


def test_every_pass_has_a_contract() -> None:
    """Passes of ours and of our backends say what they work on; only what prints may stand anywhere."""
    every = {**all_passes(), **every_pass()}
    assert [name for name, kind in every.items() if not issubclass(kind, LevelPass)] == ["glow-print-ir"]


@dataclass(frozen=True)
class MarkPass(ModulePass):
    """Marks the module's functions with a text."""

    name = "test-mark"
    text: str = "x"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if function.attributes.get("mark") != StringAttr(self.text):
                function.attributes["mark"] = StringAttr(self.text)


def test_unchanged_modules_are_not_verified(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification runs on what changed."""
    module = glow.load(net)
    verified: list[int] = []
    monkeypatch.setattr(ModuleOp, "verify", lambda self, *a, **k: verified.append(1))
    PassRunner(context(), verify=True).run(module, [MarkPass(), MarkPass(), MarkPass("y"), MarkPass("y")])
    assert len(verified) == 2


def test_snapshots(net: Path) -> None:
    """A pass that finds nothing leaves the same program; one that rewrites leaves another."""
    module = glow.load(net)
    before = Snapshot(module)
    (cse,) = parse("glow-cse")
    cse.apply(context(), module)
    assert not Snapshot(module, before).changes()
    for item in parse("lower"):
        item.apply(context(), module)
    assert Snapshot(module, before).changes()
