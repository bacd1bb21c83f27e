"""Chat templates: the dialect of Jinja that `transformers` writes conversations in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from glow_dialects.core.errors import GlowError


class ChatTemplate:
    """A template; GlowError where it cannot be read.

    It is the file author's program: it runs in Jinja's sandbox, and sees nothing but plain data.
    """

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson  # pyright: ignore[reportArgumentType]
        known: dict[str, Any] = environment.globals  # pyright: ignore[reportAssignmentType]
        known.update(raise_exception=_refuse, strftime_now=_now, dict=_Dict(), namespace=_Namespace)
        try:
            self._template = environment.from_string(text)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            where = "" if line is None else f", line {line}"
            raise GlowError(f"{source}: the chat template cannot be read{where}: {error.message}") from None
        except (RecursionError, MemoryError, ValueError, TypeError, OverflowError, SyntaxError) as error:
            raise GlowError(f"{source}: the chat template cannot be read: {_told(error)}") from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for some variables; GlowError where the template refuses them or cannot compute it."""
        given = {"tools": None, "documents": None, **variables}
        given["messages"] = list(map(_message, variables.get("messages", ())))
        try:
            return self._template.render({name: _plain(value) for name, value in given.items()})
        except TemplateError as error:
            raise GlowError(f"{self._source}: the chat template refuses the messages: {error}") from None
        except Exception as error:  # of the template's program, of any kind
            raise GlowError(f"{self._source}: the chat template fails: {_told(error)}") from None


def _message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message without what is null, its reasoning under the names that templates have for it."""
    given = {name: value for name, value in message.items() if value is not None}
    names = ("reasoning_content", "thinking", "reasoning")
    reasoning = next((given[n] for n in names if n in given), None)
    return given if reasoning is None else {"thinking": reasoning, **given, "reasoning_content": reasoning}


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    """A value of the types that JSON has, and no subclass of one; other things by their type's name."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else list(map(_plain, value))  # pyright: ignore
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _plain(value.item())
    return f"<{type(value).__name__}>"


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Python writes it; Jinja's own filter writes it for HTML, with sorted keys."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


class _Dict:
    """What templates have for `dict`: no attribute leads out of it."""

    def __call__(self, *values: Any, **named: Any) -> dict[Any, Any]:
        return dict(*values, **named)

    def fromkeys(self, *values: Any) -> dict[Any, Any]:
        return dict.fromkeys(*values)


class _Namespace(Namespace):
    """A namespace without names that begin with "_"."""

    def __init__(*args: Any, **named: Any) -> None:
        self, *rest = args
        found = dict(*rest, **named)
        for name in found:
            _check(name)
        Namespace.__init__(self, found)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        super().__setitem__(name, value)


def _check(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no {name!r}: names in it do not begin with '_'")


class _Generation(Extension):
    """{% generation %} ... {% endgeneration %}, around what the model wrote: the text as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

    def _as_it_is(self, caller: Callable[[], str]) -> str:
        return caller()
