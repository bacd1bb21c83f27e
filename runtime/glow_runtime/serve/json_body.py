"""JSON of requests, which come from anyone: strict, of bounded depth and size, and kinds of its values."""

from __future__ import annotations

import json
from reprlib import repr as shown
from typing import Any, NoReturn

from glow_dialects.core.errors import GlowError

#: Lists and objects of a body: each takes some twenty times the bytes that it has in the text.
MOST_LISTS = 1 << 21


class ProtocolError(GlowError):
    """A request that is not as the protocol has it; `param` is the parameter that is wrong, if it is one."""

    #: The HTTP status of its answer.
    code = 400

    def __init__(self, text: str, param: str | None = None) -> None:
        super().__init__(text)
        self.param = param


def read_object(body: bytes | memoryview) -> dict[str, Any]:
    """The object that a body is; ProtocolError where it is not JSON, or not all of its text is Unicode."""
    data = bytes(body)
    lists = data.count(b"[") + data.count(b"{")
    if lists > MOST_LISTS:
        raise ProtocolError(f"the request has {lists} lists and objects; {MOST_LISTS} are allowed")
    try:
        text = data.decode("utf-8-sig")
        value: Any = json.loads(text, parse_constant=_no_constant)
        if "\\ud" in text or "\\uD" in text:  # half a character, which has no bytes
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ProtocolError("the request contains half of a surrogate pair, which is not text") from None
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the request is not JSON: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"the request is a JSON {type(value).__name__}, not an object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it has no {name}; tensors of such numbers are sent as bytes")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "its text is not UTF-8"
    if isinstance(error, RecursionError):
        return "its lists are too deep"
    if str(error).startswith("Exceeds the limit"):
        return "it has a number of more than 4300 digits"
    return str(error)


def text_of(value: object, what: str) -> str:
    """A text; ProtocolError where `value` is none."""
    if not isinstance(value, str):
        raise ProtocolError(f"{what} is {'missing' if value is None else f'{shown(value)}, not a text'}")
    return value


def whole_of(value: object, what: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`; ProtocolError where `value` is none."""
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"{what} is {shown(value)}, not an integer from {low} to {high}")
    return value


def truth_of(value: object, what: str) -> bool:
    """True or false; ProtocolError where `value` is neither."""
    if not isinstance(value, bool):
        raise ProtocolError(f"{what} is {shown(value)}, not true or false")
    return value


def object_of(value: object, what: str) -> dict[str, Any]:
    """An object, empty where `value` is null; ProtocolError where it is another thing."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is an object, not {shown(value)}")
    return value  # pyright: ignore[reportUnknownVariableType]
