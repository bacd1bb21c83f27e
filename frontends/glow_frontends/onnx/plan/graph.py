"""GraphPlan: how each node of a graph runs, decided once for the types and shapes of its inputs.

A run goes from stage to stage. A stage is one program of all nodes that can be computed without contents
that only the run tells. Nodes that ask for such contents either get them (small ones, as long as few differ:
the next stage is specialised on these) or run on the host. Stages are kept by what they are specialised on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto
from onnx.onnx_pb import AttributeProto

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.types import Array
from glow_frontends.graph.errors import FAILURES, RuleError
from glow_frontends.onnx.importer import Source, weights_of
from glow_frontends.onnx.model import sort_nodes, uses
from glow_frontends.onnx.plan.control import CONTROL
from glow_frontends.onnx.plan.forms import Form, form_of, known_form
from glow_frontends.onnx.plan.host import HostNode, Prepared, PreparedNode, host_node
from glow_frontends.onnx.plan.label_tables import split_labels
from glow_frontends.onnx.plan.stage import Compile, Ending, Need, Ports, Stage, Values, import_stage
from glow_frontends.onnx.values import AnyValue

#: Contents of larger arrays are never part of a specialisation.
KNOWN_ELEMENTS = 64
#: A node that met more different contents than this runs on the host.
MAX_CONTENTS = 4
#: Stages kept by one graph; the least recently used goes first.
MAX_STAGES = 64


@dataclass
class Setting:
    """The state that the plans of a model and of its subgraphs share."""

    source: Source
    compile: Compile
    #: Operators that ran on the host.
    hosted: set[str] = field(default_factory=set[str])
    #: Held while the plans change; runs go on side by side.
    lock: ForkLock = field(default_factory=ForkLock)


class GraphPlan:
    """The plan of one graph: the model's (with `ports`), or the body of a control-flow node."""

    def __init__(
        self,
        setting: Setting,
        graph: GraphProto,
        outer: Mapping[str, Array] | None = None,
        ports: Ports | None = None,
    ) -> None:
        self.setting = setting
        version = setting.source.opsets.get("ai.onnx.ml", 1)
        self.nodes = list(split_labels(sort_nodes(graph.node, setting.source.name), version))
        self.inputs = [i.name for i in graph.input]
        self.graph_outputs = list(graph.output)
        self.outputs = [o.name for o in graph.output]
        inside = {*self.inputs, *(o for n in self.nodes for o in n.output)}
        outside = {n: v for n, v in (outer or {}).items() if n not in inside}
        self.weights = {**outside, **weights_of(graph, setting.source)}
        self.all = tuple(range(len(self.nodes)))
        self._ports = ports
        self._uses = [uses(node) for node in self.nodes]
        self._reads: dict[tuple[int, ...], list[str]] = {}
        self._stages: OrderedDict[object, Stage] = OrderedDict()
        self._contents: dict[int, set[object]] = {}
        self._hosts: dict[int, HostNode] = {}
        self._bodies: dict[tuple[int, str], GraphPlan] = {}

    # --- running -----------------------------------------------------------------------------
    def run(
        self,
        values: Mapping[str, AnyValue],
        known: Mapping[str, Array] | None = None,
        first: Stage | None = None,
    ) -> list[AnyValue]:
        """The outputs for inputs and captured values by name; a stage may be specialised on `known` ones.

        `first` is the first stage, where the caller knows the one for these inputs.
        """
        everything = {n: v for n, v in values.items() if n not in self.weights}
        contents = dict(known or {})
        informed: set[int] = set()
        left = self.all
        while left:
            stage = first or self.stage_of(left, everything, contents)
            first = None
            stage.run(everything)
            contents.update(stage.fixed)
            left = self._without_program(stage, everything, contents, informed)
        return [self._output(name, everything) for name in self.outputs]

    def ended(self, values: Mapping[str, Array], first: Stage) -> dict[str, Any] | None:
        """The outputs by name, as callers get them, where only functions of single results follow the `first`
        stage; None where more does, or where one of them refuses what it gets, which `run` explains."""
        if first.ending is False:
            first.ending = self._ending(first)
        try:
            return None if first.ending is None else first.ending.run(values)
        except FAILURES:
            return None

    def _ending(self, stage: Stage) -> Ending | None:
        """What follows a compiled stage, where that is nothing but prepared nodes."""
        on_host = all(index in stage.needs and stage.needs[index].host for index in stage.left)
        if stage.program is None or not on_host or stage.fixed:
            return None
        made: dict[str, tuple[str, Prepared | None]] = {}
        made |= {n: (s, None) for n, s in stage.results.items() if isinstance(s, str)}
        for node in map(self.host, stage.left):
            source = stage.results.get(node.node.input[0])
            if not isinstance(node, PreparedNode) or not isinstance(source, str):
                return None
            made[node.node.output[0]] = source, node.function
        inputs = [(symbol, name) for symbol, (name, part) in stage.inputs.items() if part is None]
        if len(inputs) < len(stage.inputs) or not made.keys() >= set(self.outputs):
            return None
        return Ending(stage.program, inputs, [(name, *made[name]) for name in self.outputs])

    def _output(self, name: str, values: Values) -> AnyValue:
        if name in self.weights:
            return self.weights[name]
        if name not in values:
            raise UnsupportedError(f"{self.setting.source.name}: output '{name}' is not computed by any node")
        return values[name]

    def _without_program(
        self, stage: Stage, values: Values, contents: dict[str, Array], informed: set[int]
    ) -> tuple[int, ...]:
        """Give the nodes that a stage left what they ask for, or run them on the host; returns the others."""
        left: list[int] = []
        for index in stage.left:
            need = stage.needs.get(index)
            if need is None:
                left.append(index)
            elif index not in informed and self._inform(index, need, values, contents):
                informed.add(index)
                left.append(index)
            else:
                self.host(index).run(values)
        return tuple(left)

    def _inform(self, index: int, need: Need, values: Values, contents: dict[str, Array]) -> bool:
        """Make contents that a node asked for, or its small integers, part of the specialisation."""
        if need.host:
            return False
        wanted = list(need.wanted)
        if not wanted and self.nodes[index].op_type not in CONTROL:
            wanted = [n for n in sorted(self._uses[index]) if _whole(values.get(n))]
        contents_of_stage = {n: values.get(n) for n in wanted if n not in contents and n not in self.weights}
        small = {n: v for n, v in contents_of_stage.items() if isinstance(v, np.ndarray) and _small(v)}
        if not small:
            return False
        with self.setting.lock:
            seen = self._contents.setdefault(index, set())
            seen.add(tuple(known_form(v) for v in small.values()))
            if len(seen) > MAX_CONTENTS:
                return False
        contents.update(small)
        return True

    # --- stages ------------------------------------------------------------------------------
    def stage_of(self, left: tuple[int, ...], values: Values, contents: Mapping[str, Array]) -> Stage:
        """The compiled stage of nodes for the forms of run-time values."""
        forms = {n: form_of(values[n], n in contents) for n in self._read(left) if n in values}
        stage = self.stage(left, forms, contents)
        if stage.module is not None:
            with self.setting.lock:
                stage.compile(self.setting.compile)
        return stage

    def stage(self, left: tuple[int, ...], forms: Mapping[str, Form], contents: Mapping[str, Array]) -> Stage:
        """The stage of nodes that are left, for the forms of what they read; compiled where it was run."""
        key = left, tuple(forms.items())
        with self.setting.lock:
            stage = self._stages.get(key)
            if stage is None:
                stage = self._import(left, forms, contents)
                self._stages[key] = stage
                while len(self._stages) > MAX_STAGES:
                    self._stages.popitem(last=False)
            self._stages.move_to_end(key)
        return stage

    def _import(
        self, left: tuple[int, ...], forms: Mapping[str, Form], contents: Mapping[str, Array]
    ) -> Stage:
        def needed(nodes: tuple[int, ...]) -> set[str]:
            return {*self.outputs, *(n for i in nodes for n in self._uses[i])}

        nodes = {i: self.nodes[i] for i in left}
        ports = self._ports if len(left) == len(self.nodes) else None
        return import_stage(self.setting.source, nodes, self.weights, forms, contents, needed, ports)

    def _read(self, left: tuple[int, ...]) -> list[str]:
        """Names of run-time values that nodes read, or that are outputs: those of the model's inputs, too."""
        if left not in self._reads:
            inputs = self._ports.inputs if self._ports is not None and len(left) == len(self.nodes) else ()
            names = {*inputs, *self.outputs, *(n for i in left for n in self._uses[i])}
            others = sorted(n for n in names if n not in self.weights and n not in inputs)
            self._reads[left] = [*inputs, *others]
        return self._reads[left]

    # --- host --------------------------------------------------------------------------------
    def host(self, index: int) -> HostNode:
        """How a node runs on the host."""
        with self.setting.lock:
            if index not in self._hosts:
                self._hosts[index] = host_node(self.nodes[index], self)
                self.setting.hosted.add(self.nodes[index].op_type)
            return self._hosts[index]

    def body(self, node: NodeProto, name: str) -> GraphPlan:
        """The plan of a node's subgraph."""
        key = id(node), name  # `nodes` keeps the node alive
        with self.setting.lock:
            if key not in self._bodies:
                graphs = [a.g for a in node.attribute if a.name == name and a.type == AttributeProto.GRAPH]
                if not graphs:
                    raise RuleError(f"attribute '{name}' is missing")
                self._bodies[key] = GraphPlan(self.setting, graphs[0], self.weights)
            return self._bodies[key]


def _small(value: Array) -> bool:
    return value.size <= KNOWN_ELEMENTS and value.dtype != object


def _whole(value: AnyValue | None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iub"
