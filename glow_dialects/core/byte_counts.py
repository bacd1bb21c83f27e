"""Sizes in bytes as people write them: 64K, 2G."""

from __future__ import annotations

import re

from glow_dialects.core.errors import GlowError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def byte_count(text: str) -> int:
    """`64M` -> 67108864; K, M and G are powers of 1024. A GlowError where it is no such number."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip().upper())
    if match is None:
        raise GlowError(f"'{text}' is not a size in bytes; write for example 65536, 64K or 2G")
    return int(match[1]) * _UNITS[match[2]]
