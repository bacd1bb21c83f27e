"""What callers of an ONNX model need: inputs, outputs, and the inputs that shapes depend on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    shape_inference,
)

from glow_frontends.onnx.model import default_inputs, runtime_inputs, subgraphs, uses
from glow_frontends.onnx.tensors import numpy_type

#: Operands whose values (not only shapes) decide a result's shape, by operator.
SHAPE_OPERANDS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "ExpandDims": (1,),
    "GroupQueryAttention": (6,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "RelativePositionBias": (1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SparseAttention": (7,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1, 2),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
#: Operands that count the places taken of a cache, and operands whose axis 2 is the cache, by operator.
CACHE_OPERANDS: dict[str, tuple[int, tuple[int, ...]]] = {
    "GroupQueryAttention": (6, (3, 4)),
    "SparseAttention": (7, (3, 4)),
}
_SHAPE_ONLY = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class Argument:
    """An input or output: name, shape (None where symbolic), dtype.

    `kind` is "tensor", "unranked" (a tensor whose rank the model does not say), or "other" (a
    sequence or an optional).
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype
    kind: str = "tensor"
    #: Names of dimensions, "" where there is none.
    names: tuple[str, ...] = ()


def size_name(dim: TensorShapeProto.Dimension) -> str:
    """The name of a dimension, "" where it has none: "?" is how tools write that they know nothing of it."""
    return "" if dim.dim_param == "?" else dim.dim_param


def _argument(info: ValueInfoProto) -> Argument:
    if info.type.WhichOneof("value") != "tensor_type":
        return Argument(info.name, (), np.dtype(object), "other")
    kind = info.type.tensor_type
    dims = tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in kind.shape.dim
    )
    ranked = "tensor" if kind.HasField("shape") else "unranked"
    return Argument(
        info.name, dims, numpy_type(kind.elem_type), ranked, tuple(map(size_name, kind.shape.dim))
    )


def inputs_of(model: ModelProto) -> list[Argument]:
    """Inputs that a caller binds."""
    return [_argument(i) for i in runtime_inputs(model)]


def defaults_of(model: ModelProto) -> list[Argument]:
    """Inputs that a caller may bind, of tensors that have a value otherwise."""
    return [_argument(i) for i in default_inputs(model)]


def outputs_of(model: ModelProto) -> list[Argument]:
    """Outputs as declared; where one has no shape, as ONNX infers it."""
    outputs = [_argument(o) for o in model.graph.output]
    if all(o.kind != "unranked" for o in outputs):
        return outputs
    try:
        inferred = shape_inference.infer_shapes(model).graph.output
    except Exception:  # of any kind; where nothing is inferred, nothing is known
        return outputs
    known = {name for i in inputs_of(model) for name in i.names}  # others are made up
    found = [
        replace(a, names=tuple(n if n in known else "" for n in a.names)) for a in map(_argument, inferred)
    ]
    return [i if o.kind == "unranked" else o for o, i in zip(outputs, found, strict=True)]


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from nodes_of(inner)


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """The initializers of a graph and of the graphs in it."""
    yield from graph.initializer
    yield from (s.values for s in graph.sparse_initializer)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from tensors_of(inner)


def value_inputs(model: ModelProto) -> list[str]:
    """Inputs whose contents decide a shape, an axis or a branch somewhere in the model.

    Numbers that are computed with are data: float inputs count only where they are such an operand
    themselves (the scales of Resize, the bounds of Range).
    """
    producers: dict[str, NodeProto] = {}
    wanted: list[str] = []
    for node in nodes_of(model.graph):
        producers.update({o: node for o in node.output})
        positions = SHAPE_OPERANDS.get(node.op_type, ())
        if node.op_type.startswith("Reduce"):
            positions = (1,)
        wanted += [node.input[p] for p in positions if p < len(node.input)]
    direct = set(wanted)
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        node = producers.get(name)
        if node is not None and node.op_type not in _SHAPE_ONLY:
            wanted += list(uses(node))
    ports = [*inputs_of(model), *defaults_of(model)]
    return [a.name for a in ports if a.name in (direct if a.dtype.kind == "f" else seen)]


def cache_counts(model: ModelProto) -> dict[str, list[str]]:
    """Inputs that do nothing but count the places taken of caches, with the inputs that are these caches.

    What a count is decides nothing while it is within the caches, whose axis 2 are the places.
    """
    counts: dict[str, set[str]] = {}
    others = {output.name for output in model.graph.output}
    for node in nodes_of(model.graph):
        place, caches = CACHE_OPERANDS.get(node.op_type, (-1, ()))
        for i, name in enumerate(node.input):
            if i == place:
                counts.setdefault(name, set()).update(node.input[c] for c in caches)
            else:
                others.add(name)
    known = {a.name for a in inputs_of(model)}
    return {
        name: sorted(caches)
        for name, caches in counts.items()
        if name in known and name not in others and caches <= known
    }
