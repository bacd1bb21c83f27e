"""The nodes of a function as the partitioner sees them: what each keeps in memory, computes and hands on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.graph_op import GraphOp, Leaf
from glow_dialects.core.types import bytes_of
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, SaveOp, lookup


@dataclass(frozen=True)
class FunctionMemory:
    """Bytes of a function's inputs, outputs and constants, each tensor once."""

    inputs: int
    outputs: int
    constants: int


@dataclass(frozen=True)
class Node:
    """An operation that has a place of its own."""

    op: Operation
    #: Constants that it reads, by name.
    constants: frozenset[str]
    #: Placeholders that it writes, or reads where another node writes them: their nodes stay together.
    held: frozenset[str]
    #: Arithmetic operations, and bytes that are read and written.
    work: int
    traffic: int

    @property
    def label(self) -> str:
        """How messages name the node."""
        hint = self.op.results[0].name_hint if self.op.results else None
        return f"'{hint}' ({self.op.name})" if hint else self.op.name


@dataclass(frozen=True)
class NodeGraph:
    """The nodes of a function in order, the bytes of its constants, and who reads what."""

    function: FuncOp
    nodes: Sequence[Node]
    constant_bytes: dict[str, int]

    def edges(self) -> Iterable[tuple[int, int, SSAValue]]:
        """(writer, reader, value) of every value between two nodes."""
        number = {node.op: i for i, node in enumerate(self.nodes)}
        for reader, node in enumerate(self.nodes):
            for value in read_values(node.op):
                writer = value.owner
                if isinstance(writer, Operation) and writer in number and number[writer] != reader:
                    yield number[writer], reader, value


def read_values(op: Operation) -> list[SSAValue]:
    """What an operation reads, the bodies of branches and loops included, each once."""
    inside = {o for o in op.walk()}
    values = (v for o in inside for v in o.operands)
    return list(dict.fromkeys(v for v in values if not _is_inside(v, inside)))


def _is_inside(value: SSAValue, ops: set[Operation]) -> bool:
    owner = value.owner
    return owner in ops if isinstance(owner, Operation) else owner.parent_op() in ops


def node_graph(function: FuncOp) -> NodeGraph:
    """The nodes of a function, in its order."""
    ops = list(function.body.block.ops)
    written = {o.symbol.root_reference.data for o in ops if isinstance(o, SaveOp)}
    bytes_by_name: dict[str, int] = {}
    nodes: list[Node] = []
    for op in ops:
        if op.has_trait(Leaf):  # each partition that needs one has its own
            continue
        constants: set[str] = set()
        held: set[str] = set()
        for value in read_values(op):
            if isinstance(owner := value.owner, GetOp):
                name = owner.symbol.root_reference.data
                if isinstance(lookup(function, name), ConstantOp):
                    constants.add(name)
                    bytes_by_name[name] = bytes_of(value.type)
                elif name in written:
                    held.add(name)
        if isinstance(op, SaveOp):
            held.add(op.symbol.root_reference.data)
        traffic = sum(bytes_of(v.type) for v in (*read_values(op), *op.results))
        work = op.work() if isinstance(op, GraphOp) else 0
        nodes.append(Node(op, frozenset(constants), frozenset(held), work, traffic))
    return NodeGraph(function, nodes, bytes_by_name)


def memory_of(function: FuncOp) -> FunctionMemory:
    """What a function takes, gives and keeps."""
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    constants: dict[str, int] = {}
    for op in function.body.block.ops:
        if isinstance(op, GetOp):
            name = op.symbol.root_reference.data
            kept = constants if isinstance(lookup(function, name), ConstantOp) else inputs
            kept[name] = bytes_of(op.result.type)
        elif isinstance(op, SaveOp):
            outputs[op.symbol.root_reference.data] = bytes_of(op.input.type)
    return FunctionMemory(sum(inputs.values()), sum(outputs.values()), sum(constants.values()))
