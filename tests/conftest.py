"""What all tests share: a private object cache, the same random numbers each time, one thread a library."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from typing import Any

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


TORCH_SEED = 67280421310721  # PyTorch's own, which a test that imports it first would have

_generators: dict[str, list[tuple[Any, dict[str, Any]]]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Generators start anew: a test draws the same numbers whichever tests its process ran before."""
    import numpy as np  # after the number of its threads is set

    assert isinstance(item, pytest.Function)
    module = item.module
    if module.__name__ not in _generators:
        found = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
        _generators[module.__name__] = [(g, g.bit_generator.state) for g in found]
    for generator, state in _generators[module.__name__]:
        generator.bit_generator.state = state
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCH_SEED)
