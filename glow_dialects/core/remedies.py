"""Advice added to messages of xDSL's parser and verifier."""

from __future__ import annotations

import re

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"operand is used with type (.*), but has been previously used or defined with type (.*)",
        r"write \2 here, or change the operation that defines it",
    ),
    (r"function type expected", "the types are written (operands) -> results, in parentheses"),
    (r"^Expected region|Expected '\{'", "a function has a body in braces"),
    (r"Expected ':'", "the types of operands stand behind a colon"),
    (r"values used but not defined: \[(.*)\]", r"define \1 before, or correct the name"),
    (r"property '(.*)' expected in operation", r"give it: {\1 = ...}"),
    (r"property '(.*)' is not defined by the operation", "leave it out, or correct the name"),
    (r"should be of base attribute (\w+)", r"give one of \1"),
    (r"terminates block .* but is not a terminator", "end the block with a return or yield"),
    (r"Redefinition of symbol \"(.*)\"", r"rename one of the two, or leave it out"),
    (r"Expected (\d+) regions?, but got (\d+)", "write a body in braces behind the operands"),
    (r"Shape mismatch in dense literal", "change the values or the type"),
    (r"needs operandSegmentSizes", "write operandSegmentSizes = array<i32: ...>, one number per group"),
    (r"attribute '(.*)' expected in operation", r"give it: {\1 = ...}"),
    (r"its block is empty", "write a return or yield"),
    (r"scales must be positive", "write one above 0"),
)


def with_remedy(message: str) -> str:
    """A message, and behind it what to do, where that is known and not said."""
    for pattern, remedy in _REMEDIES:
        if match := re.search(pattern, message):
            return f"{message}; {match.expand(remedy)}"
    return message
