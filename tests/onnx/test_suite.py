"""The official ONNX suite holds: every case that once passed passes, by backend."""

from __future__ import annotations

import pytest
import suite

#: Shards, so that pytest-xdist spreads the cases.
SHARDS = 8


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_locked_cases_pass(backend: str, shard: int) -> None:
    """Cases of the lock file still pass, and those wholly compiled still are."""
    locked = suite.read_lock(backend)
    lost: list[str] = []
    for outcome in suite.run_parts(backend, "", shard, SHARDS):
        if outcome.name in locked:
            if outcome.status != "pass":
                lost.append(f"{outcome.name}: {outcome.status} {outcome.message}")
            elif locked[outcome.name] and not outcome.native:
                lost.append(f"{outcome.name}: runs on the host")
    assert lost == []


@pytest.mark.parametrize(("backend", "least", "native"), [("interpreter", 2023, 1900), ("cpu", 2023, 1750)])
def test_counts(backend: str, least: int, native: int) -> None:
    """The lock files keep what was reached: cases that pass, and those that are wholly compiled."""
    locked = suite.read_lock(backend)
    assert len(locked) >= least
    assert sum(locked.values()) >= native
