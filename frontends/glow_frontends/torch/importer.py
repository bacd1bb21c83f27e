"""import_program: a program of `torch.export` becomes a module of the `glow` dialect."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.errors import ImportProblems, Problem, internal
from glow_dialects.core.location import node_location
from glow_dialects.core.types import Array, tensor, typed
from glow_dialects.ops.module import PlaceholderOp, SaveOp
from glow_frontends.graph import Emitter, RuleError, Value, shape
from glow_frontends.graph.errors import FAILURES
from glow_frontends.torch.decompose import decomposed, decomposes, decompositions, is_leaf, name_of
from glow_frontends.torch.node import Decomposed, Node
from glow_frontends.torch.rules import find_rule
from glow_frontends.torch.sizes import Sizes
from glow_frontends.torch.tensors import array_of, numpy_dtype

#: Calls that are there for what they check, or for gradients, and have no result.
IGNORED = re.compile(
    r"(aten\.)?(_assert\w*|sym_constrain_range\w*|_set_grad_enabled|_check\w*)(\.\w+)?"
    r"|profiler\..*"
)
#: Python's arithmetic of sizes, which the project's sizes have as well.
ARITHMETIC = {"add", "sub", "mul", "floordiv", "mod", "neg"}
#: Calls of another graph that change nothing of what it computes: the place of the graph among the operands.
WRAPPERS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}


class Blocked:
    """A value that could not be made, because of an earlier problem, nor stood in for."""


BLOCKED = Blocked()


@dataclass(frozen=True)
class Refusal:
    """Why a call of an operator is in no program, and where the model's source has it."""

    op: str
    reason: str
    place: str = ""

    def __str__(self) -> str:
        return self.reason + (f"; {self.place}" if self.place else "")


class GraphProblems(ImportProblems):
    """Everything wrong with a graph; `refused` are the calls that no program can have, by name."""

    def __init__(
        self, source: str, problems: Sequence[Problem | str], refused: Mapping[str, Refusal]
    ) -> None:
        super().__init__(source, problems)
        self.refused = dict(refused)


@dataclass
class Input:
    """What a placeholder of a graph stands for: an input, a state with its first value, or what is known."""

    name: str
    kind: str = "input"
    value: Any = None


@dataclass
class Output:
    """A result of a graph: an output of a name, with its axes in some order, or the next value of a state."""

    name: str
    state: bool = False
    order: Sequence[int] | None = None


def import_program(program: Any, source: str = "") -> ModuleOp:
    """The module of a `torch.export.ExportedProgram`: function `main`, weights under their names.

    Buffers that the program changes are states. Sizes that its export left open stay open.
    Raises ImportProblems with every problem of the program.
    """
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    tensors = {**program.constants, **program.state_dict}
    inputs: list[Input] = []
    for spec in signature.input_specs:
        kind, name = spec.kind.name, spec.arg.name
        if kind == "USER_INPUT":
            known = getattr(spec.arg, "value", None)  # of arguments that are no tensors
            inputs.append(Input(name, "known" if hasattr(spec.arg, "value") else "input", known))
        elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            target = spec.target
            inputs.append(Input(target, "state" if target in changed else "constant", tensors[target]))
        else:
            inputs.append(Input(name, "unknown", f"{kind.lower()} inputs are not known here"))
    outputs: list[Output | None] = []
    problems: list[Problem] = []
    for spec in signature.output_specs:
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            constant = type(spec.arg).__name__ == "ConstantArgument"
            outputs.append(None if constant else Output(spec.arg.name))
        elif kind == "BUFFER_MUTATION":
            outputs.append(Output(spec.target, state=True))
        else:
            outputs.append(None)
            what = f"{kind.lower().replace('_', ' ')} of '{spec.target}' is not known here"
            problems.append(Problem(str(spec.arg.name), "output", 0, what))
    name = source or _class_name(program.graph_module)
    return import_graph(program.graph_module, inputs, outputs, name, program.range_constraints, problems)


def _class_name(graph: Any) -> str:
    """The class of the module that was exported, as its nodes have it."""
    for node in graph.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if path == "":
                return str(kind).rpartition(".")[2]
    return "module"


def import_graph(
    graph: Any,
    inputs: Sequence[Input],
    outputs: Sequence[Output | None],
    source: str = "graph",
    ranges: Mapping[Any, Any] | None = None,
    problems: Sequence[Problem] = (),
    known: Mapping[str, int] | None = None,
) -> ModuleOp:
    """The module of an `fx.GraphModule` of ATen operators, its placeholders and results being as told.

    Sizes stay open that PyTorch has symbols for, but for those of `known`; `ranges` are their limits.
    Raises ImportProblems with every problem of the graph, OpenSizes where it is not right for all sizes.
    """
    names = {o.name for o in outputs if o} | {i.name for i in inputs if i.kind in ("input", "state")}
    importing = _Import(source, names, Sizes(ranges or {}, known or {}))
    importing.problems.extend(problems)
    return importing.whole(graph, inputs, outputs)


@dataclass
class _Import:
    """One import: the module under construction, its sizes, and the problems so far."""

    source: str
    reserved: set[str]
    sizes: Sizes
    problems: list[Problem] = field(default_factory=list[Problem])

    def __post_init__(self) -> None:
        self.g = Emitter(source=self.source, reserved=self.reserved, symbols=self.sizes.symbols)
        self.states: dict[str, PlaceholderOp] = {}
        #: The call whose decomposition is imported.
        self.around: Any = None
        #: Calls that have a problem, or an operand that nothing stands in for.
        self.refused: dict[str, Refusal] = {}

    # --- the module --------------------------------------------------------------------------
    def whole(self, graph: Any, inputs: Sequence[Input], outputs: Sequence[Output | None]) -> ModuleOp:
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.sizes.tell(node.meta.get("val") for node in nodes)
        values = [self.input(node, told) for node, told in zip(nodes, inputs, strict=True)]
        results = self.run(graph, values)
        for told, value in zip(outputs, results, strict=True):
            if told is not None and value is not BLOCKED:
                self.output(told, value)
        if self.problems:
            raise GraphProblems(self.source, self.problems, self.refused)
        return self.g.finished()

    def input(self, node: Any, told: Input) -> Any:
        """The value of a placeholder."""
        meta = node.meta.get("val")
        try:
            if told.kind == "known":
                return told.value
            if told.kind == "unknown":
                raise RuleError(told.value)
            if told.kind == "constant":
                array = array_of(told.value)
                self.g.name(array, told.name)
                return array
            if not hasattr(meta, "shape"):
                if not node.users:
                    return None
                if self.sizes.is_told(meta):
                    return self.number(meta)
            return self._given(told.name, meta, told.kind, told.value)
        except FAILURES as error:
            self.problems.append(Problem(told.name, "input", 0, str(error)))
            return BLOCKED

    def _given(self, name: str, meta: Any, role: str = "input", first: Any = None) -> Value:
        """What a port holds, of a tensor or a number."""
        if hasattr(meta, "shape"):
            kind = tensor(self.sizes.shape(meta.shape), numpy_dtype(meta.dtype))
        else:
            kind = tensor((), "float64" if type(meta).__name__ == "SymFloat" else "int64")
        placeholder = self._port(name, kind, role, array_of(first).copy() if role == "state" else None)
        if role == "state":
            self.states[name] = placeholder
        value = self.g.read(placeholder)
        if not hasattr(meta, "shape"):
            self.sizes.numbers[str(meta.node.expr)] = value
        return value

    def _port(self, name: str, kind: Any, role: str, first: Array | None = None) -> PlaceholderOp:
        return self.g.port(name, kind, role, first, name if name != "main" else self.g.unique(name))

    def output(self, told: Output, value: Any) -> None:
        """Make a value an output of the module, or the next value of a state."""
        if not isinstance(value, np.ndarray | SSAValue):
            value = self.g.size(value, np.dtype(np.int64))
        result = self.g.value(value if told.order is None else self.g.transpose(value, told.order))
        if told.state:
            target = self.states[told.name]
        else:
            taken = {p.sym_name.data for p in self.g.module.ops if isinstance(p, PlaceholderOp)}
            name = self.g.unique(f"{told.name}_out") if told.name in taken else told.name
            target = self._port(name, typed(result), "output")
        self.g.builder.insert(SaveOp.of(result, target))

    # --- graphs ------------------------------------------------------------------------------
    def run(self, graph: Any, values: Sequence[Any]) -> list[Any]:
        """The results of a graph, its placeholders having these values."""
        known: dict[Any, Any] = {}
        arguments = iter(values)

        def value_of(node: Any) -> Any:
            return known[node]

        for node in graph.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(arguments)
            elif node.op == "get_attr":
                known[node] = self.attribute(graph, node)
            elif node.op == "output":
                results = _mapped(node.args[0], value_of)
                return list(results) if isinstance(results, list | tuple) else [results]
            else:
                known[node] = self.step(graph, node, value_of)
        raise AssertionError("a graph without results")

    def attribute(self, graph: Any, node: Any) -> Any:
        """A tensor that the graph holds, or a graph."""
        found = graph
        for part in node.target.split("."):
            found = getattr(found, part)
        if not hasattr(found, "dtype"):
            return found
        array = array_of(found)
        self.g.name(array, node.target)
        return array

    def step(self, graph: Any, node: Any, value_of: Callable[[Any], Any]) -> Any:
        """The value of one call; a problem is recorded, and what comes after it is tried all the same."""
        blocked = any(value_of(n) is BLOCKED for n in node.all_input_nodes)
        outer = self.g.builder.location
        self.g.builder.location = node_location(node.name, _module_of(node, outer))
        try:
            return self.call(node, value_of, blocked)
        except _Nested:
            if self.around is not None:
                raise
            reason = "an operand or a result of a type that is not known here"
            self.refused.setdefault(node.name, Refusal(_op_name(node), reason, place_of(node)))
            return self.stand_in(node.meta.get("val"))
        except FAILURES as error:
            reason = str(error) or type(error).__name__
        except Exception as error:
            told = not any(self.sizes.has_numbers(n.meta.get("val")) for n in node.all_input_nodes)
            reason = internal(error, "the rule") if told else "a number that only the run tells, as a size"
        finally:
            self.g.builder.location = outer
        whole = self.around or node
        if whole is not node:
            reason += f" ({_op_name(node)}, of which PyTorch makes it)"
        refusal = Refusal(_op_name(whole), reason, place_of(whole))
        self.refused[whole.name] = refusal
        self.problems.append(Problem(whole.name, refusal.op, 0, str(refusal)))
        if self.around is not None:
            raise _Nested
        return self.stand_in(node.meta.get("val"))

    def stand_in(self, meta: Any) -> Any:
        """A value like that of a call which failed, so that later ones can be tried."""
        if isinstance(meta, list | tuple):
            return [self.stand_in(m) for m in meta]
        if not hasattr(meta, "shape") and type(meta).__name__ not in ("SymInt", "SymFloat"):
            return BLOCKED
        try:
            self.sizes.tell([meta])
            return self._given(self.g.unique("stand_in"), meta)
        except FAILURES:
            return BLOCKED

    def call(self, node: Any, value_of: Callable[[Any], Any], blocked: bool) -> Any:
        """The value of one call, of whatever kind."""
        name = _op_name(node)
        meta = node.meta.get("val")
        if IGNORED.fullmatch(name) or node.users and all(IGNORED.fullmatch(_op_name(u)) for u in node.users):
            return None
        if blocked:
            operator_of_tensors = hasattr(node.target, "_schema") and (
                hasattr(meta, "shape") or isinstance(meta, list | tuple)
            )
            if operator_of_tensors and not (find_rule(name) or decomposes(node.target)):
                raise RuleError("no rule for this operator")  # which is told although it would not be reached
            raise _Nested
        if name in WRAPPERS:
            place = WRAPPERS[name]
            if name == "wrap_with_autocast" and node.args[2]:
                raise RuleError("regions of autocast are not known here; convert the module with .to(dtype)")
            inner, *values = _mapped(node.args[place:], value_of)
            return self.run(inner, values)
        if node.target is operator.getitem and not hasattr(node.args[0].meta.get("val"), "shape"):
            return value_of(node.args[0])[node.args[1]]
        if name.startswith("aten.sym_size.int"):
            return shape(value_of(node.args[0]))[_mapped(node.args[1], value_of)]
        if (
            name in ARITHMETIC
            and type(meta).__name__ in ("int", "SymInt")
            and not self.sizes.has_numbers(meta)
        ):
            return getattr(operator, name)(*_mapped(node.args, value_of))
        if meta is not None and not hasattr(meta, "shape") and not isinstance(meta, list | tuple):
            return self.number(meta)
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            raise RuleError("no rule for this operator")
        operands = _operands(node)
        values = [_mapped(o, value_of) for o in operands]
        metas = [_mapped(o, lambda n: n.meta.get("val")) for o in operands]
        return self.apply(node, Node(node.name, name, metas, meta, _read(node)), values)

    def apply(self, node: Any, n: Node, values: Sequence[Any]) -> Any:
        """The results of an operator by its rule, or else by PyTorch's decomposition."""
        rule = find_rule(n.op)
        try:
            if rule is None:
                raise Decomposed("no rule for this operator")
            made = rule(self.g, n, *values)
        except Decomposed as error:
            graph = decomposed(node.target, n.metas)
            if graph is None:
                raise RuleError(str(error)) from None
            flat = [v for v, m in zip(_flat(values), _flat(n.metas), strict=True) if is_leaf(m)]
            outer, self.around = self.around, self.around or node
            try:
                results = self.run(graph, flat)
            finally:
                self.around = outer
            if any(result is BLOCKED for result in results):
                raise _Nested from None
            made = results if isinstance(n.meta, list | tuple) else results[0]
        return made

    def number(self, meta: Any) -> Any:
        """A number that sizes decide: a size, or a scalar of the graph."""
        if isinstance(meta, bool | int | float | str):
            return meta
        kind = type(meta).__name__
        if kind == "SymInt":
            return self.sizes.whole(self.g, meta)
        if kind == "SymFloat":
            return self.sizes.real(self.g, meta.node.expr)
        raise RuleError(f"a value of {kind} is not known here")


class _Nested(RuleError):
    """An operand, or a graph within, failed; its problems are reported already."""


def _op_name(node: Any) -> str:
    """`aten.add.Tensor`; of what is no ATen operator its Python name."""
    if hasattr(node.target, "_schema"):
        return name_of(node.target)
    return str(getattr(node.target, "__name__", node.target))


def _operands(node: Any) -> list[Any]:
    """The arguments of a call in the order of its schema, defaults where none is given."""
    out: list[Any] = []
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args):
            out.append(node.args[index])
        elif argument.name in node.kwargs:
            out.append(node.kwargs[argument.name])
        else:
            out.append(argument.default_value)
    return out


def _read(node: Any) -> frozenset[int] | None:
    """Which of several results are read."""
    if not isinstance(node.meta.get("val"), list | tuple):
        return None
    users = list(node.users)
    if all(u.target is operator.getitem for u in users):
        return frozenset(u.args[1] for u in users)
    return None


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """`value` with the nodes in it replaced."""
    if isinstance(value, list | tuple):
        return [_mapped(v, function) for v in value]
    return function(value) if hasattr(value, "all_input_nodes") else value


def _flat(values: Any) -> list[Any]:
    """The operands in a row, lists taken apart."""
    return [v for value in values for v in (_flat(value) if isinstance(value, list | tuple) else [value])]


def _module_of(node: Any, outer: Any) -> Any:
    """The location of the module that a node is of."""
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    path = stack[-1] if stack else ""
    named = path and not path.startswith("_empty") and "L['self']" not in path
    return node_location(path, outer) if named else outer


def place_of(node: Any) -> str:
    """Where a call stands in the model's source: its module, file and line."""
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    module = f"in module '{stack[-1]}'" if stack and stack[-1] and not stack[-1].startswith("_empty") else ""
    frames = re.findall(
        r'File "([^"]+)", line (\d+), in \w+\n\s*([^\n]*)', node.meta.get("stack_trace") or ""
    )
    line = f"{frames[-1][0]}:{frames[-1][1]}: {frames[-1][2].strip()}" if frames else ""
    return ", ".join(part for part in (module, line) if part)


__all__ = ["GraphProblems", "Input", "Output", "Refusal", "import_graph", "import_program"]
