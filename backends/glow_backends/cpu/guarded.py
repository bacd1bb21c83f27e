"""LLVM's work for another machine in a process of its own: an abort of LLVM's ends only that."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable

from glow_dialects.core.errors import UnsupportedError


def llvm_message(said: str) -> str:
    """What LLVM says before it ends the process, without what it says of itself."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [m[1] for line in lines if (m := re.search(r"\berror: (.*)", line, re.IGNORECASE))]
    if errors:
        return f"LLVM makes no code for it: {errors[-1].rstrip('!')}; check the CPU and its features"
    if any("Assertion" in line or "PLEASE submit" in line for line in lines):
        return "LLVM makes no code for these features together"
    return "; ".join(dict.fromkeys(lines)) or "LLVM refuses it"


def apart(work: Callable[[], bytes], target: str) -> bytes:
    """What `work` gives, done by a copy of this process; UnsupportedError where LLVM ends that.

    In this process where it has other threads, whose locks a copy would hold for ever, or where there are
    no copies of processes. An exception of `work` is raised here, as work that raises is done once more.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return work()
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as messages:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                os.dup2(messages.fileno(), 2)
                result.write(work())
                result.flush()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            messages.seek(0)
            said = messages.read().decode(errors="replace")
            raise UnsupportedError(f"target '{target}': {llvm_message(said)}")
        if status:
            return work()
        result.seek(0)
        return result.read()
