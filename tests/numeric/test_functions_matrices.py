"""Factors of matrices in compiled functions: NumPy's numbers, orthogonal, of hard matrices too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_functions_numpy_written import BACKENDS, compare, written

import glow_compiler as glow

RNG = np.random.default_rng(5)
EXPRESSIONS = """
    np.linalg.qr(x) | np.linalg.qr(x.T) | np.linalg.qr(x.T, mode="complete") | np.linalg.qr(x, mode="r")
    np.linalg.svd(x, compute_uv=False) | np.linalg.svdvals(x.T) | np.abs(np.linalg.svd(x)[0])
    np.abs(np.linalg.svd(x, full_matrices=False).Vh) | np.linalg.eigvalsh(x @ x.T) | np.linalg.pinv(x)
    np.abs(np.linalg.eigh(x[:, :3])[1]) | np.linalg.eigh(x[:, :3], UPLO="U").eigenvalues | np.linalg.pinv(x.T)
    np.linalg.lstsq(x.T, r) | np.linalg.lstsq(x.T, x.T[:, :2], rcond=None) | np.linalg.lstsq(x, x[:, 0])
    np.linalg.matrix_rank(x) | np.linalg.matrix_rank(np.outer(r, s)) | np.linalg.cond(x)
    np.linalg.cond(x, -2)
    np.linalg.cond(x[:, :3], 1) | np.linalg.cond(x[:, :3], np.inf) | np.linalg.norm(x, 1)
    np.linalg.norm(x, -np.inf)
    np.linalg.multi_dot([x, x.T, x])
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_value(backend: str, dtype: str) -> None:
    """Beside NumPy's, but for signs of vectors; all of doubles on the CPU, a part of the rest."""
    lines = written(EXPRESSIONS)
    if (backend, dtype) != ("cpu", "float64"):
        lines = lines[("float64", "float32", "int64").index(dtype) :: 4]
    rng = np.random.default_rng(8)
    x, r, s = (np.asarray(rng.standard_normal(n) * 5).astype(dtype) for n in ((3, 4), 4, 2))
    compare(lines, (x, x, r, s, r), backend)


def hard() -> dict[str, np.ndarray]:
    """Symmetric matrices with equal, near, tiny and no eigenvalues."""
    turned = np.linalg.qr(RNG.standard_normal((16, 16)))[0]
    near = np.array([1.0] * 8 + [1 + 1e-9] * 4 + [2.0] * 4)
    places = np.arange(16)
    return {
        "near": turned * near @ turned.T,
        "zero": np.zeros((16, 16)),
        "equal": np.eye(16),
        "one": np.ones((16, 16)),
        "Hilbert's": 1 / (1.0 + places[:, None] + places),
        "graded": 10.0 ** -(places[:, None] + places),
        "odd": (lambda a: a + a.T)(RNG.standard_normal((33, 33))),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", hard())
def test_hard_matrices(name: str) -> None:
    """Vectors are orthogonal, products give the matrix again, and numbers are NumPy's, to rounding."""
    a = hard()[name]
    a = (a + a.T) / 2
    values, vectors = glow.jit(lambda a: np.linalg.eigh(a))(a)
    u, s, vh = glow.jit(lambda a: np.linalg.svd(a))(a)
    size, eye = max(float(np.abs(a).max()), 1e-300), np.eye(len(a))
    for factor in (vectors, u, vh):
        np.testing.assert_allclose(factor.T @ factor, eye, atol=1e-13)
    for product in (vectors * values @ vectors.T, u * s @ vh):
        np.testing.assert_allclose(product / size, a / size, atol=1e-11)
    np.testing.assert_allclose(values / size, np.linalg.eigvalsh(a) / size, atol=1e-12)
    np.testing.assert_allclose(s / size, np.linalg.svd(a, compute_uv=False) / size, atol=1e-12)


@pytest.mark.slow
def test_equal_values_have_a_gradient_of_numbers() -> None:
    """The sum of singular values, and of eigenvalues, where some are equal."""
    nuclear: Any = glow.grad(glow.jit(lambda a: np.sum(np.linalg.svdvals(a))))
    trace: Any = glow.grad(glow.jit(lambda a: np.sum(np.linalg.eigvalsh(a))))
    np.testing.assert_allclose(nuclear(np.eye(3) * 2), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(trace(np.eye(4)), np.eye(4), atol=1e-12)
