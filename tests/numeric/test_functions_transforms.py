"""`glow.jvp`, `vjp`, `jacobian` and `hessian` beside torch.func; functions in files."""

import math
from typing import NamedTuple

import numpy as np
import pytest

import glow_compiler as glow

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(1)
W, X, V = RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=3)


@pytest.fixture(params=["cpu", "interpreter"])
def backend(request):
    return request.param


def check(got, want, rtol=1e-7):
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            check(a, b, rtol)
        return
    want = want.detach().numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-10)


def of(xp):
    """A function of arrays in NumPy or PyTorch, and one of its sum of squares."""

    def f(w, x):
        return xp.tanh(w @ x) * x[0]

    def energy(w, x):
        return (xp.tanh(w @ x) ** 2).sum() + (x**4).sum()

    return f, energy


layer, energy = of(np)
torch_layer, torch_energy = of(torch)


def t(*arrays):
    return tuple(torch.tensor(a) for a in arrays)


# --- jvp and vjp --------------------------------------------------------------------------------------------
def test_the_value_and_its_tangent(backend):
    f = glow.jit(layer, backend=backend)
    check(glow.jvp(f, (W, X), (2 * W, V)), torch.func.jvp(torch_layer, t(W, X), t(2 * W, V)))
    check(glow.jvp(f, (W, X), (None, V))[1], torch.func.jvp(torch_layer, t(W, X), t(0 * W, V))[1])
    check(glow.jvp(glow.jit(lambda x: math.sin(x) * x, backend=backend), [2.0], [3.0])[1],
          3 * (math.cos(2.0) * 2.0 + math.sin(2.0)))  # fmt: skip


def test_the_value_and_cotangents_of_the_arguments(backend):
    value, pull = glow.vjp(glow.jit(layer, backend=backend), W, X)
    expected, torch_pull = torch.func.vjp(torch_layer, *t(W, X))
    d = RNG.normal(size=4)
    check(value, expected)
    check(pull(d), torch_pull(torch.tensor(d)))
    value, pull = glow.vjp(
        glow.jit(lambda p: {"a": p["x"] * 2, "b": np.sum(p["x"])}, backend=backend), {"x": X}
    )
    check(pull({"a": V, "b": 3.0})[0]["x"], 2 * V + 3.0)


def test_inside_compiled_functions_and_of_each_other(backend):
    def inside(w, x):
        value, pull = glow.vjp(lambda v: layer(w, v), x)
        tangent = glow.jvp(lambda v: layer(w, v), (x,), (V,))[1]
        return np.sum(pull(tangent)[0] * value[:3])

    def expected(w, x):
        value, pull = torch.func.vjp(lambda v: torch_layer(w, v), x)
        tangent = torch.func.jvp(lambda v: torch_layer(w, v), (x,), t(V))[1]
        return torch.sum(pull(tangent)[0] * value[:3])

    check(glow.jit(inside, backend=backend)(W, X), expected(*t(W, X)))
    got = glow.grad(inside, (0, 1), backend=backend)(W, X)
    check(got, torch.func.grad(expected, argnums=(0, 1))(*t(W, X)))


def test_the_tangent_of_a_loop(backend):
    def f(x):
        s = x
        while np.sum(s) < 20.0:
            s = s * s + 1.0
        return s

    def g(x):
        s = x
        while s.sum() < 20.0:
            s = s * s + 1.0
        return s

    check(glow.jvp(glow.jit(f, backend=backend), (X,), (V,)), torch.func.jvp(g, t(X), t(V)))


# --- jacobian and hessian -----------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(4, 3), (2, 3), (3, 3)])
def test_jacobians_in_both_modes(backend, shape):
    w = RNG.normal(size=shape)
    got = glow.jacobian(layer, (0, 1), backend=backend)(w, X)
    check(got, torch.func.jacrev(torch_layer, argnums=(0, 1))(*t(w, X)))


def test_jacobians_of_several_results_and_of_numbers(backend):
    got = glow.jacobian(lambda x: {"a": x * x, "b": np.sum(x)}, backend=backend)(X)
    check((got["a"], got["b"]), (np.diag(2 * X), np.ones(3)))
    check(glow.jacobian(lambda s: s * X, backend=backend)(2.0), X)
    check(glow.jacobian(lambda x: np.sum(x**3), backend=backend)(X), 3 * X**2)
    assert glow.jacobian(lambda s: s * s, backend=backend)(3.0) == 6.0


def test_the_type_of_a_jacobian_is_that_of_the_value():
    got = glow.jacobian(layer, 1)(W.astype(np.float32), X.astype(np.float32))
    assert got.dtype == np.float32
    check(got, torch.func.jacrev(torch_layer, argnums=1)(*t(W, X)), rtol=1e-4)


@pytest.mark.slow
def test_hessians(backend):
    got = glow.hessian(energy, 1, backend=backend)(W, X)
    check(got, torch.func.hessian(torch_energy, argnums=1)(*t(W, X)))
    got = glow.hessian(energy, (0, 1), backend=backend)(W, X)
    check(got, torch.func.hessian(torch_energy, argnums=(0, 1))(*t(W, X)))


def test_a_gradient_of_a_jacobian_and_a_jacobian_of_each_row(backend):
    def f(w, x):
        return np.sum(glow.jacobian(layer, 1)(w, x) ** 2)

    def g(w, x):
        return torch.sum(torch.func.jacrev(torch_layer, argnums=1)(w, x) ** 2)

    check(glow.grad(f, backend=backend)(W, X), torch.func.grad(g)(*t(W, X)))
    xs = RNG.normal(size=(5, 3))
    got = glow.vmap(glow.jacobian(layer, 1), in_axes=(None, 0), backend=backend)(W, xs)
    want = torch.func.vmap(torch.func.jacrev(torch_layer, argnums=1), in_dims=(None, 0))(*t(W, xs))
    check(got, want)


MESSAGES = [
    (lambda: glow.jvp(layer, W, X), "primals is a ndarray, expected a tuple"),
    (lambda: glow.jvp(layer, (W, X), (W,)), "2 primals and 1 tangents"),
    (lambda: glow.jvp(layer, (W, X), (W, W)), r"of an array of shape \(3,\).* array of shape \(4, 3\)"),
    (lambda: glow.vjp(layer, W, X)[1](X), r"cotangent is an array.*\(3,\).*value an array.*\(4,\)"),
    (lambda: glow.jacobian(layer, 2)(W, X), "argnums"),
    (lambda: glow.jacobian(layer, "x"), "argnums is a number or a tuple"),
    (lambda: glow.jacobian(lambda n: n * 2)(3), "the argument that it is by is an int"),
    (lambda: glow.jacobian(lambda x: 2)(X), "what the function returns is an int"),
    (lambda: glow.hessian(layer, 1)(W, X), "grad of a function that returns an array"),
    (lambda: glow.vjp(3.0, X), "vjp needs a function, got a float"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_messages(call, message):
    with pytest.raises(glow.GlowError, match=message):
        call()


# --- files --------------------------------------------------------------------------------------------------
BIG = RNG.normal(size=(20, 20))


class Pair(NamedTuple):
    """A result with names."""

    left: object
    right: object


@glow.custom_gradient(lambda d, y, x: d * 7.0)
def declared(x):
    return x * x


def saved(x, turns=3, *, scale=2.0):
    s = x
    for i in range(turns):
        if np.sum(s) > 30.0:
            break
        s = np.tanh(BIG @ s) + i
    return Pair(s * scale, {"sum": np.sum(x), "note": glow.grad(declared)(scale)})


def test_a_function_in_a_file(tmp_path):
    x = RNG.normal(size=20)
    f = glow.jit(saved)
    f.save(tmp_path / "f.mlir")
    assert (tmp_path / "f.weights.safetensors").stat().st_size > BIG.nbytes
    loaded = glow.load(tmp_path / "f.mlir")
    for arguments, keywords in [((x,), {}), ((x, 5), {}), ((x,), {"scale": 3.0})]:
        got, want = loaded(*arguments, **keywords), f(*arguments, **keywords)
        assert isinstance(got, Pair)
        check(
            (got.left, got.right["sum"], got.right["note"]),
            (want.left, want.right["sum"], want.right["note"]),
        )
    check(glow.grad(lambda x: np.sum(loaded(x).left))(x), glow.grad(lambda x: np.sum(f(x).left))(x))
    with pytest.raises(glow.BindingError, match="saved: missing a required argument: 'x'"):
        loaded()


@pytest.mark.slow
def test_transforms_in_files(tmp_path):
    xs = RNG.normal(size=(5, 3))
    for name, made, arguments in [
        ("vmap", glow.vmap(layer, in_axes=(None, 0)), (W, xs)),
        ("grad", glow.grad(energy, (0, 1)), (W, X)),
        ("hessian", glow.hessian(energy, 1), (W, X)),
    ]:
        made.save(tmp_path / f"{name}.mlir")
        check(glow.load(str(tmp_path / f"{name}.mlir"))(*arguments), made(*arguments))


def test_what_a_file_cannot_hold(tmp_path):
    with pytest.raises(glow.UnsupportedError, match="saved as .mlir"):
        glow.jit(layer).save(tmp_path / "f.onnx")
    with pytest.raises(glow.UnsupportedError, match="the default of 'w' is an array"):
        glow.jit(lambda x, w=W: w @ x).save(tmp_path / "f.mlir")
    glow.jit(saved).save(tmp_path / "g.mlir")
    with pytest.raises(glow.UnsupportedError, match="contains a function, not a graph"):
        glow.save(str(tmp_path / "g.mlir"), tmp_path / "h.mlir")
    (tmp_path / "g.weights.safetensors").unlink()
    with pytest.raises(glow.GlowError, match="save the function again"):
        glow.load(tmp_path / "g.mlir")
