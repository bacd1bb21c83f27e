"""Random programs of small arrays with branches, loops and closures against NumPy and finite differences."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import glow_compiler as glow

pytestmark = pytest.mark.slow

#: Values of the programs: matrices of 3 x 3, vectors of 3, and the number t.
MATRICES, VECTORS = ("w", "m"), ("x", "v")


@st.composite
def vectors(draw: st.DrawFn, depth: int = 2) -> str:
    """A vector of bounded elements."""
    if depth == 0:
        return draw(st.sampled_from(VECTORS))
    a, b = draw(vectors(depth - 1)), draw(vectors(depth - 1))
    forms = (
        a,
        f"np.tanh({draw(matrices(depth - 1))} @ {a})",
        f"({a} + {b}) * 0.5",
        f"{a} * np.sin({b})",
        f"np.where({a} > 0.1234, {a}, {b} * 0.3)",
        f"{draw(matrices(depth - 1))}[{draw(st.integers(0, 2))}]",
        f"np.exp(-np.abs({a} - {b})) + t * 0.1",
        f"(lambda q: q * {b} - t)({a})",
        f"np.concatenate(({a}[1:], {b}[:1]))",
    )
    return f"({draw(st.sampled_from(forms))})"


@st.composite
def matrices(draw: st.DrawFn, depth: int = 1) -> str:
    """A matrix of bounded elements."""
    if depth == 0:
        return draw(st.sampled_from(MATRICES))
    a, b = draw(matrices(depth - 1)), draw(matrices(depth - 1))
    forms = (
        a,
        f"np.tanh({a} @ {b})",
        f"{a}.T * 0.7",
        f"({a} + {draw(vectors(depth - 1))}) * 0.5",
        f"np.reshape({draw(vectors(depth - 1))}, (3, 1)) * {draw(vectors(depth - 1))}",
    )
    return f"({draw(st.sampled_from(forms))})"


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """A number that arrays give."""
    v = draw(vectors(1))
    forms = (f"np.sum({v})", f"np.mean({v} * {draw(vectors(1))})", f"np.max({v})", f"t + {v}[1]")
    return draw(st.sampled_from(forms))


@st.composite
def statements(draw: st.DrawFn, depth: int = 2, loops: int = 0) -> list[str]:
    """Some statements that assign v, m and t."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["v", "v", "m", "t", *(["if", "for", "while", "rows", "def"] if depth else [])]
        kind = draw(st.sampled_from(kinds))
        inner = draw(statements(depth - 1, loops + 1)) if kind in ("if", "for", "while", "rows") else []
        if kind == "v":
            lines.append(f"v = {draw(vectors())}")
        elif kind == "m":
            lines.append(f"m = {draw(matrices())}")
        elif kind == "t":
            lines.append(f"t = np.tanh({draw(numbers())})")
        elif kind == "if":
            lines += [f"if {draw(numbers())} > 0.2345:", *_inner(inner)]
            if draw(st.booleans()):
                lines += ["else:", *_inner(draw(statements(depth - 1, loops + 1)))]
        elif kind == "for":
            lines += [f"for i{loops} in range({draw(st.sampled_from(['2', '3', 'n']))}):", *_inner(inner)]
            leave = draw(st.sampled_from(["", "break", "continue", "return np.sum(v) * t"]))
            if leave:
                lines += [f"    if {draw(numbers())} > 0.4567:", f"        {leave}", "    t = t * 0.9"]
        elif kind == "while":
            lines += [f"k{loops} = 0", f"while k{loops} < 3 and np.sum(v * v) > 0.0321:", *_inner(inner)]
            lines += ["    v = v * 0.6", f"    k{loops} += 1"]
        elif kind == "rows":
            lines += [f"for r{loops} in m:", *_inner(inner), f"    v = np.tanh(v + r{loops} * 0.2)"]
        else:
            lines += ["def f(q):", f"    return np.tanh(q + {draw(vectors(1))})", "v = f(f(v))"]
    return lines


def _inner(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def build(body: list[str]) -> Callable[..., Any]:
    """The Python function of some statements, with its source where compilers look for it."""
    start = ["v = x * 0.9", "m = w.T", "t = 0.3"]
    end = ["return np.sum(v * x) + t + np.mean(m)"]
    lines = ["def program(w, x, n):", *_inner([*start, *body, *end])]
    text = "\n".join(lines) + "\n"
    name = f"<random arrays {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["program"]


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(statements())
def test_random_program(body: list[str]) -> None:
    """Values and gradients; machine code runs all of it."""
    program = build(body)
    random = np.random.default_rng(3)
    w, x, n = random.normal(size=(3, 3)) * 0.6, random.normal(size=3), 2
    value = program(w, x, n)
    expected = np.zeros_like(w), np.zeros_like(x)
    for found, argument in zip(expected, (w, x), strict=True):
        for place in np.ndindex(argument.shape):
            kept = argument[place]
            sides: list[float] = []
            for h in (1e-6, -1e-6):
                argument[place] = kept + h
                sides.append(float(program(w, x, n)))
            argument[place] = kept
            found[place] = (sides[0] - sides[1]) / 2e-6
    for backend in ("cpu", "interpreter"):
        compiled = glow.value_and_grad(glow.jit(program, backend=backend), argnums=(0, 1))
        result, gradients = compiled(w, x, n)
        assert np.isclose(result, value, rtol=1e-9), body
        for mine, theirs in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5, err_msg="\n".join(body))
        if backend == "cpu":
            assert compiled.report()["instances"][0]["runs on"] == "cpu", compiled.report()["instances"]
