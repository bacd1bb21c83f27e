"""The source of a program for debuggers: its printed instructions, and the line of each step."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glow_backends.cpu.cache import directory
from glow_backends.cpu.debug.level import DebugInfo
from glow_backends.cpu.select import HostStep, Selection
from glow_backends.cpu.support import HOST
from glow_dialects.core.files import whole
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.location import names, shortened
from glow_dialects.instr.listing import Listing
from glow_dialects.instr.memory import InstrFuncOp

SHOWN = 3
"""Names of a step that computes several nodes, which its function is called after."""


@dataclass(frozen=True)
class Step:
    """A call of the program: its instruction, the line of it, and the names of what it computes."""

    op: InstrOp
    line: int
    nodes: tuple[str, ...]
    #: The function that it calls, then the functions that that calls.
    callees: tuple[str, ...]
    #: What its operands are called in the text.
    operands: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a debugger calls it."""
        return shortened(self.nodes, SHOWN) or self.op.name.partition(".")[2]


@dataclass(frozen=True)
class Source:
    """The printed program, the file that it is to be in, the line where it starts, and its steps in order."""

    text: str
    file: Path
    line: int
    steps: Sequence[Step]
    level: DebugInfo

    def write(self) -> None:
        """Write the file, where debuggers look for it."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole(self.file) as temporary:
            temporary.write_text(self.text, encoding="utf-8")


def printed(
    function: InstrFuncOp, selection: Selection, level: DebugInfo, file: Path | None = None
) -> Source:
    """The source of a planned function, in the cache unless a file is named."""
    listing = Listing(function, nodes=True)
    text = listing.text()
    steps: list[Step] = []
    for step in selection.steps:
        assert step.op is not None
        callees = (HOST,)
        if not isinstance(step, HostStep):
            code = selection.codes.of(step)
            callees = (code.name, *(part.name for part in code.parts))
        operands = tuple(listing.names[v].removeprefix("%") for v in step.op.operands)
        steps.append(Step(step.op, listing.lines[step.op], names(step.op.location), callees, operands))
    file = file or _folder(text) / f"{_stem(function)}.glow"
    return Source(text, file.resolve(), text[: text.index("program {")].count("\n") + 1, steps, level)


def _stem(function: InstrFuncOp) -> str:
    """The name of the model's file, else of the function."""
    module = function.parent_op()
    known = names(module.location) if module is not None else ()
    stem = Path(known[0].partition(":")[0]).stem if known else ""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in stem) or function.sym_name.data


def _folder(text: str) -> Path:
    return _sources() / hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _sources() -> Path:
    """Where sources are: in the cache, else in a folder of this process."""
    base = directory()
    return base / "sources" if base is not None else Path(tempfile.mkdtemp(prefix="glow-sources-"))
