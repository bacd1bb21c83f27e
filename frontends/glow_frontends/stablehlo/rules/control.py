"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.types import tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.control import IfOp, LoopOp, yielded
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import FEW_NODES
from glow_frontends.onnx.values import Value, dtype_of_value, type_of
from glow_frontends.stablehlo.node import Node, Rule, op_name
from glow_frontends.stablehlo.rules.elementwise import RULES as ELEMENTWISE
from glow_frontends.stablehlo.rules.sort import RULES as SORTS
from glow_frontends.stablehlo.values import cast

#: Composites that are operators of the graph themselves.
_NAMED = {**ELEMENTWISE, **SORTS}


def call(g: Emitter, n: Node) -> Sequence[Value]:
    """func.call, inlined."""
    del g
    return n.program.call(n.text("callee"), n.operands)


def composite(g: Emitter, n: Node) -> Value | Sequence[Value]:
    """composite: an operator of this name, or what it is composed of."""
    rule = _NAMED.get(n.text("name"))
    return n.program.call(n.text("decomposition"), n.operands) if rule is None else rule(g, n)


def case(g: Emitter, n: Node) -> Sequence[Value]:
    """case: the branch of a number; the last one for numbers that have none."""
    bodies = [partial(n.region, i, ()) for i in range(len(n.op.regions))]
    return _chosen(g, n[0], bodies)


def if_(g: Emitter, n: Node) -> Sequence[Value]:
    """if."""
    number = cast(g, n[0], tensor((), i64).element_type)
    return _chosen(g, number, [partial(n.region, 1, ()), partial(n.region, 0, ())])


def _chosen(g: Emitter, number: Value, bodies: Sequence[Callable[[], list[Value]]]) -> Sequence[Value]:
    """The results of one of several bodies: the known one, else a branch at run time between the first and
    the others."""
    if len(bodies) == 1:
        return bodies[0]()
    if isinstance(number, np.ndarray):
        chosen = int(number.reshape(-1)[0])
        return bodies[chosen if 0 <= chosen < len(bodies) else -1]()
    first = g(CmpEqOp, number, np.zeros((), dtype_of_value(number)))
    later = g(AddOp, number, np.array(-1, dtype_of_value(number)))
    yes = g.body((), lambda _: bodies[0]())
    no = g.body((), lambda _: _chosen(g, later, bodies[1:]))
    return list(g.builder.insert(IfOp.of(g.value(g.reshape(first, ())), yes, no)).outputs)


# --- loops --------------------------------------------------------------------------------------
def while_(g: Emitter, n: Node) -> Sequence[Value]:
    """while: written out where it is short and its turns are known, else a loop at run time."""
    inits = list(n.operands)
    kept = _unchanged(n)
    counter = _counter(n, inits)
    turns = None if counter is None else counter[2]
    if turns is not None and turns * n.program.size_of(n.block(1)) <= FEW_NODES:
        state = inits
        for _ in range(turns):
            state = n.region(1, state)
        return state
    moving = [i for i in range(len(inits)) if i not in kept and (counter is None or i != counter[0])]
    return _loop(g, n, inits, moving, counter)


def _loop(
    g: Emitter, n: Node, inits: list[Value], moving: Sequence[int], counter: tuple[int, int, int] | None
) -> Sequence[Value]:
    """A loop whose state is what moves; what it only counts is made of the number of the turn."""
    state = [g.value(inits[i]) for i in moving]

    def values(number: Value, now: Sequence[Value]) -> list[Value]:
        every = list(inits)
        for i, value in zip(moving, now, strict=True):
            every[i] = value
        if counter is not None:
            every[counter[0]] = _count(g, number, inits[counter[0]], counter[1])
        return every

    def turn(arguments: Sequence[SSAValue]) -> list[Value]:
        new = n.region(1, values(arguments[0], arguments[1:]))
        results = [new[i] for i in moving]
        if counter is not None:
            return [np.array(True), *results]
        every = list(inits)
        for i, value in zip(moving, results, strict=True):
            every[i] = value
        return [n.region(0, every)[0], *results]

    limit = going = None
    if counter is not None:
        limit = g.value(np.array(counter[2], np.int64))
    else:
        begins = n.region(0, inits)[0]
        if isinstance(begins, np.ndarray) and not begins.any():
            return inits
        going = None if isinstance(begins, np.ndarray) else g.value(begins)
    body = g.body([tensor((), i64), *(v.type for v in state)], turn)
    kinds = [v.type for v in yielded(body).values[1:]]
    if kinds != [v.type for v in state]:
        raise RuleError("a loop that changes the types of its state")
    results = list(inits)
    outputs = g.builder.insert(LoopOp.of(limit, going, state, body)).outputs
    for i, value in zip(moving, outputs, strict=True):
        results[i] = value
    if counter is not None:
        results[counter[0]] = _count(g, np.array(counter[2], np.int64), inits[counter[0]], counter[1])
    return results


def _count(g: Emitter, number: Value, start: Value, step: int) -> Value:
    """start + number * step, in the type of the counter."""
    steps = number if step == 1 else g(MulOp, number, np.array(step, np.int64))
    own = cast(g, steps, type_of(start).element_type)
    return own if isinstance(start, np.ndarray) and not start.any() else g(AddOp, own, start)


def _returned(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    return () if last is None else last.operands


def _unchanged(n: Node) -> set[int]:
    """The values of the state that every turn hands on as they are."""
    block = n.block(1)
    return {i for i, v in enumerate(_returned(block)) if v is block.args[i]}


def _counter(n: Node, inits: Sequence[Value]) -> tuple[int, int, int] | None:
    """(place in the state, step, number of turns) of a loop `while i < limit: ...; i += step`, all known."""
    test, body = n.block(0), n.block(1)
    (condition,) = _returned(test)
    op = condition.owner
    if not isinstance(op, Operation) or op_name(op) != "stablehlo.compare":
        return None
    if Node(op, [], n.program).word("comparison_direction") != "LT" or op.operands[0] not in test.args:
        return None
    place = [a is op.operands[0] for a in test.args].index(True)
    limit, step = _known(n, op.operands[1], inits), _step(n, body, place, inits)
    start = inits[place]
    if limit is None or step is None or step < 1 or not isinstance(start, np.ndarray):
        return None
    return place, step, max(-(-(limit - int(start)) // step), 0)


def _step(n: Node, body: Block, place: int, inits: Sequence[Value]) -> int | None:
    """What a turn adds to a value of the state."""
    op = _returned(body)[place].owner
    if not isinstance(op, Operation) or op_name(op) != "stablehlo.add":
        return None
    for value, other in (op.operands, tuple(op.operands)[::-1]):
        if value is body.args[place]:
            return _known(n, other, inits)
    return None


def _known(n: Node, value: SSAValue, inits: Sequence[Value]) -> int | None:
    """A number that stays the same in all turns and is known."""
    owner = value.owner
    if isinstance(owner, Block):
        inside = owner is n.block(0) or owner is n.block(1)
        place = [a is value for a in owner.args].index(True)
        number = n.program.find(value) if not inside else inits[place] if place in _unchanged(n) else None
    elif op_name(owner) == "stablehlo.constant":
        number = Node(owner, [], n.program).array("value")
    else:
        number = n.program.find(value)
    if not isinstance(number, np.ndarray) or number.size != 1 or number.dtype.kind not in "iu":
        return None
    return int(number.reshape(-1)[0])


RULES: dict[str, Rule] = {
    "func.call": call,
    "call": call,
    "case": case,
    "composite": composite,
    "if": if_,
    "while": while_,
}
