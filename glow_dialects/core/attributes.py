"""Conversion between Python values and attributes, and references to weights kept beside the IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from glow_dialects.core.types import Array, Tensor, dtype_of


def to_attribute(value: object) -> Attribute:
    """int -> i64, float -> f64, bool -> i1, str -> string, sequence -> dense array."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool | np.bool_):
        return BoolAttr.from_bool(bool(value))
    if isinstance(value, int | np.integer):
        return IntegerAttr(int(value), i64)
    if isinstance(value, float | np.floating):
        return FloatAttr(float(value), f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Sequence | np.ndarray):
        items = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if any(isinstance(v, float | np.floating) for v in items):
            return DenseArrayBase.from_list(f64, [float(v) for v in items])
        return DenseArrayBase.from_list(i64, [int(v) for v in items])
    raise TypeError(f"no attribute for {value!r}")


def to_python(attribute: Attribute | None) -> object:
    """The inverse of `to_attribute`; None for None; types and other attributes unchanged."""
    match attribute:
        case IntegerAttr():
            if attribute.type == IntegerType(1):
                return bool(attribute.value.data)
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case DenseArrayBase():
            return tuple(attribute.get_values())
        case UnitAttr():
            return True
        case _:
            return attribute


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
    plain = array.dtype.kind in "fiub" and array.dtype.itemsize >= 1 and array.dtype.isbuiltin == 1
    if plain and array.dtype != bool and array.nbytes <= INLINE_BYTES:
        return dense(kind, array)
    return ResourceAttr(Resource(name, array))


def dense(kind: Tensor, array: Array) -> DenseIntOrFPElementsAttr:
    """A dense attribute with the array's values (not for large arrays: every use is hashed)."""
    data = np.ascontiguousarray(array, dtype=dtype_of(kind)).tobytes()
    return DenseIntOrFPElementsAttr(kind, BytesAttr(data))


def array_of(attribute: Attribute, kind: Tensor) -> Array | None:
    """The NumPy array a constant's value attribute stands for; None where its file is not loaded."""
    shape, dtype = kind.get_shape(), dtype_of(kind)
    if isinstance(attribute, ResourceAttr):
        return attribute.data.array
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        if dtype == bool:
            return np.array(attribute.get_values(), dtype=bool).reshape(shape)
        flat = np.frombuffer(attribute.data.data, dtype=dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if flat.size == 1 and count != 1:
            return np.broadcast_to(flat.reshape([1] * len(shape)), shape)
        return flat.reshape(shape)
    return None
