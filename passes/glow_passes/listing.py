"""Modules as lines in which a value keeps its name from pass to pass, so that only what changed differs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from io import StringIO

from xdsl.ir import Block, Operation
from xdsl.printer import Printer


class Listing(Printer):
    """A printer that remembers the names of values: no two have one name, whatever it prints."""

    def text(self, op: Operation) -> str:
        """An operation as printed."""
        self.stream = StringIO()
        self.print_op(op)
        return self.stream.getvalue()

    def enter_scope(self) -> None:
        """Functions have no names of their own."""

    def exit_scope(self) -> None:
        """Nor do they give them back."""

    def _populate_block_name(self, block: Block, block_index: int | None = None) -> None:
        if block not in self._blocks:
            super()._populate_block_name(block, block_index)


def difference(before: Sequence[str], after: Sequence[str], name: str) -> str:
    """What a pass changed, in the unified form of `diff`."""
    lines = unified_diff(before, after, f"before {name}", f"after {name}", n=2, lineterm="")
    return "\n".join(lines) + "\n"
