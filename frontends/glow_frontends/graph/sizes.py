"""Arithmetic on dynamic sizes during import, as on known arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.element_types import is_standard
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MaxOp, MinOp, ModOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.iota import SizesOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.reduce import ReduceProdOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp, indices
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import AbsOp, CeilOp, FloorOp, NegOp
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape

#: Types that hold every size.
_WIDE = frozenset({"int32", "int64", "float32", "float64"})
#: Arrays of more numbers are no sizes.
MAX_SIZES = 64


def sizes_of(value: Value) -> Array | None:
    """Whole numbers as an array of objects: a small known array, or sizes that only the run tells."""
    if isinstance(value, SSAValue):
        source = value.owner
        if isinstance(source, ReshapeOp):
            inner = sizes_of(source.input)
            return None if inner is None else inner.reshape(shape(value))
        return source.array() if isinstance(source, SizesOp) else None
    if value.size > MAX_SIZES or not is_standard(value.dtype):
        return None
    if value.dtype.kind == "f":
        reals = value.astype(np.float64)  # in which 2^63 is a number, as it is not in half precision
        if np.all(np.abs(reals) < 2**63) and np.all(reals == np.trunc(reals)):
            value = reals.astype(np.int64)
    return value.astype(object) if value.dtype.kind in "iub" else None


def objects(values: Sequence[int]) -> Array:
    """Whole numbers, extents among them, as an array of objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def objects_of(result: Any) -> Array:
    """An array of objects, of what operators on objects give for scalars, too."""
    return np.asarray(result, object) if isinstance(result, np.ndarray) else objects([result]).reshape(())


def on_sizes(
    kind: type[GraphOp],
    values: Sequence[Value],
    results: Attribute | Sequence[Attribute] | None,
    properties: dict[str, Any],
) -> tuple[Array, np.dtype] | None:
    """The result of an operator on sizes, where some of them are open and all are known; and its dtype."""
    rule = _RULES.get(kind)
    if rule is None:
        return None
    arrays = [sizes_of(v) for v in values]
    if kind in _ROUNDINGS and arrays[0] is None:
        return _rounded(kind, values[0], results)
    if any(a is None for a in arrays):
        return None
    dtype = dtype_of_value(values[-1])
    if kind in _WHOLE and dtype.kind == "f":
        return None  # a quotient of real numbers may be no whole number
    if kind is CastOp and dtype_of(cast(Attribute, results)).name not in _WIDE:
        return None
    if isinstance(results, Attribute):
        dtype = dtype_of(results)
    elif kind in _COMPARISONS:
        dtype = np.dtype(bool)
    elif kind in _TAKING:
        dtype = dtype_of_value(values[0])
    result = rule(properties, *arrays)
    return None if result is None else (objects_of(result), dtype)


@dataclass(frozen=True)
class _Ratios:
    """What division of sizes by `divisor` gives in floats, before it is rounded to whole numbers."""

    numerators: Array
    divisor: int


def _rounded(
    kind: type[GraphOp], value: Value, results: Attribute | Sequence[Attribute] | None
) -> tuple[Array, np.dtype] | None:
    """Quotients of sizes as whole numbers, as exporters compute them, in floats; and their dtype."""
    dtype = dtype_of_value(value) if results is None else dtype_of(cast(Attribute, results))
    if dtype_of_value(value) not in _REALS or (kind is CastOp and dtype.name not in ("int32", "int64")):
        return None
    ratios = _ratios_of(value)
    if ratios is None:
        return None
    return objects_of(_ROUNDINGS[kind](ratios.numerators, ratios.divisor)), dtype


def _ratios_of(value: Value) -> _Ratios | None:
    """Sizes divided once, by a whole number or by what is a fraction of few bits, plus whole numbers.

    Their floats round as the quotients themselves do, for sizes of up to 2^21: these are whole, or at
    least a part of the divisor away from that, and of that size floats have more digits.
    """
    op = value.owner if isinstance(value, SSAValue) else None
    sizes = sizes_of(op.array() if isinstance(op, LiteralOp) else value)
    if sizes is not None:
        return _Ratios(sizes, 1)
    if rank(value) > 1:  # sizes lie side by side: what is not so is no more looked through
        return None
    if isinstance(op, ReshapeOp):
        inner = _ratios_of(op.input)
        return inner and _Ratios(inner.numerators.reshape(shape(value)), inner.divisor)
    if isinstance(op, DivOp | MulOp):
        sizes, by = sizes_of(op.lhs), _factor(op.rhs)
        if isinstance(op, MulOp) and sizes is None:
            sizes, by = sizes_of(op.rhs), _factor(op.lhs)
        if sizes is None or by is None:
            return None
        by = 1 / by if isinstance(op, DivOp) else by
        return _Ratios(np.broadcast_to(objects_of(sizes * by.numerator), shape(value)), by.denominator)
    if isinstance(op, AddOp | SubOp):
        x = _ratios_of(op.lhs)
        y = None if x is None else _ratios_of(op.rhs)
        if x is None or y is None or min(x.divisor, y.divisor) != 1:
            return None
        first, second = x.numerators * y.divisor, y.numerators * x.divisor
        sums = first + second if isinstance(op, AddOp) else first - second
        return _Ratios(objects_of(sums), x.divisor * y.divisor)
    return None


def _factor(value: SSAValue) -> Fraction | None:
    """One known positive number by which floats are divided or multiplied without a surprise."""
    if not isinstance(value.owner, LiteralOp):
        return None
    numbers = np.unique(value.owner.array())
    if numbers.size != 1 or not 0 < numbers[0] < _MOST_FACTOR:
        return None
    factor = Fraction(float(numbers[0]))
    few = factor.denominator == 1 or max(factor.numerator, factor.denominator) <= _FEW_PARTS
    return factor if few else None


#: Whole factors are less than the first. Floats of 24 bits hold products of sizes and of so many parts.
_MOST_FACTOR, _FEW_PARTS = 1 << 10, 8
_REALS = (np.dtype(np.float32), np.dtype(np.float64))


def _quotient(x: int, y: int) -> int:
    """ONNX's division of whole numbers, which rounds to zero."""
    if y < 0:
        x, y = -x, -y
    return x // y if x >= 0 else -(-x // y)


_quotients = np.frompyfunc(_quotient, 2, 1)


def _taken_nd(p: dict[str, Any], x: Array, i: Array) -> Any:
    """Elements, or slices, that tuples of indices name; None for batches of tuples."""
    return None if p.get("batch_dims", 0) else x[_tuples(i)]


def _written_nd(p: dict[str, Any], x: Array, i: Array, new: Array) -> Array | None:
    """`x` with elements or slices replaced; None where they are joined with what is there."""
    return _replaced(x, _tuples(i), new) if p.get("reduction", "none") == "none" else None


def _written(p: dict[str, Any], x: Array, i: Array, new: Array) -> Array | None:
    """A vector with elements replaced; None for other tensors, or where elements are joined."""
    plain = x.ndim == 1 and p.get("reduction", "none") == "none"
    return _replaced(x, (i.astype(np.int64),), new) if plain else None


def _tuples(i: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(i.astype(np.int64), -1, 0))


def _replaced(x: Array, where: tuple[Array, ...], new: Array) -> Array | None:
    """None where there are not as many new numbers as places: the operator says so."""
    result = x.copy()
    if result[where].shape != new.shape:
        return None
    result[where] = new
    return result


_ROUNDINGS: dict[type[GraphOp], Callable[..., Any]] = {
    FloorOp: lambda x, by: x // by,
    CeilOp: lambda x, by: -(-x // by),
    CastOp: _quotients,
}
#: Operators that give whole numbers for whole numbers in integer types only.
_WHOLE = frozenset({DivOp, FloorDivOp, ModOp})
#: Operators whose results are of the type of their first operand.
_TAKING = frozenset({GatherOp, GatherNdOp})
_Rule = Callable[..., Any]
_COMPARISONS: dict[type[GraphOp], _Rule] = {
    CmpEqOp: lambda _, x, y: x == y,
    CmpNeOp: lambda _, x, y: x != y,
    CmpLtOp: lambda _, x, y: x < y,
    CmpLeOp: lambda _, x, y: x <= y,
    CmpGtOp: lambda _, x, y: x > y,
    CmpGeOp: lambda _, x, y: x >= y,
}
_RULES: dict[type[GraphOp], _Rule] = {
    **_COMPARISONS,
    AddOp: lambda _, x, y: x + y,
    SubOp: lambda _, x, y: x - y,
    MulOp: lambda _, x, y: x * y,
    DivOp: lambda _, x, y: _quotients(x, y),
    FloorDivOp: lambda _, x, y: x // y,
    ModOp: lambda _, x, y: x % y,
    NegOp: lambda _, x: -x,
    MaxOp: lambda _, x, y: np.maximum(x, y),
    MinOp: lambda _, x, y: np.minimum(x, y),
    CastOp: lambda _, x: x,
    FloorOp: lambda _, x: x,
    CeilOp: lambda _, x: x,
    AbsOp: lambda _, x: np.abs(x),
    ReduceSumOp: lambda p, x: np.sum(x, p["axes"], keepdims=p.get("keepdims", False)),
    ReduceProdOp: lambda p, x: np.prod(x, p["axes"], keepdims=p.get("keepdims", False)),
    TileOp: lambda p, x: np.tile(x, p["repeats"]),
    SelectOp: lambda _, which, x, y: np.where(which.astype(bool), x, y),
    ConcatOp: lambda p, *parts: np.concatenate(parts, p["axis"]),
    GatherOp: lambda p, x, i: np.take(x, i.astype(np.int64), p.get("axis", 0)),
    GatherNdOp: _taken_nd,
    ScatterNdOp: _written_nd,
    ScatterElementsOp: _written,
    TransposeOp: lambda p, x: x.transpose(p["permutation"]),
    SliceOp: lambda p, x: x[indices(p["starts"], p["ends"], p["steps"])],
}
