"""The form of a rule, and arithmetic that rules share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from glow_frontends.graph import Emitter, RuleError
from glow_frontends.onnx.node import Node, Result

Choice = TypeVar("Choice")

#: (emitter, node) -> output or outputs.
Rule: TypeAlias = Callable[[Emitter, Node], Result]
#: One rule for all versions, or (since version, rule) in rising order.
Versions: TypeAlias = Rule | tuple[tuple[int, Rule], ...]


def per_axis(n: Node, name: str, default: Sequence[int], count: int | None = None) -> tuple[int, ...]:
    """An attribute of as many integers as `default`, or as `count`; a RuleError where it has others."""
    numbers = tuple(n.integers(name) or default)
    count = len(default) if count is None else count
    if len(numbers) != count:
        raise RuleError(f"attribute '{name}' has {len(numbers)} numbers, expected {count}")
    return numbers


@contextmanager
def tables_of(n: Node) -> Generator[None]:
    """Around code that reads attributes which refer to each other: a RuleError where one goes astray."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise RuleError(f"the attributes of {n.op} do not match: {error}") from None


def check_entries(name: str, have: int, *wanted: int) -> None:
    """A RuleError where a list attribute does not have one of some numbers of entries."""
    if have not in wanted:
        expected = " or ".join(str(w) for w in dict.fromkeys(wanted))
        raise RuleError(f"attribute '{name}' has {have} entries, expected {expected}")


def check_alike(first: str, count: int, **others: Sequence[object] | None) -> None:
    """A RuleError where one of the lists that go with the attribute `first` has more or fewer entries."""
    for name, values in others.items():
        if len(values or ()) != count:
            raise RuleError(f"attribute '{name}' has {len(values or ())} entries, '{first}' has {count}")


def option(n: Node, name: str, choices: Mapping[str, Choice], default: str) -> Choice:
    """The meaning of an attribute that is one of several words; a RuleError for another word."""
    word = n.text(name, default)
    if word not in choices:
        raise RuleError(f"{name} '{word}', expected one of {', '.join(choices)}")
    return choices[word]


def only(n: Node, **known: int) -> None:
    """A RuleError where an attribute is given and is not the one number of which the meaning is known."""
    for name, number in known.items():
        if (given := n.integer(name, number)) != number:
            raise RuleError(f"{name} {given} is not supported, only {number}")
