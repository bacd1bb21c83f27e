"""Dynamic sizes in the text of IR: `tensor<[n]x128xf32>`, `#glow.sizes<[1, 2*n]>`.

What is in brackets is the text of a size (see `symbols`). A module says what is known of its symbols:
`module attributes {glow.symbols = #glow.symbols<n = 61 from 1 to 512 by 8 where [n-m] lt 0>}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Any, TypeVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from glow_dialects.core.conditions import Condition, Conditions, Symbol
from glow_dialects.core.errors import ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.symbols import Symbols

T = TypeVar("T")
_BRACKETS = re.compile(r'\[((?:[^\[\]"]|"(?:[^"\\]|\\.)*")*)\]')
_NUMBER = re.compile(_BRACKETS.pattern + r"\s*:\s*i64\b")
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "ge": ">="}
_WORDS = {relation: word for word, relation in _RELATIONS.items()}


class SizeParser(AttrParser):
    """A parser that knows sizes in brackets; those of one text have their symbols in common."""

    symbols: Symbols

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        if self._current_token.kind is MLIRTokenKind.L_SQUARE:
            value: Any = self.size()
            return IntAttr(value)  # pyright: ignore[reportReturnType] # what types take that is no int
        return super().parse_shape_dimension(allow_dynamic)

    def parse_dimension_list(self) -> list[int]:
        kinds = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.QUESTION, MLIRTokenKind.L_SQUARE)
        dims: list[int] = []
        while self._current_token.kind in kinds:
            dims.append(self.parse_shape_dimension())
            if self._parse_optional_shape_delimiter() is None:
                return dims
        if dims:  # the delimiter says where the element type begins
            self._resume_from(self._current_token.span.start - 1)
        return dims

    def parse_optional_attribute(self) -> Attribute | None:
        token = self._current_token
        if token.kind is MLIRTokenKind.L_SQUARE and _NUMBER.match(token.span.input.content, token.span.start):
            value = self.size()
            self.parse_punctuation(":")
            self.parse_type()
            return IntegerAttr(IntAttr(value), i64)
        return super().parse_optional_attribute()

    def size(self) -> int:
        """The size in brackets that comes next."""
        return self._in_brackets(self.symbols.size)

    def sizes(self) -> tuple[int, ...]:
        """Sizes with commas between them in brackets."""
        texts = self._in_brackets(lambda text: re.split(r',(?=(?:[^"]|"[^"]*")*$)', text))
        return tuple(self._told(self.symbols.size, t) for t in texts if t.strip())

    def _in_brackets(self, read: Callable[[str], T]) -> T:
        span = self._current_token.span
        found = _BRACKETS.match(span.input.content, span.start)
        if found is None:
            self.raise_error("expected a size in brackets")
        value = self._told(read, found[1])
        self._resume_from(found.end())
        return value

    def _told(self, read: Callable[[str], T], text: str) -> T:
        """What is read of a text, errors with its place in the file."""
        try:
            return read(text)
        except ShapeError as error:
            self.raise_error(str(error))


def _size_parser(parser: AttrParser) -> SizeParser:
    if not isinstance(parser, SizeParser):
        parser.raise_error("dynamic sizes can only be read by glow_dialects.parse; use parse_module")
    return parser


@irdl_attr_definition
class SizesAttr(Data[tuple[int, ...]]):
    """`#glow.sizes<[1, n, 2*n]>`: whole numbers of which some are known only at run time."""

    name = "glow.sizes"

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<[{', '.join(map(str, self.data))}]>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        with parser.in_angle_brackets():
            return _size_parser(parser).sizes()


SYMBOLS = "glow.symbols"
"""The attribute of a module with open sizes."""


@irdl_attr_definition
class SymbolsAttr(Data[Conditions]):
    """`#glow.symbols<n = 61 from 0 to 512 by 8, m = 91 from 0 where [n-m] ge 0>`: the symbols of a module.

    Each has an example, for which is decided what must be, limits and a divisor; `where` says what was
    decided: the module is for sizes of which that is true.
    """

    name = SYMBOLS

    def print_parameter(self, printer: Printer) -> None:
        text = ", ".join(map(_declaration, self.data.symbols))
        met = ", ".join(f"[{c.extent}] {_WORDS[c.relation]} 0" for c in self.data.met)
        printer.print_string(f"<{text}{' where ' if met else ''}{met}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Conditions:
        sizes = _size_parser(parser)
        with parser.in_angle_brackets():
            sizes.parse_comma_separated_list(sizes.Delimiter.NONE, lambda: _parse_declaration(sizes))
            if sizes.parse_optional_keyword("where") is not None:
                sizes.parse_comma_separated_list(sizes.Delimiter.NONE, lambda: _parse_condition(sizes))
        return sizes.symbols.conditions


def _declaration(symbol: Symbol) -> str:
    by = symbol.divisor
    most = "" if symbol.most == inf else f" to {int(symbol.most) * by}"
    return f"{symbol} = {symbol.example * by} from {symbol.least * by}{most}{f' by {by}' if by > 1 else ''}"


def _parse_declaration(parser: SizeParser) -> None:
    name = parser.parse_optional_identifier() or parser.parse_str_literal("the name of a size")
    parser.parse_punctuation("=")

    def number() -> int:
        return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def given(word: str, default: float) -> float:
        return default if parser.parse_optional_keyword(word) is None else number()

    example = number()
    least, most, divisor = given("from", 0), given("to", inf), given("by", 1)
    try:
        parser.symbols.declare(name, int(least), most, int(divisor), example)
    except ShapeError as error:
        parser.raise_error(str(error))


def _parse_condition(parser: SizeParser) -> None:
    value = parser.size()
    word = parser.parse_identifier(context_msg=": a relation")
    zero = parser.parse_integer()
    if word not in _RELATIONS or zero or not isinstance(value, Extent):
        parser.raise_error("expected a condition such as [n-3] ge 0; relations are eq, ne, lt and ge")
    parser.symbols.conditions.met[Condition(value, _RELATIONS[word])] = None
