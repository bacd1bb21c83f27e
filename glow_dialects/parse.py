"""Text to module, with one message for whatever is wrong with the text."""

from __future__ import annotations

import re
from contextlib import suppress

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.parser.core import ParserState  # pyright: ignore[reportPrivateImportUsage]
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from glow_dialects.core.errors import GlowError
from glow_dialects.core.location import UNKNOWN, file_location
from glow_dialects.core.size_text import SYMBOLS, SizeParser, SymbolsAttr
from glow_dialects.core.symbols import Symbols


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
        op = super().parse_operation()
        if op.location is UNKNOWN:
            op.location = file_location(place.input.name, line, column)
        return op


def parse_module(text: str, name: str, ctx: Context) -> ModuleOp:
    """The module that `text` (of the file `name`) stands for.

    Raises ParseError with file, line and column, VerifyException for impossible attributes, GlowError
    for what the parser cannot take at all.
    """
    if not text.strip():
        raise GlowError(f"{name}: the program is empty")
    try:
        parser = _Parser(ctx, text, name)
        module = parser.parse_module()
        if parser.symbols.conditions.symbols:
            module.attributes[SYMBOLS] = SymbolsAttr(parser.symbols.conditions)
        if module.location is UNKNOWN:
            module.location = file_location(name, 1, 1)
        return module
    except (ParseError, VerifyException, GlowError):
        raise
    except RecursionError:
        raise GlowError(f"{name}: nesting is too deep") from None
    except MemoryError:
        raise GlowError(f"{name}: its constants take more memory than there is") from None
    except Exception as error:
        # Parsers of attributes assert, or raise what int() and zip() raise, on some malformed text.
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise GlowError(f"{name}: cannot be parsed: {what[0]}") from error
