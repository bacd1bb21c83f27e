"""glow.clear_caches: what the process remembers goes, programs stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.cpu import cache
from glow_dialects.core.types import tensor
from glow_frontends.builder import GraphBuilder


def _net() -> glow.Executable:
    g = GraphBuilder()
    g.save(g.relu(g.placeholder("x", (3, 5))), "y")
    return glow.compile(g)


def test_memory_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)
    net = _net()
    kept = next(iter(cache._recent))  # pyright: ignore[reportPrivateUsage]
    before = tensor((3, 5), x.dtype)
    assert tensor((3, 5), x.dtype) is before
    glow.clear_caches()
    assert kept not in cache._recent  # pyright: ignore[reportPrivateUsage]
    assert tensor((3, 5), x.dtype) is not before
    for program in (net, _net()):
        np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))
