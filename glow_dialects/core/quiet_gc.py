"""Pausing Python's garbage collector while modules are built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet_gc() -> Generator[None]:
    """Python's garbage collector paused: compiling makes many objects and drops few."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
