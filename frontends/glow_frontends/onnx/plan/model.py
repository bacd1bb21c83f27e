"""ModelPlan: how a whole ONNX model runs, with lists, None and strings at its border."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from onnx import ModelProto, TypeProto

from glow_dialects.core.errors import BindingError
from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_frontends.onnx.importer import Source, bound_inputs
from glow_frontends.onnx.model import opened, runtime_inputs
from glow_frontends.onnx.plan.forms import Form, TensorForm, known_form
from glow_frontends.onnx.plan.graph import GraphPlan, Setting
from glow_frontends.onnx.plan.stage import Compile, Ports, Stage
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue, MapValue, NoneValue, SequenceValue


class ModelPlan:
    """The plan of a model, by node. Its stages are compiled by `compile`, and kept.

    `replaced` inputs have default values that callers replace; `path` is where the model was read from.
    """

    def __init__(
        self, model: ModelProto, path: Path | None, compile: Compile, replaced: Container[str] = ()
    ) -> None:
        self.model = opened(model, replaced)
        source = Source.of(self.model, "model" if path is None else str(path), path)
        self.setting = Setting(source, compile)
        self.types = {i.name: i.type for i in runtime_inputs(self.model)}
        self._numbers = {n for n, kind in self.types.items() if _is_numbers(kind)}
        self.outputs = [o.name for o in self.model.graph.output]
        ports = Ports(list(self.types), self.outputs)
        self.graph = GraphPlan(self.setting, self.model.graph, ports=ports)

    @property
    def hosted(self) -> set[str]:
        """The operators that ran on the host so far."""
        return self.setting.hosted

    def first(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Array]) -> Stage | None:
        """The first stage for shapes and contents of inputs; None where inputs are no tensors of numbers.

        It is not compiled: a `whole` one is the module of a program that needs no plan. Raises
        ImportProblems with every problem of the model, ShapeError where shapes do not fit it.
        """
        if len(self._numbers) != len(self.types):
            return None
        bound = bound_inputs(self.model, shapes, values, self.setting.source.name)
        forms: dict[str, Form] = {n: TensorForm(shape_of(t), dtype_of(t)) for n, t in bound.items()}
        # What are open sizes is none of what tells stages apart: there is one for them.
        forms |= {n: known_form(v) for n, v in values.items() if v.dtype == dtype_of(bound[n])}
        return self.graph.stage(self.graph.all, forms, values)

    def run(
        self, inputs: Mapping[str, Any], known: Mapping[str, Array], first: Stage | None = None
    ) -> dict[str, Any]:
        """Outputs by name; the contents of `known` inputs are part of the specialisation.

        `first` is the `first` stage for these inputs, where the caller has kept it.
        """
        if first is not None and len(self._numbers) == len(self.types):
            ended = self.graph.ended(inputs, first)
            if ended is not None:
                return ended
        values = {
            n: v if n in self._numbers and isinstance(v, np.ndarray) else to_host(v, self.types[n])
            for n, v in inputs.items()
        }
        results = self.graph.run(values, known, first)
        return {n: from_host(v) for n, v in zip(self.outputs, results, strict=True)}


def _is_numbers(kind: TypeProto) -> bool:
    tensor = kind.WhichOneof("value") == "tensor_type"
    return tensor and numpy_type(kind.tensor_type.elem_type) != object


def to_host(value: Any, kind: TypeProto) -> AnyValue:
    """A caller's value: lists are sequences, dictionaries maps, None an empty optional."""
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return NoneValue() if value is None else to_host(value, kind.optional_type.elem_type)
    if which == "sequence_type":
        if not isinstance(value, list | tuple):
            raise BindingError(f"a sequence is a list, got {type(value).__name__}")
        parts = cast(Sequence[Any], value)
        element = kind.sequence_type.elem_type
        dtype = None
        if element.WhichOneof("value") == "tensor_type":
            dtype = numpy_type(element.tensor_type.elem_type)
        return SequenceValue([to_host(v, element) for v in parts], dtype)
    if which == "map_type":
        if not isinstance(value, Mapping):
            raise BindingError(f"a map is a dictionary, got {type(value).__name__}")
        return MapValue(dict(cast(Mapping[str | int, Any], value)))
    try:
        array = np.asarray(value)
    except ValueError:
        raise BindingError("a list with rows of different lengths where a tensor is expected") from None
    return array.astype(object) if array.dtype.kind in "US" else array


def from_host(value: AnyValue) -> Any:
    """The inverse of `to_host`."""
    if isinstance(value, SequenceValue):
        return [v.entries if type(v) is MapValue else from_host(v) for v in value.items]
    if isinstance(value, NoneValue):
        return None
    if isinstance(value, MapValue):
        return value.entries
    assert isinstance(value, np.ndarray)
    return np.array(value) if not value.flags.writeable or value.base is not None else value
