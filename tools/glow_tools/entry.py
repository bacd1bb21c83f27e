"""Where the installed commands start: Ctrl-C never shows a traceback, from the first import on."""

from __future__ import annotations

import signal
from collections.abc import Callable

from glow_tools.command_table import COMMANDS, module_of


def _raised() -> None:
    """Ctrl-C is an exception, unless the process was started to ignore it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _quiet() -> None:
    """Ctrl-C ends the process, while Python starts and winds up."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(module: str) -> int:
    """Import and run a module; its exit status."""
    from importlib import import_module

    from glow_tools.common import guarded

    _raised()
    try:
        return guarded(lambda: import_module(module).main())
    finally:
        _quiet()


def __getattr__(name: str) -> Callable[[], int]:
    """The function that an installed script calls: `run` of `glow-run`, `glow` of `glow`."""
    if name != "glow" and name not in COMMANDS:
        raise AttributeError(f"module 'glow_tools.entry' has no attribute '{name}'")
    return lambda: _start(module_of(name))


_quiet()
