"""The official ONNX suite holds: every case that once passed passes, by backend."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm
import pytest
import suite

#: Shards, so that pytest-xdist spreads the cases.
SHARDS = 8
AVX2 = pytest.mark.skipif(
    not llvm.get_host_cpu_features().get("avx2"), reason="this processor cannot run the code of one with AVX2"
)


@pytest.fixture(scope="module")
def worker() -> Iterator[suite.Worker]:
    """One process for all shards."""
    process = suite.Worker()
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_locked_cases_pass(worker: suite.Worker, backend: str, shard: int) -> None:
    """Cases of the lock file still pass, and those wholly compiled still are."""
    locked = suite.read_lock(backend)
    lost: list[str] = []
    for outcome in worker.run(backend, "", shard, SHARDS):
        if outcome.name in locked:
            if outcome.status != "pass":
                lost.append(f"{outcome.name}: {outcome.status} {outcome.message}")
            elif locked[outcome.name] and not outcome.native:
                lost.append(f"{outcome.name}: runs on the host")
    assert lost == []


@pytest.mark.slow
@AVX2
@pytest.mark.parametrize("shard", range(SHARDS))
def test_locked_cases_pass_with_avx2(worker: suite.Worker, shard: int) -> None:
    """So they do with code for half as long vectors and without arithmetic on 16-bit floats.

    Operators written out as functions are left out: they are made of operators that have cases.
    """
    locked = suite.read_lock("cpu")
    every = worker.run("cpu", "^(?!.*_expanded)", shard, SHARDS, "haswell")
    outcomes = [o for o in every if o.name in locked]
    assert outcomes
    assert [f"{o.name}: {o.status} {o.message}" for o in outcomes if o.status != "pass"] == []


SQUEEZENET = """
import suite
(case,) = [c for c in suite.load_cases(("real",)) if c.name == "test_squeezenet"]
print(suite.run_case(case, "interpreter"))
"""


@pytest.mark.slow
@AVX2
@pytest.mark.parametrize("kernels", ["Haswell", "Sandybridge"])
def test_references_do_not_depend_on_the_blas(kernels: str) -> None:
    """A network of equal channels, whose largest outputs are ties, passes with either kernels of OpenBLAS."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernels, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", SQUEEZENET], capture_output=True, text=True, env=environment, check=True
    )
    assert "status='pass'" in done.stdout


@pytest.mark.parametrize(("backend", "least", "native"), [("interpreter", 2023, 1900), ("cpu", 2023, 1750)])
def test_counts(backend: str, least: int, native: int) -> None:
    """The lock files keep what was reached: cases that pass, and those that are wholly compiled."""
    locked = suite.read_lock(backend)
    assert len(locked) >= least
    assert sum(locked.values()) >= native
