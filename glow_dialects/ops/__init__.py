"""The operator cards: everything that is true of an operator stands in its one module."""

from __future__ import annotations

from types import ModuleType

from glow_dialects.ops import compare, literal, relu, select, splat

#: Every card. A test compares this tuple with the folder.
CARDS: tuple[ModuleType, ...] = (
    compare,
    literal,
    relu,
    select,
    splat,
)
