"""HostedModel: a whole ONNX model run in segments, with lists, None and strings at its border."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from onnx import ModelProto, TypeProto

from glow_dialects.core.errors import BindingError
from glow_dialects.core.types import Array
from glow_frontends.onnx.model import domain_of, opened, opsets, runtime_inputs
from glow_frontends.onnx.segments import Build, GraphRunner, Setting, Values
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue, MapValue, NoneValue, SequenceValue


class HostedModel:
    """A model whose graph is not static. Its segments are compiled by `build`, and kept.

    `replaced` inputs have default values that callers replace.
    """

    def __init__(
        self,
        model: ModelProto,
        source: str,
        folder: Path | None,
        build: Build,
        replaced: Container[str] = (),
    ) -> None:
        model = opened(model, replaced)
        functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        versions = {"": 1, **opsets(model.opset_import)}
        self.setting = Setting(source, folder, functions, versions, build)
        self.runner = GraphRunner(self.setting, model.graph)
        self.types = {i.name: i.type for i in runtime_inputs(model)}
        self.outputs = [o.name for o in model.graph.output]

    def run(self, inputs: Mapping[str, Any], fixed: Mapping[str, Array]) -> dict[str, Any]:
        """Outputs by name; the contents of `fixed` inputs are part of the specialisation."""
        values: Values = {n: to_host(v, self.types[n]) for n, v in inputs.items()}
        results = self.runner.run(values, dict(fixed))
        return {n: from_host(v) for n, v in zip(self.outputs, results, strict=True)}


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
        raise BindingError("a list of unequal parts where a tensor is expected") from None
    return array.astype(object) if array.dtype.kind in "US" else array


def from_host(value: AnyValue) -> Any:
    """The inverse of `to_host`."""
    if isinstance(value, SequenceValue):
        return [from_host(v) for v in value.items]
    if isinstance(value, NoneValue):
        return None
    if isinstance(value, MapValue):
        return value.entries
    assert isinstance(value, np.ndarray)
    return np.array(value) if not value.flags.writeable or value.base is not None else value
