"""Tensor and buffer types: element types, NumPy dtypes, quantised elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntAttr,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.element_types import ELEMENT_TYPES, named
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import Extent, are_equal, is_open, size, sizes

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Tensor = TensorType[Attribute]
Buffer = MemRefType[Attribute]


@irdl_attr_definition
class UniformQuantizedType(ParametrizedAttribute, TypeAttribute):
    """`!quant.uniform<i8:f32, 0.5:3>`: value = (q - zero_point) * scale (Glow paper, section 4).

    Per axis `!quant.uniform<i8:f32:0, {0.5:3, 0.25}>` has one pair for each index of that axis.
    """

    name = "quant.uniform"
    storage: IntegerType
    expressed: Attribute
    axis: IntAttr
    scales: ArrayAttr[FloatAttr]
    zero_points: ArrayAttr[IntAttr]

    @staticmethod
    def of(
        width: int,
        scales: Sequence[float] | float,
        zero_points: Sequence[int] | int = 0,
        signed: bool = True,
        axis: int = -1,
    ) -> UniformQuantizedType:
        """The quantised type of `width` bits; sequences with `axis` >= 0 are per axis."""
        many = [scales] if isinstance(scales, float | int) else list(scales)
        zeros = [zero_points] * len(many) if isinstance(zero_points, int) else list(zero_points)
        return _uniform(width, tuple(many), tuple(zeros), signed, axis)

    @property
    def signed(self) -> bool:
        """Whether the stored integers are signed."""
        return self.storage.signedness.data is not Signedness.UNSIGNED

    @property
    def scale_array(self) -> Array:
        """Scales, float64, one or one an index of the axis."""
        return np.array([s.value.data for s in self.scales.data])

    @property
    def zero_point_array(self) -> Array:
        """Zero points, int64, as many as scales."""
        return np.array([z.data for z in self.zero_points.data], dtype=np.int64)

    def print_parameters(self, printer: Printer) -> None:
        width = self.storage.width.data
        printer.print_string(f"<{'i' if self.signed else 'u'}{width}:")
        printer.print_attribute(self.expressed)
        pairs = [
            f"{s.value.data!r}" + (f":{z.data}" if z.data else "")
            for s, z in zip(self.scales.data, self.zero_points.data, strict=True)
        ]
        if self.axis.data >= 0:
            printer.print_string(f":{self.axis.data}, {{{', '.join(pairs)}}}>")
        else:
            printer.print_string(f", {pairs[0]}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            storage = parser.parse_identifier(context_msg=": a storage type")
            if storage[:1] not in "iu" or not storage[1:].isdigit():
                parser.raise_error("expected a storage type such as i8 or u8")
            signed = Signedness.SIGNLESS if storage[0] == "i" else Signedness.UNSIGNED
            parser.parse_punctuation(":")
            expressed = parser.parse_type()
            axis = -1
            if parser.parse_optional_punctuation(":") is not None:
                axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")

            def pair() -> tuple[float, int]:
                scale = float(parser.parse_number())
                has = parser.parse_optional_punctuation(":") is not None
                return scale, parser.parse_integer() if has else 0

            if axis >= 0:
                pairs = parser.parse_comma_separated_list(parser.Delimiter.BRACES, pair)
            else:
                pairs = [pair()]
        return (
            IntegerType(int(storage[1:]), signed),
            expressed,
            IntAttr(axis),
            ArrayAttr(FloatAttr(s, 64) for s, _ in pairs),
            ArrayAttr(IntAttr(z) for _, z in pairs),
        )

    def verify(self) -> None:
        if not self.scales.data or len(self.scales) != len(self.zero_points):
            raise VerifyException("!quant.uniform needs one zero point for each scale")
        if any(not s.value.data > 0 for s in self.scales.data):
            raise VerifyException("!quant.uniform scales must be positive")


_FLOAT_DTYPES = {getattr(builtin, t.xdsl): t.dtype for t in ELEMENT_TYPES if t.xdsl}
#: By bits, and whether there is no sign.
_INTEGER_DTYPES = {(t.bits, t.kind == "u"): t.dtype for t in ELEMENT_TYPES if t.kind in "biu"}


def element_type(dtype: DTypeLike) -> Attribute:
    """The element type of a NumPy dtype; UnsupportedError where there is none (strings, objects)."""
    try:
        known = np.dtype(dtype)
    except TypeError as error:
        raise UnsupportedError(f'{dtype!r} is not a NumPy dtype such as "float32" or np.int8') from error
    return _element_type(known)


@cache
def _element_type(dtype: np.dtype) -> Attribute:
    known = named(dtype)
    if known is None:
        raise UnsupportedError(f"tensors have no elements of dtype {dtype.name}")
    if known.xdsl:
        return getattr(builtin, known.xdsl)()
    if known.kind == "c":
        return builtin.ComplexType(builtin.f32 if known.bits == 64 else builtin.f64)
    return IntegerType(known.bits, Signedness.UNSIGNED if known.kind == "u" else Signedness.SIGNLESS)


def dtype_of(kind: Attribute) -> np.dtype:
    """The NumPy dtype of an element, tensor or buffer type (quantised: of the storage)."""
    if type(kind) in _SHAPED:
        kind = cast("Tensor | Buffer", kind).element_type
    if type(kind) in _FLOAT_DTYPES:
        return _FLOAT_DTYPES[type(kind)]
    if isinstance(kind, UniformQuantizedType):
        kind = kind.storage
    if isinstance(kind, IntegerType):
        width = kind.width.data
        unsigned = width > 1 and kind.signedness.data is Signedness.UNSIGNED
        if (width, unsigned) in _INTEGER_DTYPES:
            return _INTEGER_DTYPES[width, unsigned]
    if isinstance(kind, builtin.IndexType):
        return np.dtype(np.int64)
    if isinstance(kind, builtin.ComplexType):
        return np.dtype(np.complex64 if kind.element_type == f32 else np.complex128)
    raise VerifyException(f"{kind} has no NumPy dtype; use i1, i8 to i64, u8 to u64, f16, bf16, f32 or f64")


def tensor(shape: Sequence[int], element: Attribute | np.dtype | type | str = f32) -> Tensor:
    """`tensor<shape x element>`."""
    if not isinstance(element, Attribute):
        element = element_type(element)
    dims = sizes(shape)
    if is_open(dims):
        return TensorType(element, map(IntAttr, dims))
    plain = type(element) in _FLOAT_DTYPES or isinstance(element, IntegerType)
    return _plain_tensor(dims, element) if plain else TensorType(element, dims)


@lru_cache(1 << 9)
def _uniform(
    width: int, scales: tuple[float, ...], zero_points: tuple[int, ...], signed: bool, axis: int
) -> UniformQuantizedType:
    """A quantised type; an attribute for each of thousands of channels takes its time."""
    return UniformQuantizedType(
        IntegerType(width, Signedness.SIGNLESS if signed else Signedness.UNSIGNED),
        f32,
        IntAttr(axis),
        ArrayAttr(FloatAttr(float(s), 64) for s in scales),
        ArrayAttr(IntAttr(int(z)) for z in zero_points),
    )


@lru_cache(1 << 12)
def _plain_tensor(shape: tuple[int, ...], element: Attribute) -> Tensor:
    return TensorType(element, shape)


class QuantizedArray(np.ndarray):
    """Stored integers that know their quantised element type (samples and tests)."""

    kind: UniformQuantizedType | None = None

    @staticmethod
    def of(array: Array, kind: UniformQuantizedType) -> QuantizedArray:
        """`array` as elements of `kind`; its dtype is that of the storage."""
        quantized = np.asarray(array).astype(dtype_of(kind)).view(QuantizedArray)
        quantized.kind = kind
        return quantized


def tensor_of(array: Array) -> Tensor:
    """The type of a NumPy array."""
    kind = array.kind if isinstance(array, QuantizedArray) else None
    return tensor(array.shape, kind or array.dtype)


def typed(value: SSAValue | Attribute) -> Tensor:
    """The tensor or buffer type of a value; a VerifyException where it has another kind of type."""
    kind = value.type if isinstance(value, SSAValue) else value
    if type(kind) is MemRefType:
        return tensor(shape_of(kind), kind.element_type)
    if type(kind) is not TensorType:
        raise VerifyException(f"expected a tensor, got {kind}")
    return kind


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Static shape of a tensor or buffer value or type."""
    return tuple([size.data for size in _shaped(value).shape.data])


def element_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tensor or buffer value or type."""
    return _shaped(value).element_type


#: Both are final, and what is asked most of all: `isinstance` takes its time where the answer is no.
_SHAPED = frozenset({TensorType, MemRefType})


def _shaped(value: SSAValue | Attribute) -> Tensor | Buffer:
    """The tensor or buffer type that a value has, or that is given."""
    kind = value if type(value) in _SHAPED else cast(SSAValue, value).type
    assert type(kind) in _SHAPED, kind
    return cast("Tensor | Buffer", kind)


def bytes_of(kind: Attribute) -> int:
    """Bytes of a dense tensor or buffer of this type."""
    return prod(shape_of(kind)) * dtype_of(kind).itemsize


def is_float(kind: Attribute) -> bool:
    """Whether an element type is a floating-point type."""
    return type(kind) in _FLOAT_DTYPES


def buffer_type(kind: Tensor) -> Buffer:
    """The buffer that holds a tensor."""
    element = kind.element_type
    if isinstance(element, UniformQuantizedType):  # of many scales, which would all be hashed
        return MemRefType(element, map(IntAttr, shape_of(kind)))
    dims = shape_of(kind)
    return MemRefType(element, map(IntAttr, dims)) if is_open(dims) else _buffer_type(dims, element)


@lru_cache(1 << 12)
def _buffer_type(shape: tuple[int, ...], element: Attribute) -> Buffer:
    return MemRefType(element, shape)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcast shape; a VerifyException that names the shapes where they do not fit."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for dims in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes], strict=True):
        some = [d for d in dims if isinstance(d, Extent) or d != 1]
        alike = all(are_equal(d, some[0]) for d in some)  # of sizes that are, nothing has to be decided
        wide = (some or [1])[0] if alike else next(d for d in some if d != 1)
        if not alike and any(d not in (1, wide) for d in some):
            text = " and ".join("x".join(map(str, s)) or "scalar" for s in shapes)
            raise VerifyException(f"shapes {text} do not broadcast; sizes must be equal, or 1")
        result.append(size(wide))
    return tuple(result)


def present(value: SSAValue | None) -> list[SSAValue]:
    """An optional operand in a list, nothing where it is absent."""
    return [] if value is None else [value]
