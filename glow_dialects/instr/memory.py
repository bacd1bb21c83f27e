"""Memory of the instruction level: the function, weights, alloc, dealloc, view and copy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import I64, FloatAttr, IntegerAttr, MemRefType, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    IsolatedFromAbove,
    MemoryEffect,
    MemoryEffectKind,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.definition import read_directly
from glow_dialects.core.errors import CompileError
from glow_dialects.core.instr_op import Access, InstrOp, own_instr
from glow_dialects.core.types import Array, Buffer, bytes_of, dtype_of, shape_of
from glow_dialects.ops.module import ConstantOp, lookup

MUTABILITY = ("constant", "mutable")
INITIALIZERS = ("none", "broadcast", "xavier")


@read_directly
class WeightOp(IRDLOperation):
    """A buffer that lives throughout the program: a constant, or a placeholder bound at run time.

    `init` is the kind of initialisation: `none`, `broadcast` (all elements `value`) or `xavier`
    (uniform in +-sqrt(3/value), `value` the fan-in), as in the Glow IR document.
    """

    name = "glow_instr.weight"
    symbol = prop_def(SymbolRefAttr)
    mutability = prop_def(StringAttr)
    init = prop_def(StringAttr, default_value=StringAttr("none"))
    value = opt_prop_def(Attribute)
    result = result_def(BaseAttr(MemRefType))
    traits = traits_def(Pure())

    @staticmethod
    def of(symbol: StringAttr, kind: Buffer, constant: bool) -> WeightOp:
        """Declare the buffer of a module-level constant or placeholder."""
        return WeightOp.create(
            properties={
                "symbol": SymbolRefAttr(symbol),
                "mutability": StringAttr("constant" if constant else "mutable"),
                "init": StringAttr("none"),
            },
            result_types=[kind],
        )

    @property
    def constant(self) -> bool:
        """Whether the program never writes it."""
        return self.mutability.data == "constant"

    @property
    def target(self) -> str:
        """Name of the module's constant or placeholder."""
        return self.symbol.root_reference.data

    def initial(self) -> Array | None:
        """The first contents that the declaration gives; None where it gives none."""
        shape, dtype = shape_of(self.result.type), dtype_of(self.result.type)
        if self.init.data == "none":
            return None
        assert isinstance(self.value, FloatAttr | IntegerAttr)
        number = float(self.value.value.data)
        if self.init.data == "broadcast":
            return np.full(shape, number, dtype)
        limit = math.sqrt(3 / number)
        # Seeded by the name: every run of a program starts from the same weights.
        rng = np.random.default_rng(list(self.target.encode()))
        return rng.uniform(-limit, limit, shape).astype(dtype)

    def verify_(self) -> None:
        if self.init.data != "none":
            number = self.value.value.data if isinstance(self.value, FloatAttr | IntegerAttr) else None
            if number is None or self.init.data == "xavier" and number <= 0:
                raise VerifyException(f"glow_instr.weight: {self.init.data} needs a number, as in 3.0 : f32")
            if self.constant:
                raise VerifyException(
                    "glow_instr.weight: a constant has its values; only mutable ones are set"
                )
        if self.mutability.data not in MUTABILITY:
            raise VerifyException(f"glow_instr.weight: '{self.mutability.data}' is not one of {MUTABILITY}")
        if self.init.data not in INITIALIZERS:
            raise VerifyException(f"glow_instr.weight: '{self.init.data}' is not one of {INITIALIZERS}")
        owner = lookup(self, self.target)
        if isinstance(owner, ConstantOp) != self.constant and owner is not None:
            raise VerifyException(f"glow_instr.weight: @{self.target} is not {self.mutability.data}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.symbol)
        printer.print_string(f" {self.mutability.data}")
        if self.init.data != "none":
            printer.print_string(f", {self.init.data} ")
            if self.value is not None:
                printer.print_attribute(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> WeightOp:
        properties: dict[str, Attribute] = {
            "symbol": SymbolRefAttr(parser.parse_symbol_name()),
            "mutability": StringAttr(parser.parse_identifier("constant or mutable")),
            "init": StringAttr("none"),
        }
        if parser.parse_optional_punctuation(",") is not None:
            properties["init"] = StringAttr(parser.parse_identifier("initialisation kind"))
            properties["value"] = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(properties=properties, attributes=attributes, result_types=[parser.parse_type()])


class _AllocEffect(MemoryEffect):
    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, op.results[0])}


@read_directly
class AllocOp(IRDLOperation):
    """Start of a buffer's life. It allocates nothing; `offset` is its place in the arena once planned."""

    name = "glow_instr.alloc"
    offset = opt_prop_def(IntegerAttr[I64])
    result = result_def(BaseAttr(MemRefType))
    traits = traits_def(_AllocEffect())
    assembly_format = "(`at` $offset^)? attr-dict `:` type($result)"

    @staticmethod
    def of(kind: Buffer) -> AllocOp:
        """A buffer of this type."""
        return AllocOp.create(result_types=[kind])

    def place(self, offset: int) -> None:
        """Fix the byte offset in the arena."""
        self.properties["offset"] = IntegerAttr(offset, i64)


@own_instr
class DeallocOp(InstrOp):
    """End of a buffer's life."""

    name = "glow_instr.dealloc"
    ACCESS = {"buffer": Access.OUT}
    buffer = operand_def(BaseAttr(MemRefType))

    def reference(self, buffer: Array) -> None:
        """Nothing happens."""


@read_directly
class ViewOp(IRDLOperation):
    """Another shape over a contiguous part of a buffer, without a copy (Glow: tensorview).

    `offset` counts elements of the source.
    """

    name = "glow_instr.tensorview"
    source = operand_def(BaseAttr(MemRefType))
    offset = prop_def(IntegerAttr[I64], default_value=IntegerAttr(0, i64))
    result = result_def(BaseAttr(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source (`offset` $offset^)? attr-dict `:` type($source) `to` type($result)"

    @staticmethod
    def of(source: SSAValue, kind: Buffer, offset: int = 0) -> ViewOp:
        """View `source` as `kind` from element `offset` on."""
        return ViewOp.create(
            operands=[source],
            result_types=[kind],
            properties={"offset": IntegerAttr(offset, i64)},
        )

    def verify_(self) -> None:
        have, want = bytes_of(self.source.type), bytes_of(self.result.type)
        start = self.offset.value.data * (have // max(1, _count(self.source.type)))
        if start < 0 or start + want > have:
            raise VerifyException(
                f"glow_instr.tensorview: {self.result.type} at {self.offset.value.data} "
                f"does not fit in {self.source.type}"
            )


def _count(kind: Attribute) -> int:
    return prod(shape_of(kind))


@own_instr
class CopyOp(InstrOp):
    """dest = src, element by element; the same type."""

    name = "glow_instr.copy"
    ACCESS = {"dest": Access.OUT, "src": Access.IN}
    INPLACE = ("src",)
    dest = operand_def(BaseAttr(MemRefType))
    src = operand_def(BaseAttr(MemRefType))

    def verify_(self) -> None:
        if self.dest.type != self.src.type:
            raise VerifyException(f"glow_instr.copy: {self.src.type} does not fit {self.dest.type}")

    def reference(self, dest: Array, src: Array) -> None:
        dest[...] = src


@irdl_op_definition
class InstrFuncOp(IRDLOperation):
    """A function as instructions: `declare { weights } program { instructions }`, one block."""

    name = "glow_instr.func"
    sym_name = prop_def(StringAttr)
    arena = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove(), NoTerminator())

    @staticmethod
    def of(name: str) -> InstrFuncOp:
        """An empty function."""
        return InstrFuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(Block())])

    @property
    def block(self) -> Block:
        """The instructions."""
        return self.body.block

    def weights(self) -> list[WeightOp]:
        """The declare section."""
        return [op for op in self.block.ops if isinstance(op, WeightOp)]

    def program(self) -> Iterator[Operation]:
        """Everything after the declare section."""
        return (op for op in self.block.ops if not isinstance(op, WeightOp))

    def verify_(self) -> None:
        from glow_dialects.instr.lifetime import check_function

        check_function(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        extra: dict[str, Attribute] = dict(self.attributes)
        if self.arena is not None:
            extra["arena"] = self.arena
        if extra:
            printer.print_op_attributes(extra, print_keyword=True)
        for keyword, ops in (("declare", self.weights()), ("program", list(self.program()))):
            printer.print_string(f" {keyword} {{")
            with printer.indented():
                for op in ops:
                    printer.print_string("\n")
                    printer.print_op(op)
            printer.print_string("\n}")

    @classmethod
    def parse(cls, parser: Parser) -> InstrFuncOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        written = parser.parse_optional_attr_dict_with_keyword()
        attributes = dict(written.data) if written else {}
        if "arena" in attributes:
            properties["arena"] = attributes.pop("arena")
        block = Block()
        outer = dict(parser.ssa_values)
        for keyword in ("declare", "program"):
            parser.parse_keyword(keyword)
            parser.parse_punctuation("{")
            while parser.parse_optional_punctuation("}") is None:
                block.add_op(parser.parse_operation())
        parser.ssa_values = outer
        return cls.create(properties=properties, attributes=attributes, regions=[Region(block)])


def instr_functions(module: Operation) -> list[InstrFuncOp]:
    """The instruction functions of a module."""
    return [op for op in module.regions[0].block.ops if isinstance(op, InstrFuncOp)]


def instr_function(module: Operation, name: str) -> InstrFuncOp:
    """The instruction function called `name`; CompileError where there is none."""
    for op in instr_functions(module):
        if op.sym_name.data == name:
            return op
    raise CompileError(f"the module has no function @{name}, neither a glow.func nor a glow_instr.func")


def origin(buffer: SSAValue) -> SSAValue:
    """The alloc or weight behind a buffer, through views."""
    while type(view := buffer.owner) is ViewOp:
        buffer = view.source
    return buffer


def view_offset(buffer: SSAValue) -> int:
    """Byte offset of a buffer in its origin."""
    total = 0
    while type(view := buffer.owner) is ViewOp:
        source = view.source
        count = max(1, _count(source.type))
        total += view.offset.value.data * (bytes_of(source.type) // count)
        buffer = source
    return total


def uses_of(buffers: Sequence[SSAValue]) -> list[tuple[Operation, int]]:
    """Uses of some buffers and of every view of them."""
    uses: list[tuple[Operation, int]] = []
    stack = list(buffers)
    while stack:
        buffer = stack.pop()
        for use in buffer.uses:
            if isinstance(use.operation, ViewOp):
                stack.append(use.operation.result)
            uses.append((use.operation, use.index))
    return uses


__all__ = [
    "AllocOp",
    "CopyOp",
    "DeallocOp",
    "InstrFuncOp",
    "ViewOp",
    "WeightOp",
    "instr_function",
    "instr_functions",
    "origin",
    "uses_of",
    "view_offset",
]
