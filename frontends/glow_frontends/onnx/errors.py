"""Reasons for which a node cannot be imported, raised by rules and collected by the importer."""

from __future__ import annotations

from xdsl.ir import SSAValue


class RuleError(Exception):
    """The node asks for something that its rule does not do; the message is the problem's reason."""


class NeedsValue(RuleError):
    """A shape, axis or condition is computed at run time: `value` must be known to go on."""

    def __init__(self, value: SSAValue | None, what: str) -> None:
        self.value = value
        super().__init__(f"{what} depends on run-time data")


class NeedsHost(NeedsValue):
    """The operator works on run-time data in a way that no compiled graph expresses."""

    def __init__(self, op: str) -> None:
        super().__init__(None, f"the result of {op}")
