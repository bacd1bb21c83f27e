"""The threads for submitted runs, one per core, shared by all executables."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from glow_backends.base import cores
from glow_dialects.core.forks import ForkLock, renew_after_fork

P = ParamSpec("P")
T = TypeVar("T")


class _Threads:
    """A pool that is made when it is first needed; a fork makes its own."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Have no threads."""
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        """The pool of this process."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(cores(), thread_name_prefix="glow-submit")
            return self._pool


_THREADS = _Threads()


def submit(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
    """Have `work` done by a thread of the pool."""
    return _THREADS.pool().submit(work, *args, **options)
