"""Parameters of completions and chats: each is honoured, or neutral, or an error that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any

from glow_runtime.serve.json_body import ProtocolError

#: Tokens of an answer, where a request does not say.
USUAL_TOKENS = 128
#: Stop texts of a request, and characters of one.
MOST_STOPS, MOST_STOP_LENGTH = 64, 1 << 14
#: Tokens with a bias.
MOST_BIASES = 1024
#: Numbers that say how tokens are chosen, from and to.
_NUMBERS: dict[str, tuple[float, float]] = {
    "temperature": (0, 1e6),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 100),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
#: Parameters that are not supported, and the values with which they ask for nothing. So does null.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "reasoning_effort": (),
    "verbosity": ("medium",),
    "store": (False,),
    "service_tier": ("auto", "default"),
    "ignore_eos": (False,),
    "min_tokens": (0,),
    "stop_token_ids": ([],),
    "skip_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
}
#: Parameters that say who asks and why: no answer depends on them.
_NOTES: dict[str, type] = {
    "user": str,
    "safety_identifier": str,
    "prompt_cache_key": str,
    "prompt_cache_retention": str,
    "metadata": dict,
}
_HONOURED = frozenset(_NUMBERS) | {
    "model", "max_tokens", "max_completion_tokens", "stop", "stream", "stream_options", "echo", "top_k",
    "seed", "logit_bias",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a request asks for beside its prompt; `most` is None where it does not say how many tokens."""

    most: int | None
    stops: list[str]
    stream: bool
    #: Whether a stream ends with an event of the tokens that were used, and no other has them.
    usage: bool
    #: Whether the prompt is before the answer.
    echo: bool
    #: How tokens are chosen, as `Sampling` takes it.
    sampling: dict[str, Any]


def asked_of(call: Mapping[str, Any], subject: str, vocabulary: int) -> Asked:
    """The parameters of a request whose prompt is `subject`; ProtocolError names what is not supported."""
    given = {name: value for name, value in call.items() if value is not None}
    for name in call:
        if name not in _HONOURED and name not in _NEUTRAL and name not in _NOTES and name != subject:
            raise ProtocolError(f"there is no parameter '{_short(name)}'", _short(name))
    for name, value in given.items():
        if name in _NEUTRAL and not any(type(value) is type(v) and value == v for v in _NEUTRAL[name]):
            raise ProtocolError(f"{name}={shown(value)} is not supported", name)
        if name in _NOTES and not isinstance(value, _NOTES[name]):
            raise ProtocolError(f"{name}={shown(value)} is no {_NOTES[name].__name__}", name)
    echo = _truth(given, "echo")
    if echo and subject != "prompt":
        raise ProtocolError("echo is only for completions", "echo")
    counts = [_whole(given, name, 0, 1 << 40) for name in ("max_completion_tokens", "max_tokens")]
    return Asked(
        next((count for count in counts if count is not None), None),
        _stops(given.get("stop", [])),
        _truth(given, "stream"),
        _usage(given.get("stream_options", {})),
        echo,
        _sampling(given, vocabulary),
    )


def _sampling(given: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """How tokens are chosen."""
    chosen: dict[str, Any] = {}
    for name, (low, high) in _NUMBERS.items():
        if name in given:
            chosen[name] = _number(given[name], name, low, high)
    top = _whole(given, "top_k", -1, 1 << 40)
    seed = _whole(given, "seed", 0, (1 << 64) - 1)
    chosen |= {} if top is None else {"top_k": max(top, 0)}  # -1 is none, as 0 is
    chosen |= {} if seed is None else {"seed": seed}
    if given.get("logit_bias", {}) != {}:
        chosen["logit_bias"] = _biases(given["logit_bias"], vocabulary)
    return chosen


def _biases(value: object, vocabulary: int) -> dict[int, float]:
    """What is added to the logits of tokens."""
    name = "logit_bias"
    if not isinstance(value, dict):
        raise ProtocolError(f"{name}={shown(value)} is not an object of tokens and numbers", name)
    if len(value) > MOST_BIASES:  # pyright: ignore[reportUnknownArgumentType]
        raise ProtocolError(f"{name}: biases of at most {MOST_BIASES} tokens are allowed", name)
    biases: dict[int, float] = {}
    for token, bias in value.items():  # pyright: ignore[reportUnknownVariableType]
        text = str(token)  # pyright: ignore[reportUnknownArgumentType]
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < vocabulary):
            raise ProtocolError(f"{name}: {shown(text)} is not a token from 0 to {vocabulary - 1}", name)
        biases[int(text)] = _number(bias, name, -100, 100)
    return biases


def _number(value: object, name: str, low: float, high: float) -> float:
    """A number of a range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProtocolError(f"{name}={shown(value)} is not a number", name)
    if not (low <= value <= high and math.isfinite(value)):
        raise ProtocolError(f"{name}={shown(value)}: expected a number from {low:g} to {high:g}", name)
    return float(value)


def _whole(given: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """A whole number of a range, or None where there is none."""
    value = given.get(name)
    if value is not None and (type(value) is not int or not low <= value <= high):
        raise ProtocolError(f"{name}={shown(value)}: expected an integer from {low} to {high}", name)
    return value


def _truth(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ProtocolError(f"{name}={shown(value)} is neither true nor false", name)
    return value


def _stops(value: object) -> list[str]:
    """Texts before which an answer ends."""
    stops: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(stop, str) for stop in stops):
        raise ProtocolError(f"stop={shown(value)} is neither a text nor a list of texts", "stop")
    if len(stops) > MOST_STOPS or any(len(stop) > MOST_STOP_LENGTH for stop in stops):
        limits = f"{MOST_STOPS} texts of at most {MOST_STOP_LENGTH} characters are allowed"
        raise ProtocolError(f"stop: {limits}", "stop")
    return stops


def _usage(value: object) -> bool:
    """Whether a stream ends with an event of the tokens that were used."""
    name = "stream_options"
    if not isinstance(value, dict):
        raise ProtocolError(f"{name}={shown(value)} is not an object", name)
    options: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    for key, option in options.items():
        if key not in ("include_usage", "include_obfuscation"):
            raise ProtocolError(f"{name}: there is no option '{_short(key)}'", name)
        if not isinstance(option, bool | None):
            raise ProtocolError(f"{name}: {key}={shown(option)} is neither true nor false", name)
    if options.get("include_obfuscation"):
        raise ProtocolError(f"{name}: include_obfuscation=True is not supported", name)
    return options.get("include_usage") is True


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}..."


def prompt_of(value: object) -> str | list[int]:
    """The text or tokens of `prompt`, also as the only one of a list."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):  # pyright: ignore
        value = value[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(token) is int for token in value):  # pyright: ignore
        return value  # pyright: ignore[reportUnknownVariableType]
    raise ProtocolError(f"'prompt' is a text or a list of tokens, not {shown(value)}", "prompt")


def messages_of(value: object) -> list[dict[str, Any]]:
    """The messages of a chat, their contents as texts."""
    if not isinstance(value, list) or not value:
        raise ProtocolError('\'messages\' is a list of {"role": ..., "content": ...}', "messages")
    return [_message(item, f"messages[{at}]") for at, item in enumerate(value)]  # pyright: ignore


def _message(item: object, where: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ProtocolError(f"{where}: {shown(item)} is not an object", where)
    message: dict[str, Any] = {n: v for n, v in item.items() if v is not None}  # pyright: ignore
    if not isinstance(message.get("role"), str):
        raise ProtocolError(f"{where}: role={shown(message.get('role'))} is not text", f"{where}.role")
    calls: Any = message.get("tool_calls", [])
    if not isinstance(calls, list) or not all(isinstance(c, dict) for c in calls):  # pyright: ignore
        raise ProtocolError(
            f"{where}: tool_calls={shown(calls)} is not a list of objects", f"{where}.tool_calls"
        )
    content = message.get("content")
    if content is None and message["role"] == "assistant":
        content = ""  # it called tools, or said nothing
    return {**message, "content": content if isinstance(content, str) else _joined(content, where)}


def _joined(parts: object, where: str) -> str:
    """The text of a content that is a list of parts."""
    name = f"{where}.content"
    if not isinstance(parts, list) or not parts:
        raise ProtocolError(f"{name}={shown(parts)} is neither a text nor a list of parts", name)
    texts: list[str] = []
    for part in parts:  # pyright: ignore[reportUnknownVariableType]
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None  # pyright: ignore
        if not isinstance(text, str):
            raise ProtocolError(f"{name}: {shown(part)} is no part with a text", name)
        texts.append(text)
    return "\n".join(texts)
