"""Profiles: the ranges of values, by their names in an optimised graph.

A profile belongs to a graph: it has the graph's nodes (without the batch size) and their hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.files import beside
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import is_float, shape_of, typed
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, SaveOp, functions, placeholders
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.channels import Channels, layer_axes
from glow_passes.quantize.histogram import Histogram, plausible
from glow_passes.quantize.schema import QuantizationError
from glow_passes.tables import table

VERSION = 4
#: Properties that hold sizes of the inputs, or follow from them: a profile is for inputs of any size.
SIZES = {"starts", "ends", "steps", "repeats", "sizes", "values", "pads"}
_NUMBER, _INPUT = re.compile(r"\d+"), "input "


def value_names(function: FuncOp) -> dict[SSAValue, str]:
    """A name for every value: its own where that is unique, else operator and place."""
    names: dict[SSAValue, str] = {}
    taken: set[str] = set()
    operators = list(function.body.block.ops)
    own = {result.name_hint for op in operators for result in op.results}
    for place, op in enumerate(operators):
        for index, result in enumerate(op.results):
            name = result.name_hint
            if isinstance(op, GetOp):
                name = op.symbol.root_reference.data
            if name is None or name in taken:
                short = op.name.removeprefix("glow.")
                # xDSL drops digits after an underscore at the end of a name.
                name = f"n{place}_{index}_{short}" if index else f"n{place}_{short}"
                while name in own:
                    name += "_"
            taken.add(name)
            names[result] = name
    return names


def observed(function: FuncOp, module: ModuleOp) -> dict[str, SSAValue]:
    """The float values computed at run time, by name: inputs and results of nodes."""
    symbols = Symbols(module)
    values: dict[str, SSAValue] = {}
    for value, name in value_names(function).items():
        op = value.owner
        known = isinstance(op, GetOp) and symbols.constant(op) is not None
        splat = isinstance(op, GraphOp) and not op.operands
        if not known and not splat and is_float(typed(value).element_type):
            values[name] = value
    return values


def channel_axes(function: FuncOp, module: ModuleOp) -> dict[str, int]:
    """The axis of channels of each value that layers with constant weights read, by name."""
    symbols, names = Symbols(module), value_names(function)
    axes_of: dict[str, int] = {}
    for op in function.body.block.ops:
        axes = layer_axes(op)
        if axes is not None and symbols.array(op.operands[1]) is not None:
            axes_of[names[op.operands[0]]] = axes.channels
    return axes_of


def graph_lines(module: ModuleOp) -> list[str]:
    """One line a node of the first function: name, operator, operands, properties that matter."""
    function = next(functions(module))
    names = value_names(function)
    symbols = Symbols(module)
    lines: list[str] = []
    for op in function.body.block.ops:
        if isinstance(op, GetOp):
            constant = symbols.constant(op)
            if isinstance(constant, ConstantOp):
                shape = "x".join(map(str, shape_of(constant.type)))
                names[op.result] = f"constant {shape}"
            continue
        operands = ", ".join(names[v] for v in op.operands)
        if isinstance(op, SaveOp):
            lines.append(f"save {operands} to {op.symbol.root_reference.data}")
            continue
        segments = "operandSegmentSizes"
        properties = {n: str(a) for n, a in op.properties.items() if n not in SIZES and n != segments}
        if "kernel" in properties and getattr(op, "kernel", None) == shape_of(op.operands[0])[2:]:
            properties["kernel"] = "all"  # of a pool over whole images
        shown = ", ".join(f"{n} = {a}" for n, a in sorted(properties.items()))
        results = ", ".join(names[r] for r in op.results)
        lines.append(f"{results} = {op.name.removeprefix('glow.')} {operands} {{{shown}}}")
    return lines


def graph_sizes(module: ModuleOp) -> list[str]:
    """A line an input, its shape; then one a node of the first function, its properties in `SIZES`."""
    lines = list[str]()
    for port in placeholders(module).values():
        if port.kind.data == "input":
            name = getattr(port.attributes.get("onnx.name"), "data", port.sym_name.data)
            lines.append(f"{_INPUT}{name}: {_size_text(shape_of(port.type))}")
    for op in next(functions(module)).body.block.ops:
        if not isinstance(op, GetOp | SaveOp):
            shown = [f"{n} = {a}" for n, a in sorted(op.properties.items()) if n in SIZES]
            lines.append(f"{op.name.removeprefix('glow.')} {{{', '.join(shown)}}}")
    return lines


def _inputs(lines: Sequence[str]) -> dict[str, str]:
    """The shapes of the inputs by name."""
    found = (line.removeprefix(_INPUT).rpartition(": ") for line in lines if line.startswith(_INPUT))
    return {name: shape for name, _, shape in found}


def _size_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _other_sizes(
    there: Sequence[str], here: Sequence[str], shapes: Mapping[str, Sequence[int]]
) -> tuple[int, str, str] | None:
    """The first node whose properties in `SIZES` differ though the inputs do not account for it.

    Inputs may have another number of samples, and sizes that the profile leaves open; `shapes` are those that
    it was taken with then.
    """
    mine, other = _inputs(there), _inputs(here)
    ratios = {(1, 1)}
    for name, have in other.items() if mine != other else ():
        taken = _size_text(shapes.get(name, ())) or mine.get(name, "")
        (count, _, sizes), (now, _, own) = taken.partition("x"), have.partition("x")
        if sizes != own and set(mine.get(name, "").partition("x")[2]) <= set("0123456789x"):
            return None  # of an open size the properties that depend on it say so
        if count.isdigit() and now.isdigit():
            ratios.add((int(count), int(now)))
    for number, (line, now) in enumerate(zip(there[len(mine) :], here[len(other) :], strict=False)):
        same_form = _NUMBER.sub("", line) == _NUMBER.sub("", now)
        if mine != other and not same_form:
            continue  # the sizes of one of both are open
        pairs = zip_longest(_NUMBER.findall(line), _NUMBER.findall(now), fillvalue="0")
        alike = all(any(int(a) * n == int(b) * m for m, n in ratios) for a, b in pairs)
        if not (same_form and alike):
            return number, line, now
    return None


def graph_hash(lines: list[str]) -> str:
    """The hash of a graph's lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


@dataclass
class Profile:
    """Histograms by value name, channels of the inputs of layers, and the graph they belong to.

    `losses`: what rounding each layer alone costs, as noise over signal in the outputs. `shapes` of
    the inputs, and the `numbers` among them that may decide which graph a model is: for models that
    leave them open.
    """

    graph: list[str]
    values: dict[str, Histogram] = field(default_factory=dict[str, Histogram])
    batches: int = 0
    channels: dict[str, Channels] = field(default_factory=dict[str, Channels])
    axes: dict[str, int] = field(default_factory=dict[str, int])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    losses: dict[str, float] = field(default_factory=dict[str, float])
    sizes: list[str] = field(default_factory=list[str])
    """Of the graph, see `graph_sizes`; they count for inputs of the same sizes."""

    def _repr_html_(self) -> str:
        rows = ((n, f"{h.low:.4g}", f"{h.high:.4g}", f"{h.total:.0f}") for n, h in self.values.items())
        return table(f"Ranges of {self.batches} batches", ("value", "least", "largest", "numbers"), rows)

    @staticmethod
    def of(module: ModuleOp) -> Profile:
        """An empty profile of a module's graph."""
        axes = channel_axes(next(functions(module)), module)
        return Profile(graph_lines(module), axes=axes, sizes=graph_sizes(module))

    def add(self, arrays: Mapping[str, Any]) -> None:
        """Count the values of one run."""
        self.batches += 1
        for name, array in arrays.items():
            usual, _ = plausible(np.asarray(array))
            self.values.setdefault(name, Histogram()).add(usual)
            if name in self.axes:
                self.channels.setdefault(name, Channels()).add(usual, self.axes[name])

    def check_data(self) -> None:
        """Raise unless something was seen, and finite numbers everywhere."""
        if not self.batches:
            raise QuantizationError("the calibration data is empty: no batch was given")
        for name, histogram in self.values.items():
            if not histogram.total:
                what = "NaN only" if histogram.not_numbers else "no values"
                raise QuantizationError(f"value '{name}' had {what} in the calibration data")

    def check_graph(self, module: ModuleOp) -> None:
        """Raise QuantizationError with the first difference where the profile is of another graph."""
        have = graph_lines(module)
        if graph_hash(have) == graph_hash(self.graph):
            wrong = _other_sizes(self.sizes, graph_sizes(module), self.shapes) if self.sizes else None
            if wrong is not None:
                number, mine, other = wrong
                raise QuantizationError(
                    f"the profile is of another graph: node {number} is `{mine}` there, `{other}` here"
                )
            return
        for number, (mine, other) in enumerate(zip(self.graph, have, strict=False)):
            if mine != other:
                raise QuantizationError(
                    f"the profile is of another graph: node {number} is `{mine}` there, `{other}` here"
                )
        raise QuantizationError(
            f"the profile is of another graph: {len(self.graph)} nodes there, {len(have)} here"
        )

    def save(self, path: str | Path) -> None:
        """Write YAML."""
        document = {
            "glow_profile": VERSION,
            "graph_hash": graph_hash(self.graph),
            "batches": self.batches,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "numbers": self.numbers,
            "graph": self.graph,
            "sizes": self.sizes,
            "values": {
                name: {
                    "min": h.low,
                    "max": h.high,
                    "not_numbers": h.not_numbers,
                    "histogram": " ".join(f"{c:.7g}" for c in h.counts),
                }
                for name, h in self.values.items()
            },
            "losses": {name: float(f"{loss:.4g}") for name, loss in self.losses.items()},
            "channels": {
                name: " ".join(f"{v:.7g}" for v in c.numbers()) for name, c in self.channels.items()
            },
        }
        text = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=1 << 20)
        Path(path).write_text(f"{text}{_DIGEST}{_digest(text)}\nend: true\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Profile:
        """Read YAML; QuantizationError says what is wrong with the file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            document = yaml.load(text, Loader=_LOADER)
        except FileNotFoundError:
            near = beside(str(path))
            hint = f"; did you mean {near}?" if near else ""
            raise QuantizationError(f"no such profile: {path}{hint}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            line = str(error).strip().splitlines()[-1].strip()
            raise QuantizationError(f"{path}: the profile is damaged: {line}") from None
        except OSError as error:
            raise QuantizationError(f"{path}: cannot be read: {error.strerror}") from None
        head, found, last = text.rpartition(_DIGEST)
        if found and not last.startswith(_digest(head)):
            raise QuantizationError(
                f"{path}: the profile is damaged: its digest is another (take the digest out of a file "
                "that was changed by hand)"
            )
        return _from_document(document, str(path))


_DIGEST = "digest: "


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _histogram(name: object, entry: Any, path: str) -> Histogram:
    """That of a value."""
    counts = np.array(str(entry["histogram"]).split(), np.float64)
    low, high = float(entry["min"]), float(entry["max"])
    if not counts.size or not (np.isfinite([low, high]).all() and low <= high):
        raise QuantizationError(f"{path}: the profile is damaged: range of '{name}'")
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise QuantizationError(f"{path}: the profile is damaged: histogram of '{name}'")
    return Histogram(counts.size, low, high, counts, int(entry.get("not_numbers", 0)))


def _from_document(content: object, path: str) -> Profile:
    document: Any = content
    if not isinstance(content, dict) or "glow_profile" not in document:
        raise QuantizationError(f"{path}: this is not a profile")
    if document["glow_profile"] != VERSION:
        raise QuantizationError(
            f"{path}: profile version {document['glow_profile']}, this compiler reads {VERSION}"
        )
    try:
        graph = [str(line) for line in document["graph"]]
        if graph_hash(graph) != document["graph_hash"]:
            raise QuantizationError(f"{path}: the profile is damaged: its graph and hash differ")
        profile = Profile(graph, batches=int(document["batches"]))
        profile.shapes = {str(n): tuple(int(d) for d in s) for n, s in document.get("shapes", {}).items()}
        profile.sizes = [str(line) for line in document.get("sizes", [])]
        profile.numbers = {str(n): int(v) for n, v in document.get("numbers", {}).items()}
        for name, entry in document["values"].items():
            profile.values[str(name)] = _histogram(name, entry, path)
        for name, text in document["channels"].items():
            numbers = np.array(str(text).split(), np.float64)
            if not numbers.size or numbers.size % 3 or not np.isfinite(numbers).all():
                raise QuantizationError(f"{path}: the profile is damaged: channels of '{name}'")
            profile.channels[str(name)] = Channels.of(numbers)
        profile.losses = {str(name): float(loss) for name, loss in document["losses"].items()}
        if not np.isfinite(list(profile.losses.values())).all():
            raise QuantizationError(f"{path}: the profile is damaged: losses")
        if document["end"] is not True:
            raise ValueError("its end is missing")
        return profile
    except KeyError as error:
        raise QuantizationError(f"{path}: the profile is damaged: it has no {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise QuantizationError(f"{path}: the profile is damaged: {error}") from None
