"""Passing Python numbers and arrays into native functions and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from glow_backends.cpu.memory import ALIGN, address, aligned_array
from glow_dialects.core.types import Array, bytes_of, dtype_of, tensor
from glow_dialects.fn.domain import NoneType, NotNative, Scalar, TensorType, Text, TupleType, Type
from glow_dialects.fn.record import rebuilt

#: Bytes of arrays that are copied to memory of the function: that costs less than to ask where they lie.
SMALL = 16 << 10


def _memory(kind: TensorType) -> Array:
    return aligned_array(kind.shape, dtype_of(tensor(kind.shape, kind.dtype)))


def _registers(kind: Type) -> Iterator[Scalar | TensorType]:
    if isinstance(kind, TupleType):
        for item in kind.items:
            yield from _registers(item)
    elif isinstance(kind, Scalar | TensorType):
        yield kind


class _Words:
    """A row of 64-bit words, seen as ints and floats."""

    def __init__(self, count: int) -> None:
        memory = aligned_array((max(count, 1),), np.dtype(np.int64))
        memory[...] = 0
        self.address = address(memory)
        view = memoryview(memory.data)
        self.ints = view
        self.floats = view.cast("B").cast("d")


class Arguments(_Words):
    """The arguments of a function for certain types."""

    def __init__(self, parameters: Sequence[Type]) -> None:
        self._kinds = [leaf for t in parameters for leaf in _registers(t)]
        super().__init__(len(self._kinds))
        self._flat = all(isinstance(t, Scalar | TensorType) for t in parameters)
        #: What becomes of each: floats and ints are stored, small arrays copied, large ones pointed to.
        #: Where large arrays go that do not lie as kernels need them.
        self._copies: dict[int, Array] = {}
        self._staged: list[Array | bool | None] = []
        for index, kind in enumerate(self._kinds):
            if isinstance(kind, Scalar):
                self._staged.append(kind.kind == "float")
            elif bytes_of(tensor(kind.shape, kind.dtype)) <= SMALL:
                self._staged.append(_memory(kind))
                self.ints[index] = address(self._staged[-1])  # pyright: ignore
            else:
                self._staged.append(None)

    def staged(self, index: int) -> Any:
        """The memory that a small array is copied to; None of large ones."""
        return self._staged[index]

    def fill(self, values: Sequence[Any]) -> list[Array]:
        """Store the arguments of a call; what comes back must live as long as it."""
        held: list[Array] = []
        ints, floats = self.ints, self.floats
        for index, value in enumerate(values if self._flat else _flattened(values)):
            staged = self._staged[index]
            if staged is True:
                floats[index] = value
            elif staged is False:
                try:
                    ints[index] = value
                except ValueError:
                    raise NotNative("an int of more than 64 bits") from None
            elif staged is not None:
                staged[...] = value
            else:
                where = address(value)
                if where % ALIGN or not value.flags.c_contiguous:
                    copy = self._copies.get(index)
                    if copy is None:
                        copy = self._copies[index] = aligned_array(value.shape, value.dtype)
                    copy[...] = value
                    value, where = copy, address(copy)
                held.append(value)
                ints[index] = where
        return held


def _flattened(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flattened(value)
        elif isinstance(value, dict):
            yield from _flattened(value.values())
        elif value is not None and not isinstance(value, str):
            yield value


class Results(_Words):
    """The result of a function: numbers in words, arrays in places that are told before a call."""

    def __init__(self, kind: Type) -> None:
        kinds = list(_registers(kind))
        super().__init__(len(kinds))
        self._kind = kind
        self._places = _Words(len(kinds))
        self.places_address = self._places.address
        #: Small arrays have a place for good and are copied from there.
        self._small: dict[int, Array] = {}
        self._large: dict[int, TensorType] = {}
        self._now: dict[int, Array] = {}
        for index, leaf in enumerate(kinds):
            if isinstance(leaf, TensorType):
                if bytes_of(tensor(leaf.shape, leaf.dtype)) <= SMALL:
                    self._small[index] = memory = _memory(leaf)
                    self._places.ints[index] = address(memory)
                else:
                    self._large[index] = leaf

    @property
    def large(self) -> bool:
        """Whether new memory is needed for a result."""
        return bool(self._large)

    def small(self, index: int) -> Array:
        """Where a small array lies after a run."""
        return self._small[index]

    def prepare(self) -> None:
        """New memory for large arrays of the next result."""
        for index, kind in self._large.items():
            self._now[index] = memory = _memory(kind)
            self._places.ints[index] = address(memory)

    def taken(self) -> Any:
        """The result of the last call."""
        result = self._rebuilt(self._kind, iter(range(len(self.ints))))
        self._now.clear()
        return result

    def _rebuilt(self, kind: Type, numbers: Iterator[int]) -> Any:
        match kind:
            case TensorType():
                index = next(numbers)
                small = self._small.get(index)
                if not kind.shape:
                    return small[()]  # NumPy's scalar  # pyright: ignore
                return self._now[index] if small is None else small.copy()
            case TupleType():
                items = [self._rebuilt(t, numbers) for t in kind.items]
                return rebuilt(kind.names, items) if kind.names else tuple(items)
            case Scalar():
                index = next(numbers)
                if kind.kind == "float":
                    return self.floats[index]
                return bool(self.ints[index] & 1) if kind.kind == "bool" else self.ints[index]
            case Text():
                return kind.value
            case NoneType():
                return None
            case _:
                raise AssertionError(kind)
