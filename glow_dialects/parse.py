"""Parsing text to a module, with one message for any error in the text."""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.parser.core import ParserState  # pyright: ignore[reportPrivateImportUsage]
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from glow_dialects.core.errors import GlowError
from glow_dialects.core.location import UNKNOWN, file_location
from glow_dialects.core.remedies import with_remedy
from glow_dialects.core.size_text import SYMBOLS, SizeParser, SymbolsAttr
from glow_dialects.core.symbols import Symbols

#: The name of an operation behind its results.
_HEAD = re.compile(r'(?:%[\w$.:,%\s-]*=\s*)?"?([\w$.]+)')


#: What the parser says where it meets the end of the text in a region.
_UNCLOSED = re.compile(r"block definition|Expected '}'|expected '}'|[Oo]peration .*expected")


class _Lexer(MLIRLexer):
    """xDSL's lexer with a string literal that never backtracks, and is text in any alphabet.

    Its own expression takes time exponential in the length of a string that is not closed, and it takes
    letters beyond ASCII, which the printer writes as bytes, for data.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            with suppress(UnicodeDecodeError):
                StringLiteral.from_span(token.span).bytes_contents.decode()
                return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)
        return token


class _Parser(SizeParser, Parser):
    """xDSL's parser, which knows open sizes; operations without a location have that of their text."""

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, "", name)  # which reads its first token at once, with its own lexer
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._line, self._seen = 1, 0
        self.symbols = Symbols()

    def parse_operation(self) -> Operation:
        place = self._current_token.span
        text = place.input.content
        self._line += text.count("\n", self._seen, place.start)  # an operation starts behind the last one
        self._seen = place.start
        line, column = self._line, place.start - place.input.get_start_of_line(place.start) + 1
        try:
            op = super().parse_operation()
        except (ParseError, VerifyException) as error:
            raise self._placed(error, place) from None
        if op.location is UNKNOWN:
            op.location = file_location(place.input.name, line, column)
        return op

    def _placed(self, error: ParseError | VerifyException, begin: Span[str]) -> ParseError:
        """An error inside the operation that starts at `begin`, with its name and what to do.

        Parsers notice what is missing at the next token: where that stands on a line of its own, or at the
        end of the file, the operation is shown.
        """
        if not isinstance(error, ParseError):
            error = ParseError(self._current_token.span, str(error))
        if getattr(error, "told", False):
            return error
        error.told = True  # pyright: ignore[reportAttributeAccessIssue]
        text, at = str(begin.input.content), error.span.start
        head = _HEAD.match(text, begin.start)
        name = head[1] if head else ""
        source: Any = begin.input
        span = begin if head is None else Span(head.start(1), head.end(1), source)
        what = error.msg.strip().rstrip(".!")
        if "not registered" in what and head is not None:
            error.span = span
            what += self._near(name)
        elif at > span.end and not text[begin.input.get_start_of_line(at) : at].strip():
            error.span = span
            if at >= len(text.rstrip()) and _UNCLOSED.search(what):
                what = f"the file ends before {name} does; close its region by '}}'"
        what = with_remedy(what)
        error.msg = what if name in what else f"{name}: {what}"
        return error

    def _near(self, name: str) -> str:
        """Operations that are called like one that there is not."""
        dialect = name.partition(".")[0]
        context = self.ctx
        registered = context.registered_dialect_names
        if dialect not in registered:
            near = get_close_matches(dialect, registered, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            more = "glow-opt --show-dialects lists them, --allow-unregistered-dialect takes any"
            return f"; there is no dialect '{dialect}'{meant} ({more})"
        from glow_dialects.dialects import operation_names

        near = get_close_matches(name, operation_names(context, dialect), 3)
        return f"; did you mean {' or '.join(near)}?" if near else "; see glow-opt --show-dialects"

    def undefined(self, error: ParseError) -> ParseError:
        """The error of values that are never defined, at the first operation that uses one."""
        if not self.forward_ssa_references:
            return error
        uses = [
            (use.operation, name)
            for name, places in self.forward_ssa_references.items()
            for value in places.values()
            for use in value.uses
        ]
        content: Any = error.span.input
        where = [(position, op, name) for op, name in uses if (position := self._position(op)) is not None]
        if where:
            start, op, name = min(where, key=lambda item: item[0])
            text = str(content.content)
            found = re.compile(rf"%{re.escape(name)}\b").search(text, start)
            if found is not None:
                error.span = Span(found.start(), found.end(), content)
            error.msg = f"{op.name}: {error.msg}"
        error.msg = with_remedy(error.msg)
        return error

    def _position(self, op: Operation) -> int | None:
        """Where in the text an operation starts."""
        location = op.location
        if not isinstance(location, FileLineColLoc):
            return None
        lines = str(self._current_token.span.input.content).split("\n")
        line = location.line.data
        return sum(len(text) + 1 for text in lines[: line - 1]) + location.column.data - 1


def parse_module(text: str, name: str, ctx: Context) -> ModuleOp:
    """The module that `text` (of the file `name`) stands for.

    Raises ParseError with file, line and column, VerifyException for impossible attributes, GlowError
    for what the parser cannot take at all.
    """
    if not text.strip():
        raise GlowError(f"{name}: the program is empty")
    parser: _Parser | None = None
    try:
        parser = _Parser(ctx, text, name)
        module = parser.parse_module()
        if parser.symbols.conditions.symbols:
            module.attributes[SYMBOLS] = SymbolsAttr(parser.symbols.conditions)
        if module.location is UNKNOWN:
            module.location = file_location(name, 1, 1)
        return module
    except ParseError as error:
        raise error if parser is None or getattr(error, "told", False) else parser.undefined(error) from None
    except (VerifyException, GlowError):
        raise
    except RecursionError:
        raise GlowError(f"{name}: nesting is too deep") from None
    except MemoryError:
        raise GlowError(f"{name}: its constants take more memory than there is") from None
    except Exception as error:
        # Parsers of attributes assert, or raise what int() and zip() raise, on some malformed text.
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise GlowError(f"{name}: cannot be parsed: {what[0]}") from error
