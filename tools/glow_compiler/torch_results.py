"""Results of a traced graph as PyTorch has them: their strides, and which of them share memory.

A graph says for each of its tensors which storage it lies in. What lies in one is an input or is computed
once, as the first tensor of the graph there (its base); the results are views of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch  # pyright: ignore[reportMissingImports]

from glow_dialects.core.types import Array
from glow_dialects.ops.transpose import inverse
from glow_frontends.torch.tensors import tensor_of

#: Sets of sizes whose layouts are kept.
KEPT = 64


class Layout(NamedTuple):
    """How a tensor lies in its storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class _Result(NamedTuple):
    """A result of a graph; of a tensor its base: of what kind, its number among these, and its node."""

    value: Any
    kind: str = ""
    number: int = 0
    base: Any = None


class Results:
    """The results of a graph; `computed` are the nodes that a program computes for them."""

    def __init__(self, graph: Any) -> None:
        nodes = list(graph.graph.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._first: dict[Any, Any] = {}
        for node in nodes:
            if hasattr(meta_of(node), "untyped_storage"):
                self._first.setdefault(_storage(node), node)
        self.computed: list[Any] = []
        self._held: list[Any] = []
        results = next(node for node in nodes if node.op == "output").args[0]
        self._results = [self._of(result, graph) for result in results]
        #: For each that is computed its axes, from the largest stride to the smallest.
        self.orders = [order_of(meta_of(node)) for node in self.computed]
        self._layouts: dict[Any, list[Any]] = {}

    def _of(self, result: Any, graph: Any) -> _Result:
        if not hasattr(meta_of(result), "untyped_storage"):
            return _Result(result)
        base = self._first[_storage(result)]
        if base in self._inputs:
            return _Result(result, "input", self._inputs.index(base), base)
        if base.op == "get_attr":
            self._held.append(attribute_of(graph, base.target))
            return _Result(result, "held", len(self._held) - 1, base)
        if base not in self.computed:
            self.computed.append(base)
        return _Result(result, "computed", self.computed.index(base), base)

    def pruned(self, graph: Any) -> Any:
        """The graph of what is computed, without what only views of it need."""
        own = torch.fx.Graph()
        known: dict[Any, Any] = {}
        own.graph_copy(graph.graph, known)
        own.output(tuple(known[node] for node in self.computed))
        own.eliminate_dead_code()
        return torch.fx.GraphModule(graph, own)

    def of(self, arrays: Sequence[Array], values: Sequence[Any], numbers: Mapping[str, Any]) -> list[Any]:
        """The results for what was computed, the inputs, and what the symbols of sizes stand for."""
        key = tuple(numbers.items())
        if key not in self._layouts:
            if len(self._layouts) >= KEPT:
                self._layouts.clear()
            nodes = [*self.computed, *(n for r in self._results if r.kind for n in (r.value, r.base))]
            self._layouts[key] = [_layout(node, numbers) for node in nodes]
        layouts = iter(self._layouts[key])
        computed = [
            _laid(tensor_of(array), order, next(layouts))
            for array, order in zip(arrays, self.orders, strict=True)
        ]
        bases = {"input": values, "held": self._held, "computed": computed}
        out: list[Any] = []
        for result in self._results:
            if not result.kind:
                out.append(evaluated(meta_of(result.value, result.value), numbers))
                continue
            base, own, whole = bases[result.kind][result.number], next(layouts), next(layouts)
            same = result.value is result.base
            out.append(base if same else _view(base, meta_of(result.value).dtype, own, whole))
        return out


def attribute_of(graph: Any, path: str) -> Any:
    """What a graph holds under a path."""
    for part in path.split("."):
        graph = getattr(graph, part)
    return graph


def meta_of(node: Any, default: Any = None) -> Any:
    """What a graph knows of a node's value."""
    return node.meta.get("val") if hasattr(node, "meta") else default


def _storage(node: Any) -> Any:
    return meta_of(node).untyped_storage()._cdata


def evaluated(value: Any, numbers: Mapping[str, Any]) -> Any:
    """A number of a graph, for what its symbols stand for."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    expr = value.node.expr
    found = expr.subs({s: numbers[str(s)] for s in expr.free_symbols})
    if isinstance(value, torch.SymBool):
        return bool(found)
    return int(found) if isinstance(value, torch.SymInt) else float(found)


def _layout(node: Any, numbers: Mapping[str, Any]) -> Layout:
    tensor = meta_of(node)
    sizes, strides = (tuple(evaluated(n, numbers) for n in v) for v in (tensor.shape, tensor.stride()))
    return Layout(sizes, strides, evaluated(tensor.storage_offset(), numbers))


def order_of(tensor: Any) -> tuple[int, ...]:
    """The axes of a tensor from the largest stride to the smallest; as they are where that is not known."""
    sizes, strides = ([_hint(n) for n in v] for v in (tensor.shape, tensor.stride()))
    plain = tuple(range(len(sizes)))
    if None in (*sizes, *strides):
        return plain
    inner = 0
    for axis in reversed(plain):  # one element may have any stride: that of its neighbour keeps its place
        inner = strides[axis] = strides[axis] if sizes[axis] != 1 else inner
    return tuple(sorted(plain, key=lambda axis: -strides[axis]))


def _hint(number: Any) -> Any:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def _laid(row: Any, order: Sequence[int], layout: Layout) -> Any:
    """What a program gave, its axes in some order, as a tensor of a layout."""
    if tuple(order) == tuple(range(len(order))) and row.stride() == layout.strides:
        return row
    turned = row.permute(inverse(order))
    pairs = zip(turned.stride(), layout.strides, layout.sizes, strict=True)
    if all(have == want or size == 1 for have, want, size in pairs) or not row.numel():
        return row.as_strided(layout.sizes, layout.strides, 0)
    return torch.empty_strided(layout.sizes, layout.strides, dtype=row.dtype).copy_(turned)


def _view(base: Any, dtype: Any, own: Layout, whole: Layout) -> Any:
    """A tensor that lies where another does."""
    if base.dtype == dtype:
        return base.as_strided(own.sizes, own.strides, base.storage_offset() + own.offset - whole.offset)
    first = (base.storage_offset() - whole.offset) * base.element_size() // dtype.itemsize
    return torch.empty(0, dtype=dtype).set_(
        base.untyped_storage(), first + own.offset, own.sizes, own.strides
    )
