"""Representation of function values in registers and records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from glow_dialects.core.types import bytes_of, tensor
from glow_dialects.fn.domain import (
    EnvType,
    FnType,
    NamedType,
    Scalar,
    TensorType,
    TupleType,
    Type,
)

I64, I1, F64 = ir.IntType(64), ir.IntType(1), ir.DoubleType()
POINTER = ir.IntType(8).as_pointer()
SCALARS: dict[str, ir.Type] = {"float": F64, "int": I64, "bool": I1}


def leaves(kind: Type) -> list[ir.Type]:
    """The registers of a value: one a scalar or record, a tag for one of several closures."""
    match kind:
        case Scalar():
            return [SCALARS[kind.kind]]
        case TupleType():
            return [leaf for t in kind.items for leaf in leaves(t)]
        case EnvType():
            return [leaf for _, t in kind.entries for leaf in leaves(t)]
        case FnType():
            kinds = [leaf for _, bound in kind.entries for t in bound for leaf in leaves(t)]
            return kinds if len(kind.entries) == 1 else [I64, *kinds]
        case NamedType() | TensorType():
            return [POINTER]
        case _:
            return []


def sizes(kind: Type) -> list[int | None]:
    """For each register of a value: bytes of a tensor, 0 for a record, None for a number."""
    match kind:
        case TensorType():
            return [max(bytes_of(tensor(kind.shape, kind.dtype)), 1)]
        case NamedType():
            return [0]
        case TupleType():
            return [leaf for t in kind.items for leaf in sizes(t)]
        case EnvType():
            return [leaf for _, t in kind.entries for leaf in sizes(t)]
        case FnType():
            kinds = [leaf for _, bound in kind.entries for t in bound for leaf in sizes(t)]
            return kinds if len(kind.entries) == 1 else [None, *kinds]
        case Scalar():
            return [None]
        case _:
            return []


def flat(code: Any) -> list[ir.Value]:
    """The registers of a value's code, in the order of `leaves`."""
    if code is None:
        return []
    if isinstance(code, list):
        return [leaf for item in code for leaf in flat(item)]
    return [code]


def unflat(kind: Type, values: Iterator[ir.Value]) -> Any:
    """The code of a value from its registers."""
    match kind:
        case Scalar() | NamedType() | TensorType():
            return next(values)
        case TupleType():
            return [unflat(t, values) for t in kind.items]
        case EnvType():
            return [unflat(t, values) for _, t in kind.entries]
        case FnType():
            if len(kind.entries) == 1:
                return [unflat(t, values) for t in kind.entries[0][1]]
            tag = next(values)
            return [tag, [[unflat(t, values) for t in bound] for _, bound in kind.entries]]
        case _:
            return None


#: Arguments that travel in registers; the rest goes through memory, so that tail calls need no stack.
MAX_FLOATS, MAX_WORDS = 8, 4


def in_registers(kinds: list[ir.Type]) -> list[bool]:
    """Which arguments travel in registers."""
    floats = words = 0
    passing: list[bool] = []
    for kind in kinds:
        if kind == F64:
            floats += 1
            passing.append(floats <= MAX_FLOATS)
        else:
            words += 1
            passing.append(words <= MAX_WORDS)
    return passing
