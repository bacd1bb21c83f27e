"""Completions and chats of language models over HTTP, in the form that OpenAI's clients know."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from glow_compiler.language_text import Stream
from glow_dialects.core.errors import DeadlineError, GlowError, NetworkError
from glow_runtime.serve.http import HttpServer
from glow_runtime.serve.protocol import ProtocolError

if TYPE_CHECKING:
    from glow_compiler.language_batching import ContinuousBatching
    from glow_compiler.language_token import Token

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
    """The routes of language models, each of which continues the texts of its requests together."""

    def __init__(self, server: HttpServer, models: Mapping[str, ContinuousBatching]) -> None:
        self._server, self._models = server, models
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
        return await self._answered(request, served, call, tokens, chat=False)

    async def _chat(self, request: Request) -> Response:
        call, served = await self._call(request)
        messages: Any = call.get("messages")
        if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):  # pyright: ignore
            raise ProtocolError('\'messages\' is a list of {"role": ..., "content": ...}')
        texts = served.model.texts
        tokens = texts.tokens(texts.conversation(messages), special=False)  # pyright: ignore
        return await self._answered(request, served, call, tokens, chat=True)

    async def _call(self, request: Request) -> tuple[dict[str, Any], ContinuousBatching]:
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
        self,
        request: Request,
        served: ContinuousBatching,
        call: dict[str, Any],
        prompt: list[int],
        chat: bool,
    ) -> Response:
        given = call.get("max_completion_tokens", call.get("max_tokens"))
        most = given or max(1, min(USUAL_TOKENS, served.model.programs.limit - len(prompt) + 1))
        stop: Any = call.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        if type(most) is not int or most < 1:
            raise ProtocolError("max_tokens is a number from 1")
        if not isinstance(stops, list) or not all(isinstance(s, str) for s in stops):  # pyright: ignore
            raise ProtocolError("stop is a text or a list of texts")
        options = {n: call[n] for n in _OPTIONS if call.get(n) is not None}
        for name, value in options.items():
            if not isinstance(value, _OPTIONS[name]) or isinstance(value, bool):
                raise ProtocolError(f"{name}={value!r} is no number")
        answer = _Answer(prompt, most, stops)  # pyright: ignore[reportUnknownArgumentType]
        tokens = _Tokens(served, prompt, most, options)
        form = _Form(str(call["model"]), chat)
        if call.get("stream") is True:
            body = _streamed(served, answer, tokens, form)
            return StreamingResponse(
                body, media_type="text/event-stream", background=BackgroundTask(tokens.end)
            )
        try:
            async with asyncio.timeout(self._server.limits.answer), _while_connected(request):
                parts = [part async for part in _pieces(served, answer, tokens)]
        except TimeoutError:
            raise DeadlineError("the answer took longer than it is allowed; ask for less tokens") from None
        finally:
            tokens.end()
        return JSONResponse(form.whole("".join(parts), answer))


class _Tokens:
    """The tokens of an answer, as the thread that computes them tells them to this one."""

    def __init__(
        self, served: ContinuousBatching, prompt: list[int], most: int, options: Mapping[str, Any]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[Token | Exception | None] = asyncio.Queue()

        def tell(told: Token | Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._told.put_nowait, told)

        self._answer = served.submit(prompt, most, on_token=tell, **options)

    def end(self) -> None:
        """Nobody wants more of them."""
        self._answer.cancel()

    async def __aiter__(self) -> AsyncIterator[Token]:
        while (told := await self._told.get()) is not None:
            if isinstance(told, Exception):
                raise told
            yield told


async def _streamed(
    served: ContinuousBatching, answer: _Answer, tokens: _Tokens, form: _Form
) -> AsyncIterator[bytes]:
    """Events of an answer, as it grows."""
    try:
        first = True
        async for part in _pieces(served, answer, tokens):
            yield form.event(part, None, first)
            first = False
        yield form.event("", answer, first)
    except GlowError as error:
        yield f"data: {json.dumps({'error': {'message': str(error)}})}\n\n".encode()
    finally:  # a client that has gone ends it
        tokens.end()
    yield b"data: [DONE]\n\n"


async def _pieces(served: ContinuousBatching, answer: _Answer, tokens: _Tokens) -> AsyncIterator[str]:
    """Pieces of text, as they become certain."""
    ends = set(served.model.files.ends)
    stream = Stream(served.model.texts, answer.stops)
    has_text = True
    async for token in tokens:
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


@contextlib.asynccontextmanager
async def _while_connected(request: Request) -> AsyncGenerator[None]:
    """Raises ClientDisconnect in its body when the client goes."""
    body = asyncio.current_task()
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if body is not None:
            body.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone and body is not None and not body.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        watching.cancel()


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
