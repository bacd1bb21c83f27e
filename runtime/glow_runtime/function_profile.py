"""Where a function spends its operations: the lines of its text, with how often each ran."""

from __future__ import annotations

import linecache
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glow_backends.interpreter.functions import Machine
from glow_dialects.fn.dialect import FuncOp
from glow_dialects.fn.domain import Type
from glow_dialects.fn.syntax import FnOp
from glow_passes.fn.inference import infer
from glow_runtime.functions import FunctionProgram


@dataclass(frozen=True)
class Line:
    """One line of text: `file:line`, the text, how often it ran, and the operations that it ran."""

    where: str
    text: str
    times: int
    operations: int


@dataclass(frozen=True)
class FunctionProfile:
    """One run: where it ran, seconds of the call with counters in it, lines in order of operations."""

    backend: str
    seconds: float
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        total = sum(line.operations for line in self.lines) or 1
        rows = [
            f"{self.seconds * 1e3:.3f} ms on {self.backend}, {total} operations",
            "     times  share  line",
        ]
        for line in self.lines:
            share = 100 * line.operations / total
            rows.append(f"{line.times:10d} {share:5.1f}%  {line.where}  {line.text}")
        return "\n".join(rows)


def profile(program: FunctionProgram, types: tuple[Type, ...], arguments: Sequence[Any]) -> FunctionProfile:
    """Run a function once with counters; on the backend where the program runs for these types."""
    instance = program.specialize(types, arguments)
    types = program.exactly(types, arguments)
    if instance.native is None:
        machine = Machine(program.module, program.functions)
        machine.counts = {}
        start = time.perf_counter()
        machine.run(program.name, arguments)
        seconds = time.perf_counter() - start
        table = program.functions.table
        return FunctionProfile(
            "interpreter", seconds, _lines((table[n], c) for n, c in machine.counts.items())
        )
    inferred, root = infer(program.functions, program.name, types, instance.types.ahead_only)  # pyright: ignore
    native = program.machine_code(inferred, root, counting=True)
    start = time.perf_counter()
    native(arguments)
    seconds = time.perf_counter() - start
    pairs = ((i.function, int(native.counts[i.number])) for i in inferred.instances)
    return FunctionProfile(program.backend.name, seconds, _lines(pairs))


def _lines(counted: Iterable[tuple[FuncOp, int]]) -> tuple[Line, ...]:
    times: dict[str, int] = {}
    operations: dict[str, int] = {}
    for function, count in counted:
        for op in function.block.ops:
            where = op.source if isinstance(op, FnOp) else ""
            if where and count:
                times[where] = max(times.get(where, 0), count)
                operations[where] = operations.get(where, 0) + count
    lines = [Line(w, _text(w), times[w], operations[w]) for w in times]
    return tuple(sorted(lines, key=lambda line: -line.operations))


def _text(where: str) -> str:
    file, _, number = where.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""
