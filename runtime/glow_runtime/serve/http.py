"""The HTTP server of the Open Inference Protocol, with binary tensors, metrics and a live page."""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from glow_dialects.core.errors import GlowError, RefusedError
from glow_runtime.serve.json_body import ProtocolError
from glow_runtime.serve.metrics import PAGE, prometheus, status
from glow_runtime.serve.protocol import (
    HEADER,
    check_outputs,
    format_answer,
    metadata,
    parse_request,
    status_of,
)
from glow_runtime.serve.repository import ModelRepository
from glow_runtime.serve.stopping import Stopping, error_body

LOG = logging.getLogger("glow")
#: Bodies of more bytes, and of more JSON, are read by a thread: the others are answered meanwhile.
LARGE, LARGE_JSON = 1 << 18, 1 << 14


@dataclass(frozen=True)
class Limits:
    """Bytes of a request, seconds in which it must arrive and be answered, and the token that it needs."""

    request_bytes: int = 64 << 20
    #: Bytes of JSON: to read it holds all threads up, and takes ten times its size.
    json_bytes: int = 16 << 20
    #: Bytes of a request before its body, and seconds in which they must arrive.
    head_bytes: int = 64 << 10
    head: float = 10.0
    #: Seconds that a connection may wait for a request, and in which its client must read on.
    idle: float = 30.0
    connections: int = 1000
    arrival: float = 30.0
    answer: float = 60.0
    token: str = ""
    #: Whether clients may load and unload models.
    control: bool = False


class _TooLarge(ProtocolError):
    """A body of more bytes than are allowed."""

    code = 413


class _Late(ProtocolError):
    """A body that does not arrive in time."""

    code = 408


Handler = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """The routes of a repository of models."""

    def __init__(self, models: ModelRepository, limits: Limits | None = None) -> None:
        self.models, self.limits = models, limits or Limits()
        self.stopping = Stopping()
        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(self.stopping.gate)],
            exception_handlers={HTTPException: _unrouted},
        )

    def add(self, path: str, handler: Handler, method: str) -> None:
        """Answer another path, with the same token and errors."""
        self.app.router.routes.append(Route(path, self._guarded(handler, free=False), methods=[method]))

    def _routes(self) -> list[Route]:
        def route(path: str, handler: Handler, method: str = "GET", free: bool = False) -> Route:
            return Route(path, self._guarded(handler, free), methods=[method])

        one, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
        return [
            *(
                route(f"{start}/infer", self._infer, "POST") for start in (one, version)
            ),  # first: most ask this
            route("/", self._page, free=True),
            route("/status", self._status),
            route("/metrics", self._metrics),
            route("/v2", self._server),
            route("/v2/health/live", self._live, free=True),
            route("/v2/health/ready", self._ready, free=True),
            route("/v2/models/stats", self._status),
            route("/v2/repository/index", self._index, "POST"),
            route("/v2/repository/models/{model}/load", self._load, "POST"),
            route("/v2/repository/models/{model}/unload", self._unload, "POST"),
            *(route(f"{start}/ready", self._model_ready) for start in (one, version)),
            *(route(start, self._metadata) for start in (version, one)),
        ]

    def _guarded(self, handler: Handler, free: bool) -> Handler:
        """A handler whose errors are answers; where a token is asked for, only with it."""
        expected = f"Bearer {self.limits.token}".encode()

        async def guarded(request: Request) -> Response:
            if self.limits.token and not free:
                given = request.headers.get("authorization", "").encode()
                if not hmac.compare_digest(given, expected):
                    return _error(request, "this server wants a token: Authorization: Bearer ...", 401)
            try:
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=499)
            except GlowError as error:
                return self._answered(request, error)
            except Exception as error:
                LOG.exception("a request failed")
                return _error(request, f"internal error: {type(error).__name__}", 500)

        return guarded

    def code_of(self, error: GlowError) -> int:
        """The status of an error; what refuses when the server stops has been closed."""
        return 503 if self.stopping.now and isinstance(error, RefusedError) else status_of(error)

    def _answered(self, request: Request, error: GlowError) -> Response:
        """The answer that an error is."""
        code = self.code_of(error)
        param = error.param if isinstance(error, ProtocolError) else None
        answer = _error(request, str(error), code, param)
        if isinstance(error, RefusedError):
            answer.headers["retry-after"] = "1"
        return answer

    # --- what there is -----------------------------------------------------------------------
    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def _status(self, request: Request) -> Response:
        return JSONResponse(status(self.models.host))

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(prometheus(self.models.host), media_type="text/plain; version=0.0.4")

    async def _server(self, request: Request) -> Response:
        from importlib.metadata import version

        extensions = ["binary_tensor_data", "model_repository", "statistics"]
        return JSONResponse(
            {"name": "glow-serve", "version": version("glow-compiler"), "extensions": extensions}
        )

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, request: Request) -> Response:
        ready = self.models.host.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def _model_ready(self, request: Request) -> Response:
        version, _ = self.models.network(**_target(request))
        return JSONResponse({"name": request.path_params["model"], "version": version, "ready": True})

    async def _metadata(self, request: Request) -> Response:
        name = request.path_params["model"]
        _, network = self.models.network(**_target(request))
        return JSONResponse(metadata(name, self.models.versions(name), network))

    async def _index(self, request: Request) -> Response:
        return JSONResponse(self.models.index())

    async def _load(self, request: Request) -> Response:
        return await self._change(self.models.load, request)

    async def _unload(self, request: Request) -> Response:
        return await self._change(self.models.unload, request)

    async def _change(self, change: Callable[[str], None], request: Request) -> Response:
        if not self.limits.control:
            return _error(request, "this server's models are fixed: start it with --control", 403)
        await asyncio.to_thread(change, request.path_params["model"])
        return JSONResponse({})

    # --- inference ---------------------------------------------------------------------------
    async def _infer(self, request: Request) -> Response:
        version, network = self.models.network(**_target(request))
        body = await self.body(request)
        length = _number(request, HEADER)
        text = len(body) if length is None else min(length, len(body))
        self.check_json(text)
        large = len(body) > LARGE or text > LARGE_JSON
        call = await asyncio.to_thread(parse_request, body, length) if large else parse_request(body, length)
        check_outputs(call, network.output_names)
        timeout = min(call.timeout or self.limits.answer, self.limits.answer)
        host, asked = self.models.host, (network.name, call.inputs, call.priority, timeout)
        if host.tracer is None:
            outputs = await host.run_async(*asked)
        else:
            with host.tracer.caller(request.headers):
                outputs = await host.run_async(*asked)
        size = sum(getattr(v, "nbytes", 0) for v in outputs.values())
        name = request.path_params["model"]
        if size > LARGE:
            answer, head = await asyncio.to_thread(format_answer, name, version, call, outputs)
        else:
            answer, head = format_answer(name, version, call, outputs)
        if head is None:
            return Response(answer, media_type="application/json")
        return Response(answer, media_type="application/octet-stream", headers={HEADER: str(head)})

    def check_json(self, length: int) -> None:
        """ProtocolError where a request has more JSON than is allowed."""
        if length > (most := self.limits.json_bytes):
            raise _TooLarge(
                f"a request with {length} bytes of JSON; {most} are allowed: send tensors as bytes"
            )

    async def body(self, request: Request) -> bytes:
        """The body, of bounded size, which must arrive in time."""
        most = self.limits.request_bytes
        declared = _number(request, "content-length")
        if declared is not None and declared > most:
            raise _TooLarge(f"a request of {declared} bytes; {most} are allowed")
        arrived = bytearray()
        try:
            async with asyncio.timeout(self.limits.arrival):
                async for part in request.stream():
                    if len(arrived) + len(part) > most:
                        raise _TooLarge(f"a request of more than {most} bytes")
                    arrived += part
        except TimeoutError:
            raise _Late(f"the request did not arrive in {self.limits.arrival:g} s") from None
        body = bytes(arrived)
        encoding = request.headers.get("content-encoding", "identity")
        if encoding == "identity":
            return body
        return await asyncio.to_thread(_unpacked, body, encoding, most)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A compressed body, no larger than is allowed."""
    windows = {"gzip": 31, "deflate": 15}
    if encoding not in windows:
        raise ProtocolError(f"content-encoding '{encoding[:40]}' is not gzip or deflate")
    unpacking = zlib.decompressobj(windows[encoding])
    try:
        plain = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise ProtocolError(f"the body is not {encoding}") from None
    if len(plain) > most:
        raise _TooLarge(f"a request of more than {most} bytes, unpacked")
    if not unpacking.eof or unpacking.unused_data:
        raise ProtocolError(f"the body is not all of one {encoding} stream")
    return plain


def _number(request: Request, header: str) -> int | None:
    """The number that a header is; None where there is no such header."""
    text = request.headers.get(header)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ProtocolError(f"{header}: '{text[:40]}' is not a number of bytes")
    return int(text)


def _target(request: Request) -> dict[str, Any]:
    """The model and version of a path."""
    return {"name": request.path_params["model"], "version": request.path_params.get("version", "")}


def _error(request: Request, text: str, code: int, param: str | None = None) -> Response:
    return JSONResponse(error_body(request.scope["path"], text, code, param), code)


async def _unrouted(request: Request, error: Exception) -> Response:
    """The answer where there is no such path, or not for this method."""
    assert isinstance(error, HTTPException)
    answer = _error(request, f"{request.method} {request.scope['path']}: {error.detail}", error.status_code)
    answer.headers.update(error.headers or {})
    return answer
