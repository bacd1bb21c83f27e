"""Common syntax of `glow_fn` operations: types are written only where they are known."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike

from glow_dialects.fn.types import AnyType, any_type

#: The attribute that keeps the Python line of an operation: not part of the custom syntax.
LINE = "line"


class FnOp(IRDLOperation):
    """Base of the operations: one result at most, source line as an attribute."""

    @property
    def source(self) -> str:
        """`file:line` of the Python text that the operation comes from, or nothing."""
        line = self.attributes.get(LINE)
        return line.data if isinstance(line, StringAttr) else ""

    def is_constant(self, i: int) -> bool:
        """Whether an operand is a constant."""
        owner = self.operands[i].owner
        return isinstance(owner, Operation) and owner.has_trait(ConstantLike)


def print_tail(printer: Printer, op: Operation) -> None:
    """Attributes (without the source line) and the result type where it is known."""
    shown = {n: a for n, a in op.attributes.items() if n != LINE}
    printer.print_op_attributes(shown)
    if op.results and not isinstance(op.results[0].type, AnyType):
        printer.print_string(" : ")
        printer.print_attribute(op.results[0].type)


def parse_tail(parser: Parser) -> tuple[dict[str, Attribute], Attribute]:
    """Parse the output of `print_tail`."""
    attributes = dict(parser.parse_optional_attr_dict())
    kind: Attribute = any_type
    if parser.parse_optional_punctuation(":") is not None:
        kind = parser.parse_type()
    return attributes, kind


def parse_value(parser: Parser) -> SSAValue:
    """An operand; it is defined before, since the text has no types of operands."""
    value = parse_optional_value(parser)
    return parser.raise_error("expected a value") if value is None else value


def parse_optional_value(parser: Parser) -> SSAValue | None:
    """An operand that is defined before, None where there is none."""
    return parser.parse_optional_operand()  # pyright: ignore[reportDeprecated]


def print_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    """`(%a, %b)`."""
    with printer.in_parens():
        printer.print_list(values, printer.print_ssa_value)


def parse_values(parser: Parser) -> list[SSAValue]:
    """Parse the output of `print_values`."""
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_operand)


def print_parameters(printer: Printer, values: Sequence[SSAValue]) -> None:
    """`(%x : f64, %y)`: a parameter of unknown type shows none."""

    def one(value: SSAValue) -> None:
        printer.print_ssa_value(value)
        if not isinstance(value.type, AnyType):
            printer.print_string(" : ")
            printer.print_attribute(value.type)

    with printer.in_parens():
        printer.print_list(values, one)


def parse_parameters(parser: Parser) -> list[Parser.Argument]:
    """Parse the output of `print_parameters`."""

    def one() -> Parser.Argument:
        name = parser.parse_optional_argument(expect_type=False)
        if name is None:
            parser.raise_error("expected a parameter such as %x or %x : f64")
        known = parser.parse_optional_punctuation(":") is not None
        kind: Attribute = parser.parse_type() if known else any_type
        return name.resolve(kind)

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)


def print_body(printer: Printer, region: Region) -> None:
    """The region without its block's header, which the operation shows as parameters."""
    printer.print_string(" ")
    printer.print_region(region, print_entry_block_args=False)


def entry(region: Region) -> Block:
    """The one block of a function."""
    return region.block


def strings(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    """An array attribute of strings."""
    return ArrayAttr(StringAttr(n) for n in names)
