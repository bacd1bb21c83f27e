"""Type inference and code generation of constants and primitives."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from glow_dialects.core.attributes import array_of, to_attribute, to_python
from glow_dialects.core.errors import UnknownNumberError, UnsupportedError
from glow_dialects.core.extent import Extent
from glow_dialects.core.mapped import NotMapped
from glow_dialects.core.types import dtype_of, shape_of, tensor, typed
from glow_dialects.fn.array_keys import UnknownNumber, option_places, with_bounds
from glow_dialects.fn.conversions import Values
from glow_dialects.fn.dialect import ConstantOp, PrimOp
from glow_dialects.fn.domain import (
    BOOL,
    RANK,
    ZERO,
    ByRows,
    MappedType,
    NoneType,
    Scalar,
    TensorType,
    Text,
    TupleType,
    ZeroType,
    mapped,
    marked,
    scalar_or_tensor,
    text,
)
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitive import text as text_option
from glow_dialects.fn.primitives.arithmetic import Mod, ToBool
from glow_dialects.fn.primitives.compare import Eq
from glow_dialects.fn.primitives.mapped import Mapped, at_level, maps_of
from glow_dialects.fn.primitives.records import Raise
from glow_dialects.fn.primitives.scalars import ScalarPrimitive
from glow_dialects.fn.primitives.shapes import Astype, Reshape
from glow_dialects.fn.regions import Kind, outside, region, with_numbers
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.fn.values import V, full, is_inactive, is_mapped, parts, seen


class Meaning(Values):
    """Primitives on typed values."""

    def literal(self, op: ConstantOp) -> V:
        """A constant."""
        if isinstance(op.value, UnitAttr):
            return V(NoneType())
        value = to_python(op.value)
        if isinstance(value, bool | int | float):
            return self.number(value)
        if isinstance(value, str):
            return V(Text(value))
        array = array_of(op.value, typed(op.result))
        assert array is not None
        return V(TensorType(tuple(array.shape), array.dtype.name), self.t.array(array))

    def truth(self, v: V, where: str) -> V:
        """A value as a bool."""
        v = seen(v)
        if isinstance(v.type, Scalar):
            if v.type.kind == "bool" or v.whole is not None:
                return self.as_kind(v, "bool")
            const = None if v.type.const is None else bool(v.type.const)
            return V(Scalar("bool", const), self.t.scalar(ToBool(), v.type.kind, [v.code]))
        if v.whole is not None and isinstance(v.type, TensorType) and prod(v.type.shape) == 1:
            return self.tensors(
                Reshape(), {"shape": to_attribute(())}, [self.tensors(ToBool(), {}, [v], where)], where
            )
        if isinstance(v.type, TensorType) and prod(v.type.shape) == 1:
            return V(BOOL, self.t.first(self.tensors(ToBool(), {}, [v], where)))
        raise UnsupportedError(f"{where}: {text(v.type)} is not a condition; compare or reduce it to a bool")

    def layer(self, index: V, values: Sequence[V], where: str) -> V:
        """The value at an index."""
        index = seen(index)
        if not isinstance(index.type, Scalar) or index.type.kind == "float":
            raise UnsupportedError(f"{where}: {text(index.type)} is not an index; use an int")
        if index.type.const is not None:
            at = int(index.type.const)
            if not -len(values) <= at < len(values):
                raise UnsupportedError(f"{where}: index {at} of a tuple of {len(values)}")
            return values[at]
        self.inside(index, len(values), where)
        wrapped = self.scalar(Mod(), [index, self.number(len(values))], where)
        result = values[0]
        for position, value in enumerate(values[1:], 1):
            here = self.scalar(Eq(), [wrapped, self.number(position)], where)
            result = self.switch(here, value, result, where)
        return result

    def get(self, v: V, index: int, where: str) -> V:
        """An item of a tuple."""
        if isinstance(v.type, ZeroType):
            return V(ZERO)
        if not isinstance(v.type, TupleType):
            raise UnsupportedError(f"{where}: {text(v.type)} cannot be unpacked; use a tuple")
        items = parts(v)
        if not -len(items) <= index < len(items):
            raise UnsupportedError(f"{where}: item {index} of a tuple of {len(items)}")
        return items[index]

    def as_kind(self, v: V, want: str) -> V:
        """A scalar as one of another kind."""
        assert isinstance(v.type, Scalar)
        if v.type.kind == want:
            return v
        if v.whole is None:
            return V(Scalar(want, None), self.kind(v, want))
        if want == "bool":
            return self.tensors(ToBool(), {}, [v], "")
        dtype = {"int": "int64", "float": "float64"}[want]
        return self.tensors(Astype(), {"dtype": to_attribute(dtype)}, [v], "")

    # --- primitives -------------------------------------------------------------------------------
    def primitive(self, op: PrimOp, x: list[V], where: str) -> V:
        """The value of a primitive; of rows that are mapped over, it sees one."""
        card = op.card
        if not card.maps and any(isinstance(v.type, MappedType) for v in x):
            x = [seen(v) for v in x]
        return full(card.typed(self, op, x, where))

    def no_numbers(self, card: Primitive, x: Sequence[V], where: str) -> UnsupportedError:
        """The error of operands that are neither numbers nor arrays."""
        bad = next((v for v in x if not isinstance(v.type, Scalar | TensorType)), x[0])
        return UnsupportedError(f"{where}: {card.short} of {text(bad.type)}; use numbers or arrays")

    def scalar(self, card: ScalarPrimitive, x: list[V], where: str) -> V:
        """A primitive on scalars."""
        if any(map(is_mapped, x)):
            x = [seen(v) for v in x]
            kinds = [v.type.kind for v in x if isinstance(v.type, Scalar)]
            work, result = card.kinds(max(kinds, key=lambda k: RANK[k]), where)
            return self.as_kind(self.tensors(card, {}, [self.as_kind(v, work) for v in x], where), result)
        kinds = [v.type.kind for v in x if isinstance(v.type, Scalar)]
        constants = [v.type.const for v in x if isinstance(v.type, Scalar)]
        work, result = card.kinds(max(kinds, key=lambda k: RANK[k]), where)
        if result != "float" and None not in constants:
            try:
                const = card.numbers(*constants)
            except (ArithmeticError, ValueError):
                const = 2**62  # what Python raises is raised when the code runs
            if isinstance(const, Extent) or abs(int(const)) < 2**62:
                return V(Scalar(result, const), self.t.constant(result, const))
        codes = [self.kind(v, work) for v in x]
        return V(Scalar(result, None), self.t.scalar(card, work, codes))

    def graph(self, op: TensorsOp, x: list[V]) -> V:
        """The tuple of tensors of a part of a graph."""
        kinds = [TensorType(shape_of(v), dtype_of(v.type).name) for v in op.yielded]
        return V(TupleType(tuple(kinds)), self.t.graph(op, x))

    def inside(self, index: V, size: int, where: str) -> None:
        """Code that raises IndexError where a subscript lies outside an axis; masks are no subscripts."""
        index = full(index)
        kind = index.type
        if isinstance(kind, Scalar):
            known = kind.kind == "bool" or kind.const is not None and -size <= kind.const < size
        else:
            known = not isinstance(kind, TensorType) or kind.dtype == "bool"
        if not known:
            self.t.inside(index, size, where)

    def known_bounds(self, attributes: Any, x: list[V], where: str) -> Any:
        """The attributes of a primitive, with the numbers of slices that are arguments."""
        numbers = [_known(v) for v in x]
        try:
            return with_bounds(attributes, numbers)
        except UnknownNumber as error:
            raise UnknownNumberError(f"{where}: {error}") from None

    def tensors(self, card: Primitive, attributes: Any, x: list[V], where: str) -> V:
        """A primitive on tensors: the type that its operators give."""
        options = option_places(attributes)
        attributes = self.known_bounds(attributes, x, where)
        others = [i in options and isinstance(v.type, Text | NoneType | TupleType) for i, v in enumerate(x)]
        x = [self.number(0) if other else v for v, other in zip(x, others, strict=True)]
        if any(map(is_mapped, x)):
            return self._mapped(card, attributes, [seen(v) for v in x], where)
        kinds = self._kinds(card, x, where)
        if (bad := outside(card, kinds)) is not None:
            for v, k in zip(x, kinds, strict=True):
                if k.wide:
                    self.t.within(v.code, *bad[1])
        kind = region(card, attributes, kinds, where).type
        for place, size in card.subscripts(attributes, [shape_of(k.type) for k in kinds]):
            self.inside(x[place], size, where)
        result = scalar_or_tensor(shape_of(kind), dtype_of(kind))
        if is_inactive(*x):
            result = marked(result, True)
        return V(result, self.t.tensor(card, attributes, x, result, where))

    def _mapped(self, card: Primitive, attributes: Any, x: list[V], where: str) -> V:
        """A primitive on tensors for all rows that are mapped over; the value is a row."""
        kinds = self._kinds(card, x, where)
        kind = region(card, attributes, kinds, where).type
        for place, size in card.subscripts(attributes, [shape_of(k.type) for k in kinds]):
            self.inside(x[place], size, where)
        result = marked(scalar_or_tensor(shape_of(kind), dtype_of(kind)), is_inactive(*x))
        for level, first in sorted({t.level: t for v in x for t in maps_of(v.whole)}.items()):
            card = Mapped(card, [at_level(v, level) for v in x])
            result = mapped(result, first.shape[0], level, first.place)
        given = [v if v.whole is None else V(TensorType(v.whole.shape, v.whole.dtype), v.code) for v in x]
        assert isinstance(result, MappedType)
        try:
            made = region(card, attributes, self._kinds(card, given, where), where).type
        except NotMapped:
            raise ByRows(result.place) from None
        assert (shape_of(made), dtype_of(made).name) == (result.shape, result.dtype), card.text
        plain = TensorType(result.shape, result.dtype)
        return seen(V(result, self.t.tensor(card, attributes, given, plain, where)))

    def _kinds(self, card: Primitive, x: Sequence[V], where: str) -> list[Kind]:
        """The types of operands as those of tensors."""
        kinds: list[Kind] = []
        for v in x:
            if isinstance(v.type, Scalar):
                dtype = {"bool": "bool", "int": "int64", "float": "float64"}[v.type.kind]
                kinds.append(Kind(tensor((), dtype), True))
            elif isinstance(v.type, TensorType):
                kinds.append(Kind(tensor(v.type.shape, v.type.dtype)))
            else:
                raise self.no_numbers(card, x, where)
        return with_numbers(kinds, [v.type.const if isinstance(v.type, Scalar) else None for v in x])


def _known(v: V) -> Any:
    """The number, text or None that a value is known to be; `...` for others."""
    match v.type:
        case Scalar(const=const) if const is not None:
            return const
        case Text(value):
            return value
        case TupleType():
            items = [_known(p) for p in parts(v)]
            return ... if ... in items else items
        case NoneType():
            return None
        case _:
            return ...


def failure(op: Operation) -> tuple[str, str, str] | None:
    """Class, message and place of the error of a `raise`; None of other operations."""
    if not isinstance(op, PrimOp) or not isinstance(op.card, Raise):
        return None
    return text_option(op, "kind"), text_option(op, "message"), op.source
