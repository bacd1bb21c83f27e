"""Pool: a limited number of reusable objects for concurrent calls, created when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from glow_dialects.core.forks import renew_after_fork

T = TypeVar("T")


class Pool(Generic[T]):
    """At most `limit` things of `make`; who asks for more waits. A free one is taken without a lock.

    `take` and `give` are for any thread. A fork has those that were free.
    """

    def __init__(self, make: Callable[[], T], limit: int) -> None:
        self._make, self.limit = make, limit
        self._free: list[T] = []
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget those that were lent."""
        self._changed = threading.Condition()
        self._count, self._waiting = len(self._free), 0

    def take(self) -> T:
        """A thing for the caller alone, until it gives it back: the one used last, if any is free."""
        try:
            return self._free.pop()
        except IndexError:
            return self._waited()

    def try_take(self) -> T | None:
        """A thing that is free now, if there is one."""
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give(self, thing: T) -> None:
        """Give a thing back."""
        self._free.append(thing)
        if self._waiting:  # read after the thing is there: who waits counted itself before it looked
            with self._changed:
                self._changed.notify()

    def _waited(self) -> T:
        with self._changed:
            self._waiting += 1
            try:
                while not self._free and self._count >= self.limit:
                    self._changed.wait()
                try:
                    return self._free.pop()
                except IndexError:  # taken by one that did not wait
                    if self._count >= self.limit:
                        return self._waited()
                self._count += 1
            finally:
                self._waiting -= 1
        try:
            return self._make()
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            raise
