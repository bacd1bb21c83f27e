"""One operation of a StableHLO program, as its rule sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import Array, Tensor, shape_of, typed
from glow_frontends.graph import Emitter, RuleError, Value

Rule: TypeAlias = Callable[["Emitter", "Node"], "Value | Sequence[Value]"]

_WORD = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|[\w-]+)")
_LAST = re.compile(r"(\w+)\s*>?\s*$")


class Blocked(RuleError):
    """What it needs could not be imported, which is a problem already."""


@dataclass(frozen=True)
class Written:
    """A tensor with one row replaced, as `dynamic_update_slice` gives it: the row at a place along axis 0."""

    tensor: Value
    place: Value
    row: Value


class Program(Protocol):
    """The program around an operation."""

    #: What values are that are tensors with a row written.
    written: dict[SSAValue, Written]

    def run(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """The values that a block returns for arguments."""
        ...

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """Those of a function."""
        ...

    def function(self, name: str) -> Block:
        """The body of a function."""
        ...

    def size_of(self, block: Block) -> int:
        """How many operations run in a block, those of called functions too."""
        ...

    def find(self, value: SSAValue) -> Value | None:
        """What a value is, where it is one yet."""
        ...


@dataclass
class Node:
    """Operands, attributes, result types and regions."""

    op: Operation
    operands: list[Value]
    program: Program

    @property
    def name(self) -> str:
        """The name of the operation, with that of its dialect."""
        return op_name(self.op)

    def __getitem__(self, index: int) -> Value:
        if index >= len(self.operands):
            raise RuleError(f"operand {index} is missing")
        return self.operands[index]

    # --- attributes --------------------------------------------------------------------------
    def attribute(self, name: str) -> Attribute | None:
        """An attribute, or None where it is absent."""
        return self.op.properties.get(name, self.op.attributes.get(name))

    def needed(self, name: str) -> Attribute:
        """An attribute that must be there."""
        found = self.attribute(name)
        if found is None:
            raise RuleError(f"attribute '{name}' is missing")
        return found

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Whole numbers, flat."""
        found = self.attribute(name)
        if found is None and default is not None:
            return tuple(default)
        match self.needed(name):
            case DenseArrayBase() as dense:
                return tuple(map(int, cast("DenseArrayBase[Any]", dense).get_values()))
            case DenseIntOrFPElementsAttr() as dense:
                return tuple(int(v) for v in _array(dense).reshape(-1))
            case ArrayAttr() as listed:
                return tuple(v.value.data for v in listed.data if isinstance(v, IntegerAttr))
            case other:
                raise RuleError(f"attribute '{name}' is {other}, not a list of integers")

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        found = self.attribute(name)
        if found is None and default is not None:
            return default
        if not isinstance(found, IntegerAttr):
            raise RuleError(f"attribute '{name}' is {found}, not an integer")
        return found.value.data

    def flag(self, name: str) -> bool:
        """Whether a boolean attribute is there and true."""
        return bool(self.integer(name, 0))

    def flags(self, name: str, count: int) -> tuple[bool, ...]:
        """A boolean for each of `count` axes, false by default."""
        return tuple(bool(v) for v in self.ints(name, (0,) * count))

    def text(self, name: str) -> str:
        """A string, or the name of a symbol."""
        match self.needed(name):
            case StringAttr() as string:
                return string.data
            case SymbolRefAttr() as symbol:
                return symbol.root_reference.data
            case other:
                raise RuleError(f"attribute '{name}' is {other}, no string")

    def word(self, name: str) -> str:
        """The value of an enumeration: LT of `#stablehlo<comparison_direction LT>`; "" where absent."""
        found = self.attribute(name)
        matched = _LAST.search(_text(found)) if found is not None else None
        return "" if matched is None else matched[1]

    def raw(self, name: str) -> str:
        """The text of an attribute of StableHLO's own."""
        return _text(self.needed(name))

    def dimensions(self, name: str) -> dict[str, tuple[int, ...]]:
        """The fields of an attribute such as `#stablehlo.dot<...>`; absent ones are empty lists."""
        fields = {k: tuple(map(int, re.findall(r"-?\d+", v))) for k, v in _WORD.findall(self.raw(name))}
        return _Fields(fields)

    def array(self, name: str) -> Array:
        """The numbers of a `dense` attribute."""
        found = self.needed(name)
        if not isinstance(found, DenseIntOrFPElementsAttr):
            raise RuleError(f"attribute '{name}' is {found}, not dense numbers")
        return _array(found)

    def entries(self, name: str) -> dict[str, Any]:
        """The whole numbers of a dictionary, by name."""
        found = self.attribute(name)
        if not isinstance(found, DictionaryAttr):
            return {}
        return {k: v.value.data for k, v in found.data.items() if isinstance(v, IntegerAttr)}

    # --- types and regions -------------------------------------------------------------------
    def type(self, index: int = 0) -> Tensor:
        """The type of a result."""
        return typed(self.op.results[index])

    def element(self, index: int = 0) -> Attribute:
        """The element type of a result."""
        return self.type(index).element_type

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of a result; a RuleError where it is not written."""
        dims = shape_of(self.type(index))
        if any(d < 0 for d in dims):
            raise RuleError(f"the shape of the result, {self.type(index)}, is not known")
        return dims

    def block(self, index: int = 0) -> Block:
        """The block of a region."""
        return self.op.regions[index].block

    def region(self, index: int, arguments: Sequence[Value]) -> list[Value]:
        """What a region returns for arguments."""
        return self.program.run(self.block(index), arguments)


class _Fields(dict[str, tuple[int, ...]]):
    def __missing__(self, key: str) -> tuple[int, ...]:
        return ()


def op_name(op: Operation) -> str:
    """The name of an operation, registered or not."""
    given = op.attributes.get("op_name__") or getattr(op, "op_name", None)
    return given.data if isinstance(given, StringAttr) else op.name


def _text(attribute: Attribute) -> str:
    return attribute.value.data if isinstance(attribute, UnregisteredAttr) else str(attribute)


def _array(dense: DenseIntOrFPElementsAttr) -> Array:
    kind = dense.get_type()
    array = array_of(dense, typed(kind))
    assert array is not None
    return array
