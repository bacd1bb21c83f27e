"""Calls of functions that go to machine code directly, where there are many of one kind of arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Calls of a kind after which machine code is called directly, where a call takes less than so many seconds.
OFTEN, SHORT = 64, 1e-4
#: Kinds of arguments for which that is so; each asks the next. Kinds whose calls are counted.
KINDS, COUNTED = 4, 1024


class DirectCalls:
    """Counts the calls of a function, which `called` does in Python; `run` does those that are frequent."""

    def __init__(self, called: Callable[..., Any]) -> None:
        self.run: Callable[..., Any] | None = None
        self.kinds = 0
        self._called = called
        self._counts: dict[Any, int] = {}

    def due(self, key: Any) -> bool:
        """Whether a further call of a kind makes it a frequent one."""
        count = self._counts.get(key, 0) + 1
        if len(self._counts) < COUNTED or count > 1:
            self._counts[key] = count
        return count == OFTEN

    def made(self, ready: Callable[[Sequence[Any]], Any], arguments: tuple[Any, ...]) -> Any:
        """The value of such a call; if that is short, further ones go to machine code."""
        start = time.perf_counter()
        result = self._called(*arguments)
        short = time.perf_counter() - start < SHORT
        direct = getattr(ready, "direct", None)
        if short and direct is not None and self.kinds < KINDS:
            run = direct(self.run or self._called)
            if run is not None:
                self.run, self.kinds = run, self.kinds + 1
        return result


def kind_of(value: Any) -> Any:
    """The key of calls of the same machine code; None where there is no simple one."""
    kind = type(value)
    if kind is np.ndarray:
        return value.shape, value.dtype
    if kind is float or kind is int or kind is bool:
        return kind
    if kind is tuple:
        kinds = tuple([kind_of(v) for v in value])
        return None if None in kinds else kinds
    if kind is dict:
        kinds = [kind_of(v) for v in value.values()]
        return None if None in kinds else (dict, *value, *kinds)
    return None
