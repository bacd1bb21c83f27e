"""Node: one Caffe2 operator as its rule sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.builder import GraphBuilder, Value
from glow_frontends.graph.errors import RuleError

#: A blob's value: filled by the init net, or computed.
Blob = Array | Value


@dataclass
class Node:
    """Inputs and arguments of one operator, and the graph under construction."""

    op: Any
    graph: GraphBuilder
    blobs: dict[str, Blob]
    constants: dict[str, Value]

    def __len__(self) -> int:
        return len(self.op.input)

    @property
    def outputs(self) -> int:
        """How many blobs the operator makes."""
        return len(self.op.output)

    def blob(self, index: int) -> Blob:
        """Input `index`, as an array where the init net fills it."""
        if index >= len(self.op.input):
            raise RuleError(f"input {index} is missing")
        name = self.op.input[index]
        if name not in self.blobs:
            raise RuleError(f"the blob '{name}' is not defined")
        return self.blobs[name]

    def array(self, index: int, what: str) -> Array:
        """Input `index`, which the init net must fill."""
        value = self.blob(index)
        if isinstance(value, Value):
            raise RuleError(f"{what} '{self.op.input[index]}' is not a weight of the init net")
        return value

    def __getitem__(self, index: int) -> Value:
        value = self.blob(index)
        if isinstance(value, Value):
            return value
        name = self.op.input[index]
        if name not in self.constants:
            self.constants[name] = self.graph.constant(value, self._free(name))
        return self.constants[name]

    def _free(self, name: str) -> str:
        """A name for a constant: in-place operators may reuse that of an output."""
        return f"{name}_weight"

    def values(self) -> list[Value]:
        """All inputs."""
        return [self[i] for i in range(len(self))]

    # --- arguments ---------------------------------------------------------------------------
    def _argument(self, name: str) -> Any:
        return next((a for a in self.op.arg if a.name == name), None)

    def has(self, name: str) -> bool:
        """Whether the argument is given."""
        return self._argument(name) is not None

    def integer(self, name: str, default: int = 0) -> int:
        """An integer argument."""
        argument = self._argument(name)
        return default if argument is None or not argument.HasField("i") else int(argument.i)

    def number(self, name: str, default: float = 0.0) -> float:
        """A float argument; integers count."""
        argument = self._argument(name)
        if argument is None:
            return default
        return float(argument.f) if argument.HasField("f") else float(argument.i)

    def text(self, name: str, default: str = "") -> str:
        """A string argument."""
        argument = self._argument(name)
        return default if argument is None else argument.s.decode("utf-8", "replace")

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """A list of integers."""
        argument = self._argument(name)
        return tuple(default) if argument is None else tuple(int(i) for i in argument.ints)

    def numbers(self, name: str) -> Array:
        """A list of floats, as float32."""
        argument = self._argument(name)
        return np.array([] if argument is None else argument.floats, np.float32)

    def layout(self) -> str:
        """NCHW or NHWC, by the argument `order`."""
        return self.text("order", "NCHW") or "NCHW"
