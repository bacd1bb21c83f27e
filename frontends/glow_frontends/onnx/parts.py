"""Parts of ONNX models: other outputs, some of the nodes, inner values as inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_frontends.onnx.model import load, sort_nodes, uses


def read_whole(path: str | Path) -> ModelProto:
    """The model of a file with its external data, nodes in order; GlowError where they are not there."""
    model = load(path)
    try:
        onnx.load_external_data_for_model(model, str(Path(path).resolve().parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise GlowError(f"{path}: external data: {error}") from None
    nodes = sort_nodes(model.graph.node, str(path))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def serialized(model: ModelProto) -> bytes:
    """The model as the bytes of a file; GlowError where these would be more than such a file holds."""
    try:
        return model.SerializeToString()
    except Exception as error:  # protobuf has an exception of its own for it in each version
        raise GlowError(f"the model does not fit in one file of 2 GiB: {error}") from None


def write(path: Path, model: ModelProto) -> None:
    """Write a model whole or not at all."""
    from glow_dialects.core.files import whole

    data = serialized(model)
    with whole(path) as temporary:
        temporary.write_bytes(data)


def constants(model: ModelProto) -> set[str]:
    """The names of values that no input of a run decides, and no random numbers."""
    known = {w.name for w in model.graph.initializer} | {
        w.values.name for w in model.graph.sparse_initializer
    }
    known -= {i.name for i in model.graph.input}
    for node in model.graph.node:
        if uses(node) <= known and not node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            known.update(filter(None, node.output))
    return known


def weights(model: ModelProto) -> dict[str, Array]:
    """The initializers of a model."""
    return {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with these outputs and no others."""
    declared = {o.name: o for o in model.graph.output}
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend(declared.get(n) or onnx.ValueInfoProto(name=n) for n in names)
    return made


def ends(nodes: Sequence[NodeProto]) -> list[str]:
    """The values of nodes that none of them reads."""
    read = {name for node in nodes for name in uses(node)}
    return [o for node in nodes for o in node.output if o and o not in read]


def part(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    known: Mapping[str, Array] | None = None,
    outputs: Mapping[str, Array | None] | None = None,
) -> ModelProto:
    """Some of the nodes, on `inputs` with the forms of arrays, and weights with the values of `known`.

    `outputs` are given with what they have the type of, where that is known; without them they are the
    values that none of the nodes reads.
    """
    known = known or {}
    used = {name for node in nodes for name in uses(node)}
    wanted = dict.fromkeys(ends(nodes)) if outputs is None else outputs
    made = ModelProto()
    made.CopyFrom(with_outputs(model, list(wanted)))
    graph = made.graph
    for output in graph.output:
        array = wanted[output.name]
        if array is not None:
            shape = [None] * array.ndim
            output.CopyFrom(helper.make_tensor_value_info(output.name, _type(array), shape))
    for field in (graph.node, graph.input, graph.value_info, graph.initializer, graph.sparse_initializer):
        del field[:]  # pyright: ignore[reportArgumentType]
    graph.node.extend(nodes)
    graph.input.extend(
        helper.make_tensor_value_info(n, _type(a), a.shape) for n, a in inputs.items() if n in used
    )
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in known.items() if n in used)
    given = {*inputs, *known}
    graph.initializer.extend(w for w in model.graph.initializer if w.name in used - given)
    graph.sparse_initializer.extend(
        w for w in model.graph.sparse_initializer if w.values.name in used - given
    )
    return made


def _type(array: Array) -> int:
    if array.dtype.kind in "OUS":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))


def without_tensors(model: ModelProto) -> set[str]:
    """The values that are known to be sequences, optionals or maps."""
    try:
        typed = onnx.shape_inference.infer_shapes(model)
    except Exception:  # of any kind; where nothing is inferred, nothing is known
        return set()
    kinds = {v.name: v.type.WhichOneof("value") for v in typed.graph.value_info}
    return {name for name, kind in kinds.items() if kind in ("sequence_type", "optional_type", "map_type")}
