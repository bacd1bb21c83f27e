"""The primitives: one class each, in families."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.accumulated import accumulating
from glow_dialects.fn.primitives.arithmetic import ARITHMETIC
from glow_dialects.fn.primitives.assignment import ASSIGNMENT
from glow_dialects.fn.primitives.changes import CHANGES
from glow_dialects.fn.primitives.compare import COMPARE
from glow_dialects.fn.primitives.cotangents import COTANGENTS
from glow_dialects.fn.primitives.items import ITEMS
from glow_dialects.fn.primitives.linear import LINEAR
from glow_dialects.fn.primitives.mapped import MAPPED
from glow_dialects.fn.primitives.mapped_rows import MAPPED_ROWS
from glow_dialects.fn.primitives.mathematics import MATHEMATICS
from glow_dialects.fn.primitives.numbers import NumberFunction
from glow_dialects.fn.primitives.operators import OPERATORS, Vjp, operator_primitive
from glow_dialects.fn.primitives.records import RECORDS
from glow_dialects.fn.primitives.shapes import SHAPES
from glow_dialects.fn.primitives.tuples import TUPLES

PRIMITIVES: tuple[type[Primitive], ...] = (
    *ARITHMETIC,
    *MATHEMATICS,
    *COMPARE,
    *SHAPES,
    *ITEMS,
    *TUPLES,
    *RECORDS,
    *ASSIGNMENT,
    *CHANGES,
    *COTANGENTS,
    *OPERATORS,
    *LINEAR,
    *MAPPED,
    *MAPPED_ROWS,
)

_BY_NAME: dict[str, type[Primitive]] = {card.name: card for card in PRIMITIVES if card.name}


@cache
def primitive_named(text: str) -> Primitive:
    """The primitive of a name in the text of a program; VerifyException where there is none."""
    if text.startswith("vjp:"):
        return Vjp(primitive_named(text.removeprefix("vjp:")))
    if text.startswith("py:"):
        return NumberFunction(text.removeprefix("py:"))
    card = _BY_NAME.get(text)
    primitive = card() if card is not None else accumulating(text) or operator_primitive(text)
    if primitive is None:
        near = get_close_matches(text, _BY_NAME, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see the reference of functions"
        raise VerifyException(f"glow_fn.prim: there is no primitive {text}; {hint}")
    return primitive
