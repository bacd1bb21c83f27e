"""clear_caches: free the memory of the caches that the compiler keeps from one model to the next."""

from __future__ import annotations

import sys


def clear_caches() -> None:
    """Empty the caches of this process: kernel plans, types, tables, and machine code read from disk.

    Existing programs are not affected, and files stay. `GLOW_CACHE_DIR` is the folder of the files.

    Examples:
        >>> glow.clear_caches()
    """
    for name, module in list(sys.modules.items()):
        if not name.startswith("glow_"):
            continue
        for value in list(vars(module).values()):
            clear = getattr(value, "cache_clear", None)
            if clear is not None and getattr(value, "__module__", "").startswith("glow_"):
                clear()
        if name == "glow_backends.cpu.cache":
            module.forget_recent()
