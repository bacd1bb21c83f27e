"""`glow.vmap` and Jacobians beside a loop over compiled calls and JAX: `python -m benchmarks.transforms`.

Milliseconds of processor time of a call, the least of interleaved rounds. JAX is left out if it is missing;
it runs in one thread with XLA_FLAGS=--xla_cpu_multi_thread_eigen=false on one core (`taskset -c 0`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import glow_compiler as glow

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = jnp = None

ROUNDS = 15
RNG = np.random.default_rng(0)


def _array(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32) * 0.1


def mlp(np: Any) -> Callable[..., Any]:
    """Two layers for one example."""

    def f(w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
        return w2 @ np.tanh(w1 @ x + b1) + b2

    return f


def loss(np: Any) -> Callable[..., Any]:
    """The square error of two layers for one example."""
    of = mlp(np)

    def f(w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
        return np.sum(of(w1, b1, w2, b2, x) ** 2)

    return f


def attention(np: Any) -> Callable[..., Any]:
    """Attention of one head."""

    def f(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.T / 8.0
        e = np.exp(s - np.max(s, axis=-1, keepdims=True))
        return (e / np.sum(e, axis=-1, keepdims=True)) @ v

    return f


def steps(np: Any) -> Callable[..., Any]:
    """A loop of numbers, whose turns the number decides."""

    def f(x: Any) -> Any:
        while x < 100.0:
            x = x * 1.1 + 0.5
        return x

    return f


def ridge(np: Any) -> Callable[..., Any]:
    """64 numbers of 64."""

    def f(w: Any, x: Any) -> Any:
        return np.tanh(w @ np.tanh(w @ x))

    return f


def _least(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            count = 0
            start = time.process_time()
            while time.process_time() - start < 0.03:
                call()
                count += 1
            best[name] = min(best[name], (time.process_time() - start) / count)
    return best


def _show(name: str, calls: dict[str, Callable[[], Any]]) -> None:
    values = [np.asarray(call()) for call in calls.values()]
    for value in values[1:]:
        np.testing.assert_allclose(values[0], value, rtol=2e-3, atol=2e-4)
    print(f"{name:42}", "  ".join(f"{n} {t * 1e3:.4g}" for n, t in _least(calls).items()), flush=True)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def main() -> None:
    """Print a line each."""
    batch = 64
    weights = _array(128, 784), _array(128), _array(10, 128), _array(10)
    xs = _array(batch, 784)
    axes = (None, None, None, None, 0)
    stacked = tuple(_array(16, 64, 64) for _ in "qkv")
    cases: list[tuple[str, Callable[[Any], Any], Any, tuple[Any, ...]]] = [
        ("two layers, 64 examples", mlp, axes, (*weights, xs)),
        ("gradients of 64 examples", loss, axes, (*weights, xs)),
        ("attention, 16 heads of 64 x 64", attention, (0, 0, 0), stacked),
        ("loops of 1,000 numbers", steps, (0,), (np.abs(RNG.normal(size=1000)),)),
    ]
    for name, make, in_axes, arguments in cases:
        grads = name.startswith("gradients")
        one = glow.grad(make(np), (0, 2)) if grads else glow.jit(make(np))
        together = glow.vmap(one, in_axes=in_axes)
        at = next(i for i, a in enumerate(in_axes) if a == 0)
        count = len(arguments[at])

        def loop(
            one: Any = one, in_axes: Any = in_axes, arguments: Any = arguments, count: int = count
        ) -> Any:
            rows = [
                _first(one(*(v if a is None else v[i] for v, a in zip(arguments, in_axes, strict=True))))
                for i in range(count)
            ]
            return np.stack(rows)

        calls = {"vmap": lambda f=together, v=arguments: _first(f(*v)), "loop": loop}
        if jax is not None and make is not steps:
            inner = jax.grad(make(jnp), (0, 2)) if grads else make(jnp)
            mapped = jax.jit(jax.vmap(inner, in_axes))
            given = tuple(map(jnp.asarray, arguments))
            calls["jax"] = lambda f=mapped, v=given: jax.block_until_ready(_first(f(*v)))
        _show(name, calls)
    w, x = _array(64, 64), _array(64)
    jacobian = glow.jacobian(ridge(np), 1)
    calls = {"jacobian": lambda: jacobian(w, x)}
    if jax is not None:
        other = jax.jit(jax.jacrev(ridge(jnp), 1))
        ahead = jax.jit(jax.jacfwd(ridge(jnp), 1))
        calls["jax reverse"] = lambda: jax.block_until_ready(other(w, x))
        calls["jax forward"] = lambda: jax.block_until_ready(ahead(w, x))
    _show("Jacobian, 64 x 64", calls)

    def energy(np: Any) -> Callable[..., Any]:
        of = ridge(np)
        return lambda w, x: np.sum(of(w, x) ** 2)

    hessian = glow.hessian(energy(np), 1)
    calls = {"hessian": lambda: hessian(w, x)}
    if jax is not None:
        second = jax.jit(jax.hessian(energy(jnp), 1))
        calls["jax"] = lambda: jax.block_until_ready(second(w, x))
    _show("Hessian, 64 x 64", calls)


if __name__ == "__main__":
    main()
