"""A second compiling process, because LLVM serves one thread of a process at a time.

It is started when there is enough to do for it, imports llvmlite and little else, and takes (text, target,
whether it is a kernel) to the bytes of an object, which are those that this process would make. Where it
cannot be started, is busy, or has gone, this process compiles alone. It ends with this process, and when it
has had nothing to do for `_IDLE` seconds.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any

import llvmlite

import glow_backends
import glow_dialects
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.target import CpuTarget

_IDLE = 300
"""Seconds without work after which the process ends."""
_START = "import sys; sys.path += sys.argv[1:]; from glow_backends.cpu.second_compiler import serve; serve()"
_LENGTH = struct.Struct("<q")


def possible() -> bool:
    """Whether a second process can be started, and there is a core for it.

    GLOW_COMPILE_PROCESSES=1 forbids it. A program that embeds Python, or is frozen, is not an interpreter
    that could be started again.
    """
    if os.name != "posix" or os.environ.get("GLOW_COMPILE_PROCESSES") == "1" or getattr(sys, "frozen", False):
        return False
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return cores > 1 and Path(sys.executable or "").name.startswith("python")


class SecondCompiler:
    """The process, as its parent sees it; one thread at a time talks to it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._talking = Lock()
        self._failed = False

    @property
    def number(self) -> int | None:
        """The system's number of the process; None where there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Have a process, if there can be one; it is ready a little later, and takes requests at once."""
        if not self._talking.acquire(blocking=False):
            return
        try:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            if self._process is None and not self._failed and possible():
                self._process = _started()
        except OSError:
            self._failed = True
        finally:
            self._talking.release()

    def object_of(self, text: str, target: CpuTarget, kernel: bool) -> bytes | None:
        """The object of a module; None where this process has to make it, be it to report an error."""
        if not self._talking.acquire(blocking=False):
            return None
        try:
            process = self._process
            if process is None:
                return None
            assert process.stdin is not None and process.stdout is not None
            _send(process.stdin, (text, target, kernel))
            return _received(process.stdout)
        except (OSError, EOFError, ValueError):  # the last for what was closed
            self._end()
            return None
        finally:
            self._talking.release()

    def _end(self) -> None:
        """No process any more; one that did not end by itself is not followed by another."""
        if self._process is None:
            return
        self._close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.returncode is None:
            self._process.kill()
        self._failed = self._process.wait() != 0
        self._process = None

    def _close(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def kill(self) -> None:
        """End the process whatever it does: when this one ends."""
        if self._process is not None:
            self._process.kill()
            self._close()
            self._process.wait()
            self._process = None

    def disown(self) -> None:
        """In a fork: the process is the parent's, and lives as long as somebody has its pipe."""
        if self._process is not None:
            self._close()
            self._process.returncode = 0  # not ours to wait for


def _started() -> subprocess.Popen[bytes]:
    """A process that serves, out of reach of Ctrl-C; what it needs to import lies where it lies here."""
    modules = (glow_backends, glow_dialects, llvmlite)
    folders = {str(Path(module.__file__ or "").resolve().parent.parent): None for module in modules}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, *folders],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,  # nothing of what a fork closes is in a buffer, or locked
        process_group=0,
    )


def _send(pipe: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[pipe.write(rest) :]


def _received(pipe: IO[bytes]) -> Any:
    return pickle.loads(_bytes_of(pipe, *_LENGTH.unpack(_bytes_of(pipe, _LENGTH.size))))


def _bytes_of(pipe: IO[bytes], count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = pipe.read(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def serve() -> None:
    """The loop of the process: an object, or None for an error, for each request, until there is no more."""
    requests, answers = FileIO(os.dup(0)), FileIO(os.dup(1), "w")
    os.dup2(2, 1)  # LLVM's own output is no answer
    with suppress(EOFError, BrokenPipeError):
        while True:
            idle = Timer(_IDLE, os._exit, (0,))  # Windows cannot select pipes
            idle.daemon = True
            idle.start()
            text, target, kernel = _received(requests)
            idle.cancel()
            try:
                data = emit_object(text, target, kernel)
            except RuntimeError:
                data = None
            _send(answers, data)
    os._exit(0)  # nothing is kept, and taking LLVM down takes time


_second = SecondCompiler()


def second_compiler() -> SecondCompiler:
    """That of this process; a fork begins with none."""
    return _second


def _begin_again() -> None:
    global _second
    _second.disown()
    _second = SecondCompiler()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
atexit.register(lambda: _second.kill())
