"""The nodes of a function for the partitioner: memory, work and transfers of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.estimates import estimate
from glow_dialects.core.graph_op import GraphOp, Leaf
from glow_dialects.core.types import bytes_of
from glow_dialects.ops.control import CONTROL
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
    #: Placeholders that it writes, or reads where another node writes them, and branches or loops that it is
    #: or saves the values of: the nodes of each stay together.
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
        number: dict[object, int] = {node.op: i for i, node in enumerate(self.nodes)}
        for reader, node in enumerate(self.nodes):
            for value in read_values(node.op):
                if value.owner in number:
                    yield number[value.owner], reader, value


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
    number = {op: index for index, op in enumerate(ops)}
    written = {o.symbol.root_reference.data for o in ops if isinstance(o, SaveOp)}
    bytes_by_name: dict[str, int] = {}
    nodes: list[Node] = []
    for op in ops:
        if op.has_trait(Leaf):  # each partition that needs one has its own
            continue
        constants: set[str] = set()
        held: set[str] = set()
        owners = [value.owner for value in read_values(op)] + [o for o in op.walk() if isinstance(o, GetOp)]
        for read in (owner for owner in owners if isinstance(owner, GetOp)):
            name = read.symbol.root_reference.data
            if isinstance(lookup(function, name), ConstantOp):
                constants.add(name)
                bytes_by_name[name] = bytes_of(read.result.type)
            elif name in written:
                held.add(name)
        if isinstance(op, SaveOp):
            held.add(op.symbol.root_reference.data)
        branch = op.input.owner if isinstance(op, SaveOp) else op
        if isinstance(branch, CONTROL):
            held.add(f"branch {number[branch]}")  # it stays together with what saves its values
        traffic = sum(estimate(bytes_of(v.type)) for v in (*read_values(op), *op.results))
        work = sum(estimate(o.work()) for o in op.walk() if isinstance(o, GraphOp))
        nodes.append(Node(op, frozenset(constants), frozenset(held), work, traffic))
    return NodeGraph(function, nodes, bytes_by_name)


def memory_of(function: FuncOp) -> FunctionMemory:
    """What a function takes, gives and keeps."""
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    constants = constants_of(function)
    for op in function.walk():
        if isinstance(op, GetOp) and (name := op.symbol.root_reference.data) not in constants:
            inputs[name] = bytes_of(op.result.type)
        elif isinstance(op, SaveOp):
            outputs[op.symbol.root_reference.data] = bytes_of(op.input.type)
    return FunctionMemory(sum(inputs.values()), sum(outputs.values()), sum(constants.values()))


def constants_of(function: FuncOp) -> dict[str, int]:
    """Bytes of the constants that a function reads, by name."""
    reads = [(op.symbol.root_reference.data, op) for op in function.walk() if isinstance(op, GetOp)]
    return {n: bytes_of(op.result.type) for n, op in reads if isinstance(lookup(function, n), ConstantOp)}
