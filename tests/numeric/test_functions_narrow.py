"""Python numbers in narrow arrays, in every form: NumPy's result, or OverflowError where NumPy raises it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def _item(a: Any, v: Any) -> Any:
    a = a.copy()
    a[0] = v
    return a


def _slice(a: Any, v: Any) -> Any:
    a = a.copy()
    a[:] = v
    return a


def _list(a: Any, v: Any) -> Any:
    a = a.copy()
    a[:2] = [v, 1]
    return a


def _literals(a: Any, v: Any) -> Any:
    a = a.copy()
    a[:2] = [200, 1]
    return a


def _tuple(a: Any, v: Any) -> Any:
    a = a.copy()
    a[1:3] = (1, v + 1)
    return a


def _one(a: Any, v: Any) -> Any:
    a = a.copy()
    a[1:3] = [v]
    return a


def _places(a: Any, v: Any) -> Any:
    a = a.copy()
    a[[0, 2]] = [v, 2]
    return a


def _rows(a: Any, v: Any) -> Any:
    m = np.stack([a, a])
    m[:, :2] = [[v, 1], [2, 3]]
    return m


def _row(a: Any, v: Any) -> Any:
    m = np.stack([a, a])
    m[0] = [v, 1, 2, 3]
    return m


def _reals(a: Any, v: Any) -> Any:
    a = a.copy()
    a[:2] = [1.5, v + 0.5]
    return a


def _masked(a: Any, v: Any) -> Any:
    a = a.copy()
    a[a == 0] = v
    return a


def _in_place(a: Any, v: Any) -> Any:
    a = a.copy()
    a[:2] += v
    return a


def _inserted(a: Any, v: Any) -> Any:
    return np.insert(a, 0, v)


def _full(a: Any, v: Any) -> Any:
    return np.full_like(a, v)


def _sum(a: Any, v: Any) -> Any:
    return v - a


def _compared(a: Any, v: Any) -> Any:
    return a < v


def _above(a: Any, v: Any) -> Any:
    return np.clip(a, v, 2)


def _below(a: Any, v: Any) -> Any:
    return np.clip(a, -300, v)


def _both(a: Any, v: Any) -> Any:
    return np.clip(a, -5, 70000)


FORMS: tuple[Callable[[Any, Any], Any], ...] = (
    _item, _slice, _list, _literals, _tuple, _one, _places, _rows, _row, _reals, _masked, _in_place,
    _inserted, _full, _sum, _compared, _above, _below, _both,
)  # fmt: skip


def _outcome(f: Callable[[Any, Any], Any], *x: Any) -> Any:
    try:
        value = f(*x)
    except OverflowError:
        return "overflow"
    return value.dtype, value.tolist()


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("form", FORMS)
def test_numbers_in_narrow_arrays(form: Callable[[Any, Any], Any], backend: str) -> None:
    """In range and out of it, of signed and unsigned types."""
    compiled = glow.jit(form, backend=backend)
    for kind in (np.uint8, np.int8, np.uint16):
        a = np.zeros(4, kind)
        for number in (5, 300, -1, -300, 70000):
            assert _outcome(compiled, a, number) == _outcome(form, a, number), (kind, number)


def _loss(a: Any, x: Any, y: Any) -> Any:
    b = a.copy()
    b[1:3] = [x * y, x]
    return np.sum(b * b)


def test_gradients_of_stored_lists() -> None:
    """The items of a list have their gradients, and what they replace has none."""
    da, dx, dy = glow.grad(_loss, argnums=(0, 1, 2))(np.arange(4.0), 2.0, 3.0)
    assert (da.tolist(), dx, dy) == ([0, 0, 0, 6], 40, 24)
