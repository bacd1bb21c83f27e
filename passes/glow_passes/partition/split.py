"""A function as several, joined by placeholders; and each of them as a module of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.conditions import Symbol
from glow_dialects.core.errors import PartitionError
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import shape_of, typed
from glow_dialects.ops.control import CONTROL
from glow_dialects.ops.module import (
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    functions,
    lookup,
    module_of,
    placeholders,
)
from glow_passes.graph.symbols import Symbols
from glow_passes.partition.nodes import NodeGraph, node_graph, read_values

#: The attribute of a node or function that says which partition it is, and of a function on what device.
PARTITION, DEVICE = "partition", "device"


def partition_of(op: Operation) -> int | None:
    """The partition that the program names for a node, if it names one."""
    value = op.attributes.get(PARTITION)
    return value.value.data if isinstance(value, IntegerAttr) else None


def device_of(function: FuncOp) -> str | None:
    """The device that the program names for a function, if it names one."""
    value = function.attributes.get(DEVICE)
    return value.data if isinstance(value, StringAttr) else None


def mark(graph: NodeGraph, parts: Sequence[int]) -> None:
    """Write the plan into the program."""
    for node, part in zip(graph.nodes, parts, strict=True):
        node.op.attributes[PARTITION] = IntegerAttr(part, i64)


def order_of(graph: NodeGraph, parts: Sequence[int]) -> list[int]:
    """The partitions in an order in which each comes after those it reads; PartitionError names a circle."""
    links: dict[tuple[int, int], tuple[str, str]] = {}
    for writer, reader, _ in graph.edges():
        pair = parts[writer], parts[reader]
        if pair[0] != pair[1]:
            links.setdefault(pair, (graph.nodes[writer].label, graph.nodes[reader].label))
    left = sorted(set(parts))
    order: list[int] = []
    while left:
        ready = [p for p in left if not any(w in left for w, r in links if r == p)]
        if not ready:
            raise PartitionError(_circle(left, links))
        order += ready
        left = [p for p in left if p not in ready]
    return order


def _circle(left: Sequence[int], links: Mapping[tuple[int, int], tuple[str, str]]) -> str:
    """Partitions that wait for each other, with the nodes that make them."""
    path = [left[0]]
    while (before := next(w for w, r in links if r == path[-1] and w in left)) not in path:
        path.append(before)
    circle = [*path[path.index(before) :], before][::-1]
    steps = [
        f"node {writer} of partition {a} feeds {reader} of {b}"
        for a, b in zip(circle, circle[1:], strict=False)
        for writer, reader in [links[a, b]]
    ]
    return f"partitions {' -> '.join(map(str, circle))} form a circle: {'; '.join(steps)}"


@dataclass
class _Split:
    """A function that is being taken apart."""

    function: FuncOp
    graph: NodeGraph
    parts: Sequence[int]

    def __post_init__(self) -> None:
        module = module_of(self.function)
        assert module is not None
        self.module: ModuleOp = module
        self.name = self.function.sym_name.data
        self.part_of = {n.op: p for n, p in zip(self.graph.nodes, self.parts, strict=True)}
        self.values: dict[int, dict[SSAValue, SSAValue]] = {}
        self.made: dict[int, FuncOp] = {}
        self.transfers: dict[SSAValue, PlaceholderOp] = {}
        self.symbols = Symbols(module)

    def run(self, order: Sequence[int]) -> list[FuncOp]:
        """The functions, in order, in place of the one."""
        for place, part in enumerate(order):
            name = self.symbols.fresh(f"{self.name}_{place}")
            made = self.made[part] = self.symbols.table[name] = FuncOp.of(name)
            made.attributes |= self.function.attributes | {PARTITION: IntegerAttr(part, i64)}
            self.values[part] = {}
        for part in order:
            for node in self.graph.nodes:
                if self.part_of[node.op] == part:
                    self._node(node.op, part)
        block = self.module.body.block
        for part in order:
            block.insert_op_before(self.made[part], self.function)
        Rewriter.erase_op(self.function)
        return [self.made[part] for part in order]

    def _node(self, op: Operation, part: int) -> None:
        values, block = self.values[part], self.made[part].body.block
        for value in read_values(op):
            if value not in values:
                block.add_op(self._read(value, part))
        copy = op.clone(dict(values))
        copy.attributes.pop(PARTITION, None)
        block.add_op(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            values[old] = new
            if any(self._reader(use.operation) != part for use in old.uses):
                placeholder = self._transfer(old)
                block.add_op(SaveOp.of(new, placeholder))

    def _reader(self, op: Operation) -> int:
        """The partition of the node around an operation."""
        while op not in self.part_of:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return self.part_of[op]

    def _read(self, value: SSAValue, part: int) -> Operation:
        """The operation that gives a partition a value from outside."""
        if value in self.transfers:
            made = GetOp.of(self.transfers[value])
        else:  # a node that each partition has for itself
            assert isinstance(value.owner, Operation)
            made = value.owner.clone()
        made.results[0].name_hint = value.name_hint
        self.values[part][value] = made.results[0]
        return made

    def _transfer(self, value: SSAValue) -> PlaceholderOp:
        name = self.symbols.fresh(f"{self.name}.{value.name_hint or 'value'}")
        placeholder = PlaceholderOp.of(name, typed(value), "transfer")
        self.transfers[value] = self.symbols.table[name] = placeholder
        self.module.body.block.insert_op_before(placeholder, self.function)
        return placeholder


def split(function: FuncOp, parts: Sequence[int]) -> list[FuncOp]:
    """Put functions in the place of one, each with the nodes of a partition, in an order that runs.

    Values between them are saved to placeholders of kind `transfer`. PartitionError where they wait for
    each other.
    """
    graph = node_graph(function)
    return _Split(function, graph, parts).run(order_of(graph, parts))


def segments(graph: NodeGraph) -> list[int]:
    """A part for each node, so that branches and loops are alone, and what is between them is together.

    These are the straight parts of `glow-outline-control`: a save ends one.
    """
    number: dict[object, int] = {node.op: index for index, node in enumerate(graph.nodes)}
    parts: list[int] = []
    part, ended = 0, False
    for node in graph.nodes:
        if isinstance(node.op, SaveOp):
            writer = node.op.input.owner
            parts.append(parts[number[writer]] if writer in number else part)
            ended = True
            continue
        alone = isinstance(node.op, CONTROL)
        part += bool(parts) and (ended or alone)
        parts.append(part)
        ended = alone
    return parts


def extract(function: FuncOp, called: str = "main") -> ModuleOp:
    """A module of one partition's function, under a name, that shares its constants' arrays.

    A transfer that it writes is an output there, one that it reads an input.
    """
    made = ModuleOp([])
    written = {op.symbol.root_reference.data for op in function.body.block.ops if isinstance(op, SaveOp)}
    for name in dict.fromkeys(_symbols(function)):
        target = lookup(function, name)
        assert target is not None
        copy = target.clone()
        if isinstance(copy, PlaceholderOp) and copy.kind.data == "transfer":
            copy.properties["kind"] = StringAttr("output" if name in written else "input")
        made.body.block.add_op(copy)
    body = function.clone()
    body.properties["sym_name"] = StringAttr(called)
    made.body.block.add_op(body)
    return made


def tell_sizes(piece: ModuleOp, whole: ModuleOp) -> None:
    """Give a module of one partition the inputs of the whole that tell open sizes of which its own do not.

    What was decided about the sizes of the whole is a condition of each program.
    """
    kinds = [r.type for op in piece.walk() for r in op.results]
    extents = [d for kind in kinds if isinstance(kind, TensorType) for d in shape_of(kind)]
    conditions = next((d.conditions for d in extents if isinstance(d, Extent)), None)
    if conditions is None:
        return
    told = {s for port in _inputs(piece) for s in _told(port)}
    for port in _inputs(whole):
        if not told.issuperset(_told(port)):
            told |= _told(port)
            piece.body.block.insert_op_before(port.clone(), next(functions(piece)))


def _inputs(module: ModuleOp) -> list[PlaceholderOp]:
    return [p for p in placeholders(module).values() if p.kind.data == "input"]


def _told(port: PlaceholderOp) -> set[Symbol]:
    """The open sizes that the shape of an input tells."""
    linear = [d.linear for d in shape_of(port.type) if isinstance(d, Extent)]
    return {known[1] for known in linear if known is not None}


def _symbols(function: FuncOp) -> Iterator[str]:
    """The constants and placeholders of a function: first those that it reads, then those that it writes."""
    for kind in (GetOp, SaveOp):
        for op in function.walk():
            if isinstance(op, kind):
                yield op.symbol.root_reference.data


def partitions(module: ModuleOp) -> list[FuncOp]:
    """The functions of a module that are partitions, in their order."""
    return [f for f in functions(module) if PARTITION in f.attributes]
