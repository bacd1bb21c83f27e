"""Functions that change their arguments, beside Python: the caller's objects, what is refused, and why."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def _whole(a: Any) -> None:
    a[:] = a * 2.0


def _elements(a: Any, n: int) -> int:
    for i in range(1, 3):
        if a[i] > 100.0:
            return i
        a[i] = a[i - 1] + n
        a[-1] += 1.0
    return -1


def _in_place(a: Any) -> None:
    a += 1
    a *= a


def _rebound(a: Any) -> Any:
    a[0] = 3.0
    a = a * 2
    a[1] = 4.0
    return a


def _copied(a: Any) -> Any:
    a = a.copy()
    a[0] = 3.0
    return a


def _swept(a: Any, b: Any) -> None:
    for _ in range(3):
        a[1:-1] = b[:-2] + b[2:]
        b[1:-1] = a[1:-1] * 0.5


def _dict(d: Any) -> Any:
    d["w"][1:] -= 1.0
    return d["b"]


def _items(d: Any) -> None:
    d["w"] = d["w"] * 2.0
    d["n"] = d["n"] + 1


def _list(x: Any) -> None:
    x[0] = 5
    x.append(3)


def _pair(t: Any) -> Any:
    t[0][1] = 7.0
    return t[1].sum()


def _scalars(n: int, a: Any) -> int:
    n += 1
    while n > 0:
        n = n - 2
    a[0] = n
    return n


def _mask(a: Any) -> None:
    a[a > 2.0] = 0.0


def _v() -> np.ndarray:
    return np.arange(1.0, 5.0)


CASES: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (_whole, (_v(),)),
    (_whole, (np.arange(8, dtype=np.float32)[::2],)),
    (_whole, (np.asfortranarray(np.arange(6.0).reshape(2, 3)),)),
    (_elements, (_v(), 3)),
    (_elements, (np.array([1.0, 200.0, 3.0]), 3)),
    (_in_place, (_v(),)),
    (_in_place, (np.array(3.0),)),
    (_in_place, (3.0,)),
    (_rebound, (_v(),)),
    (_copied, (_v(),)),
    (_swept, (_v(), _v() * 2)),
    (_dict, ({"w": _v(), "b": 2.0},)),
    (_items, ({"w": _v(), "n": 2},)),
    (_list, ([1, 2],)),
    (_pair, ((_v(), _v()),)),
    (_scalars, (5, _v())),
    (_mask, (_v(),)),
)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    return a == b


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_callers_objects_change(
    function: Callable[..., Any], arguments: tuple[Any, ...], backend: str
) -> None:
    compiled = glow.jit(function, backend=backend)
    for _ in range(3):  # the first call compiles; later ones go straight to machine code
        ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
        assert _same(compiled(*ours), function(*theirs))
        assert _same(ours, theirs)


def _view(a: Any) -> Any:
    v = a[1:]
    v[0] = 9.0
    return v


def _unread_view(a: Any) -> None:
    v = a[1:]
    v += 1


def _rows(a: Any) -> None:
    for r in a:
        r += 1


def _either(a: Any) -> Any:
    if a[0] > 0.0:
        a = a.copy()
    a[0] = 1.0
    return a


def _swapped(a: Any, b: Any) -> Any:
    for _ in range(2):
        b[1:] = a[:-1]
        a, b = b, a
    return a


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_view, (_v(),)),
        (_unread_view, (_v(),)),
        (_rows, (np.ones((2, 2)),)),
        (_either, (_v(),)),
        (_swapped, (_v(), _v())),
    ],
)
def test_writes_that_would_be_lost_are_refused(
    function: Callable[..., Any], arguments: tuple[np.ndarray, ...]
) -> None:
    before = copy.deepcopy(arguments)
    with pytest.raises(glow.GlowError, match="caller"):
        glow.jit(function)(*arguments)
    assert _same(before, arguments)


def test_items_of_one_axis_are_numbers() -> None:
    def total(x: Any) -> Any:
        s = x[0]
        for v in x:
            v *= 2.0
            s += v
        return s

    assert glow.jit(total)(_v()) == total(_v()) == 21.0


def test_transforms_change_nothing_and_say_so() -> None:
    def loss(x: Any) -> Any:
        x[0] = 2.0 * x[0]
        return np.sum(x)

    for made in (glow.grad(loss), glow.vmap(loss), glow.jit(glow.value_and_grad(loss))):
        with pytest.raises(glow.UnsupportedError, match=r"write x = x\.copy\(\) first"):
            made(np.ones((2, 2)))


def test_arrays_that_share_memory_or_are_read_only() -> None:
    x = np.arange(6.0)
    for pair in ((x, x), (x[:4], x[2:]), (x, x[::-1])):
        with pytest.raises(glow.BindingError, match="share memory"):
            glow.jit(_swept)(*pair)
    square = np.arange(12.0).reshape(3, 4)
    ours, theirs = square.copy(), square.copy()
    glow.jit(_swept)(ours[:, 0], ours[:, 1])  # beside each other, but of other elements
    _swept(theirs[:, 0], theirs[:, 1])
    assert np.array_equal(ours, theirs)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        glow.jit(_whole)(x)
    assert np.array_equal(x, np.arange(6.0))


def test_nothing_is_written_where_the_run_fails() -> None:
    def checked(a: Any) -> None:
        a[0] = 1.0
        if a[1] > 100.0:
            raise ValueError("too large")

    x = _v() * 100
    with pytest.raises(ValueError, match="too large"):
        glow.jit(checked)(x)
    assert np.array_equal(x, _v() * 100)
