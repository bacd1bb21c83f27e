"""Models that are no static graph: compiled segments around host steps, specialised as shapes become known.

A run walks the sorted nodes. From each position on, as many nodes as possible become one module,
specialised on the shapes of its inputs (and on the contents of those that decide shapes); where
run-time data decide, the segment ends, and its node runs on the host: by its rule folded on NumPy
arrays, control flow by runs of its bodies. Segments are kept by what they were specialised on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto
from onnx.onnx_pb import AttributeProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.errors import ImportProblems, UnsupportedError
from glow_dialects.core.types import Array, Tensor, tensor
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import NeedsHost, NeedsValue, RuleError
from glow_frontends.onnx.host_control import CONTROL
from glow_frontends.onnx.labels import split_labels
from glow_frontends.onnx.model import label, sort_nodes, uses
from glow_frontends.onnx.scope import FAILURES, Scope, Session
from glow_frontends.onnx.values import (
    AnyValue,
    BoundedValue,
    HostValue,
    MapValue,
    NoneValue,
    SequenceValue,
)

#: Compiles a module of a segment.
Build: TypeAlias = Callable[[ModuleOp], Callable[[dict[str, Array]], dict[str, Array]]]
Values: TypeAlias = dict[str, AnyValue]

#: Contents of larger arrays are never part of a specialisation.
FIXED_ELEMENTS = 64
#: A node that met more different contents than this runs on the host.
MAX_CONTENTS = 4
#: Segments kept by one graph; the least recently used goes first.
MAX_SEGMENTS = 64


@dataclass
class Segment:
    """Nodes from a position up to `stop`: what to compile, or the need that stopped the first node."""

    stop: int
    program: Callable[[dict[str, Array]], dict[str, Array]] | None = None
    #: Values made by the program, as symbols of its outputs.
    made: dict[str, Any] = field(default_factory=dict[str, Any])
    #: Values that follow from what the segment was specialised on.
    fixed: dict[str, Array] = field(default_factory=dict[str, Array])
    inputs: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, tuple[str, int | None]])
    host: bool = False
    #: Inputs of the node at `stop` whose contents it asked for.
    wanted: list[str] = field(default_factory=list[str])


@dataclass
class Setting:
    """What the graphs of one model share: functions, versions, where weights lie, how to compile."""

    source: str
    folder: Path | None
    functions: dict[tuple[str, str, str], FunctionProto]
    opsets: dict[str, int]
    build: Build
    #: Operators that ran on the host.
    hosted: set[str] = field(default_factory=set[str])
    _blank: tuple[ModuleOp, FuncOp] | None = None

    def scope(self) -> tuple[ModuleOp, Scope]:
        """An empty module and the scope that fills its function `main`."""
        function = FuncOp.of("main")
        return self._filling(ModuleOp([function]), function)

    def host_scope(self) -> Scope:
        """A scope for one node on values that are known: most nodes leave its module empty for the next."""
        if self._blank is None or not _is_empty(*self._blank):
            function = FuncOp.of("main")
            self._blank = ModuleOp([function]), function
        return self._filling(*self._blank)[1]

    def _filling(self, module: ModuleOp, function: FuncOp) -> tuple[ModuleOp, Scope]:
        emitter = Emitter(module, function, {"main"})
        session = Session(emitter, self.source, self.folder, self.functions, control=True)
        return module, Scope(session, self.opsets)


class GraphRunner:
    """Runs one graph (the model's, or the body of a control-flow node) on host values."""

    def __init__(self, setting: Setting, graph: GraphProto, outer: Mapping[str, Array] | None = None) -> None:
        self.setting = setting
        self.nodes = list(split_labels(sort_nodes(graph.node, setting.source)))
        self.inputs = [i.name for i in graph.input]
        self.graph_outputs = list(graph.output)
        self.outputs = [o.name for o in graph.output]
        _, scope = setting.scope()
        scope.add_initializers(graph)
        own = {n: v for n, v in scope.values.items() if isinstance(v, np.ndarray)}
        made = {*self.inputs, *(o for n in self.nodes for o in n.output)}
        self.weights = {**{n: v for n, v in (outer or {}).items() if n not in made}, **own}
        self._used: list[set[str]] = [set(self.outputs)]
        for node in reversed(self.nodes):
            self._used.append(self._used[-1] | uses(node))
        self._used.reverse()
        self._segments: OrderedDict[object, Segment] = OrderedDict()
        self._contents: dict[int, set[object]] = {}
        self._bodies: dict[tuple[int, str], GraphRunner] = {}

    # --- running -----------------------------------------------------------------------------
    def run(self, values: Values, fixed: dict[str, Array] | None = None) -> list[AnyValue]:
        """The outputs for inputs and captured values by name; `fixed` ones may be specialised on."""
        values = {**values, **self.weights}
        fixed = {**(fixed or {}), **self.weights}
        position = 0
        promoted = -1
        while position < len(self.nodes):
            segment = self._segment(position, values, fixed)
            results: dict[str, Array] = {}
            if segment.program is not None:
                results = segment.program({s: _part(values[n], i) for s, (n, i) in segment.inputs.items()})
            values.update({n: _assemble(form, results) for n, form in segment.made.items()})
            values.update(segment.fixed)
            fixed.update(segment.fixed)
            if segment.stop > position:
                position = segment.stop
                continue
            if (
                not segment.host
                and promoted != position
                and self._promote(position, segment.wanted, values, fixed)
            ):
                promoted = position
                continue
            self._host(self.nodes[position], values)
            position += 1
        return [self._output(name, values) for name in self.outputs]

    def _output(self, name: str, values: Values) -> AnyValue:
        if name not in values:
            raise UnsupportedError(f"{self.setting.source}: output '{name}' is not computed by any node")
        return values[name]

    def _promote(self, position: int, wanted: list[str], values: Values, fixed: dict[str, Array]) -> bool:
        """Make contents that a node asked for, or its small integers, part of the specialisation."""
        node = self.nodes[position]
        if not wanted and node.op_type not in CONTROL:
            wanted = [n for n in sorted(uses(node)) if _whole(values.get(n))]
        names = [n for n in wanted if n not in fixed and _small(values.get(n))]
        if not names:
            return False
        seen = self._contents.setdefault(position, set())
        seen.add(tuple(_key(values[n], True) for n in names))
        if len(seen) > MAX_CONTENTS:
            return False
        for name in names:
            value = values[name]
            assert isinstance(value, np.ndarray)
            fixed[name] = value
        return True

    # --- segments ----------------------------------------------------------------------------
    def _segment(self, position: int, values: Values, fixed: dict[str, Array]) -> Segment:
        names = sorted(n for n in self._used[position] if n in values and n not in self.weights)
        key = (position, tuple((n, _key(values[n], n in fixed)) for n in names))
        found = self._segments.get(key)
        if found is None:
            found = self._build(position, {n: values[n] for n in names}, fixed)
            self._segments[key] = found
            while len(self._segments) > MAX_SEGMENTS:
                self._segments.popitem(last=False)
        self._segments.move_to_end(key)
        return found

    def _build(self, position: int, values: Values, fixed: dict[str, Array]) -> Segment:
        module, scope = self.setting.scope()
        segment = Segment(len(self.nodes))
        scope.values.update(self.weights)
        for name, array in self.weights.items():
            scope.session.emitter.name(array, name)
        ports = _Ports(module, scope.session.emitter)
        for name, value in values.items():
            known = fixed.get(name) if name in fixed else None
            scope.values[name] = ports.read(name, value, segment.inputs) if known is None else known
        for index in range(position, len(self.nodes)):
            try:
                scope.step(self.nodes[index])
            except NeedsValue as need:
                segment.stop = index
                segment.host = isinstance(need, NeedsHost)
                if need.value is not None:
                    names = self.nodes[index].input
                    segment.wanted = [n for n in names if n and scope.values.get(n) is need.value]
                break
            if scope.session.problems:
                raise ImportProblems(self.setting.source, scope.session.problems)
            if any(isinstance(scope.values.get(o), HostValue) for o in self.nodes[index].output):
                segment.stop, segment.host = index, True  # strings handed on, as by Identity
                break
        if segment.stop == position:
            return segment
        segment.host = False
        made = {o for n in self.nodes[position : segment.stop] for o in n.output if o}
        for name in sorted(made & self._used[segment.stop]):
            value = scope.values[name]
            assert not isinstance(value, HostValue)
            if isinstance(value, np.ndarray):
                segment.fixed[name] = value
            else:
                segment.made[name] = ports.write(name, value)  # pyright: ignore[reportArgumentType]
        if ports.saved:
            module.verify()
            segment.program = self.setting.build(module)
            segment.inputs = {s: n for s, n in segment.inputs.items() if s in ports.read_symbols}
        return segment

    # --- host steps --------------------------------------------------------------------------
    def _host(self, node: NodeProto, values: Values) -> None:
        self.setting.hosted.add(node.op_type)
        control = CONTROL.get(node.op_type) if not node.domain else None
        if control is not None:
            try:
                results: Sequence[AnyValue | None] = control(self, node, values)
            except RuleError as error:
                raise UnsupportedError(f"{self.setting.source}: node '{label(node)}': {error}") from None
            values.update({n: v for n, v in zip(node.output, results, strict=False) if n and v is not None})
            return
        scope = self.setting.host_scope()
        scope.values.update({n: values[n] for n in uses(node) if n in values})
        try:
            scope.define(node, scope.node(node))
        except FAILURES as error:
            raise UnsupportedError(
                f"{self.setting.source}: node '{label(node)}' ({node.op_type}): {error}"
            ) from None
        if scope.session.problems:
            raise ImportProblems(self.setting.source, scope.session.problems)
        for name in node.output:
            if name:
                values[name] = scope.read(name)

    def body(self, node: NodeProto, name: str) -> GraphRunner:
        """The runner of a node's subgraph, kept from run to run."""
        key = id(node), name  # `nodes` keeps the node alive
        if key in self._bodies:
            return self._bodies[key]
        for attribute in node.attribute:
            if attribute.name == name and attribute.type == AttributeProto.GRAPH:
                self._bodies[key] = GraphRunner(self.setting, attribute.g, self.weights)
                return self._bodies[key]
        raise RuleError(f"attribute '{name}' is missing")


class _Ports:
    """Inputs and outputs of a segment's module."""

    def __init__(self, module: ModuleOp, emitter: Emitter) -> None:
        self.module = module
        self.emitter = emitter
        self.saved = 0
        self.read_symbols: set[str] = set()

    def read(self, name: str, value: AnyValue, inputs: dict[str, tuple[str, int | None]]) -> AnyValue:
        """The graph's view of a run-time value: placeholders for its tensors."""
        if isinstance(value, SequenceValue):
            items = [self._tensor(name, i, v, inputs) for i, v in enumerate(value.items)]
            if any(isinstance(i, HostValue) for i in items):
                return HostValue()
            return SequenceValue(items, value.dtype)
        if isinstance(value, NoneValue):
            return value
        if isinstance(value, MapValue):
            return HostValue()
        return self._tensor(name, None, value, inputs)

    def _tensor(
        self, name: str, index: int | None, value: AnyValue, inputs: dict[str, tuple[str, int | None]]
    ) -> AnyValue:
        if not isinstance(value, np.ndarray) or value.dtype == object:
            return HostValue()
        symbol = self.emitter.unique(name if index is None else f"{name}.{index}")
        inputs[symbol] = (name, index)
        self.read_symbols.add(symbol)
        placeholder = self._placeholder(symbol, tensor(value.shape, value.dtype), "input")
        return self.emitter.builder.insert(GetOp.of(placeholder)).result

    def write(self, name: str, value: SSAValue | SequenceValue | NoneValue | BoundedValue | Array) -> Any:
        """Save a value; returns its symbol or symbols, or what stands for itself."""
        if isinstance(value, BoundedValue):
            return _Cut(self.write(name, value.value), value.axis, self.write(f"{name}.count", value.count))
        if isinstance(value, NoneValue):
            return value
        if isinstance(value, SequenceValue):
            items = [self.write(f"{name}.{i}", v) for i, v in enumerate(value.items)]  # pyright: ignore
            return SequenceValue(items, value.dtype)
        if isinstance(value, np.ndarray):
            return value
        self.saved += 1
        symbol = self.emitter.unique(f"{name}.out")
        placeholder = self._placeholder(symbol, value.type, "output")  # pyright: ignore
        self.emitter.builder.insert(SaveOp.of(value, placeholder))
        return symbol

    def _placeholder(self, symbol: str, kind: Tensor, role: str) -> PlaceholderOp:
        op = PlaceholderOp.of(symbol, kind, role)
        function = next(f for f in self.module.body.block.ops if isinstance(f, FuncOp))
        self.module.body.block.insert_op_before(op, function)
        return op


@dataclass(frozen=True)
class _Cut:
    """The symbols of a bounded tensor and of its length along an axis."""

    symbol: str
    axis: int
    count: str


def _assemble(form: Any, results: dict[str, Array]) -> AnyValue:
    if isinstance(form, str):
        return results[form]
    if isinstance(form, _Cut):
        whole = results[form.symbol]
        kept = (*(slice(None),) * form.axis, slice(int(results[form.count])))
        return np.ascontiguousarray(whole[kept])
    if isinstance(form, SequenceValue):
        return SequenceValue([_assemble(i, results) for i in form.items], form.dtype)
    return form


def _part(value: AnyValue, index: int | None) -> Array:
    if index is not None:
        assert isinstance(value, SequenceValue)
        value = value.items[index]
    assert isinstance(value, np.ndarray)
    return value


def _is_empty(module: ModuleOp, function: FuncOp) -> bool:
    return (
        module.body.block.first_op is module.body.block.last_op is function and function.body.block.is_empty
    )


def _small(value: AnyValue | None) -> bool:
    return isinstance(value, np.ndarray) and value.size <= FIXED_ELEMENTS and value.dtype != object


def _whole(value: AnyValue | None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iub"


def _key(value: AnyValue, fixed: bool) -> object:
    """What a specialisation depends on: form, or contents where these are fixed."""
    if isinstance(value, SequenceValue):
        return "sequence", str(value.dtype), tuple(_key(i, False) for i in value.items)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("strings", value.shape, tuple(value.reshape(-1))) if fixed else "strings"
        return value.dtype, value.shape, value.tobytes() if fixed else None
    return type(value).__name__


__all__ = ["Build", "GraphRunner", "Setting"]
