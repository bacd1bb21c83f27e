"""Programs of modules that come to be while a model runs, remembered by what the modules say."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, Program
from glow_runtime.weights import resources


def module_key(module: ModuleOp) -> str | None:
    """A digest of a module's text and of its weights; None where some have no values."""
    digest = hashlib.sha256(str(module).encode())
    for resource, _ in resources(module):
        if resource.array is None or resource.array.dtype == object:
            return None
        plain = np.ascontiguousarray(resource.array).reshape(-1).view(np.uint8)
        digest.update(memoryview(cast(Any, plain)))
    return f"module {digest.hexdigest()}"


def remembered(module: ModuleOp, backend: Backend, build: Callable[[ModuleOp], Program]) -> Program:
    """The program that the backend keeps for such a module, else what `build` makes, kept from now on."""
    key = module_key(module) if backend.remembers else None
    found = None if key is None else backend.recall(key)
    if found is not None or key is None:
        return found or build(module)
    made = build(module)
    backend.remember(key, made)
    return made
