"""Report: the time and the results of a compilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from glow_dialects.core.errors import UnsupportedError


@dataclass
class Report:
    """The report of a compilation: seconds a stage, kernels, and bytes."""

    stages: dict[str, float] = field(default_factory=dict[str, float])
    kernels: int = 0
    arena_bytes: int = 0
    weight_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    #: Makes the page of the compilation.
    page: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @property
    def html(self) -> str:
        """The compilation as one page to look at; UnsupportedError where only the program is left."""
        if self.page is None:
            raise UnsupportedError(
                "there is no page of this program: compile the model, and ask its executable"
            )
        return self.page()

    def _repr_html_(self) -> str:
        from glow_passes.tables import table

        rows = [(name, f"{seconds * 1e3:.1f} ms") for name, seconds in self.stages.items()]
        sizes = [("kernels", self.kernels), ("arena", f"{self.arena_bytes:,} bytes")]
        sizes += [("weights", f"{self.weight_bytes:,} bytes"), *self.notes.items()]
        return table("Compilation", ("stage", "time"), rows) + table("", ("size", ""), sizes)
