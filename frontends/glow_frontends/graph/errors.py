"""Reasons for which an operator cannot be imported, raised by rules and collected by importers."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError


class RuleError(Exception):
    """The operator asks for something that its rule does not do; the message is the problem's reason."""


class NeedsValue(RuleError):
    """A shape, axis or condition is computed at run time: `value` must be known to go on."""

    def __init__(self, value: SSAValue | None, what: str) -> None:
        self.value = value
        super().__init__(f"{what} depends on run-time data")


class NeedsHost(NeedsValue):
    """The operator works on run-time data in a way that no compiled graph expresses."""

    def __init__(self, op: str) -> None:
        super().__init__(None, f"the result of {op}")


#: The exceptions of rules and cards for wrong or unusual operators; anything else is a mistake of ours.
FAILURES = (RuleError, VerifyException, GlowError)
