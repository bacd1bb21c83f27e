"""Numbers as in NumPy 2: narrow scalars, what types hold, powers, shifts; arrays of subclasses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"]
)
def test_narrow_scalars_keep_their_type(kind: str, backend: str) -> None:
    def f(a: Any, b: Any, d: Any, n: int) -> Any:
        return a + b, a * d["x"], -b, a + n, np.minimum(a, b), a > b

    def counted(t: Any) -> Any:
        k = t[0]
        for _ in range(200):
            k += t[1]
        return k

    scalar = np.dtype(kind).type
    a, b, one = scalar(100), scalar(99), scalar(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = (*f(a, b, {"x": a}, 3), counted((a, one)))
    compiled = glow.jit(f, backend=backend)
    got = (*compiled(a, b, {"x": a}, 3), glow.jit(counted, backend=backend)((a, one)))
    assert [np.dtype(type(v)).name for v in got[:5]] == [kind] * 5
    assert got == want


def test_narrow_scalars_around_a_function() -> None:
    step, most = np.uint8(200), np.int8(127)

    def f(x: Any, by: Any = np.uint8(100)) -> Any:
        return x + step + by, np.int64(1) + 1

    def g(x: Any) -> Any:
        return most * x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert glow.jit(f)(np.uint8(1)) == f(np.uint8(1)) == (45, 2)
        assert glow.jit(g)(np.int8(2)) == g(np.int8(2)) == -2
    slope = glow.grad(lambda x: x * x * 0.5)(np.float32(3))
    assert slope == 3.0 and slope.dtype == np.float32


def _item(a: Any, n: Any) -> Any:
    a = a.copy()
    a[0] = n
    return a


def _slice(a: Any, n: Any) -> Any:
    a = a.copy()
    a[1:] = n
    return a


def _loop(a: Any, n: Any) -> Any:
    a = a.copy()
    for k in range(3):
        a[k] = n + k
    return a


def _masked(a: Any, n: Any) -> Any:
    a = a.copy()
    a[a > 2] = n
    return a


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("store", [_item, _slice, _loop, _masked])
@pytest.mark.parametrize("number", [300, -1, 7, 2**40, 300.5, -3.7, 2.9, float("nan"), float("inf")])
def test_stores_of_numbers(store: Callable[..., Any], number: float, backend: str) -> None:
    compiled = glow.jit(store, backend=backend)
    for kind in (np.uint8, np.int8, np.int32, np.int64):
        a = np.array([1, 2, 3], kind)
        try:
            want = store(a, number)
        except (OverflowError, ValueError) as error:
            with pytest.raises(type(error)):
                compiled(a, number)
        else:
            assert np.array_equal(compiled(a, number), want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_powers_of_ints_below_zero(backend: str) -> None:
    power = glow.jit(lambda a, n: a**n, backend=backend)
    bases = np.array([2, -3, 1]), np.array([2, 3], np.int32), np.array([2, 3], np.uint8)
    for a, n in ((bases[0], -1), (bases[1], -2), (bases[0], np.array([1, -1, 0])), (2, np.array([-1]))):
        with pytest.raises(ValueError, match="negative integer powers"):
            power(a, n)
    with pytest.raises(OverflowError):
        power(bases[2], -1)
    with pytest.raises(ValueError, match="negative integer powers"):
        glow.jit(lambda a: a**-1, backend=backend)(bases[0])
    for a, n in ((bases[0], 2), (bases[0], np.array([1, 2, 0])), (bases[0] * 1.0, -1), (2.0, np.array([-1]))):
        assert np.array_equal(power(a, n), a**n)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shifts_past_the_width(backend: str) -> None:
    right, left = (glow.jit(f, backend=backend) for f in (lambda a, n: a >> n, lambda a, n: a << n))
    for kind in (np.int8, np.int32, np.int64, np.uint8):
        a = np.array([5, -7 if np.dtype(kind).kind == "i" else 7], kind)
        for n in (0, 1, 7, 8, 31, 32, 63, 64, 70):
            assert np.array_equal(right(a, n), a >> n)
            assert np.array_equal(left(a, n), a << n)


class _Own(np.ndarray):
    pass


SUBCLASSES = (
    np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    np.asmatrix(np.ones((2, 2))),
    np.ones(2).view(_Own),
    np.ones(2).view(np.recarray),
    np.char.array(["a", "b"]),
)


@pytest.mark.parametrize("value", SUBCLASSES, ids=lambda v: type(v).__name__)
def test_subclasses_of_arrays_are_refused(value: Any) -> None:
    def total(x: Any) -> Any:
        return np.sum(x * x)

    calls: list[Callable[[], Any]] = [
        lambda: glow.jit(total)(value),
        lambda: glow.jit(total, backend="interpreter")(value),
        lambda: glow.jit(lambda d: total(d["x"][0]))({"x": (value, 1.0)}),
        lambda: glow.grad(total)(value),
        lambda: glow.vmap(total)(value),
        lambda: glow.jvp(total, (np.ones(2),), (value,)),
        lambda: glow.jit(lambda x: x * value)(np.ones(2)),
    ]
    graph = glow.GraphBuilder()
    graph.save(graph.relu(graph.placeholder("x", (2,), "float64")), "y")
    for backend in BACKENDS:
        net = glow.compile(graph.module, backend=backend)
        calls += [
            lambda net=net: net.run({"x": value}),
            lambda net=net: net(value),
            lambda net=net: net.submit({"x": value}).result(),
            lambda net=net: net.bind({"x": value}),
            lambda net=net: net.run({"x": [value, value]}),
        ]
    for call in calls:
        with pytest.raises(glow.GlowError, match=r"not an ordinary array; give (x\.filled|np\.asarray)"):
            call()


def test_mapped_files_are_plain_arrays(tmp_path: Any) -> None:
    x = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=(3,))
    x[:] = [1, 2, 3]
    assert glow.jit(lambda v: v.sum())(x) == 6.0
