"""Functions over the items of a tuple whose length is known from its type: map, fold, reduce, apply."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import AnyAttr, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.syntax import FnOp, parse_tail, parse_value, print_tail

#: The kinds, with their parameters: f a function, t the tuple, a the first value.
KINDS = {"map": "f t", "fold": "f t a", "reduce": "f t", "apply": "f t"}


@irdl_op_definition
class OverOp(FnOp):
    """The function that maps, folds, reduces or applies over as many items as a tuple has.

    `glow_fn.over map %t` is (f, t) -> (f(t0), f(t1), ..); `fold` (f, t, a) -> f(..f(f(a, t0), t1)..);
    `reduce` the same from t0 on; `apply` (f, t) -> f(t0, t1, ..). MindIR: HyperMap.
    """

    name = "glow_fn.over"
    kind = prop_def(StringAttr)
    items = operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            known = ", ".join(KINDS)
            raise VerifyException(f"glow_fn.over: there is no {self.kind.data}; use {known}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.items)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> OverOp:
        kind = StringAttr(parser.parse_identifier())
        items = parse_value(parser)
        attributes, result = parse_tail(parser)
        return cls.create(
            operands=[items], properties={"kind": kind}, result_types=[result], attributes=attributes
        )
