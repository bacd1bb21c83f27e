"""glow-outline-control: a graph with branches and loops becomes functions; straight parts stay graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.types import Array
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    FuncOp,
    GetOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchOp,
    TupleOp,
)
from glow_dialects.fn.primitive import Card
from glow_dialects.fn.primitives.arithmetic import Add, ToBool, ToInt
from glow_dialects.fn.primitives.compare import BitAnd, Lt
from glow_dialects.fn.tensors import TensorsOp, YieldOp
from glow_dialects.fn.types import any_type
from glow_dialects.ops import module as graph
from glow_dialects.ops.control import CONTROL, IfOp, LoopOp, yielded
from glow_dialects.ops.literal import LiteralOp
from glow_passes.contract import GraphPass, Level


@dataclass(frozen=True)
class OutlineControlPass(GraphPass):
    """`glow.func` becomes `glow_fn.func` of the inputs, whose value is the tuple of what it saves.

    A body of `glow.if` or `glow.loop` becomes a function of the values that it uses; a loop calls itself.
    """

    name = "glow-outline-control"
    BODIES = False
    MAKES = (Level.FUNCTIONS, Level.GRAPH)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outline_control(op)


def outline_control(module: ModuleOp) -> None:
    """Replace the graph functions of a module."""
    for function in list(graph.functions(module)):
        places = graph.placeholders(module)
        inputs = [n for n, p in places.items() if p.kind.data == "input"]
        outputs = [n for n, p in places.items() if p.kind.data == "output"]
        name = function.sym_name.data
        entry = _Function(module, name, len(inputs))
        entry.inputs = dict(zip(inputs, entry.block.args, strict=True))
        entry.nodes(function.body.block)
        outlined = entry.finish([entry.saved[n] for n in outputs if n in entry.saved])
        function.detach()
        function.erase()
        module.body.block.add_op(outlined)


class _Function:
    """A function being built, with the values of the graph that it knows."""

    def __init__(self, module: ModuleOp, name: str, parameters: int) -> None:
        self.module = module
        self.name = name
        self.block = Block(arg_types=[any_type] * parameters)
        self.known: dict[SSAValue, SSAValue] = {}
        self.inputs: dict[str, SSAValue] = {}
        self.saved: dict[str, SSAValue] = {}
        self.waiting: list[Operation] = []
        self.count = 0

    # --- operations of glow_fn ----------------------------------------------------------------------
    def add(self, kind: type[Operation], *operands: SSAValue, **properties: Attribute) -> SSAValue:
        """An operation's result."""
        op = kind.create(operands=operands, properties=properties, result_types=[any_type])
        self.block.add_op(op)
        return op.results[0]

    def prim(self, card: Card, *values: SSAValue) -> SSAValue:
        """A primitive."""
        prim = PrimOp.of(card, values, {})
        self.block.add_op(prim)
        return prim.result

    def closure(self, name: str, values: Sequence[SSAValue]) -> SSAValue:
        """A function with its first arguments."""
        return self.add(PartialOp, self.add(RefOp, symbol=SymbolRefAttr(name)), *values)

    def finish(self, values: Sequence[SSAValue]) -> FuncOp:
        """The function, whose value is a tuple."""
        return self.ended(self.add(TupleOp, *values))

    def ended(self, value: SSAValue) -> FuncOp:
        """The function with its value."""
        self.block.add_op(ReturnOp.create(operands=[value]))
        return FuncOp.create(properties={"sym_name": StringAttr(self.name)}, regions=[Region(self.block)])

    # --- nodes --------------------------------------------------------------------------------------
    def nodes(self, block: Block) -> None:
        """The nodes of a body, straight parts together."""
        for op in block.ops:
            if isinstance(op, CONTROL):
                self._flush()
                self._if(op) if isinstance(op, IfOp) else self._loop(op)
            elif isinstance(op, graph.SaveOp):
                self._flush()
                (self.saved[_symbol(op)],) = self._constants([op.input])
            elif isinstance(op, graph.GetOp) and _symbol(op) in self.inputs:
                self.known[op.result] = self.inputs[_symbol(op)]
            elif not _is_constant(op):
                self.waiting.append(op)
        self._flush()

    def _flush(self) -> None:
        """The pending operations as one part of a graph."""
        ops = [op for op in self.waiting if op.results]
        self.waiting = []
        if not ops:
            return
        inside = set(ops)
        outside: dict[SSAValue, None] = {}
        for op in ops:
            for value in op.operands:
                if value.owner not in inside and not _is_constant(value.owner):
                    outside[value] = None
        results: list[SSAValue] = [
            r
            for op in ops
            for r in op.results
            if any(_owner(u.operation, ops[0]) not in inside for u in r.uses)
        ]
        self._part(list(outside), ops, results)

    def _part(self, outside: list[SSAValue], ops: list[Operation], results: list[SSAValue]) -> None:
        if not results:
            return
        block = Block(arg_types=[v.type for v in outside])
        mapping: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
        for op in ops:
            for value in op.operands:
                if value not in mapping and isinstance(value.owner, Operation):
                    block.add_op(value.owner.clone(mapping))  # a constant: each part has its own
            block.add_op(op.clone(mapping))
        for value in results:
            if value not in mapping and isinstance(value.owner, Operation):
                block.add_op(value.owner.clone(mapping))
        block.add_op(YieldOp.create(operands=[mapping[r] for r in results]))
        part = TensorsOp.of([self.known[v] for v in outside], block)
        self.block.add_op(part)
        self._spread(results, part.result)

    def _spread(self, values: Sequence[SSAValue], whole: SSAValue) -> None:
        for index, value in enumerate(values):
            self.known[value] = self.add(GetOp, whole, index=IntegerAttr(index, i64))

    def _constants(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of the function for values of the graph."""
        missing = [v for v in dict.fromkeys(values) if v not in self.known]
        if missing:
            self._part([], [], missing)
        return [self.known[v] for v in values]

    # --- control flow -------------------------------------------------------------------------------
    def _inner(self, name: str, captured: Sequence[SSAValue], more: int = 0) -> _Function:
        inner = _Function(self.module, name, len(captured) + more)
        inner.known = dict(zip(captured, inner.block.args[: len(captured)], strict=True))
        inner.inputs = {}
        return inner

    def _names(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    def _if(self, op: IfOp) -> None:
        base = self._names()
        (condition,) = self._constants([op.condition])
        ways: list[SSAValue] = []
        for word, block in (("then", op.yes.block), ("else", op.no.block)):
            captured = _captured([block], self.known)
            inner = self._inner(f"{base}.{word}", captured)
            inner.nodes(block)
            self.module.body.block.add_op(inner.finish(inner._constants(yielded(block).values)))
            ways.append(self.closure(inner.name, [self.known[v] for v in captured]))
        self._spread(op.outputs, self.add(CallOp, self.add(SwitchOp, condition, *ways)))

    def _loop(self, op: LoopOp) -> None:
        base, block = self._names(), op.body.block
        state = self._constants(op.state)
        # A loop that only counts needs no word on whether it goes on.
        onward = _array(yielded(block).values[0])
        counts = op.limit is not None and op.going is None and onward is not None and bool(onward.all())
        on: list[SSAValue] = []
        if not counts:
            always = self.constant(True)
            on = [always if op.going is None else self.prim(ToBool, *self._constants([op.going]))]
        limit = None if op.limit is None else self._number(op.limit)
        captured = _captured([block], self.known)
        fixed = [self.known[v] for v in captured] + ([] if limit is None else [limit])
        count = len(fixed)
        # header(fixed, turn, on, state): body or exit
        header = self._inner(base, captured, 1 + len(on) + len(state) + (limit is not None))
        arguments = list(header.block.args)
        turn, rest = arguments[count], arguments[count + 1 + len(on) :]
        test = arguments[count + 1] if on else None
        if limit is not None:
            below = header.prim(Lt, turn, arguments[count - 1])
            test = below if test is None else header.prim(BitAnd, test, below)
        assert test is not None
        chosen = header.add(
            SwitchOp,
            test,
            header.closure(f"{base}.body", [*arguments[: count + 1], *rest]),
            header.closure(f"{base}.exit", rest),
        )
        self.module.body.block.add_op(header.ended(header.add(CallOp, chosen)))
        # body(fixed, turn, state): the next turn
        body = self._inner(f"{base}.body", captured, 1 + len(state) + (limit is not None))
        arguments = list(body.block.args)
        body.known.update(zip(block.args, arguments[count:], strict=True))
        body.nodes(block)
        again, *after = body._constants(yielded(block).values)
        one = body.prim(Add, arguments[count], body.constant(1))
        more = [] if counts else [body.prim(ToBool, again)]
        called = body.add(RefOp, symbol=SymbolRefAttr(base))
        value = body.add(CallOp, called, *arguments[:count], one, *more, *after)
        self.module.body.block.add_op(body.ended(value))
        end = _Function(self.module, f"{base}.exit", len(state))
        self.module.body.block.add_op(end.finish(end.block.args))
        results = self.add(CallOp, self.closure(base, fixed), self.constant(0), *on, *state)
        self._spread(op.outputs, results)

    def _number(self, value: SSAValue) -> SSAValue:
        """An int of the function: known where the tensor is."""
        known = _array(value)
        if known is not None:
            return self.constant(int(known.item()))
        return self.prim(ToInt, *self._constants([value]))

    def constant(self, value: bool | int) -> SSAValue:
        """A number."""
        return self.add(ConstantOp, value=to_attribute(value))


def _array(value: SSAValue) -> Array | None:
    """The tensor that a value is known to be."""
    owner = value.owner
    target = owner.target() if isinstance(owner, graph.GetOp) else owner
    return target.array() if isinstance(target, graph.ConstantOp | LiteralOp) else None


def _symbol(op: graph.GetOp | graph.SaveOp) -> str:
    name = op.properties["symbol"]
    assert isinstance(name, SymbolRefAttr)
    return name.root_reference.data


def _is_constant(op: object) -> bool:
    if isinstance(op, graph.GetOp):
        return isinstance(op.target(), graph.ConstantOp)
    return isinstance(op, LiteralOp)


def _owner(op: Operation, like: Operation) -> Operation:
    """The operation beside `like` that is `op` or holds it."""
    while op.parent is not like.parent:
        above = op.parent_op()
        assert above is not None
        op = above
    return op


def _captured(blocks: Sequence[Block], known: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """The known values that bodies use, in order."""
    values: dict[SSAValue, None] = {}
    for block in blocks:
        for op in block.walk():
            for value in op.operands:
                if value in known:
                    values[value] = None
    return list(values)
