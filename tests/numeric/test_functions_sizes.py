"""Compiled functions whose arrays come in any size, beside NumPy and beside a program for each shape."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS

import glow_compiler as glow
from glow_compiler.function_sizes import KEPT
from glow_runtime.compiler import Compiler

Arguments = tuple[Any, ...]


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype(np.float32)


def _assigned(x: Any) -> Any:
    x = x.copy()
    x[1:] = 0.5
    x[-1, 1] = 2.0
    return x


def _until(x: Any, y: Any) -> Any:
    s = 0.0
    while s < 10.0:
        s = s + np.sum(x * y)
    return s


def _attended(x: Any, weights: Any) -> Any:
    query, key, value = x @ weights["q"], x @ weights["k"], x @ weights["v"]
    scores = query @ key.T / np.sqrt(4.0)
    scores = np.where(np.tril(np.ones((len(x), len(x)))) > 0, scores, -1e9)
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return (e / np.sum(e, axis=1, keepdims=True)) @ value


def _recurrent(x: Any, w: Any, u: Any) -> Any:
    h = np.zeros((x.shape[1], 4), np.float32)
    for row in x:
        h = np.tanh(row @ w + h @ u)
    return h


def _weights() -> dict[str, np.ndarray]:
    return {n: _array(4, 4 + i)[:, :4] for i, n in enumerate("qkv")}


#: Function, shapes, and arguments for two sizes.
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], Callable[[int, int], Arguments]]] = {
    "numbers": (
        lambda x: (x * x.shape[0] + x.shape[0] // 2, len(x), x.size, x.sum(axis=0) / (x.shape[0] + 1)),
        {"x": ("n", 3)},
        lambda n, m: (_array(n, 3),),
    ),
    "made of sizes": (
        lambda x: np.zeros(x.shape[0]) + np.arange(x.shape[0]) + np.linspace(0.0, 1.0, x.shape[0]),
        {"x": ("n", 3)},
        lambda n, m: (_array(n, 3),),
    ),
    "slices": (
        lambda x: (x[1:] - x[:-1], x[: x.shape[0] // 2], x[::-1], x[-2:], x[0] + x[-1], x[3:100:2]),
        {"x": ("n", 3)},
        lambda n, m: (_array(n + 1, 3),),
    ),
    "reshaped": (
        lambda x: (x.reshape(-1, 2), x.reshape(x.shape[0] * 2, 2).T, np.repeat(x, 3, axis=0)),
        {"x": ("n", 4)},
        lambda n, m: (_array(n, 4),),
    ),
    "broadcast": (
        lambda x, y: x + y,
        {"x": ("n", 3), "y": ("m", 3)},
        lambda n, m: (_array(n, 3), _array(m if 1 in (n, m) else n, 3)),
    ),
    "joined": (
        lambda x, y: (np.concatenate((x, y)), x[:, None, 0] * y[None, :, 1], x @ y.T),
        {"x": ("n", 3), "y": ("m", 3)},
        lambda n, m: (_array(n, 3), _array(m, 3)),
    ),
    "rows": (
        lambda table, i: table[i] * 2.0,
        {"i": ("n",)},
        lambda n, m: (_array(7, 3), np.arange(n) % 7 - 3),
    ),
    "branch": (
        lambda x: np.sum(x) if x.shape[0] > 4 else np.sum(x * x),
        {"x": ("n", 3)},
        lambda n, m: (_array(n, 3),),
    ),
    "assigned": (_assigned, {"x": (None, 3)}, lambda n, m: (_array(n + 1, 3),)),
    "reduced": (
        lambda x: (np.argmax(x, axis=0), np.cumsum(x, axis=0), x.var(axis=0), (x > 0).any(axis=1)),
        {"x": ("n", None)},
        lambda n, m: (_array(n + 1, m + 1),),
    ),
    "sorted": (
        lambda x: (np.sort(x, axis=0), np.argsort(x[:, 0])),
        {"x": ("n", 3)},
        lambda n, m: (_array(n, 3),),
    ),
    "turns": (
        _recurrent,
        {"x": (6, "n", 3)},
        lambda n, m: (_array(6, n, 3), _array(3, 4) * 0.3, _array(4, 4) * 0.3),
    ),
    "eye": (lambda x: np.eye(len(x)) + np.triu(x @ x.T, 1), {"x": ("n", 3)}, lambda n, m: (_array(n, 3),)),
    "scaled": (lambda x, s, k: float(np.sum(x)) * s + k * 2, {"x": ("n",)}, lambda n, m: (_array(n), 0.5, m)),
    "attention": (_attended, {"x": ("n", 4)}, lambda n, m: (_array(n + 1, 4), _weights())),
}


def _checked(result: Any, wanted: Any, case: str) -> None:
    for got, expected in zip(*((v if isinstance(v, tuple) else (v,)) for v in (result, wanted)), strict=True):
        assert np.shape(got) == np.shape(expected), case
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=case)


@pytest.mark.parametrize("name", CASES)
def test_any_size_is_what_numpy_computes(name: str) -> None:
    """Sizes in any order, those of no and of one element among them."""
    function, shapes, arguments = CASES[name]
    compiled = glow.jit(function, shapes=shapes, specialize="never")
    for n, m in [(6, 9), (11, 4), (1, 5), (0, 2), (2, 2), (40, 1), (7, 7)]:
        given = arguments(n, m)
        _checked(compiled(*given), function(*given), f"{name} {n} {m}")
    assert "sizes" in compiled.report()


def test_frequent_sizes_get_programs_of_their_own() -> None:
    """With "hot" the answer stays what it is while another program takes over."""
    f = glow.jit(lambda x: np.sum(x * 2.0, axis=0), shapes={"x": ("n", 3)}, specialize="hot")
    x = _array(9, 3)
    for _ in range(40):
        np.testing.assert_allclose(f(x), np.sum(x * 2.0, axis=0), rtol=1e-5)
    for thread in threading.enumerate():
        if thread.name == "glow-specialize":
            thread.join()
    np.testing.assert_allclose(f(x), np.sum(x * 2.0, axis=0), rtol=1e-5)
    assert f.report()["sizes"] == ["these sizes alone, so far"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_random_sizes(name: str) -> None:
    """Many sizes, without names for them: equal ones are equal by chance, or must be."""
    function, _, arguments = CASES[name]
    compiled = glow.jit(function, specialize="never")
    r = np.random.default_rng(len(name))
    for n, m in r.integers(0, 1 << r.integers(1, 8, (24, 1)), (24, 2)):
        given = arguments(int(n), int(m))
        _checked(compiled(*given), function(*given), f"{name} {n} {m}")


def test_one_program_serves_sizes() -> None:
    """The first shapes have a program of their own, one for any serves the others; "never" begins with it."""
    ways: list[tuple[Any, str]] = [(None, "these sizes alone"), ("never", "any n")]
    for specialize, first in ways:
        compiled = glow.jit(lambda x: np.tanh(x) * 2.0, shapes={"x": ("n", 8)}, specialize=specialize)
        notes: list[str] = []
        for n in (9, 12, 100, 300):
            np.testing.assert_allclose(compiled(_array(n, 8)), np.tanh(_array(n, 8)) * 2.0, rtol=1e-5)
            notes += compiled.report()["sizes"]
        assert notes[0].startswith(first) and notes[1:] == ["any n"] * 3


@pytest.mark.slow
def test_rows_of_a_deep_product_have_one_program(caplog: pytest.LogCaptureFixture) -> None:
    """How rows are cut into tiles is no condition of the program where they are more than a block."""
    f = glow.jit(lambda x, w: x @ w, shapes={"x": ("n", 3072)}, specialize="never")
    w = _array(3072, 256) * 0.02
    with caplog.at_level("INFO", "glow"):
        for n in (200, 45, 64, 30, 28, 16):
            np.testing.assert_allclose(f(_array(n, 3072), w), _array(n, 3072) @ w, rtol=1e-3, atol=1e-4)
    assert [r.message for r in caplog.records].count("compiled for any n") == 1


def test_programs_are_kept_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function in another process compiles nothing: neither of its first sizes, nor of any."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    made, compile_ = list[Any](), Compiler.compile
    monkeypatch.setattr(Compiler, "compile", lambda *x, **y: made.append(x) or compile_(*x, **y))
    weights, counts = _weights(), list[int]()
    for _ in range(2):
        f = glow.jit(_attended, shapes={"x": ("n", 4)})
        for n in (9, 13, 40):
            x = _array(n, 4)
            np.testing.assert_allclose(f(x, weights), _attended(x, weights), rtol=1e-4, atol=1e-5)
        assert f.report()["sizes"] == ["any n"]
        counts.append(len(made))
    assert 2 <= counts[0] == counts[1]


def test_shapes_that_are_left_out_keep_a_few_executables() -> None:
    f = glow.jit(lambda x, y: np.sum(x) + y, shapes={"x": ("n",)})
    for n in [*range(2, 22), 2, 3]:
        np.testing.assert_allclose(
            f(_array(5), _array(n)), np.sum(_array(5)) + _array(n), rtol=1e-4, atol=1e-5
        )
    assert len(f.report()["sizes"]) == KEPT


@pytest.mark.slow
def test_gradients_for_any_size() -> None:
    """Values and gradients are those of a program for each shape."""

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return np.mean((_attended(x, weights) - y) ** 2)

    shapes = {"x": ("n", 4), "y": ("n", 4)}
    compiled = glow.value_and_grad(glow.jit(loss, shapes=shapes, specialize="never"))
    plain = glow.value_and_grad(loss)
    for n in (9, 13, 1):
        given = _weights(), _array(n, 4), _array(n, 4) * 0.5
        (value, slopes), (wanted, others) = compiled(*given), plain(*given)
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
        for key in others:
            np.testing.assert_allclose(slopes[key], others[key], rtol=1e-4, atol=1e-6)
    x = _array(5, 4)
    step = 1e-2 * np.sign(x)
    single = glow.grad(glow.jit(lambda x: np.mean(np.sin(x) * len(x)), specialize="never"))
    np.testing.assert_allclose(single(x), np.cos(x) * 5 / x.size, rtol=1e-5)
    np.testing.assert_allclose(single(step[:3]), np.cos(step[:3]) * 3 / 12, rtol=1e-5)


def test_arguments_are_checked() -> None:
    """Names are equal sizes within their limits, numbers are as they stand."""
    f = glow.jit(lambda x, y: x + y, shapes={"x": ("n from 2 to 8 by 2", 3), "y": ("n", 3)})
    np.testing.assert_array_equal(f(_array(4, 3), _array(4, 3)), _array(4, 3) * 2)
    with pytest.raises(glow.BindingError, match="n is 1, expected 4 where n = 4"):
        f(_array(4, 3), _array(1, 3))
    with pytest.raises(glow.BindingError, match="n is 10, expected 2 to 8"):
        f(_array(10, 3), _array(10, 3))
    with pytest.raises(glow.BindingError, match="expected a multiple of 2"):
        f(_array(3, 3), _array(3, 3))
    with pytest.raises(glow.BindingError, match=r"'x' has shape \(4, 2\), expected \('n', 3\)"):
        f(_array(4, 2), _array(4, 2))
    for backend in BACKENDS:  # where each shape has a program, names are equal sizes as well
        g = glow.jit(_until, backend=backend, shapes={"x": ("n",), "y": ("n",)}, specialize="never")
        assert g(np.ones(3), np.ones(3)) == 12.0
        with pytest.raises(glow.BindingError, match="n is 1, expected 3 where n = 3"):
            g(np.ones(3), np.ones(1))
    for shapes, text in (
        ({"z": ("n",)}, "no parameter 'z'; there are: x, y"),
        ({"x": "n"}, "'x' is given 'n', expected a tuple"),
        ({"x": ("n+",)}, "is not a size"),
        ({"x": (-1,)}, "the size -1"),
        ({"x": ("2*n to 4",)}, "only a name has limits"),
        ({"x": ("n to 4", "n to 5")}, "'n' has other limits elsewhere"),
    ):
        with pytest.raises(glow.ShapeError, match=text.replace("+", r"\+").replace("*", r"\*")):
            glow.jit(lambda x, y: x + y, shapes=shapes)
    with pytest.raises(glow.GlowError, match="specialize='often', expected one of never, hot, always"):
        glow.jit(lambda x: x, specialize="often")  # pyright: ignore


def test_wrong_subscripts_and_numbers() -> None:
    """A subscript outside its axis is an error of the run; ints of any size and NaN are Python's."""
    picked = glow.jit(lambda table, i: table[i], shapes={"i": ("n",)}, specialize="never")
    np.testing.assert_array_equal(picked(_array(5, 2), np.array([4, -5])), _array(5, 2)[[4, 0]])
    with pytest.raises(IndexError, match="outside its axis of 5"):
        picked(_array(5, 2), np.array([0, 5, 1]))
    large = glow.jit(lambda x, k: (np.sum(x), k * k), shapes={"x": ("n",)}, specialize="never")
    for k in (3, 1 << 40, 5):
        assert large(np.ones(4), k) == (4.0, k * k)


def test_functions_with_run_time_branches_have_a_program_a_shape() -> None:
    """The answer is the same, and the report says why."""

    @glow.jit(shapes={"x": ("n", 3)}, specialize="never")
    def steps(x: Any) -> Any:
        h = np.zeros(3)
        while np.sum(h) < 10.0:
            h = h + np.abs(x[0]) + 1.0
        return h

    for n in (2, 5):
        x, h = _array(n, 3), np.zeros(3)
        while np.sum(h) < 10.0:
            h = h + np.abs(x[0]) + 1.0
        np.testing.assert_allclose(steps(x), h, rtol=1e-5)
    (reason,) = steps.report()["sizes"]
    assert "test_functions_sizes.py:" in reason and "branch" in reason


def _decoded(x: Any, keys: Any, total: Any) -> Any:
    keys = np.concatenate((keys, x))
    total = total * 0.5 + np.sum(x, axis=0)
    weights = np.exp(x @ keys.T)
    return (weights / np.sum(weights, axis=1, keepdims=True)) @ keys + total, keys, total


def test_states_grow_in_place() -> None:
    """Keys grow by the rows of each call; states are copied, begun anew, and full at their capacity."""
    shapes = {"x": ("s", 8), "keys": ("t", 8)}
    f = glow.jit(_decoded, states=("keys", "total"), shapes=shapes, specialize="never")
    first: dict[str, Any] = {"keys": np.zeros((0, 8), np.float32), "total": np.zeros(8, np.float32)}
    state, keys, total = f.state(**first), first["keys"], first["total"]
    for n in (5, 1, 1, 3, 1, 0, 1):
        x = _array(n, 8) * 0.1
        wanted, keys, total = _decoded(x, keys, total)
        np.testing.assert_allclose(f(x, state=state), wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(state["keys"], keys)
        np.testing.assert_allclose(state["total"], total, rtol=1e-5)
        if n == 3:  # whose example is not the 8 that other axes have
            assert f.compiled.open_sizes is not None and "any s, t" in f.compiled.report()["sizes"]
    other = state.copy()
    f(_array(1, 8), state=other)
    assert (state.length, other.length) == (12, 13)
    state.reset()
    assert state["keys"].shape == (0, 8)
    short = f.state(capacity=3, **first)
    f(_array(3, 8), state=short)
    with pytest.raises(glow.GlowError, match="the state is full"):
        f(_array(1, 8), state=short)
    assert short.length == 3


def test_states_stay_where_a_call_fails() -> None:
    """A subscript outside its axis leaves a state as it was."""

    def read(token: Any, seen: Any, sum: Any, table: Any) -> Any:
        rows = table[token]
        return np.sum(rows), np.concatenate((seen, rows)), sum + np.sum(rows)

    table = _array(5, 2)
    first: dict[str, Any] = {"seen": np.zeros((0, 2), np.float32), "sum": np.float32(0)}
    f = glow.jit(read, states=("seen", "sum"), shapes={"token": ("s",), "seen": ("t", 2)}, specialize="never")
    state = f.state(**first)
    f(np.array([1, 2, 3]), table, state=state)
    before = {n: np.array(state[n]) for n in state}
    with pytest.raises(IndexError, match="outside its axis of 5"):
        f(np.array([1, 5]), table, state=state)
    for name, value in before.items():
        np.testing.assert_array_equal(state[name], value)
    f(np.array([4, 4]), table, state=state)
    np.testing.assert_array_equal(state["seen"], table[[1, 2, 3, 4, 4]])
