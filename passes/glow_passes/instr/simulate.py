"""Cycle counts of an instruction function on a device: in-order issue, parallel units with queues."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from xdsl.ir import Block, SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import DeallocOp, InstrFuncOp
from glow_passes.instr.machine import Machine, Work

ISSUE = 1
"""Cycles in which an asynchronous instruction is handed to its unit."""


class Event(NamedTuple):
    """An instruction on a unit, from one cycle to another."""

    unit: str
    name: str
    start: int
    end: int


@dataclass
class Timeline:
    """What each unit did when; `stalls` are the cycles in which the issuer waited for tokens and queues."""

    events: list[Event] = field(default_factory=list[Event])
    cycles: int = 0
    stalls: int = 0

    @staticmethod
    def joined(parts: Sequence[Timeline]) -> Timeline:
        """Timelines one after another."""
        whole = Timeline()
        for part in parts:
            at = whole.cycles
            whole.events += [e._replace(start=e.start + at, end=e.end + at) for e in part.events]
            whole.cycles += part.cycles
            whole.stalls += part.stalls
        return whole

    def busy(self) -> Counter[str]:
        """The cycles in which each unit worked."""
        total: Counter[str] = Counter()
        for event in self.events:
            total[event.unit] += event.end - event.start
        return total

    @property
    def bound(self) -> int:
        """The cycles that no order of the same instructions is below: those of the busiest unit."""
        return max(self.busy().values(), default=0)

    def text(self, width: int = 72) -> str:
        """A line for each unit: `#` where it works for most of a column's time, `.` for some of it."""
        busy = self.busy()
        label = max(map(len, busy), default=0)
        lines: list[str] = []
        for unit in sorted(busy):
            cells = [0.0] * width
            scale = width / max(1, self.cycles)
            for _, _, start, end in (e for e in self.events if e.unit == unit):
                for cell in range(int(start * scale), min(width, int(end * scale) + 1)):
                    cells[cell] += max(0.0, min(end * scale, cell + 1) - max(start * scale, cell))
            line = "".join("#" if c > 0.5 else "." if c > 0 else " " for c in cells)
            lines.append(f"{unit:{label}} |{line}| {busy[unit]} of {self.cycles}")
        return "\n".join(lines)

    def trace(self) -> str:
        """The events in the format of Chrome's and Perfetto's viewers, a cycle a microsecond."""
        units = sorted(self.busy())
        rows = [
            {"ph": "X", "name": name, "pid": 0, "tid": units.index(unit), "ts": start, "dur": end - start}
            for unit, name, start, end in self.events
        ]
        names = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": unit}}
            for number, unit in enumerate(units)
        ]
        return json.dumps({"traceEvents": names + rows})

    def svg(self, width: int = 1000) -> str:
        """The events as a picture, a row for each unit."""
        busy, scale = self.busy(), width / max(1, self.cycles)
        rows: list[str] = []
        for row, unit in enumerate(sorted(busy)):
            label = f"{unit}: {busy[unit]} cycles, {100 * busy[unit] / max(1, self.cycles):.0f} %"
            rows.append(f'<text x="4" y="{30 * row + 20}">{escape(label)}</text>')
            events = sorted((e for e in self.events if e.unit == unit), key=lambda e: e.start)
            rows += _boxes(events, scale, 30 * row + 5, COLOURS[row % len(COLOURS)])
        end = 30 * len(busy) + 20
        rows.append(f'<text x="250" y="{end}">{self.cycles} cycles, {self.stalls} of them waiting</text>')
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 260}" height="{end + 10}" '
        return "\n".join([head + 'font-family="sans-serif" font-size="12">', *rows, "</svg>"]) + "\n"


COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_NARROW = 0.3
"""The least width of what is drawn: what ends sooner is left out."""


def _boxes(events: Sequence[Event], scale: float, top: int, colour: str) -> Iterator[str]:
    """The events of one unit, in order."""
    end = 0.0
    for event in events:
        if event.end * scale - end < _NARROW:
            continue
        left, end = max(end, event.start * scale), event.end * scale
        size = f'x="{250 + left:.1f}" y="{top}" width="{end - left:.1f}" height="20"'
        told = escape(f"{event.name}: {event.start} to {event.end}")
        yield f'<rect {size} fill="{colour}" stroke="white" stroke-width="0.2"><title>{told}</title></rect>'


class Clock:
    """The state of a device between instructions; schedulers try instructions on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now = 0
        self.free: defaultdict[str, int] = defaultdict(int)
        self.queues: defaultdict[str, list[int]] = defaultdict(list)
        self.done: dict[SSAValue, int] = {}
        self.known: dict[InstrOp, tuple[list[SSAValue], Work | None]] = {}

    def issue_at(self, op: InstrOp) -> int:
        """The cycle in which an instruction, whose tokens are under way, can be issued."""
        tokens, work = self.facts(op)
        at = self.now
        for token in tokens:
            at = max(at, self.done.get(token, 0))
        if work is None:
            return at
        if not op.results:
            return max(at, self.free[work.unit])
        ends = [end for end in self.queues[work.unit] if end > at]
        depth = self.machine.units()[work.unit]
        return at if len(ends) < depth else sorted(ends)[-depth]

    def issue(self, op: InstrOp) -> Event | None:
        """Run or start an instruction."""
        at = self.issue_at(op)
        tokens, work = self.facts(op)
        for token in tokens:
            self.done.pop(token, None)
        self.now = at
        if work is None:
            return None
        unit, cycles = work
        start = max(at, self.free[unit])
        end = self.free[unit] = start + cycles
        if op.results:
            self.queues[unit] = [e for e in self.queues[unit] if e > at] + [end]
            self.done |= dict.fromkeys(op.results, end)
            self.now = at + ISSUE
        else:
            self.now = end
        return Event(unit, op.name.partition(".")[2], start, end)

    def facts(self, op: InstrOp) -> tuple[list[SSAValue], Work | None]:
        """What an instruction waits for and costs, nothing where it only waits.

        UnsupportedError where the device has not the unit.
        """
        if op in self.known:
            return self.known[op]
        work = self.machine.work(op) if op.buffers() else None
        units = self.machine.units()
        if work is not None and work.unit not in units:
            there = ", ".join(units) or "none"
            raise UnsupportedError(f"{op.name} runs on unit '{work.unit}'; there are: {there}")
        self.known[op] = facts = (op.operand_tokens(), work)
        return facts

    def hand_on(self, tokens: Sequence[SSAValue], names: Sequence[SSAValue]) -> None:
        """Give what tokens stand for other names, all at once."""
        due = [self.done.pop(token, 0) for token in tokens]
        self.done |= dict(zip(names, due, strict=True))


def simulate(function: InstrFuncOp, machine: Machine) -> Timeline:
    """The timeline of a function; loops are run turn by turn."""
    clock, timeline = Clock(machine), Timeline()

    def run(block: Block) -> None:
        for op in block.ops:
            if isinstance(op, ForOp):
                tokens: Sequence[SSAValue] = op.tokens
                for _ in op.turns:
                    clock.hand_on(tokens, op.carried)
                    run(op.block)
                    tokens = op.yielded
                clock.hand_on(tokens, op.last)
            elif isinstance(op, InstrOp) and not isinstance(op, DeallocOp):
                before = clock.now
                timeline.stalls += clock.issue_at(op) - before
                event = clock.issue(op)
                if event is not None:
                    timeline.events.append(event)

    run(function.block)
    timeline.cycles = max([clock.now, *(e.end for e in timeline.events)])
    return timeline


__all__ = ["Clock", "Event", "Timeline", "simulate"]
