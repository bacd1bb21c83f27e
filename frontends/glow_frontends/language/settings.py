"""Settings: the architecture parameters in a model's file, checked when read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from glow_dialects.core.errors import GlowError

MOST_LAYERS, MOST_PARTS = 1 << 14, 1 << 16
"""No model has more layers, experts or heads."""
_WRONG = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, MemoryError),
)


def token_numbers(value: Any, label: str) -> tuple[int, ...]:
    """The tokens that a setting names: one, a list of them, or none."""
    found: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(v) is int and v >= -1 for v in found):
        raise GlowError(f"{label} is {str(value)[:60]!r}, expected a token's number, or a list of them")
    return tuple(v for v in found if v >= 0)


class Settings(ABC):
    """Settings by name; a GlowError names the file and the setting that is missing or no such number."""

    @abstractmethod
    def get(self, name: str, default: Any = None) -> Any:
        """A setting, `default` where there is none."""

    @abstractmethod
    def label(self, name: str) -> str:
        """The file and the setting, as messages name them."""

    #: The settings that were asked for so far.
    asked: list[str]

    @contextmanager
    def guarded(self) -> Generator[None]:
        """Make what goes wrong while settings are used an error that names the last of them."""
        try:
            yield
        except _WRONG as error:
            label = self.label(self.asked[-1] if self.asked else "nothing")
            raise GlowError(f"{label} cannot be used: {type(error).__name__}: {str(error)[:200]}") from None

    def need(self, *names: str) -> Any:
        """The first setting there is of some names."""
        values = (self.get(name) for name in names)
        value = next((v for v in values if v is not None), None)
        if value is None:
            raise GlowError(f"{self.label(names[0])} is missing")
        return value

    def count(self, *names: str, default: int | None = None, most: int = 1 << 40) -> int:
        """A whole number of 1 or more: the first there is of some names, or of one name, else the default."""
        value = self.need(*names) if default is None else self.get(names[0], default)
        if isinstance(value, bool) or not float_like(value) or value != int(value) or value < 1:
            raise GlowError(f"{self.label(names[0])} is {value!r}, expected an integer of 1 or more")
        if value > most:
            raise GlowError(f"{self.label(names[0])} is {value!r}, more than {most}")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """A real number."""
        value = self.get(name, default)
        if not float_like(value):
            raise GlowError(f"{self.label(name)} is {value!r}, expected a number")
        return float(value)

    def divisor(self, name: str, default: float) -> float:
        """A real number other than 0."""
        value = self.number(name, default)
        if not value:
            raise GlowError(f"{self.label(name)} is 0")
        return value


def float_like(value: Any) -> bool:
    """Whether a setting is a finite number."""
    try:
        return not isinstance(value, str | bytes) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False
