"""Functions of arrays and numbers give NumPy's and Python's own results: values, element types and errors."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

DTYPES = ("bool", "int8", "uint8", "int32", "int64", "float32", "float64")
SCALARS = (True, 3, 2.5, np.int32(3), np.float32(2.5))
BINARY = (
    "x + y", "x * y", "x // y", "x % y", "x / y", "x == y", "x < y", "np.maximum(x, y)", "np.minimum(x, y)",
    "np.where(x > 1, x, y)", "np.where(x > 1, y, x)", "np.clip(x, 0, y)", "x - y", "np.fmax(x, y)",
    "x[1] + y",
)  # fmt: skip
UNARY = (
    "np.sum(x)", "np.prod(x)", "np.cumsum(x)", "np.cumprod(x)", "np.nansum(x)", "np.max(x)", "x.min()",
    "sum(x)",
    "np.sort(x)", "np.mean(x)", "np.argmax(x)", "np.round(x)", "np.median(x)", "np.trapezoid(x)",
    "np.array([x[0], 1])", "np.array([x[0], x[1]])", "(x > 0) + 1", "(x > 0) * 2 - 1", "(x > 0) / 2",
    "x[0] + 1",
    "np.sum(x > 0)", "sum(x > 0)", "np.any(x)", "np.floor(x)", "float(x[1])", "int(x[1])", "bool(x[1])",
    "round(x[1])",
    "math.sin(x[1])", "x.sum() * 2",
)  # fmt: skip


def functions(folder: Path, bodies: list[str]) -> list[Callable[..., Any]]:
    """One function of (x, y) for each expression, in a file of their own."""
    path = folder / "generated.py"
    lines = ["import math", "import numpy as np"]
    lines += [f"def f{i}(x, y):\n    return {body}" for i, body in enumerate(bodies)]
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("generated", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, f"f{i}") for i in range(len(bodies))]


def wanted(function: Callable[..., Any], x: Any, y: Any) -> Any:
    """What Python gives; the class of its error."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            return function(x, y)
        except Exception as error:
            return type(error)


def same(result: Any, want: Any) -> bool:
    """Whether a result has the value and the element type that NumPy gives."""
    have, need = np.asarray(result), np.asarray(want)
    rounding = 2e-3 if need.dtype == np.float16 else 1e-6
    return (
        have.dtype == need.dtype
        and have.shape == need.shape
        and np.allclose(have.astype(float), need.astype(float), rtol=rounding, equal_nan=True)
    )


def check(bodies: list[str], folder: Path, x: Any, y: Any, backend: str) -> None:
    """Compare each expression; what Python refuses must not give a value."""
    wrong: list[str] = []
    for body, function in zip(bodies, functions(folder, bodies), strict=True):
        want = wanted(function, x, y)
        try:
            result = glow.jit(function, backend=backend)(x, y)
        except glow.GlowError:
            continue  # refused, or raised as by Python
        if isinstance(want, type) or not same(result, want):
            wrong.append(f"{body} of {x!r} and {y!r}: {result!r}, NumPy {want!r}")
    assert not wrong, "\n".join(wrong)


def sample(dtype: str) -> Any:
    return np.array([3, 1, 2]).astype(dtype) if dtype != "bool" else np.array([True, False, True])


def binary(x: Any) -> list[str]:
    """Expressions of two operands: items of int64 and float64 are numbers, booleans are not clipped."""
    plain = x.dtype.name in ("bool", "int64", "float64")
    skipped = {"x[1] + y": plain, "np.clip(x, 0, y)": x.dtype == bool}
    return [body for body in BINARY if not skipped.get(body)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion(dtype: str, tmp_path: Path) -> None:
    """Operands of two element types, arrays and numbers, by NumPy 2's rules."""
    x = sample(dtype)
    others: list[Any] = [sample(d)[::-1].copy() for d in DTYPES]
    others = [np.where(o == 0, np.ones_like(o), o) for o in others]
    for y in (*others, *(s if not isinstance(s, np.generic) else np.asarray(s) for s in SCALARS)):
        check(binary(x), tmp_path, x, y, "interpreter")


@pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype: str, backend: str, tmp_path: Path) -> None:
    """Reductions, and Python's numbers from elements."""
    bodies = [b for b in UNARY if dtype != "bool" or "round" not in b]
    check(bodies, tmp_path, sample(dtype), 0, backend)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32"])
def test_promotion_on_cpu(dtype: str, tmp_path: Path) -> None:
    """The same in machine code."""
    for y in (sample("int32"), sample("float32"), 3, 2.5):
        check(binary(sample(dtype)), tmp_path, sample(dtype), y, "cpu")


def test_narrow_ints_overflow_in_nothing(tmp_path: Path) -> None:
    """Sums and products of narrow ints are those of 64 bits."""
    bodies = ["np.sum(x)", "x.sum()", "np.prod(x)", "np.cumsum(x)", "np.cumprod(x)", "np.nansum(x)"]
    check(bodies, tmp_path, np.array([2**31 - 1, 2], np.int32), 0, "cpu")
    check(bodies, tmp_path, np.array([200, 100], np.uint8), 0, "cpu")
    check(["np.trapezoid(x)"], tmp_path, np.array([200, 100], np.uint8), 0, "cpu")


NAN = np.array([1.0, math.nan, 2.0])
OF_NAN = (
    "max(1.0, y)", "max(y, 1.0)", "min(1.0, y)", "min(y, 1.0)", "max(x)", "min(x)", "np.fmax(x, 1.5)",
    "np.fmin(x, 1.5)", "np.fmax(1.5, y)", "np.maximum(y, 1.0)", "np.maximum(1.0, y)", "np.minimum(y, 1.0)",
    "np.median(x)", "np.percentile(x, 50)", "np.quantile(x, 0.25)", "np.heaviside(x, 0.5)", "np.max(x)",
    "np.searchsorted(np.array([1.0, 2.0]), y)", "np.searchsorted(np.array([1.0, 2.0]), y, side='right')",
)  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_nan(backend: str, tmp_path: Path) -> None:
    """NaN goes where NumPy, and Python's max and min, put it."""
    check(list(OF_NAN), tmp_path, NAN, math.nan, backend)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_quantiles_beside_infinities(backend: str, tmp_path: Path) -> None:
    """NumPy's line between two elements has no value beside an infinity, at the other's very place, too."""
    bodies = [f"np.quantile(x, {q})" for q in (0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 0, 1)] + ["np.median(x)"]
    for x in ([1, 2, math.inf], [-math.inf, 1, 2], [-math.inf, -math.inf, 1], [math.inf], [1, 2, 5, 7]):
        check(bodies, tmp_path, np.array(x, np.float64), 0, backend)


def test_convolutions_at_the_ends(tmp_path: Path) -> None:
    """Beyond an end there is nothing, not a zero that NaN or an infinity would be multiplied with."""
    bodies = [f"np.convolve(x, np.array([1.0, math.inf, 3.0]), '{m}')" for m in ("full", "same", "valid")]
    check(bodies, tmp_path, np.array([1.0, math.nan, 2.0, 4.0, 7.0]), 0, "cpu")


def test_infinities_become_the_largest_of_the_element_type(tmp_path: Path) -> None:
    for kind in (np.float16, np.float32, np.float64):
        check(["np.nan_to_num(x)"], tmp_path, np.array([math.inf, -math.inf, math.nan, 1], kind), 0, "cpu")


LOGARITHMS: dict[float, tuple[Any, Any]] = {
    2: (lambda x: math.log2(x), lambda x: np.log2(x)),
    10: (lambda x: math.log10(x), lambda x: np.log10(x)),
}


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_of_whole_powers_are_whole(base: int, backend: str) -> None:
    """As Python's and NumPy's are: what `int` makes of less would be one too few."""
    compiled: list[Any] = [glow.jit(f, backend=backend) for f in LOGARITHMS[base]]
    number, array = compiled
    exponents = np.arange(-22, 23) if base == 10 else np.arange(-1000, 1000, 7)
    powers = np.array([float(f"1e{n}") if base == 10 else 2.0**n for n in exponents.tolist()])
    assert [number(x) for x in powers.tolist()] == exponents.tolist()
    np.testing.assert_array_equal(array(powers), exponents)
    np.testing.assert_array_equal(array(np.array([0, math.inf])), [-math.inf, math.inf])
    others = np.array([0.3, 5, 7.7, 2.0**48 - 1, 1 + 2.0**-52])
    np.testing.assert_allclose(array(others), LOGARITHMS[base][1](others), rtol=5e-16)
    assert [number(x) for x in others.tolist()] == [LOGARITHMS[base][0](x) for x in others.tolist()]
    slope = glow.grad(glow.jit(lambda x: np.sum(array(x)), backend=backend))(np.array([8.0, 100]))
    np.testing.assert_allclose(slope, 1 / (np.array([8.0, 100]) * math.log(base)), rtol=1e-12)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_cubic_roots(backend: str) -> None:
    """Of a number by the C library as in Python; of arrays whole where they are."""
    number, array = (
        glow.jit(lambda x: math.cbrt(x), backend=backend),
        glow.jit(lambda x: np.cbrt(x), backend=backend),
    )
    cubes = np.arange(-50, 50) ** 3.0
    assert [number(x) for x in cubes.tolist()] == [math.cbrt(x) for x in cubes.tolist()]
    np.testing.assert_array_equal(array(cubes), np.arange(-50, 50))
    ends = np.array([math.inf, -math.inf, 1e-300, 1e300, 0.0, -0.0])
    np.testing.assert_allclose(array(ends), np.cbrt(ends), rtol=1e-15)
    slope = glow.grad(glow.jit(lambda x: np.sum(np.cbrt(x)), backend=backend))(np.array([8.0, -27.0]))
    np.testing.assert_allclose(slope, [1 / 12, 1 / 27], rtol=1e-12)


#: (expression of x and y, x, y): Python raises, and so does the compiled function, by the same class.
RAISING = [
    ("1 // y", 0, 0), ("1 % y", 0, 0), ("divmod(1, y)", 0, 0), ("int(y)", 0, math.inf),
    ("int(y)", 0, math.nan), ("round(y)", 0, math.inf), ("math.floor(y)", 0, math.inf),
    ("math.ceil(y)", 0, math.nan), ("math.trunc(y)", 0, -math.inf), ("math.sqrt(y)", 0, -1.0),
    ("math.log(y)", 0, 0.0), ("math.log2(y)", 0, 0.0), ("math.log10(y)", 0, 0), ("math.acos(y)", 0, 2.0),
    ("math.exp(y)", 0, 1000.0), ("math.sin(y)", 0, math.inf), ("math.pow(y, -1.0)", 0, 0.0),
    ("math.fmod(1.0, y)", 0, 0.0), ("math.atanh(y)", 0, 1), ("math.isqrt(y)", 0, -1),
    ("math.factorial(y)", 0, -1), ("math.comb(3, y)", 0, -1), ("math.perm(y)", 0, -1), ("1 << y", 0, -1),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_raised(backend: str, tmp_path: Path) -> None:
    """What Python raises is raised, by the same class, with the place."""
    compiled = functions(tmp_path, [body for body, _, _ in RAISING])
    for (body, x, y), function in zip(RAISING, compiled, strict=True):
        want = wanted(function, x, y)
        assert isinstance(want, type), body
        with pytest.raises(glow.GlowError, match=r"\.py:\d+: ") as raised:
            glow.jit(function, backend=backend)(x, y)
        assert isinstance(raised.value, want), f"{body}: {raised.value!r}, Python {want}"


@pytest.mark.parametrize("body", ["float(x)", "int(x)", "bool(x)", "round(x)", "max(x, 0)", "math.sin(x)",
                                  "np.array([x, 1])"])  # fmt: skip
def test_arrays_are_no_numbers(body: str, tmp_path: Path) -> None:
    """Python's functions of numbers refuse arrays, which they took element by element."""
    (function,) = functions(tmp_path, [body])
    assert isinstance(wanted(function, np.ones(2), 0), type)
    with pytest.raises(glow.GlowError):
        glow.jit(function)(np.ones(2), 0)


INFINITE = ("math.exp(y)", "math.sqrt(y)", "np.floor(y)", "np.rint(y)", "math.atan(y)", "np.sqrt(-y)")


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_large_numbers(backend: str, tmp_path: Path) -> None:
    """Ints and floats of more than 53 bits are compared exactly; infinities are no errors."""
    check(["x == float(2**53)", "x > 2.0**53", "x <= 2.0**53", "x // y"], tmp_path, 2**53 + 1, 3, backend)
    check(["x // y", "x % y"], tmp_path, -(2**63), -1, backend)
    check(list(INFINITE), tmp_path, 0, math.inf, backend)


def test_repeated_indices_have_one_gradient() -> None:
    """Of values assigned to one place the last is in the array, and has the gradient."""
    index = np.array([0, 1, 1])

    def assigned(v: Any) -> Any:
        z = np.zeros(3)
        z[index] = v
        return np.sum(z * np.array([2.0, 3.0, 4.0]))

    def added(v: Any) -> Any:
        z = np.ones(3)
        z[index] += v
        return np.sum(z)

    def blocks(v: Any) -> Any:
        z = np.zeros((3, 2))
        z[index, np.array([1, 0, 0])] = v
        return np.sum(z)

    for backend in ("interpreter", "cpu"):
        for function, want in (
            (assigned, [2.0, 0.0, 3.0]),
            (added, [1.0, 0.0, 1.0]),
            (blocks, [1.0, 0.0, 1.0]),
        ):
            result = glow.grad(glow.jit(function, backend=backend))(np.ones(3))
            assert np.array_equal(result, want), (function.__name__, backend, result)


def kalman(data: Any, r: Any) -> Any:
    """Rows whose gain does not depend on the data: dead cotangents reach the inverse."""
    x = np.zeros(2)
    total = 0.0
    for z in data:
        y = z - x
        gain = np.linalg.inv(r * np.eye(2))
        total += y @ y
        x = x + gain @ y
    return total


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_inverse_with_dead_cotangents(backend: str) -> None:
    """The gradient by the data of a loop with an inverse in it."""
    data, step = np.arange(6.0).reshape(3, 2), 1e-6
    result = glow.grad(glow.jit(kalman, backend=backend), argnums=0)(data, 0.3)
    for i in np.ndindex(3, 2):
        move = np.zeros((3, 2))
        move[i] = step
        slope = (kalman(data + move, 0.3) - kalman(data - move, 0.3)) / (2 * step)
        assert abs(result[i] - slope) < 1e-3 * max(1, abs(slope))
