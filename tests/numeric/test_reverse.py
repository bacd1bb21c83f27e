"""Reverse mode of single functions: what the backward step holds and gives."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.parser import Parser

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_dialects.fn.dialect import PrimOp
from glow_passes.fn.functions import Functions


def backward(body: str) -> tuple[int, list[PrimOp]]:
    """How many values the backward step of `f(x)` holds, and its primitives."""
    text = f"glow_fn.func @f(%x) {{\n{body}\n  glow_fn.return %y\n}}"
    block = Functions(Parser(context(), text).parse_module()).table["f.bwd"].block
    return len(block.args) - 2, [op for op in block.ops if isinstance(op, PrimOp)]


def count(ops: list[PrimOp], name: str) -> int:
    return sum(op.card.short == name for op in ops)


@pytest.mark.parametrize(
    ("body", "held"),
    [
        ("  %y = glow_fn.prim sin(%x)", 1),
        ("  %k = glow_fn.constant 2.0 : f64\n  %y = glow_fn.prim mul(%x, %k)", 1),
        ("  %k = glow_fn.prim zero()\n  %y = glow_fn.prim mul(%x, %k)", 1),
        ("  %k = glow_fn.prim cos(%x)\n  %y = glow_fn.prim mul(%x, %k)", 2),
    ],
)
def test_what_is_held(body: str, held: int) -> None:
    """What the step needs, each value once; constants are made anew."""
    assert backward(body)[0] == held


def test_constants_have_no_cotangents() -> None:
    """Nor have functions: sums are for what the gradient may be taken by."""
    twice = "\n".join(
        [
            "  %k = glow_fn.constant 2.0 : f64",
            "  %a = glow_fn.prim mul(%x, %k)",
            "  %b = glow_fn.prim mul(%k, %x)",
            "  %y = glow_fn.prim add(%a, %b)",
        ]
    )
    assert count(backward(twice)[1], "add_any") == 1


@pytest.mark.parametrize(("modes", "values"), [("", 1), ("j", 2), ("jj", 4)])
def test_gradients_of_functions_with_tangents(modes: str, values: int) -> None:
    """A gradient in forward mode holds its function before the tangents, which are nothing."""
    text = f'  %g = glow_fn.partial %x()\n  %y = glow_fn.grad %g by 0 {{modes = "{modes}"}}'
    items = [op for op in backward(text)[1] if op.card.short == "env_item"]
    (item,) = (op for op in items if op.operands[0].name_hint != "whole")
    assert item.attributes["n"] == IntegerAttr(values, 64) and item.attributes["i"] == IntegerAttr(0, 64)


def test_cotangents_keep_whose_they_are() -> None:
    """Those of the parameters of a function, in its backward step, which may be derived again."""
    for given, of in (('{of = "g"}', StringAttr("g")), ('{other = "g"}', None)):
        _, ops = backward(f"  %y = glow_fn.tuple %x, %x {given}")
        items = [op for op in ops if op.card.short == "env_item"]
        assert [(i.attributes.get("of"), i.attributes.get("other")) for i in items] == [(of, None)] * 2


@glow.custom_gradient(lambda d, y, x: d * 2.0 * x)
def square(x):
    return x * x


@glow.custom_gradient(lambda d, y, x: d * 5.0)
def other(x):
    return x * 3.0


def first_of_two_calls(x):
    y = square(x)
    other(x)
    return y


def first_of_two_used(x):
    y = square(x)
    return y + other(y)


@pytest.mark.parametrize(("function", "slope"), [(first_of_two_calls, 3.0), (first_of_two_used, 18.0)])
def test_calls_before_others(function: Any, slope: float) -> None:
    """The value of a call that is not the last one."""
    compiled = glow.jit(function, backend="interpreter")
    assert compiled(1.5) == function(1.5)
    assert glow.grad(compiled)(1.5) == slope
