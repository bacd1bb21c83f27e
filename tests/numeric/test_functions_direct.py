"""Calls that go to machine code directly, once there were some: values, errors and other arguments."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_compiler.direct_calls import OFTEN


def _often(f: Any, *given: Any) -> Any:
    for _ in range(OFTEN + 2):
        f(*given)
    assert f._direct.run is not None
    return f


def mixed(x, n, flag):
    return (x * n if flag else -x), n + 1, n > 2


def test_numbers() -> None:
    f = _often(glow.jit(mixed), 1.5, 2, True)
    assert f(0.5, 3, False) == (-0.5, 4, True)
    assert [type(v) for v in f(0.5, 3, False)] == [float, int, bool]
    assert f(2.0, 2**70, True) == mixed(2.0, 2**70, True)  # the interpreter has ints of any size
    assert f(2, 3, True) == mixed(2, 3, True)
    assert f(np.float64(2.0), 3, True) == (6.0, 4, True)
    assert f(x=2.0, n=3, flag=True) == (6.0, 4, True)
    with pytest.raises(glow.BindingError):
        f(1.0, 2)
    _often(f, 2, 3, True)  # two kinds of arguments
    assert f._direct.kinds == 2
    assert f(2, 3, True) == (6, 4, True) and f(0.5, 3, False) == (-0.5, 4, True)


def checked(x, i):
    if i > 2:
        raise ValueError("too far")
    return x[i] * 2.0


def test_arrays_and_errors() -> None:
    x = np.arange(4.0)
    f = _often(glow.jit(checked), x, 1)
    assert f(x, 2) == 4.0
    with pytest.raises(ValueError, match="too far"):
        f(x, 3)
    with pytest.raises(IndexError):
        f(x, -5)
    assert f(np.arange(8.0)[::2], 1) == 4.0
    assert f(np.arange(5.0), 2) == 4.0
    assert f(np.arange(4), 2) == 4.0
    assert f(x.astype(">f8"), 2) == 4.0
    assert f(np.asfortranarray(np.ones((4, 1)))[:, 0], 0) == 2.0
    assert f(np.arange(4, dtype=np.float32), 2) == 4.0
    assert f(x, 1) == 2.0


def test_results_are_new_arrays() -> None:
    f, x = glow.jit(lambda x, y: (x + y, y)), np.ones((2, 3))
    _often(f, x, x)
    first, second = f(x, x), f(x, 2 * x)
    np.testing.assert_array_equal(first[0], 2.0)
    np.testing.assert_array_equal(second[0], 3.0)
    first[1][0] = 7.0
    np.testing.assert_array_equal(x, 1.0)


def test_arguments_that_change_and_threads() -> None:
    def stored(x, v):
        x[0] = v
        return x[0] + x[1]

    f, x = glow.jit(stored), np.ones(3)
    for i in range(OFTEN + 3):
        assert f(x, float(i)) == i + 1.0 and x[0] == i
    g, wrong = _often(glow.jit(lambda x, n: x * n), 1.5, 2), list[float]()

    def calls(k: int) -> None:
        wrong.extend(v for i in range(2000) if (v := g(float(k), i)) != k * i)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
