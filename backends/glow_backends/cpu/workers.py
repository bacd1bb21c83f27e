"""Threads that share the kernels of a program."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.cpu.jit import Linked
from glow_backends.cpu.memory import address, aligned_array
from glow_backends.cpu.support import GATE_LINE, POST, SERVE
from glow_dialects.core.forks import renew_after_fork

if TYPE_CHECKING:
    from glow_dialects.core.types import Array


class Workers:
    """`count - 1` threads beside the caller, which run a linked program together.

    Between two runs they look for the next one for a tenth of a millisecond, then sleep. Their
    state lies at a gate: the number of the run and its frames, then, a line each, whether a worker
    sleeps (see `support_text`). `barrier` is the memory of the barrier between them, which a worker may
    look at when the caller has left it. A fork of the process has no threads: its first run starts others.
    """

    def __init__(self, linked: Linked, count: int, barrier: Array) -> None:
        self._linked, self._count, self._barrier = linked, count, barrier
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._post = ctypes.CFUNCTYPE(number, pointer, pointer)(linked.address(POST))
        self._serve = ctypes.CFUNCTYPE(number, pointer, number, number)(linked.address(SERVE))
        self._begin()
        renew_after_fork(self)

    def renew(self) -> None:
        """Have the next run start threads."""
        self._alone = True

    def _begin(self) -> None:
        """Start the threads, with a gate of their own."""
        self._alone = False
        self._gate = aligned_array((GATE_LINE * (self._count + 1),), np.dtype(np.uint8))
        self._gate[...] = 0
        self._tokens: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(self._count - 1)]
        for worker, tokens in enumerate(self._tokens, 1):
            keep = (worker, self._serve, self._gate, tokens, self._linked, self._barrier)
            threading.Thread(target=_serve, args=keep, name=f"glow-{worker}", daemon=True).start()
        weakref.finalize(self, _end, self._linked, self._post, self._gate, self._tokens)

    def start(self, frames: ctypes.Array[ctypes.c_void_p]) -> None:
        """Have the others run their frames, one a worker; the caller then runs its own."""
        if self._alone:
            self._begin()
        _wake(self._post, self._gate, self._tokens, ctypes.addressof(frames))


def _wake(
    post: Callable[[int, int | None], int],
    gate: Array,
    tokens: Sequence[SimpleQueue[None]],
    frames: int | None,
) -> None:
    """Announce a run (None: there will be no other) and wake those who sleep."""
    sleeping = post(address(gate), frames)
    for number, queue in enumerate(tokens, 1):
        if sleeping >> number & 1:
            queue.put(None)


def _end(
    linked: Linked, post: Callable[[int, int | None], int], gate: Array, tokens: Sequence[SimpleQueue[None]]
) -> None:
    """Let the workers go; `linked` keeps the code of `post` when they have left it."""
    _wake(post, gate, tokens, None)


def _serve(
    worker: int,
    serve: Callable[[int, int, int], int],
    gate: Array,
    tokens: SimpleQueue[None],
    linked: Linked,
    barrier: Array,
) -> None:
    """A worker's life; `linked` and `barrier` keep the code and memory that it uses."""
    seen = 0
    while (seen := serve(address(gate), worker, seen)) >= 0:
        tokens.get()
