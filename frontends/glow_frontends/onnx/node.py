"""Node: one ONNX node as its rule sees it, inputs resolved and attributes decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto
from xdsl.ir import SSAValue

from glow_dialects.core.errors import Problem
from glow_dialects.core.types import Array
from glow_frontends.graph import BoundedValue, NeedsHost, RuleError, Value
from glow_frontends.onnx.tensors import from_sparse, to_array
from glow_frontends.onnx.values import AnyValue, HostValue, MapValue, NoneValue, SequenceValue


class EnclosingGraph(Protocol):
    """The questions that rules may ask of a node's graph."""

    @property
    def folder(self) -> Path | None:
        """Where external data lie."""
        ...

    @property
    def control(self) -> bool:
        """Whether branches and loops that run-time data decide become operations with bodies."""
        ...

    @property
    def problems(self) -> list[Problem]:
        """The problems of the model so far."""
        ...

    def read(self, name: str) -> AnyValue:
        """The value called `name`."""
        ...

    def subgraph(self, graph: GraphProto, inputs: Sequence[AnyValue] = ()) -> list[AnyValue]:
        """Import a subgraph in place, its inputs bound, and return its outputs."""
        ...

    def expand(self, node: Node) -> list[AnyValue | None]:
        """A standard operator by its published function body."""
        ...


@dataclass
class Node:
    """Inputs (None = absent), attributes, opset version of the node's domain.

    `padded`: inputs have places behind their length, whose contents mean nothing (see `bounds`).
    """

    proto: NodeProto
    opset: int
    inputs: list[AnyValue | None]
    attributes: dict[str, AttributeProto]
    scope: EnclosingGraph
    padded: bool = False

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.proto.op_type

    @property
    def outputs(self) -> int:
        """How many outputs the node lists."""
        return len(self.proto.output)

    def wants(self, index: int) -> bool:
        """Whether output `index` is used."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    # --- inputs ------------------------------------------------------------------------------
    def any_input(self, index: int) -> AnyValue | None:
        """Input `index`, of whatever kind; None where absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def get(self, index: int) -> Value | None:
        """The tensor at input `index`; None where absent."""
        value = self.any_input(index)
        if isinstance(value, HostValue | BoundedValue):
            raise NeedsHost(self.op)
        if isinstance(value, SequenceValue | NoneValue | MapValue):
            raise RuleError(f"input {index} is not a tensor")
        return value

    def __getitem__(self, index: int) -> Value:
        value = self.get(index)
        if value is None:
            raise RuleError(f"input {index} is missing")
        return value

    def sequence(self, index: int) -> SequenceValue:
        """The sequence at input `index`."""
        value = self.any_input(index)
        if isinstance(value, HostValue):
            raise NeedsHost(self.op)
        if not isinstance(value, SequenceValue):
            raise RuleError(f"input {index} is not a sequence")
        return value

    def tensors(self, first: int = 0) -> list[Value]:
        """All tensors from input `first` on."""
        return [self[i] for i in range(first, len(self.inputs))]

    # --- attributes --------------------------------------------------------------------------
    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self.attributes

    def _typed(self, name: str, default: Any, kind: int, read: Callable[[AttributeProto], Any]) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is REQUIRED:
                raise RuleError(f"attribute '{name}' is missing")
            return default
        if attribute.type not in (kind, AttributeProto.UNDEFINED):
            raise RuleError(f"attribute '{name}' has the wrong type")
        return read(attribute)

    def integer(self, name: str, default: Any = None) -> Any:
        """An integer attribute."""
        return self._typed(name, default, AttributeProto.INT, lambda a: int(a.i))

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that means yes or no."""
        return bool(self.integer(name, int(default)))

    def number(self, name: str, default: Any = None) -> Any:
        """A float attribute."""
        return self._typed(name, default, AttributeProto.FLOAT, lambda a: float(a.f))

    def text(self, name: str, default: Any = None) -> Any:
        """A string attribute."""
        return self._typed(name, default, AttributeProto.STRING, lambda a: a.s.decode("utf-8", "replace"))

    def integers(self, name: str, default: Any = None) -> Any:
        """A tuple of integers."""
        return self._typed(name, default, AttributeProto.INTS, lambda a: tuple(int(i) for i in a.ints))

    def numbers(self, name: str, default: Any = None) -> Any:
        """A tuple of floats."""
        return self._typed(name, default, AttributeProto.FLOATS, lambda a: tuple(float(i) for i in a.floats))

    def texts(self, name: str, default: Any = None) -> Any:
        """A tuple of strings."""
        return self._typed(
            name,
            default,
            AttributeProto.STRINGS,
            lambda a: tuple(s.decode("utf-8", "replace") for s in a.strings),
        )

    def tensor(self, name: str) -> Array | None:
        """A tensor attribute, dense."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        if attribute.type == AttributeProto.SPARSE_TENSOR:
            return from_sparse(attribute.sparse_tensor, self.scope.folder)
        return self._typed(name, None, AttributeProto.TENSOR, lambda a: to_array(a.t, self.scope.folder))

    def graph(self, name: str) -> GraphProto:
        """A subgraph."""
        return self._typed(name, REQUIRED, AttributeProto.GRAPH, lambda a: a.g)


REQUIRED = object()


def known_inputs(node: Node) -> list[Array | None]:
    """All inputs as arrays (None = absent); raises NeedsHost where one is only known at run time."""
    values = [node.get(i) for i in range(len(node.inputs))]
    if any(isinstance(v, SSAValue) for v in values):
        raise NeedsHost(node.op)
    return [v if isinstance(v, np.ndarray) else None for v in values]


Result = AnyValue | Sequence[AnyValue | None]
