"""What all tests share: a private object cache, the same random numbers each time, one thread a library."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["GLOW_STRICT"] = "1"  # internal errors are raised where the interpreter would hide them
# Test modules, and the modules of the commands that they start, are compiled once instead of each time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile(
    "glow",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("glow")

CRASHES = "GLOW_TEST_CRASHES"
_folders: dict[str, str] = {}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """One object cache and key for the run, one folder for what crashed; workers inherit them."""
    for variable in ("GLOW_CACHE_DIR", CRASHES):
        if variable not in os.environ:
            os.environ[variable] = _folders[variable] = tempfile.mkdtemp(prefix="glow-")
    os.environ.setdefault("GLOW_KEY_FILE", str(Path(os.environ[CRASHES], ".key")))
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        # What a worker's standard error holds when it crashes is lost.
        faulthandler.enable(os.open(Path(os.environ[CRASHES], worker), os.O_CREAT | os.O_WRONLY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="one case of each test that is not slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --quick one case stays of each test: not always the first one, and always the same one."""
    if not config.getoption("quick"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {min(alike, key=lambda item: crc32(item.nodeid.encode())) for alike in cases.values()}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The collector of garbage leaves modules and tests alone: they stay, and are half a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where workers were when they crashed."""
    for file in sorted(Path(os.environ[CRASHES]).glob("[!.]*")):
        if text := file.read_text():
            terminalreporter.section(f"crash of {file.name}")
            terminalreporter.write(text)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what this process made: another run of it makes its own."""
    for variable, folder in _folders.items():
        del os.environ[variable]
        shutil.rmtree(folder, ignore_errors=True)
    _folders.clear()


TORCH_SEED = 67280421310721  # PyTorch's own, which a test that imports it first would have

_generators: dict[str, list[tuple[Any, Any]]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Generators start anew: a test draws the same numbers whichever tests its process ran before."""
    import numpy as np  # after the number of its threads is set

    assert isinstance(item, pytest.Function)
    module: Any = item.module
    if module.__name__ not in _generators:
        found: list[Any] = [v for v in vars(module).values() if isinstance(v, np.random.Generator)]
        _generators[module.__name__] = [(g, g.bit_generator.state) for g in found]
    for generator, state in _generators[module.__name__]:
        generator.bit_generator.state = state
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCH_SEED)


@pytest.fixture(autouse=True)
def same_log() -> Generator[None]:
    """Take back where a command that a test called sends what is logged."""
    log = logging.getLogger("glow")
    handlers, level = [*log.handlers], log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)
