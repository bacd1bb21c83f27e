"""Primitives: a sum of cotangents of which one is that of a part of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from glow_dialects.fn.domain import TensorType
from glow_dialects.fn.primitive import Function, Options, Primitive, Result, Term, Terms, Typing, options_of
from glow_dialects.fn.primitives.items import Item, ItemPut
from glow_dialects.fn.primitives.operators import GetItem, Vjp
from glow_dialects.fn.python_values import add_cotangents
from glow_dialects.fn.regions import plain_options
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import Unit
from glow_dialects.fn.values import V, is_zero


class Accumulated(Primitive):
    """The first operand, a cotangent, and that of a part of an array, as `of` makes it of the others.

    `of` is `item_put` or `vjp:getitem`, which are linear in their last operand.
    """

    arity, stores = None, True

    def __init__(self, of: Primitive) -> None:
        self.of = of
        self.types_only = (1,)

    @property
    def text(self) -> str:
        return f"add:{self.of.text}"

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return False

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        total, part = x[0], self.of.typed(m, op, x[1:], where)
        if is_zero(part):
            return total
        plain = not any(v.whole is not None for v in (total, *x))
        if plain and isinstance(total.type, TensorType) and total.type == part.type:
            known = m.known_bounds(op.attributes, x[1:], where)  # bounds are numbered as those of `of`
            return m.tensors(self, known, x, where)
        return m.add(total, part)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        inner = Unit(u.b, u.weak[1:], u.wide[1:])
        return u.op("add", x[0], self.of.build(inner, plain_options(attributes), attributes, x[1:]))

    def function(self, op: FnOp) -> Function:
        part = self.of.function(op)
        return lambda total, *x: add_cotangents(total, part(*x))

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        first, last = (y.zero() if v is None else v for v in (d[0], d[-1]))
        return self.applied(op, [first, *(x[i] for i in range(1, len(d) - 1)), last])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        count = len(op.operands)
        others = [x[i] for i in range(2, count - 1)]
        key = {n: a for n, a in options_of(op).items() if n == "key"}
        part = d.prim(Item if isinstance(self.of, ItemPut) else GetItem, *others, **key)
        return [d, *[None] * (count - 2), part]


def of_part(card: Primitive) -> bool:
    """Whether a primitive makes the cotangent of an array from that of a part of it."""
    return type(card) is ItemPut or isinstance(card, Vjp) and type(card.of) is GetItem


def accumulating(text: str) -> Primitive | None:
    """The primitive of a name: `add:item_put` or `add:vjp:getitem`."""
    of = {"add:item_put": ItemPut(), "add:vjp:getitem": Vjp(GetItem())}.get(text)
    return None if of is None else Accumulated(of)
