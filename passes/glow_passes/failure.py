"""Failures of passes, with the name of the pass: one that breaks the program is not blamed on the program."""

from __future__ import annotations

from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import CompileError, GlowError

#: What only a mistake in a pass raises.
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError) + (
    TypeError,
    ValueError,
)


class BrokenPassError(CompileError):
    """A pass raised what no program should make it raise, or left a program that does not verify."""


def named_failure(error: Exception, item: ModulePass) -> Exception:
    """The error of a pass, with the pass and, where the program is broken, the operation."""
    pass_text = str(item.spec())
    if isinstance(error, VerifyException):
        what = f"pass {pass_text} made the program invalid: {reason(error)}{place(error)}"
        return BrokenPassError(f"{what}\n  this is a mistake of the pass")
    if isinstance(error, GlowError) or not isinstance(error, MISTAKES):
        error.add_note(f"in pass {pass_text}")
        return error
    what = f"{type(error).__name__}: {reason(error)}"
    return BrokenPassError(f"pass {pass_text} failed: internal error, please report it: {what}")


def reason(error: Exception) -> str:
    """The message without the dump of the module that xDSL adds to it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "Underlying verification failure" in line:
            told = line.split(":", 1)[1].strip()
            return told or (lines[number + 1].strip() if number + 1 < len(lines) else line)
    return lines[0] if lines else type(error).__name__


#: Characters of the offending operation that a message shows.
PLACE_LENGTH = 240


def place(error: Exception) -> str:
    """The operation that does not verify, out of the listing that xDSL adds to its errors."""
    lines = "\n".join(getattr(error, "__notes__", ())).splitlines()
    for line, mark in zip(lines, lines[1:], strict=False):
        if mark.strip().startswith("^^"):  # not a label of a block, `^0`
            shown = line.strip()
            return f"\n  at {shown if len(shown) <= PLACE_LENGTH else shown[:PLACE_LENGTH] + '...'}"
    return ""
