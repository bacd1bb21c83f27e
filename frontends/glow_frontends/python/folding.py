"""Operators on Python numbers and texts that are known when compiling."""

from __future__ import annotations

import operator
from typing import Any

from glow_frontends.python.emit import Static


def folded(name: str, left: Any, right: Any) -> Static | None:
    """The value of an operator on Python numbers or texts, None where it is left to the program."""
    plain = bool | int | float
    texts = name in ("eq", "ne") and isinstance(left, str) and isinstance(right, str)
    if not texts and not (isinstance(left, plain) and isinstance(right, plain)):
        return None
    function = getattr(operator, _PYTHON.get(name, name), None)
    huge = isinstance(right, int | float) and abs(right) > 10_000
    if function is None or name in ("pow", "shl") and huge:
        return None
    try:
        made = function(left, right)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Static(made) if isinstance(made, plain) else None


_PYTHON = {"div": "truediv", "floor_div": "floordiv", "bitand": "and_", "bitor": "or_", "bitxor": "xor",
           "shl": "lshift", "shr": "rshift"}  # fmt: skip
