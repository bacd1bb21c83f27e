"""Programs of one file, and errors that comments in it announce.

`// expected-error {{text}}` stands on the line of the error, `// expected-error@+1 {{text}}` on the line
before it, `// expected-error@unknown {{text}}` anywhere. Errors without a line, as those of orders
of passes, are announced by any comment of their program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from glow_dialects.core.errors import GlowError
from glow_dialects.core.verify import culprit
from glow_passes.failure import file_of
from glow_tools.common import describe

#: A line between programs.
SEPARATOR = re.compile(r"^// ?-----\s*$", re.MULTILINE)
_EXPECTED = re.compile(r"//\s*expected-error(?:@([+-]\d+|unknown))?\s*\{\{(.*?)\}\}")
#: What a program can be wrong by.
ERRORS = (VerifyException, ParseError, PassFailedException, GlowError)


@dataclass(frozen=True)
class Part:
    """A program of a file, with empty lines in front so that its lines have the numbers of the file."""

    text: str
    start: int

    def expected(self) -> list[Expected]:
        """The errors that comments announce."""
        found: list[Expected] = []
        for number, line in enumerate(self.text.split("\n"), 1):
            for where, text in _EXPECTED.findall(line):
                at = None if where == "unknown" else number + int(where or 0)
                found.append(Expected(number, at, text))
        return found


@dataclass(frozen=True)
class Expected:
    """An error that a comment on line `number` announces, for line `at` (None: any) and with a text."""

    number: int
    at: int | None
    text: str

    def fits(self, message: str, line: int | None) -> bool:
        """Whether an error is this one."""
        return self.text in message and (self.at is None or line is None or self.at == line)


def parts_of(text: str, split: bool) -> list[Part]:
    """The programs of a file; with `split`, those between lines `// -----`."""
    if not split:
        return [Part(text, 1)]
    parts: list[Part] = []
    begin = 0
    for end in (*(m.span() for m in SEPARATOR.finditer(text)), (len(text), len(text))):
        lines = text.count("\n", 0, begin)
        parts.append(Part("\n" * lines + text[begin : end[0]], lines + 2 if begin else 1))
        begin = end[1]
    return parts


def line_of(error: Exception, file: str) -> int | None:
    """The line of an error, where it has one in this file."""
    op = culprit(error)
    if op is not None:
        place = file_of(op)
        return place.line.data if place is not None and place.filename.data == file else None
    if not isinstance(error, ParseError):
        return None
    return str(error.span.input.content)[: error.span.start].count("\n") + 1


@dataclass
class Outcome:
    """The outputs for the programs of a file, an error as `error: ..`, and errors that were not announced."""

    outputs: list[str]
    errors: list[str]
    problems: list[str]

    def text(self, errors: bool) -> str:
        """The outputs one after another, with or without those that are errors."""
        kept = [o for o in self.outputs if errors or not o.startswith("error: ")]
        return "\n// -----\n\n".join(kept)


def verified(parts: list[Part], name: str, run: Callable[[Part], str]) -> Outcome:
    """Run each program; errors that are not announced, and announced ones that are missing, are problems."""
    outputs: list[str] = []
    errors: list[str] = []
    problems: list[str] = []
    for part in parts:
        expected = part.expected()
        try:
            outputs.append(run(part))
        except ERRORS as error:
            message, line = describe(error), line_of(error, name)
            outputs.append(f"error: {message}\n")
            placed = len(parts) == 1 or message.startswith(f"{name}:")
            errors.append(message if placed else f"{name}:{part.start}: {message}")
            announced = next((e for e in expected if e.fits(message, line)), None)
            if announced is None:
                problems.append(f"{name}:{line or part.start}: unexpected error: {message}")
            else:
                expected.remove(announced)
        problems += [f"{name}:{e.number}: expected error {{{{{e.text}}}}} was not reported" for e in expected]
    return Outcome(outputs, errors, problems)
