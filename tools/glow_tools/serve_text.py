"""Completions and chats of language models over HTTP, in the form that OpenAI's clients know."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from glow_compiler.language_text import Stream
from glow_dialects.core.errors import DeadlineError, GlowError
from glow_runtime.serve.http import LARGE_JSON, HttpServer
from glow_runtime.serve.json_body import ProtocolError, read_object
from glow_runtime.serve.stopping import error_body
from glow_tools.serve_parameters import USUAL_TOKENS, Asked, asked_of, messages_of, prompt_of

if TYPE_CHECKING:
    from glow_compiler.language_batching import ContinuousBatching
    from glow_compiler.language_token import Token


class _NoModel(ProtocolError):
    """A request for a model that there is not."""

    code = 404


@dataclass
class _Answer:
    """An answer that grows: tokens so far, and why it ended."""

    prompt: list[int]
    asked: Asked
    #: What is before the first token.
    head: str = ""
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
        server.add("/v1/models/{model}", self._model, "GET")
        server.add("/v1/completions", self._complete, "POST")
        server.add("/v1/chat/completions", self._chat, "POST")
        server.stopping.enders.append(self._end)

    async def _end(self) -> None:
        """End the answers that are under way."""
        for served in self._models.values():
            await asyncio.to_thread(served.close)

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": list(map(_listed, self._models))})

    async def _model(self, request: Request) -> Response:
        self._served(name := request.path_params["model"])
        return JSONResponse(_listed(name))

    async def _complete(self, request: Request) -> Response:
        call, served = await self._call(request)
        asked = asked_of(call, "prompt", served.model.files.decoder.vocabulary)
        prompt, texts = prompt_of(call.get("prompt")), served.model.texts
        tokens = await _apart(texts.tokens, prompt) if isinstance(prompt, str) else prompt
        head = "" if not asked.echo else prompt if isinstance(prompt, str) else texts.text(tokens)
        return await self._answered(
            request, served, _Answer(tokens, asked, head), _Form(call["model"], False)
        )

    async def _chat(self, request: Request) -> Response:
        call, served = await self._call(request)
        asked = asked_of(call, "messages", served.model.files.decoder.vocabulary)
        messages, texts = messages_of(call.get("messages")), served.model.texts

        def tokens(text: str) -> list[int]:
            return texts.tokens(text, special=False)

        prompt = await _apart(tokens, texts.conversation(messages))
        return await self._answered(request, served, _Answer(prompt, asked), _Form(call["model"], True))

    async def _call(self, request: Request) -> tuple[dict[str, Any], ContinuousBatching]:
        """The JSON of a request, and the model that it names."""
        body = await self._server.body(request)
        self._server.check_json(len(body))
        large = len(body) > LARGE_JSON
        call = await asyncio.to_thread(read_object, body) if large else read_object(body)
        return call, self._served(call.get("model"))

    def _served(self, name: object) -> ContinuousBatching:
        """The model of a name."""
        if isinstance(name, str) and name in self._models:
            return self._models[name]
        error = _NoModel if isinstance(name, str) else ProtocolError
        raise error(f"no model {shown(name)}; there are: {', '.join(self._models)}", "model")

    async def _answered(
        self, request: Request, served: ContinuousBatching, answer: _Answer, form: _Form
    ) -> Response:
        asked, prompt = answer.asked, answer.prompt
        most, programs = asked.most, served.model.programs
        programs.check([prompt], 0)
        if most is None:
            most = max(1, min(USUAL_TOKENS, programs.limit - len(prompt) + 1))
        tokens = _Tokens(served, prompt, most, asked.sampling)
        if asked.stream:
            body = _streamed(self._server, served, answer, tokens, form)
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
        self._cancel: Callable[[], None] = _nothing

        def tell(told: Token | Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._told.put_nowait, told)

        if most:
            counted = {"uncounted": len(prompt), **options}
            self._cancel = served.submit(prompt, most, on_token=tell, **counted).cancel
        else:
            tell(None)

    def end(self) -> None:
        """Nobody wants more of them."""
        self._cancel()

    async def __aiter__(self) -> AsyncIterator[Token]:
        while (told := await self._told.get()) is not None:
            if isinstance(told, Exception):
                raise told
            yield told
            await asyncio.sleep(0)  # others have their turn, and it is seen that a client has gone


async def _streamed(
    server: HttpServer, served: ContinuousBatching, answer: _Answer, tokens: _Tokens, form: _Form
) -> AsyncIterator[bytes]:
    """Events of an answer, as it grows."""
    try:
        first = True
        async for part in _pieces(served, answer, tokens):
            yield form.event(part, None, first)
            first = False
        yield form.event("", answer, first)
        if answer.asked.usage:
            yield form.usage(answer)
    except GlowError as error:
        yield f"data: {json.dumps(error_body('/v1', str(error), server.code_of(error)))}\n\n".encode()
    finally:  # a client that has gone ends it
        tokens.end()
    yield b"data: [DONE]\n\n"


async def _pieces(served: ContinuousBatching, answer: _Answer, tokens: _Tokens) -> AsyncIterator[str]:
    """Pieces of text, as they become certain."""
    ends = set(served.model.files.ends)
    stream = _stream_of(served, answer)
    if answer.head:
        yield answer.head
    async for token in tokens:
        answer.tokens.append(int(token))
        if int(token) in ends:
            answer.reason = "stop"
            break
        if stream is not None and (text := stream.add(int(token))):
            yield text
        if stream is not None and stream.stopped:
            answer.reason = "stop"
            break
    if stream is not None and (text := stream.rest()):
        yield text


def _stream_of(served: ContinuousBatching, answer: _Answer) -> Stream | None:
    """The text of an answer that grows; None of a model without a tokenizer: its tokens are the answer."""
    texts = served.model.texts
    try:
        texts.text([])
    except GlowError:
        return None
    return Stream(texts, answer.asked.stops, answer.prompt)


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
        usage = {} if answer is None or answer.asked.usage else {"usage": answer.usage}
        return f"data: {json.dumps(self._head(kind, [choice]) | usage)}\n\n".encode()

    def usage(self, answer: _Answer) -> bytes:
        """The event behind the last part, where it was asked for."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return f"data: {json.dumps(self._head(kind, []) | {'usage': answer.usage})}\n\n".encode()

    def _head(self, kind: str, choices: Sequence[Any]) -> dict[str, Any]:
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
        }


def _listed(name: str) -> dict[str, Any]:
    """A model, as lists of them have it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "glow"}


def _nothing() -> None:
    pass


async def _apart(tokens: Callable[[str], list[int]], text: str) -> list[int]:
    """The tokens of a text, by a thread where it is long."""
    return await asyncio.to_thread(tokens, text) if len(text) > LARGE_JSON else tokens(text)
