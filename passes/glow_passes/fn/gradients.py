"""Gradients of the primitives, written with the primitives: closed under differentiation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, SymbolRefAttr, f64, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    GetOp,
    PartialOp,
    PrimOp,
    RefOp,
    SwitchOp,
    TupleOp,
)
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type

#: The function that returns its argument: the last backward step.
IDENTITY = "identity.fn"
#: The attribute of a gradient operation in a derived function: how the function around it was derived,
#: one letter each time, "r" for reverse and "j" for forward mode.
MODES = "modes"


def modes_of(op: Operation) -> str:
    """How the function that holds a gradient operation was derived."""
    found = op.attributes.get(MODES)
    return found.data if isinstance(found, StringAttr) else ""


#: Cotangents of the arguments, None where one does not matter.
Found = Sequence["Term | None"]


class Maker:
    """Appends operations to a block, marked with the line of the operation they come from."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.line: Attribute | None = None
        self.zero_value: SSAValue | None = None

    def add(self, op: Operation) -> SSAValue:
        """Append an operation."""
        if self.line is not None:
            op.attributes.setdefault(LINE, self.line)
        self.block.add_op(op)
        return op.results[0]

    def prim(self, name: str, *values: SSAValue, **attributes: Attribute) -> SSAValue:
        """A primitive."""
        made = PrimOp.create(
            operands=values,
            properties={"prim": StringAttr(name)},
            attributes=attributes,
            result_types=[any_type],
        )
        return self.add(made)

    def number(self, value: float | int) -> SSAValue:
        """A constant."""
        attribute = IntegerAttr(value, i64) if isinstance(value, int) else FloatAttr(value, f64)
        return self.add(ConstantOp.create(properties={"value": attribute}, result_types=[any_type]))

    def call(self, *values: SSAValue) -> SSAValue:
        """A call: the function first."""
        return self.add(CallOp.create(operands=values, result_types=[any_type]))

    def ref(self, name: str) -> SSAValue:
        """A function of the module."""
        made = RefOp.create(properties={"symbol": SymbolRefAttr(name)}, result_types=[any_type])
        return self.add(made)

    def partial(self, *values: SSAValue) -> SSAValue:
        """A partial application: the function first."""
        return self.add(PartialOp.create(operands=values, result_types=[any_type]))

    def tuple(self, values: Sequence[SSAValue]) -> SSAValue:
        """A tuple."""
        return self.add(TupleOp.create(operands=values, result_types=[any_type]))

    def get(self, value: SSAValue, index: int, length: int) -> SSAValue:
        """An item of a tuple of known length."""
        made = GetOp.create(
            operands=[value],
            properties={"index": IntegerAttr(index, i64)},
            attributes={"of": IntegerAttr(length, i64)},
            result_types=[any_type],
        )
        return self.add(made)

    def switch(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """A selection."""
        return self.add(SwitchOp.create(operands=[condition, yes, no], result_types=[any_type]))

    def zero(self) -> SSAValue:
        """The symbolic zero."""
        if self.zero_value is None:
            self.zero_value = self.prim("zero")
        return self.zero_value


def integer(value: int) -> IntegerAttr:
    """An attribute."""
    return IntegerAttr(value, i64)


@dataclass(frozen=True)
class Term:
    """A value in a formula."""

    maker: Maker
    value: SSAValue

    def prim(self, name: str, *others: Term | float | int, **attributes: Attribute) -> Term:
        """`name(self, others)`."""
        values = [self.of(o).value for o in others]
        return type(self)(self.maker, self.maker.prim(name, self.value, *values, **attributes))

    def of(self, other: Term | float | int) -> Term:
        """A number as a term."""
        return other if isinstance(other, Term) else type(self)(self.maker, self.maker.number(other))

    def __add__(self, other: Term | float | int) -> Term:
        return self.prim("add", other)

    def __sub__(self, other: Term | float | int) -> Term:
        return self.prim("sub", other)

    def __mul__(self, other: Term | float | int) -> Term:
        return self.prim("mul", other)

    def __truediv__(self, other: Term | float | int) -> Term:
        return self.prim("div", other)

    def __neg__(self) -> Term:
        return self.prim("neg")

    def sum_like(self, other: Term) -> Term:
        """Summed over what `other` was broadcast along; nothing where `other` is no float."""
        return self.prim("sum_like", other)


def _one(rule: Callable[[Term, Term, Callable[[], Term]], Term]) -> Rule:
    """A function of one argument: rule(d, x, y), where y() is the result."""
    return lambda d, x, y, op: [rule(d, x[0], y).sum_like(x[0])]


def _two(rule: Callable[[Term, Term, Term, Callable[[], Term]], tuple[Term, Term]]) -> Rule:
    """A broadcasting function of two arguments: rule(d, a, b, y)."""

    def made(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
        constant = [isinstance(v.owner, ConstantOp) for v in op.operands]
        pair = rule(d, x[0], x[1], y)
        return [None if c else g.sum_like(v) for g, v, c in zip(pair, x, constant, strict=True)]

    return made


Rule = Callable[[Term, Sequence[Term], Callable[[], Term], PrimOp], Found]


def _power(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    # d(a^b) = b a^(b-1) da + a^b log(a) db; powers of small constants without powers below zero
    owner = op.operands[1].owner
    constant = owner.value if isinstance(owner, ConstantOp) else None
    if isinstance(constant, IntegerAttr):
        n = constant.value.data
        if n == 0:
            return [None, None]
        if n == 1:
            return [d.sum_like(x[0]), None]
        base = x[0] if n == 2 else x[0].prim("pow", n - 1)
        return [(d * base * float(n)).sum_like(x[0]), None]
    if isinstance(constant, FloatAttr):
        n = constant.value.data
        return [(d * x[0].prim("pow", n - 1.0) * n).sum_like(x[0]), None]
    left = (d * x[1] * x[0].prim("pow", x[1] - 1)).sum_like(x[0])
    return [left, (d * y() * x[0].prim("safe_log")).sum_like(x[1])]


def _extreme(test: str) -> Rule:
    def rule(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
        chosen = x[0].prim(test, x[1])
        left = chosen.prim("where", d, 0.0).sum_like(x[0])
        return [left, chosen.prim("where", d.of(0.0), d).sum_like(x[1])]

    return rule


def _add(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    return [
        None if isinstance(v.owner, ConstantOp) else d.sum_like(t)
        for v, t in zip(op.operands, x, strict=True)
    ]


def _sub(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    constant = [isinstance(v.owner, ConstantOp) for v in op.operands]
    return [None if constant[0] else d.sum_like(x[0]), None if constant[1] else (-d).sum_like(x[1])]


def _mul(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    constant = [isinstance(v.owner, ConstantOp) for v in op.operands]
    left = None if constant[0] else (d * x[1]).sum_like(x[0])
    return [left, None if constant[1] else (d * x[0]).sum_like(x[1])]


def _where(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    zero = d.of(0.0)
    return [None, x[0].prim("where", d, zero).sum_like(x[1]), x[0].prim("where", zero, d).sum_like(x[2])]


def _same(op: PrimOp) -> dict[str, Attribute]:
    return {n: a for n, a in op.attributes.items() if n != LINE}


def _linear(name: str, back: str) -> Rule:
    """f(x, options) whose transpose is back(d, options)."""
    return lambda d, x, y, op: [d.prim(back, **_same(op))]


def _with_item(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    zero = Term(d.maker, d.maker.zero())
    return [d.prim("with_item", x[1], zero), None, d.prim("taken", x[1], x[2])]


def _with_field(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    zero = Term(d.maker, d.maker.zero())
    return [d.prim("with_field", x[1], zero, **_same(op)), None, d.prim("field_of", x[1], **_same(op))]


def operator_rule(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    """The gradients of an operator card, or of such a gradient: one primitive an operand."""
    name, same = op.prim.data, _same(op)
    path = same.pop("indices", None)
    before = tuple(path.get_values()) if isinstance(path, DenseArrayBase) else ()
    found: list[Term | None] = []
    for index, value in enumerate(op.operands):
        if isinstance(value.owner, ConstantOp) and not hasattr(value.owner.value, "get_shape"):
            found.append(None)
            continue
        path = DenseArrayBase.from_list(i64, [*before, index])
        values = [*(t.value for t in x), d.value]
        made = d.maker.prim(f"vjp:{name}", *values, **same, indices=path)
        found.append(Term(d.maker, made))
    return found


def _nothing(d: Term, x: Sequence[Term], y: Callable[[], Term], op: PrimOp) -> Found:
    return [None] * len(x)


def _c(name: str) -> Callable[[Term], Term]:
    return lambda x: x.prim(name)


_sin, _cos, _sinh, _cosh, _exp, _sqrt, _sign = map(_c, ("sin", "cos", "sinh", "cosh", "exp", "sqrt", "sign"))

RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _two(lambda d, a, b, y: (d / b, -(d * y()) / b)),
    "pow": _power,
    "max": _extreme("ge"),
    "min": _extreme("le"),
    "mod": _two(lambda d, a, b, y: (d, -(d * a.prim("div", b).prim("floor").prim("to_float")))),
    "fmod": _two(lambda d, a, b, y: (d, -(d * ((a - y()) / b)))),
    "atan2": _two(lambda d, a, b, y: (d * b / (a * a + b * b), -(d * a) / (a * a + b * b))),
    "hypot": _two(lambda d, a, b, y: (d * a / y(), d * b / y())),
    "copysign": _two(lambda d, a, b, y: (d * _sign(a) * _sign(b), d * 0.0)),
    "neg": lambda d, x, y, op: [-d],
    "abs": _one(lambda d, x, y: d * _sign(x)),
    "exp": _one(lambda d, x, y: d * y()),
    "expm1": _one(lambda d, x, y: d * (y() + 1)),
    "log": _one(lambda d, x, y: d / x),
    "log1p": _one(lambda d, x, y: d / (x + 1)),
    "safe_log": _one(lambda d, x, y: d / x),
    "sqrt": _one(lambda d, x, y: d / (y() * 2)),
    "sin": _one(lambda d, x, y: d * _cos(x)),
    "cos": _one(lambda d, x, y: -(d * _sin(x))),
    "tan": _one(lambda d, x, y: d * (y() * y() + 1)),
    "asin": _one(lambda d, x, y: d / _sqrt(x.of(1.0) - x * x)),
    "acos": _one(lambda d, x, y: -(d / _sqrt(x.of(1.0) - x * x))),
    "atan": _one(lambda d, x, y: d / (x * x + 1)),
    "sinh": _one(lambda d, x, y: d * _cosh(x)),
    "cosh": _one(lambda d, x, y: d * _sinh(x)),
    "tanh": _one(lambda d, x, y: d * (x.of(1.0) - y() * y())),
    "asinh": _one(lambda d, x, y: d / _sqrt(x * x + 1)),
    "acosh": _one(lambda d, x, y: d / _sqrt(x * x - 1)),
    "atanh": _one(lambda d, x, y: d / (x.of(1.0) - x * x)),
    "erf": _one(lambda d, x, y: d * _exp(-(x * x)) * (2 / math.sqrt(math.pi))),
    "to_float": lambda d, x, y, op: [d.sum_like(x[0])],
    "astype": lambda d, x, y, op: [d.sum_like(x[0])],
    "astype_as": lambda d, x, y, op: [d.sum_like(x[0]), None],
    "where": _where,
    "sum_like": lambda d, x, y, op: [d.prim("like", x[0]), None],
    "like": lambda d, x, y, op: [d.sum_like(x[0]), None],
    "fill_like": lambda d, x, y, op: [d, None],
    "cotangent": lambda d, x, y, op: [d, None],
    "gadd": lambda d, x, y, op: [d, d],
    "varied": lambda d, x, y, op: [d],
    "env_drop": _linear("env_drop", "env_pad"),
    "env_pad": _linear("env_pad", "env_drop"),
    "env_item": _linear("env_item", "env_put"),
    "env_put": _linear("env_put", "env_item"),
    "tuple_put": lambda d, x, y, op: [None, d.prim("item_at", **_same(op))],
    "item_at": lambda d, x, y, op: [x[0].prim("tuple_put", d, **_same(op))],
    "item": lambda d, x, y, op: [x[0].prim("item_put", x[1], d), None],
    "item_put": lambda d, x, y, op: [None, None, d.prim("item", x[1])],
    "field": lambda d, x, y, op: [x[0].prim("field_put", d, **_same(op))],
    "field_put": lambda d, x, y, op: [None, d.prim("field_of", x[0], **_same(op))],
    "field_of": lambda d, x, y, op: [x[1].prim("field_put", d, **_same(op)), None],
    "rows": lambda d, x, y, op: [x[0].prim("rows_put", x[1], d, **_same(op)), None],
    "rows_put": lambda d, x, y, op: [None, None, d.prim("rows", x[1], **_same(op))],
    "with_item": _with_item,
    "with_field": _with_field,
    **dict.fromkeys(("copy", "assigned"), lambda d, x, y, op: [d]),
    "taken": lambda d, x, y, op: [x[0].prim("item_put", x[1], d), None, None],
    "to_tuple": lambda d, x, y, op: [d.prim("like_source", x[0])],
    "like_source": lambda d, x, y, op: [d.prim("to_tuple", count=integer(0)), None],
    "sum_items": lambda d, x, y, op: [x[0].prim("spread", d)],
    "spread": lambda d, x, y, op: [None, d.prim("sum_items")],
    "concat_tuples": lambda d, x, y, op: [
        d.prim("tuple_part", x[0], x[1], part=integer(0)),
        d.prim("tuple_part", x[0], x[1], part=integer(1)),
    ],
    "tuple_part": lambda d, x, y, op: [d.prim("tuple_join", x[1], x[2], **_same(op)), None, None],
    "tuple_join": lambda d, x, y, op: [d.prim("tuple_part", x[1], x[2], **_same(op)), None, None],
    "values": lambda d, x, y, op: [d],
    "walked": lambda d, x, y, op: [d.prim("walked_back", x[0])],
    "zipped": lambda d, x, y, op: [d.prim("zipped_back", x[0])],
    "dict_of": lambda d, x, y, op: [d.prim("dict_back", x[0])],
    **{n: _nothing for n in ("keys", "has_key", "stop")},
    "reshape": lambda d, x, y, op: [d.prim("reshape_like", x[0]), None],
    "reshape_like": lambda d, x, y, op: [d.prim("reshape_like", x[0]), None],
    "full": lambda d, x, y, op: [None, d.sum_like(x[1])],
    "array_of": lambda d, x, y, op: [d.prim("items_like", x[0])],
    "items_like": lambda d, x, y, op: [d.prim("like_source", x[0]), None],
    "getitem": operator_rule,
    "stack_values": operator_rule,
    **{n: _nothing for n in ("floor", "ceil", "round", "sign", "floor_div", "to_int", "to_bool", "not")},
    **{n: _nothing for n in ("eq", "ne", "lt", "le", "gt", "ge", "len", "shape", "zero", "one_like")},
    **{n: _nothing for n in ("are_floats", "is_a", "fail")},
    **{n: _nothing for n in ("bitand", "bitor", "bitxor", "shl", "shr", "invert")},
}
