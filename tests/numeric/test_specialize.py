"""Types of functions for the arguments that reach them: instances, merged types, messages."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS
from xdsl.parser import Parser

import glow_compiler as glow
import glow_runtime.functions
from glow_backends.cpu.functions.survey import Survey
from glow_dialects.dialects import context
from glow_dialects.fn.conversions import Values
from glow_dialects.fn.domain import FLOAT, INT, Sets, TensorType, Type, text
from glow_dialects.fn.values import V
from glow_passes.fn import specialize
from glow_passes.fn.inference import infer
from glow_passes.fn.specialize import Instance, Specializer
from glow_runtime.functions import FunctionProgram, type_of

ROWS = np.random.default_rng(0).normal(size=(100, 2))


def names(compiled: Any) -> Counter[str]:
    """How often each function is an instance of the one program that was made."""
    ((program),) = compiled.program.instances.values()
    return Counter(i.name for i in program.types.instances)


def halved(n, x):
    return x if n == 0 else halved(n - 1, x * 0.5)


def exchanged(n, x, y):
    return x - 2 * y if n == 0 else exchanged(n - 1, y, x + 0.5)


def counted_by_another(n, x):
    def down(m, f):
        return f(x) if m == 0 else down(m - 1, lambda v: f(v) * 0.5 + m)

    return down(n, lambda v: v + 1)


def either(n, x):
    f = (lambda v: v * n) if x > 1 else (lambda v: v + x)
    for i in range(n):
        if i % 2 == 1:
            f = lambda v, g=f: v - x  # noqa: E731
    return f(x) + f(2)


def of_two(n, x):
    def last(a, b):
        return a if n > 100 else b

    pair = (x, n) if n > 1 else (x * 2, n + 1)
    return last(*pair) + pair[0]


def without_name(n, x):
    down = lambda self, m, f: f(x) if m == 0 else self(self, m - 1, lambda v: f(v) * 0.5 + m)  # noqa: E731
    return down(down, n, lambda v: v + 1)


def within_itself(n, x):
    def apply(f, v):
        return f(v)

    return apply(lambda a: apply(lambda b: b[0] + b[1] * n, (a, a + 1.0)), x)


def part_of_either(n, x):
    f = (lambda a, b: a * n + b) if x > 1 else (lambda a, b: a - b * x)
    return functools.partial(f, x)(2.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (halved, (3, 2)),  # an int that becomes a float
        (exchanged, (5, 1, 2)),  # two, one after the other
        (exchanged, (0, 1, 2)),
        (counted_by_another, (4, 1.5)),  # functions that hold functions of their own kind
        (either, (4, 2.0)),
        (either, (1, 0.5)),
        (of_two, (3, 0.5)),
        (of_two, (1, 7)),
        (without_name, (12, 1.5)),  # nested by itself, though it does not refer to itself
        (within_itself, (3, 1.5)),  # inside its own argument, for another type
        (part_of_either, (3, 2.0)),
        (part_of_either, (3, 0.5)),
    ],
)
def test_value(function: Callable[..., Any], arguments: tuple[Any, ...], backend: str) -> None:
    """Python's value, as a number of Python's kind of what the types say; native where that is asked for."""
    compiled = glow.jit(function, backend=backend)
    assert compiled(*arguments) == function(*arguments)
    assert compiled.report()["instances"][0]["runs on"] == backend


def calls_of_three_kinds(x, n):
    def count(v):
        return v if v > 100 else count(v + v)

    return count(x) + count(x + 1) + count(n) + count(n + 1) + np.sum(count(x) * ROWS)


def test_one_instance_for_each_types() -> None:
    """Calls with equal types share it."""
    compiled = glow.jit(calls_of_three_kinds, backend="interpreter")
    assert np.isclose(compiled(1.5, 2), calls_of_three_kinds(1.5, 2))
    assert names(compiled)["count"] == 2


def chosen(x):
    s = x[0]
    for i in range(12):
        s = np.sin(s) + x[i] if np.sum(s) > 1 else s * 2 + x[i]
    return np.sum(s)


def test_loops_that_branch_stay_loops() -> None:
    """The body of a loop that branches on what the run tells is one instance; a straight one is a graph."""
    compiled = glow.jit(chosen)
    assert np.isclose(compiled(ROWS), chosen(ROWS))
    assert names(compiled)["chosen.loop"] == 1 and max(names(compiled).values()) <= 2


def repeated(x):
    def again(n, v):
        return v if n == 0 else again(n - 1, np.sin(v))

    return again(5, x)


def test_recursions_of_the_user_stay_as_they_are() -> None:
    """No instance for each level, though how many there are is known."""
    compiled = glow.jit(repeated, backend="interpreter")
    assert np.allclose(compiled(ROWS), repeated(ROWS))
    assert names(compiled) == {"repeated": 1, "again": 1, "again.else.again": 1, "again.if": 1}


PARTS = """
glow_fn.func @sum(%like, %x, %y) {
  %one = glow_fn.prim ones_like(%like)
  %s = glow_fn.prim add(%x, %y)
  %r = glow_fn.prim mul(%one, %s)
  glow_fn.return %r
}
glow_fn.func @difference(%like, %x, %y) {
  %one = glow_fn.prim ones_like(%like)
  %s = glow_fn.prim sub(%x, %y)
  %r = glow_fn.prim mul(%one, %s)
  glow_fn.return %r
}
glow_fn.func @main(%first, %like, %x, %y) {
  %f = glow_fn.ref @sum
  %g = glow_fn.ref @difference
  %a = glow_fn.partial %f(%like)
  %b = glow_fn.partial %g(%like)
  %chosen = glow_fn.switch %first, %a, %b
  %all = glow_fn.partial %chosen(%x, %y)
  %r = glow_fn.call %all()
  glow_fn.return %r
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_which_the_type_matters(backend: str) -> None:
    """What a function holds for its type alone is not computed; what comes after it is."""
    program = FunctionProgram(Parser(context(), PARTS).parse_module(), "main", backend)
    x, y = ROWS[0], ROWS[1]
    for first, value in ((True, x + y), (False, x - y)):
        np.testing.assert_array_equal(program.run([first, np.array(2.0), x, y]), value)
    assert program.report()["instances"][0]["runs on"] == backend


LAYERS = """
glow_fn.func @main(%i, %x, %y, %z) {
  %two = glow_fn.constant -2 : i64
  %r = glow_fn.switch_layer %i, %x, %y, %z
  %s = glow_fn.switch_layer %two, %x, %y, %z
  %t = glow_fn.tuple %r, %s
  glow_fn.return %t
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_choice_by_number(backend: str) -> None:
    """One of several values, from either end."""
    program = FunctionProgram(Parser(context(), LAYERS).parse_module(), "main", backend)
    for index in (0, 1, 2, -1, -3):
        assert program.run([index, 1.5, 2.5, 3.5]) == ((1.5, 2.5, 3.5)[index], 2.5)
    assert program.report()["instances"][0]["runs on"] == backend


UNNAMED = """
glow_fn.func @main(%0, %x) {
  %c = glow_fn.prim gt(%0, %x)
  %f = glow_fn.ref @main
  %t = glow_fn.tuple %0, %x {line = "model.py:7"}
  %a = glow_fn.partial %f(%t, %x)
  %g = glow_fn.ref @last
  %b = glow_fn.partial %g(%x)
  %s = glow_fn.switch %c, %a, %b
  %r = glow_fn.call %s()
  glow_fn.return %r
}
glow_fn.func @last(%x) {
  glow_fn.return %x
}
"""


def test_names_in_messages() -> None:
    """A parameter without a name has its number, from 0."""
    program = FunctionProgram(Parser(context(), UNNAMED).parse_module(), "main", "interpreter")
    with pytest.raises(
        glow.GlowError, match=r"^model.py:7: 'argument 0' is alternately a float and a tuple of 2"
    ):
        program.run([1.0, 2.0])


def few(x):
    def add(a, b):
        return a + b

    def pick(f):
        return f(x)

    return pick(add)


def too_many(x):
    def same(a):
        return a

    return functools.partial(same, x, x)()


def one_less(x):
    def none():
        return 1.0

    def pick(f):
        return f(x)

    return pick(none)


def few_in_gradient(x):
    def product(a, b):
        return a * b

    def pick(f, v):
        return f(v)

    return glow.grad(lambda v: pick(product, v))(x)


def few_in_second(x):
    def product(a, b):
        return a * b

    def pick(f, v):
        return f(v, v, v)

    return glow.grad(glow.grad(lambda v: pick(product, v)))(x)


def called_like_a_form(x):
    def fwd(a):
        return a * 2

    def pick(f):
        return f(x, x)

    return pick(fwd)


def kinds(x):
    return 1.0 if x > 0 else (1.0, 2.0)


def paths(n):
    return (1.0, 2.0) if n == 0 else paths(n - 1)[0]


def arities(x):
    f = (lambda a: a * x) if x > 0 else (lambda a, b: a * b)
    return glow.grad(f)(x)


def of_a_number(x):
    return glow.grad(x)(x)


def beyond(x):
    return glow.grad(lambda a, b: a * b, argnums=2)(x, x)


def below(x):
    return glow.grad(lambda a: a * a, argnums=-2)(x)


def called_number(x):
    return (x * 2)(x)


def partial_number(x):
    return functools.partial(x, 1.0)()


def without_end(x):
    def around(y):
        return around(y + 1.0) * 2

    return around(x)


def without_end_in_a_loop(x):
    def deeper(y):
        return deeper(y + 1.0) * 2

    while True:
        x = deeper(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (few, "add is called with 1 argument, it has 2"),
        (too_many, "too many arguments for same"),
        (one_less, "none is called with 1 argument, it has 0"),
        (few_in_gradient, "product is called with 1 argument, it has 2"),
        (few_in_second, "product is called with 3 arguments, it has 2"),
        (called_like_a_form, "fwd is called with 2 arguments, it has 1"),
        (kinds, "the branches give a tuple of 2 and a float; both need the same type"),
        (paths, "the branches give a float and a tuple of 2; both need the same type"),
        (arities, "grad of functions with different numbers of parameters"),
        (of_a_number, "grad of a float; give it a function"),
        (beyond, "argument 2 of a function of 2 parameters; argnums counts from 0"),
        (below, "argument -2 of a function of 1 parameter; argnums counts from 0"),
        (called_number, "a float is called, but is not a function"),
        (partial_number, "a float is called, but is not a function"),
        (without_end, "around never returns: every path calls it again; add a base case"),
        (without_end_in_a_loop, "deeper never returns: every path calls it again; add a base case"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_message(function: Callable[..., Any], message: str, backend: str) -> None:
    """What is wrong, in the user's words and numbers, with the line of text."""
    with pytest.raises(glow.GlowError) as error:
        glow.jit(function, backend=backend)(1.0)
    first = str(error.value).partition("\n")[0]
    assert message in first and "test_specialize.py:" in first


# --- types that do not fit ----------------------------------------------------------------------
def falling(x):
    def fall(n, v):
        return v if n == 0 else fall(n - 1, v * 0.5)

    return fall(3, x)


def inferred(function: Callable[..., Any], *given: Any) -> tuple[Specializer, Instance]:
    """The types of a program for arguments of the types of these."""
    program = glow.jit(function, backend="interpreter").program
    return infer(program.functions, program.name, tuple(map(type_of, given)))


def other_result(root: Instance, fall: Instance) -> None:
    fall.result = INT


def other_parameter(root: Instance, fall: Instance) -> None:
    fall.parameters[1] = INT


def other_argument(root: Instance, fall: Instance) -> None:
    root.parameters[0] = INT


WRONG = [
    (other_result, "fall returns a float, which was not inferred"),
    (other_parameter, "fall is called with types that were not inferred"),
    (other_argument, "fall is called with types that were not inferred"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_types_that_do_not_fit(
    change: Callable[..., None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong types become no machine code: the interpreter gives the value, the report says why."""

    def wrong(*arguments: Any) -> tuple[Specializer, Instance]:
        found, root = infer(*arguments)
        change(root, next(i for i in found.instances if i.name == "fall"))
        return found, root

    monkeypatch.setattr(glow_runtime.functions, "infer", wrong)
    monkeypatch.delenv("GLOW_STRICT")
    compiled = glow.jit(falling)
    assert compiled(1.5) == falling(1.5)
    (instance,) = compiled.report()["instances"]
    assert instance["runs on"] == "interpreter" and message in instance["because"]


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (TensorType((3,), "float64"), TensorType((4,), "float64")),
        (TensorType((3,), "float64"), TensorType((3,), "float32")),
        (FLOAT, TensorType((1,), "float64")),
    ],
)
def test_values_that_do_not_fit(have: Type, want: Type) -> None:
    """A value is no argument or result of another shape or type of items."""
    code = SimpleNamespace(coding=True, as_tensor=lambda v, kind: None)
    with pytest.raises(AssertionError, match=re.escape(f"{text(have)} where {text(want)} is expected")):
        Values(Sets(), code).convert(V(have), want)
    inactive = V(TensorType((3,), "float64", True), "code")
    assert Values(Sets(), code).convert(inactive, TensorType((3,), "float64")).code == "code"


def halving(x):
    n, s = 32, x
    while n > 1:
        s = np.sin(s) + n
        n = n // 2
    return np.sum(s)


def test_types_are_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long inference took decides nothing afterwards: code is made of the instances that there are."""
    found, root = inferred(halving, ROWS)
    monkeypatch.setattr(specialize, "LONG", 0)
    survey = Survey(found, root)
    assert sum(i.name == "halving.body.halving.loop" for i in survey.edges) == 5
