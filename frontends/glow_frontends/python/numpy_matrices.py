"""NumPy's functions of matrices, written with other functions of NumPy: compiled like functions of the user.

Matrices are solved by elimination with pivots, whose gradients are declared where they are known; a singular
one gives infinities or NaN. Reflections and rotations are doubles, as in NumPy, whatever the matrix has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


# --- elimination -------------------------------------------------------------------------------------------
def _swapped(a: Any, rows: Any, k: int, p: int) -> Any:
    """Rows k and p exchanged."""
    place = rows[:, None]
    return np.where(place == k, a[p], np.where(place == p, a[k], a))


def _pivot(a: Any, rows: Any, k: int) -> Any:
    """The row from k on with the largest number in column k."""
    return np.argmax(np.where(rows >= k, np.abs(a[:, k]), -1.0))


def _side(a: Any) -> int:
    """The rows of a square matrix."""
    if a.ndim != 2 or a.shape[0] != a.shape[-1]:
        raise ValueError("the matrix must be square, of two axes")
    return a.shape[0]


def solve(a: Any, b: Any) -> Any:
    """x with a x = b, by elimination."""
    n = _side(a)
    rows = np.arange(n)
    both = np.concatenate((a, b.reshape(n, -1)), axis=1)
    for k in range(n):
        both = _swapped(both, rows, k, _pivot(both, rows, k))
        top = both[k] / both[k, k]
        factor = np.where(rows == k, 0.0, both[:, k])
        both = np.where(rows[:, None] == k, top, both - np.outer(factor, top))
    return both[:, n:].reshape(b.shape)


def _solve_gradient(d: Any, x: Any, a: Any, b: Any) -> Any:
    back = np.linalg.solve(a.T, d)
    n = a.shape[0]
    return -(back.reshape(n, -1) @ x.reshape(n, -1).T), back


def inv(a: Any) -> Any:
    """The inverse."""
    return np.linalg.solve(a, np.eye(_side(a)))


def slogdet(a: Any) -> Any:
    """The sign of the determinant and the logarithm of its size."""
    value = np.linalg.det(a)
    return np.sign(value), np.log(np.abs(value))


def det(a: Any) -> Any:
    """The determinant."""
    n = _side(a)
    rows = np.arange(n)
    value = 1.0
    for k in range(n):
        p = _pivot(a, rows, k)
        a = _swapped(a, rows, k, p)
        top = a[k]
        pivot = top[k]
        value = value * np.where(p == k, pivot, -pivot)
        factor = np.where(rows > k, a[:, k], 0.0) / np.where(pivot == 0, 1.0, pivot)
        a = a - np.outer(factor, top)
    return value


def cholesky(a: Any) -> Any:
    """The lower triangular matrix whose product with its transpose is a."""
    n = _side(a)
    rows = np.arange(n)
    factor = np.zeros_like(a)
    for j in range(n):
        column = a[:, j] - factor @ factor[j]
        column = np.where(rows >= j, column / np.sqrt(column[j]), 0.0)
        factor = factor + np.outer(column, np.where(rows == j, 1.0, 0.0))
    return factor


def matrix_power(a: Any, n: int) -> Any:
    """The product of n times a matrix; of its inverse for negative n."""
    if n < 0:
        a, n = np.linalg.inv(a), -n
    power = np.eye(a.shape[0])
    while n > 0:
        if n % 2 == 1:
            power = power @ a
        a = a @ a
        n = n // 2
    return power


# --- reflections -------------------------------------------------------------------------------------------
class QRResult(NamedTuple):
    """The factors of a matrix."""

    Q: Any
    R: Any


class EighResult(NamedTuple):
    """The eigenvalues of a symmetric matrix, and the vectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """The factors of a matrix whose middle one is a diagonal."""

    U: Any
    S: Any
    Vh: Any


def _matrix(a: Any) -> Any:
    """A matrix of doubles."""
    if np.ndim(a) != 2:
        raise ValueError("the matrix must have two axes; take one of a stack at a time")
    return np.float64(a)


def _floats(a: Any) -> Any:
    """The element type of results."""
    return (np.atleast_1d(a) * 1.0).dtype


def _reflected(a: Any, columns: int) -> Any:
    """By reflections: so many columns of an orthogonal matrix, and the triangle it is multiplied with."""
    m, n = a.shape
    count = min(m, n)
    rows = np.arange(m)
    r, mirrors = a, np.zeros((count, m))
    for j in range(count):
        x = np.where(rows >= j, r[:, j], 0.0)
        rest = np.where(rows > j, x, 0.0)
        tail = np.sum(rest * rest)
        # A column with nothing below its diagonal stays, as in LAPACK.
        size = np.sqrt(np.where(tail == 0, 1.0, x[j] * x[j] + tail))
        v = np.where(rows == j, x[j] + np.copysign(size, x[j]), rest)
        v = np.where(tail == 0, 0.0, v / np.sqrt(np.where(tail == 0, 1.0, np.sum(v * v))))
        r = r - np.outer(v, 2.0 * (v @ r))
        mirrors = np.where(np.arange(count)[:, None] == j, v, mirrors)
    q = np.eye(m, columns)
    for i in range(count):
        v = mirrors[count - 1 - i]
        q = q - np.outer(v, 2.0 * (v @ q))
    return q, np.triu(r)


def qr(a: Any, mode: str = "reduced") -> Any:
    """An orthogonal matrix and one that is 0 below the diagonal, whose product is a; signs are LAPACK's."""
    m, n = np.shape(a)
    q, r = _reflected(_matrix(a), m if mode == "complete" else min(m, n))
    kind = _floats(a)
    upper = (r if mode == "complete" else r[: min(m, n)]).astype(kind)
    return upper if mode == "r" else QRResult(q.astype(kind), upper)


# --- rotations ---------------------------------------------------------------------------------------------
_EPSILON = 2.0**-52


def _turns(n: int) -> int:
    """How often each column meets each other one: random matrices need 2 times and one a doubling of n.

    The slowest of graded ones, Hilbert's, needs two more.
    """
    return 10 if n <= 16 else 12 if n <= 128 else 16


def _angles(p: Any, q: Any, between: Any) -> Any:
    """Cosine and sine of the rotations that make products of columns 0, from their squares and products."""
    none = between == 0
    cotangent = (q - p) / np.where(none, 1.0, 2.0 * between)
    tangent = np.copysign(1.0, cotangent) / (np.abs(cotangent) + np.sqrt(cotangent * cotangent + 1.0))
    tangent = np.where(none, 0.0, tangent)
    cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
    return cosine, tangent * cosine


def _rotated(a: Any, cosine: Any, sine: Any) -> Any:
    """Each column of the first half turned with its partner, the first one with the last."""
    half = a.shape[1] // 2
    p, q = a[:, :half], np.flip(a[:, half:], 1)
    return np.concatenate((cosine * p - sine * q, np.flip(sine * p + cosine * q, 1)), 1)


def _partners(n: int) -> Any:
    """The order of columns in which each has its next partner; after n - 1 times they are as they were."""
    k = np.arange(n)
    return np.where(k == 0, 0, np.where(k == 1, n - 1, k - 1))


def _symmetric_rotated(a: Any) -> Any:
    """Eigenvalues of a symmetric matrix from the smallest on, and the vectors: by Jacobi's rotations."""
    n = a.shape[0]
    even = n + n % 2
    d, v = np.pad(a, (0, even - n)), np.eye(even)
    order, k = _partners(even), np.arange(even // 2)
    for _ in range(_turns(even) * (even - 1)):
        cosine, sine = _angles(d[k, k], d[even - 1 - k, even - 1 - k], d[k, even - 1 - k])
        d = _rotated(_rotated(d, cosine, sine).T, cosine, sine)
        d = np.take(np.take(d, order, 0), order, 1)
        v = np.take(_rotated(v, cosine, sine), order, 1)
    values = np.diag(d)[:n]
    rising = np.argsort(values)
    return np.take(values, rising), np.take(v[:n, :n], rising, 1)


def _symmetric_gradient(d: Any, y: Any, a: Any) -> Any:
    """Of eigenvalues and vectors; equal ones have no vectors of their own, and no gradient through them."""
    values, vectors = y
    by_values, by_vectors = d
    apart = values[None, :] - values[:, None]
    equal = apart == 0
    mixed = np.where(equal, 0.0, (vectors.T @ by_vectors) / np.where(equal, 1.0, apart))
    whole = vectors @ (mixed + np.diag(by_values)) @ vectors.T
    return (whole + whole.T) / 2.0


def _singular_rotated(a: Any) -> Any:
    """The factors of a matrix of no fewer rows than columns: rotations make its columns orthogonal."""
    n = a.shape[1]
    even = n + n % 2
    q, r = _reflected(a, n)
    w, v = np.pad(r[:n].T, ((0, 0), (0, even - n))), np.eye(even)  # of the transpose it takes fewer turns
    order, half = _partners(even), even // 2
    for _ in range(_turns(even) * (even - 1)):
        first, last = w[:, :half], np.flip(w[:, half:], 1)
        cosine, sine = _angles(np.sum(first * first, 0), np.sum(last * last, 0), np.sum(first * last, 0))
        w = np.take(_rotated(w, cosine, sine), order, 1)
        v = np.take(_rotated(v, cosine, sine), order, 1)
    falling = np.argsort(-np.sum(w[:, :n] * w[:, :n], 0))
    # Reflections of orthogonal columns leave a diagonal, and complete the columns of length 0.
    u, sizes = _reflected(np.take(w[:, :n], falling, 1), n)
    sizes = np.diag(sizes)
    return q @ np.take(v[:n, :n], falling, 1), np.abs(sizes), (u * np.where(sizes < 0, -1.0, 1.0)).T


def _singular_gradient(d: Any, y: Any, a: Any) -> Any:
    u, s, vh = y
    by_u, by_s, by_vh = d
    apart = s[None, :] * s[None, :] - s[:, None] * s[:, None]
    equal = apart == 0
    f = np.where(equal, 0.0, 1.0 / np.where(equal, 1.0, apart))
    inverse = np.where(s == 0, 0.0, 1.0 / np.where(s == 0, 1.0, s))
    left, right = u.T @ by_u, vh @ by_vh.T
    core = f * (left - left.T) * s[None, :] + s[:, None] * (f * (right - right.T)) + np.diag(by_s)
    outside = (by_u - u @ left) * inverse @ vh + u @ (inverse[:, None] * (by_vh - right.T @ vh))
    return u @ core @ vh + outside


def _singular(a: Any) -> Any:
    """The factors of any matrix: min(m, n) columns, numbers and rows."""
    if a.shape[0] >= a.shape[1]:
        return _tall(a)
    u, s, vh = _tall(a.T)
    return vh.T, s, u.T


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Orthogonal matrices and a diagonal, from the largest on, whose product is a; signs are not LAPACK's."""
    u, s, vh = _singular(_matrix(a))
    kind = _floats(a)
    if not compute_uv:
        return s.astype(kind)
    if full_matrices:
        u, vh = _completed(u), _completed(vh.T).T
    return SVDResult(u.astype(kind), s.astype(kind), vh.astype(kind))


def _completed(u: Any) -> Any:
    """Orthogonal columns, and behind them as many more as there are rows."""
    m, n = u.shape
    return u if m == n else np.concatenate((u, _reflected(u, m)[0][:, n:]), 1)


def svdvals(x: Any) -> Any:
    """The singular values, from the largest on."""
    return svd(x, compute_uv=False)


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and vectors of a symmetric matrix, of which a triangle is read; signs are not LAPACK's."""
    values, vectors = _eigen(a, UPLO)
    return EighResult(values.astype(_floats(a)), vectors.astype(_floats(a)))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of a symmetric matrix."""
    return _eigen(a, UPLO)[0].astype(_floats(a))


def _eigen(a: Any, UPLO: str) -> Any:
    _side(a)
    half = np.tril(np.float64(a)) if UPLO in ("L", "l") else np.triu(np.float64(a)).T
    return _balanced(half + np.tril(half, -1).T)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False) -> Any:
    """The pseudo-inverse; singular values below rcond times the largest count as 0, by default 1e-15."""
    return _inverse(_matrix(a), 1e-15 if rcond is None else rcond).astype(_floats(a))


def _pseudo_inverse(a: Any, rcond: float) -> Any:
    u, s, vh = _singular(a)
    kept = s > rcond * s[0]
    return vh.T * np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0) @ u.T


def _pseudo_gradient(d: Any, p: Any, a: Any, rcond: float) -> Any:
    m, n = a.shape
    outside = (np.eye(m) - a @ p) @ d.T @ (p @ p.T) + (p.T @ p) @ d.T @ (np.eye(n) - p @ a)
    return outside - p.T @ d @ p.T, None


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The x of least a x - b, the sums of its squares, the rank of a and its singular values."""
    m, n = np.shape(a)
    x, y, kind = _matrix(a), np.float64(b), (np.asarray(a) * 1.0 + np.asarray(b).reshape(-1)[0] * 1.0).dtype
    s = _singular(x)[1]
    limit = max(m, n) * _EPSILON if rcond is None else rcond
    best = _inverse(x, limit) @ y
    rest = y - x @ best
    sums = np.sum(rest * rest, 0) if m > n else np.zeros(0)
    return (
        best.astype(kind),
        np.atleast_1d(sums).astype(kind),
        np.sum(s > limit * s[0]).astype(np.int32),
        s.astype(kind),
    )


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, rtol: Any = None) -> Any:
    """How many singular values are above tol, or above rtol times the largest."""
    m, n = np.shape(A)
    s = _singular(_matrix(A))[1]
    epsilon = 2.0**-23 if _floats(A) == np.float32 else _EPSILON
    limit = s[0] * (max(m, n) * epsilon if rtol is None else rtol)
    return np.sum(s > (limit if tol is None else tol))


def cond(x: Any, p: Any = None) -> Any:
    """The largest singular value by the smallest; other norms by the inverse."""
    if p is None or p == 2:
        s = svdvals(x)
        return s[0] / s[-1]
    if p == -2:
        s = svdvals(x)
        return s[-1] / s[0]
    return _size(x, p) * _size(np.linalg.inv(x), p)


def _size(x: Any, p: Any) -> Any:
    if isinstance(p, str):
        return np.linalg.norm(x)
    if p == 1:
        return np.linalg.norm(x, 1)
    if p == -1:
        return np.linalg.norm(x, -1)
    return np.linalg.norm(x, np.inf) if p > 0 else np.linalg.norm(x, -np.inf)


def multi_dot(arrays: Any) -> Any:
    """The product of several matrices, from the left."""
    made = arrays[0]
    for a in arrays[1:]:
        made = made @ a
    return made


class Declared:
    """A function with a declared gradient, as `glow.custom_gradient` makes it."""

    def __init__(self, function: Callable[..., Any], gradient: Callable[..., Any]) -> None:
        self.glow_function, self.glow_declared = function, gradient


_balanced: Any = Declared(_symmetric_rotated, _symmetric_gradient)
_tall: Any = Declared(_singular_rotated, _singular_gradient)
_inverse: Any = Declared(_pseudo_inverse, _pseudo_gradient)

#: Compiled functions in place of NumPy's.
MATRICES: dict[Any, Any] = {
    **{
        getattr(np.linalg, f.__name__): f
        for f in (inv, slogdet, det, cholesky, matrix_power, qr, svd, svdvals, eigh, eigvalsh, pinv, lstsq,
                  matrix_rank, cond, multi_dot)
        if hasattr(np.linalg, f.__name__)
    },
    np.linalg.solve: Declared(solve, _solve_gradient),
}  # fmt: skip
