"""Objects with locks that remain usable after a fork of the process."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    """Something with threads or locks, of which a fork has none."""

    def renew(self) -> None:
        """Called in the child, before anything else runs there."""
        ...


_renewed: WeakSet[Renewed] = WeakSet()


def renew_after_fork(kept: Renewed) -> None:
    """Call `kept.renew()` in every fork of this process, for as long as it lives."""
    _renewed.add(kept)


def _forked() -> None:
    for kept in tuple(_renewed):
        kept.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class ForkLock:
    """A re-entrant lock that is open in a fork, whoever held it."""

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
