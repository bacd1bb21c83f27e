"""Gradients where they need care, against PyTorch: ties, zeros, infinities, saturation, quantisation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import special_gradients as special
from xdsl.dialects.builtin import ModuleOp, StringAttr

import glow_compiler as glow
from glow_compiler.training_graph import main_of
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, UniformQuantizedType, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp
from glow_dialects.reverse import NotDifferentiableError
from glow_passes.autodiff.differentiate import differentiate, save_gradients

torch = pytest.importorskip("torch")
F = torch.nn.functional
Build = Callable[..., Any]

PLAIN = np.array([[-2, -1, -0.5, 0, 0.5, 1, 2, 3, -3], [0] * 9, [1, 1, 1, 2, 2, 2, 0, 0, 1]], np.float32)
OTHER = np.array([[1, -1, 0, 0, 2, 1, 0, 3, -3], [0, 1, -1, 2, 0, 0, 0, 0, 0], [1] * 9], np.float32)
MASKED = PLAIN.copy()
MASKED[0, :3] = MASKED[1, 4] = -np.inf
HUGE = np.array([[-1e4, -100, -90, 0, 50, 90, 100, 1e4, -88]], np.float32)
WEIGHTS = np.arange(9, dtype=np.float32)


def gradients(build: Build, values: list[Array], backend: str) -> list[Array]:
    """The gradients of the sum of build(graph, *weights)."""
    g = glow.GraphBuilder()
    weights = [g.trainable(v, f"w{i}") for i, v in enumerate(values)]
    g.save(build(g, *weights), "y")
    module: ModuleOp = glow.load(g)
    function = main_of(module)
    training = differentiate(module, function, "y")
    save_gradients(module, training)
    function.detach()
    function.erase()
    training.function.properties["sym_name"] = StringAttr("main")
    with np.errstate(all="ignore"):
        found = glow.compile(module, backend).run({})
    return [found[f"w{i}.grad"] for i in range(len(values))]


def peer_gradients(build: Build, values: list[Array]) -> list[Array]:
    """The same by PyTorch's autograd."""
    weights = [torch.tensor(v, requires_grad=True) for v in values]
    build(*weights).sum().backward()
    return [w.grad.numpy() for w in weights]


def unary(name: str, **options: Any) -> Build:
    """The builder's method of that name."""
    return lambda g, x: getattr(g, name)(x, **options)


def reduced(name: str) -> Build:
    """A reduction of axis 1."""
    return unary(f"reduce_{name}", axes=(1,), keepdims=False)


def weighted(name: str, **options: Any) -> Build:
    """A function along axis 1, its results weighted."""
    return lambda g, x: getattr(g, name)(x, axis=1, **options) * WEIGHTS


def peer_weighted(function: Build) -> Build:
    """The same in PyTorch."""
    return lambda x: function(x) * torch.tensor(WEIGHTS)


ONE: dict[str, tuple[Build, Build]] = {
    **{
        n: (unary(n), getattr(torch, n))
        for n in ("abs", "sqrt", "exp", "log", "relu", "sigmoid", "tanh", "erf", "log1p", "rsqrt")
    },
    **{n: (unary(n), getattr(F, n)) for n in ("softplus", "mish", "gelu", "elu", "selu", "softsign")},
    "reciprocal": (unary("reciprocal"), torch.reciprocal),
    "clip": (lambda g, x: g.clip(x, -1.0, 1.0), lambda x: x.clamp(-1, 1)),
    "square": (lambda g, x: g.pow(x, 2.0), lambda x: x**2),
    "root": (lambda g, x: g.pow(x, 0.5), lambda x: x**0.5),
    "power of zero": (lambda g, x: g.pow(x, 0.0), lambda x: x**0.0),
    "largest": (reduced("max"), lambda x: x.amax(1)),
    "smallest": (reduced("min"), lambda x: x.amin(1)),
    "norm": (reduced("l2"), lambda x: x.norm(dim=1)),
    "log_sum_exp": (reduced("log_sum_exp"), lambda x: x.logsumexp(1)),
    "softmax": (weighted("softmax"), peer_weighted(lambda x: F.softmax(x, 1))),
    "log_softmax": (weighted("log_softmax"), peer_weighted(lambda x: F.log_softmax(x, 1))),
    "layer_norm": (weighted("layer_norm"), peer_weighted(lambda x: F.layer_norm(x, (9,)))),
}
TWO: dict[str, tuple[Build, Build]] = {
    "max": (lambda g, x, y: g.max(x, y), torch.maximum),
    "min": (lambda g, x, y: g.min(x, y), torch.minimum),
    "div": (lambda g, x, y: g.div(x, y), torch.div),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", ONE)
def test_one_operand(name: str, backend: str) -> None:
    """Zeros and ties, saturated and masked values: the same numbers, also where they are not finite."""
    ours, theirs = ONE[name]
    for values in (PLAIN, HUGE) if name != "largest" else (PLAIN, MASKED, HUGE):
        (got,), (want,) = gradients(ours, [values], backend), peer_gradients(theirs, [values])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "log_sum_exp"])
def test_masked(name: str, backend: str) -> None:
    """Places with minus infinity, as attention masks have."""
    ours, theirs = ONE[name]
    if name == "log_softmax":
        ours = lambda g, x: g.slice(g.log_softmax(x, axis=1), (0, 5), (3, 9))  # noqa: E731
        theirs = lambda x: F.log_softmax(x, 1)[:, 5:]  # noqa: E731
    (got,), (want,) = gradients(ours, [MASKED], backend), peer_gradients(theirs, [MASKED])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str, backend: str) -> None:
    """Equal operands share the gradient; quotients by zero are what PyTorch's are."""
    ours, theirs = TWO[name]
    got, want = gradients(ours, [PLAIN, OTHER], backend), peer_gradients(theirs, [PLAIN, OTHER])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_quantisation_is_passed_straight_through(backend: str) -> None:
    """dequantize(quantize(x)): the gradient passes where nothing is clipped, as in PyTorch."""
    scale, zero = 0.02, 5
    x = np.linspace(-4, 4, 41, dtype=np.float32)

    def ours(g: Any, w: Any) -> Any:
        kind = tensor(w.shape, UniformQuantizedType.of(8, scale, zero))
        q = g.one(QuantizeOp, w, results=kind)
        return g.one(DequantizeOp, q, results=tensor(w.shape, "float32")) * x

    def theirs(w: Any) -> Any:
        return torch.fake_quantize_per_tensor_affine(w, scale, zero, -128, 127) * torch.tensor(x)

    (got,), (want,) = gradients(ours, [x], backend), peer_gradients(theirs, [x])
    assert (want == 0).sum() > 5
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_blocked_paths_are_named() -> None:
    """No weight reaches the loss: every operator that stops the gradient is in the message."""

    def rounded(g: Any, w: Any) -> Any:
        integers = g.one(CastOp, w, results=tensor(w.shape, "int32"))
        other = g.one(CastOp, w > 0.0, results=tensor(w.shape, "float32"))
        return g.one(CastOp, integers, results=tensor(w.shape, "float32")) + other

    with pytest.raises(NotDifferentiableError, match=r"glow\.cast(.|\n)*glow\.cmp_gt"):
        gradients(rounded, [PLAIN], "interpreter")
    with pytest.raises(GlowError, match="no gradient reaches any of @w0"):
        gradients(lambda g, w: g.constant(PLAIN) * 2.0, [PLAIN], "interpreter")


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_graphs_at_special_places(backend: str) -> None:
    """Every function that PyTorch has, at zeros, ties, infinities: PyTorch's gradient, or a reason."""
    names = [n for n in special.NAMES if n.torch]
    made = special.by_graph(names, backend)
    wrong = [
        t for n, ours in zip(names, made, strict=True) for t in special.apart(n, ours, special.by_torch(n))
    ]
    assert not wrong, "\n".join(wrong)


def test_functions_at_special_places(tmp_path: Path) -> None:
    """Every function of NumPy: the gradient of PyTorch's, of JAX's where PyTorch has none."""
    pytest.importorskip("jax")
    names = [n for n in special.NAMES if n.numpy]
    made = special.by_functions(names, tmp_path)
    wrong = list[str]()
    for name, ours in zip(names, made, strict=True):
        wrong += special.apart(name, ours, (special.by_torch if name.torch else special.by_jax)(name))
    assert not wrong, "\n".join(wrong)
