"""The nursery: a process that has imported what workers need, and forks one when it is asked to.

A worker then starts in milliseconds. The nursery has one thread and never runs a program: its forks are
safe. It ends with the process that started it.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from importlib import import_module

from glow_dialects.core.errors import DeviceError
from glow_dialects.core.forks import ForkLock, renew_after_fork

#: Seconds in which it must have started, or forked.
START_SECONDS = 60.0
_ASK = struct.Struct("<I")
_ANSWER = struct.Struct("<i")


class Nursery:
    """The host's end. A fork of the host starts a nursery of its own."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._socket: socket.socket | None = None
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Have no process."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._process: subprocess.Popen[bytes] | None = None

    def worker(self, cores: tuple[int, ...]) -> tuple[int, socket.socket]:
        """(process, connection) of a new worker, which is kept on some cores (none: on all)."""
        with self._lock:
            for _ in range(2):
                try:
                    return self._asked(cores)
                except (OSError, EOFError):  # it was killed: once more, with another
                    self._forget()
        raise DeviceError("no process for a device could be started")

    def _asked(self, cores: tuple[int, ...]) -> tuple[int, socket.socket]:
        if self._socket is None:
            self._begin()
        assert self._socket is not None
        ours, theirs = socket.socketpair()
        with theirs:
            text = ",".join(map(str, cores)).encode()
            socket.send_fds(self._socket, [_ASK.pack(len(text)) + text], [theirs.fileno()])
        answer = self._socket.recv(_ANSWER.size)
        if len(answer) < _ANSWER.size:
            ours.close()
            raise EOFError
        return _ANSWER.unpack(answer)[0], ours

    def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        code = f"from glow_runtime.devices.nursery import serve; serve({theirs.fileno()})"
        path = os.pathsep.join(p for p in sys.path if p)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        ours.settimeout(START_SECONDS)
        self._socket = ours

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.renew()


NURSERY = Nursery()
"""The nursery of this process."""


def serve(descriptor: int) -> None:
    """Fork workers as the host at the other end asks, until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's; when it is gone, so is this
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how workers ended
    for needed in ("glow_backends.cpu.program", "glow_runtime.devices.worker"):
        import_module(needed)  # once, for all workers

    with socket.socket(fileno=descriptor) as host:
        while True:
            data, descriptors, _, _ = socket.recv_fds(host, 4096, 1)
            if not descriptors:
                return
            text = data[_ASK.size :].decode()
            child = os.fork()
            if not child:
                host.close()
                _work(descriptors[0], tuple(int(c) for c in text.split(",") if c))
            os.close(descriptors[0])
            host.sendall(_ANSWER.pack(child))


def _work(descriptor: int, cores: tuple[int, ...]) -> None:
    """The life of a worker."""
    from glow_runtime.devices.channel import Channel
    from glow_runtime.devices.worker import Worker

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        if cores and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # a core that is not there
                os.sched_setaffinity(0, cores)
        Worker(Channel(socket.socket(fileno=descriptor))).serve()
        status = 0
    finally:
        os._exit(status)
