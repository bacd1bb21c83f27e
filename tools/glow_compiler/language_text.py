"""Texts of language models: tokens of texts, texts of tokens, and the form of conversations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from glow_compiler.stop_texts import StopTexts
from glow_compiler.token_text import TokenText
from glow_dialects.core.errors import GlowError, UnsupportedError

if TYPE_CHECKING:
    from glow_compiler.chat_template import ChatTemplate
    from glow_frontends.language import LanguageFiles

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_INSTALL = "pip install 'glow-compiler[lm]'"


class Texts:
    """The tokenizer and the chat template of a model; GlowError where it has none."""

    def __init__(self, files: LanguageFiles) -> None:
        self.files = files
        self._tokenizer: Any = None
        self._template: ChatTemplate | None = None

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, of the `tokenizers` package."""
        if self._tokenizer is None:
            self._tokenizer = self._read()
        return self._tokenizer

    def _read(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UnsupportedError(f"texts need the package 'tokenizers': {_INSTALL}") from None
        file = self.files.tokenizer
        if file is not None:
            try:
                return Tokenizer.from_file(str(file))
            except BaseException as error:  # of whatever class: the package is native code
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                raise GlowError(f"{file}: the tokenizer cannot be read: {error}") from None
        if self.files.tokens.get("tokens"):
            from glow_compiler.gguf_tokenizer import tokenizer_of

            return tokenizer_of(self.files.source, self.files.tokens)
        raise GlowError(f"{self.files.source}: there is no tokenizer.json; use tokens instead of text")

    def tokens(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; `special`: with those that begin a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return self.tokenizer.decode(list(map(int, tokens)), skip_special_tokens=True)

    def conversation(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """Messages ({"role": ..., "content": ...}) as the model's template writes them, to be answered."""
        template = self.files.chat_template
        if template is None:
            raise GlowError(f"{self.files.source}: there is no chat template; write the prompt yourself")
        if self._template is None:
            try:
                from glow_compiler.chat_template import ChatTemplate
            except ImportError:
                raise UnsupportedError(f"chat templates need the package 'jinja2': {_INSTALL}") from None
            self._template = ChatTemplate(self.files.source, template)
        given = {"add_generation_prompt": True, **self.files.special, **variables}
        return self._template.render({"messages": list(messages), **given})

    def after(self, prompt: Sequence[int] | None) -> TokenText:
        """The text of tokens that follow a prompt; None: some prompt, of which nothing is known."""
        if prompt is None:
            prompt = self._some_text
        return TokenText(self.text, self._open_ended, prompt)

    def _open_ended(self, token: int) -> bool:
        """Whether a token is a byte, or is left out between bytes, which are characters together."""
        return token in self._left_out or bool(_BYTE.fullmatch(self.tokenizer.id_to_token(token) or ""))

    @cached_property
    def _left_out(self) -> frozenset[int]:
        added = self.tokenizer.get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    @cached_property
    def _some_text(self) -> list[int]:
        """Tokens of a text that others may follow."""
        return self.tokens("a", special=False)


class Stream:
    """Text of tokens that come one by one: whole characters, and nothing that may become a stop text.

    It is what the text of all tokens has after the prompt's, with the space between them.
    """

    def __init__(self, texts: Texts, stops: Sequence[str], prompt: Sequence[int] | None = None) -> None:
        self._text, self._stops = texts.after(prompt), StopTexts(stops)
        self.given = self._searched = 0
        self.stopped = False

    def add(self, token: int) -> str:
        """What the text gains by a token."""
        self._text.add(token)
        return self._gained(last=False)

    def rest(self) -> str:
        """What was held back."""
        return "" if self.stopped else self._gained(last=True)

    def _gained(self, last: bool) -> str:
        if last:
            self._text.end()
        whole = self._text.text
        begins = self._stops.add(whole[self._searched :])
        self._searched = len(whole)
        if begins is not None:
            self.stopped = True
            whole = whole[:begins]
        elif not last:
            whole = whole[: len(whole) - self._stops.held]
        gained = whole[self.given :]
        self.given = max(self.given, len(whole))
        return gained
