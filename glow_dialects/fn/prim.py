"""Constants and primitives as operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.primitive import Card, Primitive
from glow_dialects.fn.primitives import primitive_named
from glow_dialects.fn.syntax import FnOp, parse_tail, parse_values, print_tail, print_values
from glow_dialects.fn.types import AnyType, any_type, fits


@irdl_op_definition
class ConstantOp(FnOp):
    """A number, boolean, text or array known at compile time (MindIR: ValueNode)."""

    name = "glow_fn.constant"
    value = prop_def(Attribute)
    result = result_def(AnyAttr())
    traits = traits_def(Pure(), ConstantLike())

    def verify_(self) -> None:
        kind, value = self.result.type, self.value
        text = isinstance(value, StringAttr)
        own = value.type if isinstance(value, IntegerAttr | FloatAttr) else kind
        if not fits(own, kind) or (text and not isinstance(kind, AnyType)):
            raise VerifyException(f"glow_fn.constant: {value} is not {kind}; change the value or the type")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        value = parser.parse_attribute()
        attributes, kind = parse_tail(parser)
        return cls.create(properties={"value": value}, result_types=[kind], attributes=attributes)


@irdl_op_definition
class PrimOp(FnOp):
    """A primitive on scalars, tensors or tuples: `glow_fn.prim mul(%a, %b)`; its options are attributes."""

    name = "glow_fn.prim"
    prim = prop_def(StringAttr)
    arguments = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @staticmethod
    def of(card: Card, values: Sequence[SSAValue], attributes: Mapping[str, Attribute]) -> PrimOp:
        """A primitive of some values."""
        primitive = card() if isinstance(card, type) else card
        return PrimOp.create(
            operands=values,
            properties={"prim": StringAttr(primitive.text)},
            attributes=attributes,
            result_types=[any_type],
        )

    @property
    def card(self) -> Primitive:
        """The primitive's card."""
        return primitive_named(self.prim.data)

    def verify_(self) -> None:
        arity = self.card.arity
        if arity is not None and arity != len(self.operands):
            raise VerifyException(
                f"glow_fn.prim: {self.prim.data} takes {arity} arguments, got {len(self.operands)}; "
                f"give {arity}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.prim.data}")
        print_values(printer, self.operands)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> PrimOp:
        name = parser.parse_identifier()
        while parser.parse_optional_punctuation(":") is not None:
            name += ":" + parser.parse_identifier()
        values = parse_values(parser)
        attributes, kind = parse_tail(parser)
        return cls.create(
            operands=values,
            properties={"prim": StringAttr(name)},
            result_types=[kind],
            attributes=attributes,
        )
