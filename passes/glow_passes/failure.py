"""Failures of passes, with the name of the pass: one that breaks the program is not blamed on the program."""

from __future__ import annotations

import re
from io import StringIO

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import CompileError, GlowError
from glow_dialects.core.location import names, parts_of, shortened
from glow_dialects.core.remedies import with_remedy
from glow_dialects.core.verify import culprit

#: What only a mistake in a pass raises.
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError) + (
    TypeError,
    ValueError,
)


class BrokenPassError(CompileError):
    """A pass raised what no program should make it raise, or left a program that does not verify."""

    #: The operation that does not verify.
    operation: Operation | None = None


def named_failure(error: Exception, item: ModulePass) -> Exception:
    """The error of a pass, with the pass and, where the program is broken, the operation."""
    pass_text = str(item.spec())
    if isinstance(error, VerifyException):
        what = f"pass {pass_text} made the program invalid: {reason(error)}{place(error)}"
        broken = BrokenPassError(f"{what}\n  this is a bug in the pass")
        if (op := culprit(error)) is not None:
            broken.operation = op
        return broken
    if isinstance(error, GlowError) or not isinstance(error, MISTAKES):
        error.add_note(f"in pass {pass_text}")
        return error
    what = f"{type(error).__name__}: {reason(error)}"
    return BrokenPassError(f"pass {pass_text} failed: internal error, please report it: {what}")


def message_of(error: VerifyException) -> str:
    """What is wrong with a program: where in its file, what, what to do, and the operation."""
    op = culprit(error)
    file = None if op is None else file_of(op)
    what = reason(error)
    if op is not None and op.name not in what and not re.match(r"\w+\.\w+( @\w+)?: ", what):
        what = f"{op.name}: {what}"
    where = "" if file is None else f"{names(file)[0]}: "
    return f"{where}the program is not valid: {with_remedy(what)}{place(error)}"


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
    """The operation that does not verify, and the nodes of a model that it comes from."""
    op = culprit(error)
    if op is None:
        return ""
    shown = shown_alone(op)
    shown = shown if len(shown) <= PLACE_LENGTH else shown[:PLACE_LENGTH] + "..."
    nodes = names(op.location)
    return f"\n  at {shown}" + (f" (from {shortened(nodes, 3)})" if nodes and file_of(op) is None else "")


def file_of(op: Operation) -> FileLineColLoc | None:
    """The place in the text that an operation was parsed from, if it was."""
    return next((loc for loc in parts_of(op.location) if isinstance(loc, FileLineColLoc)), None)


def shown_alone(op: Operation) -> str:
    """An operation in one line, without its regions, in the generic form: anything can be printed in that."""
    out = StringIO()
    printer = Printer(out, print_generic_format=True)
    if op.regions:
        out.write(f'"{op.name}"()')
        printer.print_op_attributes(op.properties | op.attributes)
    else:
        printer.print_op(op)
    return " ".join(out.getvalue().split())
