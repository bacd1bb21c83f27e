"""More of NumPy in compiled functions: values, element types and shapes beside NumPy's own, and gradients."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

#: Expressions by topic, of x (3 x 4), q (2 x 3 x 4), a row r of 4 and a row s of 2.
TOPICS = {
    "quantiles": """
        np.percentile(x, [25, 50]) | np.percentile(x, (10,), axis=0) | np.quantile(x, [0, 1])
        np.quantile(x, np.array([[0.1, 0.5], [0.2, 0.9]]), axis=-1, keepdims=True) | np.quantile(x, 0)
        np.nanmedian(x, axis=1) | np.nanpercentile(x, [25, 50], axis=0) | np.nanquantile(x, 0.3)
        np.nanquantile(q, [0.2, 0.5], axis=(0, 2)) | np.quantile(q, 0.7, axis=(0, 1), keepdims=True)
        np.nancumsum(x, axis=1) | np.nancumprod(r) | np.nanargmax(x) | np.nanargmin(x, axis=1)
        np.sort(x, axis=None) | np.argsort(x, None, kind="stable") | np.take_along_axis(x, r4, None)
    """,
    "shapes": """
        np.ndim(x) | np.shape(x) | np.size(x) | np.size(x, 1) | np.empty(np.shape(x)).shape
        np.empty_like(x).dtype == x.dtype | np.ascontiguousarray(x[0, 0]) | np.asanyarray(x)
        np.amax(x, axis=1)
        np.amin(q, axis=(0, 2)) | np.rot90(x) | np.rot90(x, 2) | np.rot90(x, -1) | np.rot90(x, 3, axes=(1, 0))
        np.rot90(q, 1, axes=(1, 2)) | np.rollaxis(q, 1) | np.rollaxis(q, 0, 3) | np.rollaxis(q, -1, 1)
        np.atleast_3d(x) | np.atleast_3d(r) | np.atleast_3d(x[0, 0]) | np.matrix_transpose(q)
        np.diagflat(x[:2, :2])
        np.diagflat(s, 1) | np.tri(3) | np.tri(x.shape[0], x.shape[1], 1) | np.real(x) | np.imag(x)
        np.conj(x) | np.apply_along_axis(np.sum, 0, x) | np.apply_along_axis(lambda v: v * 2, 0, x)
        np.apply_along_axis(lambda v: v[:2], 1, q)
    """,
    "parts": """
        np.hsplit(x, 2) | np.vsplit(x, [1]) | np.array_split(x, 3, axis=1) | np.array_split(x, 2)
        np.hsplit(r, [1, 3]) | np.split(x, [1, 3], axis=1) | np.dsplit(q, 2) | np.unstack(x)
        np.split(x, [-1, 9])
        np.unstack(q, axis=1) | np.append(x, x) | np.append(x, [[1, 2, 3, 4]], axis=0)
        np.concatenate([x, r, q], axis=None) | np.block([[x, x], [x, x]]) | np.block([r, s])
        np.block([[q], [q]]) | np.block([[x, x[:, :1]], [r, s[:1]]]) | np.broadcast_arrays(x, r, 1)
        np.delete(x, 1) | np.delete(x, [0, 2], axis=1) | np.delete(x, -1, axis=0) | np.insert(x, 1, 5)
        np.insert(x, 1, [1, 2, 3], axis=1) | np.insert(x, [1, 2], 7, axis=1)
        np.insert(r, [0, 0, 3], [1, 2, 3])
        np.insert(x, 1, r, axis=0) | np.insert(r, [2], s) | np.compress([True, False, True], x, axis=0)
        np.compress([0, 1, 1], x[:, 0]) | np.extract([1, 0, 1, 1], r)
    """,
    "places": """
        np.tril_indices(3) | np.tril_indices(x.shape[0], -1, 4) | np.triu_indices_from(x)
        np.tril_indices_from(x, 1)
        x[np.triu_indices(3, 1)] | np.indices((3, 2)) | np.indices((x.shape[0], 2)) | np.ix_([0, 1], [1, 2])
        x[np.ix_([0, 2], [1, 3])] | np.unravel_index(np.argmax(q), q.shape) | np.diag_indices(x.shape[0])
        np.diag_indices(3, 3)
        np.unravel_index(np.array([1, 7]), (3, 4)) | np.ravel_multi_index((np.array([0, 2]), r4[:2]), (3, 4))
        np.ravel_multi_index((np.array([0, 2]), np.array([1, 9])), x.shape, mode="clip")
        np.ravel_multi_index((np.array([0, 5]), np.array([1, 9])), x.shape, mode="wrap")
        np.choose([0, 1, 0, 1], [r, x[1]]) | np.choose(r4 * 3, [r, x[1]], mode="clip")
        np.choose(r4, [r, x[1], x[2]], mode="wrap") | np.isin(x, [1, 2, x[0, 0]]) | np.isin(x, r, invert=True)
        np.digitize(x, [-1, 0, 1]) | np.digitize(x, [1, 0, -1]) | np.digitize(x, [-1, 0, 1], right=True)
        np.digitize(x, [1, 0, -1], right=True)
        np.piecewise(x, [x < 0, x > 1], [lambda v: -v, lambda v: v * 2, 3])
        np.piecewise(x, [x < 0], [lambda v: -v])
    """,
    "elements": """
        np.ediff1d(x) | np.ediff1d(r, to_end=[1, 2], to_begin=0) | np.signbit(x) | np.isposinf(x)
        np.isneginf(x)
        np.cumulative_sum(x, axis=1) | np.cumulative_sum(r, include_initial=True) | np.logaddexp2(x, 1.5)
        np.cumulative_prod(x, axis=0, include_initial=True) | np.vecdot(x, x) | np.vecdot(q, q, axis=1)
        np.matvec(x, r) | np.vecmat(x[:, 0], x) | np.modf(x) | np.ldexp(x, 3)
        np.ldexp(x, np.array([1, -2, 3, 0]))
    """,
    "statistics": """
        np.histogram(x) | np.histogram(x, bins=4, range=(-1, 1)) | np.histogram(x, bins=[-1, 0, 1, 2])
        np.histogram(x, density=True) | np.histogram(x, bins=3, weights=x) | np.histogram_bin_edges(x, 5)
        np.histogram(x, bins=[-1.0, 0, 1], density=True) | np.cov(x) | np.cov(r) | np.cov(x, rowvar=False)
        np.cov(r, x[1]) | np.cov(x, bias=True) | np.cov(x, ddof=0) | np.corrcoef(x) | np.corrcoef(r, x[1])
        np.corrcoef(r) | np.correlate(r, x[1], "full") | np.correlate(r, x[1, :3])
        np.correlate(s, x[1], "same")
        np.correlate(x[0, :3], x[1], "full") | np.correlate(s, x[1]) | np.correlate(x[0], x[1, :2], "same")
    """,
    "polynomials": """
        np.polyadd(r, s) | np.polysub(s, r) | np.polymul(r * r + 1, s * s + 1)
        np.polyder(r) | np.polyder(r, 2)
        np.polyint(r)
        np.polyint(r, 2) | np.polyint(r, k=3) | np.polyint(r, 2, [1, 2]) | np.vander(r) | np.vander(r, 3)
        np.vander(r, 3, increasing=True) | np.polyfit(r, x[1], 2) | np.polyfit(r, x[1], 1, w=x[2] * x[2] + 1)
        np.polyfit(r, x.T, 1)
    """,
    "slopes": """
        np.gradient(x) | np.gradient(x, axis=1) | np.gradient(r) | np.gradient(x, 2.0, 0.5) | np.gradient(q)
        np.gradient(x, 2.0, edge_order=2) | np.gradient(r, np.array([0.0, 1, 3, 4]))
        np.gradient(x, axis=(0, 1))
        np.gradient(q, 0.5, axis=-1) | np.gradient(r, np.array([0.0, 1, 3, 4.5]), edge_order=2)
        np.gradient(q, 1.0, 2.0, 3.0, edge_order=1) | np.unwrap(x * 4) | np.unwrap(x * 4, axis=0)
        np.unwrap(x * 4, period=3.0) | np.unwrap(x * 4, discont=5.0) | np.trapezoid(x)
        np.trapezoid(q, dx=0.5, axis=0)
        np.trapezoid(x, np.array([0.0, 1, 3, 4])) | np.trapezoid(x, x=x, axis=0)
    """,
}
#: Expressions of ints that are not of floats, and of numbers alone.
OF_INTS = "np.gcd(x, 6) | np.lcm(x, 6) | np.gcd(x, r) | np.lcm(r, x)"
OF_NUMBERS = """
    np.modf(2.5) | np.size(2.5) | np.unravel_index(x[0, 0], (30, 40)) | np.gcd(x[0, 0], 4) | np.shape(1.0)
    np.ldexp(1.5, 3) | np.signbit(x[0, 1]) | np.isin(3, r)
"""
#: Expressions of what is no number, and of infinities.
OF_NAN = """
    np.nanmedian(x, axis=1) | np.nanpercentile(x, [0, 30, 100], axis=1) | np.nanquantile(x, [0, 1], axis=1)
    np.nanargmax(x[::2], axis=1) | np.nancumsum(x, axis=1) | np.isneginf(x) | np.isposinf(x) | np.modf(x)
    np.isin(x, [np.nan, 3]) | np.digitize(x, [0, 2, 4]) | np.logaddexp2(x, x) | np.signbit(x[::2])
    np.piecewise(x, [x < 2], [-1, 1]) | np.histogram(x[0, :1], 3) | np.percentile(x, [0, 50, 100], axis=0)
"""


def written(expressions: str) -> list[str]:
    """The expressions of a text one by one."""
    return [e.strip() for line in expressions.strip().split("\n") for e in line.split(" | ")]


def function(texts: list[str], names: str = "x, q, r, s, r4") -> Callable[..., Any]:
    """The function that gives the values of expressions."""
    text = f"def program({names}):\n    return (\n" + "".join(f"        ({t}),\n" for t in texts) + "    )\n"
    name = f"<written {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["program"]


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays and numbers of a result, in order."""
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple | list) else [np.asarray(value)]


def compare(texts: list[str], arguments: tuple[Any, ...], backend: str) -> None:
    """Each expression has NumPy's values, shapes and element types."""
    made = function(texts)
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        wanted = made(*[np.copy(a) for a in arguments])
    found = glow.jit(made, backend=backend)(*arguments)
    wrong: list[str] = []
    narrow = arguments[0].dtype == np.float32
    for text, have, want in zip(texts, found, wanted, strict=True):
        ours, theirs = leaves(have), leaves(want)
        same = len(ours) == len(theirs) and all(
            a.dtype == b.dtype
            and a.shape == b.shape
            and np.allclose(
                a.astype(float), b.astype(float), *((1e-5,) * 2 if narrow else (1e-10,) * 2), equal_nan=True
            )
            for a, b in zip(ours, theirs, strict=True)
        )
        if not same:
            wrong.append(f"{text}: {have}, NumPy {want}")
    assert not wrong, "\n".join(wrong)


def arguments(dtype: str, seed: int = 3) -> tuple[Any, ...]:
    """Arrays of an element type; ints have ties."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape) * 3 for shape in ((3, 4), (2, 3, 4), 4, 2)]
    return *[np.asarray(a).astype(dtype) for a in arrays], np.array([0, 1, 1, 0])


BACKENDS = ["cpu", "interpreter"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("topic", TOPICS)
def test_value(topic: str, backend: str, dtype: str) -> None:
    """Values of functions that have been written with others, or are made of operators."""
    compare(written(TOPICS[topic]), arguments(dtype), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_numbers_and_nan(backend: str) -> None:
    compare(written(OF_INTS) + written(OF_NUMBERS), arguments("int64"), backend)
    _, *rest = arguments("float64")
    nan = np.array([[1, np.nan, 3, -np.inf], [np.nan] * 4, [4, 5, np.inf, 2.0]])
    compare(written(OF_NAN), (nan, *rest), backend)


#: Functions with a gradient, of a matrix of 3 x 4.
GRADIENTS = """
    np.percentile(x, [20, 50]) | np.nanquantile(x, [0.3], axis=1) | np.gradient(x)[1]
    np.gradient(x, 0.5, axis=0)
    np.trapezoid(x, np.array([0.0, 1, 3, 4])) | np.trapezoid(x, x=x * x, axis=0) | np.rot90(x)
    np.block([[x, x]])
    np.delete(x, 1, axis=0) | np.insert(x, 1, x[0], axis=0) | np.cov(x) | np.corrcoef(x)
    np.correlate(x[0], x[1, :2])
    np.polymul(x[0], x[1]) | np.polyint(x[0]) | np.polyfit(x[0], x[1], 1) | np.logaddexp2(x, x * x)
    np.modf(x)[0]
    np.ldexp(x, 2) | np.cumulative_sum(x, axis=1) | np.vecdot(x, x)
    np.apply_along_axis(lambda v: v * v[0], 1, x)
    np.piecewise(x, [x < 0], [lambda v: v * v, lambda v: v]) | np.unwrap(x * 4) | np.hsplit(x, 2)[1]
    np.nancumprod(x, axis=0) | np.histogram(x, 3, weights=x * x)[0]
    np.choose([0, 1, 1, 0], [x[0], x[1] * 2])
    np.linalg.qr(x.T).R | np.linalg.qr(x.T)[0] | np.linalg.svd(x, full_matrices=False).S | np.linalg.pinv(x)
    np.abs(np.linalg.svd(x, full_matrices=False).U) | np.abs(np.linalg.svd(x.T, full_matrices=False)[2])
    np.linalg.eigvalsh(x[:, :3]) | np.abs(np.linalg.eigh(x[:, :3])[1]) | np.linalg.cond(x)
    np.linalg.lstsq(x.T, x[0] * x[1], rcond=None)[0] | np.linalg.multi_dot([x, x.T, x])
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", written(GRADIENTS))
def test_gradient(text: str, backend: str) -> None:
    """Gradients are those of finite differences."""
    total = function([f"np.sum(np.cos({text}) * 1.5)"], "x")
    x, step = arguments("float64")[0], 1e-6
    found = glow.grad(glow.jit(lambda x: total(x)[0], backend=backend))(x)
    wanted = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[index] = step
        wanted[index] = (total(x + move)[0] - total(x - move)[0]) / (2 * step)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
