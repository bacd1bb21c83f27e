"""A few mutants of the official suite's models run beside onnxruntime; `fuzz.py` runs thousands."""

from __future__ import annotations

import fuzz
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_mutants(backend: str) -> None:
    """None ends with a traceback, a crash, a hang or without memory."""
    assert fuzz.main(["--count", "20", "--seed", "7", "--backend", backend]) == 0
