"""What all tests share: a private object cache, reproducible hypothesis, one thread a library."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["GLOW_STRICT"] = "1"  # internal errors are raised where the interpreter would hide them

settings.register_profile(
    "glow",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("glow")

_cache: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """One object cache for the run; workers inherit it through the environment."""
    if "GLOW_CACHE_DIR" not in os.environ:
        _cache.append(tempfile.mkdtemp(prefix="glow-cache-"))
        os.environ["GLOW_CACHE_DIR"] = _cache[0]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache that this process made."""
    for folder in _cache:
        shutil.rmtree(folder, ignore_errors=True)
