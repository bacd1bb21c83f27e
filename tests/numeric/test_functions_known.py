"""What is known when compiling is decided then; what cannot be compiled is refused by what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ["cpu", "interpreter"]


def neighbours(x: Any) -> Any:
    return sum(x[1 + i, 1 + j] for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))


def chosen(x: Any) -> Any:
    odd = [x * i for i in range(5) if i not in (0, 2, 4)]
    named = [x * i for i, n in enumerate(("a", "b", "c")) if n in ("a", "c") and n < "c"]
    pairs = [x + i + j for i in range(3) for j in range(3) if (i, j) in [(0, 1), (2, 2)] and [i] <= [j, 0]]
    return odd, named, pairs


def compared(x: Any) -> Any:
    known = "a" in "abc", "d" not in "abc", 1 < 2 <= 2, (1, 2) < (1, 3), (1, (2, "a")) == (1, (2, "a"))
    return known, x in (1.0, 3.0), 2 in (x, 2), 1 < 2 < x, (1, 2) != (1, 2.5)


def without(x: Any, flag: Any = None, *rest: Any) -> Any:
    return x * 2 if flag or rest else x


def nothing_is_false(x: Any) -> Any:
    return without(x), without(x, None), without(x, 1), without(x, None, 3)


def summed(x: Any, axis: Any = None, mode: Any = "same") -> Any:
    return np.sum(x, axis), np.max(x, axis=axis), np.mean(x, axis), np.convolve(x[0], x[1, :2], mode)


def passed_on(x: Any) -> Any:
    return summed(x), summed(x, 1), summed(x, (0, 1), "full"), np.where(np.sum(x) > 1e9, 0.0, x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (neighbours, np.arange(9.0).reshape(3, 3)),
        (chosen, 3.0),
        (compared, 3.0),
        (nothing_is_false, 3.0),
        (passed_on, np.arange(12.0).reshape(3, 4) ** 2),
    ],
)
def test_values(function: Callable[..., Any], argument: Any, backend: str) -> None:
    """Comparisons of known tuples and texts, None and options that a caller gives are as in Python."""

    def flat(value: Any) -> list[Any]:
        return [x for v in value for x in flat(v)] if isinstance(value, tuple | list) else [value]

    found, wanted = flat(glow.jit(function, backend=backend)(argument)), flat(function(argument))
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)


def of_the_run(x: Any) -> Any:
    return [i for i in (1, 2) if (i, x) == (1, 2.0)]


UNTYPED: Any = np
REFUSED: list[tuple[Callable[..., Any], str]] = [
    (of_the_run, "a condition in a comprehension must be known at compile time"),
    (lambda x: np.nonzero(x), "np.nonzero: the length of the result depends on values"),
    (lambda x: np.unique(x), "depends on values.* write np.where"),
    (lambda x: np.where(x > 0), "np.where of a condition alone: the length"),
    (lambda x: x.nonzero(), "the method 'nonzero': the length"),
    (lambda x: np.extract(x > 0, x), "the length of the result depends on values"),
    (lambda x: np.bincount(x, minlength=3), "depends on the largest value, whatever minlength is"),
    (lambda x: np.fft.fft(x), "np.fft.fft: complex numbers are not compiled"),
    (lambda x: np.linalg.eig(x), "np.linalg.eig: complex numbers .* np.linalg.eigh"),
    (lambda x: x * 1j, "complex numbers are not compiled"),
    (lambda x: x.astype(complex), "complex numbers are not compiled"),
    (lambda x: np.fill_diagonal(x, 0), "np.fill_diagonal: functions that change their argument"),
    (lambda x: np.linalg.svd(x), "the matrix must have two axes"),
    (lambda x: np.delete(x, 9), "np.delete: .* give indices inside the axis"),
    (lambda x: UNTYPED.hsplit(x, 2, 0), "np.hsplit has a fixed axis"),
    (lambda x: np.quantile(x, [0.5, 2]), "must be between 0 and 1"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED, ids=lambda c: c if isinstance(c, str) else "")
def test_refused(function: Callable[..., Any], message: str) -> None:
    """The message says what it is and what to write instead."""
    argument = 2.0 if function is of_the_run else np.arange(3.0)
    with pytest.raises(glow.GlowError, match=message):
        glow.jit(function)(argument)
