"""Scope: the values of one graph (or subgraph, or function body) while its nodes are imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto
from onnx.onnx_pb import AttributeProto
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue

from glow_dialects.core.errors import OpenSizes, Problem, internal
from glow_dialects.core.location import node_location
from glow_dialects.core.types import Array
from glow_frontends.graph import BoundedValue, Emitter, NeedsValue, RuleError
from glow_frontends.graph.errors import FAILURES
from glow_frontends.onnx import bounds
from glow_frontends.onnx.functions import (
    check_attributes,
    function_body,
    has_body,
    reference_attributes,
    schema_defaults,
)
from glow_frontends.onnx.model import domain_of, label, opsets, sort_nodes
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules import find_rule, nearest
from glow_frontends.onnx.tensors import from_sparse, to_array
from glow_frontends.onnx.values import AnyValue, HostValue, MapValue, NoneValue, SequenceValue

#: Expansion of functions and subgraphs within each other stops here (recursion is not ONNX).
MAX_DEPTH = 60
#: And expansion as a whole here: functions that call functions twice grow without bound.
MAX_EXPANDED = 100_000

#: The kinds of a value; rules of several outputs return a sequence of these.
SINGLE = (np.ndarray, SSAValue, SequenceValue, NoneValue, HostValue, MapValue, BoundedValue)


@dataclass
class Blocked:
    """A value that could not be made, because of an earlier problem."""

    node: str


Entry: TypeAlias = AnyValue | Blocked


@dataclass
class Session:
    """The state that all scopes of one import share."""

    emitter: Emitter
    source: str
    folder: Path | None
    functions: dict[tuple[str, str, str], FunctionProto]
    problems: list[Problem] = field(default_factory=list[Problem])
    #: Whether branches and loops that run-time data decide become operations with bodies.
    control: bool = False
    #: How many of the problems only say that something depends on run-time data.
    needs: int = 0
    #: Nodes of functions and subgraphs so far.
    expanded: int = 0


class ScopeError(RuleError):
    """A nested graph failed; its problems are already reported."""


@dataclass
class Scope:
    """Names and their values; names not found here are sought in `parent` (subgraphs capture)."""

    session: Session
    opsets: dict[str, int]
    parent: Scope | None = None
    attributes: dict[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    values: dict[str, Entry] = field(default_factory=dict[str, Entry])
    depth: int = 0

    @property
    def folder(self) -> Path | None:
        """Where external data lie."""
        return self.session.folder

    @property
    def control(self) -> bool:
        """Whether branches and loops that run-time data decide become operations with bodies."""
        return self.session.control

    @property
    def problems(self) -> list[Problem]:
        """The problems of the model so far."""
        return self.session.problems

    def find(self, name: str) -> Entry:
        """The value called `name`, here or in the graphs around."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise RuleError(f"the value '{name}' is not defined")

    def read(self, name: str) -> AnyValue:
        """The value called `name`; a ScopeError where an earlier problem prevented it."""
        entry = self.find(name)
        if isinstance(entry, Blocked):
            raise ScopeError(f"'{name}' was not made, because of {entry.node}")
        return entry

    # --- graphs ------------------------------------------------------------------------------
    def add_initializers(self, graph: GraphProto) -> None:
        """Define the graph's weights."""
        for name, array in initializers(graph, self.folder):
            self.values[name] = array
            self.session.emitter.name(array, name)

    def subgraph(self, graph: GraphProto, inputs: Sequence[AnyValue] = ()) -> list[AnyValue]:
        """Import a subgraph in place, its inputs bound, and return its outputs."""
        inner = self._nested(self.opsets, self, self.attributes)
        inner.add_initializers(graph)
        for formal, value in zip(graph.input, inputs, strict=False):
            inner.values[formal.name] = value
        inner.run(sort_nodes(graph.node, self.session.source))
        return [inner.read(o.name) for o in graph.output]

    def _nested(
        self, versions: dict[str, int], parent: Scope | None, attributes: dict[str, AttributeProto]
    ) -> Scope:
        if self.depth >= MAX_DEPTH:
            raise RuleError("functions or subgraphs are nested too deeply")
        return Scope(self.session, versions, parent, attributes, depth=self.depth + 1)

    def call(
        self, function: FunctionProto, node: Node, defaults: Mapping[str, AttributeProto] | None = None
    ) -> list[AnyValue | None]:
        """Expand a function's body in place."""
        versions = {**self.opsets, **opsets(function.opset_import)}
        inner = self._nested(versions, None, reference_attributes(function, node.attributes, defaults or {}))
        for index, name in enumerate(function.input):
            value = node.inputs[index] if index < len(node.inputs) else None
            if value is not None:
                inner.values[name] = value
        inner.absent = set(function.input) - set(inner.values)
        inner.run(sort_nodes(function.node, self.session.source))
        wanted = function.output[: node.outputs]
        return [inner.read(o) if node.wants(i) else None for i, o in enumerate(wanted)]

    absent: set[str] = field(default_factory=set[str])

    # --- nodes -------------------------------------------------------------------------------
    def run(self, nodes: Iterable[NodeProto]) -> None:
        """Import nodes in order; problems are collected, and what depends on them is skipped."""
        for proto in nodes:
            try:
                self.step(proto)
            except NeedsValue as error:
                if self.depth:
                    raise
                self.session.needs += 1
                self.problem(proto, str(error))

    def step(self, proto: NodeProto) -> None:
        """Import one node; a problem is recorded, and NeedsValue raised where run-time data decide."""
        emitter = self.session.emitter
        outer = emitter.builder.location
        emitter.builder.location = self.location(proto, outer)
        try:
            self._count()
            results = self.node(proto)
        except ScopeError:
            self._skip(proto)
        except (NeedsValue, OpenSizes):
            raise
        except FAILURES as error:
            self.problem(proto, str(error) or type(error).__name__)
        except Exception as error:
            self.problem(proto, internal(error, "the rule"))
        else:
            self.define(proto, results)
        finally:
            emitter.builder.location = outer

    def location(self, proto: NodeProto, outer: LocationAttr) -> LocationAttr:
        """That of a node: its name, within that of a node around it; bodies leave nodes unnamed."""
        if self.depth and not proto.name:
            return outer
        return node_location(label(proto), outer)

    def _count(self) -> None:
        """Refuse expansions that would not end."""
        self.session.expanded += self.depth > 0
        if self.session.expanded > MAX_EXPANDED:
            raise RuleError(f"functions and subgraphs expand to more than {MAX_EXPANDED} nodes")

    def define(self, proto: NodeProto, results: Sequence[AnyValue | None]) -> None:
        for index, name in enumerate(proto.output):
            if not name:
                continue
            value = results[index] if index < len(results) else None
            if value is None:
                self.problem(proto, f"output {index} ('{name}') is not computed")
                continue
            self.values[name] = value
            if isinstance(value, np.ndarray):
                self.session.emitter.name(value, name)
            elif isinstance(value, SSAValue) and value.name_hint is None:
                hint = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
                value.name_hint = hint if SSAValue.is_valid_name(hint) else None

    def _skip(self, proto: NodeProto) -> None:
        domain = domain_of(proto.domain)
        if not self._defined(domain, proto):
            self.problem(proto, f"no rule for this operator{_hint(domain, proto.op_type)}")
        self.block(proto)

    def block(self, proto: NodeProto) -> None:
        """Defer the readers of a node's outputs."""
        self.values.update({name: Blocked(label(proto)) for name in proto.output if name})

    def _defined(self, domain: str, proto: NodeProto) -> bool:
        """Whether a rule, a function of the model or a function body exists."""
        if (domain, proto.op_type, proto.overload) in self.session.functions:
            return True
        version = self.opsets.get(domain, 1)
        return find_rule(domain, proto.op_type, version) is not None or has_body(
            domain, proto.op_type, version
        )

    def problem(self, proto: NodeProto, reason: str) -> None:
        version = self.opsets.get(domain_of(proto.domain), 0)
        self.session.problems.append(Problem(label(proto), _op_name(proto), version, reason))
        self.block(proto)

    def node(self, proto: NodeProto) -> list[AnyValue | None]:
        """The outputs of one node: by its model-local function, its rule, or its standard function."""
        domain = domain_of(proto.domain)
        version = self.opsets.get(domain, self.opsets.get("", 1) if not domain else 1)
        local = self.session.functions.get((domain, proto.op_type, proto.overload))
        rule = None if local is not None else find_rule(domain, proto.op_type, version)
        inputs = [self._input(name) for name in proto.input]
        node = Node(proto, version, inputs, self._attributes(proto), self)
        if local is not None:
            return self.call(local, node)
        if rule is not None:
            check_attributes(node)
            if any(isinstance(v, BoundedValue) for v in inputs):
                return bounds.through(self.session.emitter, node, rule)
            result = rule(self.session.emitter, node)
            return [result] if isinstance(result, SINGLE) else list(result)
        return self.expand(node)

    def expand(self, node: Node) -> list[AnyValue | None]:
        """A standard operator by its published function body."""
        body = function_body(node)
        domain = domain_of(node.proto.domain)
        if body is None and has_body(domain, node.op, node.opset):
            raise RuleError("the standard does not define the operator for these attributes and types")
        if body is None:
            raise RuleError(f"no rule for this operator{_hint(domain, node.op)}")
        return self.call(body, node, schema_defaults(node))

    def _input(self, name: str) -> AnyValue | None:
        if not name or name in self.absent:
            return None
        return self.read(name)

    def _attributes(self, proto: NodeProto) -> dict[str, AttributeProto]:
        attributes: dict[str, AttributeProto] = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                bound = self.attributes.get(attribute.ref_attr_name)
                if bound is not None:
                    attributes[attribute.name] = bound
            else:
                attributes[attribute.name] = attribute
        return attributes


def initializers(graph: GraphProto, folder: Path | None) -> Iterator[tuple[str, Array]]:
    """The weights of a graph by name; external data lie in `folder`."""
    for dense in graph.initializer:
        yield dense.name, to_array(dense, folder)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, from_sparse(sparse, folder)


def _op_name(proto: NodeProto) -> str:
    domain = domain_of(proto.domain)
    return f"{domain}.{proto.op_type}" if domain else proto.op_type


#: Operators of com.microsoft that run a decoder until it has said all.
_GENERATING = frozenset({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})


def _hint(domain: str, op: str) -> str:
    if domain == "com.microsoft" and op in _GENERATING:
        return "; its decoder, saved as a model, runs as one, and the caller chooses tokens between its steps"
    near = nearest(domain, op)
    return f"; did you mean {near}?" if near else ""


__all__ = ["Blocked", "NoneValue", "Scope", "ScopeError", "Session"]
