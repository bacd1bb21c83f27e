"""Floats of 8 and 4 bits: kernels convert as ml_dtypes does, every code and every rounding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graph_runner import Graph

import glow_compiler as glow
from glow_dialects.core.types import Array, tensor
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.cast import CastOp

KINDS: list[Any] = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
]


def native(graph: Graph) -> Array:
    """The one output of a graph on the CPU, wholly by kernels."""
    net = glow.compile(graph.module)
    (made,) = net.run(graph.inputs).values()
    assert not net.program.report.notes.get("host instructions")
    return made


def converted(x: Array, to: Any, **properties: Any) -> Array:
    """A cast on the CPU."""
    graph = Graph()
    graph.save(graph.b(CastOp(graph.input(x), results=tensor(x.shape, to), **properties)))
    return native(graph)


def numbers(kind: Any) -> Array:
    """f32: every number of a format, what lies between neighbours and beside that, and odd ones."""
    codes = np.arange(16 if "4_" in np.dtype(kind).name else 256, dtype=np.uint8).view(kind)
    exact = np.unique(codes.astype(np.float32))
    exact = exact[np.isfinite(exact)]
    with np.errstate(all="ignore"):
        ties = (exact[:-1].astype(np.float64) + exact[1:]) / 2
        beside = [np.nextafter(ties.astype(np.float32), np.float32(end)) for end in (-np.inf, np.inf)]
    odd = np.array([0.0, -0.0, 1e30, -1e30, 1e-30, -1e-30, np.inf, -np.inf, np.nan], np.float32)
    return np.concatenate([exact, ties.astype(np.float32), *beside, odd])


@pytest.mark.parametrize("kind", KINDS)
def test_widened(kind: Any) -> None:
    """All codes to f32 and i32."""
    codes = np.arange(16 if "4_" in np.dtype(kind).name else 256, dtype=np.uint8).view(kind)
    np.testing.assert_array_equal(converted(codes, np.float32), codes.astype(np.float32))
    finite = codes[np.isfinite(codes.astype(np.float32)) & (np.abs(codes.astype(np.float32)) < 2**31)]
    np.testing.assert_array_equal(converted(finite, np.int32), finite.astype(np.float32).astype(np.int32))


@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_rounded(kind: Any, source: Any) -> None:
    """To the nearest number, the even one at a tie; saturated or not."""
    with np.errstate(all="ignore"):
        x = numbers(kind).astype(source)
        wanted = x.astype(kind).astype(np.float32)
    got = converted(x, kind, saturate=False).astype(np.float32)
    np.testing.assert_array_equal(got, wanted)
    zeros = (got == 0) & ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("kind", KINDS[:4])
def test_saturated(kind: Any) -> None:
    """Numbers out of range become the largest one."""
    limit = float(ml_dtypes.finfo(kind).max)
    got = converted(np.array([1e9, -1e9, np.inf, -np.inf, np.nan], np.float32), kind).astype(np.float32)
    np.testing.assert_array_equal(got, np.array([limit, -limit, limit, -limit, np.nan], np.float32))


@pytest.mark.parametrize("kind", KINDS[:4])
def test_products(kind: Any) -> None:
    """Arithmetic in f32, rounded."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=300).astype(kind) for _ in range(2))
    graph = Graph()
    graph.save(graph.b(MulOp(graph.input(x), graph.input(y))))
    wanted = (x.astype(np.float32) * y.astype(np.float32)).astype(kind)
    np.testing.assert_array_equal(native(graph).astype(np.float32), wanted.astype(np.float32))
