"""glow-run --layers: which layer of a model is the first whose value differs from another run's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import GlowError
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_dialects.core.files import whole
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.module import PlaceholderOp, SaveOp, functions, lookup
from glow_frontends.onnx.export import export_model
from glow_frontends.onnx.model import uses
from glow_frontends.onnx.parts import (
    constants,
    part,
    read_whole,
    serialized,
    with_outputs,
    without_tensors,
    write,
)
from glow_passes.quantize.instrument import PREFIX, instrument
from glow_passes.quantize.profile import observed
from glow_tools.closeness import Difference, Tolerance, difference, statistics

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from glow_dialects.core.types import Array
    from glow_dialects.ops.module import PlaceholderOp

Feed = dict[str, Any]
Values = dict[str, "Array"]
#: Runs a model, whose outputs are what is to be looked at.
Run = Callable[[Any, Feed], Mapping[str, Any]]
#: Rows of the table of the worst layers.
WORST = 10


@dataclass(frozen=True)
class Layer:
    """A value, and the node that makes it."""

    value: str
    node: str
    op: str

    def __str__(self) -> str:
        own = f"{self.op} '{self.node}'"
        return own if self.node == self.value else f"{own}, value '{self.value}'"


class Layers(Protocol):
    """A model whose inner values can be made outputs. `layers` are in the order of the run."""

    layers: list[Layer]
    #: Values that are outputs of the model itself.
    outputs: list[str]

    def before(self, value: str) -> set[str]:
        """A value and those that it is computed from."""
        ...

    def observed(self, values: Collection[str]) -> Any:
        """The model with these values as its outputs, for `glow.compile` and `onnx_bytes`."""
        ...

    def named(self, outputs: Mapping[str, Any]) -> Values:
        """The tensors among the outputs of such a model, by the names of values."""
        ...


class OnnxLayers:
    """The nodes of an ONNX model; subgraphs and functions are one layer."""

    def __init__(self, model: str | ModelProto) -> None:
        self.model: ModelProto = read_whole(model) if isinstance(model, str) else model
        self.constants = constants(self.model)
        odd = without_tensors(self.model)
        self.makers: dict[str, NodeProto] = {
            name: node
            for node in self.model.graph.node
            for name in node.output
            if name and name not in self.constants and name not in odd
        }
        self.layers = [Layer(v, n.name or n.output[0], n.op_type) for v, n in self.makers.items()]
        self.outputs = [o.name for o in self.model.graph.output]

    def before(self, value: str) -> set[str]:
        """A value and those that it is computed from."""
        needed = {value}
        for name, node in reversed(self.makers.items()):
            if name in needed:
                needed |= uses(node)
        return needed

    def observed(self, values: Collection[str]) -> ModelProto:
        """The model with some values as its outputs."""
        return with_outputs(self.model, list(values))

    def named(self, outputs: Mapping[str, Any]) -> Values:
        """The outputs that are tensors."""
        return {n: v for n, v in outputs.items() if isinstance(v, np.ndarray)}


class ModuleLayers:
    """The nodes of a module whose values are floats, or integers that stand for such."""

    def __init__(self, module: ModuleOp) -> None:

        main = next(functions(module), None)
        if main is None:
            raise GlowError("--layers looks at graphs; the program has no glow.func")
        self.module = module
        self.values = observed(main, module)
        self.layers = [
            Layer(name, name, value.owner.name.removeprefix("glow."))
            for name, value in self.values.items()
            if isinstance(value.owner, GraphOp)
        ]
        self.outputs = [n for n, v in self.values.items() if any(_is_output(u.operation) for u in v.uses)]

    def before(self, value: str) -> set[str]:
        """A value and those that it is computed from."""
        needed = {self.values[value]}
        for other in reversed(self.values.values()):
            if other in needed:
                needed.update(_sources(other))
        return {name for name, v in self.values.items() if v in needed}

    def observed(self, values: Collection[str]) -> ModuleOp:
        """The module with saves of some values in the place of its outputs."""

        made = self.module.clone()
        main = next(functions(made))
        instrument(made, main, values)
        for op in list(main.body.block.ops):
            place = _is_output(op)
            if place is not None and not place.sym_name.data.startswith(PREFIX):
                op.detach()
                op.erase()
        return made

    def named(self, outputs: Mapping[str, Any]) -> Values:
        """The observed values."""
        return {n.removeprefix(PREFIX): v for n, v in outputs.items() if n.startswith(PREFIX)}


def _is_output(op: Operation) -> PlaceholderOp | None:
    """The output that an operation saves to, if it does."""
    if not isinstance(op, SaveOp):
        return None
    place = lookup(op, op.symbol.root_reference.data)
    return place if isinstance(place, PlaceholderOp) and place.kind.data == "output" else None


def _sources(value: SSAValue) -> set[SSAValue]:
    """The values that one is computed from, through those that have no names."""
    found: set[SSAValue] = set()
    stack = [value]
    while stack:
        owner = stack.pop().owner
        new = set(getattr(owner, "operands", ())) - found
        found |= new
        stack += new
    return found


def layers_of(model: Any) -> Layers:
    """The layers of a model file or module; GlowError where it has none to look at."""
    if is_kind(model, FileKind.ONNX):
        return OnnxLayers(model)
    import glow_compiler as glow

    return ModuleLayers(glow.load(model))


def onnx_bytes(model: Any) -> bytes:
    """An observed model for onnxruntime."""

    return serialized(export_model(model) if isinstance(model, ModuleOp) else model)


@dataclass(frozen=True)
class Side:
    """A model with a way to run it."""

    name: str
    layers: Layers
    run: Run

    def values(self, feed: Feed, wanted: Collection[str]) -> Values:
        """What a run gives for some values."""
        return self.layers.named(self.run(self.layers.observed(wanted), feed))


@dataclass
class Comparison:
    """Layers of two sides with their differences, in order; `missing` could not be compared."""

    differences: dict[Layer, Difference] = field(default_factory=dict[Layer, Difference])
    missing: list[Layer] = field(default_factory=list[Layer])
    got: Values = field(default_factory=dict[str, "Array"])
    want: Values = field(default_factory=dict[str, "Array"])
    #: Whether values had to be looked at one by one, since the fault is only there when few are outputs.
    hidden: bool = False

    @property
    def first(self) -> Layer | None:
        """The first layer that differs."""
        return next((layer for layer, d in self.differences.items() if d.bad), None)

    def worst(self) -> list[tuple[Layer, Difference]]:
        """The layers that differ most, by what is allowed."""
        order = sorted(self.differences.items(), key=lambda item: -item[1].ratio)
        return [(layer, d) for layer, d in order[:WORST] if d.ratio]


def compare(ours: Side, theirs: Side, feed: Feed, tolerance: Tolerance) -> Comparison:
    """Every value on both sides; where all are right but an output is wrong when only outputs are looked
    at, the first value that is wrong as the only output.
    """
    other = {_key(layer.value): layer.value for layer in theirs.layers.layers}
    pairs = {layer: other[_key(layer.value)] for layer in ours.layers.layers if _key(layer.value) in other}
    if not pairs:
        raise GlowError("the models have no layers in common: none of their values has the same name")
    found = Comparison(missing=[layer for layer in ours.layers.layers if layer not in pairs])
    _add(found, ours, theirs, pairs, feed, tolerance)
    if found.first is None:
        _look_alone(found, ours, theirs, pairs, feed, tolerance)
    return found


def _add(
    found: Comparison, ours: Side, theirs: Side, pairs: dict[Layer, str], feed: Feed, tolerance: Tolerance
) -> None:
    """Compare some layers, all of them observed in one run."""
    have = ours.values(feed, [layer.value for layer in pairs])
    wanted = theirs.values(feed, list(pairs.values()))
    for layer, name in pairs.items():
        got, want = have.get(layer.value), wanted.get(name)
        if got is None or want is None:
            found.missing.append(layer)
            continue
        found.got[layer.value], found.want[layer.value] = got, want
        found.differences[layer] = difference(got, want, tolerance)


def _look_alone(
    found: Comparison, ours: Side, theirs: Side, pairs: dict[Layer, str], feed: Feed, tolerance: Tolerance
) -> None:
    """Rewrites merge layers that nobody looks at: find the first that differs as the last of a model."""
    known = {layer.value: layer for layer in found.differences}
    ends = [known[name] for name in ours.layers.outputs if name in known]

    def wrong(layers: Sequence[Layer]) -> bool:
        alone = Comparison()
        _add(alone, ours, theirs, {layer: pairs[layer] for layer in layers}, feed, tolerance)
        if alone.first is None:
            return False
        found.got.update(alone.got)
        found.want.update(alone.want)
        found.differences.update({layer: d for layer, d in alone.differences.items() if d.bad})
        return True

    if not ends or not wrong(ends):
        return
    found.hidden = True
    end = next(layer for layer in ends if found.differences[layer].bad)
    needed = ours.layers.before(end.value)
    order = [layer for layer in found.differences if layer.value in needed]
    low, high = -1, order.index(end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong([order[middle]]) else (middle, high)


def _key(name: str) -> str:
    """A name as modules have it: ASCII letters, digits and underscores."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


@dataclass(frozen=True)
class Alone:
    """A node as a model of its own, with inputs."""

    model: ModelProto
    feed: Feed


def alone(side: Side, layer: Layer, want: Array, feed: Feed, whole: OnnxLayers) -> Alone:
    """A node of an ONNX model that should make `want`, with what `side` gives its inputs."""

    node = whole.makers[layer.value]
    weights = {w.name for w in whole.model.graph.initializer} - {i.name for i in whole.model.graph.input}
    inner = sorted(uses(node) - set(feed) - weights)
    own = OnnxSideValues(whole, side)
    values = own.values(feed, inner) if inner else {}
    inputs = {n: v for n, v in values.items() if n not in whole.constants}
    inputs |= {n: np.asarray(feed[n]) for n in uses(node) if n in feed}
    known = {n: v for n, v in values.items() if n in whole.constants}
    return Alone(part(whole.model, [node], inputs, known, {layer.value: want}), inputs)


@dataclass(frozen=True)
class OnnxSideValues:
    """Values of an ONNX model on a side, constants among them."""

    whole: OnnxLayers
    side: Side

    def values(self, feed: Feed, names: Sequence[str]) -> Values:
        """What a run gives for some values."""
        return self.whole.named(self.side.run(self.whole.observed(names), feed))


def write_alone(path: Path, made: Alone) -> Path:
    """Write a node's model, and its inputs beside it; the path of these."""

    inputs = path.with_suffix(".npz")
    write(path, made.model)
    with whole(inputs) as temporary, temporary.open("wb") as file:
        np.savez(file, **made.feed)
    return inputs


def print_table(found: Comparison) -> None:
    """The layers that differ most."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="largest errors")
    for name in ("node", "value", "shape"):
        table.add_column(name, overflow="fold")
    for name in ("max abs", "max rel", "of the allowed"):
        table.add_column(name, justify="right")
    for layer, d in found.worst():
        shape = "x".join(map(str, found.want[layer.value].shape))
        numbers = (f"{d.largest:.2e}", f"{d.relative:.2e}", f"{d.ratio:.2g}x")
        table.add_row(f"{layer.op} {layer.node}", layer.value, shape, *numbers)
    Console(width=120, highlight=False).print(table)


def print_first(found: Comparison, layer: Layer) -> None:
    """What there is to say about the first layer that differs."""
    d, got, want = found.differences[layer], found.got[layer.value], found.want[layer.value]
    print(f"first difference: {layer}: {want.dtype} {list(want.shape)}")
    print(f"  {d}, max rel error {d.relative:.3g}")
    print(f"  here:     {statistics(got)}\n  expected: {statistics(want)}")
    if found.hidden:
        print("  only where no later value is looked at: what merges the layers up to here is wrong")
