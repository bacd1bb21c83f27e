"""Backends of installed packages: one that does not load is left out, and named."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from glow_backends import base
from glow_backends.interpreter.backend import InterpreterBackend


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
    assert any("backend 'missing' of package no_such_module_anywhere:Backend is left out" in t for t in texts)
    assert any("'odd'" in t and "no class derived from Backend" in t for t in texts)
    assert known["fine"] is InterpreterBackend
    assert {"cpu", "interpreter"} <= known.keys() and not {"missing", "odd"} & known.keys()
