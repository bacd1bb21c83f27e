"""How one node runs on the host: by its rule on NumPy arrays, as a prepared function, or as control flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto
from xdsl.ir import SSAValue

from glow_dialects.core.errors import GlowError, ImportProblems, UnsupportedError, internal
from glow_dialects.core.types import Array
from glow_frontends.graph.errors import FAILURES, RuleError
from glow_frontends.onnx.importer import Import
from glow_frontends.onnx.model import domain_of, label, uses
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.plan.control import CONTROL
from glow_frontends.onnx.rules.maps import Rows, rows_of_maps, sequence_of_maps
from glow_frontends.onnx.rules.ml import table_of_texts
from glow_frontends.onnx.scope import Scope
from glow_frontends.onnx.values import AnyValue

if TYPE_CHECKING:
    from glow_frontends.onnx.plan.graph import GraphPlan
    from glow_frontends.onnx.plan.stage import Values

#: What a function of one array makes: an array of strings, or dictionaries, as callers of the model get them.
Prepared = Callable[[Array], Array | Rows]
#: Gives the function that a node of ai.onnx.ml is, None where it is none of the host's.
Prepare = Callable[[Node], Prepared | None]
PREPARED: dict[str, Prepare] = {"LabelEncoder": table_of_texts, "ZipMap": rows_of_maps}


class HostNode(ABC):
    """A node on the host."""

    def __init__(self, node: NodeProto, plan: GraphPlan) -> None:
        self.node = node
        self.plan = plan
        self.names = sorted(uses(node))

    def run(self, values: Values) -> None:
        """Add the node's outputs to the values of a run; an UnsupportedError says what it refuses."""
        try:
            weights = self.plan.weights
            read = {n: weights[n] for n in self.names if n in weights}
            read |= {n: values[n] for n in self.names if n in values}
            results = self.results(values, read)
        except ImportProblems:
            raise
        except FAILURES as error:
            raise UnsupportedError(f"{self._place()}: {error}") from None
        except Exception as error:
            raise GlowError(f"{self._place()}: {internal(error, 'the rule')}") from error
        for name, value in zip(self.node.output, results, strict=False):
            if name and value is not None:
                values[name] = value

    def _place(self) -> str:
        return f"{self.plan.setting.source.name}: node '{label(self.node)}' ({self.node.op_type})"

    @abstractmethod
    def results(self, values: Values, read: Values) -> Sequence[AnyValue | None]:
        """The outputs, for the values of a run and those of them that the node reads."""


class ControlNode(HostNode):
    """Control flow: runs of its bodies, each with a plan of its own."""

    def results(self, values: Values, read: Values) -> Sequence[AnyValue | None]:
        return CONTROL[self.node.op_type](self.plan, self.node, {**values, **read})


class PreparedNode(HostNode):
    """A function of one array that is prepared once, as of classifiers: maps and strings made of numbers."""

    def __init__(self, node: NodeProto, plan: GraphPlan, function: Prepared) -> None:
        super().__init__(node, plan)
        self.function = function

    def results(self, values: Values, read: Values) -> Sequence[AnyValue | None]:
        made = self.function(read[self.node.input[0]])  # pyright: ignore[reportArgumentType]
        return [sequence_of_maps(made) if isinstance(made, list) else made]


class RuleNode(HostNode):
    """Any other operator: its rule folds it, as it folds constants at import."""

    _blank: Import | None = None

    def results(self, values: Values, read: Values) -> Sequence[AnyValue | None]:
        scope = self._scope()
        scope.values.update(read)
        scope.define(self.node, scope.node(self.node))
        if scope.session.problems:
            raise ImportProblems(self.plan.setting.source.name, scope.session.problems)
        results = [scope.read(name) if name else None for name in self.node.output]
        if any(isinstance(value, SSAValue) for value in results):
            raise RuleError("it needs weights that are known before the run: make them initializers")
        return results

    def _scope(self) -> Scope:
        """A scope of no values: most nodes leave its module empty for the next run."""
        source = self.plan.setting.source
        self._blank = Import(source) if self._blank is None else self._blank.again(source)
        return self._blank.scope


def host_node(node: NodeProto, plan: GraphPlan) -> HostNode:
    """The way in which a node runs on the host."""
    if node.op_type in CONTROL and not node.domain:
        return ControlNode(node, plan)
    prepare = PREPARED.get(node.op_type) if node.domain == "ai.onnx.ml" else None
    source = plan.setting.source
    if prepare is None or (domain_of(node.domain), node.op_type, node.overload) in source.functions:
        return RuleNode(node, plan)
    if len(node.input) != 1 or len(node.output) != 1:
        return RuleNode(node, plan)
    attributes = {a.name: a for a in node.attribute}
    try:
        scope = Import(source).scope
        function = prepare(Node(node, source.opsets.get(node.domain, 1), [], attributes, scope))
    except FAILURES:
        function = None  # which its rule explains
    return RuleNode(node, plan) if function is None else PreparedNode(node, plan, function)
