"""Forward mode of one function of a closed program.

`f.jvp(p, dp, q, dq, ..)` takes each parameter followed by its tangent and returns (value, tangent). The
tangent of a function value is nothing: a closure carries the tangents of what it captured among its
captured values, after each. Calls in tail position stay calls in tail position. The types of a program in
forward mode are as simple as those of the program, however it was made; gradients of gradients by numbers
are therefore computed this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import (
    CallOp,
    FuncOp,
    GetOp,
    GradOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchLayerOp,
    SwitchOp,
    TupleOp,
    ValueAndGradOp,
)
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitives import SCALAR
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type
from glow_passes.fn.gradients import MODES, RULES, Maker, Term, integer, modes_of, operator_rule

if TYPE_CHECKING:
    from glow_passes.fn.functions import Functions

Tangent = SSAValue | None


class _Ahead(Term):
    """A term of a gradient rule read forwards: nothing is summed, the result has the shape it has."""

    def sum_like(self, other: Term) -> Term:
        """Itself."""
        return self


class Tangents:
    """Makes f.jvp of one function."""

    def __init__(self, functions: Functions, source: FuncOp) -> None:
        self.functions = functions
        self.source = source
        self.m = Maker(Block(arg_types=[any_type] * (2 * len(source.block.args))))
        self.values: dict[SSAValue, SSAValue] = {}
        self.tangents: dict[SSAValue, SSAValue] = {}
        self.pairs: dict[Operation, SSAValue] = {}

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
        made = self.functions.add(f"{self.source.sym_name.data}.jvp", m.block)
        made.attributes.update(self.source.attributes)
        for op in reversed(list(m.block.ops)):
            if not isinstance(op, CallOp | ReturnOp) and not op.results[0].uses:
                op.detach()
                op.erase()

    def _return(self, op: ReturnOp) -> None:
        m, owner = self.m, op.value.owner
        pair = self.pairs.get(owner) if isinstance(owner, CallOp) else None
        if pair is None or len(list(op.value.uses)) > 1:
            pair = m.tuple([self.values[op.value], self._or_zero(op.value)])
        made = ReturnOp.create(operands=[pair])
        made.attributes.update(op.attributes)
        m.block.add_op(made)

    def _or_zero(self, value: SSAValue) -> SSAValue:
        found = self.tangents.get(value)
        return self.m.zero() if found is None else found

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
            self.pairs[op] = pair
            self.values[result], self.tangents[result] = m.get(pair, 0, 2), m.get(pair, 1, 2)
            return
        if isinstance(op, PartialOp):
            self.values[result] = m.partial(self.values[op.callee], *self._interleaved(op.arguments))
            return
        twin = op.clone(self.values)
        self.values[result] = m.add(twin)
        if isinstance(op, GradOp | ValueAndGradOp | OverOp):
            twin.attributes[MODES] = StringAttr(modes_of(op) + "j")
            return
        found = self._tangent(op)
        if found is not None:
            self.tangents[result] = found

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
                return m.prim("item_at", zero(op.source_tuple), i=op.index)
            case PrimOp():
                return self._prim(op)
            case _:
                return None

    # --- primitives -------------------------------------------------------------------------------
    def _prim(self, op: PrimOp) -> Tangent:
        name = op.prim.data
        if name in _STRUCTURE:
            values = [self.values[v] for v in op.operands]
            return _STRUCTURE[name](self, op, values, [self.tangents.get(v) for v in op.operands])
        if ":" in name or RULES.get(name) is operator_rule:
            return self._operator(op)
        if name not in RULES:
            raise UnsupportedError(f"{op.source}: no gradient for {name}; use glow.stop_gradient")
        if name not in SCALAR:
            return None
        return self._pointwise(op)

    def _pointwise(self, op: PrimOp) -> Tangent:
        """The gradient rule with each tangent in place of the cotangent of the result."""
        m, rule = self.m, RULES[op.prim.data]
        x = [_Ahead(m, self.values[v]) for v in op.operands]
        y = self.values[op.results[0]]
        total: Tangent = None
        for index, value in enumerate(op.operands):
            d = self.tangents.get(value)
            if d is None:
                continue
            found = rule(_Ahead(m, d), x, lambda: _Ahead(m, y), op)[index]
            if found is not None:
                total = self.added(total, m.prim("like", found.value, y))
        return total

    def _operator(self, op: PrimOp) -> Tangent:
        """The transpose of an operator's gradient, which is linear in the cotangent."""
        m = self.m
        options = {n: a for n, a in op.attributes.items() if n != LINE}
        path = options.pop("indices", None)
        before = tuple(path.get_values()) if isinstance(path, DenseArrayBase) else ()
        values = [self.values[v] for v in op.operands]
        y = self.values[op.results[0]]
        total: Tangent = None
        for index, value in enumerate(op.operands):
            d = self.tangents.get(value)
            if d is None:
                continue
            indices = DenseArrayBase.from_list(i64, [*before, index, len(values)])
            found = m.prim(f"vjp:vjp:{op.prim.data}", *values, y, d, **options, indices=indices)
            total = self.added(total, found)
        return total

    def added(self, a: Tangent, b: Tangent) -> Tangent:
        """The sum of two tangents."""
        if a is None or b is None:
            return b if a is None else a
        return self.m.prim("gadd", a, b)


Rule = Callable[[Tangents, PrimOp, Sequence[SSAValue], Sequence[Tangent]], Tangent]


def _again(t: Tangents, op: PrimOp, operands: Sequence[SSAValue]) -> SSAValue:
    options = {n: a for n, a in op.attributes.items() if n != LINE}
    return t.m.prim(op.prim.data, *operands, **options)


def _linear(at: int) -> Rule:
    """The primitive itself with the tangent of one argument in place of the argument."""

    def rule(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
        found = d[at]
        return None if found is None else _again(t, op, [found if i == at else v for i, v in enumerate(x)])

    return rule


def _where(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
    m = t.m
    left = None if d[1] is None else m.prim("where", x[0], d[1], m.number(0.0))
    right = None if d[2] is None else m.prim("where", x[0], m.number(0.0), d[2])
    return t.added(left, right)


def _with_item(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
    m = t.m
    whole = None if d[0] is None else m.prim("with_item", d[0], x[1], m.zero())
    return t.added(whole, None if d[2] is None else m.prim("item_put", x[0], x[1], d[2]))


def _with_field(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
    whole, value = (t.m.zero() if v is None else v for v in (d[0], d[2]))
    return _again(t, op, [whole, x[1], value])


def _concat(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
    halves = [
        None if half is None else t.m.prim("tuple_join", half, *x, part=integer(part))
        for part, half in enumerate(d)
    ]
    return t.added(*halves)


def _like_result(at: int) -> Rule:
    """The tangent of one argument in the type of the result."""

    def rule(t: Tangents, op: PrimOp, x: Sequence[SSAValue], d: Sequence[Tangent]) -> Tangent:
        found = d[at]
        return None if found is None else t.m.prim("like", found, t.values[op.results[0]])

    return rule


_STRUCTURE: dict[str, Rule] = {
    "gadd": lambda t, op, x, d: t.added(d[0], d[1]),
    **dict.fromkeys(("item_put", "rows_put"), _linear(2)),
    "field": lambda t, op, x, d: (
        None if d[0] is None else t.m.prim("field_of", d[0], x[0], field=op.attributes["field"])
    ),
    "field_put": _linear(1),
    "with_item": _with_item,
    "with_field": _with_field,
    "taken": _linear(0),
    "where": _where,
    "concat_tuples": _concat,
    **dict.fromkeys(("fill_like", "varied", "copy", "assigned"), lambda t, op, x, d: d[0]),
    "to_float": _like_result(0),
    **dict.fromkeys(("astype", "astype_as"), _like_result(0)),
    "full": _like_result(1),
    "tuple_put": _linear(1),
    "spread": _linear(1),
    **{
        n: _linear(0)
        for n in ("env_item", "env_drop", "env_pad", "env_put", "item_at", "item", "rows", "to_tuple")
    },
    **{
        n: _linear(0)
        for n in ("like_source", "sum_items", "tuple_part", "tuple_join", "sum_like", "like", "field_of")
    },
    "cotangent": _linear(0),
    "values": lambda t, op, x, d: d[0],
    "walked": lambda t, op, x, d: None if d[0] is None else t.m.prim("walked_back", d[0], x[0]),
    **{n: _linear(0) for n in ("walked_back", "zipped_back", "dict_back", "zipped_ahead", "dict_ahead")},
    "zipped": lambda t, op, x, d: None if d[0] is None else t.m.prim("zipped_ahead", d[0], x[0]),
    "dict_of": lambda t, op, x, d: None if d[0] is None else t.m.prim("dict_ahead", d[0], x[0]),
    "array_of": lambda t, op, x, d: (
        None if d[0] is None else t.m.prim("like_source", d[0], t.values[op.results[0]])
    ),
    "items_like": _linear(0),
    **{n: _linear(0) for n in ("reshape", "reshape_like")},
}
