"""Walks a graph function and writes ONNX nodes; operators without a rule are decomposed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto, helper
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_dialects.core.attributes import array_of
from glow_dialects.core.builder import decomposed
from glow_dialects.core.conditions import Symbol
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.extent import Extent
from glow_dialects.core.files import whole
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.size_text import SYMBOLS, SymbolsAttr
from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_dialects.ops.module import (
    ConstantOp,
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    functions,
)
from glow_dialects.reverse import described
from glow_frontends.onnx.export.few_bits import keep_codes
from glow_frontends.onnx.export.rule import Exporter, Rule
from glow_frontends.onnx.export.rules import RULES
from glow_frontends.onnx.export.unsigned import unsigned_activations
from glow_frontends.onnx.tensors import onnx_type

OPSET = 21
"""The opset of exported models: the newest that all of today's runtimes take."""
_IR_VERSION = 10
_EXTERNAL_BYTES = 1 << 30
"""Above this size `save_model` puts weights into a file beside the model."""
_PAGE = 4096


def export_model(module: ModuleOp, function: str = "main") -> ModelProto:
    """The graph function `function` of `module` as an ONNX model of opset 21.

    Public names are kept, constants become initializers. Raises UnsupportedError with every operator
    that ONNX has no form for.
    """
    work = module.clone()
    matching = [f for f in functions(work) if f.sym_name.data == function]
    if not matching:
        raise GlowError(f"the module has no graph function @{function}")
    keep_codes(matching[0])
    _decompose(matching[0], RULES)
    unsigned_activations(matching[0])
    exporter = Exporter()
    outputs: list[ValueInfoProto] = []
    inputs: list[ValueInfoProto] = []
    for op in work.body.block.ops:
        if isinstance(op, PlaceholderOp):
            exporter.fresh(_public(op))
            if op.kind.data == "input":
                inputs.append(_value_info(op, _public(op)))
                exporter.sizes.input(_public(op), shape_of(op.type))
    reads: dict[str, str] = {}
    declared = work.attributes.get(SYMBOLS)
    symbols = declared.data.symbols if isinstance(declared, SymbolsAttr) else ()
    for op in matching[0].body.block.ops:
        match op:
            case GetOp():
                exporter.names[op.result] = _read(op, exporter, reads)
            case SaveOp():
                target = op.target()
                assert isinstance(target, PlaceholderOp)
                name = _public(target)
                if exporter.name(op.input) != name:  # an input may be an output as it is
                    exporter.nodes.append(helper.make_node("Identity", [exporter.name(op.input)], [name]))
                outputs.append(_value_info(target, name))
            case GraphOp():
                names_or_name = _exported(op, exporter, symbols)
                results = [names_or_name] if isinstance(names_or_name, str) else list(names_or_name)
                for value, result in zip(op.results, results, strict=False):
                    exporter.names[value] = result
            case _:
                raise AssertionError(f"{op.name} is in a graph function")
    _name_outputs(exporter.nodes)
    name = re.sub(r"\W", "_", function)
    graph = helper.make_graph(exporter.nodes, name, inputs, outputs, exporter.initializers)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET), *_domains(exporter.nodes)],
        ir_version=_IR_VERSION,
        producer_name="glow",
    )


def _domains(nodes: list[NodeProto]) -> list[OperatorSetIdProto]:
    """The domains beside ONNX's own."""
    return [helper.make_opsetid(name, 1) for name in sorted({n.domain for n in nodes if n.domain})]


def save_model(module: ModuleOp, path: Path, function: str = "main") -> None:
    """Write `export_model(module)`; weights above 1 GiB go into `<name>.weights` beside it."""
    model = export_model(module, function)
    size = sum(len(t.raw_data) for t in model.graph.initializer)
    with ExitStack() as files:
        if size > _EXTERNAL_BYTES:
            weights = path.with_name(f"{path.stem}.weights")
            _write_external(model, files.enter_context(whole(weights)), weights.name)
        files.enter_context(whole(path)).write_bytes(model.SerializeToString())


def _write_external(model: ModelProto, path: Path, location: str) -> None:
    """Move large initializers to a file that the model knows as `location`, each to a page of its own."""
    with path.open("wb") as file:
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            if len(data) < _PAGE:
                continue
            file.write(bytes(-file.tell() % _PAGE))
            place = {"location": location, "offset": file.tell(), "length": len(data)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            tensor.data_location = TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
            file.write(data)


def _exported(op: GraphOp, exporter: Exporter, symbols: Sequence[Symbol]) -> str | Sequence[str]:
    """The names of an operator's results; UnsupportedError where its rule would fix an open size."""
    if not symbols:
        return RULES[type(op)](op, exporter)
    before = {s for s in symbols if s.least == s.most}
    with symbols[0].conditions.provisional():
        names = RULES[type(op)](op, exporter)
        fixed = next((s for s in symbols if s.least == s.most and s not in before), None)
    if fixed is not None:
        raise UnsupportedError(f"{described(op)} has no ONNX form for a dynamic size {fixed}")
    return names


def _decompose(function: FuncOp, rules: dict[type[GraphOp], Rule]) -> None:
    """Replace operators without a rule by their decompositions, again and again."""
    missing: list[str] = []
    queue = list(function.body.block.ops)
    while queue:
        op = queue.pop()
        if isinstance(op, GetOp | SaveOp) or type(op) in rules:
            continue
        expansion = decomposed(op) if isinstance(op, GraphOp) else None
        if expansion is None:
            missing.append(f"  - {described(op)}")
        else:
            queue += expansion[1]
    if missing:
        lines = "\n".join(sorted(set(missing)))
        raise UnsupportedError(f"operators that ONNX has no form for:\n{lines}")


def _read(op: GetOp, exporter: Exporter, reads: dict[str, str]) -> str:
    """The name under which a constant or placeholder is read."""
    target = op.target()
    assert target is not None
    symbol = target.sym_name.data
    if symbol not in reads:
        if isinstance(target, ConstantOp):
            array = target.array()
            if array is None:
                raise GlowError(f"constant @{symbol} has no values: its weights file is missing")
            reads[symbol] = exporter.constant(array, symbol)
        elif target.kind.data == "input":
            reads[symbol] = _public(target)
        else:
            reads[symbol] = exporter.constant(_first_value(target), _public(target) + "_value")
    return reads[symbol]


def _first_value(target: PlaceholderOp) -> Array:
    """The initial value of a state."""
    kind: Any = target.type
    array = array_of(target.init, kind) if target.init is not None else None
    return np.zeros(shape_of(kind), dtype_of(kind)) if array is None else array


def _public(op: PlaceholderOp) -> str:
    public = op.attributes.get("onnx.name")
    return public.data if isinstance(public, StringAttr) else op.sym_name.data


def _value_info(op: PlaceholderOp, name: str) -> ValueInfoProto:
    kind: Any = op.type
    dims = [str(d) if isinstance(d, Extent) else d for d in shape_of(kind)]
    return helper.make_tensor_value_info(name, onnx_type(dtype_of(kind)), dims)


def _name_outputs(nodes: list[NodeProto]) -> None:
    """Let the node that computes an output write it itself, where nothing else reads its result."""
    producers = {output: node for node in nodes for output in node.output}
    uses: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    for node in [n for n in nodes if n.op_type == "Identity" and not n.name]:
        source = producers.get(node.input[0])
        if source is None or uses[node.input[0]] != 1 or not source.name:
            continue
        position = list(source.output).index(node.input[0])
        source.output[position] = node.output[0]
        nodes.remove(node)
