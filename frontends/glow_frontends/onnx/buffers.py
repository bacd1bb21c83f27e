"""Recognising buffers in files of PyTorch's script exporter, which does not mark them.

Names, contents and places decide where they can. A module's parameters stand before its buffers in the file,
so that one that is known tells of others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from glow_dialects.core.types import Array

#: Names that PyTorch's exporters give to parameters and buffers, not to constants of the graph.
PARAMETER = re.compile(r"(?!val_\d|scalar_|constant|_?lifted|_?tensor_constant)([A-Za-z_]|\d+\.)[\w.]*")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
#: The names of parameters and buffers in torch.nn's own modules.
_OWN = re.compile(r"(.*_)?(weight|bias)(_.*)?|original\d?")
_BUFFER = re.compile(r"running_(mean|var)|num_batches_tracked|position_ids|token_type_ids|inv_freq|_[uv]")
#: Names of values that the exporter computed; of operators that only take weights.
_FOLDED = re.compile(r"onnx::(?!MatMul|Gemm|Conv|LSTM|GRU|RNN|Gather_|BatchNorm|LayerNorm|InstanceNorm)\w+")
#: Operators that pass an input on as it is.
_PASSING = ("Cast", "Identity", "Transpose", "Unsqueeze", "Squeeze", "Reshape")


def classify(
    model: ModelProto, floats: Mapping[str, Array], buffers: Collection[str], nodes: Sequence[NodeProto]
) -> tuple[set[str], list[str]]:
    """(what are buffers, what may be parameters or buffers) of the initializers `floats`.

    `buffers` are other initializers that are known to be such, as integers are.
    """
    names = [i.name for i in model.graph.initializer]
    scaled = _scaling(model, nodes)
    known = dict.fromkeys(_of_groups(nodes), True) | dict.fromkeys(buffers, False)
    known |= {i.name: False for i in model.graph.initializer if i.data_type not in _FLOATS}
    for name in names:
        leaf = name.rpartition(".")[2]
        if _BUFFER.fullmatch(leaf) or name in scaled or _iterated(name, names):
            known[name] = False
        elif _OWN.fullmatch(leaf):
            known[name] = True
    tables = {n: a for n, a in floats.items() if not known.get(n, False)}
    known |= dict.fromkeys(_of_angles(tables), False)
    by_module: dict[str, list[str]] = {}
    for name in names:
        if PARAMETER.fullmatch(name):
            by_module.setdefault(name.rpartition(".")[0], []).append(name)
    for members in by_module.values():
        _spread(members, known)
    fixed = {n for n in floats if known.get(n) is False}
    unknown = [n for n in floats if n not in known and (PARAMETER.fullmatch(n) or _FOLDED.fullmatch(n))]
    return fixed, unknown


def _spread(members: Sequence[str], known: dict[str, bool]) -> None:
    """What stands before a parameter of a module is one, what stands behind a buffer is one."""
    parameters = [i for i, name in enumerate(members) if known.get(name) is True]
    buffers = [i for i, name in enumerate(members) if known.get(name) is False]
    last, first = max(parameters, default=-1), min(buffers, default=len(members))
    if last < first:
        known |= {n: True for n in members[: last + 1]} | dict.fromkeys(members[first:], False)


def _iterated(name: str, names: Sequence[str]) -> bool:
    """Whether it is a vector that spectral_norm iterates, beside the weight itself."""
    return name.endswith(("_u", "_v")) and f"{name[:-2]}_orig" in names


def _scaling(model: ModelProto, nodes: Sequence[NodeProto]) -> set[str]:
    """Constants subtracted from an input of the model, or dividing it: its mean and deviation."""
    initializers = {i.name for i in model.graph.initializer}
    inputs = {i.name for i in model.graph.input} - initializers
    scales: set[str] = set()
    for node in nodes:
        if not node.input or node.input[0] not in inputs:
            continue
        if node.op_type in ("Sub", "Div") and node.input[1] in initializers:
            scales.add(node.input[1])
            inputs.add(node.output[0])
        elif node.op_type in _PASSING:
            inputs.add(node.output[0])
    return scales


def _of_groups(nodes: Sequence[NodeProto]) -> set[str]:
    """Scale and shift of a normalisation by groups, which the exporter reshapes."""
    after = {"InstanceNormalization": "Reshape", "Reshape": "Mul", "Mul": "Add"}
    kinds: dict[str, str] = {}
    names: set[str] = set()
    for node in nodes:
        follows = bool(node.input) and kinds.get(node.input[0]) == node.op_type
        if follows or node.op_type == "InstanceNormalization":
            kinds[node.output[0]] = after.get(node.op_type, "")
            names |= set(node.input[1:])
    return names


def _of_angles(arrays: Mapping[str, Array]) -> set[str]:
    """Tables of sines and cosines, in one array or in two of the same shape."""
    names: set[str] = set()
    by_shape: dict[tuple[int, ...], list[str]] = {}
    for name, array in arrays.items():
        if array.size < 8 or array.ndim < 2 or np.abs(array).max() > 1.001:
            continue
        half, squares = array.shape[-1] // 2, np.square(array.astype(np.float64))
        if array.shape[-1] % 2 == 0 and half > 1:
            sums = (squares[..., 0::2] + squares[..., 1::2], squares[..., :half] + squares[..., half:])
            if any(_ones(s) for s in sums):
                names.add(name)
        for other in by_shape.setdefault(array.shape, []):
            if _ones(squares + np.square(arrays[other].astype(np.float64))):
                names |= {name, other}
        by_shape[array.shape].append(name)
    return names


def _ones(array: Array) -> bool:
    return bool((np.abs(array - 1) < 1e-3).all())
