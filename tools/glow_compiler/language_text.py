"""Texts of language models: tokens of texts, texts of tokens, and the form of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glow_compiler.stop_texts import StopTexts
from glow_dialects.core.errors import GlowError, UnsupportedError

if TYPE_CHECKING:
    from glow_frontends.language import LanguageFiles

_INSTALL = "pip install 'glow-compiler[lm]'"


class Texts:
    """The tokenizer and the chat template of a model; GlowError where it has none."""

    def __init__(self, files: LanguageFiles) -> None:
        self.files = files
        self._tokenizer: Any = None

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
            except Exception as error:  # of whatever class: the package is native code
                raise GlowError(f"{file}: the tokenizer cannot be read: {error}") from None
        if self.files.tokens.get("tokens"):
            from glow_compiler.gguf_tokenizer import tokenizer_of

            return tokenizer_of(self.files.source, self.files.tokens)
        raise GlowError(f"{self.files.source}: there is no tokenizer.json; give tokens instead of text")

    def tokens(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; `special`: with those that begin a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return self.tokenizer.decode(list(map(int, tokens)), skip_special_tokens=True)

    def conversation(self, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
        """Messages ({"role": ..., "content": ...}) as the model's template writes them, to be answered."""
        template = self.files.chat_template
        if template is None:
            raise GlowError(f"{self.files.source}: there is no chat template; write the prompt yourself")
        try:
            from jinja2.exceptions import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise UnsupportedError(f"chat templates need the package 'jinja2': {_INSTALL}") from None

        def refuse(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = refuse  # pyright: ignore
        given = {"add_generation_prompt": True, **self.files.special, **variables}
        try:
            return environment.from_string(template).render(messages=list(messages), **given)
        except TemplateError as error:
            raise GlowError(f"{self.files.source}: the chat template refuses the messages: {error}") from None


class Stream:
    """Text of tokens that come one by one: whole characters, and nothing that may become a stop text."""

    def __init__(self, texts: Texts, stops: Sequence[str]) -> None:
        self.texts, self._stops = texts, StopTexts(stops)
        self.tokens: list[int] = []
        self.given = self._searched = 0
        self.stopped = False

    def add(self, token: int) -> str:
        """What the text gains by a token."""
        self.tokens.append(token)
        return self._gained(last=False)

    def rest(self) -> str:
        """What was held back."""
        return "" if self.stopped else self._gained(last=True)

    def _gained(self, last: bool) -> str:
        whole = self.texts.text(self.tokens)
        if not last:
            whole = whole[: len(whole) - _partial(whole)]
        begins = self._stops.add(whole[self._searched :])
        self._searched = max(self._searched, len(whole))
        if begins is not None:
            self.stopped = True
            whole = whole[:begins]
        elif not last:
            whole = whole[: len(whole) - self._stops.held]
        gained = whole[self.given :]
        self.given = max(self.given, len(whole))
        return gained


def _partial(whole: str) -> int:
    """Characters at the end that are not whole."""
    return min(3, len(whole) - len(whole.rstrip("\ufffd")))
