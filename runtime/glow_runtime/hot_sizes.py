"""Frequent sizes get their own programs, compiled in the background."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable

from glow_dialects.core.errors import GlowError
from glow_dialects.core.forks import ForkLock

LOG = logging.getLogger("glow")
OFTEN = 16
"""Calls after which a size is one that more calls are expected of."""
COUNTED = 4096
"""Sizes whose calls are counted, at most; of more, those with fewer calls are forgotten."""


class HotSizes:
    """Counts the calls that a program for any size serves."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._met: Counter[Hashable] = Counter()

    def meet(self, key: Hashable, compile: Callable[[], object]) -> None:
        """Count a call; the one that makes its size a frequent one starts `compile` on another thread."""
        with self._lock:
            self._met[key] += 1
            frequent = self._met[key] == OFTEN
            if len(self._met) > COUNTED:
                self._met = Counter(dict(self._met.most_common(COUNTED // 2)))
        if frequent:  # the process waits for it at its end: machine code is not left half made
            threading.Thread(target=_quietly, args=(compile,), name="glow-specialize").start()


def _quietly(compile: Callable[[], object]) -> None:
    """Compile; where it fails the program for any size simply goes on."""
    try:
        compile()
    except GlowError as error:
        LOG.warning("compiling a program for a frequent size failed: %s", error)
