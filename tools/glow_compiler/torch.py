"""`glow.torch`: what users add to the compiler of PyTorch's graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def rule(operator: Any) -> Callable[[Function], Function]:
    """What an operator of PyTorch means, as a decorator of a function `f(g, *operands)`.

    `operator` is "namespace::name", with an overload "namespace::name.overload", or one of torch.ops. The
    operands are those of its schema in order: tensors as values of `glow.GraphBuilder`, the rest as it is
    given. `g` inserts operators, as GraphBuilder does; the result is a value, or a list of them. It holds for
    graphs that are compiled from then on, and goes before a rule of ours. GlowError for what is no operator,
    and for operators that change their operands.
    """
    from glow_frontends.torch.user_rules import add_rule

    def decorate(function: Function) -> Function:
        add_rule(operator, function)
        return function

    return decorate


def remove_rule(operator: Any) -> None:
    """Take away a rule that was added."""
    from glow_frontends.torch.user_rules import remove_rule

    remove_rule(operator)


__all__ = ["remove_rule", "rule"]
