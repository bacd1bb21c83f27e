"""Arrays from users: subclasses of NumPy arrays with other semantics are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.core.errors import BindingError


def check_plain(what: str, value: Any) -> None:
    """BindingError where a value is, or a list holds, an array of a subclass; np.memmap is a plain one.

    The missing elements of a masked array would count, and products of matrices go element by element.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        if value and not isinstance(value[0], int | float):
            for item in value:
                check_plain(what, item)
        return
    if kind is np.ndarray or kind is np.memmap or not isinstance(value, np.ndarray):
        return
    masked = isinstance(value, np.ma.MaskedArray)
    instead = "x.filled(value), or its mask as an array" if masked else "np.asarray(x)"
    raise BindingError(
        f"{what} is a {kind.__module__}.{kind.__name__}, not an ordinary array; give {instead}"
    )


def as_plain(what: str, value: Any) -> Any:
    """The value as an array; BindingError for arrays of a subclass and lists of unequal parts."""
    if type(value) is np.ndarray:
        return value
    check_plain(what, value)
    try:
        return np.asarray(value)
    except ValueError:
        raise BindingError(f"{what} is a list with rows of different lengths, not a tensor") from None
