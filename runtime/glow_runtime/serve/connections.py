"""Limits of HTTP connections: header size, idle time, slow readers, number."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from glow_runtime.serve.http import Limits

LOG = logging.getLogger("glow")
#: Seconds between two looks at all connections, those in which a client reads why it was refused, and
#: descriptors that are left for other things.
_LOOK, _LINGER, _SPARE = 0.25, 1.0, 192
#: Connections that are taken at a time, before any of them is looked at, and those that wait for it.
TAKEN, BACKLOG = 4, 1024
_TEXTS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Connection(HttpToolsProtocol):
    """A connection that ends where a request does not come in time, its head is too large, or nobody reads.

    Where there are too many, the one that has waited longest for a request gives way to a new one.
    """

    def __init__(self, *, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self.limits = limits
        #: Whether a head has begun and is not complete; its bytes, and those of an element of it.
        self._heading = False
        self._head = self._element = 0
        #: Since when a request is waited for; since when nothing was read of what is to be written.
        self._since = self._read = self.loop.time()
        self._unread = 0
        self._refused = False

    # --- what comes ------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        """Take a connection, in the place of another if need be."""
        super().connection_made(transport)
        if len(self.connections) <= self.limits.connections:
            return
        others = [c for c in self.connections if isinstance(c, Connection) and c is not self]
        waiting = [c for c in others if c.waits and not c.unread and not c.transport.is_closing()]
        if waiting:
            min(waiting, key=lambda c: c._since).give_up()
        else:
            self._refuse(503, "too many connections; try again later")

    def data_received(self, data: bytes) -> None:
        """Read on; what is no HTTP is refused."""
        parser: Any = self.parser
        if parser is None or self._refused:
            return
        self._unset_keepalive_if_required()
        self._element += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # it is answered as any other request
        except httptools.HttpParserError:
            self._refuse(*self._wrong())
            return
        if self._element > self.limits.head_bytes + len(data):
            self._refuse(*self._wrong())

    def _wrong(self) -> tuple[int, str]:
        """The status and text for a request that was not read to its end."""
        most = self.limits.head_bytes
        if max(self._head, self._element) > most:
            return 431, f"the head of a request has more than {most} bytes"
        return 400, "the request is not HTTP"

    def _count(self, size: int) -> None:
        """Count bytes of a head, or of trailers; an error ends the parser."""
        self._element = 0
        self._head += size
        if self._head > self.limits.head_bytes:
            raise ValueError

    def on_message_begin(self) -> None:
        """A request begins."""
        self._heading, self._head = True, 0
        self._since = self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: the request is worked on."""
        self._heading, self._element = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._element = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """A request is answered."""
        self._since = self.loop.time()
        super().on_response_complete()

    # --- what ends -------------------------------------------------------------------------------
    @property
    def waits(self) -> bool:
        """Whether it waits for a request, and works on none."""
        return not self.cycle or self.cycle.response_complete

    @property
    def unread(self) -> int:
        """Bytes that are still to be written."""
        return self.transport.get_write_buffer_size()

    def look(self, now: float) -> None:
        """End it where its time is over."""
        unread = self.unread
        if unread == 0 or unread < self._unread:
            self._read = now
        if unread and not (self._heading or self._refused):
            self._since = now
        self._unread = unread
        if now - self._read > self.limits.idle or (self._refused and now - self._since > _LINGER):
            self.transport.abort()
        elif self.waits and now - self._since > (self.limits.head if self._heading else self.limits.idle):
            self.give_up()

    def give_up(self) -> None:
        """End a connection that waits for a request."""
        if self._heading:
            self._refuse(408, "the head of the request did not arrive in time")
        self.transport.abort()  # what was written has gone: nothing else waits for it

    def _refuse(self, status: int, text: str) -> None:
        """Answer with an error, unless another answer is under way, and read no more.

        What comes is thrown away for a moment: a client that still writes would not see the answer.
        """
        LOG.debug("%s: %d, %s", self.client, status, text)
        self._refused, self._since = True, self.loop.time()
        if self.pipeline or not (self.waits or not self.cycle.response_started):
            self.transport.close()
            return
        body = text.encode()
        head = f"content-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(b"HTTP/1.1 %d %s\r\n%s%s" % (status, _TEXTS[status], head.encode(), body))
        if self.cycle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
        self.flow.resume_reading()


async def look_after(connections: set[Any]) -> None:
    """End the connections whose time is over, for ever."""
    while True:
        await asyncio.sleep(_LOOK)
        now = asyncio.get_running_loop().time()
        for connection in list(connections):
            if isinstance(connection, Connection):
                connection.look(now)


def affordable(connections: int) -> int:
    """As many connections as there may be, so that some descriptors of files are left."""
    if sys.platform == "win32":
        return connections
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 32
    free = max(soft - used, 1)
    return max(1, min(connections, free - min(_SPARE, free // 2)))


def quiet_errors() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """What an event loop does with errors: of connections, such as too many files, it tells one a second."""
    last = -1.0

    def told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        error = context.get("exception")
        if not isinstance(error, OSError):
            loop.default_exception_handler(context)
        elif loop.time() - last > 1.0:
            last = loop.time()
            LOG.warning("a connection: %s", error.strerror or error)

    return told
