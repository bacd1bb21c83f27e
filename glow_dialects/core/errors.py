"""Errors shown to users: each message says what is wrong, where, and what to do."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from dataclasses import dataclass


class GlowError(Exception):
    """The base class of all errors that a user can cause."""


class UnsupportedError(GlowError):
    """A valid program needs something that this compiler or backend does not support."""


class ShapeError(GlowError):
    """Shapes do not match, or a dynamic dimension has no value."""


class UnknownNumberError(ShapeError):
    """A number that shapes depend on is not known at compile time."""


class CompileError(GlowError):
    """Compilation failed, although the program is valid."""


class BindingError(GlowError):
    """An input of a run has a wrong name, shape or element type."""


class ClosedError(GlowError):
    """An object was used after it was closed."""


class PartitionError(GlowError):
    """A network cannot be partitioned in this way: partitions would wait for each other, or memory is too
    small.
    """


class NetworkError(GlowError):
    """A host has no network with this name, or cannot change it now."""


class RefusedError(GlowError):
    """A host has too many requests; try again later."""


class DeadlineError(GlowError, TimeoutError):
    """A request took longer than its timeout."""


class DeviceError(GlowError):
    """A device failed, or no longer exists."""


class DeviceMemoryError(DeviceError):
    """A device does not have enough memory for a function."""


class RaisedError(GlowError):
    """A `raise` or `assert` of a compiled function; also of the class that it raises, where built in."""


def missing_values(name: str) -> CompileError:
    """The error of a constant whose weights nobody has."""
    return CompileError(f"constant @{name} has no values: its weights file is missing")


def internal(error: Exception, place: str) -> str:
    """The message for an exception that only a mistake of ours can raise.

    With GLOW_STRICT in the environment, as in the tests, it is raised instead.
    """
    if os.environ.get("GLOW_STRICT"):
        raise error
    return (
        f"internal error in {place}: {type(error).__name__} {error}".strip()
        + "; this is a bug in the compiler, please report it"
    )


def raised(kind: str, message: str, where: str) -> RaisedError:
    """The error of a `raise` of a class of this name, at a place in the source."""
    base: object = getattr(builtins, kind, None)
    bases: tuple[type, ...] = (RaisedError,)
    if isinstance(base, type) and issubclass(base, Exception):
        bases = (RaisedError, base)
    both = type(kind, bases, {})
    return both(f"{where}: {kind}{': ' if message else ''}{message}")


@dataclass(frozen=True)
class Problem:
    """One problem with one node of a model. `opset` is 0 for formats without operator versions."""

    node: str
    op: str
    opset: int
    reason: str

    def __str__(self) -> str:
        version = f", opset {self.opset}" if self.opset else ""
        return f"node '{self.node}' ({self.op}{version}): {self.reason}"


class ImportProblems(GlowError):
    """A model cannot be imported. `problems` lists everything that is wrong, node by node."""

    def __init__(self, source: str, problems: Sequence[Problem | str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "\n".join(f"  - {p}" for p in self.problems)
        super().__init__(f"{source}: {count} problem{'s' * (count != 1)}\n{lines}")


#: What one does with a model that is no one graph.
_TO_DO = """\
  It is no one graph: glow.compile and glow-run take it, which read such values when it runs; single integers
  that decide are given to other tools by --inputs FILE.npz, and to import_model by values=."""


class NotStatic(ImportProblems):
    """The model is sound, but no one static graph: run-time data decide shapes, or values are no tensors."""

    def __init__(self, source: str, problems: Sequence[Problem | str]) -> None:
        super().__init__(source, problems)
        self.args = (f"{self}\n{_TO_DO}",)


class OpenSizes(Exception):
    """What is compiled has no form for sizes that only the run tells; it is compiled for known ones."""
