"""Watching functions: files of their phases, profiles by line."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


def stepped(x, n):
    s = x
    for i in range(n):
        if i % 4 == 0:
            continue
        s = s * 0.9 + math.sin(s)
    return s


LINE = stepped.__code__.co_firstlineno


@pytest.mark.parametrize("backend", BACKENDS)
def test_profile(backend: str) -> None:
    """The lines of the text with their runs, most operations first; of gradients too."""
    compiled = glow.jit(stepped, backend=backend)
    found = compiled.profile(1.3, 100)
    times = {int(line.where.rpartition(":")[2]) - LINE: line.times for line in found.lines}
    assert found.backend == backend
    assert times[3] == 100 and times[4] == 25 and times[5] == 75 and times[6] == 1
    assert "if i % 4 == 0:" in str(found) and found.lines[0].operations >= found.lines[-1].operations
    back = glow.grad(compiled).profile(1.3, 100)
    assert any(line.text.startswith("s = s * 0.9") and line.times == 75 for line in back.lines)
    assert compiled.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("level", [1, 2, 3])
def test_save_graphs(level: int, tmp_path: Path) -> None:
    """Numbered files: text with types and lines, graphs, pictures, every pass at level 3."""
    compiled = glow.grad(glow.jit(stepped))
    compiled(1.3, 10)
    written = compiled.save_graphs(tmp_path, level=level)
    assert sorted(written) == sorted(tmp_path.iterdir())
    text = (tmp_path / "00_import.ir").read_text()
    assert "subgraph @stepped(" in text and f"test_functions_watched.py:{LINE + 5}" in text
    assert (tmp_path / "00_import.dot").read_text().startswith("digraph")
    names = {p.name.partition("_")[2] for p in written}
    assert ("specialized.ir" in names and "specialized.ll" in names) == (level >= 2)
    assert ("before_tail-calls.ir" in names and "after_drop-parameters.svg" in names) == (level == 3)
    if level >= 2:
        typed = next(p for p in written if p.name.endswith("specialized.ir")).read_text()
        assert "mul(" in typed and ": (f64, f64) -> f64" in typed
    for picture in tmp_path.glob("*.svg"):
        assert ET.parse(picture).getroot().tag.endswith("svg")


def test_wrong_level(tmp_path: Path) -> None:
    """The message names the levels."""
    with pytest.raises(glow.GlowError, match="level is 1, 2 or 3, got 4"):
        glow.jit(stepped).save_graphs(tmp_path, level=4)
