"""Instruction loops: `glow_instr.for` with constant bounds, and tokens passed between iterations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.token import TOKEN, TokenType


@irdl_op_definition
class YieldOp(IRDLOperation):
    """End of a turn: the tokens that the next turn, or what follows the loop, waits for."""

    name = "glow_instr.yield"
    tokens = var_operand_def(TokenType)
    traits = traits_def(IsTerminator())
    assembly_format = "$tokens attr-dict"

    @staticmethod
    def of(tokens: Sequence[SSAValue]) -> YieldOp:
        """Hand on tokens."""
        return YieldOp.create(operands=tokens)


@irdl_op_definition
class ForOp(IRDLOperation):
    """The body for each index of `range(lower, upper, step)`, in order.

    `for %i = 0 to 64 step 16 carry(%t = %first) { ... yield %next }`: a turn finds tokens of the turn before,
    the first one those of before the loop; the results are those of the last.
    """

    name = "glow_instr.for"
    lower = prop_def(IntegerAttr[I64])
    upper = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    tokens = var_operand_def(TokenType)
    last = var_result_def(TokenType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @staticmethod
    def of(turns: range, tokens: Sequence[SSAValue] = (), body: Block | None = None) -> ForOp:
        """A loop, of an empty body where none is given."""
        block = body or Block(arg_types=[IndexType(), *(TOKEN for _ in tokens)])
        bounds = {"lower": turns.start, "upper": turns.stop, "step": turns.step}
        return ForOp.create(
            operands=tokens,
            result_types=[TOKEN for _ in tokens],
            properties={name: IntegerAttr(value, i64) for name, value in bounds.items()},
            regions=[Region(block)],
        )

    @property
    def block(self) -> Block:
        """The body."""
        return self.body.block

    @property
    def index(self) -> BlockArgument:
        """The number that the body's views depend on."""
        return self.block.args[0]

    @property
    def carried(self) -> Sequence[SSAValue]:
        """The tokens as the body sees them."""
        return self.block.args[1:]

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The tokens at the end of a turn."""
        last = self.block.last_op
        return last.operands if isinstance(last, YieldOp) else ()

    @property
    def turns(self) -> range:
        """The indices."""
        return range(self.lower.value.data, self.upper.value.data, self.step.value.data)

    def verify_(self) -> None:
        step, low, high = (a.value.data for a in (self.step, self.lower, self.upper))
        if step < 1 or low >= high:
            raise VerifyException(
                f"glow_instr.for: {low} to {high} step {step} has no iterations; the "
                "upper bound must be larger, and the step positive"
            )
        kinds = [type(a.type) for a in self.block.args]
        if kinds != [IndexType, *(TokenType for _ in self.tokens)] or len(self.last) != len(self.tokens):
            raise VerifyException(
                "glow_instr.for: the body needs an index, and as many tokens as the loop; correct the "
                "arguments of the block"
            )
        if len(self.yielded) != len(self.tokens):
            raise VerifyException(
                f"glow_instr.for: the loop carries {len(self.tokens)} tokens, an iteration yields "
                f"{len(self.yielded)}; yield that many"
            )
        if any(isinstance(op, YieldOp) and op is not self.block.last_op for op in self.block.ops):
            raise VerifyException("glow_instr.yield: must be at the end of a loop's body; move it there")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.index)
        turns = self.turns
        printer.print_string(f" = {turns.start} to {turns.stop} step {turns.step}")
        if self.tokens:
            printer.print_string(" carry(")

            def pair(names: tuple[SSAValue, SSAValue]) -> None:
                printer.print_ssa_value(names[0])
                printer.print_string(" = ")
                printer.print_ssa_value(names[1])

            printer.print_list(list(zip(self.carried, self.tokens, strict=True)), pair)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        index = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        lower = parser.parse_integer()
        parser.parse_keyword("to")
        upper = parser.parse_integer()
        parser.parse_keyword("step")
        step = parser.parse_integer()
        pairs: list[tuple[Parser.Argument, SSAValue]] = []
        if parser.parse_optional_keyword("carry") is not None:

            def pair() -> tuple[Parser.Argument, SSAValue]:
                inner = parser.parse_argument(expect_type=False).resolve(TOKEN)
                parser.parse_punctuation("=")
                return inner, parser.resolve_operand(parser.parse_unresolved_operand(), TOKEN)

            pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        written = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([index, *(inner for inner, _ in pairs)])
        attributes: dict[str, Attribute] = dict(written.data) if written else {}
        bounds = {"lower": lower, "upper": upper, "step": step}
        return cls.create(
            operands=[outer for _, outer in pairs],
            result_types=[TOKEN for _ in pairs],
            properties={name: IntegerAttr(value, i64) for name, value in bounds.items()},
            attributes=attributes,
            regions=[body],
        )


def loop_of(value: SSAValue) -> ForOp:
    """The loop whose index, or whose token as its body sees it, a value is; VerifyException for others."""
    block = value.owner
    loop = block.parent_op() if isinstance(block, Block) else None
    if not isinstance(loop, ForOp):
        raise VerifyException(
            "glow_instr.tensorview: offsets depend on indices of loops only; use constants or such an index"
        )
    return loop


def body_ops(loop: ForOp) -> list[Operation]:
    """The operations of a turn, without the yield."""
    return [op for op in loop.block.ops if not isinstance(op, YieldOp)]
