"""Operators on Python numbers and texts that are known when compiling."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.compare import Eq, Ne, ShiftLeft
from glow_dialects.fn.primitives.mathematics import Pow
from glow_frontends.python.emit import Static


def folded(card: type[Primitive], left: Any, right: Any) -> Static | None:
    """The value of an operator on Python numbers or texts, None where it is left to the program."""
    plain = bool | int | float
    texts = card in (Eq, Ne) and isinstance(left, str) and isinstance(right, str)
    if not texts and not (isinstance(left, plain) and isinstance(right, plain)):
        return None
    function = next((f for f in card.called if not isinstance(f, np.ufunc)), None)
    huge = isinstance(right, int | float) and abs(right) > 10_000
    if function is None or card in (Pow, ShiftLeft) and huge:
        return None
    try:
        made = function(left, right)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Static(made) if isinstance(made, plain) else None
