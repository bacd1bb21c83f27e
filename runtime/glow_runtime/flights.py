"""Flights: work that several threads want is done by the first of them, for all."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from glow_dialects.core.forks import ForkLock, renew_after_fork

T = TypeVar("T")


class Flights(Generic[T]):
    """Work in progress by key. A fork forgets it: those who did it are not there."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._flying: dict[Hashable, Future[T]] = {}
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the work in progress."""
        self._flying.clear()

    def do(self, key: Hashable, work: Callable[[], T]) -> T:
        """The result of `work`, or its error: of another thread's, where one does it for this key already."""
        mine: Future[T] = Future()
        with self._lock:
            flight = self._flying.setdefault(key, mine)
        if flight is not mine:
            return flight.result()
        try:
            result = work()
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            with self._lock:
                self._flying.pop(key, None)
