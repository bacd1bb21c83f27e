"""Memory of the instruction level: the function, weights, alloc, dealloc, view and copy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    i64,
)
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
    var_operand_def,
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

from glow_dialects.core.attributes import integers
from glow_dialects.core.definition import read_directly
from glow_dialects.core.errors import CompileError
from glow_dialects.core.instr_op import Access, InstrOp, own_instr
from glow_dialects.core.token import TokenType
from glow_dialects.core.types import Array, Buffer, bytes_of, dtype_of, shape_of, typed
from glow_dialects.instr.spaces import MAIN, Memory, memories_attribute, memories_of, space_of
from glow_dialects.instr.strides import dense_strides, extent_of, span_of, strided, strides_of
from glow_dialects.ops.module import ConstantOp, lookup

MUTABILITY = ("constant", "mutable")
FACTS = ("arena", "memories")
"""What a function says of memory, in the order in which it is printed."""
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
        if space_of(self.result) != MAIN:
            raise VerifyException("glow_instr.weight: weights are in the main memory; copy them to others")
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
            mutability = self.mutability.data
            raise VerifyException(f"glow_instr.weight: @{self.target} is not {mutability}; change one")

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
            "mutability": StringAttr(parser.parse_identifier(context_msg=": constant or mutable")),
            "init": StringAttr("none"),
        }
        if parser.parse_optional_punctuation(",") is not None:
            properties["init"] = StringAttr(parser.parse_identifier(context_msg=": an initialisation kind"))
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
    """Start of a buffer's life. It allocates nothing; `offset` is its place in its memory once planned."""

    name = "glow_instr.alloc"
    offset = opt_prop_def(IntegerAttr[I64])
    result = result_def(BaseAttr(MemRefType))
    traits = traits_def(_AllocEffect())
    assembly_format = "(`at` $offset^)? attr-dict `:` type($result)"

    def verify_(self) -> None:
        if strides_of(self.result.type) is not None:
            raise VerifyException(f"glow_instr.alloc: {self.result.type} is for views; buffers are dense")

    @staticmethod
    def of(kind: Buffer) -> AllocOp:
        """A buffer of this type."""
        return AllocOp.create(result_types=[kind])

    def place(self, offset: int) -> None:
        """Fix the byte offset in the arena, or in the memory that the type names."""
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
    """Another shape over a part of a buffer, without a copy (Glow: tensorview).

    It begins `offset` elements of the source behind the source's first, and `factors` more for each of the
    `indices` of loops: `tensorview %x offset 6 + 64 * %i : ...`. A strided type skips elements.
    """

    name = "glow_instr.tensorview"
    source = operand_def(BaseAttr(MemRefType))
    indices = var_operand_def(IndexType)
    offset = prop_def(IntegerAttr[I64], default_value=IntegerAttr(0, i64))
    factors = opt_prop_def(BaseAttr(DenseArrayBase))
    result = result_def(BaseAttr(MemRefType))
    traits = traits_def(Pure())

    @staticmethod
    def of(
        source: SSAValue, kind: Buffer, offset: int = 0, terms: Mapping[SSAValue, int] | None = None
    ) -> ViewOp:
        """View `source` as `kind` from element `offset + sum(factor * index)` on."""
        properties: dict[str, Attribute] = {"offset": IntegerAttr(IntAttr(offset), i64)}
        if terms:
            properties["factors"] = integers(i64, tuple(terms.values()))
        return ViewOp.create(operands=[source, *(terms or ())], result_types=[kind], properties=properties)

    @staticmethod
    def part(source: SSAValue, corner: Sequence[int | SSAValue], shape: Sequence[int]) -> ViewOp:
        """The part of a buffer that begins at `corner`: a number or an index of a loop each dimension."""
        kind: Any = source.type
        strides = strides_of(kind) or dense_strides(shape_of(kind))
        terms: Counter[SSAValue] = Counter()
        offset = 0
        for place, stride in zip(corner, strides, strict=True):
            if isinstance(place, SSAValue):
                terms[place] += stride
            else:
                offset += place * stride
        part = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
        return ViewOp.of(source, strided(part, strides), offset, terms)

    def terms(self) -> dict[SSAValue, int]:
        """The factor of each index."""
        return dict(zip(self.operands[1:], _numbers(self.factors), strict=True)) if self.factors else {}

    def verify_(self) -> None:
        if space_of(self.source) != space_of(self.result):
            kinds = f"{self.result.type} lies in another memory than {self.source.type}"
            raise VerifyException(f"glow_instr.tensorview: {kinds}; name one")
        if len(_numbers(self.factors)) != len(self.operands) - 1:
            raise VerifyException("glow_instr.tensorview: each index has a factor; give as many of both")
        have, want = span_of(self.source.type), span_of(self.result.type)
        width = bytes_of(self.source.type) // max(1, _count(self.source.type))
        first, last = extent_of(self.offset.value.data, self.terms())
        if first * width < 0 or last * width + want > have:
            place = f"{first} to {last}" if self.factors else f"{self.offset.value.data}"
            kinds = f"{self.result.type} at {place} does not fit in {self.source.type}"
            raise VerifyException(f"glow_instr.tensorview: {kinds}; move it")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        offset = self.offset.value.data
        between = " offset "
        if offset:
            printer.print_string(f"{between}{offset}")
            between = " + "
        for index, factor in self.terms().items():
            printer.print_string(f"{between}{factor} * ")
            printer.print_ssa_value(index)
            between = " + "
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ViewOp:
        source = parser.parse_unresolved_operand()
        offset, terms = 0, dict[SSAValue, int]()
        more = parser.parse_optional_keyword("offset") is not None
        while more:
            number = parser.parse_integer(allow_boolean=False)
            if parser.parse_optional_punctuation("*") is None:
                offset += number
            else:
                index = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
                terms[index] = terms.get(index, 0) + number
            more = parser.parse_optional_punctuation("+") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        parser.parse_keyword("to")
        made: Any = parser.parse_type()
        op = cls.of(parser.resolve_operand(source, kind), made, offset, terms)
        op.attributes |= attributes
        return op


def _numbers(factors: DenseArrayBase[Any] | None) -> tuple[int, ...]:
    numbers: Any = () if factors is None else factors.get_values()  # pyright: ignore
    return tuple(numbers)


def _count(kind: Attribute) -> int:
    return prod(shape_of(kind))


class _Copying(InstrOp):
    """dest = src, element by element; the same type but for memory and strides."""

    ACCESS = {"dest": Access.OUT, "src": Access.IN}
    dest = operand_def(BaseAttr(MemRefType))
    src = operand_def(BaseAttr(MemRefType))

    def verify_(self) -> None:
        if self.dest.type != self.src.type and typed(self.dest) != typed(self.src):
            raise VerifyException(
                f"{self.name}: {self.src.type} does not fit {self.dest.type}; give equal ones"
            )

    def reference(self, dest: Array, src: Array) -> None:
        dest[...] = src


@own_instr
class CopyOp(_Copying):
    """dest = src; in one memory or from one to another."""

    name = "glow_instr.copy"
    INPLACE = ("src",)


@own_instr
class StartCopyOp(_Copying):
    """A copy that goes on beside what follows, until its token is waited for."""

    name = "glow_instr.start_copy"
    token = result_def(TokenType)


@own_instr
class WaitOp(InstrOp):
    """Nothing is done until what the tokens stand for has ended."""

    name = "glow_instr.wait"
    ACCESS = {"tokens": Access.AFTER}
    tokens = var_operand_def(TokenType)

    def reference(self) -> None:
        """Nothing happens."""


@irdl_op_definition
class InstrFuncOp(IRDLOperation):
    """A function as instructions: `declare { weights } program { instructions }`, one block.

    `arena` is the size of the planned main memory, `memories` are the device's others, by name.
    """

    name = "glow_instr.func"
    sym_name = prop_def(StringAttr)
    arena = opt_prop_def(IntegerAttr)
    memories = opt_prop_def(DictionaryAttr)
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

    def spaces(self) -> dict[str, Memory]:
        """The memories beside the main one."""
        return memories_of(self.memories)

    def declare(self, memories: Mapping[str, Memory]) -> None:
        """Declare the memories beside the main one, in place of those declared before."""
        self.properties.pop("memories", None)
        if memories:
            self.properties["memories"] = memories_attribute(memories)

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
        extra = {**self.attributes, **{n: a for n in FACTS if (a := self.properties.get(n)) is not None}}
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
        properties |= {n: attributes.pop(n) for n in FACTS if n in attributes}
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
    "StartCopyOp",
    "ViewOp",
    "WaitOp",
    "WeightOp",
    "instr_function",
    "instr_functions",
    "origin",
    "uses_of",
    "view_offset",
]
