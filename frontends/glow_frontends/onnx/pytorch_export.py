"""Weights that PyTorch's exporter merged or folded, separate and under their own names again.

`torch.onnx.export` with its optimiser (the default of its newer exporter) keeps one of equal small weights,
so that normalisations that begin with ones share theirs; it turns the weights of linear layers round, which
unties tied ones; and it repeats what is expanded to the batch. That changes nothing in inference, but in
training. The file says which parameters the network had (its signature) and which module each node is of.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from glow_dialects.core.types import Array
from glow_frontends.onnx.model import subgraphs

_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_LINEAR = "torch.nn.modules.linear.Linear"
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class ExportWarning(UserWarning):
    """A file that does not have all parameters of the network that it was made from."""


def signature(model: ModelProto) -> dict[str, bool]:
    """Name -> whether it is a parameter (no buffer), of a network that PyTorch's newer exporter wrote."""
    text = next((p.value for p in model.graph.metadata_props if p.key == _SIGNATURE), "")
    found = re.findall(r"\b(PARAMETER|BUFFER) target='([^']+)'", text)
    return {name: kind == "PARAMETER" for kind, name in found}


def restored(model: ModelProto) -> ModelProto:
    """The model with its parameters as the network had them, as far as the file tells.

    Warns (`ExportWarning`) of parameters that it does not have any more, such as those of normalisations
    that were folded into convolutions.
    """
    parameters = [name for name, own in signature(model).items() if own]
    known = {i.name for i in model.graph.initializer}
    if all(name in known for name in parameters):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    missing = _Restorer(made.graph, parameters).run()
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        warnings.warn(
            f"the exporter folded {len(missing)} of the network's {len(parameters)} parameters into other "
            f"numbers ({names}); torch.onnx.export(..., optimize=False) keeps them, for training",
            ExportWarning,
            stacklevel=2,
        )
    return made


class _Restorer:
    """One graph; `missing` are parameters that are no initializers, in the network's order."""

    def __init__(self, graph: GraphProto, parameters: Iterable[str]) -> None:
        self.graph, self.parameters = graph, set(parameters)
        self.tensors = {i.name: i for i in graph.initializer}
        self.missing = dict.fromkeys(name for name in parameters if name not in self.tensors)
        self.home: dict[str, str] = {}
        """Folded value -> the module that reads it first."""
        self.chosen: dict[tuple[str, str], str] = {}
        """(module, what it reads) -> what it reads instead."""

    def run(self) -> list[str]:
        """Change the graph; returns parameters that are missing still."""
        nodes: list[NodeProto] = []
        for node in self.graph.node:
            scope = _scope(node)
            for place, name in enumerate(node.input if scope is not None else ()):
                tensor = self.tensors.get(name)
                if tensor is None or tensor.data_type not in _FLOATS or max(tensor.dims, default=1) == 1:
                    continue
                key = (scope or "", name)
                if key not in self.chosen:
                    turned = place == 1 and node.op_type == "MatMul" and _module_class(node) == _LINEAR
                    self.chosen[key] = self._own(tensor, key[0], turned, nodes)
                node.input[place] = self.chosen[key]
            nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        read = _read(self.graph)
        kept = [i for i in self.graph.initializer if i.name in read]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        return list(self.missing)

    def _own(self, tensor: TensorProto, scope: str, turned: bool, nodes: list[NodeProto]) -> str:
        """What a module reads instead of a tensor; nodes that make it are added to `nodes`."""
        if tensor.name in self.parameters:
            return self._separated(tensor, scope)
        weight = f"{scope}.weight"
        if turned and len(tensor.dims) == 2 and weight in self.parameters:
            array = np.ascontiguousarray(numpy_helper.to_array(tensor).T)
            if weight in self.missing:
                self._add(array, weight)
            if np.array_equal(numpy_helper.to_array(self.tensors[weight]), array):
                node = helper.make_node("Transpose", [weight], [f"{tensor.name}.{len(nodes)}"], perm=(1, 0))
                nodes.append(node)
                return node.output[0]
        if re.fullmatch(r"expand(_\d+)?", tensor.name):
            return self._once(tensor, scope, nodes)
        home = self.home.setdefault(tensor.name, scope)
        if home != scope and self._lost(scope) and _uniform(tensor):
            return self._copied(tensor, f"{scope}.{tensor.name}")
        return tensor.name

    def _separated(self, tensor: TensorProto, scope: str) -> str:
        """A parameter of another module: the one of this module that was equal to it, where there was one."""
        owner = tensor.name.rpartition(".")[0]
        if scope == owner or scope.startswith(owner + ".") or owner.startswith(scope + ".") or not owner:
            return tensor.name
        lost = self._lost(scope)
        # Layers that begin as copies have names that differ in numbers; tied weights have other names.
        same = [name for name in lost if _numberless(name) == _numberless(tensor.name)]
        last = tensor.name.rpartition(".")[2]
        if not same and _uniform(tensor):
            same = [name for name in lost if name.rpartition(".")[2] == last] or lost
        if not same:
            self.missing.pop(f"{scope}.{last}", None)
            return tensor.name
        return self._copied(tensor, same[0])

    def _once(self, tensor: TensorProto, scope: str, nodes: list[NodeProto]) -> str:
        """What was repeated along the first axis, once, and expanded by a node."""
        array = numpy_helper.to_array(tensor)
        lost = [name for name in self._lost(scope) if "." not in name.removeprefix(f"{scope}.")]
        if not lost or (array != array[:1]).any():
            return tensor.name
        one = self._add(array[:1], lost[0] if len(lost) == 1 else f"{tensor.name}.once")
        shape = self._add(np.array(array.shape, np.int64), f"{tensor.name}.shape")
        nodes.append(helper.make_node("Expand", [one, shape], [f"{tensor.name}.{len(nodes)}"]))
        return nodes[-1].output[0]

    def _lost(self, scope: str) -> list[str]:
        """Missing parameters of a module and of what it contains."""
        prefix = f"{scope}." if scope else ""
        return [name for name in self.missing if name.startswith(prefix)]

    def _copied(self, tensor: TensorProto, name: str) -> str:
        return self._add(numpy_helper.to_array(tensor), name)

    def _add(self, array: Array, name: str) -> str:
        self.missing.pop(name, None)
        self.tensors[name] = self.graph.initializer.add()
        self.tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def _read(graph: GraphProto) -> set[str]:
    """What nodes, also those of branches, and outputs are made of."""
    found = {o.name for o in graph.output} | {name for node in graph.node for name in node.input}
    return found.union(*(_read(inner) for node in graph.node for inner in subgraphs(node)))


def _listed(node: NodeProto, key: str) -> list[str]:
    """A list of names that PyTorch notes at a node."""
    text = next((p.value for p in node.metadata_props if p.key == key), "[]")
    try:
        return [str(name) for name in ast.literal_eval(text)]
    except (SyntaxError, ValueError):
        return []


def _scope(node: NodeProto) -> str | None:
    """The path of the innermost module that a node is of; calls of one module count as one."""
    names = _listed(node, _SCOPES)
    return re.sub(r"@\d+", "", names[-2]) if len(names) > 1 else None


def _module_class(node: NodeProto) -> str:
    names = _listed(node, _CLASSES)
    return names[-2] if len(names) > 1 else ""


def _numberless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _uniform(tensor: TensorProto) -> bool:
    array = numpy_helper.to_array(tensor)
    return bool((array == array.flat[0]).all())
