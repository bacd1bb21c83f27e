"""Text to module, with one message for whatever is wrong with the text."""

from __future__ import annotations

import re
from contextlib import suppress

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.parser.core import ParserState  # pyright: ignore[reportPrivateImportUsage]
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from glow_dialects.core.errors import GlowError


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


def parse_module(text: str, name: str, ctx: Context) -> ModuleOp:
    """The module that `text` (of the file `name`) stands for.

    Raises ParseError with file, line and column, VerifyException for impossible attributes, GlowError
    for what the parser cannot take at all.
    """
    if not text.strip():
        raise GlowError(f"{name}: the program is empty")
    parser = Parser(ctx, "", name)  # which reads its first token at once, with its own lexer
    try:
        parser._parser_state = ParserState(_Lexer(Input(text, name)))
        return parser.parse_module()
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
