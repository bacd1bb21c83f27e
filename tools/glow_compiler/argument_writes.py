"""Arguments that a compiled function changes: the caller's objects are updated after the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from glow_dialects.core.errors import BindingError, UnsupportedError, raised
from glow_dialects.fn.record import fields_of, items_of
from glow_frontends.python.argument_writes import Writes, argument_writes
from glow_frontends.python.functions import parameters
from glow_frontends.python.importer import written_function
from glow_frontends.python.source import read

#: Steps that NumPy takes to find whether arrays of one stretch of memory have an element in common.
_STEPS = 10_000


class ArgumentWrites:
    """What a Python function changes of its arguments, by their places."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", "function")
        self.writes: dict[int, Writes] = {}
        plain = written_function(function)
        if plain is not None:
            source = read(plain)
            self.names = parameters(source.node.args)[0]
            found = argument_writes(source, self.names)
            self.writes = {self.names.index(n): w for n, w in found.items()}

    def of(self, values: Sequence[Any]) -> list[int]:
        """The places of the arguments that may change, among those of a call."""
        return [i for i, w in self.writes.items() if (w.last >= 0 or w.unclear) and _changeable(values[i])]

    def viewed(self, values: Sequence[Any]) -> bool:
        """Whether parts of an argument may change that have a name: compiling the function tells."""
        return any(w.views and _axes(values[i]) >= w.views for i, w in self.writes.items())

    def refuse(self, places: Sequence[int], what: str) -> None:
        """UnsupportedError where arguments would have to change and do not."""
        if places:
            name = self.names[places[0]]
            raise UnsupportedError(
                f"{self.name} changes its argument '{name}', but {what} must not change it; write"
                f" {name} = {name}.copy() first, and return the new one"
            )

    def check(self, values: Sequence[Any], places: Sequence[int]) -> None:
        """UnsupportedError for what cannot be written back, BindingError for arrays that share memory."""
        for place in places:
            writes, name = self.writes[place], self.names[place]
            if writes.unclear:
                raise UnsupportedError(
                    f"{writes.unclear}: it is not seen whether this changes the caller's '{name}'; write"
                    f" {name} = {name}.copy() first, or change '{name}' itself"
                )
            for array in _written(values[place], writes, f"argument {place} of {self.name}"):
                _check_apart(array, place, values, self.name)

    def store(self, values: Sequence[Any], places: Sequence[int], finals: Sequence[Any]) -> None:
        """Change the caller's objects to what they hold after a run; ValueError where one is read-only."""
        stores: list[Callable[[], None]] = []
        for place, final in zip(self.writes, finals, strict=True):
            if place in places:
                _stores(values[place], final, 0, self.writes[place], stores)
        for store in stores:
            store()


def _changeable(value: Any) -> bool:
    """Whether a value is, or holds, what a function can change."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return False
    return any(map(_changeable, value)) if isinstance(value, tuple) else True


def _axes(value: Any) -> int:
    """The axes of an array, or of the items of a list as one."""
    items = _items(value)
    return np.ndim(value) if items is None else 1 + max(map(_axes, items), default=0)


def _items(value: Any) -> Sequence[Any] | None:
    """What a list, a tuple or an object with named items holds; None of others."""
    if isinstance(value, list | tuple):
        return value
    return items_of(value) if isinstance(value, dict) or fields_of(type(value)) is not None else None


def _leaves(value: Any, level: int = 0) -> Iterator[tuple[Any, int]]:
    items = _items(value)
    if items is None:
        yield value, level
    else:
        yield value, level
        for item in items:
            yield from _leaves(item, level + 1)


def _written(value: Any, writes: Writes, what: str) -> Iterator[np.ndarray]:
    """The arrays that change; UnsupportedError for what cannot be changed from here."""
    last = writes.last
    for part, level in _leaves(value):
        if isinstance(part, np.ndarray):
            if level > last or (level and level - 1 in writes.items):
                continue
            if any(not step and size > 1 for step, size in zip(part.strides, part.shape, strict=True)):
                raise UnsupportedError(
                    f"{what} contains the same elements several times and is changed; copy it first"
                )
            yield part
        elif part is None or isinstance(part, bool | int | float | str | np.generic | tuple):
            continue
        elif level in writes.items:
            frozen = dataclasses.is_dataclass(part) and getattr(part, "__dataclass_params__").frozen  # noqa: B009
            if frozen or _items(part) is None:
                kind = type(part).__name__
                raise UnsupportedError(f"{what} is a {kind}, which is changed; give an array or a list")
            if last > level:
                raise UnsupportedError(
                    f"{what} gets other items and its items are changed; change only one of them"
                )
        elif _items(part) is None and hasattr(part, "__array__"):
            raise UnsupportedError(f"{what} is a {type(part).__name__}, which changes; give a NumPy array")


def _check_apart(array: np.ndarray, place: int, values: Sequence[Any], name: str) -> None:
    """Refuse a call of which an array that changes shares memory with another one."""
    met = False
    for other, value in enumerate(values):
        for part, _ in _leaves(value):
            if not isinstance(part, np.ndarray) or not np.may_share_memory(array, part):
                continue
            if part is array and other == place and not met:
                met = True  # the array itself
                continue
            if _shares(array, part):
                both = f"arguments {place} and {other} of {name}" if other != place else f"argument {place}"
                raise BindingError(
                    f"{both}: the arrays share memory and one is changed; pass a copy: a.copy()"
                )


def _shares(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_STEPS)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


def _stores(old: Any, new: Any, level: int, writes: Writes, stores: list[Callable[[], None]]) -> None:
    """What is to be done so that an object holds what another one does."""
    if isinstance(old, np.ndarray):
        if level <= writes.last:
            if old.flags.writeable:
                stores.append(lambda: np.copyto(old, new))
            elif old.tobytes() != np.asarray(new).tobytes():
                raise raised("ValueError", "assignment destination is read-only", "an argument")
        return
    before = _items(old)
    if before is None:
        return
    after = items_of(new) if isinstance(new, Mapping) or fields_of(type(new)) is not None else new
    grown = level in writes.inside and isinstance(old, list)  # `a += [v]`
    if (level in writes.items or grown) and not isinstance(old, tuple):
        same = [a if _equal(a, b) else b for a, b in zip_longest(before, after)][: len(after)]
        stores.append(lambda: _fill(old, new, same))
        return
    for item, other in zip(before, after, strict=True):
        _stores(item, other, level + 1, writes, stores)
    if level + 1 in writes.inside and not isinstance(old, tuple):
        kept = [
            a if isinstance(a, np.ndarray) or _items(a) is not None else b
            for a, b in zip(before, after, strict=True)
        ]
        stores.append(lambda: _fill(old, new, kept))


def _equal(a: Any, b: Any) -> bool:
    """Whether an item is still the one that it was."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    left, right = _items(a), _items(b)
    if left is None or right is None:
        return type(a) is type(b) and a == b
    return len(left) == len(right) and all(map(_equal, left, right))


def _fill(old: Any, new: Any, items: Sequence[Any]) -> None:
    """Give a list, a dict or an object other items."""
    if isinstance(old, list):
        old[:] = items
    elif isinstance(old, dict):
        old.clear()
        old.update(zip(new, items, strict=True))
    else:
        for name, item in zip(fields_of(type(old)) or (), items, strict=True):
            setattr(old, name, item)
