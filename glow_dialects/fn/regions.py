"""Primitives on arrays of known types: their graph operators and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import ints, to_python
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import ShapeError, UnsupportedError, raised
from glow_dialects.core.extent import Extent, sizes
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, dtype_of, tensor_of, typed
from glow_dialects.fn.array_keys import option_places, with_bounds
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.unit import Unit, limits, promoted

if TYPE_CHECKING:
    from glow_dialects.fn.primitive import Primitive

Attributes = Mapping[str, Attribute]


@dataclass(frozen=True)
class Kind:
    """The type of an argument; `weak` scalars take the element type of the tensors beside them.

    `wide`: an int that this type may not hold.
    """

    type: Tensor
    weak: bool = False
    wide: bool = False


def with_numbers(kinds: Sequence[Kind], numbers: Sequence[Any]) -> list[Kind]:
    """Kinds of which those of ints that may lie outside the arrays' type are wide; None is any number."""
    range_ = limits([dtype_of(k.type) for k in kinds], [k.weak for k in kinds])
    if range_ is None:
        return list(kinds)
    low, high = range_
    return [
        replace(k, wide=k.weak and dtype_of(k.type).kind == "i" and (n is None or not low <= n <= high))
        for k, n in zip(kinds, numbers, strict=True)
    ]


def outside(card: Primitive, kinds: Sequence[Kind]) -> tuple[str, tuple[int, int]] | None:
    """The type of the arrays, and its range, where a primitive needs ints of it and there may be others."""
    if not card.fits or not any(k.wide for k in kinds):
        return None
    types, weak = [dtype_of(k.type) for k in kinds], [k.weak for k in kinds]
    range_ = limits(types, weak)
    return None if range_ is None else (promoted(types, weak).name, range_)


def plain_options(attributes: Attributes) -> dict[str, Any]:
    """The options of a primitive as Python values."""
    return {n: to_python(a) for n, a in attributes.items() if n not in (LINE, "indices")}


@dataclass
class Region:
    """A primitive for certain types: its operators and the value they end in."""

    block: Block
    result: SSAValue

    @property
    def type(self) -> Tensor:
        """The type of the result."""
        return typed(self.result)


_REGIONS: dict[Any, Region] = {}


def region(card: Primitive, attributes: Attributes, kinds: Sequence[Kind], where: str) -> Region:
    """The operators of a primitive; ShapeError, with the place, where the types do not fit."""
    key = (card, tuple(sorted((n, a) for n, a in attributes.items() if n != LINE)), tuple(kinds))
    cached = _REGIONS.get(key)
    if cached is None:
        block = Block(arg_types=[k.type for k in kinds])
        b = Builder.at_end(block)
        try:
            unit = Unit(b, [k.weak for k in kinds], [k.wide for k in kinds])
            result = card.build(unit, plain_options(attributes), attributes, list(block.args))
        except VerifyException as error:
            raise ShapeError(f"{where}: {error}") from None
        except (TypeError, AssertionError) as error:
            shapes = ", ".join(str(k.type) for k in kinds)
            raise UnsupportedError(f"{where}: {card.short} of {shapes}: {error}") from None
        _drop_unused(block, result)
        cached = _REGIONS[key] = Region(block, result)
    return cached


def _drop_unused(block: Block, result: SSAValue) -> None:
    """Remove operations that the result does not need: the value where only its cotangent is wanted."""
    for op in reversed(list(block.ops)):
        if result.owner is not op and all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()


def evaluate(card: Primitive, attributes: Attributes, values: Sequence[Any], where: str) -> Any:
    """The value of a primitive for arrays (and Python numbers, whose type is weak)."""
    kinds: list[Kind] = []
    arrays: list[Array] = []
    options, places = dict(with_bounds(attributes, values)), option_places(attributes)
    values = [0 if i in places and isinstance(v, str | Sequence | None) else v for i, v in enumerate(values)]
    for value in values:
        weak = isinstance(value, bool | int | float)
        if not weak and not isinstance(value, np.ndarray | np.generic):
            raise UnsupportedError(f"{where}: {card.short} of a {type(value).__name__} and arrays")
        array = np.asarray(value)
        arrays.append(array)
        kinds.append(Kind(tensor_of(array), weak))
    kinds = with_numbers(kinds, values)
    if (bad := outside(card, kinds)) is not None:
        number = next(v for v, k in zip(values, kinds, strict=True) if k.wide)
        raise out_of_bounds(number, bad[0], where)
    body = region(card, options, kinds, where)
    check_subscripts(card, options, arrays, where)
    known: dict[SSAValue, Array] = dict(zip(body.block.args, arrays, strict=True))
    for op in body.block.ops:
        assert isinstance(op, GraphOp)
        known.update(zip(op.results, op.evaluate([known[v] for v in op.operands]), strict=True))
    return plain(known[body.result])


def out_of_bounds(number: int, dtype: str, where: str) -> Exception:
    """The error of an int that an element type does not hold."""
    return raised("OverflowError", f"Python integer {number} out of bounds for {dtype}", where)


def plain(value: Array) -> Any:
    """An array; of no axes and a type of Python's numbers, the number."""
    return value.item() if value.ndim == 0 and value.dtype.name in ("float64", "int64", "bool") else value


def subscript_error(size: int) -> str:
    """The message of a subscript's error."""
    return f"a subscript lies outside its axis of {size}"


def check_subscripts(card: Primitive, attributes: Attributes, arrays: Sequence[Any], where: str) -> None:
    """Raise IndexError where a subscript, which masks are none, lies outside its axis."""
    for place, size in card.subscripts(attributes, [np.shape(a) for a in arrays]):
        index = np.asarray(arrays[place])
        if index.dtype.kind != "b" and not np.all((index >= -size) & (index < size)):
            raise raised("IndexError", subscript_error(size), where)


def shape_attribute(value: Any) -> Attribute:
    """A shape as an option; a number is a shape of one axis."""
    numbers: tuple[Any, ...] = (value,) if isinstance(value, int | np.integer | Extent) else tuple(value)
    return ints(sizes(numbers))
