"""A hunt for faults: random graphs on the CPU, the interpreter and onnxruntime, until the time is up.

    python tests/onnx/hunt.py --seconds 600 [--open] [--seed 0] [--keep DIR]        (make hunt)

Graphs run by the dozen in a process of their own; where one fails, each of them in one for itself. Inputs,
outputs and the arena end where a page that nobody may touch begins; the arena is poisoned before each of two
runs, which must agree bit by bit. A process that dies, an exception, and an output that differs from both the
interpreter and onnxruntime, unless rounding decides it (`rounding.py`), end the hunt with 1; the graph is
then reduced to few operators and written to `--keep`. `--open`: graphs whose sizes change from call to call
(`open_graphs.py`).
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import open_graphs
from random_graphs import graph
from rounding import rounding_decides

import glow_compiler as glow
from glow_backends.cpu import program
from glow_backends.cpu.memory import ALIGN, address
from glow_tools.onnxruntime_run import onnxruntime_outputs
from glow_tools.reduce_onnx import OnnxCase as Case
from glow_tools.reduce_onnx import reduced

POISON = 0xFF
"""A byte of which all floats are NaN."""
PATIENCE = 120
"""Seconds after which a graph hangs."""
TOGETHER = 48
"""Graphs in one process: to begin one, and a second one that compiles for it, takes as long as a graph."""
decided = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.int64)
"""First: how many answers rounding decided, in this process and those that it began."""
_guarded: list[tuple[mmap.mmap, np.ndarray]] = []


def guarded(size: int) -> np.ndarray:
    """Poisoned bytes that end, but for alignment, where a page that nobody may touch begins."""
    page = mmap.PAGESIZE
    room = -(-max(size, 1) // ALIGN) * ALIGN
    whole = -(-room // page) * page
    memory = mmap.mmap(-1, whole + page)
    every = np.frombuffer(memory, np.uint8)
    every[:] = POISON
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address(every) + whole), ctypes.c_size_t(page), 0) == 0
    _guarded.append((memory, every))
    return every[whole - room : whole - room + size]


def placed(shape: Sequence[int], dtype: np.dtype) -> tuple[np.ndarray, int]:
    """A guarded array, and its address."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = guarded(size)
    return raw.view(dtype).reshape(tuple(shape)), address(raw) if size else 0


def poison(arenas: Sequence[np.ndarray]) -> None:
    """Let nothing of the last run be read."""
    for arena in arenas:
        arena[:] = POISON


def fault(case: Case) -> str | None:
    """What is wrong with a case, in this process; None where nothing is."""
    want = onnxruntime_outputs(case.model.SerializeToString(), case.feed, plain=True)
    plain = glow.compile(case.model, backend="interpreter", planned=True).run(case.feed)
    arenas: list[np.ndarray] = []

    def work(size: int) -> np.ndarray:
        arenas.append(guarded(size))
        return arenas[-1]

    own: Any = program
    own.work_memory, own.placed_array = work, placed
    feed = {n: placed(a.shape, a.dtype)[0] for n, a in case.feed.items()}
    for name, array in case.feed.items():
        feed[name][...] = array
    net = glow.compile(case.model)
    first = {n: a.copy() for n, a in net.run(feed).items()}
    poison(arenas)
    second = net.run(feed)
    for name, array in first.items():
        if array.tobytes() != second[name].tobytes():
            return f"two runs differ: {name}"
        others = plain[name], want[name]
        close = [np.allclose(array, other, rtol=1e-3, atol=1e-4, equal_nan=True) for other in others]
        if any(close):
            continue
        if not rounding_decides(case, name, array):
            return f"differs from the interpreter and from onnxruntime: {name}"
        decided[0] += 1
    return None


def apart(case: Case, open_sizes: bool = False) -> str | None:
    """`fault`, or that of `open_graphs`, in a process of its own, whose death is one."""
    if open_sizes and _in_process(lambda: open_graphs.wanted(case))[1]:
        return None  # onnxruntime has died of these sizes
    text, status = _in_process(lambda: open_graphs.fault(case) if open_sizes else fault(case))
    return text or None if status == 0 else f"the process ended with {status}"


def together(cases: Sequence[Case], open_sizes: bool) -> str | None:
    """The first fault of cases that run in one process, one after another, which starts a compiler once."""

    def work() -> str | None:
        for case in cases:
            signal.alarm(PATIENCE)
            found = open_graphs.fault(case) if open_sizes else fault(case)
            if found is not None:
                return found
        return None

    text, status = _in_process(work)
    return text or None if status == 0 else f"the process ended with {status}"


def _in_process(work: Callable[[], str | None]) -> tuple[str, int]:
    """What work tells in a process of its own, and how that ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        faulthandler.disable()  # the parent says how this ends
        try:
            found = work()
        except Exception:
            found = traceback.format_exc(limit=-3)
        os.write(writer, (found or "").encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    return text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kind(message: str | None) -> str:
    """The sort of fault that a message tells of, which a reduced model shares."""
    return ((message or "").strip().splitlines() or [""])[-1].partition(":")[0]


def _hunted(number: int, case: Case, a: argparse.Namespace) -> bool:
    """Whether a case is wrong by itself; it is reduced, written and told then."""
    message = apart(case, a.open)
    if message is None:
        return False
    small = reduced(case, lambda part, sort=kind(message): kind(apart(part, a.open)) == sort)
    a.keep.mkdir(parents=True, exist_ok=True)
    onnx.save(small.model, a.keep / f"{number}.onnx")
    np.savez(a.keep / f"{number}.npz", **small.feed)
    names = ", ".join(n.op_type for n in small.model.graph.node)
    told, file = apart(small, a.open) or message, a.keep / f"{number}.onnx"
    print(f"seed {number}: {told}\n  reduced to {names}: {file}", flush=True)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt; 1 where something is wrong."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    number = int(time.time()) % 1_000_000 * 1000
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--open", action="store_true", help="sizes change from call to call")
    parser.add_argument("--seed", type=int, default=number, help="of the first graph (default: by the clock)")
    parser.add_argument("--keep", type=Path, default=Path("build/hunt"), help="where faults are written")
    a = parser.parse_args(arguments)
    for backend in ("cpu", "interpreter"):  # what every process would load anew
        glow.compile(graph(a.seed).model(), backend=backend)
    end, seed, operators, wrong = time.monotonic() + a.seconds, a.seed, 0, 0
    while time.monotonic() < end:
        graphs = {seed + i: graph(seed + i) for i in range(TOGETHER)}
        cases = {number: Case(made.model(), made.feed) for number, made in graphs.items()}
        operators += sum(len(made.nodes) for made in graphs.values())
        seed += TOGETHER
        message = together(list(cases.values()), a.open)
        if message is None:
            continue
        alone = sum(_hunted(number, case, a) for number, case in cases.items())
        wrong += alone
        # What onnxruntime itself dies of is no fault, nor is it one of the others.
        if not alone and not a.open:
            wrong += 1
            print(f"seeds {seed - TOGETHER} to {seed - 1}, only one after another: {message}")
    print(
        f"{seed - a.seed} graphs of {operators} operators from seed {a.seed} on: {wrong} wrong, "
        f"{decided[0]} outputs that rounding decides"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
