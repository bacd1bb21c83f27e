"""A traced graph cut around the operators that no program can have, which PyTorch runs (the islands).

The calls are put in stages, in turn PyTorch's (0, 2, ...) and compiled ones (1, 3, ...), each in the first
that its operands allow. Views, sizes and what is made of nothing are computed where they are read.

    y = relu(x @ w); z, i = median(y); return z + y.t()
    -> stage 1: y = relu(x @ w); stage 2: z, i = median(y); stage 3: z + y.t()
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import torch  # pyright: ignore[reportMissingImports]

from glow_compiler.torch_results import meta_of
from glow_frontends.torch.decompose import name_of
from glow_frontends.torch.draws import is_random
from glow_frontends.torch.importer import IGNORED

#: What a call costs in PyTorch, seconds, and what it does with its results, bytes a second.
CALL, BYTES = 2.5e-6, 1e10
#: What a program costs beyond its work, seconds, and for each of its ports.
PROGRAM, PORT = 2.0e-5, 1.0e-6

#: How large a size is taken to be that only the run tells.
UNKNOWN = 1024

Run = Callable[..., Sequence[Any]]


class Stage(NamedTuple):
    """A part of a graph: what it computes, and the calls of the whole graph that it is given and gives."""

    module: Any
    compiled: bool
    given: list[Any]
    made: list[Any]


class Parts:
    """The stages of a graph in turn; `compiled` makes what runs one of a program."""

    def __init__(self, stages: Sequence[Stage], graph: Any, compiled: Callable[[Stage], Run]) -> None:
        inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
        slots = {n: i for i, n in enumerate([*inputs, *(n for s in stages for n in s.made)])}
        self._count = len(slots)
        self._results = [
            (True, slots[r]) if isinstance(r, torch.fx.Node) else (False, r) for r in results_of(graph)
        ]
        last: dict[int, int] = {slot: i for i, s in enumerate(stages) for slot in map(slots.get, s.given)}  # pyright: ignore
        kept = {slot for is_slot, slot in self._results if is_slot}
        #: What runs each stage, the places of its operands and results, and those that nothing reads later.
        self._stages: list[tuple[Run, list[int], list[int], list[int]]] = [
            (
                compiled(stage) if stage.compiled else stage.module.forward,
                [slots[n] for n in stage.given],
                [slots[n] for n in stage.made],
                [slot for slot, at in last.items() if at == i and slot not in kept],
            )
            for i, stage in enumerate(stages)
        ]

    def __call__(self, *values: Any) -> list[Any]:
        """The results for tensors and numbers."""
        held = [*values, *[None] * (self._count - len(values))]
        for run, given, made, freed in self._stages:
            for slot, value in zip(made, run(*[held[slot] for slot in given]), strict=True):
                held[slot] = value
            for slot in freed:
                held[slot] = None
        return [held[r] if is_slot else r for is_slot, r in self._results]


def cut(graph: Any, refused: Iterable[str]) -> list[Stage]:
    """The stages of a graph, in which the calls of some names run in PyTorch; none where all would."""
    places = _Places(graph, set(refused))
    while True:
        stages = places.stages()
        small = [s for s in stages if s.compiled and _is_small(s)]
        if not small:
            return stages if any(s.compiled for s in stages) else []
        places.refused.update(n.name for s in small for n in s.module.graph.nodes if n.op == "call_function")


def results_of(graph: Any) -> Sequence[Any]:
    """What a graph gives."""
    return next(node for node in graph.graph.nodes if node.op == "output").args[0]


def calls_of(graph: Any) -> list[Any]:
    """The calls of operators in a graph, but for views, sizes and what is made of nothing."""
    calls = [n for n in graph.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    return [n for n in calls if not _is_light(n)]


class _Places:
    """The stage of each call of a graph."""

    def __init__(self, graph: Any, refused: set[str]) -> None:
        self._graph, self.refused = graph, refused
        self._calls = [n for n in graph.graph.nodes if n.op == "call_function"]
        self._order = {n: i for i, n in enumerate(graph.graph.nodes)}

    def stages(self) -> list[Stage]:
        """All of them, and one of the views among the results."""
        self._light: set[Any] = set()
        self._at: dict[Any, int] = {}
        drawn = 0
        for node in self._calls:
            drawn = self._place(node, drawn)
        self._sink()
        at: dict[int, list[Any]] = {}
        for node in self._calls:
            if node not in self._light:
                at.setdefault(self._at[node], []).append(node)
        read = [self._copied(nodes) for _, nodes in sorted(at.items())]
        results = [r for r in results_of(self._graph) if isinstance(r, torch.fx.Node)]
        views = self._copied([r for r in results if r in self._light])
        wanted = {n for _, given in [*read, views] for n in given} | set(results)
        compiled = [stage % 2 == 1 for stage in sorted(at)]
        found = [
            self._stage(nodes, given, [n for n in nodes if n in wanted and n not in self._light], kind)
            for (nodes, given), kind in zip(read, compiled, strict=True)
        ]
        if views[0]:
            found.append(self._stage(*views, [n for n in views[0] if n in results], False))
        return found

    def _place(self, node: Any, drawn: int) -> int:
        """Find the stage of a call; the last that draws random numbers or has effects is `drawn`."""
        if node.target is operator.getitem and node.args[0] in self._at:
            self._at[node] = self._at[node.args[0]]
            if node.args[0] in self._light:
                self._light.add(node)
            return drawn
        first = max((self._at.get(n, 0) for n in node.all_input_nodes), default=0)
        if node.name not in self.refused and _is_light(node):
            self._light.add(node)
            self._at[node] = first
            return drawn
        eager = node.name in self.refused or not _is_pure(node)
        ordered = eager and (is_random(node.target) or not _is_pure(node))
        first = max(first, drawn) if ordered else first
        self._at[node] = first + (first % 2 == eager)
        return self._at[node] if ordered else drawn

    def _sink(self) -> None:
        """Move calls that read nothing but inputs to the first that reads them: those of weights, mostly."""
        near: set[Any] = set()
        for node in self._calls:
            plain = hasattr(meta_of(node), "shape") and (node in self._light or self._at[node] % 2 == 1)
            if plain and all(n.op in ("placeholder", "get_attr") or n in near for n in node.all_input_nodes):
                near.add(node)
        for node in reversed(self._calls):
            if node in near and node not in self._light:
                later = min(self._readers(node), default=0)
                self._at[node] = max(self._at[node], later - (later % 2 == 0))

    def _readers(self, node: Any) -> Iterator[int]:
        """The stages that read a call, through light ones too."""
        waiting, seen = [node], {node}
        while waiting:
            for user in waiting.pop().users:
                if user in seen:
                    continue
                seen.add(user)
                if user in self._light:
                    waiting.append(user)
                elif user in self._at:
                    yield self._at[user]

    def _copied(self, nodes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Calls with the light ones that they read, in order; and what these need of other stages."""
        own, given, open_ = set(nodes), set[Any](), list(nodes)
        while open_:
            for n in open_.pop().all_input_nodes:
                if n in own or n in given:
                    continue
                if n in self._light or n.op == "get_attr":
                    own.add(n)
                    open_.append(n)
                else:
                    given.add(n)
        return sorted(own, key=self._order.__getitem__), sorted(given, key=self._order.__getitem__)

    def _stage(self, nodes: Sequence[Any], given: list[Any], made: list[Any], compiled: bool) -> Stage:
        own, known = torch.fx.Graph(), dict[Any, Any]()
        for node in given:
            known[node] = own.placeholder(node.name)
            known[node].meta = dict(node.meta)
        for node in nodes:
            known[node] = own.node_copy(node, known.__getitem__)
        own.output(tuple(known[node] for node in made))
        return Stage(torch.fx.GraphModule(self._graph, own), compiled, given, made)


def _is_light(node: Any) -> bool:
    """Whether a call is made anew wherever it is read: a view, a number, or a tensor made of nothing."""
    meta = meta_of(node)
    if not hasattr(node.target, "_schema"):
        return meta is not None and not hasattr(meta, "shape") and not isinstance(meta, list | tuple)
    if is_random(node.target) or node.target._schema.is_mutable:
        return False
    if node.target.is_view or name_of(node.target) == "aten._unsafe_view.default":
        return True
    tensors = any(hasattr(meta_of(n), "shape") for n in node.all_input_nodes)
    return bool(node.users) and not tensors and not isinstance(meta, list | tuple)


def _is_pure(node: Any) -> bool:
    """Whether a call is one of an operator that changes nothing and is there for its result."""
    if not hasattr(node.target, "_schema") or node.target._schema.is_mutable:
        return False
    return not (IGNORED.fullmatch(name_of(node.target)) and not node.users)


def _is_small(stage: Stage) -> bool:
    """Whether a program costs more than it can save of PyTorch's time."""
    saved = sum(CALL + _bytes(meta_of(n)) / BYTES for n in calls_of(stage.module))
    return saved < PROGRAM + PORT * (len(stage.given) + len(stage.made))


def _bytes(meta: Any) -> int:
    if not hasattr(meta, "shape"):
        return 0
    hints = [getattr(s.node, "hint", None) if isinstance(s, torch.SymInt) else s for s in meta.shape]
    return prod(UNKNOWN if h is None else h for h in hints) * meta.dtype.itemsize
