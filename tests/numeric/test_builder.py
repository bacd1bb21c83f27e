"""GraphBuilder: what it builds runs, and what does not fit is said at once."""

from __future__ import annotations

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.ops.module import constants, placeholders

RNG = np.random.default_rng(0)


def run(g: glow.GraphBuilder, backend: str = "interpreter", **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return glow.compile(g, backend=backend).run(inputs)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_small_network(backend: str) -> None:
    """Convolution, relu, pool and product against NumPy."""
    x = RNG.standard_normal((2, 3, 6, 6)).astype(np.float32)
    w = RNG.standard_normal((4, 3, 1, 1)).astype(np.float32)
    m = RNG.standard_normal((4, 5)).astype(np.float32)
    g = glow.GraphBuilder()
    value = g.relu(g.conv(g.placeholder("x", x.shape), g.constant(w, "w")))
    pooled = g.flatten(g.global_avg_pool(value))
    g.save(pooled @ m + 1, "y")
    want = np.maximum(np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0]), 0).mean((2, 3)) @ m + 1
    np.testing.assert_allclose(run(g, backend, x=x)["y"], want, rtol=1e-4, atol=1e-5)


def test_python_operators() -> None:
    """Operators with values, arrays and numbers on either side."""
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    y = np.abs(RNG.standard_normal((4,))).astype(np.float32)
    cases = {
        "add": (lambda a, b: 1 + a + b, 1 + x + y),
        "sub": (lambda a, b: 2 - a - b, 2 - x - y),
        "mul": (lambda a, b: 3 * a * b, 3 * x * y),
        "div": (lambda a, b: a / b / 2, x / y / 2),
        "pow": (lambda a, b: b**2 + -a, y**2 - x),
        "lt": (lambda a, b: a < b, x < y),
        "ge": (lambda a, b: a >= 0, x >= 0),
        "mod": (lambda a, b: a % b, x % y),
        "floor": (lambda a, b: a // b, x // y),
    }
    g = glow.GraphBuilder()
    a, b = g.placeholder("a", x.shape), g.placeholder("b", y.shape)
    for name, (make, _) in cases.items():
        g.save(make(a, b), name)
    results = run(g, a=x, b=y)
    for name, (_, want) in cases.items():
        np.testing.assert_allclose(results[name], want, rtol=1e-5, atol=1e-6, err_msg=name)


def test_large_constants_become_symbols_and_small_ones_do_not() -> None:
    g = glow.GraphBuilder()
    g.save(g.placeholder("x", (100, 100)) + np.ones((100, 100), np.float32) + [1.0] * 100, "y")
    assert len(constants(g.module)) == 2
    assert [c.array().size for c in constants(g.module).values()] == [10000, 100]  # pyright: ignore


def test_a_name_of_the_function_is_free_for_users() -> None:
    g = glow.GraphBuilder()
    g.save(g.relu(g.placeholder("main", (2,))), "y")
    assert [p.name for p in glow.compile(g, backend="interpreter").inputs] == ["main"]
    assert "main_1" in placeholders(g.module)


def test_names_are_taken_once() -> None:
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2,))
    with pytest.raises(glow.GlowError, match="already has a constant, placeholder or output 'x'"):
        g.save(x, "x")


def test_operands_that_do_not_fit() -> None:
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 3))
    with pytest.raises(glow.ShapeError, match="reshape"):
        g.reshape(x, (5,))
    with pytest.raises(glow.ShapeError):
        g.matmul(x, g.placeholder("y", (2, 3)))
    with pytest.raises(glow.ShapeError):
        g.concat([x, g.placeholder("z", (3, 4))], axis=0)
    g.save(x, "out")
    g.module.verify()


def test_unknown_kind_of_placeholder() -> None:
    with pytest.raises(glow.GlowError, match="kind 'weight'"):
        glow.GraphBuilder().placeholder("x", (2,), kind="weight")


def test_what_is_no_dtype_is_named():
    with pytest.raises(glow.GlowError, match="'i32' is not a NumPy dtype"):
        glow.GraphBuilder().placeholder("x", (2,), "i32")
