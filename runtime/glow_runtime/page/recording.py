"""Recording of a compilation for its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Generic, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.types import bytes_of
from glow_dialects.instr.memory import AllocOp, DeallocOp, InstrFuncOp, instr_functions
from glow_passes.listing import Listing
from glow_runtime.page.nodes import Node, Numbers, nodes

_T = TypeVar("_T")


class _Table(Generic[_T]):
    """Each thing once, by number."""

    def __init__(self) -> None:
        self.items: dict[_T, int] = {}

    def number(self, item: _T) -> int:
        """The number of a thing."""
        return self.items.setdefault(item, len(self.items))


@dataclass
class Recording:
    """The steps of a compilation: after each pass that changed it, the lines and the graph of the module."""

    title: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    warnings: list[str] = field(default_factory=list[str])
    kernels: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    memory: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __post_init__(self) -> None:
        self._listing, self._numbers = Listing(), Numbers()
        self._lines, self._nodes = _Table[str](), _Table[Node]()
        self._counts: Counter[str] = Counter()
        self._last: list[int] = []

    def begin(self, module: ModuleOp) -> None:
        """The module before the first pass."""
        self.step(module, "", "input", 0.0, 0.0, True)

    def step(
        self, module: ModuleOp, phase: str, name: str, seconds: float, verifying: float, changed: bool
    ) -> None:
        """The module after a pass that took so long."""
        step: dict[str, Any] = {"phase": phase, "name": name, "seconds": seconds, "verifying": verifying}
        if changed:
            counts = Counter(op.name for op in module.walk())
            names = sorted(counts.keys() | self._counts.keys())
            step["counts"] = {n: d for n in names if (d := counts[n] - self._counts[n])}
            lines = [self._lines.number(line) for line in self._listing.text(module).splitlines()]
            matcher = SequenceMatcher(None, self._last, lines, autojunk=False)
            step["edits"] = [edit[1:] for edit in matcher.get_opcodes() if edit[0] != "equal"]
            step["lines"] = lines
            step["nodes"] = [self._nodes.number(node) for node in nodes(module, self._numbers, self._listing)]
            self._counts, self._last = counts, lines
        self.steps.append(step)

    def end(self, module: ModuleOp) -> None:
        """The module after the last pass, of which buffers may have places by now."""
        self.memory = [_lives(f) for f in instr_functions(module) if f.arena is not None]

    def data(self) -> Mapping[str, Any]:
        """All of it, as a page reads it."""
        return {
            "title": self.title,
            "seconds": self.seconds,
            "steps": self.steps,
            "lines": list(self._lines.items),
            "nodes": list(self._nodes.items),
            "memory": self.memory,
            "kernels": self.kernels,
            "warnings": self.warnings,
        }


def _lives(function: InstrFuncOp) -> dict[str, Any]:
    """The buffers of a planned function: from which instruction to which each lives, and where."""
    begun: dict[SSAValue, int] = {}
    buffers: list[tuple[str, int, int, int, int]] = []
    labels: list[str] = []
    for op in function.program():
        if isinstance(op, AllocOp):
            begun[op.result] = len(labels)
        elif isinstance(op, DeallocOp):
            alloc = op.buffer.owner
            if isinstance(alloc, AllocOp) and alloc.offset is not None:
                hint = op.buffer.name_hint or str(op.buffer.type)
                place = alloc.offset.value.data, bytes_of(op.buffer.type)
                buffers.append((hint, begun[op.buffer], len(labels), *place))
        else:
            labels.append(op.name)
    return {"function": function.sym_name.data, "labels": labels, "buffers": buffers}
