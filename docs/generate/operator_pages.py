"""The reference of the operators of the graph dialect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from page_text import block, code, docstring, table
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute
from xdsl.irdl import OptionalDef, PropertyDef, VariadicDef
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.kernel_table import way_of
from glow_dialects.core.attributes import to_python
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import element_type
from glow_dialects.ops import OPERATORS, card_of
from glow_frontends.builder import GraphBuilder
from glow_frontends.onnx.export import export_model

INTRODUCTION = """# Operators

This page lists every operator of the dialect `glow`. The definitions are in
[glow_dialects/ops](../../glow_dialects/ops).

- *Element types* are those that the operator's verifier accepts. The examples below them are test cases.
- *In ONNX* is what [the exporter](../onnx.md#export-to-onnx) writes.
- On the backend `cpu`, an operator has a *kernel*, is *decomposed* into operators with kernels, or runs on
  the *host*, in NumPy.
- Every operator also has an optional [predicate](../glossary.md#predicate).
"""
#: Element types that operands are tried with.
TYPES = tuple(
    np.dtype(t)
    for t in (
        *("float32", "float64", "float16", ml_dtypes.bfloat16, "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
)
KINDS: dict[type[Attribute], str] = {
    IntegerAttr: "int",
    FloatAttr: "float",
    StringAttr: "str",
    UnitAttr: "bool",
    ArrayAttr: "list",
    DenseArrayBase: "list of numbers",
}
#: More forms say nothing new; operators of more nodes than this are not shown in ONNX.
FORMS, NODES = 3, 4


@dataclass(frozen=True)
class Entry:
    """An operator with the samples of its card."""

    name: str
    card: str
    kind: type[GraphOp]
    samples: tuple[Sample, ...]

    @cached_property
    def operation(self) -> GraphOp | None:
        """The first sample, built."""
        return self.samples[0].detached()[1] if self.samples else None


def entries() -> Iterator[Entry]:
    """Every operator of the table of cards; an AssertionError names one that its card does not define."""
    for card, names in sorted(OPERATORS.items()):
        for name in names.split():
            module = card_of(name)
            assert module is not None
            kinds = [v for v in vars(module).values() if getattr(v, "name", "") == f"glow.{name}"]
            assert kinds, f"{module.__name__} has no operator 'glow.{name}'"
            samples = tuple(s for s in module.SAMPLES if s.op is kinds[0])
            yield Entry(name, card, kinds[0], samples)


def page() -> Iterator[str]:
    """The page's lines."""
    every = sorted(entries(), key=lambda entry: entry.name)
    yield INTRODUCTION
    header = ("operator", "card", "gradient", "cpu", "quantised", "in ONNX")
    yield from table(header, (_row(entry) for entry in every))
    for entry in every:
        yield from _section(entry)


def _row(entry: Entry) -> tuple[str, ...]:
    quantised = "yes" if entry.kind.QUANTIZED is not None else ""
    return (
        f"[{entry.name}](#{entry.name})",
        f"[{entry.card}](../../glow_dialects/ops/{entry.card}.py)",
        "yes" if entry.kind.has_gradient() else "",
        native(entry),
        quantised,
        in_onnx(entry),
    )


def native(entry: Entry) -> str:
    """How the backend for CPUs runs an operator."""
    return "" if entry.operation is None else way_of(entry.operation)


def in_onnx(entry: Entry) -> str:
    """The nodes that the exporter writes for the first sample, if they are few."""
    if not entry.samples:
        return ""
    with suppress(GlowError, VerifyException, AssertionError):  # it has no form there
        nodes = [node.op_type for node in export_model(module_of(entry.samples[0])).graph.node]
        return ", ".join(nodes) if len(nodes) <= NODES else f"{len(nodes)} nodes"
    return ""


def module_of(sample: Sample) -> ModuleOp:
    """A program of nothing but a sample."""
    g = GraphBuilder()
    values = [g.placeholder(f"x{i}", a.shape, a.dtype).ssa for i, a in enumerate(sample.arrays())]
    for number, result in enumerate(sample.build(g.builder, values).results):
        g.save(result, f"y{number}")
    return g.module


def _section(entry: Entry) -> Iterator[str]:
    yield f"## {entry.name} {{ #{entry.name} }}\n"
    yield from docstring(entry.kind.__doc__)
    yield from table(("", "name", "kind", "default"), _fields(entry))
    if types := element_types(entry):
        yield f"Element types: {types}.\n"
    facts = [f"Gradient: {'yes' if entry.kind.has_gradient() else 'no'}."]
    if parts := decomposition(entry):
        facts.append(f"Decomposes into {parts}.")
    if entry.kind.INSTR is not None:
        facts.append(f"Instruction: `{entry.kind.INSTR.name}`.")
    yield " ".join(facts) + "\n"
    if entry.samples:
        yield from block(forms(entry))


def _fields(entry: Entry) -> Iterator[tuple[str, ...]]:
    """Operands, properties and results."""
    definition = entry.kind.get_irdl_definition()
    for name, kind in definition.operands:
        if name != "predicate":
            yield "operand", code(name), _count(kind), ""
    defaults = {n: to_python(a) for n, a in entry.kind.property_defaults().items()}
    for name in definition.properties:
        if name == "operandSegmentSizes":
            continue
        given = [s.properties[name] for s in entry.samples if s.properties.get(name) is not None]
        known = [v for v in (defaults.get(name), *given) if v is not None]
        optional = name in defaults or type(definition.properties[name]).__name__.startswith("Opt")
        default = code(_shown(defaults[name])) if name in defaults else "" if optional else "required"
        kind = _kind(known[0]) if known else _declared(definition.properties[name])
        yield "property", code(name), kind, default
    for name, kind in definition.results:
        yield "result", code(name), _count(kind), ""


def _declared(definition: PropertyDef) -> str:
    """The kind of a property that no sample gives."""
    return " or ".join(KINDS.get(base, base.name) for base in definition.constr.get_bases() or ())


def _count(kind: object) -> str:
    if isinstance(kind, OptionalDef):
        return "tensor or absent"
    return "any number of tensors" if isinstance(kind, VariadicDef) else "tensor"


def _kind(value: Any) -> str:
    if isinstance(value, bool | int | float | str):
        return type(value).__name__
    if isinstance(value, list | tuple) and value:
        return f"list of {type(value[0]).__name__}"  # pyright: ignore[reportUnknownArgumentType]
    return "attribute" if not isinstance(value, list | tuple) else "list"


def _shown(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def element_types(entry: Entry) -> str:
    """The types that the first operand, and those of its type with it, may have."""
    if entry.operation is None or not entry.samples[0].arrays():
        return ""
    taken = [code(str(element_type(t))) for t in TYPES if _takes(entry.samples[0], t)]
    return ", ".join(taken)


def _takes(sample: Sample, to: np.dtype) -> bool:
    first = sample.arrays()[0].dtype

    def changed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.astype(to) if value.dtype == first else value
        return None if value is None else [changed(v) for v in value]

    with np.errstate(all="ignore"):
        inputs = tuple(changed(value) for value in sample.inputs)
    try:
        replace(sample, inputs=inputs).detached()[1].verify()
    except Exception:
        return False
    return True


def decomposition(entry: Entry) -> str:
    """The operators that the first sample is made of."""
    if entry.operation is None or not entry.kind.can_decompose():
        return ""
    block_, op = entry.samples[0].detached()
    before = set(block_.ops)
    if op.decompose(Builder.at_end(block_)) is None:
        return ""
    names = dict.fromkeys(o.name.removeprefix("glow.") for o in block_.ops if o not in before)
    shown = [f"[{n}](#{n})" for n in names if n not in ("literal", "splat")]
    return ", ".join(shown)


def forms(entry: Entry) -> Iterator[str]:
    """A few uses with their types, as the program text has them."""
    lines = dict.fromkeys(str(sample.detached()[1]) for sample in entry.samples)
    yield from list(lines)[:FORMS]
