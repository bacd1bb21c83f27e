"""Functions of JAX, exported, compiled and run beside JAX itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.types import Array

jax = pytest.importorskip("jax")
export = pytest.importorskip("jax.export")


def numbers(*shape: int, dtype: str = "float32", seed: int = 0, low: int = 0, high: int = 5) -> Array:
    """Normal floats, or integers from `low` on and below `high`."""
    rng = np.random.default_rng((seed, *shape))
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype.startswith(("int", "uint")):
        return rng.integers(low, high, shape).astype(dtype)
    return rng.standard_normal(shape).astype(jax.numpy.dtype(dtype))


def exported(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What jax.export gives for the shapes of arguments."""
    specs = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tuple(arguments))
    return export.export(jax.jit(function))(*specs)


def leaves(program: Any, arguments: Sequence[Any]) -> list[Array]:
    """The arrays of arguments that a program takes, in order."""
    flat = jax.tree.leaves(tuple(arguments))
    return [np.asarray(flat[i]) for i in program.module_kept_var_idx]


def answers(net: glow.Executable, arrays: Sequence[Array]) -> list[Array]:
    """The outputs for inputs in order."""
    out = net.run({port.name: a for port, a in zip(net.inputs, arrays, strict=True)})
    return [out[port.name] for port in net.outputs]


def check(
    function: Callable[..., Any],
    *arguments: Any,
    tolerance: float = 1e-5,
    backends: Sequence[str] = ("cpu", "interpreter"),
    wanted: Callable[..., Any] | None = None,
) -> None:
    """The values, shapes and element types are those that JAX computes (for another function, if given)."""
    program = exported(function, arguments)
    want = [np.asarray(v) for v in jax.tree.leaves(jax.jit(wanted or function)(*arguments))]
    module = glow.load(program)
    for backend in backends:
        got = answers(glow.compile(module.clone(), backend), leaves(program, arguments))
        close(got, want, tolerance)


def close(got: Sequence[Array], want: Sequence[Array], tolerance: float) -> None:
    """Arrays are equal but for rounding."""
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in want]
    for x, y in zip(got, want, strict=True):
        wide = [a.astype(np.float64) if a.dtype.kind not in "iub" else a for a in (x, y)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
