"""Completions and chats of language models over HTTP, in the form that OpenAI's clients know."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from glow_compiler.language_text import Stream
from glow_dialects.core.errors import DeadlineError, GlowError, NetworkError, RefusedError
from glow_runtime.serve.http import HttpServer
from glow_runtime.serve.protocol import ProtocolError

if TYPE_CHECKING:
    from glow_compiler.language_model import LanguageModel

#: Tokens of an answer, where a request does not say.
USUAL_TOKENS = 128
#: Options of sampling that requests may have, and what they are.
_OPTIONS: dict[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
    "min_p": (int, float),
    "repetition_penalty": (int, float),
    "seed": (int,),
}


@dataclass
class _Served:
    """A model, whose answers follow each other, and how many requests wait for it."""

    model: LanguageModel
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


@dataclass
class _Answer:
    """An answer that grows: tokens so far, and why it ended."""

    prompt: list[int]
    most: int
    stops: list[str]
    tokens: list[int] = field(default_factory=list[int])
    reason: str = "length"

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of prompt and answer."""
        prompt, answer = len(self.prompt), len(self.tokens)
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


class TextServer:
    """The routes of language models; `most` requests wait for each."""

    def __init__(self, server: HttpServer, models: Mapping[str, LanguageModel], most: int) -> None:
        self._server, self._most = server, most
        self._models = {name: _Served(model) for name, model in models.items()}
        server.add("/v1/models", self._list, "GET")
        server.add("/v1/completions", self._complete, "POST")
        server.add("/v1/chat/completions", self._chat, "POST")

    async def _list(self, request: Request) -> Response:
        models = [{"id": n, "object": "model", "owned_by": "glow"} for n in self._models]
        return JSONResponse({"object": "list", "data": models})

    async def _complete(self, request: Request) -> Response:
        call, served = await self._call(request)
        prompt = call.get("prompt", "")
        if isinstance(prompt, str):
            tokens = served.model.texts.tokens(prompt)
        elif isinstance(prompt, list) and all(type(t) is int for t in prompt):  # pyright: ignore[reportUnknownVariableType]
            tokens = list(map(int, prompt))  # pyright: ignore[reportUnknownArgumentType]
        else:
            raise ProtocolError("'prompt' is a text or a list of tokens")
        return await self._answered(served, call, tokens, chat=False)

    async def _chat(self, request: Request) -> Response:
        call, served = await self._call(request)
        messages: Any = call.get("messages")
        if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):  # pyright: ignore
            raise ProtocolError('\'messages\' is a list of {"role": ..., "content": ...}')
        texts = served.model.texts
        tokens = texts.tokens(texts.conversation(messages), special=False)  # pyright: ignore
        return await self._answered(served, call, tokens, chat=True)

    async def _call(self, request: Request) -> tuple[dict[str, Any], _Served]:
        """The JSON of a request, and the model that it names."""
        try:
            call: Any = json.loads(await self._server.body(request))
        except (ValueError, RecursionError):
            raise ProtocolError("the request is not JSON") from None
        if not isinstance(call, dict):
            raise ProtocolError("a request is a JSON object")
        name: Any = call.get("model", "")  # pyright: ignore
        if name not in self._models:
            raise NetworkError(f"no model {name!r}; there are: {', '.join(self._models)}")
        if call.get("n", 1) != 1:  # pyright: ignore
            raise ProtocolError("n: one answer is given to a request")
        return call, self._models[name]  # pyright: ignore

    async def _answered(
        self, served: _Served, call: dict[str, Any], prompt: list[int], chat: bool
    ) -> Response:
        most = call.get("max_completion_tokens", call.get("max_tokens")) or USUAL_TOKENS
        stop: Any = call.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        if type(most) is not int or most < 1:
            raise ProtocolError("max_tokens is a number from 1")
        if not isinstance(stops, list) or not all(isinstance(s, str) for s in stops):  # pyright: ignore
            raise ProtocolError("stop is a text or a list of texts")
        answer = _Answer(prompt, most, stops)  # pyright: ignore[reportUnknownArgumentType]
        options = {n: call[n] for n in _OPTIONS if call.get(n) is not None}
        for name, value in options.items():
            if not isinstance(value, _OPTIONS[name]) or isinstance(value, bool):
                raise ProtocolError(f"{name}={value!r} is no number")
        if served.waiting >= self._most:
            raise RefusedError(f"too many requests: {served.waiting} wait for this model; try again later")
        made = served.model.generate(prompt, most, **options)
        form = _Form(str(call["model"]), chat)
        if call.get("stream") is True:
            body = self._streamed(served, answer, made, form)
            return StreamingResponse(body, media_type="text/event-stream")
        try:
            async with asyncio.timeout(self._server.limits.answer):
                parts = [part async for part in self._pieces(served, answer, made)]
        except TimeoutError:
            raise DeadlineError("the answer took longer than it is allowed; ask for less tokens") from None
        return JSONResponse(form.whole("".join(parts), answer))

    async def _streamed(
        self, served: _Served, answer: _Answer, made: Iterator[Any], form: _Form
    ) -> AsyncIterator[bytes]:
        """Events of an answer, as it grows."""
        try:
            first = True
            async for part in self._pieces(served, answer, made):
                yield form.event(part, None, first)
                first = False
            yield form.event("", answer, first)
        except GlowError as error:
            yield f"data: {json.dumps({'error': {'message': str(error)}})}\n\n".encode()
        yield b"data: [DONE]\n\n"

    async def _pieces(self, served: _Served, answer: _Answer, made: Iterator[Any]) -> AsyncIterator[str]:
        """Pieces of text, when it is this request's turn; a client that has gone ends it."""
        ends = set(served.model.files.ends)
        stream = Stream(served.model.texts, answer.stops)
        has_text = True
        served.waiting += 1
        try:
            await served.turn.acquire()
        finally:
            served.waiting -= 1
        try:
            while (token := await asyncio.to_thread(next, made, None)) is not None:
                answer.tokens.append(int(token))
                if int(token) in ends:
                    answer.reason = "stop"
                    break
                try:
                    text = stream.add(int(token)) if has_text else ""
                except GlowError:  # a model without a tokenizer: its tokens are the answer
                    has_text, text = False, ""
                if text:
                    yield text
                if stream.stopped:
                    answer.reason = "stop"
                    break
            if has_text and (text := stream.rest()):
                yield text
        finally:
            served.turn.release()


@dataclass(frozen=True)
class _Form:
    """The JSON of answers of one request."""

    model: str
    chat: bool
    id: str = field(default_factory=lambda: os.urandom(12).hex())
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, answer: _Answer) -> dict[str, Any]:
        """An answer at once."""
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **content, "tokens": answer.tokens, "finish_reason": answer.reason}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._head(kind, [choice]) | {"usage": answer.usage}

    def event(self, text: str, answer: _Answer | None, first: bool) -> bytes:
        """A part of an answer; with `answer` it is the last."""
        role = {"role": "assistant"} if first else {}
        content = {"delta": {**role, **({"content": text} if text else {})}} if self.chat else {"text": text}
        choice = {"index": 0, **content, "finish_reason": None if answer is None else answer.reason}
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        usage = {} if answer is None else {"usage": answer.usage}
        return f"data: {json.dumps(self._head(kind, [choice]) | usage)}\n\n".encode()

    def _head(self, kind: str, choices: Sequence[Any]) -> dict[str, Any]:
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
        }


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("role"), str) and isinstance(value.get("content"), str)  # pyright: ignore
