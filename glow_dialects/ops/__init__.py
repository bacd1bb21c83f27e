"""The operator cards: everything that is true of an operator stands in its one module."""

from __future__ import annotations

from types import ModuleType

from glow_dialects.ops import (
    activation,
    arithmetic,
    cast,
    compare,
    concat,
    expand,
    flip,
    identity,
    insert,
    literal,
    logic,
    reduce,
    relu,
    reshape,
    select,
    slice,
    splat,
    tile,
    transpose,
    unary_math,
)

#: Every card. A test compares this tuple with the folder.
CARDS: tuple[ModuleType, ...] = (
    activation,
    arithmetic,
    cast,
    compare,
    concat,
    expand,
    flip,
    identity,
    insert,
    literal,
    logic,
    reduce,
    relu,
    reshape,
    select,
    slice,
    splat,
    tile,
    transpose,
    unary_math,
)
