"""Signals of glow-serve: the first of SIGINT and SIGTERM ends it in time, a second one at once."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

LOG = logging.getLogger("glow")
_ENDING = (signal.SIGINT, signal.SIGTERM)
_HANGUP: int | None = getattr(signal, "SIGHUP", None)
#: Seconds that are left for the end behind those of requests.
_REST = 2.5


class Signals:
    """Tells `on_end` of the first signal that ends; the process is gone `grace` seconds and a few later.

    A thread hears of signals when they come, whatever the main one computes.
    """

    def __init__(self, grace: float) -> None:
        self.grace = grace
        #: What begins the end; without it, the main thread is interrupted.
        self.on_end: Callable[[], Any] | None = None

    @contextlib.contextmanager
    def caught(self) -> Generator[Signals]:
        """Catch signals within; only the main thread can, others do without."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        hears, tells = socket.socketpair()  # Windows takes and selects no pipes here
        tells.setblocking(False)
        numbers = [n for n in (*_ENDING, _HANGUP) if n and signal.getsignal(n) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._caught) for number in numbers}
        told = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(hears,), name="glow-signals", daemon=True).start()
        try:
            yield self
        finally:
            signal.set_wakeup_fd(told)
            for number, handler in before.items():
                signal.signal(number, handler)
            tells.close()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if number in _ENDING and self.on_end is None:
            raise KeyboardInterrupt

    def _listen(self, hears: socket.socket) -> None:
        deadline: float | None = None
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([hears], [], [], left)[0]:
                LOG.warning("stopped; requests that still ran are abandoned")
                os._exit(0)
            number = hears.recv(1)
            if not number:
                hears.close()
                return
            if number[0] == _HANGUP:
                LOG.warning("SIGHUP: models are loaded again by /v2/repository/models/NAME/load")
            elif number[0] in _ENDING:
                if deadline is not None:
                    os._exit(1)
                deadline = time.monotonic() + self.grace + _REST
                if self.on_end is not None:
                    LOG.info("stopping")
                    with contextlib.suppress(RuntimeError):  # it has ended
                        self.on_end()
