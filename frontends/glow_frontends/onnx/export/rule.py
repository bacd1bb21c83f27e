"""The base of export rules: the nodes and initializers that they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from xdsl.ir import SSAValue

from glow_dialects.core.conditions import Symbol
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.estimates import has_extents
from glow_dialects.core.extent import Atom, Computed, Extent, Product, is_open
from glow_dialects.core.types import Array, dtype_of
from glow_frontends.onnx.tensors import onnx_type


class Exporter:
    """Nodes of one function; rules write through `node` and `constant`."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._known: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        #: What computes sizes that only the run tells.
        self.sizes = Sizes(self)

    def fresh(self, hint: str) -> str:
        """An unused name like `hint`."""
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name

    def name(self, value: SSAValue) -> str:
        """The ONNX name of a value."""
        return self.names[value]

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns its output name, or the list of them."""
        names = [self.fresh(f"{kind.lower()}_out") for _ in range(outputs)]
        present = {n: v for n, v in attributes.items() if v is not None}
        if any(has_extents(v) for v in present.values()):
            raise UnsupportedError(f"attributes of {kind} are numbers: it has no dynamic sizes in ONNX")
        self.nodes.append(helper.make_node(kind, list(inputs), names, self.fresh(kind), **present))
        return names[0] if outputs == 1 else names

    def constant(self, array: Array, hint: str = "const") -> str:
        """An initializer; small equal ones are written once."""
        key = (array.dtype.name, array.tobytes(), array.shape) if array.nbytes < 1024 else None
        if key is not None and key in self._known:
            return self._known[key]
        name = self.fresh(hint)
        self.initializers.append(tensor_proto(array, name))
        if key is not None:
            self._known[key] = name
        return name

    def ints(self, *values: int) -> str:
        """A 1-D int64 initializer, or what computes one from the sizes of the inputs."""
        if not is_open(values):
            return self.constant(np.array(values, np.int64))
        parts = [self.sizes.vector(v) for v in values]
        return self.node("Concat", parts, axis=0) if len(parts) > 1 else parts[0]

    def scalar(self, value: float, like: SSAValue) -> str:
        """A rank-0 initializer with the element type of `like`."""
        return self.constant(np.array(value, element_dtype(like)))


class Sizes:
    """Sizes that only the run tells, as nodes that compute them from the shapes of inputs."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        #: Of each symbol an input, its axis, and by how much and from what on that counts it.
        self._origins: dict[Symbol, tuple[str, int, int, int]] = {}
        self._made: dict[Extent | Symbol, str] = {}

    def input(self, name: str, shape: Sequence[int]) -> None:
        """Learn where symbols stand in the shape of an input."""
        for axis, extent in enumerate(shape):
            linear = extent.linear if isinstance(extent, Extent) else None
            if linear is not None:
                factor, symbol, constant = linear
                self._origins.setdefault(symbol, (name, axis, factor, constant))

    def vector(self, value: int) -> str:
        """The name of a vector of one int64."""
        if not isinstance(value, Extent):
            return self._exporter.ints(value)
        if value not in self._made:
            terms = [self._term(product, factor) for product, factor in value.terms.items()]
            self._made[value] = self._joined("Add", terms)
        return self._made[value]

    def _joined(self, kind: str, parts: Sequence[str]) -> str:
        total, *others = parts
        for part in others:
            total = self._exporter.node(kind, [total, part])
        return total

    def _term(self, product: Product, factor: int) -> str:
        numbers = [self._exporter.ints(factor)] if factor != 1 or not product else []
        return self._joined("Mul", [*numbers, *map(self._atom, product)])

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self._symbol(atom)
        if isinstance(atom, Computed):
            raise UnsupportedError(f"ONNX has no form of the size {atom}")
        parts = self.vector(atom.top), self.vector(atom.bottom)
        return self._exporter.node("Div" if atom.kind == "//" else "Mod", parts)

    def _symbol(self, symbol: Symbol) -> str:
        if symbol in self._made:
            return self._made[symbol]
        if symbol not in self._origins:
            raise UnsupportedError(f"no input has the size {symbol}, which the graph computes with")
        name, axis, factor, constant = self._origins[symbol]
        size = self._exporter.node("Shape", [name], start=axis, end=axis + 1)
        if constant:
            size = self._exporter.node("Sub", [size, self._exporter.ints(constant)])
        if factor != 1:
            size = self._exporter.node("Div", [size, self._exporter.ints(factor)])
        self._made[symbol] = size
        return size


Rule = Callable[[Any, Exporter], "str | Sequence[str]"]


def element_dtype(value: SSAValue) -> np.dtype:
    """The NumPy dtype of a value's elements."""
    return dtype_of(value.type)  # pyright: ignore[reportArgumentType]


def tensor_proto(array: Array, name: str) -> TensorProto:
    """An ONNX tensor of any of our element types."""
    dtype = array.dtype
    if dtype.name in ("int4", "uint4"):
        return helper.make_tensor(name, onnx_type(dtype), array.shape, array.reshape(-1).tolist())
    proto = numpy_helper.from_array(np.asarray(array, order="C"), name)
    proto.data_type = onnx_type(dtype)
    return proto
