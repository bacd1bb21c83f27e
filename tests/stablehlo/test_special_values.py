"""Element-wise operations at the edges of their types, beside XLA: signs of zeros, infinities, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from beside_jax import answers, exported, jax, leaves

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import special_pairs

jnp, lax = jax.numpy, jax.lax
pytestmark = [pytest.mark.peers]

FAR = np.array(
    [
        np.nan,
        -np.inf,
        -1e30,
        -3e9,
        -300,
        -129,
        -128.7,
        -2.7,
        -0.5,
        -0.0,
        0.5,
        127.9,
        128,
        255.9,
        256,
        2147483520,
    ]
    + [2147483648, 4294967296, 1e19, 1e30, np.inf]
)


def beside(function: Any, *arguments: Any, ulps: float = 0) -> None:
    """The values of XLA, signs of zeros too, but for some units in the last place."""
    program = exported(function, arguments)
    want = [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*arguments))]
    for got, value in zip(answers(glow.compile(program), leaves(program, arguments)), want, strict=True):
        assert got.dtype == value.dtype
        if value.dtype.kind != "f":
            np.testing.assert_array_equal(got, value)
            continue
        np.testing.assert_allclose(got, value, rtol=ulps * np.finfo(value.dtype).eps, atol=0)
        there = ~np.isnan(value)
        np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(value)[there])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats_to_integers(dtype: str) -> None:
    """The nearest integer of the type, and 0 of NaN."""
    kinds = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    beside(lambda x: [lax.convert_element_type(x, k) for k in kinds], FAR.astype(jnp.dtype(dtype)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_integers(dtype: str) -> None:
    """Division by 0, the quotient that does not fit, shifts past the width."""
    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, 0, 1, 2, 7, 31, 32, info.max] + ([-1, -7] if info.min else [])
    x = np.array(numbers, dtype)
    x, y = (v.copy() for v in np.broadcast_arrays(x[:, None], x))
    binary = (lax.div, lax.rem, lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical)
    unary = (lax.population_count, lax.clz, lax.sign, lax.neg)
    beside(lambda x, y: [*(f(x, y) for f in binary), *(f(x) for f in unary)], x, y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats(dtype: str) -> None:
    """Angles, powers, remainders and neighbours of special pairs; the order of all floats."""
    x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(*special_pairs(dtype)))
    order: Any = jax._src.lax.lax

    def exact(x: Any, y: Any) -> Any:
        totals = [p.bind(x, y) for p in (order.lt_to_p, order.le_to_p, order.eq_to_p)]
        return *totals, lax.nextafter(x, y), lax.rem(x, y), lax.is_finite(x), lax.sign(x), jnp.sort(x.ravel())

    def near(x: Any, y: Any) -> Any:
        powers = [lax.pow(x, jnp.asarray(e, dtype)) for e in (0.5, -0.5, 2.0, 0.0)]
        return *powers, lax.pow(x, y), lax.atan2(x, y), jnp.hypot(x, y), jnp.copysign(x, y), lax.cbrt(x)

    beside(exact, x, y)
    beside(near, x, y, ulps=4)
    halves = np.array([-2.5, -1.5, -0.5, 0.49999997, 0.5, 1.5, 8388609, np.nan, np.inf, -0.3], dtype)
    beside(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), halves)


def test_whole_cubic_roots() -> None:
    """Of 343 the root is 7."""
    cubes = (np.arange(-60, 60) ** 3).astype(np.float32)
    program = exported(jnp.cbrt, (cubes,))
    np.testing.assert_array_equal(answers(glow.compile(program), [cubes])[0], np.arange(-60, 60))


def test_bits_of_less_than_a_byte() -> None:
    """Halves of bytes are refused: they were bytes each, without a word."""
    x = np.arange(4, dtype=np.uint8)
    program = exported(lambda x: lax.bitcast_convert_type(x, jnp.uint4).astype(jnp.int32), (x,))
    with pytest.raises(GlowError, match="elements of less than a byte"):
        glow.compile(program)
