"""The map of code for `perf`: /tmp/perf-PID.map, lines of address, bytes and name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from glow_backends.cpu.debug.elf import Object, Symbol
from glow_backends.cpu.debug.source import SHOWN, Source, Step
from glow_backends.cpu.jit import Linked
from glow_backends.cpu.support import MAIN
from glow_dialects.core.location import shortened

_AFTER = 4
"""Bytes from what a call refers to up to the instruction behind it, on x86-64 and AArch64."""


def write_map(linked: Linked, objects: Sequence[bytes], source: Source) -> None:
    """Add the functions of a program.

    A kernel is called after the nodes that it computes. In the program function each call, up to the
    instruction behind it, is called after its own: who calls a kernel of several nodes tells them apart.
    """
    path = Path("/tmp") / f"perf-{os.getpid()}.map"  # where perf looks for it, whatever TMPDIR says
    nodes: dict[str, dict[str, None]] = {}
    for step in source.steps:
        for callee in step.callees:
            nodes.setdefault(callee, {}).update(dict.fromkeys(step.nodes))
    lines: list[str] = []
    for code in map(Object, objects):
        for symbol, address in _placed(code, linked):
            if symbol.name == MAIN:
                lines += _calls(code, symbol, address, source.steps)
            else:
                called = shortened(tuple(nodes.get(symbol.name, ())), SHOWN)
                name = f"{called} [{symbol.name}]" if called else symbol.name
                lines.append(_line(address, symbol.size, name))
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def _placed(code: Object, linked: Linked) -> Iterator[tuple[Symbol, int]]:
    """The functions of an object with their addresses: local ones lie beside one that is exported."""
    bases = code.bases(linked.address)
    for symbol in code.symbols:
        if symbol.is_function and symbol.section in bases:
            yield symbol, bases[symbol.section] + symbol.offset


def _calls(code: Object, main: Symbol, address: int, steps: Sequence[Step]) -> Iterator[str]:
    """The program function in pieces, one for each call of a step."""
    called = {step.callees[0] for step in steps}
    places = [place for place, name in code.references(main.section) if name in called]
    start = main.offset
    if len(places) == len(steps):
        for place, step in zip(places, steps, strict=True):
            end = place + _AFTER
            yield _line(address + start - main.offset, end - start, f"{MAIN}: {step.name}")
            start = end
    yield _line(address + start - main.offset, main.offset + main.size - start, MAIN)


def _line(address: int, size: int, name: str) -> str:
    return f"{address:x} {size:x} {' '.join(name.split())}\n"
