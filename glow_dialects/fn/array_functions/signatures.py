"""Functions of arrays, named as in NumPy: `np:NAME` primitives, whose shapes follow from argument types."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from glow_dialects.fn.array_functions.arrays import ARRAYS, Maker
from glow_dialects.fn.array_functions.matrices import MATRICES
from glow_dialects.fn.array_functions.places import PLACES
from glow_dialects.fn.array_functions.quantiles import QUANTILES
from glow_dialects.fn.array_functions.ranges import RANGES

#: The number of arrays among the operands, where numbers that options refer to follow them.
COUNT = "count"
#: The functions by name: what builds them has the arrays and options that NumPy's have, with their defaults.
MAKERS: dict[str, Maker] = {**ARRAYS, **MATRICES, **PLACES, **QUANTILES, **RANGES}


@dataclass(frozen=True)
class Signature:
    """The arrays of a function, and its options with their defaults; `many`: one tuple of arrays."""

    arrays: tuple[str, ...]
    options: dict[str, Any]
    many: bool


@lru_cache(None)
def signature(name: str) -> Signature | None:
    """The signature of a function; None where there is none of the name."""
    maker = MAKERS.get(name)
    if maker is None:
        return None
    _, *parameters = inspect.signature(maker).parameters.values()
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    # Of one array, what is given by name alone is no option of NumPy.
    own = [p for p in parameters if many or p.kind is not p.KEYWORD_ONLY]
    options = {p.name: p.default for p in own if p.default is not p.empty}
    return Signature(() if many else tuple(p.name for p in own if p.default is p.empty), options, many)
