"""glow-opt --validate: check that each pass keeps the results of the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glow_backends.interpreter.modules import run_module
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_tools.closeness import Tolerance, difference

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_tools.input_values import Feed


class ChangedValueError(GlowError):
    """A pass changed what a program computes."""


@dataclass
class Validator:
    """Runs programs with the interpreter; `known` are the values that outputs and states had first."""

    feed: Feed
    tolerance: Tolerance
    known: dict[str, Array] = field(default_factory=dict[str, "Array"])
    #: Why there is nothing more to run.
    ended: str = ""

    def __str__(self) -> str:
        until = f"up to the level that the interpreter runs ({self.ended})" if self.ended else ""
        return f"validated{until and ' '}{until}: every output is what it was before the first pass"

    def __call__(self, module: ModuleOp) -> None:
        """ChangedValueError where an output is not what it was; outputs that are new are remembered."""
        if self.ended:
            return
        try:
            values = run_module(module, self.feed)
        except UnsupportedError as error:
            if not self.known:
                raise
            self.ended = str(error)
            return
        for name, value in values.items():
            d = difference(value, self.known.setdefault(name, value), self.tolerance)
            if d.bad:
                raise ChangedValueError(f"output '{name}' is not what it was before the first pass: {d}")
