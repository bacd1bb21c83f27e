"""ONNX values that are not tensors: sequences, maps, optionals, strings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from glow_dialects.core.extent import is_open
from glow_frontends.graph import BoundedValue, NeedsValue, Value, dtype_of_value, shape


@dataclass
class SequenceValue:
    """An ONNX sequence: its length is known, its elements are tensors (or sequences) of one dtype."""

    items: list[AnyValue] = field(default_factory=list["AnyValue"])
    dtype: np.dtype | None = None


class StackedValue(SequenceValue):
    """A sequence whose elements are the rows of a tensor; `take` gives one of them."""

    def __init__(self, rows: Value, take: Callable[[int], Value]) -> None:
        self.rows, self._take = rows, take
        self.dtype = dtype_of_value(rows)

    @property
    def items(self) -> list[AnyValue]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The rows; NeedsValue where only the run tells how many there are."""
        count = shape(self.rows)[0]
        if is_open([count]):
            raise NeedsValue(None, "the length of a sequence")
        return [self._take(number) for number in range(count)]


class NoneValue:
    """An empty optional; `dtype` is that of the absent tensor."""


class HostValue:
    """Strings that only the host holds, and only at run time."""


@dataclass
class MapValue:
    """An ONNX map; only the host holds one."""

    entries: dict[str | int, Any] = field(default_factory=dict[str | int, Any])


#: Anything that a name of an ONNX graph may stand for.
AnyValue: TypeAlias = Value | SequenceValue | NoneValue | HostValue | MapValue | BoundedValue
