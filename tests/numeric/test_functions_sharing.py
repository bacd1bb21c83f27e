"""Changes in place that other names see in Python: carried out or refused, never lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

ARGUMENT = np.arange(1.0, 5.0).reshape(2, 2)


def rows_of_loop(x):
    y = x.copy()
    for row in y:
        row[0] = 7.0
    return y


def rows_of_zip(x):
    y = x.copy()
    for a, b in zip(y, x):  # noqa: B905
        a[:] = b * 2
    return y


def row_divided(x):
    y = x.copy()
    r = y[1]
    r /= r.sum()
    return y


def slice_written(x):
    y = x.copy()
    z = y[1:]
    z[0] = 5.0
    return y[1]


def whole_written(x):
    y = x.copy()
    z = y[:1]
    y[0] = 5.0
    return z[0]


def listed_twice(x):
    y = x.copy()
    rows = [y, y]
    rows[0][0] = 9
    return rows[1][0]


def held_by_tuple(x):
    y = x.copy()
    t = (y, 1)
    y[0] = 9
    return t[0][0]


def second_name(x):
    y = x.copy()
    z = y
    z += 1
    return y


def second_list(x):
    a = [1.0]
    b = a
    a += [x.sum()]
    return len(b)


def repeated_list(x):
    g = [[0] * 2] * 2
    g[0][0] = x.sum()
    return g[1][0]


def one_way(x):
    y = x.copy()
    z = y[0] if x[0, 0] > 0 else y[1].copy()
    z[0] = 9
    return y


def in_a_loop(x):
    y = x.copy()
    while y[0, 0] < 5:
        r = y[0]
        r += 1
    return y


def turned(x):
    y = x.copy()
    z = y.T
    z[0, 1] = 9
    return y


def swapped_rows(x):
    y = x.copy()
    y[0], y[1] = y[1], y[0]
    return y


def _first(a):
    return a[0]


def through_a_call(x):
    y = x.copy()
    z = _first(y)
    z[0] = 9
    return y


def _raised(a):
    a += 1
    return a


def of_the_caller(x):
    y = x.copy()
    return _raised(y) + y


REFUSED = [
    rows_of_loop, rows_of_zip, row_divided, slice_written, whole_written, listed_twice, held_by_tuple,
    second_name, second_list, repeated_list, one_way, in_a_loop, turned, swapped_rows, through_a_call,
    of_the_caller,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_a_change_that_others_see_is_refused(function: Callable[..., Any]) -> None:
    """Python's answer is another one than that of values that do not change."""
    advice = r"copy\(\)|write a = a \+"
    for backend in ("cpu", "interpreter"):
        with pytest.raises(glow.GlowError, match=advice) as error:
            glow.jit(function, backend=backend)(ARGUMENT)
        assert "test_functions_sharing.py:" in str(error.value)


def later_rows(x):
    y = x.copy()
    for v in y:
        y[1] = y[1] + v
    return y


def enumerated(x):
    y = x.copy()
    for i, v in enumerate(y):
        y[i] = v * 2
    return y


def numbers(x):
    y = x[0].copy()
    s = y[0]
    s += y[1]
    t = y[0]
    y[0] = y[1]
    y[1] = t
    y[0], y[1] = y[1], y[0]
    return y, s, t


def own_copies(x):
    s = 0.0
    for row in x:
        row = row * 2
        row[0] = 1
        s += row.sum()
    return s + x.sum()


def layers(x):
    h = x
    for _ in range(3):
        h = h @ x
        h += 1
    return h + x


def items_of_lists(x):
    rows = [x, x * 2]
    first = rows[0]
    rows[0] = x + 1
    ordered = sorted([3.0, 1.0, 2.0])
    ordered[0] = 5.0
    return first, rows[0], ordered


def kept_type(x):
    y = x.astype(np.float32)
    y += x
    y *= np.ones(2)
    return y


def late(x):
    many = [lambda: k for k in range(3)]  # noqa: B023
    made = []
    for n in range(3):
        made.append(lambda: n)  # noqa: B023
    c = 1
    pair = (lambda: c, 2)
    c = x.sum()
    return many[0](), made[0](), pair[0]()


def of_parameters(a, b):
    return tuple(map(lambda p, q: p * q, a, b))


RIGHT = [later_rows, enumerated, numbers, own_copies, layers, items_of_lists, kept_type, late]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_what_python_does(function: Callable[..., Any]) -> None:
    """Values and element types of Python: loops meet what they wrote, functions see names as they are."""
    expected = function(copy.deepcopy(ARGUMENT))
    for backend in ("cpu", "interpreter"):
        found = glow.jit(function, backend=backend)(ARGUMENT)
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for mine, theirs in pairs:
            np.testing.assert_allclose(mine, theirs)
            assert np.asarray(mine).dtype == np.asarray(theirs).dtype


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_an_array_in_place_of_another(backend: str) -> None:
    """What NumPy does not cast or broadcast into an array is refused."""

    def cast(x):
        x += 0.5
        return x

    def widened(x):
        y = np.zeros(2)
        y += x
        return y

    with pytest.raises(glow.GlowError, match="float64 instead of int64"):
        glow.jit(cast, backend=backend)(np.arange(3))
    with pytest.raises(glow.GlowError, match=r"shape \(2, 2\).* instead of an array of shape \(2,\)"):
        glow.jit(widened, backend=backend)(ARGUMENT)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_map_of_several_parameters(backend: str) -> None:
    """The length is that of the shortest; gradients too."""
    assert glow.jit(of_parameters, backend=backend)((1.0, 2.0), (3.0, 4.0, 5.0)) == (3.0, 8.0)
    product = glow.grad(lambda a, b: sum(map(lambda p, q: p * q, a, b)), backend=backend)
    assert product((1.0, 2.0), (3.0, 4.0)) == (3.0, 4.0)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_gradient_of_changes_in_place(backend: str) -> None:
    """`x += v` of arrays is differentiated, also where it casts."""

    def loss(x):
        y = np.zeros(2, np.float32)
        y += x * x
        r = x[0]
        r *= 2.0
        return np.sum(y) + r

    np.testing.assert_allclose(glow.grad(loss, backend=backend)(np.array([1.0, 2.0])), [4.0, 4.0], rtol=1e-6)
