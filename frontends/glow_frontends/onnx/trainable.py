"""ONNX models for training: weights are imported as trainable placeholders under their own names."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from ml_dtypes import finfo
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_dialects.core.attributes import Resource, ResourceAttr
from glow_dialects.core.name_patterns import selected
from glow_dialects.core.symbols import Symbols
from glow_dialects.core.types import Array
from glow_dialects.ops.module import placeholders
from glow_frontends.graph.module import NAME_ATTRIBUTE
from glow_frontends.onnx.buffers import PARAMETER, classify
from glow_frontends.onnx.hoist import with_weights_outside
from glow_frontends.onnx.importer import import_model
from glow_frontends.onnx.model import copied, load, runtime_inputs, subgraphs
from glow_frontends.onnx.pytorch_export import ExportWarning, constants, restored, signature

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "MatMul", "PRelu", "Pow", "Max", "Min", "Sum")
#: Operator -> operands that make an initializer a weight. Sizes, limits, scales stay constants.
WEIGHTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_ARITHMETIC, tuple(range(8))),
    **dict.fromkeys(("Conv", "ConvTranspose"), (1, 2)),
    **dict.fromkeys(("Gemm",), (0, 1, 2)),
    **dict.fromkeys(("BatchNormalization",), (1, 2, 3, 4)),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization", "LayerNormalization"), (1, 2)),
    **dict.fromkeys(("RMSNormalization", "SkipLayerNormalization"), (1, 2, 3)),
    "LSTM": (1, 2, 3, 5, 6, 7),
    **dict.fromkeys(("GRU", "RNN"), (1, 2, 3, 5)),
    **dict.fromkeys(("Gather", "Transpose", "Reshape", "Identity", "Unsqueeze", "Squeeze"), (0,)),
    **dict.fromkeys(("Flatten", "Cast", "Expand", "Tile", "Slice"), (0,)),
    **dict.fromkeys(("Concat", "Einsum"), tuple(range(8))),
}
#: Operators whose operands, but for the first, are not differentiated: these are no weights.
_SETTINGS = (
    *("Resize", "Upsample", "Pad", "Clip", "Dropout", "Range", "OneHot", "TopK", "NonMaxSuppression"),
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConstantOfShape", "RoiAlign"),
)
#: Operators that masks are added to or multiply.
_MASKED = ("Add", "Sub", "Mul", "Div", "Where", "Max", "Min", "Equal", "Cast", "Slice", "Unsqueeze")
#: Initial states of recurrent operators.
_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
#: Running statistics: state that training updates without gradients.
STATISTICS: dict[str, tuple[int, ...]] = {"BatchNormalization": (3, 4)}


#: Larger entries stand for infinity, as do the largest numbers of small types.
INFINITE = 1e9
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _by_pytorch(model: ModelProto) -> bool:
    return model.producer_name == "pytorch"


def import_trainable(
    model: ModelProto | str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    names: Sequence[str] = ("*",),
    batch: int | None = None,
    values: Mapping[str, Array] | None = None,
    sizes: Symbols | None = None,
) -> ModuleOp:
    """The module of a model whose floating-point weights that match one of `names` are trainable.

    `batch` binds the first dimension of inputs where it is symbolic and `shapes` does not; `values`
    are inputs that are known, which the trained model does not have any more. Dimensions that nothing
    binds become symbols of `sizes`. Running statistics of
    normalisations become state. Raises GlowError where a pattern matches no weight, and what
    `import_model` raises.
    """
    folder = Path(".")
    if not isinstance(model, ModelProto):
        folder = Path(model).parent
        model = load(model)
    model = _without_modes(_untied(with_weights_outside(restored(model))))
    arrays = _weights(model, folder, names)
    chosen = {n: arrays[n] for n in selected(arrays, names)}
    open_model = _opened(model, chosen)
    bound = {**_batch_shapes(runtime_inputs(model), batch), **dict(shapes or {})}
    module = import_model(open_model, shapes=bound, values=values, training=True, sizes=sizes)
    statistics = _used_as(model.graph, STATISTICS)
    for symbol, op in placeholders(module).items():
        if symbol in (values or {}):
            op.detach()
            op.erase()
            continue
        attribute = op.attributes.get(NAME_ATTRIBUTE)
        name = attribute.data if isinstance(attribute, StringAttr) else symbol
        if name in chosen:
            op.properties["kind"] = StringAttr("state" if name in statistics else "trainable")
            op.properties["init"] = ResourceAttr(Resource(symbol, chosen[name]))
    return module


def _weights(model: ModelProto, folder: Path, patterns: Sequence[str] = ("*",)) -> dict[str, Array]:
    """Floating-point initializers that are used as weights and as no operator's setting.

    Those with the names of PyTorch's modules are weights whatever reads them, and numbers among them too.
    What has entries that stand for infinity is a mask, and so is what has two values, one of them zero, and
    only meets other values element by element. Initial states of zeros are no weights. Where the model tells
    its parameters, others are weights only in place of those that it has no more. Where one of PyTorch does
    not, what may be a buffer is a weight, with a warning unless `patterns` name weights.
    """
    graph, told, nodes = model.graph, signature(model), _nodes(model.graph)
    statistics = _used_as(graph, STATISTICS)
    good, bad = _used_as(graph, WEIGHTS), {o.name for o in graph.output}
    named = {i.name for i in graph.initializer if _by_pytorch(model) and PARAMETER.fullmatch(i.name)}
    for node in nodes:
        if node.op_type in _SETTINGS:
            bad |= set(node.input[1:])
    bad |= {name for name, parameter in told.items() if not parameter and name not in statistics}
    bad |= constants(model)
    if told:
        bad |= {i.name for i in graph.initializer if max(i.dims, default=1) == 1 and i.name not in told}
    doubtful = {n for node in nodes if node.op_type in _MASKED for n in node.input}
    doubtful -= {n for node in nodes if node.op_type not in _MASKED for n in node.input}
    states = _used_as(graph, _STATES)
    parameters = {name for name, own in told.items() if own}
    weights, masks = dict[str, Array](), set[str]()
    for proto in graph.initializer:
        if proto.name not in bad and (proto.name in named or (proto.name in good and proto.dims)):
            array = numpy_helper.to_array(proto, base_dir=str(folder))
            if array.dtype.name not in _FLOATS:
                continue
            if _has_infinity(array):
                masks.add(proto.name)
                continue
            mask = proto.name in doubtful and _two_valued(array)
            if proto.name in parameters or not (mask or (proto.name in states and not array.any())):
                weights[proto.name] = array
    return weights if told or not _by_pytorch(model) else _without_buffers(model, weights, masks, patterns)


def _without_buffers(
    model: ModelProto, arrays: Mapping[str, Array], masks: Collection[str], patterns: Sequence[str]
) -> dict[str, Array]:
    """Without what are buffers, unless a pattern is the name; warns of what may be one."""
    statistics = _used_as(model.graph, STATISTICS)
    asked = {n: a for n, a in arrays.items() if n not in statistics}
    buffers, unknown = classify(model, asked, masks, _nodes(model.graph))
    if unknown and tuple(patterns) == ("*",):
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        warnings.warn(
            "the file does not distinguish parameters and buffers: "
            f"{', '.join(unknown[:8])}{more} may be either; "
            f"they are trained: trainable=['*', '!{unknown[0]}'] excludes some",
            ExportWarning,
            stacklevel=2,
        )
    return {n: a for n, a in arrays.items() if n not in buffers or n in patterns}


def _two_valued(array: Array) -> bool:
    """Whether all entries are zero or one other number, and both occur more than once."""
    others = array[array != 0]
    return bool(1 < others.size < array.size - 1 and (others == others[0]).all())


def _has_infinity(array: Array) -> bool:
    """Whether entries stand for infinity, as in masks, or are no numbers."""
    return not (np.abs(array.astype(np.float64)) < min(INFINITE, float(finfo(array.dtype).max))).all()


def _untied(model: ModelProto) -> ModelProto:
    """Weights that an exporter merged because they were equal are weights of their own again.

    b = Identity(a), a an initializer  ->  initializer b. PyTorch writes this for equal weights of any
    rank (layers that begin as copies of one), and shared ones under one name; other exporters for
    what is shared, too, so that of theirs only vectors, which are equal by chance, are separated.
    """
    vectors = {i.name: i for i in model.graph.initializer if _by_pytorch(model) or len(i.dims) <= 1}
    copies = [n for n in model.graph.node if n.op_type == "Identity" and n.input[0] in vectors]
    if not copies:
        return model
    gone = {n.output[0] for n in copies}
    kept = [n for n in model.graph.node if not (n.op_type == "Identity" and n.output[0] in gone)]
    model_with_weights = copied(model, kept, model.graph.initializer)
    for node in copies:
        copy = model_with_weights.graph.initializer.add()
        copy.CopyFrom(vectors[node.input[0]])
        copy.name = node.output[0]
    return model_with_weights


def _without_modes(model: ModelProto) -> ModelProto:
    """Normalisations in training mode as those of inference, whose running statistics are state.

    y, mean', variance' = BatchNormalization(..., training_mode=1)  ->  y = BatchNormalization(...)
    """
    used = {name for node in _nodes(model.graph) for name in node.input}
    used |= {o.name for o in model.graph.output}

    def plain(node: NodeProto) -> NodeProto:
        modes = {a.name: a for a in node.attribute if a.name in ("training_mode", "is_test")}
        if node.op_type != "BatchNormalization" or used & set(node.output[1:]):
            return node
        trains = modes["training_mode"].i if "training_mode" in modes else modes or len(node.output) > 1
        if not trains:
            return node
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.output[1:]
        for attribute in copy.attribute:
            if attribute.name in modes:
                attribute.i = int(attribute.name == "is_test")
        return copy

    nodes_before = list(model.graph.node)
    nodes = [plain(n) for n in nodes_before]
    same = all(n is m for n, m in zip(nodes, nodes_before, strict=True))
    return model if same else copied(model, nodes, model.graph.initializer)


def _nodes(graph: GraphProto) -> list[NodeProto]:
    nodes = list(graph.node)
    for node in graph.node:
        for inner in subgraphs(node):
            nodes += _nodes(inner)
    return nodes


def _used_as(graph: GraphProto, places: Mapping[str, tuple[int, ...]]) -> set[str]:
    return {
        node.input[i] for node in _nodes(graph) for i in places.get(node.op_type, ()) if i < len(node.input)
    }


def _opened(model: ModelProto, chosen: Mapping[str, Array]) -> ModelProto:
    """The model with the chosen initializers as inputs."""
    kept = [i for i in model.graph.initializer if i.name not in chosen]
    copy = copied(model, model.graph.node, kept)
    listed = {i.name for i in copy.graph.input}
    for name, array in chosen.items():
        if name not in listed:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            copy.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    return copy


def _batch_shapes(inputs: Sequence[ValueInfoProto], batch: int | None) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs whose first dimension alone is symbolic."""
    shapes: dict[str, tuple[int, ...]] = {}
    for info in inputs if batch is not None else ():
        dims = [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim]
        if dims and dims[0] in (None, 0) and None not in dims[1:]:
            shapes[info.name] = (batch or 0, *(d or 0 for d in dims[1:]))
    return shapes
