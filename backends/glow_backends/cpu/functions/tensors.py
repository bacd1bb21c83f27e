"""Tensors of native functions: operators wait until a value is needed, then run as one compiled graph.

A primitive on tensors makes a `Node`. Where a pointer or a number is really needed (an argument of a call, a
record, a branch), the nodes that it depends on become one `Run`: a call of a graph that is compiled like any
other network. A node inside a run that is needed later becomes one more output of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from xdsl.ir import Block, SSAValue

from glow_backends.cpu.functions.layout import I1, I64, POINTER, SCALARS
from glow_backends.cpu.functions.runtime import Failure, Support
from glow_backends.cpu.memory import ALIGN, address, aligned_array, rounded
from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, bytes_of, dtype_of, shape_of, tensor
from glow_dialects.fn.domain import INT, NotNative, Scalar, TensorType, Type, marked
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.arithmetic import Add, Div, Mul, Neg, Sub
from glow_dialects.fn.primitives.items import CountOutside, Item, Rows
from glow_dialects.fn.regions import Kind, Region, region, with_numbers
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.fn.values import V
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.module import ConstantOp, GetOp
from glow_dialects.ops.reshape import ReshapeOp

DTYPES = {"bool": "bool", "int": "int64", "float": "float64"}
I8 = ir.IntType(8)
#: Bytes of constants by whose contents graphs are told apart; larger ones are themselves only.
COMPARED = 1 << 16
#: Arithmetic on numbers that stays in the graph behind the tensors it comes from, and how long.
LAZY, LAZY_DEPTH = (Add, Sub, Mul, Div, Neg), 8


@dataclass(eq=False)
class Node:
    """A tensor, or a number that tensors give, which is computed when it is needed.

    Known by one of: `real` (a pointer, or a register where `scalar` names its kind), `const` (an array),
    `run` (computed there, not handed out yet), or `template` applied to `operands`.
    """

    type: Tensor
    scalar: str | None = None
    real: ir.Value | None = None
    const: Array | None = None
    template: Region | None = None
    operands: tuple[Node, ...] = ()
    run: Run | None = None
    depth: int = 0
    #: The number of the program's result that it is, where it is computed in place.
    place: int | None = None
    #: The array whose row it is, and the bytes in front of it, where that is known.
    row: tuple[Node, int] | None = None
    #: Where the row that it is lies in memory, though not as kernels need it.
    place_of: ir.Value | None = None

    def base(self) -> Node:
        """The node whose memory this one only sees under another shape."""
        node = self
        while node.scalar is None and node.real is None and node.template is not None:
            seen = viewed(node.template)
            if seen is None or node.operands[seen].scalar is not None:
                break
            node = node.operands[seen]
        return node


def template_of(card: Primitive, attributes: Any, x: Sequence[V], where: str) -> Region:
    """The operators of a primitive on tensors and numbers."""
    kinds: list[Kind] = []
    for v in x:
        if isinstance(v.type, Scalar):
            kinds.append(Kind(tensor((), DTYPES[v.type.kind]), True))
        else:
            assert isinstance(v.type, TensorType)
            kinds.append(Kind(tensor(v.type.shape, v.type.dtype)))
    numbers = [v.type.const if isinstance(v.type, Scalar) else None for v in x]
    return region(card, attributes, with_numbers(kinds, numbers), where)


def viewed(template: Region) -> int | None:
    """The operand that a template gives back under another shape."""
    value = template.result
    while isinstance(value.owner, ReshapeOp | IdentityOp):
        value = value.owner.operands[0]
    return template.block.args.index(value) if value in template.block.args else None


def _positions(node: Node) -> float:
    """A number that positions found in an axis are below, as those of a largest element are."""
    value = None if node.template is None else node.template.result
    while value is not None and isinstance(value.owner, ReshapeOp | IdentityOp | CastOp):
        value = value.owner.operands[0]
    if value is None or not isinstance(value.owner, ArgMaxOp | ArgMinOp):
        return math.inf
    return shape_of(value.owner.operands[0].type)[value.owner.axis]


@dataclass(eq=False)
class Run:
    """A call of a compiled graph; its outputs may grow while the function is emitted."""

    call: ir.CallInstr
    nodes: list[Node]
    inputs: list[Node]
    #: Bytes of the outputs, and the memory for them.
    size: ir.Constant
    memory: ir.Value
    outputs: list[Node] = field(default_factory=list[Node])
    #: (constant of the code, what it stands for: slot, scalar, weights, arena, io).
    patches: list[tuple[ir.Constant, str, int]] = field(default_factory=list[tuple[ir.Constant, str, int]])
    #: Results of compiling: packed constants, steps on the host, the table of pointers.
    weights: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    host: Any = None
    io: Any = None


class Tensors:
    """Makes nodes, and runs where their values are needed."""

    def __init__(self, module: ir.Module, support: Support) -> None:
        self.module = module
        self.support = support
        self.runs: list[Run] = []
        self.keep: list[Array] = []
        self.zeros: dict[tuple[tuple[int, ...], str], Node] = {}
        self.nothing: dict[int, ir.Value] = {}
        self.weights: dict[str, Node] = {}
        self.templates: dict[GraphOp, list[Region]] = {}
        self.known: dict[tuple[ir.Value, Type], Node] = {}
        self.builder: ir.IRBuilder = ir.IRBuilder()
        #: Numbers of subscripts outside their axes, which wait, and the errors of those that are not 0.
        self.checks: list[tuple[Node, Failure]] = []

    def graph(self, name: str) -> ir.Function:
        """The function of a compiled graph."""
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64])
        return self.module.globals.get(name) or ir.Function(self.module, kind, name)

    # --- nodes ------------------------------------------------------------------------------------
    def array(self, value: Array) -> Node:
        """An array that is known when compiling."""
        return Node(tensor(value.shape, value.dtype), const=value)

    def _address(self, value: Array) -> ir.Value:
        """Where an array that is known when compiling lies, aligned."""
        held = aligned_array(value.shape, value.dtype)
        held[...] = value
        self.keep.append(held)
        return ir.Constant(I64, address(held)).inttoptr(POINTER)

    def node(self, code: Any, kind: Type) -> Node:
        """The node of a value's code."""
        if isinstance(code, Node):
            return code
        kind = marked(kind, False)
        node = self.known.get((code, kind))
        if node is None:
            if isinstance(kind, TensorType):
                node = Node(tensor(kind.shape, kind.dtype), real=code)
            else:
                assert isinstance(kind, Scalar)
                node = Node(tensor((), DTYPES[kind.kind]), kind.kind, code)
                if isinstance(code, ir.Constant) and isinstance(code.constant, bool | int | float):
                    node.const = np.array(code.constant, DTYPES[kind.kind])
            self.known[code, kind] = node
        return node

    def primitive(self, card: Primitive, attributes: Any, x: Sequence[V], result: Type, where: str) -> Node:
        """A primitive on tensors and numbers."""
        operands = tuple(self.node(v.code, v.type) for v in x)
        template = template_of(card, attributes, x, where)
        scalar = result.kind if isinstance(result, Scalar) else None
        node = Node(template.type, scalar, template=template, operands=operands)
        row = self._row(node) if isinstance(card, Item | Rows) else None
        return node if row is None else row

    def graph_part(self, op: TensorsOp, x: Sequence[V]) -> list[Node]:
        """The nodes of a part of a graph, one an operator's result."""
        known: dict[SSAValue, Node] = {}
        for argument, v in zip(op.body.block.args, x, strict=True):
            known[argument] = self.node(v.code, v.type)
        for inner in op.body.block.ops:
            if isinstance(inner, GetOp):
                known[inner.result] = self._constant(inner)
            elif isinstance(inner, GraphOp):
                operands = tuple(known[v] for v in inner.operands)
                for result, template in zip(inner.results, self._templates(inner), strict=True):
                    known[result] = Node(template.type, template=template, operands=operands)
        return [known[v] for v in op.yielded]

    def _constant(self, op: GetOp) -> Node:
        source = op.target()
        assert isinstance(source, ConstantOp)
        name = source.sym_name.data
        if name not in self.weights:
            array = source.array()
            if array is None:
                raise NotNative(f"constant @{name}, whose values are missing")
            self.weights[name] = self.array(array)
        return self.weights[name]

    def _templates(self, op: GraphOp) -> list[Region]:
        if op not in self.templates:
            block = Block(arg_types=[v.type for v in op.operands])
            twin = op.clone()
            for index, argument in enumerate(block.args):
                twin.operands[index] = argument
            block.add_op(twin)
            self.templates[op] = [Region(block, r) for r in twin.results]
        return self.templates[op]

    def zeros_of(self, kind: TensorType) -> Node:
        """An array of zeros."""
        if (kind.shape, kind.dtype) not in self.zeros:
            node = self.array(np.zeros(kind.shape, dtype_of(tensor(kind.shape, kind.dtype))))
            node.real = self._nothing(bytes_of(node.type))
            self.zeros[kind.shape, kind.dtype] = node
        return self.zeros[kind.shape, kind.dtype]

    def _row(self, node: Node) -> Node | None:
        """Rows of memory are where they are: x[i] is an address, and a number there is loaded."""
        source, index = node.operands
        whole = source.base()
        count = shape_of(source.type)[0]
        size = bytes_of(source.type) // max(count, 1)
        first = source.place_of or whole.real
        if first is None or index.scalar is None or not size:
            return None
        aligned = whole.real is not None and not size % ALIGN
        single = not shape_of(node.type)
        if index.const is not None and not single:
            # The graph knows better what to do with all the rows together; others may have the address.
            if aligned:
                node.row = (whole, int(index.const) % count * size)
            return None
        b = self.builder
        place = b.gep(first, [b.mul(self._inside(index, count, node, size), ir.Constant(I64, size))])
        if node.scalar is not None:
            return Node(node.type, node.scalar, self._loaded(place, node.scalar))
        if single:
            return Node(node.type, real=self.copied(place, size))
        if aligned:
            return Node(node.type, real=place)
        node.place_of = place
        return None

    def _inside(self, index: Node, count: int, node: Node, size: int) -> ir.Value:
        """The number of a row from the start; an index, which was checked, may count from the end."""
        if index.const is not None:
            return ir.Constant(I64, int(index.const) % count)
        at = self.wrapped(self.register(index), count)
        rows = bytes_of(node.type) // size
        if rows <= 1:
            return at
        b, last = self.builder, ir.Constant(I64, count - rows)
        return b.select(b.icmp_unsigned("<", at, last), at, last)  # as the kernels of gather do

    def wrapped(self, at: ir.Value, count: int) -> ir.Value:
        """An index that counts from the end where it is negative, as one from the start."""
        if isinstance(at, ir.Constant):
            return ir.Constant(I64, at.constant % count)
        b = self.builder
        below = b.icmp_signed("<", at, ir.Constant(I64, 0))
        return b.select(below, b.add(at, ir.Constant(I64, count)), at)

    def _nothing(self, size: int) -> ir.Value:
        """The address of so many zeros, which are written nowhere."""
        if size not in self.nothing:
            self.nothing[size] = self._address(np.zeros(size, np.uint8))
        return self.nothing[size]

    def not_zeros(self, place: ir.Value, size: int) -> ir.Value:
        """An address; where it is that of the program's zeros, one of new ones."""
        b = self.builder
        start, new, done = b.block, b.append_basic_block("zeros"), b.append_basic_block("own")
        b.cbranch(b.icmp_unsigned("==", place, self._nothing(size)), new, done)
        b.position_at_end(new)
        made, end = self.copied(place, size), b.block
        b.branch(done)
        b.position_at_end(done)
        phi = b.phi(place.type)
        phi.add_incoming(place, start)
        phi.add_incoming(made, end)
        return phi

    def copied(self, place: ir.Value, size: int) -> ir.Value:
        """New memory with the bytes that lie at an address."""
        b = self.builder
        memory = self.support.allocate_aligned(b, ir.Constant(I64, max(rounded(size), ALIGN)))
        self.support.copy(b, memory, place, ir.Constant(I64, size))
        return memory

    def _loaded(self, place: ir.Value, kind: str) -> ir.Value:
        """The number at an address."""
        b, wanted = self.builder, SCALARS[kind]
        stored = I8 if wanted == I1 else wanted
        stored_value = b.load(b.bitcast(place, stored.as_pointer()))
        return b.icmp_unsigned("!=", stored_value, ir.Constant(I8, 0)) if wanted == I1 else stored_value

    def inside(self, index: V, size: int, error: Failure) -> None:
        """Raise an error where subscripts lie outside an axis: at once, or when their graph has run."""
        node = self.node(index.code, index.type)
        if node.const is not None:
            outside = not np.all((node.const >= -size) & (node.const < size))
            if outside:
                self.support.fail_where(self.builder, ir.Constant(I1, 1), error)
        elif node.scalar is not None:
            at = self.wrapped(self.register(node), size)
            above = self.builder.icmp_unsigned(">=", at, ir.Constant(I64, size))
            self.support.fail_where(self.builder, above, error)
        elif _positions(node) > size:
            count = self.primitive(CountOutside(), {"size": to_attribute(size)}, [index], INT, error[2])
            self.checks.append((count, error))

    def arithmetic(self, card: Primitive, x: Sequence[Any]) -> Node | None:
        """Arithmetic on floats of which a tensor gives one; None where registers are better."""
        waiting = [n for n in x if isinstance(n, Node) and n.real is None]
        if not isinstance(card, LAZY) or not waiting or max(n.depth for n in waiting) >= LAZY_DEPTH:
            return None
        operands = tuple(self.node(c, Scalar("float", None)) for c in x)
        template = region(card, {}, [Kind(n.type) for n in operands], "")
        depth = 1 + max(n.depth for n in operands)
        return Node(template.type, "float", template=template, operands=operands, depth=depth)

    # --- runs -------------------------------------------------------------------------------------
    def register(self, code: Any) -> ir.Value:
        """The pointer or number of a value's code."""
        if isinstance(code, Node):
            self.realise([code])
            assert code.real is not None
            return code.real
        return code

    def registers(self, codes: Sequence[Any]) -> list[ir.Value]:
        """Pointers and numbers; those that wait are computed together."""
        checks, self.checks = self.checks, []
        self.realise([*(c for c in codes if isinstance(c, Node)), *(count for count, _ in checks)])
        for count, error in checks:
            some = self.builder.icmp_signed("!=", self.register(count), ir.Constant(I64, 0))
            self.support.fail_where(self.builder, some, error)
        return [self.register(c) for c in codes]

    def realise(self, nodes: Sequence[Node]) -> None:
        """Make code for nodes that have no register yet."""
        wanted: dict[Node, None] = {}
        rows: list[Node] = []
        for node in nodes:
            base = node.base()
            if base.real is not None:
                continue
            if base.row is not None:
                rows.append(base)
            elif base.const is not None:
                base.real = self._address(base.const)
            elif base.run is not None:
                self._hand_out(base)
            else:
                wanted[base] = None
        if wanted:
            self._run(list(wanted))
        for base in rows:
            assert base.row is not None
            whole, offset = base.row
            base.real = self.builder.gep(whole.real, [ir.Constant(I64, offset)])
        for node in nodes:
            node.real = node.base().real

    def _run(self, wanted: list[Node]) -> None:
        order: list[Node] = []
        inputs: dict[Any, Node] = {}
        seen: set[Node] = set()
        pending: list[tuple[Node, bool]] = [(n, False) for n in reversed(wanted)]
        while pending:
            node, ready = pending.pop()
            if ready:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            if node.run is not None and node.real is None:
                self._hand_out(node)
            base = node.base()
            if base is not node and base.run is not None and base.real is None:
                self._hand_out(base)
            if node.real is not None:
                if node.const is None:
                    inputs.setdefault(node, node)
                continue
            if node.const is None:
                pending.append((node, True))
                pending += [(n, False) for n in reversed(node.operands)]
        b = self.builder
        size = ir.Constant(I64, 0)
        memory = self.support.allocate_aligned(b, size)
        run = Run(None, order, list(inputs), size, memory)  # pyright: ignore[reportArgumentType]
        for index, node in enumerate(run.inputs):
            self._input(run, node, index)
        words = [self._patched(b, run, what, 0) for what in ("io", "weights", "arena")]
        run.call = b.call(self.graph("fn.graph"), [*words, ir.Constant(I64, 0)])
        self.runs.append(run)
        for node in order:
            node.run = run
        for node in wanted:
            self._hand_out(node)

    def _input(self, run: Run, node: Node, index: int) -> None:
        """Store what a run takes."""
        b = self.builder
        assert node.real is not None
        if node.scalar is None:
            self._store(b, run, node.real, "slot", index)
        else:
            value = b.zext(node.real, I8) if node.real.type == I1 else node.real
            self._store(b, run, value, "scalar", index)

    def deliver(self, codes: Sequence[Any]) -> None:
        """The result of the program: pending operators are computed where the caller wants it."""
        for index, code in enumerate(codes):
            if isinstance(code, Node) and code.scalar is None:
                base = code.base()
                if base.real is None and base.const is None:
                    base.place = index

    def _patched(self, b: ir.IRBuilder, run: Run, what: str, index: int) -> ir.Value:
        """An address that is known when the graphs are compiled."""
        constant = ir.Constant(I64, 0)
        run.patches.append((constant, what, index))
        return b.inttoptr(constant, POINTER)

    def _store(self, b: ir.IRBuilder, run: Run, value: ir.Value, what: str, index: int) -> None:
        b.store(value, b.bitcast(self._patched(b, run, what, index), value.type.as_pointer()))

    def _hand_out(self, node: Node) -> None:
        """Make a node of a run an output of it."""
        run, b = node.run, self.builder
        assert run is not None
        back = b.block
        index = len(run.outputs)
        run.outputs.append(node)
        if node.scalar is None:
            b.position_before(run.call)
            if node.place is not None:
                node.real = self.support.place(b, node.place)
            else:
                node.real = b.gep(run.memory, [ir.Constant(I64, run.size.constant)])
                run.size.constant += max(rounded(bytes_of(node.type)), ALIGN)
            assert node.real is not None
            self._store(b, run, node.real, "out", index)
        else:
            b.position_after(run.call)
            node.real = self._loaded(self._patched(b, run, "out scalar", index), node.scalar)
        b.position_at_end(back)
