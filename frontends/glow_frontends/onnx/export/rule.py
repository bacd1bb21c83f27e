"""The base of export rules: the nodes and initializers that they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from xdsl.ir import SSAValue

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
        """A 1-D int64 initializer."""
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float, like: SSAValue) -> str:
        """A rank-0 initializer with the element type of `like`."""
        return self.constant(np.array(value, element_dtype(like)))


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
