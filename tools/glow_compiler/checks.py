"""Checks of numbers and arrays that users give, each with one message."""

from __future__ import annotations

import math
import operator
from typing import Any

from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.plain_arrays import as_plain
from glow_dialects.core.types import Array


def number(what: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """A finite number of at least `least` and at most `most`; GlowError where it is none."""
    try:
        real = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        real = math.nan
    if not math.isfinite(real):
        raise GlowError(f"{what} is {value!r}, expected a finite number")
    if not least <= real <= most:
        upper = f" and at most {most:g}" if most < math.inf else ""
        raise GlowError(f"{what} is {value}, expected at least {least:g}{upper}")
    return real


def integer(what: str, value: Any, least: int = 0) -> int:
    """A whole number of at least `least`; GlowError where it is none."""
    try:
        index = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        index = None
    if index is None:
        raise GlowError(f"{what} is {value!r}, expected an integer")
    if index < least:
        raise GlowError(f"{what} is {value}, expected at least {least}")
    return index


def numbers(what: str, value: Any) -> Array:
    """An array of numbers; BindingError for lists of unequal parts, text, objects and complex numbers."""
    array: Array = as_plain(what, value)
    if array.dtype.kind in "OUSMmc":
        raise BindingError(f"{what}: dtype {array.dtype}, expected real numbers")
    return array
