"""Instrumentation of passes: prints, differences, dumps, times, statistics, bisection, reproducers."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import IO, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from glow_dialects.core.times import Times
from glow_passes.analysis import Kept, keeping
from glow_passes.changes import Snapshot
from glow_passes.contract import check_order, preserved
from glow_passes.failure import named_failure
from glow_passes.listing import Listing, difference

When = Literal["never", "before", "after", "changed", "diff", "failure"]
#: Told of each pass: its name and options, seconds, those of verification, whether it changed anything.
Observe = Callable[[str, float, float, bool], None]


@dataclass
class Instrumentation:
    """Options of a run. `print_ir` says when to print; `dump` is a folder for one file a pass.

    `print_passes` and `print_functions` are globs, such as `glow-cpu-*`, of what is printed.
    """

    print_ir: When = "never"
    print_passes: str = "*"
    print_functions: str = "*"
    dump: Path | None = None
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
    observe: Observe | None = None
    stream: IO[str] = field(default_factory=lambda: sys.stderr)


def text_of(module: ModuleOp) -> str:
    """The module as printed."""
    out = StringIO()
    Printer(out).print_op(module)
    return out.getvalue() + "\n"


def functions_of(module: ModuleOp, pattern: str) -> list[Operation]:
    """The functions of a module whose name a glob fits; for `*` the module itself."""
    if pattern == "*":
        return [module]
    named = ((op, op.get_attr_or_prop("sym_name")) for op in module.ops if op.regions)
    return [op for op, name in named if isinstance(name, StringAttr) and fnmatchcase(name.data, pattern)]


#: Called with the number and name of a pass, and "before" or "after".
Watcher = Callable[[int, str, str], None]


class InstrumentedRun:
    """Runs passes in order under an Instrumentation."""

    def __init__(self, context: Context, options: Instrumentation) -> None:
        self.context = context
        self.options = options
        #: Each pass, its seconds and those of the verification behind it.
        self.times: list[tuple[str, float, float]] = []
        self._listing, self._lines = Listing(), list[str]()
        self.now: Snapshot | None = None

    def run(self, module: ModuleOp, passes: Sequence[ModulePass], watch: Watcher | None = None) -> None:
        """Apply `passes`; a failing pass leaves a reproducer where one was asked for.

        `watch` is told the number and name of each pass, "before" and "after" it.
        """
        check_order(module, passes)
        self.now = Snapshot(module)
        if self.options.print_ir == "diff":
            self._lines = self._listed(module)
        if self.options.check is not None:
            self.options.check(module)
        with keeping() as kept:
            self._all(module, passes, watch, kept)

    def _all(self, module: ModuleOp, passes: Sequence[ModulePass], watch: Watcher | None, kept: Kept) -> None:
        limit = self.options.bisect_limit
        for number, item in enumerate(passes):
            if limit is not None and number >= limit:
                print(f"bisect: stopped before pass {number + 1}, {item.name}", file=self.options.stream)
                break
            if watch is not None:
                watch(number, item.name, "before")
            if self._one(number, module, item, passes[number:]):
                kept.invalidate(preserved(item))
            if watch is not None:
                watch(number, item.name, "after")

    def add_times(self, whole: Times) -> None:
        """Passes with their options, and verification as a row of its own, as parts of a tree."""
        for name, seconds, _ in self.times:
            whole.add(name, seconds)
        whole.add("verification", sum(check for _, _, check in self.times))

    def seconds(self) -> dict[str, float]:
        """The seconds of all passes, and of verification."""
        work, check = (sum(times) for times in zip(*(t[1:] for t in self.times), strict=True))
        return {"passes": work, "verification": check}

    def _one(self, number: int, module: ModuleOp, item: ModulePass, rest: Sequence[ModulePass]) -> bool:
        options = self.options
        printing = options.print_ir if fnmatchcase(item.name, options.print_passes) else "never"
        watching = printing not in ("never", "diff") or options.dump or options.reproducer
        before = text_of(module) if watching else ""
        weights = options.weights(module) if watching and options.weights else None
        counts = Counter(op.name for op in module.walk()) if options.statistics else Counter[str]()
        if printing == "before":
            self._print(f"before {item.name}", module, before)
        start = time.perf_counter()
        try:
            item.apply(self.context, module)
            middle = time.perf_counter()
            self.now = Snapshot(module, self.now)
            changed = self.now.changes()
            if options.verify_each and changed:
                self.now.verify()
            if options.check is not None and changed:
                options.check(module)
        except Exception as error:
            if printing == "failure":
                self._say(f"before failing {item.name}", before)
            spec = ",".join(str(p.spec()) for p in rest)
            self.reproduce(f"-p '{spec}'", before, weights)
            failure = named_failure(error, item)
            if failure is error:
                raise
            raise failure from error
        self.times.append((str(item.spec()), middle - start, time.perf_counter() - middle))
        if options.observe is not None:
            options.observe(*self.times[-1], changed)
        after = text_of(module) if watching else ""
        if printing == "after" or (printing == "changed" and changed):
            self._print(f"after {item.name}", module, after)
        if options.print_ir == "diff" and changed:
            self._difference(module, item, printing == "diff")
        if options.dump is not None:
            self._dump(options.dump, f"{number + 1:03d}-{item.name}", module, after)
        if options.statistics:
            self._statistics(item.name, counts, module)
        return changed

    def _dump(self, folder: Path, name: str, module: ModuleOp, text: str) -> None:
        """Write the module, and its weights."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.mlir"
        file.write_text(text)
        if self.options.weights is not None:
            self.options.weights(module)(file)

    def _difference(self, module: ModuleOp, item: ModulePass, printing: bool) -> None:
        """Print what a pass changed, if that is to be printed; the next pass is compared with this module."""
        lines = self._listed(module)
        if printing and lines != self._lines:
            print(difference(self._lines, lines, item.name), end="", file=self.options.stream)
        self._lines = lines

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

    def _listed(self, module: ModuleOp) -> list[str]:
        """The lines of the functions that are printed, values under the names that they had before."""
        chosen = functions_of(module, self.options.print_functions)
        return [line for op in chosen for line in self._listing.text(op).splitlines()]

    def _print(self, what: str, module: ModuleOp, text: str) -> None:
        """Print the functions that are wanted; `text` is the whole module's."""
        if self.options.print_functions != "*":
            chosen = functions_of(module, self.options.print_functions)
            text = "".join(f"{Listing().text(op)}\n" for op in chosen)
        if text:
            self._say(what, text)

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
