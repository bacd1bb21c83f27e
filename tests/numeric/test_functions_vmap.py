"""`glow.vmap`: each row is what the function gives for it, computed by NumPy or PyTorch."""

import math

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")
RNG = np.random.default_rng(0)
XS, W, B = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=4)
WS = RNG.normal(size=(2, 4, 3))


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv("GLOW_STRICT", "1")


def check(got, want, rtol=1e-9):
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def layer(w, x):
    return np.tanh(w @ x)


def loss(w, x):
    return np.sum(np.tanh(w @ x) ** 2)


def rows(f, *arguments):
    """f for each row, by Python and NumPy."""
    return np.stack([f(*row) for row in zip(*arguments, strict=True)])


# --- axes ---------------------------------------------------------------------------------------------------
def test_an_argument_that_all_rows_share(backend):
    check(glow.vmap(layer, in_axes=(None, 0), backend=backend)(W, XS), rows(lambda x: layer(W, x), XS))


def test_axes_of_arguments_and_of_the_result(backend):
    got = glow.vmap(layer, in_axes=(None, 1), out_axes=-1, backend=backend)(W, XS.T.copy())
    check(got, rows(lambda x: layer(W, x), XS).T)


def test_a_map_in_a_map(backend):
    f = glow.vmap(glow.vmap(layer, in_axes=(None, 0)), in_axes=(0, None), out_axes=1, backend=backend)
    check(f(WS, XS), np.tanh(np.einsum("kij,nj->nki", WS, XS)))


def test_axes_inside_dicts_and_tuples(backend):
    def f(p, x):
        return {"y": p["w"] @ x + p["b"], "s": (np.sum(x), 2)}

    biases = RNG.normal(size=(5, 4))
    axes = {"y": 1, "s": 0}
    got = glow.vmap(f, in_axes=({"w": None, "b": 0}, 0), out_axes=axes, backend=backend)(
        {"w": W, "b": biases}, XS
    )
    check(got["y"], (XS @ W.T + biases).T)
    check(got["s"], (XS.sum(axis=1), np.full(5, 2)))


def test_a_result_that_all_rows_share(backend):
    got = glow.vmap(lambda x, y: (x, 2 * y), in_axes=(0, None), out_axes=(0, None), backend=backend)(XS, B)
    check(got, (XS, 2 * B))
    check(glow.vmap(lambda x: 1.5, backend=backend)(XS), np.full(5, 1.5))


def test_parameters_with_defaults_are_mapped_where_they_are_arrays(backend):
    def f(x, scale=2.0):
        return x * scale

    g = glow.vmap(f, backend=backend)
    check(g(XS), 2 * XS)
    check(g(XS, 3.0), 3 * XS)
    check(g(XS, np.arange(5.0)), XS * np.arange(5.0)[:, None])


def test_numbers_are_rows_of_arrays_of_one_axis(backend):
    xs = RNG.normal(size=7)
    check(glow.vmap(lambda x: math.sin(x) * x + 1, backend=backend)(xs), np.sin(xs) * xs + 1)
    ints = np.arange(7)
    got = glow.vmap(lambda n: (n // 2, n % 3, n / 2, n**2, float(n), n > 2), backend=backend)(ints)
    want = (ints // 2, ints % 3, ints / 2, ints**2, ints.astype(float), ints > 2)
    check(got, want)
    assert [np.asarray(v).dtype for v in got] == [v.dtype for v in want]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_number_beside_rows_takes_their_type(backend, dtype):
    xs = np.arange(6, dtype=dtype)
    got = glow.vmap(lambda x: x * 2 + 1, backend=backend)(xs)
    assert got.dtype == xs.dtype
    check(got, xs * 2 + 1)


# --- operators ----------------------------------------------------------------------------------------------
M = RNG.normal(size=(4, 3, 3))
FUNCTIONS = {
    "sum": (lambda x: np.sum(x, axis=0) + np.mean(x) + np.max(x, axis=1), (M,)),
    "softmax": (lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))), (M,)),
    "product": (lambda a, b: a @ b, (M, RNG.normal(size=(4, 3, 2)))),
    "vectors": (lambda a, b: a @ b, (XS, RNG.normal(size=(5, 3)))),
    "outer": (lambda a, b: np.outer(a, b), (XS, RNG.normal(size=(5, 2)))),
    "einsum": (lambda a, b: np.einsum("ij,j->i", a, b), (M, RNG.normal(size=(4, 3)))),
    "transpose": (lambda x: x.T + x[::-1], (M,)),
    "reshape": (lambda x: x.reshape(-1)[2:7:2], (M,)),
    "concatenate": (lambda x: np.concatenate([x, np.zeros((1, 3)), x[1:]], axis=0), (M,)),
    "stack": (lambda x: np.stack([x[0], x[1]], axis=1), (M,)),
    "cumsum": (lambda x: np.cumsum(x, axis=1) + np.cumprod(x, axis=0), (M,)),
    "where": (lambda x: np.where(x > 0, x, 0.1 * x), (M,)),
    "argmax": (lambda x: np.argmax(x, axis=1) + np.argmin(x), (M,)),
    "item": (lambda x, i: x[i], (M, np.array([0, 2, 1, -1]))),
    "items": (lambda x, i: x[:, i], (M, np.array([[0, 2], [1, 1], [-1, 0], [2, 1]]))),
    "pairs": (lambda x, i: x[i, i[::-1]], (M, np.array([[0, 2], [1, 1], [-1, 0], [2, 1]]))),
    "set": (lambda x, i: _set(x, i), (M, np.array([0, 2, 1, 1]))),
    "sort": (lambda x: np.sort(x, axis=0), (M,)),
    "tril": (lambda x: np.tril(x) + np.diag(np.diag(x)), (M,)),
    "clip": (lambda x: np.clip(x, -0.5, np.abs(x[0, 0])), (M,)),
    "norm": (lambda x: np.linalg.norm(x), (M,)),
    "var": (lambda x: np.std(x, axis=1), (M,)),
    "pad": (lambda x: np.pad(x, ((1, 0), (0, 2))), (M,)),
    "roll": (lambda x: np.roll(x, 1, axis=1), (M,)),
    "power": (lambda x: np.abs(x) ** 1.5, (M,)),
    "compare": (lambda x: (x > 0) & (x < 1), (M,)),
    "loop": (lambda x: _loop(x), (M,)),
    "rows": (lambda x: _fold(x), (M,)),
}


def _set(x, i):
    y = x.copy()
    y[i] = 0.0
    y[0, 1:] = y[0, 1:] + 1.0
    return y


def _loop(x):
    h = np.zeros(3)
    for i in range(4):
        h = np.tanh(x @ h + i)
    return h


def _fold(x):
    total = 0.0
    for row in x:
        total = total * 0.5 + np.sum(row)
    return total


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators_are_done_for_all_rows(name):
    f, arguments = FUNCTIONS[name]
    mapped = glow.vmap(f)
    check(mapped(*arguments), rows(f, *arguments))
    assert not mapped.program.functions.by_rows  # all at once


def differences(f, x, step=1e-6):
    """The gradient of a function of an array by central differences."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        gradient[place] = (f(x + moved) - f(x - moved)) / (2 * step)
    return gradient


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_a_map_of_operators(name):
    f, (first, *others) = FUNCTIONS[name]
    value = rows(f, first, *others)
    if value.dtype.kind != "f":
        return
    weights = RNG.normal(size=value.shape)
    want = differences(lambda x: np.sum(rows(f, x, *others) * weights), first)
    if others:
        got = glow.grad(lambda x, y: np.sum(glow.vmap(f)(x, y) * weights))(first, *others)
    else:
        got = glow.grad(lambda x: np.sum(glow.vmap(f)(x) * weights))(first)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


# --- gradients ----------------------------------------------------------------------------------------------
def test_gradients_of_each_example(backend):
    torch = pytest.importorskip("torch")
    got = glow.vmap(glow.value_and_grad(loss, (0, 1)), in_axes=(None, 0), backend=backend)(W, XS)

    def of(w, x):
        return torch.sum(torch.tanh(w @ x) ** 2)

    both = torch.func.grad_and_value(of, argnums=(0, 1))
    grads, value = torch.func.vmap(both, in_dims=(None, 0))(torch.tensor(W), torch.tensor(XS))
    check(got[0], value.numpy())
    check(got[1], tuple(g.numpy() for g in grads), rtol=1e-7)


def test_gradients_through_a_map(backend):
    torch = pytest.importorskip("torch")

    def total(w, xs):
        return np.sum(glow.vmap(layer, in_axes=(None, 0))(w, xs) ** 2)

    def of(w, xs):
        return torch.sum(torch.func.vmap(lambda x: torch.tanh(w @ x))(xs) ** 2)

    got = glow.grad(total, (0, 1), backend=backend)(W, XS)
    want = torch.func.grad(of, argnums=(0, 1))(torch.tensor(W), torch.tensor(XS))
    check(got, tuple(g.numpy() for g in want), rtol=1e-7)


def test_what_the_mapped_function_captured_has_a_gradient(backend):
    got = glow.grad(lambda w: np.sum(glow.vmap(lambda x: np.tanh(w @ x))(XS) ** 2), backend=backend)(W)
    want = glow.grad(lambda w: np.sum(np.tanh(XS @ w.T) ** 2))(W)
    check(got, want, rtol=1e-7)


def test_what_all_rows_share_counts_once_in_a_gradient(backend):
    def f(y):
        shown, shared = glow.vmap(lambda x: (x * y, y * y), out_axes=(0, None))(XS)
        return np.sum(shown) + 3.0 * np.sum(shared)

    y = RNG.normal(size=3)
    check(glow.grad(f, backend=backend)(y), XS.sum(axis=0) + 6.0 * y)


def test_second_derivatives_through_maps(backend):
    torch = pytest.importorskip("torch")

    def f(w):
        inner = glow.vmap(glow.grad(lambda x: np.sum(np.tanh(w @ x))))(XS)
        return np.sum(inner**2)

    def of(w):
        inner = torch.func.vmap(torch.func.grad(lambda x: torch.sum(torch.tanh(w @ x))))(torch.tensor(XS))
        return torch.sum(inner**2)

    check(glow.grad(f, backend=backend)(W), torch.func.grad(of)(torch.tensor(W)).numpy(), rtol=1e-7)


def test_a_declared_gradient_of_each_row(backend):
    @glow.custom_gradient(lambda d, y, x: 1.0)
    def one(x):
        return x * x

    def f(y):
        return np.sum(glow.vmap(lambda x: one(y) * x)(np.arange(4.0)))

    check(glow.grad(f, backend=backend)(2.0), 4.0)


# --- control ------------------------------------------------------------------------------------------------
def piecewise(x):
    if x > 0:
        return x * x
    return -x


def turns(x):
    n = 0
    while x < 10.0:
        x = x * 1.5 + 0.1
        n = n + 1
    return x, n


@pytest.mark.slow
def test_a_branch_that_the_row_decides(backend):
    xs = RNG.normal(size=9)
    f = glow.vmap(piecewise, backend=backend)
    check(f(xs), np.array([piecewise(float(x)) for x in xs]))
    assert "test_functions_vmap.py" in f.report()["row by row"][0]
    check(glow.vmap(glow.grad(piecewise), backend=backend)(xs), np.where(xs > 0, 2 * xs, -1.0))
    got = glow.grad(lambda xs: np.sum(glow.vmap(piecewise)(xs) * 3.0), backend=backend)(xs)
    check(got, 3 * np.where(xs > 0, 2 * xs, -1.0))


def test_a_loop_whose_turns_the_row_decides(backend):
    xs = np.abs(RNG.normal(size=6)) + 0.1
    want = [turns(float(x)) for x in xs]
    got = glow.vmap(turns, backend=backend)(xs)
    check(got, tuple(np.array(v) for v in zip(*want, strict=True)))
    slopes = glow.vmap(glow.grad(lambda x: turns(x)[0]), backend=backend)(xs)
    check(slopes, np.array([1.5**n for _, n in want]))
    total = glow.grad(lambda xs: np.sum(glow.vmap(lambda x: turns(x)[0], out_axes=0)(xs)), backend=backend)
    check(total(xs), np.array([1.5**n for _, n in want]))


@pytest.mark.parametrize("count", [1, 256, 257, 289, 300])
def test_many_rows_are_collected_in_blocks(backend, count):
    xs = RNG.normal(size=count)
    weights = RNG.normal(size=count)
    check(glow.vmap(piecewise, backend=backend)(xs), np.where(xs > 0, xs * xs, -xs))
    got = glow.grad(lambda xs, ws: np.sum(glow.vmap(piecewise)(xs) * ws), backend=backend)(xs, weights)
    check(got, weights * np.where(xs > 0, 2 * xs, -1.0))


@pytest.mark.slow
def test_row_by_row_with_other_axes(backend):
    def f(x, i):
        if np.sum(x) > 0:
            return x * i, np.sum(x)
        return -x, 0.0

    ys = XS.T.copy()
    got = glow.vmap(f, in_axes=(1, None), out_axes=(1, 0), backend=backend)(ys, 2.0)
    want = [f(x, 2.0) for x in XS]
    check(got, (np.stack([w[0] for w in want], axis=1), np.array([w[1] for w in want])))

    def total(ys, i):
        return np.sum(glow.vmap(f, in_axes=(1, None), out_axes=(1, 0))(ys, i)[0] ** 2)

    positive = XS.sum(axis=1, keepdims=True) > 0
    got = glow.grad(total, (0, 1), backend=backend)(ys, 2.0)
    check(got[0], np.where(positive, 8 * XS, 2 * XS).T)
    check(got[1], np.sum(np.where(positive, 4 * XS**2, 0.0)))


def test_a_map_row_by_row_inside_a_map(backend):
    f = glow.vmap(glow.vmap(piecewise), backend=backend)
    check(f(XS), np.where(XS > 0, XS * XS, -XS))


def test_a_raise_is_that_of_its_row(backend):
    def f(x):
        if x < 0:
            raise ValueError("below zero")
        return x

    assert glow.vmap(f, backend=backend)(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(glow.GlowError, match="below zero"):
        glow.vmap(f, backend=backend)(np.array([1.0, -1.0]))


# --- inside, options ----------------------------------------------------------------------------------------
def test_inside_a_compiled_function(backend):
    @glow.jit(backend=backend)
    def step(w, xs, rate):
        grads = glow.vmap(glow.grad(loss), in_axes=(None, 0))(w, xs)
        return w - rate * np.mean(grads, axis=0)

    grads = rows(lambda x: glow.grad(loss)(W, x), XS)
    check(step(W, XS, 0.1), W - 0.1 * grads.mean(axis=0), rtol=1e-7)


def test_one_program_for_any_number_of_rows():
    f = glow.jit(glow.vmap(layer, in_axes=(None, 0)), shapes={"w": (4, 3), "x": ("n", 3)}, specialize="never")
    for n in (2, 3, 7, 30):
        xs = RNG.normal(size=(n, 3))
        check(f(W, xs), np.tanh(xs @ W.T))
    assert f.report()["sizes"] == ["any n"]


# --- messages -----------------------------------------------------------------------------------------------
MESSAGES = [
    (lambda: glow.vmap(layer)(WS, XS), "argument 'w' has 2 rows along axis 0, argument 'x' has 5"),
    (lambda: glow.vmap(layer, in_axes=None)(W, XS[0]), "in_axes maps over no argument"),
    (lambda: glow.vmap(layer, in_axes=(0, 0))(1.0, XS), "argument 'w' is a float, which has no axis 0"),
    (
        lambda: glow.vmap(layer, in_axes=(None, 2))(W, XS),
        r"argument 'x' is an array of shape \(5, 3\).*no axis 2",
    ),
    (
        lambda: glow.vmap(layer, in_axes=(None, 0), out_axes=2)(W, XS),
        "out_axes has 2, the result for one row",
    ),
    (lambda: glow.vmap(layer, in_axes=(None, 0), out_axes=None)(W, XS), "out_axes is None for the result"),
    (lambda: glow.vmap(layer, in_axes=(None, 0, 0))(W, XS), "3 axes for 2 parameters"),
    (lambda: glow.vmap(layer, in_axes=(None, "x"))(W, XS), "axes of vmap are numbers"),
    (lambda: glow.vmap(3), "vmap needs a function, got a int"),
    (lambda: glow.vmap(lambda x: lambda: x)(XS), "the result is a function"),
    (lambda: glow.vmap(lambda x: x[3])(XS), "index 3|outside"),
    (lambda: glow.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": XS}), "items a, its axes"),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_messages_name_the_argument(call, message):
    with pytest.raises(glow.GlowError, match=message):
        call()


def test_a_subscript_of_a_row_outside_its_axis_is_an_error(backend):
    with pytest.raises(glow.GlowError, match="outside its axis of 3"):
        glow.vmap(lambda x, i: x[i], backend=backend)(XS, np.array([0, 1, 2, 3, 0]))
