"""Instrumentation of passes: prints, dumps, times, statistics, bisection, reproducers."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from glow_passes.changes import Snapshot
from glow_passes.contract import check_order
from glow_passes.failure import named_failure

When = Literal["never", "before", "after", "changed", "failure"]


@dataclass
class Instrumentation:
    """Options of a run. `print_ir` says when to print; `dump` is a folder for one file a pass."""

    print_ir: When = "never"
    dump: Path | None = None
    timing: bool = False
    statistics: bool = False
    verify_each: bool = True
    #: Called with the module before the first pass, and after each that changed it; raises where it is wrong.
    check: Callable[[ModuleOp], None] | None = None
    bisect_limit: int | None = None
    reproducer: Path | None = None
    #: Options of glow-opt that the command of a reproducer repeats.
    repeated: str = ""
    #: The arrays that a module has now, as what writes them beside a file.
    weights: Callable[[ModuleOp], Callable[[Path], None]] | None = None
    stream: IO[str] = field(default_factory=lambda: sys.stderr)


def text_of(module: ModuleOp) -> str:
    """The module as printed."""
    from io import StringIO

    out = StringIO()
    Printer(out).print_op(module)
    return out.getvalue() + "\n"


#: Called with the number and name of a pass, and "before" or "after".
Watcher = Callable[[int, str, str], None]


class InstrumentedRun:
    """Runs passes in order under an Instrumentation."""

    def __init__(self, context: Context, options: Instrumentation) -> None:
        self.context = context
        self.options = options
        self.times: list[tuple[str, float, float]] = []
        self.now: Snapshot | None = None

    def run(self, module: ModuleOp, passes: Sequence[ModulePass], watch: Watcher | None = None) -> None:
        """Apply `passes`; a failing pass leaves a reproducer where one was asked for.

        `watch` is told the number and name of each pass, "before" and "after" it.
        """
        check_order(module, passes)
        self.now = Snapshot(module)
        if self.options.check is not None:
            self.options.check(module)
        limit = self.options.bisect_limit
        for number, item in enumerate(passes):
            if limit is not None and number >= limit:
                print(f"bisect: stopped before pass {number + 1}, {item.name}", file=self.options.stream)
                break
            if watch is not None:
                watch(number, item.name, "before")
            self._one(number, module, item, passes[number:])
            if watch is not None:
                watch(number, item.name, "after")

    def print_times(self) -> None:
        """The table of times, where it was asked for."""
        if self.options.timing:
            self._print_times()

    def _one(self, number: int, module: ModuleOp, item: ModulePass, rest: Sequence[ModulePass]) -> None:
        options = self.options
        watching = options.print_ir != "never" or options.dump or options.reproducer
        before = text_of(module) if watching else ""
        weights = options.weights(module) if watching and options.weights else None
        counts = Counter(op.name for op in module.walk()) if options.statistics else Counter[str]()
        if options.print_ir == "before":
            self._say(f"before {item.name}", before)
        start = time.perf_counter()
        try:
            item.apply(self.context, module)
            middle = time.perf_counter()
            earlier, self.now = self.now, Snapshot(module)
            changed = earlier is None or not earlier.same(self.now)
            if options.verify_each and changed:
                assert earlier is not None
                self.now.verify(earlier)
            if options.check is not None and changed:
                options.check(module)
        except Exception as error:
            if options.print_ir == "failure":
                self._say(f"before failing {item.name}", before)
            spec = ",".join(str(p.spec()) for p in rest)
            self.reproduce(f"-p '{spec}'", before, weights)
            failure = named_failure(error, item)
            if failure is error:
                raise
            raise failure from error
        self.times.append((str(item.spec()), middle - start, time.perf_counter() - middle))
        after = text_of(module) if watching else ""
        if options.print_ir == "after" or (options.print_ir == "changed" and changed):
            self._say(f"after {item.name}", after)
        if options.dump is not None:
            options.dump.mkdir(parents=True, exist_ok=True)
            file = options.dump / f"{number + 1:03d}-{item.name}.mlir"
            file.write_text(after)
            if options.weights is not None:
                options.weights(module)(file)
        if options.statistics:
            self._statistics(item.name, counts, module)

    def reproduce(self, command: str, text: str, weights: Callable[[Path], None] | None) -> None:
        """Write what repeats a failure, where that was asked for: the module, its weights, the command."""
        file = self.options.reproducer
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"// RUN: glow-opt %s {command}{self.options.repeated}\n{text}")
        if weights is not None:
            weights(file)
        again = f"glow-opt --run-reproducer {file}"
        print(f"reproducer written to {file}; {again} repeats the failure", file=self.options.stream)

    def _say(self, what: str, text: str) -> None:
        print(f"// ----- {what}\n{text}", file=self.options.stream)

    def _statistics(self, name: str, before: Counter[str], module: ModuleOp) -> None:
        now = Counter(op.name for op in module.walk())
        changes = [
            f"{op} {now[op] - before[op]:+d}"
            for op in sorted(now.keys() | before.keys())
            if now[op] != before[op]
        ]
        print(f"{name}: {', '.join(changes) or 'no change'}", file=self.options.stream)

    def _print_times(self) -> None:
        """Passes with their options, verification as a row of its own: the rows add up."""
        total = sum(a + b for _, a, b in self.times) or 1e-12
        rows = [(name, work) for name, work, _ in self.times]
        rows.append(("verification", sum(check for _, _, check in self.times)))
        print(f"total {total * 1e3:.1f} ms", file=self.options.stream)
        for name, seconds in rows:
            print(
                f"  {seconds * 1e3:8.1f} ms {100 * seconds / total:5.1f} %  {name}", file=self.options.stream
            )
