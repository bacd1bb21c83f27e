"""Functions of `math` and NumPy that are written in Python: compiled like functions of the user."""

from __future__ import annotations

import math
from typing import Any

from glow_frontends.python.numpy_analysis import ANALYSIS
from glow_frontends.python.numpy_matrices import MATRICES
from glow_frontends.python.numpy_written import ELEMENTS


def prod(values: tuple[float, ...], start: float = 1) -> float:
    """The product of the items."""
    s = start
    for v in values:
        s = s * v
    return s


def fsum(values: tuple[float, ...]) -> float:
    """The sum of the items, as a float."""
    return float(sum(values))


def dist(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """The distance of two points."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    s = 0.0
    for a, b in zip(p, q, strict=False):
        s = s + (a - b) ** 2
    return math.sqrt(s)


def sumprod(p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """The sum of products."""
    if len(p) != len(q):
        raise ValueError("Inputs are not the same length")
    s = 0.0
    for a, b in zip(p, q, strict=False):
        s = s + a * b
    return s


def _whole(n: Any) -> None:
    """TypeError for a float where `math` wants an int."""
    if isinstance(n, float):
        raise TypeError("'float' object cannot be interpreted as an integer")


def isqrt(n: int) -> int:
    """The whole part of the square root."""
    _whole(n)
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    # Newton's steps come from above, whatever the first guess; a double holds no number beyond 1e308.
    r = int(math.sqrt(n)) + 1 if n < 1e300 else n
    r = (r + n // r) // 2
    while n // max(r, 1) < r:
        r = (r + n // r) // 2
    return r


def gcd(a: int, b: int) -> int:
    """The greatest common divisor."""
    _whole(a)
    _whole(b)
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def lcm(a: int, b: int) -> int:
    """The least common multiple."""
    divisor = gcd(a, b)
    return 0 if divisor == 0 else abs(a // divisor * b)


def factorial(n: int) -> int:
    """n!"""
    _whole(n)
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    r = 1
    for i in range(2, n + 1):
        r = r * i
    return r


def perm(n: int, k: int | None = None) -> int:
    """Ordered choices of k among n; of all n where k is not given."""
    if k is None:
        k = n
    _whole(n)
    _whole(k)
    if n < 0 or k < 0:
        raise ValueError("n and k must be non-negative integers")
    r = 1
    for i in range(k):
        r = r * (n - i)
    return r


def comb(n: int, k: int) -> int:
    """Choices of k among n."""
    _whole(n)
    _whole(k)
    if n < 0 or k < 0:
        raise ValueError("n and k must be non-negative integers")
    r = 1
    for i in range(k):
        r = r * (n - i) // (i + 1)
    return r


def isclose(a: float, b: float, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    """Whether two numbers are nearly equal."""
    return a == b or abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


def divmod_(a: float, b: float) -> tuple[float, float]:
    """Quotient and rest."""
    return a // b, a % b


def modf(x: float) -> tuple[float, float]:
    """Fraction and whole part."""
    whole = math.copysign(x if math.isinf(x) else float(int(abs(x))), x)
    return math.copysign(0.0 if math.isinf(x) else x - whole, x), whole


def round_digits(x: Any, digits: int) -> Any:
    """x with so many decimal digits: the nearest, to even where two are as near, as Python rounds."""
    if isinstance(x, int):
        power = 10 ** max(-digits, 0)
        return x if digits >= 0 else round(x / power) * power
    scale = 10.0 ** abs(digits)
    shifted = x * scale if digits >= 0 else x / scale
    if not abs(shifted) < 4503599627370496.0:
        return x
    whole = math.copysign(float(round(shifted)), x)  # -0.0 stays
    if digits >= 0:
        # What the product lost decides where it lies halfway: both factors split into halves of 26 bits.
        high, far = x * 134217729.0, scale * 134217729.0
        a, c = high - (high - x), far - (far - scale)
        b, d = x - a, scale - c
        rest, lost = shifted - whole, ((a * c - shifted) + a * d + b * c) + b * d
        if rest == 0.5 and lost > 0.0:
            whole = whole + 1.0
        if rest == -0.5 and lost < 0.0:
            whole = whole - 1.0
        return whole / scale
    return whole * scale


def _written() -> dict[Any, Any]:
    own = (prod, fsum, dist, isqrt, gcd, lcm, factorial, perm, comb, isclose, modf,
           sumprod)  # fmt: skip
    table = {getattr(math, f.__name__): f for f in own if hasattr(math, f.__name__)}
    return {**table, **ELEMENTS, **ANALYSIS, **MATRICES, divmod: divmod_}


#: Compiled functions in place of those of `math` and of built-in functions of numbers.
WRITTEN: dict[Any, Any] = _written()
