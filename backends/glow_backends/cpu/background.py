"""Work that nobody waits for until its result is asked for: the writing of large programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

from glow_dialects.core.forks import renew_after_fork


class Writing:
    """Threads that write folders. The process ends when all are done; a fork has none of them."""

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget what is under way."""
        self._threads: dict[Path, Thread] = {}

    def begin(self, folder: Path, write: Callable[[], None]) -> None:
        """Write a folder while others go on."""
        self.wait(folder)
        thread = self._threads[folder] = Thread(target=write, name="glow-write")
        thread.start()

    def wait(self, folder: Path) -> None:
        """Return when nobody writes a folder any more."""
        thread = self._threads.pop(folder, None)
        if thread is not None:
            thread.join()


WRITING = Writing()
