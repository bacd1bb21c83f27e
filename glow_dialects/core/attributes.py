"""Conversion between Python values and attributes, and references to weights kept beside the IR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.element_types import is_standard
from glow_dialects.core.extent import Extent, is_open, sizes
from glow_dialects.core.size_text import SizesAttr
from glow_dialects.core.types import Array, Tensor, UniformQuantizedType, dtype_of


def to_attribute(value: object) -> Attribute:
    """int -> i64, float -> f64, bool -> i1, str -> string, sequence -> dense array."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool | np.bool_):
        return BoolAttr.from_bool(bool(value))
    if isinstance(value, Extent):
        return IntegerAttr(IntAttr(value), i64)
    if isinstance(value, int | np.integer):
        return _integer(int(value))
    if isinstance(value, float | np.floating):
        return _real(float(value).hex())  # which tells -0.0 from 0.0
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Sequence | np.ndarray):
        items: list[Any] = list(cast(Iterable[Any], value))
        if any(isinstance(v, float | np.floating) for v in items):
            return DenseArrayBase.from_list(f64, [float(v) for v in items])
        return ints(sizes(items))
    raise TypeError(f"no attribute for {value!r}")


@lru_cache(1 << 12)
def _integer(value: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, i64)


@lru_cache(1 << 12)
def _real(text: str) -> FloatAttr[Float64Type]:
    return FloatAttr(float.fromhex(text), f64)


@lru_cache(1 << 12)
def integers(kind: IntegerType, values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    """A dense array; equal ones are one object, since most operators have the same few."""
    return DenseArrayBase.from_list(kind, values)


def ints(values: tuple[int, ...]) -> Attribute:
    """A list of whole numbers as an attribute."""
    return SizesAttr(values) if is_open(values) else integers(i64, values)


def to_python(attribute: Attribute | None) -> object:
    """The inverse of `to_attribute`; None for None; types and other attributes unchanged."""
    if type(attribute) is DenseArrayBase:  # most of them
        array = cast("DenseArrayBase[IntegerType]", attribute)
        return _integers_in(array.data.data) if array.elt_type is i64 else tuple(array.get_values())
    match attribute:
        case None:
            return None
        case IntegerAttr():
            if attribute.type == i1:
                return bool(attribute.value.data)
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr() | SizesAttr():
            return attribute.data
        case UnitAttr():
            return True
        case _:
            return attribute


@lru_cache(1 << 12)
def _integers_in(data: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(data, "<i8").tolist())


@lru_cache(1 << 10)
def segment_sizes(data: bytes) -> tuple[int, ...]:
    """The operand counts of groups, as the bytes of their attribute (i32) have them."""
    return tuple(np.frombuffer(data, "<i4").tolist())


@dataclass(eq=False)
class Resource:
    """A named block of weights outside the IR. `array` is None until its file has been read."""

    name: str
    array: Array | None = field(default=None, repr=False)


@irdl_attr_definition
class ResourceAttr(Data[Resource]):
    """`#glow.resource<"name">`: weights kept beside the IR, shared by every copy of the attribute."""

    name = "glow.resource"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Resource:
        with parser.in_angle_brackets():
            return Resource(parser.parse_str_literal())

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data.name)


#: Constants of at most this many bytes are written in the IR; larger ones become resources.
INLINE_BYTES = 256


def constant_attribute(name: str, array: Array, kind: Tensor) -> Attribute:
    """The value attribute of a constant: dense where small, a splat where uniform, else a resource."""
    plain = array.dtype.kind in "fiub" and array.dtype.itemsize >= 1 and is_standard(array.dtype)
    if plain and array.dtype != bool and array.nbytes <= INLINE_BYTES:
        return dense(kind, array)
    return ResourceAttr(Resource(name, array))


@irdl_attr_definition
class BitsAttr(ParametrizedAttribute):
    """`#glow.bits<"0x...", tensor<...>>`: a small tensor as its bytes, little endian.

    For floats whose text does not read back: xDSL 0.74 prints infinities, NaN and some large floats
    inside `dense` as hexadecimal numbers and reads those as integers.
    """

    name = "glow.bits"
    type: TensorType[Attribute]
    data: BytesAttr

    def get_type(self) -> Tensor:
        """The tensor's type."""
        return self.type

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f'"0x{self.data.data.hex().upper()}", ')
            printer.print_attribute(self.type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
            parser.parse_punctuation(",")
            kind = parser.parse_type()
        try:
            data = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            parser.raise_error(f"'{text}' is not hexadecimal; write digits 0 to 9 and a to f, two per byte")
        return kind, BytesAttr(data)

    def verify(self) -> None:
        count = prod(self.type.get_shape())
        if len(self.data.data) != count * dtype_of(self.type).itemsize:
            raise VerifyException(
                f"#glow.bits: {len(self.data.data)} bytes for {self.type}"
                "; write two hexadecimal digits per byte"
            )


#: Floats below this magnitude print in decimal.
_DECIMAL_BELOW = 1e5


def dense(kind: Tensor, array: Array) -> DenseIntOrFPElementsAttr | BitsAttr:
    """An attribute with the array's values (not for large arrays: every use is hashed)."""
    values = np.ascontiguousarray(array, dtype=dtype_of(kind))
    if values.dtype.kind == "b":
        values = values.astype(np.uint8) * np.uint8(0xFF)  # as xDSL stores booleans
    data = BytesAttr(values.tobytes())
    plain = is_standard(values.dtype) and values.dtype.kind != "c"
    plain = plain and not isinstance(kind.element_type, UniformQuantizedType)  # xDSL has no such dense
    whole = values.dtype.kind in "iub"
    exact = plain and (whole or bool(np.all(np.abs(values.astype(np.float64)) < _DECIMAL_BELOW)))
    return DenseIntOrFPElementsAttr(cast(Any, kind), data) if exact else BitsAttr(kind, data)


def array_of(attribute: Attribute, kind: Tensor) -> Array | None:
    """The NumPy array a constant's value attribute stands for; None where its file is not loaded."""
    if type(attribute) is ResourceAttr:
        return attribute.data.array
    shape, dtype = kind.get_shape(), dtype_of(kind)
    if isinstance(attribute, BitsAttr):
        return np.frombuffer(attribute.data.data, dtype).reshape(shape)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        if dtype == bool:
            return np.array(attribute.get_values(), dtype=bool).reshape(shape)
        flat = np.frombuffer(attribute.data.data, dtype=dtype)
        count = prod(shape)
        if flat.size == 1 and count != 1:
            return np.broadcast_to(flat.reshape([1] * len(shape)), shape)
        return flat.reshape(shape)
    return None
