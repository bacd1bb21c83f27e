"""Gradients of glow_fn: functions made from functions by differentiation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, FunctionType, UnitAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.syntax import FnOp, parse_tail, parse_value, print_tail
from glow_dialects.fn.types import AnyType


class _Gradient(FnOp):
    """A function made from a function; `single`: its gradient is one value rather than a tuple."""

    function = operand_def(AnyAttr())
    argnums = prop_def(DenseArrayBase)
    single = opt_prop_def(Attribute)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @property
    def positions(self) -> tuple[int, ...]:
        """The parameters to differentiate by."""
        wanted = self.properties["argnums"]
        assert isinstance(wanted, DenseArrayBase)
        return tuple(int(i) for i in wanted.get_values())

    def verify_(self) -> None:
        kind = self.function.type
        if not isinstance(kind, AnyType | FunctionType):
            raise VerifyException(
                f"{self.name}: a function is needed, got {kind}; glow_fn.ref makes one of a symbol"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        numbers = ", ".join(map(str, self.positions))
        printer.print_string(f" by {numbers}" if self.single else f" by [{numbers}]")
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> FnOp:
        value = parse_value(parser)
        parser.parse_keyword("by")
        single = parser.parse_optional_integer(allow_negative=False)
        numbers = [single] if single is not None else None
        if numbers is None:
            numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes, kind = parse_tail(parser)
        return cls.create(
            operands=[value],
            properties=argnums(numbers, single is not None),
            result_types=[kind],
            attributes=attributes,
        )


def argnums(numbers: Sequence[int], single: bool) -> dict[str, Attribute]:
    """The properties of a gradient operation."""
    attributes: dict[str, Attribute] = {"argnums": DenseArrayBase.from_list(i64, list(numbers))}
    return {**attributes, "single": UnitAttr()} if single else attributes


@irdl_op_definition
class GradOp(_Gradient):
    """x -> the gradient of f at x with respect to some parameters; expanded by glow-expand-grad."""

    name = "glow_fn.grad"


@irdl_op_definition
class ValueAndGradOp(_Gradient):
    """x -> (f(x), the gradient of f at x); expanded by glow-expand-grad."""

    name = "glow_fn.value_and_grad"


@irdl_op_definition
class JvpOp(_Gradient):
    """(x.., d..) -> (f(x), the tangent of f at x for the tangents d of all parameters); `by []`."""

    name = "glow_fn.jvp"
