"""Grouping the iterations of a loop of known length into chunks.

A loop whose body is straight, `f(i, x..) = .. f(i + 1, y..) if i + 1 < n else exit(..)`, becomes for `count`
turns `f.turns_count`: all turns one after another, or, where these are many operations, a loop of chunks of
some turns and the rest after it:

    chunk(i, x..) = turn; turn; ..; chunk(i + k, y..) if i + k + rest < n else last(i + k, y..)

Operators on arrays of one chunk then are one graph, in both directions: what turns share is done once a
chunk, and sums over turns (the gradients of weights) are one product a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from glow_dialects.fn.dialect import CallOp, ConstantOp, FuncOp, PartialOp, PrimOp, RefOp, ReturnOp, SwitchOp
from glow_dialects.fn.domain import Scalar, Type
from glow_dialects.fn.maker import Maker, integer
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.arithmetic import Add
from glow_dialects.fn.primitives.compare import Gt, Lt
from glow_dialects.fn.primitives.items import Item, Rows
from glow_dialects.fn.primitives.tuples import ToTuple
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import AddFunction, known_callee, remove_dead

#: Operations that a graph of several turns has at most, where the turns are more.
CHUNK = 64
#: Operations of all turns that are written out together.
WHOLE = 64
#: By how much less that is for each order of derivatives: an order makes about so much of an operation.
ORDERS = 4
#: The attribute of functions that stay loops.
ROLLED = "rolled"


@dataclass(frozen=True)
class Counted:
    """A function that calls itself last while a counter is below (or above) a limit.

    `counter` is the number of the counter's parameter, `limits` those that hold the limit, of which none
    means that it is `limit`; the counter after a turn is `after`.
    """

    function: FuncOp
    counter: int
    step: int
    test: Primitive
    limit: SSAValue
    limits: tuple[int, ...]
    after: SSAValue
    following: tuple[SSAValue, ...]
    leave: SSAValue

    @property
    def body(self) -> list[Operation]:
        """The operations of a turn; the test and the calls are last and have no other use."""
        last = self.function.block.last_op
        assert isinstance(last, ReturnOp)
        call = last.value.owner
        return [op for op in self.function.block.ops if op is not last and op is not call]

    @property
    def operations(self) -> int:
        """How many operations a turn has, nodes of graphs included."""
        return sum(len(op.body.block.ops) if isinstance(op, TensorsOp) else 1 for op in self.body)

    def turns(self, kinds: Sequence[Type], stride: int) -> tuple[int, int] | None:
        """The first number and how many turns there are; None where that is not known.

        `kinds` are the types of the arguments, of which each parameter has `stride`.
        """
        first = _known(kinds[self.counter * stride])
        if isinstance(self.limit.owner, ConstantOp):
            last = _integer(self.limit)
        else:
            turns = {_known(kinds[i * stride]) for i in self.limits}
            last = turns.pop() if len(turns) == 1 else None
        if first is None or last is None:
            return None
        return first, max(-((first - last) // self.step), 1)


def _known(kind: Type) -> int | None:
    return kind.const if isinstance(kind, Scalar) and kind.kind == "int" else None


def _integer(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def counted(function: FuncOp) -> Counted | None:
    """The function as a loop that counts, if it is one."""
    last = function.block.last_op
    call = last.value.owner if isinstance(last, ReturnOp) else None
    if not isinstance(call, CallOp) or call.arguments or not isinstance(call.callee.owner, SwitchOp):
        return None
    choice = call.callee.owner
    test, again = choice.condition.owner, choice.on_true.owner
    if not isinstance(test, PrimOp) or not isinstance(test.card, Lt | Gt) or not isinstance(again, PartialOp):
        return None
    callee = known_callee(again)
    name = function.sym_name.data
    if callee is None or callee[0].target != name or len(callee[1]) != len(function.block.args):
        return None
    if sum(isinstance(op, RefOp) and op.target == name for op in function.block.ops) != 1:
        return None
    arguments, following = list(function.block.args), callee[1]
    after, limit = test.operands
    if after not in following or not isinstance(after.owner, PrimOp) or not isinstance(after.owner.card, Add):
        return None
    counter = following.index(after)
    start, step = after.owner.operands
    width = _integer(step)
    if start is not arguments[counter] or not width or (width > 0) != isinstance(test.card, Lt):
        return None
    limits: list[int] = []
    now = limit
    while isinstance(now, BlockArgument) and now.index not in limits:
        limits.append(now.index)
        now = following[limits[-1]]
    if not isinstance(limit.owner, ConstantOp) and not isinstance(now, BlockArgument):
        return None
    return Counted(
        function,
        counter,
        width,
        test.card,
        limit,
        tuple(limits),
        after,
        tuple(following),
        choice.on_false,
    )


def chunk_of(operations: int, turns: int, order: int, nested: bool) -> int:
    """How many turns of so many operations are done at a time: all, or few with a small rest.

    Of derivatives of higher orders, whose turns are that much longer, fewer. Of `nested` loops, one: turns
    with a loop in each are no one graph.
    """
    share = ORDERS ** max(order - 1, 0)
    if operations * turns <= WHOLE // share:
        return turns
    if nested:
        return 1
    fewest = 2 if order < 2 else 1
    most = max(fewest, min(CHUNK // share // operations, turns))
    return min(range(max(fewest, most // 2), most + 1), key=lambda k: (turns % k, -k))


def turns_name(loop: Counted, first: int, turns: int, size: int) -> str:
    """The name of the function for so many turns; `rows` where rows may be taken together by the counter."""
    kind = "rows" if first >= 0 and loop.step == 1 else "turns"
    return f"{loop.function.sym_name.data}.{kind}_{turns}" + ("" if size == turns else f"_by_{size}")


def make_turns(add: AddFunction, loop: Counted, name: str, turns: int, size: int) -> FuncOp:
    """The function for so many turns, `size` at a time, and the rest that it may need."""
    chunks, rest = divmod(turns, size)
    if chunks < 2:
        return _added(add, name, _straight(loop, turns))
    if rest:
        _added(add, f"{name}.rest", _straight(loop, rest))
    block, values, copies = _copied(loop, size, ".rows_" in name)
    m = Maker(block)
    limit = copies.get(loop.limit, loop.limit)
    now = m.prim(Add, copies[loop.after], m.number(rest * loop.step)) if rest else copies[loop.after]
    leave = m.partial(m.ref(f"{name}.rest"), *values) if rest else copies[loop.leave]
    chosen = m.switch(m.prim(loop.test, now, limit), m.partial(m.ref(name), *values), leave)
    block.add_op(ReturnOp.create(operands=[m.call(chosen)]))
    rolled = _added(add, name, block)
    rolled.attributes[ROLLED] = UnitAttr()
    return rolled


def _added(add: AddFunction, name: str, block: Block) -> FuncOp:
    function = add(name, block)
    remove_dead(function)
    return function


def _copied(
    loop: Counted, count: int, together: bool = False
) -> tuple[Block, list[SSAValue], dict[SSAValue, SSAValue]]:
    """So many turns: the arguments of a further one, and the values of the last.

    `together`: rows that the turns take one after another of what stays the same are taken at once.
    """
    parameters = loop.function.block.args
    block = Block(arg_types=[any_type] * len(parameters))
    values: list[SSAValue] = list(block.args)
    for old, new in zip(parameters, values, strict=True):
        new.name_hint = old.name_hint
    m = Maker(block)
    rows: dict[SSAValue, SSAValue] = {}
    for op in loop.body if together else ():
        if (
            isinstance(op, PrimOp)
            and isinstance(op.card, Item)
            and op.operands[1] is parameters[loop.counter]
        ):
            whole = op.operands[0]
            if isinstance(whole, BlockArgument) and loop.following[whole.index] is whole:
                taken = m.prim(Rows, values[whole.index], values[loop.counter], count=integer(count))
                rows[op.results[0]] = m.prim(ToTuple, taken, count=integer(count))
    mapping: dict[SSAValue, SSAValue] = {}
    for turn in range(count):
        mapping = dict(zip(parameters, values, strict=True))
        for op in loop.body:
            row = rows.get(op.results[0])
            if row is not None:
                mapping[op.results[0]] = m.get(row, turn, count)
            else:
                block.add_op(op.clone(mapping))
        values = [mapping[v] for v in loop.following]
    return block, values, mapping


def _straight(loop: Counted, count: int) -> Block:
    block, _, mapping = _copied(loop, count)
    m = Maker(block)
    block.add_op(ReturnOp.create(operands=[m.call(mapping[loop.leave])]))
    return block


def stands_for(name: str) -> str:
    """The loop that a function made from it computes."""
    return re.sub(r"\.(turns|rows)_\d+(_by_\d+)?(\.rest)?", "", name)


__all__ = ["Counted", "chunk_of", "counted", "make_turns", "stands_for", "turns_name"]
