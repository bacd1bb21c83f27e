"""Graph operators inside functions: a part of a graph as one operation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    irdl_op_definition,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.syntax import FnOp, parse_tail, parse_values, print_tail, print_values
from glow_dialects.fn.types import any_type


@irdl_op_definition
class YieldOp(FnOp):
    """The tensors that a part of a graph computes."""

    name = "glow_fn.yield"
    values = var_operand_def(AnyAttr())
    traits = traits_def(IsTerminator())

    def print(self, printer: Printer) -> None:
        print_values(printer, self.values)

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls.create(operands=parse_values(parser))


@irdl_op_definition
class TensorsOp(FnOp):
    """The tuple of the tensors that nodes of `glow` compute: `glow_fn.tensors(%a) { ^(%x : ..): .. }`."""

    name = "glow_fn.tensors"
    arguments = var_operand_def(AnyAttr())
    body = region_def("single_block")
    result = result_def(AnyAttr())
    traits = traits_def(Pure(), IsolatedFromAbove())

    @staticmethod
    def of(values: Sequence[SSAValue], block: Block) -> TensorsOp:
        """A finished block, which ends with glow_fn.yield, on some values."""
        kinds: list[Attribute] = [any_type]
        return TensorsOp.create(operands=list(values), result_types=kinds, regions=[Region(block)])

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values in the block that the result consists of."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.values

    def verify_(self) -> None:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("glow_fn.tensors: the block ends with glow_fn.yield; add it")
        if len(self.operands) != len(self.body.block.args):
            count = len(self.body.block.args)
            raise VerifyException(
                f"glow_fn.tensors: {len(self.operands)} values for {count} parameters; give as many"
            )

    def print(self, printer: Printer) -> None:
        print_values(printer, self.arguments)
        printer.print_string(" ")
        printer.print_region(self.body)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> TensorsOp:
        values = parse_values(parser)
        region = parser.parse_region()
        attributes, kind = parse_tail(parser)
        return cls.create(operands=values, regions=[region], result_types=[kind], attributes=attributes)
