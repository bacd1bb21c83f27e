"""Where the installed commands start: Ctrl-C never shows a traceback, from the first import on."""

from __future__ import annotations

import signal


def _raised() -> None:
    """Ctrl-C is an exception, unless the process was started to ignore it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _quiet() -> None:
    """Ctrl-C ends the process, while Python starts and winds up."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(command: str) -> int:
    """Import and run glow_tools.`command`; its exit status."""
    from importlib import import_module

    from glow_tools.common import guarded

    _raised()
    try:
        return guarded(lambda: import_module(f"glow_tools.{command}").main())
    finally:
        _quiet()


def opt() -> int:
    """`glow-opt`."""
    return _start("opt")


def translate() -> int:
    """`glow-translate`."""
    return _start("translate")


def run() -> int:
    """`glow-run`."""
    return _start("run")


def bench() -> int:
    """`glow-bench`."""
    return _start("bench")


def profile() -> int:
    """`glow-profile`."""
    return _start("profile")


def quantize() -> int:
    """`glow-quantize`."""
    return _start("quantize")


def train() -> int:
    """`glow-train`."""
    return _start("train")


def generate() -> int:
    """`glow-generate`."""
    return _start("generate")


def transcribe() -> int:
    """`glow-transcribe`."""
    return _start("transcribe")


def serve() -> int:
    """`glow-serve`."""
    return _start("serve")


def reduce() -> int:
    """`glow-reduce`."""
    return _start("reduce")


def bisect() -> int:
    """`glow-bisect`."""
    return _start("bisect")


def compile() -> int:
    """`glow-compile`."""
    return _start("compile")


_quiet()
