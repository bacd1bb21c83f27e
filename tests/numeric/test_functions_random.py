"""Random well-typed programs against Python and finite differences."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import glow_compiler as glow

pytestmark = pytest.mark.slow

NAMES = ("x", "y", "s", "t")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """An expression of bounded values."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*NAMES, "0.5", "1.25", "2.0"]))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    forms = (
        f"math.sin({a})",
        f"math.tanh({a}) * {b}",
        f"({a} + {b})",
        f"({a} - {b}) * 0.5",
        f"({a} if {a} > {b} + 0.123 else {b})",
        f"(lambda v: v * {b} * 0.3 + s)({a})",
        f"(lambda g: g({a}) + g({b}))(lambda v: math.cos(v) + x)",
    )
    return draw(st.sampled_from(forms))


@st.composite
def statements(draw: st.DrawFn, depth: int = 2, loops: int = 0) -> list[str]:
    """Some statements that assign s and t."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["assign", "assign", "if", "for", "def"] if depth else ["assign"]))
        name = draw(st.sampled_from(["s", "t"]))
        if kind == "assign":
            lines.append(f"{name} = math.tanh({draw(expressions())}) * 2.0")
        elif kind == "if":
            lines += [f"if {draw(expressions())} > 0.377:", *_inner(draw(statements(depth - 1, loops)))]
            if draw(st.booleans()):
                lines += ["else:", *_inner(draw(statements(depth - 1, loops)))]
        elif kind == "for":
            lines += [f"for i{loops} in range({draw(st.integers(1, 3))}):"]
            lines += _inner(draw(statements(depth - 1, loops + 1)))
            leave = draw(st.sampled_from(["", "break", "continue", "return s * t"]))
            if leave:
                lines += [f"    if s > {draw(st.sampled_from([0.211, 0.777]))}:", f"        {leave}"]
                lines += ["    t = t * 0.9 + x * 0.1"]
        else:
            lines += ["def f(v):", f"    return v * 0.5 + {draw(expressions())}", f"{name} = f({name})"]
    return lines


def _inner(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def build(body: list[str]) -> Callable[[float, float], float]:
    """The Python function of some statements, with its source where compilers look for it."""
    lines = ["def program(x, y):", "    s = x", "    t = y", *_inner(body), "    return s * t + s"]
    text = "\n".join(lines) + "\n"
    name = f"<random {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, object] = {"math": math}
    exec(compile(text, name, "exec"), space)
    made = space["program"]
    assert callable(made)
    return made


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(statements())
def test_random_program(body: list[str]) -> None:
    """Values and gradients on both backends."""
    program = build(body)
    x, y = 0.613, -0.287
    for backend in ("cpu", "interpreter"):
        compiled = glow.jit(program, backend=backend)
        assert math.isclose(compiled(x, y), program(x, y), rel_tol=1e-9, abs_tol=1e-12)
        found = glow.grad(compiled, argnums=(0, 1))(x, y)
        h = 1e-6
        expected = (
            (program(x + h, y) - program(x - h, y)) / 2 / h,
            (program(x, y + h) - program(x, y - h)) / 2 / h,
        )
        for a, b in zip(found, expected, strict=True):
            assert math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5), body
