"""What users write in compiled functions: operators as functions, declared gradients, loops to write out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.ops import card_of


def stop_gradient(value: Any) -> Any:
    """The value, without a gradient.

    Args:
        value: Any value inside a compiled function.

    Returns:
        The same value.

    Examples:
        >>> glow.grad(lambda x: x * glow.stop_gradient(x))(3.0)
        3.0
    """
    return value


def unroll(items: Any) -> Any:
    """Unroll the `for` loop over these items in a compiled function.

    Args:
        items: A range, or items that are known one by one.

    Returns:
        The same items.

    Examples:
        >>> @glow.jit
        ... def power(x):
        ...     y = 1.0
        ...     for _ in glow.unroll(range(3)):
        ...         y = y * x
        ...     return y
        >>> power(2.0)
        8.0
    """
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
    """Declare the gradient of a function; a decorator.

    Args:
        gradient: A function of the cotangent d of the result, the result y, and the arguments. It returns the
            tuple of the cotangents of the arguments, or the cotangent itself if there is one argument; None
            means no gradient. It is compiled like any function, and differentiated for higher orders.

    Returns:
        A decorator for the function.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> @glow.custom_gradient(lambda d, y, x: min(d, 1.0))
        ... def clipped(x):
        ...     return x
        >>> glow.grad(lambda x: clipped(x) * 5.0)(3.0)
        1.0
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
