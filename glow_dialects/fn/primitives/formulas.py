"""Derivatives of primitives: the gradients on the cards of their operators, as formulas of terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Block, SSAValue

from glow_dialects.core.builder import Builder, decomposed
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.fn.primitive import Result, Term
from glow_dialects.ops.elementwise import UnaryOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.splat import SplatOp

Formula = Callable[[Term, Sequence[Term], Result], Term]


@cache
def gradients(graph: Any) -> list[Formula | None]:
    """The gradients of a graph operator by each operand, as formulas of terms; None where they are zero."""
    count = 1 if issubclass(graph, UnaryOp) else 2
    if not graph.has_gradient():
        return [None] * count
    d, *x = (block := Block(arg_types=[tensor((), f64)] * (count + 1))).args
    b = Builder.at_end(block)
    op: Any = graph(*x)
    y = b(op)
    derivatives = op.gradient([d], b)
    # Whatever becomes of the operators, these are what the gradients are.
    ends = [None if v is None else b.insert(IdentityOp(v)) for v in derivatives]
    _expand(block, y)
    return [None if end is None else _formula(block, y, end.input) for end in ends]


def _formula(block: Block, y: SSAValue, derivative: SSAValue) -> Formula:
    def formula(d: Term, x: Sequence[Term], result: Result) -> Term:
        known: dict[SSAValue, Term] = dict(zip(block.args, [d, *x], strict=True))

        def term(value: SSAValue) -> Term:
            if value is y:
                return result()
            if value not in known:
                known[value] = _as_term(value, term, d)
            return known[value]

        return term(derivative)

    return formula


def _expand(block: Block, y: SSAValue) -> None:
    """Decompose operators until all that are left are primitives; `y` is not asked for its formula."""
    queue = [op for op in block.ops if op is not y.owner]
    while queue:
        op = queue.pop()
        assert isinstance(op, GraphOp)
        if not op.functions(np) and not isinstance(op, SplatOp | IdentityOp | SelectOp):
            expansion = decomposed(op)
            assert expansion is not None, op.name
            queue += expansion[1]


def _as_term(value: SSAValue, term: Callable[[SSAValue], Term], like: Term) -> Term:
    """A value of a gradient as a term: a number, or the primitive of an operator."""
    op = value.owner
    assert isinstance(op, GraphOp), value
    if isinstance(op, SplatOp):
        return like.of(op.value)
    first, *rest = (term(v) for v in op.operands)
    return first.operator(type(op), *rest)
