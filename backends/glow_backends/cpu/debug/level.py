"""Levels of debug information."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from glow_dialects.core.errors import UnsupportedError

DebugInfo: TypeAlias = Literal["none", "lines", "full"]
LEVELS: tuple[DebugInfo, ...] = ("none", "lines", "full")


def debug_level(text: str | None = None) -> DebugInfo:
    """The level called `text`, or GLOW_DEBUG_INFO's; UnsupportedError where there is no such."""
    where = "debug_info"
    if text is None:
        where, text = "GLOW_DEBUG_INFO", os.environ.get("GLOW_DEBUG_INFO") or "none"
    for known in LEVELS:
        if text == known:
            return known
    raise UnsupportedError(f"{where}='{text}' is unknown; there are: {', '.join(LEVELS)}")
