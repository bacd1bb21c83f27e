"""Backends, passes, pipelines and targets of packages: what does not load is left out, and named."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_backends import base
from glow_backends.interpreter.backend import InterpreterBackend
from glow_passes.graph.dce import DcePass
from glow_tools import opt, pipelines


def test_a_broken_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "glow.backends"
    entries = (
        EntryPoint("missing", "no_such_module_anywhere:Backend", group),
        EntryPoint("odd", "json:dumps", group),
        EntryPoint("fine", "glow_backends.interpreter.backend:InterpreterBackend", group),
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    with pytest.warns(RuntimeWarning) as caught:
        known = base.registry()
    texts = [str(w.message) for w in caught]
    assert any("backend 'missing' of package no_such_module_anywhere:Backend is ignored" in t for t in texts)
    assert any("'odd'" in t and "no class derived from Backend" in t for t in texts)
    assert known["fine"] is InterpreterBackend
    assert {"cpu", "interpreter"} <= known.keys() and not {"missing", "odd"} & known.keys()


def print_names(module: ModuleOp) -> str:
    """A target: the names of operations."""
    return "\n".join(op.name for op in module.walk()) + "\n"


PIPELINE = (DcePass(),)


def test_passes_pipelines_and_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What packages add to glow-opt; broken ones take nothing else with them."""
    groups = {
        "glow.passes": (EntryPoint("drop", "no_such_module_anywhere:Pass", "glow.passes"),),
        "glow.pipelines": (
            EntryPoint("mine", "test_packages:PIPELINE", "glow.pipelines"),
            EntryPoint("odd", "json:dumps", "glow.pipelines"),
        ),
        "glow.targets": (EntryPoint("names", "test_packages:print_names", "glow.targets"),),
    }
    monkeypatch.setitem(sys.modules, "test_packages", sys.modules[__name__])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: groups.get(group, ()))
    pipelines.pipeline_named.cache_clear()
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("x", (2, 8))), "y")
    glow.save(g, tmp_path / "net.mlir")
    with pytest.warns(RuntimeWarning) as caught:
        assert opt.main([str(tmp_path / "net.mlir"), "-p", "mine", "-t", "names"]) == 0
        assert opt.main(["--list-passes"]) == 0
    pipelines.pipeline_named.cache_clear()
    texts = [str(w.message) for w in caught]
    assert any("pipeline 'odd'" in t for t in texts) and any("pass 'drop' of package" in t for t in texts)
    assert "glow.relu\n" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        opt.main([str(tmp_path / "net.mlir"), "-t", "nothing"])
    assert ended.value.code == 2
    assert "no target 'nothing'; there are: mlir" in capsys.readouterr().err
