"""What a process has to ask the system for before it uses a unit of the processor."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux on x86-64."""


@cache
def tiles_allowed() -> bool:
    """Whether this process may use tile registers; it is asked for once, and children inherit the answer.

    Linux refuses where a thread has a small stack for signals, and older ones do not know the question.
    """
    if sys.platform != "linux":
        return False
    try:
        return ctypes.CDLL(None, use_errno=True).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0
    except (OSError, AttributeError):
        return False
