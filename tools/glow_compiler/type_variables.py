"""P and R: parameters and result of a function that is compiled, as type checkers follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if (
    TYPE_CHECKING
):  # with defaults, which Python has from 3.13 on: where they do not matter they are not written
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P, R = ParamSpec("P"), TypeVar("R")

__all__ = ["P", "R"]
