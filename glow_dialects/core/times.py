"""Times of the stages of a run, as a tree that adds up."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO


@dataclass
class Times:
    """Seconds of a part and of the parts within it; what they leave is the rest."""

    name: str = "total"
    seconds: float = 0.0
    parts: list[Times] = field(default_factory=list["Times"])

    @contextmanager
    def part(self, name: str) -> Generator[Times]:
        """Measure a part; several of one name are one."""
        known = next((p for p in self.parts if p.name == name), None)
        child = known or Times(name)
        if known is None:
            self.parts.append(child)
        start = time.perf_counter()
        try:
            yield child
        finally:
            child.seconds += time.perf_counter() - start

    def add(self, name: str, seconds: float) -> None:
        """A part that took so long; others of its name stay beside it."""
        self.parts.append(Times(name, seconds))

    def print(self, stream: IO[str]) -> None:
        """A row each part, below the whole; rows at one depth add up to the row above them."""
        whole = self.seconds or 1e-12
        print(f"total {self.seconds * 1e3:.1f} ms", file=stream)
        self._rows(stream, whole, 1)

    def _rows(self, stream: IO[str], whole: float, depth: int) -> None:
        rest = self.seconds - sum(p.seconds for p in self.parts)
        shown = [*self.parts, Times("rest", max(rest, 0.0))] if self.parts else []
        for part in shown:
            share = f"{part.seconds * 1e3:8.1f} ms {100 * part.seconds / whole:5.1f} %"
            print(f"{'  ' * depth}{share}  {part.name}", file=stream)
            part._rows(stream, whole, depth + 1)
