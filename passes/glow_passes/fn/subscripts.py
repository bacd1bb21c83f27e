"""Which operands of a primitive are subscripts, and the axes that they must lie inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from glow_dialects.core.errors import raised
from glow_passes.fn.tensor_shapes import At, key_of, padded_key

Attributes = Mapping[str, Attribute]
Shapes = Sequence[tuple[int, ...]]
#: (operand, size of the axis that it is a subscript of).
Subscript = tuple[int, int]


def _number(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _first(attributes: Attributes, shapes: Shapes) -> list[Subscript]:
    return [(1, shapes[0][0])]


def _rows(attributes: Attributes, shapes: Shapes) -> list[Subscript]:
    return [(1, shapes[0][0] - _number(attributes["count"]) + 1)]


def _along(attributes: Attributes, shapes: Shapes) -> list[Subscript]:
    whole = "axis" not in attributes
    return [(1, math.prod(shapes[0]) if whole else shapes[0][_number(attributes["axis"])])]


def _keyed(attributes: Attributes, shapes: Shapes) -> list[Subscript]:
    entries = [e for e in padded_key(key_of(attributes), len(shapes[0])) if e is not None]
    return [(e.place, size) for e, size in zip(entries, shapes[0], strict=False) if isinstance(e, At)]


_RULES: dict[str, Callable[[Attributes, Shapes], list[Subscript]]] = {
    "item": _first, "with_item": _first, "rows": _rows, "op:gather": _along, "np:take": _along,
    "np:take_along_axis": _along, "getitem": _keyed, "np:setitem": _keyed,
}  # fmt: skip


def subscripts(name: str, attributes: Attributes, shapes: Shapes) -> list[Subscript]:
    """The subscripts of a primitive whose operands have these shapes, which fit it."""
    rule = _RULES.get(name)
    return [] if rule is None else rule(attributes, shapes)


def message(size: int) -> str:
    """What the error of a subscript says."""
    return f"a subscript lies outside its axis of {size}"


def check(name: str, attributes: Attributes, arrays: Sequence[Any], where: str) -> None:
    """Raise IndexError where a subscript, which masks are none, lies outside its axis."""
    for place, size in subscripts(name, attributes, [np.shape(a) for a in arrays]):
        index = np.asarray(arrays[place])
        if index.dtype.kind != "b" and not np.all((index >= -size) & (index < size)):
            raise raised("IndexError", message(size), where)
