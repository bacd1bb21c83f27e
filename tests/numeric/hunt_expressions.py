"""A hunt for faults: random expressions of NumPy through `glow.jit`, on both backends.

    python tests/numeric/hunt_expressions.py --count 20000 [--seed 0] [--jobs 2]     (make hunt-expressions)

Each must have NumPy's value, shape and element type, but for rounding, or be refused by a GlowError.
Expressions run some at a time in a process of their own: one that dies or hangs is a fault, too. What is
wrong is printed, its smallest wrong part in its place, and ends the hunt with 1; `--refused` lists what was
refused.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import linecache
import math
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_expressions import Expression, difference, generate, inputs

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")
TOGETHER = 8
"""Expressions of one function."""
BATCH = 64
"""Expressions of one process."""
PATIENCE = 60
"""Seconds after which a function hangs."""


@dataclass
class Found:
    """What became of one expression on one backend."""

    text: str
    backend: str
    kind: str  # "wrong", "error", "refused"
    message: str


def function(texts: Sequence[str], names: Sequence[str]) -> Callable[..., Any]:
    """A Python function of all the arguments that gives the expressions' values."""
    lines = [f"def program({', '.join(names)}):", f"    return {', '.join(f'({t})' for t in texts)},"]
    text = "\n".join(lines) + "\n"
    name = f"<expression {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "math": math}
    exec(compile(text, name, "exec"), space)
    return space["program"]


def compiled(made: Callable[..., Any], backend: str) -> Callable[..., Any]:
    """The function as a backend runs it."""
    return glow.jit(made, backend=backend)


def check(made: Sequence[Expression], arguments: dict[str, Any], backend: str) -> Iterator[Found]:
    """What is wrong, or refused; several expressions are compiled as one, and alone where that fails."""
    signal.alarm(PATIENCE)
    texts = [m.text for m in made]
    try:
        results = compiled(function(texts, list(arguments)), backend)(*arguments.values())
    except Exception as error:
        if len(made) > 1:
            for one in made:
                yield from check([one], arguments, backend)
            return
        refused = isinstance(error, glow.GlowError) and "internal error" not in str(error)
        message = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
        yield Found(texts[0], backend, "refused" if refused else "error", message)
        return
    for one, got in zip(made, results, strict=True):
        message = difference(one, arguments, got)
        if message is not None:
            yield Found(one.text, backend, "wrong", message)


def smallest(made: Expression, arguments: dict[str, Any], backend: str) -> Expression:
    """A part of an expression that is wrong as well."""
    for operand in made.operands.values():
        if isinstance(operand, Expression) and any(
            f.kind != "refused" for f in check([operand], arguments, backend)
        ):
            return smallest(operand, arguments, backend)
    return made


def batch(seed: int) -> list[Found]:
    """What is found in one batch, which runs in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.disable()  # the parent says how this ends
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            _run(seed, lambda entry: print(json.dumps(entry), file=pipe, flush=True))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        entries = [json.loads(line) for line in pipe if line.endswith("\n")]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = [Found(*entry) for entry in entries if len(entry) == 4]
    if status:
        last = [entry for entry in entries if len(entry) == 2][-1:]
        what = "hangs" if status == -signal.SIGALRM else f"the process ended with {status}"
        found.append(Found(str(last), "", "error", what))
    return found


def _run(seed: int, tell: Callable[[object], None]) -> None:
    random_, arguments = random.Random(seed), inputs(seed)
    made = [generate(random_, arguments) for _ in range(BATCH)]
    for backend in BACKENDS:
        for start in range(0, BATCH, TOGETHER):
            some = made[start : start + TOGETHER]
            tell([backend, [m.text for m in some]])
            by_text = {m.text: m for m in some}
            for found in check(some, arguments, backend):
                if found.kind != "refused":
                    part = smallest(by_text[found.text], arguments, backend)
                    found = next((f for f in check([part], arguments, backend) if f.kind != "refused"), found)
                tell([found.text, found.backend, found.kind, found.message])


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt; 1 where something is wrong."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--count", type=int, default=20_000, help="expressions")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--refused", action="store_true", help="list what was refused")
    a = parser.parse_args(arguments)
    seeds = range(a.seed, a.seed + -(-a.count // BATCH))
    kinds: Counter[str] = Counter()
    with ThreadPoolExecutor(a.jobs) as pool:
        for seed, found in zip(seeds, pool.map(batch, seeds), strict=True):
            kinds.update(f.kind for f in found)
            for f in found:
                if f.kind != "refused" or a.refused:
                    print(f"seed {seed}, {f.backend}: {f.kind}: {f.text}\n  {f.message}", flush=True)
    wrong = kinds["wrong"] + kinds["error"]
    total = f"{len(seeds) * BATCH} expressions on {' and '.join(BACKENDS)}"
    print(f"{total}: {wrong} wrong, {kinds['refused']} refused")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
