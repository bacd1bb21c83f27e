"""What users write in compiled functions: operators as functions, declared gradients, loops to write out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.ops import card_of


def stop_gradient(value: Any) -> Any:
    """The value, through which no gradient flows."""
    return value


def unroll(items: Any) -> Any:
    """The items; a `for` over them is written out in compiled functions, one copy of its body an item."""
    return items


class DeclaredGradient:
    """A function with a gradient of its own; see `custom_gradient`. Outside compiled code, the function."""

    def __init__(self, function: Callable[..., Any], gradient: Callable[..., Any]) -> None:
        self.glow_function = function
        self.glow_declared = gradient
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function itself."""
        return self.glow_function(*arguments, **keywords)


def custom_gradient(gradient: Callable[..., Any]) -> Callable[[Callable[..., Any]], DeclaredGradient]:
    """Declare the gradient of the function that follows.

    `gradient(d, y, x..)` gets the cotangent d of the result, the result y and the arguments x.., and gives
    the tuple of the cotangents of the arguments: of one argument, the cotangent itself; None for nothing.
    It is compiled like any function; what it computes is differentiated for higher orders. Errors are
    those of `jit`.
    """
    if not callable(gradient):
        raise UnsupportedError(f"custom_gradient needs a function, got a {type(gradient).__name__}")

    def decorate(function: Callable[..., Any]) -> DeclaredGradient:
        return DeclaredGradient(getattr(function, "python", function), gradient)

    return decorate


class _Operator:
    """An operator card as a function."""

    def __init__(self, name: str) -> None:
        self.glow_operator = name
        self.__name__ = name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise UnsupportedError(f"glow.ops.{self.__name__} is for compiled functions; use NumPy outside")


class _Operators:
    """`glow.ops.softmax(x, axis=1)`: every operator card, for use in compiled functions."""

    def __getattr__(self, name: str) -> _Operator:
        if card_of(name) is None:
            raise AttributeError(f"there is no operator '{name}'")
        return _Operator(name)


ops = _Operators()

unroll.glow_transform = "unroll"  # pyright: ignore
stop_gradient.glow_transform = "stop"  # pyright: ignore
