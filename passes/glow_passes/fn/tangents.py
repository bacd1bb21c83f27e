"""Forward mode of one function of a closed program.

`f.jvp(p, dp, q, dq, ..)` takes each parameter followed by its tangent and returns (value, tangent). The
tangent of a function value is nothing: a closure carries the tangents of what it captured among its
captured values, after each. Calls in tail position stay calls in tail position. The types of a program in
forward mode are as simple as those of the program, however it was made; gradients of gradients by numbers
are therefore computed this way.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.fn.dialect import (
    CallOp,
    FuncOp,
    GetOp,
    GradOp,
    JvpOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchLayerOp,
    SwitchOp,
    TupleOp,
    ValueAndGradOp,
)
from glow_dialects.fn.maker import MODES, Maker, Term, modes_of
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitives.tuples import TupleItem
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type
from glow_passes.fn.calls import AddFunction

Tangent = SSAValue | None


class Tangents:
    """Makes f.jvp of one function."""

    def __init__(self, add: AddFunction, source: FuncOp) -> None:
        self.add = add
        self.source = source
        self.m = Maker(Block(arg_types=[any_type] * (2 * len(source.block.args))))
        self.values: dict[SSAValue, SSAValue] = {}
        self.tangents: dict[SSAValue, SSAValue] = {}
        #: The results of calls with their tangents, as the calls give them.
        self.pairs: dict[SSAValue, SSAValue] = {}

    def make(self) -> None:
        """Add the function to the table."""
        m = self.m
        arguments = iter(m.block.args)
        for old in self.source.block.args:
            self.values[old], self.tangents[old] = next(arguments), next(arguments)
            self.values[old].name_hint = old.name_hint
            self.tangents[old].name_hint = f"d_{old.name_hint}" if old.name_hint else None
        for op in self.source.block.ops:
            m.line = op.attributes.get(LINE)
            if isinstance(op, ReturnOp):
                self._return(op)
                break
            self._step(op)
        forward = self.add(f"{self.source.sym_name.data}.jvp", m.block)
        forward.attributes.update(self.source.attributes)
        for op in reversed(list(m.block.ops)):
            if not isinstance(op, CallOp | ReturnOp) and not op.results[0].uses:
                op.detach()
                op.erase()

    def _return(self, op: ReturnOp) -> None:
        m, pair = self.m, self.pairs.get(op.value)
        if pair is None:
            pair = m.tuple([self.values[op.value], self._or_zero(op.value)])
        returned = ReturnOp.create(operands=[pair])
        returned.attributes.update(op.attributes)
        m.block.add_op(returned)

    def _or_zero(self, value: SSAValue) -> SSAValue:
        tangent = self.tangents.get(value)
        return self.m.zero() if tangent is None else tangent

    def _interleaved(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [x for v in values for x in (self.values[v], self._or_zero(v))]

    def _step(self, op: Operation) -> None:
        m = self.m
        result = op.results[0]
        if isinstance(op, RefOp):
            self.values[result] = m.ref(f"{op.target}.jvp")
            return
        if isinstance(op, CallOp):
            pair = m.call(self.values[op.callee], *self._interleaved(op.arguments))
            self.pairs[result] = pair
            self.values[result], self.tangents[result] = m.pair(pair)
            return
        if isinstance(op, PartialOp):
            self.values[result] = m.partial(self.values[op.callee], *self._interleaved(op.arguments))
            return
        twin = op.clone(self.values)
        self.values[result] = m.add(twin)
        if isinstance(op, GradOp | ValueAndGradOp | JvpOp | OverOp):
            twin.attributes[MODES] = StringAttr(modes_of(op) + "j")
            return
        tangent = self._tangent(op)
        if tangent is not None:
            self.tangents[result] = tangent

    def _tangent(self, op: Operation) -> Tangent:
        m, zero = self.m, self._or_zero
        if not any(v in self.tangents for v in op.operands):
            return None
        match op:
            case SwitchOp():
                return m.switch(self.values[op.condition], zero(op.on_true), zero(op.on_false))
            case SwitchLayerOp() | TupleOp():
                fixed = [self.values[op.index]] if isinstance(op, SwitchLayerOp) else []
                twin = type(op).create(
                    operands=[*fixed, *map(zero, op.values)],
                    properties=op.properties,
                    attributes=op.attributes,
                    result_types=[any_type],
                )
                return m.add(twin)
            case GetOp():
                return m.prim(TupleItem, zero(op.source_tuple), i=op.index)
            case PrimOp():
                return self._prim(op)
            case _:
                return None

    def _prim(self, op: PrimOp) -> Tangent:
        m, y = self.m, Term(self.m, self.values[op.results[0]])
        x = [Term(m, self.values[v]) for v in op.operands]
        tangents = [self.tangents.get(v) for v in op.operands]
        tangent = op.card.jvp(op, x, [None if d is None else Term(m, d) for d in tangents], y)
        return None if tangent is None else tangent.value
