"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import i64

from glow_dialects.core.types import tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.control import IfOp
from glow_frontends.graph import Emitter, Value, dtype_of_value
from glow_frontends.stablehlo.node import Node, Rule
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


RULES: dict[str, Rule] = {
    "func.call": call,
    "call": call,
    "case": case,
    "composite": composite,
    "if": if_,
}
