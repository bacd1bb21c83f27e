"""The end of a server: what runs is answered within the time that it has, and what comes then is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

REASON = "this server is stopping"
#: Seconds for answers of what was ended.
_LAST = 1.0


class Stopping:
    """Whether a server stops, and its requests under way."""

    def __init__(self) -> None:
        self.now = False
        #: What ends the requests that ask for it themselves, such as streams.
        self.enders: list[Callable[[], Awaitable[Any]]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, grace: float) -> int:
        """Refuse what comes, wait for what runs, and end it after `grace` seconds: how many that were."""
        self.now = True
        await self._until(time.monotonic() + grace)
        left = len(self._tasks)
        if left:
            for end in self.enders:
                await end()
            await self._until(time.monotonic() + _LAST)
            for task in self._tasks:
                task.cancel()
            await self._until(time.monotonic() + _LAST)
        return left

    async def _until(self, deadline: float) -> None:
        while self._tasks and time.monotonic() < deadline:
            await asyncio.sleep(0.02)

    def gate(self, app: ASGIApp) -> ASGIApp:
        """An application that answers 503 when the server stops."""

        async def gated(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            if self.now:
                await _refusal(scope)(scope, receive, send)
                return
            started = False

            async def sent(message: Any) -> None:
                nonlocal started
                started = True
                await send(message)

            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await app(scope, receive, sent)
            except asyncio.CancelledError:
                if not self.now:
                    raise
                if not started:
                    task.uncancel()
                    await _refusal(scope)(scope, receive, send)
            finally:
                self._tasks.discard(task)

        return gated


def _refusal(scope: Scope) -> JSONResponse:
    """The answer to a request that comes too late; that the server lives is still true."""
    headers = {"connection": "close"}
    if scope["path"] == "/v2/health/live":
        return JSONResponse({"live": True}, headers=headers)
    return JSONResponse(error_body(scope["path"], REASON, 503), 503, headers)


def error_body(path: str, text: str, code: int, param: str | None = None) -> dict[str, Any]:
    """The JSON of an error, in the form that clients of a path know: OpenAI's or the inference protocol's."""
    text = text if len(text) <= 2000 else f"{text[:2000]}..."
    if not path.startswith("/v1"):
        return {"error": text}
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(code, "invalid_request_error" if code < 500 else "server_error")
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}
