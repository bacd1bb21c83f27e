"""How a kernel is run: nothing of it changes what is computed, but for sums whose order is not promised."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from glow_backends.nests.instructions import Instruction, instruction


@dataclass(frozen=True)
class Schedule:
    """How a contraction runs: blocks of `rows` x `columns` instructions, whose sums stay in registers.

    The columns of a block are a panel. `lanes`: elements of a vector register of the sums' type.
    `pack_a`, `pack_b`: whether an operand that lies otherwise is copied first, a panel or the rows of a
    share at a time. `shares`: into how many parts (of rows, of panels) the workers cut the product.
    `expand`: the instruction's meaning in plain code in place of it, for tests and other processors.
    """

    instruction: str
    lanes: int = 16
    rows: int = 1
    columns: int = 1
    pack_a: bool = False
    pack_b: bool = True
    shares: tuple[int, int] = (1, 1)
    expand: bool = False

    @property
    def unit(self) -> Instruction:
        """The instruction."""
        return instruction(self.instruction)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.columns * self.unit.columns(self.lanes)


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """`#glow_kernel.schedule<instruction = "fma.f64", rows = 8, columns = 3>`; what is usual is left out."""

    name = "glow_kernel.schedule"

    def print_parameter(self, printer: Printer) -> None:
        known = [(f.name, getattr(self.data, f.name)) for f in fields(Schedule) if _told(self.data, f)]
        printer.print_string("<" + ", ".join(f"{n} = {_text(v)}" for n, v in known) + ">")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        kinds = {f.name: f.type for f in fields(Schedule)}

        def entry() -> tuple[str, Any]:
            name = parser.parse_identifier()
            if name not in kinds:
                parser.raise_error(f"a schedule has no '{name}'; it has: {', '.join(kinds)}")
            parser.parse_punctuation("=")
            return name, _value(parser, str(kinds[name]))

        found = dict(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))
        if "instruction" not in found:
            parser.raise_error('a schedule names its instruction; add instruction = "fma.f64"')
        return Schedule(**found)


def _told(schedule: Schedule, field: Any) -> bool:
    return getattr(schedule, field.name) != field.default


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return f'"{value}"' if isinstance(value, str) else str(value)


def _value(parser: AttrParser, kind: str) -> Any:
    if kind == "str":
        return parser.parse_str_literal()
    if kind == "bool":
        return parser.parse_boolean()
    if kind == "int":
        return parser.parse_integer()
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))
