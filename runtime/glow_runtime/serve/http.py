"""The HTTP server: the Open Inference Protocol with tensors as bytes, metrics, and a live page."""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from glow_dialects.core.errors import DeadlineError, GlowError, RefusedError
from glow_runtime.serve.metrics import PAGE, prometheus, status
from glow_runtime.serve.protocol import (
    HEADER,
    ProtocolError,
    format_answer,
    metadata,
    parse_request,
    status_of,
)
from glow_runtime.serve.repository import ModelRepository

LOG = logging.getLogger("glow")
#: Bodies of more bytes are read by a thread: the others are answered meanwhile.
LARGE = 1 << 18


@dataclass(frozen=True)
class Limits:
    """Bytes of a request, seconds in which it must arrive and be answered, and the token that it needs."""

    request_bytes: int = 64 << 20
    arrival: float = 30.0
    answer: float = 60.0
    token: str = ""
    #: Whether clients may load and unload models.
    control: bool = False


class _TooLarge(ProtocolError):
    """A body of more bytes than are allowed."""


Handler = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """The routes of a repository of models."""

    def __init__(self, models: ModelRepository, limits: Limits | None = None) -> None:
        self.models, self.limits = models, limits or Limits()
        self.app = Starlette(routes=self._routes())

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
                    return _error("this server wants a token: Authorization: Bearer ...", 401)
            try:
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=499)
            except _TooLarge as error:
                return _error(str(error), 413)
            except GlowError as error:
                answer = _error(str(error), status_of(error))
                if isinstance(error, RefusedError):
                    answer.headers["retry-after"] = "1"
                return answer
            except Exception as error:
                LOG.exception("a request failed")
                return _error(f"internal error: {type(error).__name__}", 500)

        return guarded

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
            return _error("this server's models are fixed: start it with --control", 403)
        await asyncio.to_thread(change, request.path_params["model"])
        return JSONResponse({})

    # --- inference ---------------------------------------------------------------------------
    async def _infer(self, request: Request) -> Response:
        version, network = self.models.network(**_target(request))
        body = await self.body(request)
        length = _json_length(request)
        large = len(body) > LARGE
        call = await asyncio.to_thread(parse_request, body, length) if large else parse_request(body, length)
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

    async def body(self, request: Request) -> bytes:
        """The body, of bounded size, which must arrive in time."""
        most = self.limits.request_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            raise _TooLarge(f"a request of {declared} bytes; {most} are allowed")
        try:
            async with asyncio.timeout(self.limits.arrival):
                parts: list[bytes] = []
                size = 0
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise _TooLarge(f"a request of more than {most} bytes")
                    parts.append(part)
        except TimeoutError:
            raise DeadlineError(f"the request did not arrive in {self.limits.arrival:g} s") from None
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        encoding = request.headers.get("content-encoding", "identity")
        if encoding == "identity":
            return body
        return await asyncio.to_thread(_unpacked, body, encoding, most)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A compressed body, no larger than is allowed."""
    windows = {"gzip": 31, "deflate": 15}
    if encoding not in windows:
        raise ProtocolError(f"content-encoding '{encoding}' is not gzip or deflate")
    unpacking = zlib.decompressobj(windows[encoding])
    try:
        plain = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise ProtocolError(f"the body is not {encoding}") from None
    if len(plain) > most:
        raise _TooLarge(f"a request of more than {most} bytes, unpacked")
    return plain


def _json_length(request: Request) -> int | None:
    text = request.headers.get(HEADER)
    if text is None:
        return None
    if not text.isdecimal():
        raise ProtocolError(f"{HEADER}: '{text}' is no number")
    return int(text)


def _target(request: Request) -> dict[str, Any]:
    """The model and version of a path."""
    return {"name": request.path_params["model"], "version": request.path_params.get("version", "")}


def _error(text: str, code: int) -> Response:
    return JSONResponse({"error": text}, code)
