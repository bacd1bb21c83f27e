"""Weights that PyTorch's exporter merged or folded, separate and under their own names again.

`torch.onnx.export` with its optimiser (the default of its newer exporter) keeps one of equal weights, so that
normalisations that begin with ones share theirs and their running statistics, and so do layers that begin as
copies; it turns, reshapes and repeats weights ahead, which unties tied ones; it leaves out biases of zeros.
That changes nothing in inference, but in training. The file says which parameters the network had (its
signature) and which module each node is of.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from math import prod

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from glow_dialects.core.types import Array
from glow_frontends.onnx.model import subgraphs

_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_LINEAR = "torch.nn.modules.linear.Linear"
#: Names of values that the network's code makes of nothing or computes, not of a parameter's elements.
_MADE = re.compile(
    r"(zeros|ones|full|empty|arange|eye|tril|triu|scalar_tensor|lift_fresh_copy|_to_copy|where|masked_fill|sin|cos"
    r"|convert_element_type)(_like|_default)?(_\d+)?"
)
#: The parameters of normalisations, as PyTorch's modules call them.
_OPERANDS = ("input", "weight", "bias", "running_mean", "running_var")
#: Gates of ONNX's recurrent operators as places in PyTorch's weights.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class ExportWarning(UserWarning):
    """A file that does not have all parameters of the network that it was made from."""


def signature(model: ModelProto) -> dict[str, bool]:
    """Name -> whether it is a parameter (no buffer), of a network that PyTorch's newer exporter wrote."""
    text = next((p.value for p in model.graph.metadata_props if p.key == _SIGNATURE), "")
    targets = re.findall(r"\b(PARAMETER|BUFFER) target='([^']+)'", text)
    return {name: kind == "PARAMETER" for kind, name in targets}


def constants(model: ModelProto) -> set[str]:
    """Initializers of PyTorch's newer exporter that are no parameter, nor folded from one that is missing."""
    told, known = signature(model), {i.name: i for i in model.graph.initializer}
    if not told:
        return set()
    missing = [name for name, own in told.items() if own and name not in known]
    names = {n for n in known if n not in told and (not missing or _MADE.fullmatch(n))}
    for node in model.graph.node:
        scope = _scope(node)
        whole = not scope or any(name.startswith(f"{scope}.") for name in missing)
        # Operators of group normalisations, and of those without parameters.
        if node.op_type == "InstanceNormalization" or not whole:
            names |= {n for n in node.input[1:] if n in known and n not in told and _uniform(known[n])}
    return names


def restored(model: ModelProto) -> ModelProto:
    """The model with its parameters as the network had them, as far as the file tells.

    Warns (`ExportWarning`) of parameters that it does not have any more, such as those of normalisations
    that were folded into convolutions.
    """
    told = signature(model)
    parameters = [name for name, own in told.items() if own]
    known = {i.name for i in model.graph.initializer}
    folded = any(i.name not in told and _is_weight(i) for i in model.graph.initializer)
    merged = any(True for _ in _normalizations(model.graph, told))
    if not parameters or not (folded or merged or any(name not in known for name in parameters)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    _separate_normalizations(copy.graph, told)
    missing = _Restorer(copy.graph, parameters).run()
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        warnings.warn(
            f"the exporter folded {len(missing)} of the network's {len(parameters)} parameters into other "
            f"numbers ({names}); torch.onnx.export(..., optimize=False) keeps them, for training",
            ExportWarning,
            stacklevel=2,
        )
    return copy


def _normalizations(graph: GraphProto, told: Mapping[str, bool]) -> Iterator[tuple[NodeProto, int, str]]:
    """(node, place, its own name) of what normalisations read in the place of a value that was equal.

    These are running statistics, and the ones and zeros of normalisations without parameters.
    """
    known = {i.name: i for i in graph.initializer}
    for node in graph.node:
        scope = _scope(node)
        if scope is None or not node.op_type.endswith("Normalization"):
            continue
        bare = bool(scope) and not any(n.startswith(f"{scope}.") and own for n, own in told.items())
        for name, place, kind in zip(node.input, range(5), _OPERANDS, strict=False):
            own = f"{scope}.{kind}".removeprefix(".")
            if name not in known or name == own:
                continue
            if told.get(own) is False if place > 2 else bare and name in told and _uniform(known[name]):
                yield node, place, own


def _separate_normalizations(graph: GraphProto, told: Mapping[str, bool]) -> None:
    """Give each normalisation its own parameters."""
    tensors = {i.name: i for i in graph.initializer}
    for node, place, own in list(_normalizations(graph, told)):
        if own not in tensors:
            read = tensors[node.input[place]]
            tensors[own] = graph.initializer.add()
            tensors[own].CopyFrom(read)
            tensors[own].name = own
        node.input[place] = own


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
        self.scopes = {_scope(node) for node in graph.node}
        self.readers: dict[str, set[str | None]] = {}
        """Value read -> modules that read it."""
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, set()).add(_scope(node))
        self.gates: dict[tuple[str, bytes], str] = {}
        """(weight of a recurrent layer, contents) -> what its operators read."""
        self.turned: dict[str, str] = {}
        """Parameter turned round -> the parameter."""

    def run(self) -> list[str]:
        """Change the graph; returns parameters that are missing still."""
        nodes: list[NodeProto] = []
        for node, scope in zip(self.graph.node, _scopes(self.graph), strict=True):
            if node.op_type == "PRelu" and scope is not None:
                node.input[1] = self._slope(node.input[1], f"{scope}.weight".removeprefix("."), nodes)
            for place, name in enumerate(node.input if scope is not None else ()):
                tensor = self.tensors.get(name)
                if tensor is None or not _is_weight(tensor):
                    continue
                key = (scope or "", name)
                if key not in self.chosen:
                    turned = self._turned(node, scope or "") if place == 1 else ""
                    self.chosen[key] = self._own(tensor, key[0], turned, nodes)
                node.input[place] = self.chosen[key]
            nodes.append(node)
        nodes = self._biased(self._viewed(self._recurrent(nodes)))
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        read = _read(self.graph)
        kept = [i for i in self.graph.initializer if i.name in read]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        return list(self.missing)

    def _slope(self, name: str, weight: str, nodes: list[NodeProto]) -> str:
        """The slope of prelu: `weight` reshaped, where `name` was folded from it."""
        tensor = self.tensors.get(name)
        if tensor is None or name in self.parameters or weight not in self.parameters:
            return name
        array = numpy_helper.to_array(tensor)
        if weight in self.missing:
            self._add(array.reshape(-1), weight)
        result = f"{weight}.{name}"
        if result not in self.tensors:
            self._add(np.array(array.shape, np.int64), result)
            nodes.append(helper.make_node("Reshape", [weight, result], [f"{result}.shaped"]))
        return f"{result}.shaped"

    def _turned(self, node: NodeProto, scope: str) -> str:
        """The parameter that a module's product takes turned round: a linear layer's, or the only one."""
        if node.op_type != "MatMul":
            return ""
        if _module_class(node) == _LINEAR:
            return f"{scope}.weight"
        own = [n for n in self._lost(scope) if re.fullmatch(r"\w*weight", n.removeprefix(f"{scope}."))]
        return own[0] if len(own) == 1 else ""

    def _own(self, tensor: TensorProto, scope: str, weight: str, nodes: list[NodeProto]) -> str:
        """The replacement of a tensor that a module reads: `weight` transposed, if one is given.

        Nodes that make it are added to `nodes`.
        """
        if tensor.name in self.parameters:
            return self._separated(tensor, scope)
        if len(tensor.dims) == 2 and weight in self.parameters:
            array = np.ascontiguousarray(numpy_helper.to_array(tensor).T)
            if weight in self.missing:
                self._add(array, weight)
            if np.array_equal(numpy_helper.to_array(self.tensors[weight]), array):
                node = helper.make_node("Transpose", [weight], [f"{tensor.name}.{len(nodes)}"], perm=(1, 0))
                nodes.append(node)
                self.turned[node.output[0]] = weight
                return node.output[0]
        if re.fullmatch(r"expand(_\d+)?", tensor.name):
            return self._once(tensor, scope, nodes)
        home = self.home.setdefault(tensor.name, scope)
        alike = _uniform(tensor) or _numberless(home) == _numberless(scope)
        if home != scope and self._lost(scope) and alike:
            return self._copied(tensor, f"{scope}.{tensor.name}")
        return tensor.name

    def _separated(self, tensor: TensorProto, scope: str) -> str:
        """A parameter of another module: the one of this module that was equal to it, where there was one."""
        owner = tensor.name.rpartition(".")[0]
        if scope == owner or scope.startswith(owner + ".") or owner.startswith(scope + ".") or not owner:
            return tensor.name
        if owner not in self.scopes and len(self.readers[tensor.name]) == 1:
            return tensor.name  # its layer is fused with this module's
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
        """An array repeated along the first axis, stored once and expanded by a node."""
        array = numpy_helper.to_array(tensor)
        lost = [name for name in self._lost(scope) if "." not in name.removeprefix(f"{scope}.")]
        if not lost or (array != array[:1]).any():
            return tensor.name
        one = self._add(array[:1], lost[0] if len(lost) == 1 else f"{tensor.name}.once")
        shape = self._add(np.array(array.shape, np.int64), f"{tensor.name}.shape")
        nodes.append(helper.make_node("Expand", [one, shape], [f"{tensor.name}.{len(nodes)}"]))
        return nodes[-1].output[0]

    def _recurrent(self, nodes: list[NodeProto]) -> list[NodeProto]:
        """Nodes that make the operands of recurrent layers from the network's weights and biases."""
        added: list[NodeProto] = []
        layers = Counter[str]()
        for node in nodes:
            scope, order = _scope(node), _GATES.get(node.op_type)
            if scope is not None and order is not None:
                for place, kinds in enumerate((("weight_ih",), ("weight_hh",), ("bias_ih", "bias_hh")), 1):
                    if place < len(node.input):
                        names = [f"{scope}.{kind}_l{layers[scope]}" for kind in kinds]
                        node.input[place] = self._gates(node.input[place], names, order, added)
                layers[scope] += 1
            added.append(node)
        return added

    def _gates(self, name: str, parameters: list[str], order: tuple[int, ...], nodes: list[NodeProto]) -> str:
        """The operand of a recurrent operator, for one direction or both, as nodes of `parameters`."""
        tensor = self.tensors.get(name)
        if tensor is None:
            return name
        array = numpy_helper.to_array(tensor)
        rows = [[f"{p}{suffix}" for p in parameters] for suffix in ("", "_reverse")[: len(array)]]
        key = parameters[0].rpartition("_l")[0], array.tobytes()
        if name in self.parameters or not all(p in self.missing for row in rows for p in row):
            return self.gates.get(key, name)  # that of the layer's first call
        parts: list[str] = []
        for direction, row in zip(array, rows, strict=True):
            for parameter, block in zip(row, np.split(direction, len(row)), strict=True):
                gates = np.split(block, len(order))
                self._add(np.concatenate([gates[place] for place in np.argsort(order)]), parameter)
                sizes = self._add(np.full(len(order), len(gates[0]), np.int64), f"{parameter}.sizes")
                split = [f"{parameter}.{i}" for i in range(len(order))]
                nodes.append(helper.make_node("Split", [parameter, sizes], split, axis=0))
                parts += [split[i] for i in order]
        joined = f"{rows[0][0]}.gates"
        shape = self._add(np.array(array.shape, np.int64), f"{joined}.shape")
        nodes.append(helper.make_node("Concat", parts, [joined], axis=0))
        nodes.append(helper.make_node("Reshape", [joined, shape], [f"{joined}.shaped"]))
        self.gates[key] = nodes[-1].output[0]
        return self.gates[key]

    def _viewed(self, nodes: list[NodeProto]) -> list[NodeProto]:
        """Nodes in which what was folded from a parameter, turned, reshaped or repeated, is made of it."""
        read = {name for node in nodes for name in node.input} - self.parameters
        folded = {n: t for n, t in self.tensors.items() if n in read and _is_weight(t)}
        arrays = {n: numpy_helper.to_array(t) for n, t in folded.items() if not _uniform(t)}
        once = {n: _without_repeats(a) for n, a in arrays.items()}
        sizes = {a.size for a in once.values()}
        bases: dict[bytes, list[tuple[str, Array]]] = {}

        def like(array: Array) -> list[tuple[str, Array]]:
            return bases.setdefault(np.sort(array, axis=None).tobytes(), [])

        for name in self.parameters & self.tensors.keys():
            tensor = self.tensors[name]
            if _is_weight(tensor) and prod(tensor.dims) in sizes:
                array = numpy_helper.to_array(tensor)
                like(array).append((name, array))
        names: dict[str, str] = {}
        first: list[NodeProto] = []
        for name, array in arrays.items():
            alike = like(once[name])
            views = ((base, order) for base, a in alike if (order := _view(a, once[name])) is not None)
            base, order = next(views, ("", ()))
            if base:
                names[name] = self._view_nodes(base, order, once[name], array, first)
            elif once[name].size == array.size:
                alike.append((name, array))
        for node in nodes if names else ():
            for place, name in enumerate(node.input):
                if name in names:
                    node.input[place] = names[name]
        return first + nodes

    def _view_nodes(
        self, base: str, order: tuple[int, ...], once: Array, whole: Array, nodes: list[NodeProto]
    ) -> str:
        """Nodes base -> reshape -> transpose by `order` -> expand; returns the last one's result."""
        before = [once.shape[order.index(axis)] for axis in range(once.ndim)]
        value = f"{base}.view{len(nodes)}"
        steps = [("Reshape", before), ("Transpose", order), ("Expand", whole.shape)]
        for index, (kind, numbers) in enumerate(steps):
            if kind == "Transpose" and order == tuple(sorted(order)):
                continue
            if kind == "Expand" and once.shape == whole.shape:
                continue
            if kind == "Reshape" and before == list(self.tensors[base].dims):
                continue
            result, operands = f"{value}.{index}", [base]
            if kind != "Transpose":
                operands.append(self._add(np.array(numbers, np.int64), f"{result}.shape"))
            nodes.append(helper.make_node(kind, operands, [result]))
            if kind == "Transpose":
                nodes[-1].attribute.append(helper.make_attribute("perm", list(order)))
            base = result
        return base

    def _biased(self, nodes: list[NodeProto]) -> list[NodeProto]:
        """Nodes with the biases that were left out because they are zeros."""
        added: list[NodeProto] = []
        for node in nodes:
            added.append(node)
            read = node.input[1] if len(node.input) > 1 else ""
            weight = self.turned.get(read, read)
            bias = weight.removesuffix("weight") + "bias"
            if not weight.endswith("weight") or bias not in self.missing or weight not in self.tensors:
                continue
            tensor = self.tensors[weight]
            zeros = np.zeros(tensor.dims[0], numpy_helper.to_array(tensor).dtype)
            if node.op_type in ("Gemm", "Conv") and len(node.input) == 2:
                node.input.append(self._add(zeros, bias))
            elif node.op_type == "MatMul" and read in self.turned:
                result = node.output[0]
                node.output[0] = f"{result}.product"
                added.append(helper.make_node("Add", [node.output[0], self._add(zeros, bias)], [result]))
        return added

    def _lost(self, scope: str) -> list[str]:
        """Missing parameters of a module and its submodules."""
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
    """Every name that nodes, also those of branches, and outputs read."""
    names = {o.name for o in graph.output} | {name for node in graph.node for name in node.input}
    return names.union(*(_read(inner) for node in graph.node for inner in subgraphs(node)))


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


def _scopes(graph: GraphProto) -> list[str | None]:
    """The module of each node; where the exporter does not tell, that of its first reader."""
    readers: dict[str, set[str | None]] = {}
    scopes: list[str | None] = []
    for node in reversed(graph.node):
        scope = _scope(node)
        if scope is None:
            those = set[str | None]().union(*(readers.get(name, ()) for name in node.output))
            scope = those.pop() if len(those) == 1 else None
        for name in node.input:
            readers.setdefault(name, set()).add(scope)
        scopes.append(scope)
    return scopes[::-1]


def _module_class(node: NodeProto) -> str:
    names = _listed(node, _CLASSES)
    return names[-2] if len(names) > 1 else ""


def _numberless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _uniform(tensor: TensorProto) -> bool:
    array = numpy_helper.to_array(tensor)
    return bool((array == array.flat[0]).all())


def _is_weight(tensor: TensorProto) -> bool:
    return tensor.data_type in _FLOATS and max(tensor.dims, default=1) > 1


def _without_repeats(array: Array) -> Array:
    """An array with one entry along axes on which all are equal."""
    for axis in range(array.ndim):
        one = array.take([0], axis)
        if array.shape[axis] > 1 and (array == one).all():
            array = one
    return array


def _view(source: Array, array: Array) -> tuple[int, ...] | None:
    """The order of axes that makes `array` of a reshaped `source`: the plainest there is, None if none."""
    if source.size != array.size or source.dtype != array.dtype or array.ndim > 5:
        return None
    for order in permutations(range(array.ndim)):
        before = array.transpose(np.argsort(order))
        if np.array_equal(before.reshape(-1), source.reshape(-1)):
            return order
    return None
