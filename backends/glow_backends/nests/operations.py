"""The operations of `glow_kernel` inside kernels: nests of loops on views, and what these work on.

A nest is one operation, and so is the packing of an operand: the steps of loops and the instructions of a
processor are never operations of this level. Views are memrefs; what is known of their memory besides is in
the place of the memory space. Bodies are the graph's element-wise operators on elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

View = MemRefType[Attribute]


@dataclass(frozen=True)
class Loop:
    """A loop: its name, its size (None: a number of the call), whether what it passes is summed."""

    name: str
    size: int | None
    reduced: bool = False


@irdl_attr_definition
class LoopsAttr(Data[tuple[Loop, ...]]):
    """`#glow_kernel.loops<i = open, j = 512, sum k = 768>`, those of sums inmost."""

    name = "glow_kernel.loops"

    def print_parameter(self, printer: Printer) -> None:
        texts = (f"{'sum ' * v.reduced}{v.name} = {'open' if v.size is None else v.size}" for v in self.data)
        printer.print_string("<" + ", ".join(texts) + ">")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Loop, ...]:
        def loop() -> Loop:
            name = parser.parse_identifier()
            reduced = name == "sum"
            name = parser.parse_identifier() if reduced else name
            parser.parse_punctuation("=")
            opened = parser.parse_optional_keyword("open") is not None
            return Loop(name, None if opened else parser.parse_integer(), reduced)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, loop))


@dataclass(frozen=True)
class Memory:
    """What is known of the memory of a view: bytes that its start and lines are multiples of, and how many
    elements of zeros the plan keeps in front of and behind each axis."""

    align: int = 1
    border: tuple[int, ...] = ()


@irdl_attr_definition
class MemoryAttr(Data[Memory]):
    """`#glow_kernel.memory<align 64, border [1, 1, 0]>`, the memory space of a view."""

    name = "glow_kernel.memory"

    def print_parameter(self, printer: Printer) -> None:
        border = f", border {list(self.data.border)}" if self.data.border else ""
        printer.print_string(f"<align {self.data.align}{border}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Memory:
        with parser.in_angle_brackets():
            parser.parse_keyword("align")
            align, border = parser.parse_integer(), ()
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("border")
                numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                border = tuple(numbers)
        return Memory(align, border)


def memory_of(view: Attribute) -> Memory:
    """What is known of the memory of a view."""
    assert isinstance(view, MemRefType)
    return view.memory_space.data if isinstance(view.memory_space, MemoryAttr) else Memory()


@irdl_op_definition
class NestOp(IRDLOperation):
    """out[map] = finish(step over the summed loops, from `start`), for every index of the others.

    Maps are those of `ins`, of `extras` and of the result, each over all loops. The step takes the sum so far
    and an element of each of `ins`; `finish` the sum and an element of each of `extras`. `order` is what is
    promised of floating-point sums: "any", or "in order".
    """

    name = "glow_kernel.nest"
    loops = prop_def(LoopsAttr)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    order = opt_prop_def(StringAttr)
    start = opt_prop_def(FloatAttr[AnyFloat])
    sizes = var_operand_def()
    ins = var_operand_def(MemRefType)
    extras = var_operand_def(MemRefType)
    out = operand_def(MemRefType)
    step = region_def("single_block")
    finish = opt_region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$loops `maps` $maps (`order` $order^)? (`start` $start^)? "
        "(`sizes` `(` $sizes^ `:` type($sizes) `)`)? "
        "`ins` `(` $ins `:` type($ins) `)` (`extras` `(` $extras^ `:` type($extras) `)`)? "
        "`out` `(` $out `:` type($out) `)` `step` $step (`finish` $finish^)? attr-dict"
    )

    @property
    def kept(self) -> list[Loop]:
        """The loops that are not summed."""
        return [v for v in self.loops.data if not v.reduced]

    @property
    def views(self) -> list[SSAValue]:
        """The views of the maps, in their order."""
        return [*self.ins, *self.extras, self.out]

    def verify_(self) -> None:
        loops = self.loops.data
        opened, given = sum(v.size is None for v in loops), len(self.sizes)
        if given != opened:
            raise VerifyException(
                f"{self.name}: {opened} loops are open, {given} sizes are given; give as many"
            )
        if len(self.maps) != len(self.views):
            raise VerifyException(
                f"{self.name}: {len(self.maps)} maps for {len(self.views)} views; give as many"
            )
        for number, (index, view) in enumerate(zip(self.maps, self.views, strict=True)):
            rank = len(_view(view).get_shape())
            if index.data.num_dims != len(loops) or len(index.data.results) != rank:
                raise VerifyException(
                    f"{self.name}: map {number} is {index.data}; it takes {len(loops)} loops and gives "
                    f"{rank} numbers for {view.type}"
                )
        _check_body(self, "step", self.step.block.args, 1 + len(self.ins))
        if self.finish is not None:
            _check_body(self, "finish", self.finish.block.args, 1 + len(self.extras))
        elif self.extras:
            raise VerifyException(f"{self.name}: extras are read by `finish`; add it")


@irdl_op_definition
class PackOp(IRDLOperation):
    """A copy of a view that is laid out for an instruction; what lies outside the view is 0.

    The map goes from the axes of the result to those of the view; `shift` is added to each number that is
    inside. Where the result has an axis of `parts`, the map leaves it out: each part is what the parts before
    it leave of the number, rounded to the result's type. The schedule says whether all of it is made at once,
    or a panel at a time.
    """

    name = "glow_kernel.pack"
    source = operand_def(MemRefType)
    index = prop_def(AffineMapAttr)
    parts = opt_prop_def(IntAttr)
    shift = opt_prop_def(IntAttr)
    result = result_def(MemRefType)
    assembly_format = (
        "$source `map` $index (`parts` $parts^)? (`shift` $shift^)? attr-dict "
        "`:` type($source) `to` type($result)"
    )

    def verify_(self) -> None:
        source, result = _view(self.source), _view(self.result)
        split = self.parts is not None
        dims = len(result.get_shape()) - split
        if self.index.data.num_dims != dims or len(self.index.data.results) != len(source.get_shape()):
            raise VerifyException(
                f"{self.name}: {self.index.data} does not map {result} to {source}; give a number an axis"
            )


@irdl_op_definition
class LocalOp(IRDLOperation):
    """Room that a kernel works in; the schedule says where it is."""

    name = "glow_kernel.local"
    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class NumberOp(IRDLOperation):
    """A number of the call, in a body: an element."""

    name = "glow_kernel.number"
    number = operand_def(IndexType)
    result = result_def(TensorType)
    assembly_format = "$number attr-dict `:` type($result)"


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The result of a body."""

    name = "glow_kernel.yield"
    value = operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$value attr-dict `:` type($value)"


def _view(value: SSAValue) -> View:
    assert isinstance(value.type, MemRefType)
    return value.type


def _check_body(op: NestOp, name: str, arguments: Sequence[SSAValue], count: int) -> None:
    if len(arguments) != count:
        raise VerifyException(f"{op.name}: `{name}` takes {len(arguments)} elements; there are {count}")
