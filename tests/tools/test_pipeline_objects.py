"""Pipelines that users change, and their passes: order, cache keys, verification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_dialects.ops.softmax import SoftmaxOp
from glow_runtime.compiler import Compiler

SEEN: list[str] = []


@dataclass(frozen=True)
class SeePass(ModulePass):
    """Notes the operations of the main function."""

    name = "test-see"
    label: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        SEEN.append(self.label + " ".join(o.name for o in op.walk()))


@dataclass(frozen=True)
class BreakPass(ModulePass):
    """Gives softmax an axis that there is not."""

    name = "test-break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for node in op.walk():
            if isinstance(node, SoftmaxOp):
                node.properties["axis"] = IntegerAttr(9, i64)


def net() -> glow.GraphBuilder:
    g = glow.GraphBuilder()
    g.save(g.softmax(g.relu(g.placeholder("x", (2, 8))), axis=1), "y")
    return g


X = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_insert_and_remove(backend: str) -> None:
    """A pass of a user runs where it was put, and what is removed does not run."""
    SEEN.clear()
    default = glow.Pipeline.default(backend)
    pipeline = default.remove("glow-cse").insert_after("glow-irgen", SeePass("after "))
    pipeline = pipeline.insert_before("glow-irgen", SeePass("before "))
    assert "glow-cse" in default.names and "glow-cse" not in pipeline.names
    have = glow.compile(net(), backend=backend, pipeline=pipeline).run(X)["y"]
    np.testing.assert_allclose(have, glow.compile(net(), backend="interpreter").run(X)["y"], rtol=1e-5)
    before, after = SEEN
    assert before.startswith("before ") and "glow.softmax" in before or "glow_cpu" in before
    assert after.startswith("after ") and "glow_instr.func" in after


def test_first_and_last() -> None:
    """Before the first of a name, behind the last, replaced at every place, appended."""
    default = glow.Pipeline.default("cpu")
    places = [i for i, n in enumerate(default.names) if n == "glow-cse"]
    assert len(places) > 1
    assert default.insert_before("glow-cse", SeePass()).names.index("test-see") == places[0]
    assert default.insert_after("glow-cse", SeePass()).names.index("test-see") == places[-1] + 1
    replaced = default.replace("glow-cse", SeePass("a"), SeePass("b")).names
    assert replaced.count("test-see") == 2 * len(places) and "glow-cse" not in replaced
    assert default.append(SeePass()).names[-1] == "test-see"
    assert str(default).split(",")[0] == default.names[0]


def test_unknown_pass() -> None:
    """The message names what is like it."""
    with pytest.raises(glow.UnsupportedError, match="no pass 'glow-cze', did you mean .*glow-cse"):
        glow.Pipeline.default("cpu").remove("glow-cze")


def test_wrong_order() -> None:
    """Without IRGen the passes on instructions have nothing to work on."""
    pipeline = glow.Pipeline.default("cpu").remove("glow-irgen")
    with pytest.raises(glow.UnsupportedError, match="works on instructions"):
        glow.compile(net(), pipeline=pipeline).run(X)


def test_passes_of_users_are_verified() -> None:
    """What a pass breaks is found where it breaks it, without being asked for."""
    pipeline = glow.Pipeline.default("interpreter").insert_after("glow-legalize", BreakPass())
    with pytest.raises(glow.GlowError, match="pass test-break made the program invalid"):
        glow.compile(net(), backend="interpreter", pipeline=pipeline).run(X)


def test_keys() -> None:
    """Pipelines and options of passes are parts of the key of a remembered program."""
    default = glow.Pipeline.default("cpu")
    others = [default.insert_after("glow-irgen", SeePass(label)) for label in ("a", "b")]
    backend = get_backend("cpu")
    keys = [Compiler(backend, pipeline=p).keyed("model") for p in (None, default, *others)]
    keys += [Compiler(backend.in_float(), pipeline=p).keyed("model") for p in (None, default)]
    assert len(set(keys)) == 6 and Compiler(backend, pipeline=default).keyed("model") == keys[1]
    assert Compiler(backend.in_float(), pipeline=default).keyed(None) is None
