"""Random expressions of NumPy through `glow.jit`: a short hunt, and what longer ones found."""

from __future__ import annotations

from typing import Any

import hunt_expressions
import numpy as np
import pytest
from random_expressions import number

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")
ARGUMENTS: dict[str, Any] = {
    "x": np.array([-2.5, -0.0, 0.0, 3.5, np.inf, -np.inf, np.nan]),
    "y": np.array([[2.0], [-0.0], [0.0], [np.inf], [-np.inf], [np.nan]]),
    "z": np.array([1.5, -0.0, 2.0], np.float32),
    "n": np.array([-3, -1, 1, 2], np.int32),
    "m": np.array([True, False, True]),
    "u": np.array([0, 1, 250], np.uint8),
    "h": np.array([-3, 0, 300], np.int16),
    "s": 2.5,
    "k": 3,
}
#: Each was wrong in value, shape or element type.
FOUND = (
    "np.arctan2(x, y)",
    "np.arctan2(n, 2.0)",
    "np.copysign(3.0, x)",
    "np.copysign(z, -1)",
    "np.copysign(n, n)",
    "np.floor_divide(x, y)",
    "x // y",
    "np.logaddexp(x, x)",
    "np.hypot(n, s)",
    "np.isclose(x, y)",
    "np.isclose(m, m)",
    "np.heaviside(z, 0.5)",
    "np.reciprocal(n)",
    "np.reciprocal(m & m | True)",
    "np.reciprocal(z)",
    "np.rint(n)",
    "np.floor(k)",
    "np.clip(s, -1, 1)",
    "np.minimum(s, k - 2)",
    "np.fmax(s, k)",
    "np.ones_like(s)",
    "np.zeros_like(s)",
    "np.full_like(m, 3)",
    "np.full_like(s > 1, 3)",
    "np.full_like(z, k)",
    "np.nanmax(m)",
    "np.nanmin(m)",
    "np.nanmin(y, axis=1)",
    "np.nanmax(y, axis=1)",
    "np.nanmax(x[5:])",
    "np.nanmin(x[6:])",
    "np.vdot(m, m)",
    "np.vdot(n, n)",
    "np.kron(z, s)",
    "np.outer(z, s)",
    "np.square(m).sum()",
    "1.0 // (s / 25)",
    "-s // np.inf",
    "(s * np.inf) // s",
    "np.sign(s * np.nan)",
    "np.heaviside(s * np.nan, 0.5)",
    "np.clip(s > 1, -1, 1)",
    "np.where(s > 1, 0.5, np.sum(z))",
    "np.trace(np.array([[200, 1], [1, 100]], np.uint8))",
    "np.interp(n, [0.0, 1.0], [2, 4])",
    "np.interp(z, [0.0, 1.0], [2, 4])",
    "np.interp(z.sum(), [0.0, 1.0], [2, 4])",
    "np.clip(u, -1, 300)",
    "u.clip(None, 2 * k + 300)",
    "np.clip(u, -k, k)",
    "u > -1",
    "u == 300",
    "u != -k",
    "u < k + 997",
    "u / 300",
    "u / -k",
    "np.arctan2(h, 70000)",
    "np.hypot(h, 30000 * k)",
    "np.logaddexp(h, 70000)",
    "np.fabs(n)",
    "math.fabs(k)",
    "np.where(s * 0.0, s, 1)",
    "np.where(s > 1, True, 3)",
    "np.minimum(s > 1, k > 5)",
    "np.maximum(s > 1, k > 5)",
    "np.abs(s > 1)",
    "abs(s > 1)",
    "+(s > 1)",
    "np.add(s > 1, k > 1)",
    "np.fmax(s > 1, k > 1)",
    "np.mod(s > 1, k > 1)",
    "np.floor_divide(s > 1, k > 1)",
    "np.power(s > 1, k > 1)",
    "np.divmod(h, 7)[1]",
    "np.fmod(m, m | True)",
    "np.fmod(k, 2)",
    "np.fmod(n, 2)",
    "np.sin(u)",
    "np.sqrt(s > 1)",
    "np.sqrt(u * 1)",
    "np.log2(s > 1)",
    "np.arctan2(m, m)",
    "np.logaddexp(u, u)",
    "np.round(m)",
    "np.round(x, 1) == 3.5",
    "np.arctan2(np.isnan(1.5), round(float(np.mean(x)) * 0.0 - 0.04, 1))",
    "np.where(np.max(n) > 0.0, np.max(n), s)",
    "np.where(k > 0, h[0], x)",
    "np.where(True, n, 1.5)",
    "np.where(k > 5, z, z[0])",
    "np.copysign(1.25, np.cumsum((x > x) * -1.0, axis=0))",
    "m ** 2",
    "m ** (k - 1)",
    "np.power(m, 2)",
    "np.square(m)",
    "np.square(s > 1)",
    "np.square(z)",
    "np.float_power(n, 2)",
    "np.exp2(u + 0)",
    "np.cbrt(m)",
    *(
        f"np.{f}({a})"
        for f in ("cbrt", "exp2", "degrees", "radians")
        for a in ("h", "u // 50", "z", "k", "s")
    ),
    "np.full_like(u, 300, dtype=np.int32)",
    "np.full((2,), 200, np.uint8)",
    "np.array([k, 200], np.uint8)",
    "np.array([[k, 2], [1, 200]], u.dtype)",
    "np.asarray(k, np.int8)",
    "np.clip(u.sum(), -1, 1)",
    "np.median(np.array([s, np.inf, np.inf, np.inf]))",
    "np.median(z)",
    "np.arctan2(m, s)",
    "np.logaddexp(m, k)",
    "np.arctan2(u, k)",
    "np.copysign(1.25, m)",
    "np.hypot(u, u)",
    "np.logaddexp(u, (n * 1).astype(np.int8)[:3])",
    "np.reciprocal(u + 5)",
    "np.reciprocal((n + 130).astype(np.int8))",
    "np.reciprocal(np.array([127, -1, 1], np.int8))",
    "np.hypot(x, y)",
    "np.hypot(z * 1e30, z)",
)


#: Ints that bytes without sign do not hold.
OUTSIDE = (
    "u + 300", "u * -1", "u + -k", "np.maximum(u, -1)", "u // -k", "u & 256", "np.full_like(u, 300)",
    "np.full_like(u, -k)", "np.array([300], np.uint8)", "np.array([[k, 100 * k]], np.uint8)",
    "np.full((2,), 100 * k, np.uint8)", "np.array([100 * k], u.dtype)", "np.asarray(100 * k, np.uint8)",
)  # fmt: skip
#: What NumPy refuses for booleans.
REFUSED = ("+m", "-m", "np.positive(s > 1)", "np.negative(s > 1)", "np.sign(s > 1)", "np.round(m, 1)")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", FOUND)
def test_found(text: str, backend: str) -> None:
    """Value, shape and element type are NumPy's."""
    made = hunt_expressions.function([text], list(ARGUMENTS))
    got = np.asarray(hunt_expressions.compiled(made, backend)(*ARGUMENTS.values())[0])
    with np.errstate(all="ignore"):
        want = np.asarray(number(made(*ARGUMENTS.values())[0]))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", OUTSIDE)
def test_ints_that_do_not_fit(text: str, backend: str) -> None:
    """Python's ints beside narrow arrays are of their type, or raise what NumPy raises; they do not wrap."""
    made = hunt_expressions.function([text], list(ARGUMENTS))
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        made(*ARGUMENTS.values())
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        hunt_expressions.compiled(made, backend)(*ARGUMENTS.values())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", REFUSED)
def test_what_booleans_are_not_taken_by(text: str, backend: str) -> None:
    """What NumPy refuses for booleans is refused."""
    made = hunt_expressions.function([text], list(ARGUMENTS))
    with pytest.raises(TypeError):
        made(*ARGUMENTS.values())
    with pytest.raises(glow.GlowError):
        hunt_expressions.compiled(made, backend)(*ARGUMENTS.values())


def test_doubles_are_rounded_to_decimals() -> None:
    """The nearest double to each decimal, as in NumPy: not a product with 0.1."""
    x = np.random.default_rng(0).standard_normal(1000)
    made = hunt_expressions.function(["np.round(x, 1)", "x / 3"], ["x"])
    for got, want in zip(glow.jit(made)(x), made(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_a_short_hunt() -> None:
    """Some hundred expressions, always the same ones."""
    assert hunt_expressions.main(["--count", "512", "--seed", "5000"]) == 0
