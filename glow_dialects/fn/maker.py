"""Builder of `glow_fn` operations, from values or from formula-like terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, SymbolRefAttr, UnitAttr, f64, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from glow_dialects.core.attributes import to_python
from glow_dialects.core.graph_op import GraphOp
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
from glow_dialects.fn.primitive import Card
from glow_dialects.fn.primitive import Term as Formula
from glow_dialects.fn.primitives.arithmetic import Add, Div, Mul, Neg, Sub
from glow_dialects.fn.primitives.cotangents import AddAny, BroadcastLike, SumLike, Zero
from glow_dialects.fn.primitives.mathematics import OF_OPERATORS
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type

#: The function that returns its argument: the last backward step.
IDENTITY = "identity.fn"
#: The attribute of a gradient operation in a derived function: how the function around it was derived,
#: one letter each time, "r" for reverse and "j" for forward mode.
MODES = "modes"


def modes_of(op: Operation) -> str:
    """How the function that holds a gradient operation was derived."""
    modes = op.attributes.get(MODES)
    return modes.data if isinstance(modes, StringAttr) else ""


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

    def prim(self, card: Card, *values: SSAValue, **attributes: Attribute) -> SSAValue:
        """A primitive."""
        return self.add(PrimOp.of(card, values, attributes))

    def number(self, value: float | int) -> SSAValue:
        """A constant."""
        attribute = IntegerAttr(value, i64) if isinstance(value, int) else FloatAttr(value, f64)
        return self.add(ConstantOp.create(properties={"value": attribute}, result_types=[any_type]))

    def call(self, *values: SSAValue) -> SSAValue:
        """A call: the function first."""
        return self.add(CallOp.create(operands=values, result_types=[any_type]))

    def ref(self, name: str) -> SSAValue:
        """A function of the module."""
        ref = RefOp.create(properties={"symbol": SymbolRefAttr(name)}, result_types=[any_type])
        return self.add(ref)

    def partial(self, *values: SSAValue) -> SSAValue:
        """A partial application: the function first."""
        return self.add(PartialOp.create(operands=values, result_types=[any_type]))

    def tuple(self, values: Sequence[SSAValue]) -> SSAValue:
        """A tuple."""
        return self.add(TupleOp.create(operands=values, result_types=[any_type]))

    def get(self, value: SSAValue, index: int, length: int) -> SSAValue:
        """An item of a tuple of known length."""
        get = GetOp.create(
            operands=[value],
            properties={"index": IntegerAttr(index, i64)},
            attributes={"of": IntegerAttr(length, i64)},
            result_types=[any_type],
        )
        return self.add(get)

    def pair(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Both items of a tuple of two."""
        return self.get(value, 0, 2), self.get(value, 1, 2)

    def switch(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """A selection."""
        return self.add(SwitchOp.create(operands=[condition, yes, no], result_types=[any_type]))

    def zero(self) -> SSAValue:
        """The symbolic zero."""
        if self.zero_value is None:
            self.zero_value = self.prim(Zero)
        return self.zero_value


def integer(value: int) -> IntegerAttr:
    """An attribute."""
    return IntegerAttr(value, i64)


@dataclass(frozen=True)
class Term:
    """A value in a formula."""

    maker: Maker
    value: SSAValue

    def prim(self, card: Card, *others: Formula | float | int, **attributes: Attribute) -> Term:
        """A primitive of this value and others."""
        values = [self.of(o).value for o in others]
        return Term(self.maker, self.maker.prim(card, self.value, *values, **attributes))

    def operator(self, kind: type[GraphOp], *others: Formula) -> Term:
        """The primitive that a graph operator is, of this value and others."""
        return self.prim(OF_OPERATORS[kind], *others)

    def of(self, other: Formula | float | int) -> Term:
        """A number as a term."""
        value = self.maker.number(other) if isinstance(other, float | int) else other.value
        return Term(self.maker, value)

    def zero(self) -> Term:
        """The symbolic zero."""
        return Term(self.maker, self.maker.zero())

    def sum_like(self, other: Formula) -> Term:
        """Summed over the axes along which `other` was broadcast; nothing where `other` is no float."""
        return self.prim(SumLike, other)

    def like(self, other: Formula) -> Term:
        """Broadcast to the shape of `other`, in its type."""
        return self.prim(BroadcastLike, other)

    def plus(self, other: Formula) -> Term:
        """The sum of two tangents or cotangents."""
        return self.prim(AddAny, other)

    @property
    def constant(self) -> bool | int | float | None:
        """The number that the value is known to be."""
        owner = self.value.owner
        if not isinstance(owner, ConstantOp) or isinstance(owner.value, UnitAttr):  # None
            return None
        value = to_python(owner.value)
        return value if isinstance(value, bool | int | float) else None

    def __add__(self, other: Formula | float | int) -> Term:
        return self.prim(Add, other)

    def __sub__(self, other: Formula | float | int) -> Term:
        return self.prim(Sub, other)

    def __mul__(self, other: Formula | float | int) -> Term:
        return self.prim(Mul, other)

    def __truediv__(self, other: Formula | float | int) -> Term:
        return self.prim(Div, other)

    def __neg__(self) -> Term:
        return self.prim(Neg)
