"""The last steps of a model that only the host can take: maps and strings made of numbers, as of classifiers.

What comes before them is one compiled program; they follow it as plain functions, prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.module import FuncOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.labels import split_labels
from glow_frontends.onnx.model import copied, domain_of, opsets, sort_nodes, uses
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.maps import rows_of_maps
from glow_frontends.onnx.rules.ml import table_of_texts
from glow_frontends.onnx.scope import FAILURES, Scope, Session

#: Gives the function of one array that a node of ai.onnx.ml is, None where it is none of the host's.
Prepare = Callable[[Node], "Callable[[Array], Any] | None"]
PREPARED: dict[str, Prepare] = {"LabelEncoder": table_of_texts, "ZipMap": rows_of_maps}


class Finish:
    """A model without its last steps on the host (`model`), and those steps.

    Called with the outputs of `model`, an instance gives those of the whole model.
    """

    def __init__(
        self,
        model: ModelProto,
        steps: Sequence[tuple[NodeProto, Callable[[Array], Any]]],
        outputs: Sequence[str],
    ) -> None:
        self.model = model
        self.operators = sorted({node.op_type for node, _ in steps})
        self._steps = [(function, node.input[0], node.output[0]) for node, function in steps]
        self._outputs = list(outputs)

    def __call__(self, values: Mapping[str, Array]) -> dict[str, Any]:
        """Outputs of the whole model by name."""
        found: dict[str, Any] = dict(values)
        for function, taken, made in self._steps:
            try:
                found[made] = function(found[taken])
            except RuleError as error:
                raise UnsupportedError(f"the node of '{made}': {error}") from None
        return {name: found[name] for name in self._outputs}


def finish_of(model: ModelProto, folder: Path | None) -> Finish | None:
    """The last steps of a model that only the host can take; None where it has none.

    They are nodes that make maps or strings of numbers, for nobody but the caller.
    """
    if not any(node.op_type in PREPARED and node.domain == "ai.onnx.ml" for node in model.graph.node):
        return None
    try:
        nodes = list(split_labels(sort_nodes(model.graph.node, "model")))
    except GlowError:
        return None  # the importer says what is wrong
    versions = {"": 1, **opsets(model.opset_import)}
    session = Session(Emitter(ModuleOp([]), FuncOp.of("main"), set()), "model", folder, {})
    scope = Scope(session, versions)
    local = {(domain_of(f.domain), f.name) for f in model.functions}
    read: set[str] = set()
    kept: list[NodeProto] = []
    steps: list[tuple[NodeProto, Callable[[Array], Any]]] = []
    for node in reversed(nodes):
        function = None
        if (node.domain, node.op_type) not in local and not read & set(node.output):
            function = _prepared(node, versions, scope)
        if function is None:
            kept.append(node)
            read |= uses(node)
        else:
            steps.append((node, function))
    if not steps:
        return None
    made = {node.output[0] for node, _ in steps}
    outputs = [o.name for o in model.graph.output]
    taken = {node.input[0] for node, _ in steps}
    rest = copied(model, reversed(kept), model.graph.initializer)
    del rest.graph.output[:]
    for name in dict.fromkeys([*outputs, *sorted(taken)]):
        if name not in made:
            rest.graph.output.add().name = name
    return Finish(rest, steps[::-1], outputs)


def _prepared(node: NodeProto, versions: Mapping[str, int], scope: Scope) -> Callable[[Array], Any] | None:
    prepare = PREPARED.get(node.op_type) if node.domain == "ai.onnx.ml" else None
    if prepare is None or len(node.input) != 1 or len(node.output) != 1:
        return None
    try:
        attributes = {a.name: a for a in node.attribute}
        return prepare(Node(node, versions.get(node.domain, 1), [], attributes, scope))
    except FAILURES:
        return None  # which its rule explains
