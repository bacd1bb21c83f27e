"""Stage: the nodes of a graph that one program computes, for forms of its inputs, and those that it leaves.

What a stage cannot compute are nodes that ask for contents of run-time values, and nodes that need these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from onnx import NodeProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.errors import ImportProblems
from glow_dialects.core.types import Array, tensor
from glow_dialects.ops.module import GetOp, PlaceholderOp
from glow_frontends.graph import BoundedValue, NeedsHost, NeedsValue
from glow_frontends.onnx.importer import Import, Source, not_tensor
from glow_frontends.onnx.model import uses
from glow_frontends.onnx.plan.forms import NONE, Form, KnownForm, SequenceForm, TensorForm
from glow_frontends.onnx.scope import Blocked
from glow_frontends.onnx.values import AnyValue, HostValue, NoneValue, SequenceValue

#: Values of a run by name; weights are not among them.
Values = dict[str, AnyValue]


class Runner(Protocol):
    """A compiled module."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs for inputs, by symbol."""
        ...


#: Compiles the module of a stage.
Compile = Callable[[ModuleOp], Runner]


@dataclass(frozen=True)
class Need:
    """Why a node is in no program: it asks for the contents of the inputs `wanted` (where it says which), or
    can only run on the `host`."""

    host: bool
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prefix:
    """The symbols of a tensor under an upper bound, and of its length along an axis."""

    symbol: str
    axis: int
    count: str


@dataclass(frozen=True)
class Ending:
    """A program of all of a model but for functions of single results of it, which make maps and strings.

    For a network of one stage that is all there is to a run, at little cost: classifiers of a few samples.
    """

    program: Runner
    #: Symbols of the program's inputs, and the values that they are.
    inputs: list[tuple[str, str]]
    #: Names of outputs, of the program's results that they are, and what makes them of these.
    outputs: list[tuple[str, str, Callable[[Array], Any] | None]]

    def run(self, values: Mapping[str, Array]) -> dict[str, Any]:
        """The model's outputs by name, as callers get them."""
        results = self.program.run({symbol: values[name] for symbol, name in self.inputs})
        return {n: results[s] if make is None else make(results[s]) for n, s, make in self.outputs}


@dataclass
class Stage:
    """A program (None where nothing is to be computed), what it reads and gives, and what it leaves."""

    #: The nodes that are left, by their numbers, and what those that need nothing else ask for.
    left: tuple[int, ...] = ()
    needs: dict[int, Need] = field(default_factory=dict[int, Need])
    #: Whether the module is the whole graph: tensors in, tensors out, under their names.
    whole: bool = False
    module: ModuleOp | None = None
    program: Runner | None = None
    #: Symbol -> the value that it stands for, or the item of a sequence.
    inputs: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, tuple[str, int | None]])
    #: Values as the symbols of outputs that they are made of.
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    #: What follows it, where that is simple; False until it is known.
    ending: Ending | Literal[False] | None = False
    #: Values that follow from what the stage is specialised on.
    fixed: dict[str, Array] = field(default_factory=dict[str, Array])

    def compile(self, compile: Compile) -> None:
        """Make the program, once."""
        if self.module is not None:
            self.program = compile(self.module)
            self.module = None  # last: where there is none, the program is there

    def run(self, values: Values) -> None:
        """Add the stage's results to the values of a run."""
        outputs: dict[str, Array] = {}
        if self.program is not None:
            outputs = self.program.run({s: _part(values[n], i) for s, (n, i) in self.inputs.items()})
        values.update({n: _assembled(form, outputs) for n, form in self.results.items()})
        values.update(self.fixed)


@dataclass(frozen=True)
class Ports:
    """The inputs and outputs of a model's graph, which keep their names in a program of the whole."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def import_stage(
    source: Source,
    nodes: Mapping[int, NodeProto],
    weights: Mapping[str, Array],
    forms: Mapping[str, Form],
    known: Mapping[str, Array],
    needed: Callable[[tuple[int, ...]], set[str]],
    ports: Ports | None = None,
) -> Stage:
    """The stage of as many of the nodes as can be computed without contents that only the run tells.

    `forms` are those of the run-time values, `known` the contents of some; `needed` says which values are
    needed once some nodes are left. With `ports` the module may be that of the whole model.
    """
    reserved = {*ports.inputs, *ports.outputs} if ports is not None else ()
    building = _Building(Import(source, reserved, control=True), Stage())
    for name, form in forms.items():
        building.read(name, form, known.get(name), port=ports is not None)
    building.importing.define(weights)
    building.walk(nodes)
    problems = building.importing.session.problems
    if problems:
        raise ImportProblems(source.name, problems)
    building.finish(nodes, needed, ports)
    return building.stage


@dataclass
class _Building:
    """A stage under construction."""

    importing: Import
    stage: Stage
    saved: bool = False

    # --- inputs ------------------------------------------------------------------------------
    def read(self, name: str, form: Form, known: Array | None, port: bool) -> None:
        """Define a run-time value: placeholders for its tensors, unless its contents are known."""
        if port and isinstance(form, TensorForm | KnownForm) and form.dtype != object:
            self.importing.input(name, tensor(form.shape, form.dtype), known)
            self.stage.inputs[name] = name, None  # a program of the whole takes what is known, too
        elif known is not None:
            self.importing.define({name: known})
        else:
            self.importing.scope.values[name] = self._value(name, None, form)

    def _value(self, name: str, index: int | None, form: Form) -> AnyValue:
        if isinstance(form, SequenceForm):
            items = [self._value(name, i, item) for i, item in enumerate(form.items)]
            held = any(isinstance(i, HostValue) for i in items)
            return HostValue() if held else SequenceValue(items, form.dtype)
        if not isinstance(form, TensorForm):
            return NoneValue() if form == NONE else HostValue()
        symbol = self.importing.emitter.unique(name if index is None else f"{name}.{index}")
        self.stage.inputs[symbol] = name, index
        kind = tensor(form.shape, form.dtype)
        return self.importing.emitter.read(self.importing.emitter.port(symbol, kind))

    # --- nodes -------------------------------------------------------------------------------
    def walk(self, nodes: Mapping[int, NodeProto]) -> None:
        """Import nodes; those that ask for contents are left, and so is what needs them."""
        scope = self.importing.scope
        left: list[int] = []
        for index, node in nodes.items():
            need: Need | None = None
            try:
                scope.step(node)
            except NeedsValue as error:
                need = self._need(node, error)
            else:
                if any(isinstance(scope.values.get(o), HostValue) for o in node.output):
                    need = Need(host=True)  # strings handed on, as by Identity
                elif not any(isinstance(scope.values.get(o), Blocked) for o in node.output):
                    continue
            left.append(index)
            scope.block(node)
            if need is not None and not self._waits(node):
                self.stage.needs[index] = need
        self.stage.left = tuple(left)

    def _need(self, node: NodeProto, error: NeedsValue) -> Need:
        wanted = () if error.value is None else tuple(n for n in node.input if self._is(n, error.value))
        return Need(isinstance(error, NeedsHost), wanted)

    def _is(self, name: str, value: SSAValue) -> bool:
        return bool(name) and self.importing.scope.values.get(name) is value

    def _waits(self, node: NodeProto) -> bool:
        """Whether a node reads a missing value, or one whose length the next stage knows."""
        values = self.importing.scope.values
        return any(isinstance(values.get(n), Blocked | BoundedValue) for n in uses(node))

    # --- outputs -----------------------------------------------------------------------------
    def finish(
        self,
        nodes: Mapping[int, NodeProto],
        needed: Callable[[tuple[int, ...]], set[str]],
        ports: Ports | None,
    ) -> None:
        """Save values that others need; the module is kept if there is anything to compute."""
        stage, scope = self.stage, self.importing.scope
        stage.whole = ports is not None and not stage.left and self._plain(ports.outputs)
        if stage.whole and ports is not None:
            self.importing.outputs(ports.outputs, ports.inputs)
            stage.results = {name: name for name in ports.outputs}
            stage.module = self.importing.emitter.module
            return
        left = set(stage.left)
        results = {o for i, n in nodes.items() if i not in left for o in n.output if o}
        for name in sorted(results & needed(stage.left)):
            value = scope.values[name]
            if isinstance(value, np.ndarray):
                stage.fixed[name] = value
            else:
                stage.results[name] = self._save(name, value)  # pyright: ignore[reportArgumentType]
        if self.saved:
            self._drop_unread()
            stage.module = self.importing.emitter.module

    def _plain(self, outputs: Sequence[str]) -> bool:
        values = self.importing.scope.values
        return all(n in values and not not_tensor(values[n]) for n in outputs)  # pyright: ignore

    def _save(self, name: str, value: AnyValue) -> Any:
        """Save a value; returns its symbol or symbols, or a constant itself."""
        if isinstance(value, BoundedValue):
            count = self._save(f"{name}.count", value.count)
            return Prefix(self._save(name, value.value), value.axis, count)
        if isinstance(value, SequenceValue):
            items = [self._save(f"{name}.{i}", v) for i, v in enumerate(value.items)]
            return SequenceValue(items, value.dtype)
        if not isinstance(value, SSAValue):
            return value
        self.saved = True
        symbol = self.importing.emitter.unique(f"{name}.out")
        self.importing.save(symbol, symbol, value)
        return symbol

    def _drop_unread(self) -> None:
        """Take inputs away that nothing in the module reads."""
        module, body = self.importing.emitter.module.body.block, self.importing.emitter.function.body.block
        reads = {o.symbol.root_reference.data: o for o in body.ops if isinstance(o, GetOp)}
        for port in [o for o in module.ops if isinstance(o, PlaceholderOp) and o.kind.data == "input"]:
            read = reads.get(port.sym_name.data)
            if read is not None and read.result.first_use is not None:
                continue
            self.stage.inputs.pop(port.sym_name.data, None)
            for op in (read, port):
                if op is not None:
                    op.detach()
                    op.erase()


def _part(value: AnyValue, index: int | None) -> Array:
    if index is not None:
        assert isinstance(value, SequenceValue)
        value = value.items[index]
    assert isinstance(value, np.ndarray)
    return value


def _assembled(form: Any, results: Mapping[str, Array]) -> AnyValue:
    if isinstance(form, str):
        return results[form]
    if isinstance(form, Prefix):
        kept = (*(slice(None),) * form.axis, slice(int(results[form.count])))
        return np.ascontiguousarray(results[form.symbol][kept])
    if isinstance(form, SequenceValue):
        return SequenceValue([_assembled(i, results) for i in form.items], form.dtype)
    return form
