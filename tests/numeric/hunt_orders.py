"""A hunt for faults: passes in random orders, whose programs must compute what they computed before.

    python tests/numeric/hunt_orders.py --count 50000 [--seed 0] [--jobs 2]     (make hunt-orders)

A program is a sample of a card or a random graph; the orders hold every pass of ours and of the CPU backend
that keeps a program's meaning. Each pass is verified. Graphs run by the references of their nodes,
instructions in the interpreter, as planned, in poisoned arenas. Orders that contracts refuse are counted;
what differs, breaks or hangs is printed with the fewest passes that show it, and ends the hunt with 1.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from card_runner import SAMPLES, graph_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_backends.base import Backend, get_backend
from glow_backends.conformance import difference
from glow_backends.interpreter.modules import run_graph
from glow_backends.legalize import LegalizePass
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, element_type
from glow_dialects.dialects import context
from glow_dialects.ops.module import functions
from glow_passes.contract import Level, LevelPass, OrderError, check_order
from glow_passes.failure import BrokenPassError
from glow_passes.instr.plan_memory import PlanMemoryPass
from glow_passes.lower.irgen import IrgenPass
from glow_passes.pipeline import PassRunner
from glow_tools.pipelines import every_pass

sys.path.append(str(Path(__file__).parent.parent / "onnx"))  # where this is a script of its own
from random_graphs import graph as random_graph

#: Passes that change what a program computes or gives, or that need more than the program.
LEFT_OUT = {
    *("glow-apply-profile", "glow-convert-floats", "glow-differentiate", "glow-exact-quantization"),
    *("glow-fold-conversions", "glow-freeze-placeholders", "glow-instrument", "glow-make-trainable"),
    "glow-outline-control",
    *("glow-partition", "glow-quantize", "glow-quantize-dynamic", "glow-quantize-weights", "glow-rebatch"),
    *("glow-legalize", "glow-layout", "glow-declare-memories", "glow-hide-latency", "glow-irgen"),
    "glow-plan-memory",
    "convert-glow-instr-to-llvm",
}
BATCH = 100
"""Orders of one task."""
PATIENCE = 60
"""Seconds after which an order hangs."""
CONTEXT = context()


@dataclass
class Case:
    """A program before any pass, what is fed to it, and what it gives."""

    name: str
    module: ModuleOp
    feed: dict[str, Array]
    want: dict[str, Array]


@cache
def passes_of(level: Level) -> tuple[ModulePass, ...]:
    """The passes of a level that keep a program's meaning, and need nothing but the program."""
    kinds = (k for n, k in sorted(every_pass().items()) if n not in LEFT_OUT)
    there = [k for k in kinds if issubclass(k, LevelPass) and level is k.LEVEL]
    return tuple(k() for k in there if not any(f.default is MISSING for f in fields(cast(Any, k))))


def case_of(rng: random.Random) -> Case:
    """A sample of a card, or a random graph."""
    if rng.random() < 0.6:
        name = rng.choice(sorted(SAMPLES))
        made, _ = graph_of(SAMPLES[name])
        module, feed = made.module, made.inputs
    else:
        seed = rng.randrange(10**6)
        name, case = f"random graph {seed}", random_graph(seed)
        module, feed = glow.load(case.model()), case.feed
    return Case(name, module, feed, run_graph(next(functions(module)), feed))


def order_to_plan(backend: Backend | None = None, instr: Sequence[ModulePass] = ()) -> list[ModulePass]:
    """From graphs over passes on instructions to a memory plan."""
    legalize = LegalizePass(backend or get_backend("interpreter"))
    return [legalize, IrgenPass(), *instr, PlanMemoryPass()]


def order_of(rng: random.Random) -> list[ModulePass]:
    """Passes on graphs, then, mostly, on instructions; some in an order that contracts refuse."""
    graph, instr = passes_of(Level.GRAPH), passes_of(Level.INSTRUCTIONS)
    order = [rng.choice(graph) for _ in range(rng.randint(1, 8))]
    if rng.random() < 0.7:
        backend = get_backend(rng.choice(("cpu", "interpreter")))
        order.insert(rng.randint(0, len(order)), LegalizePass(backend))
        order += order_to_plan(backend, [rng.choice(instr) for _ in range(rng.randint(0, 6))])
    if rng.random() < 0.05:
        rng.shuffle(order)
    return order


def wrong(case: Case, order: Sequence[ModulePass]) -> str | None:
    """What a program does otherwise after the passes; OrderError and GlowError where they are refused."""
    module = case.module.clone()
    check_order(module, order)
    try:
        PassRunner(CONTEXT, verify=True).run(module, order)
    except BrokenPassError as error:
        return str(error)
    graphs = list(functions(module))
    if graphs:
        have = run_graph(graphs[0], case.feed)
    else:
        planned = isinstance(order[-1], PlanMemoryPass)
        program = get_backend("interpreter", planned=planned).compile(module)
        have = program.run({name: array.copy() for name, array in case.feed.items()})
    for name, want in case.want.items():
        told = difference(have[name], want, element_type(want.dtype))
        if told and not _is_near(have[name], want):
            return f"{name}: {told}"
    return None


def _is_near(have: Array, want: Array) -> bool:
    """Whether a long chain of floats differs by no more than its roundings may add up to."""
    if have.dtype != want.dtype or have.shape != want.shape or want.dtype.kind != "f":
        return False
    finite = np.abs(want[np.isfinite(want)])
    scale = 1e-4 * float(max(finite.max(initial=0), 1))
    return np.allclose(have, want, rtol=1e-3, atol=scale, equal_nan=True)


def fewest(case: Case, order: Sequence[ModulePass]) -> list[ModulePass]:
    """The order without the passes that it takes no part of to go wrong."""
    order = list(order)
    for item in reversed(order):  # what comes later needs what comes before
        less = [other for other in order if other is not item]
        try:
            if less and wrong(case, less) is not None:
                order = less
        except Exception:
            continue
    return order


def one(seed: int) -> tuple[str, str]:
    """The outcome of one order: right, refused or wrong, and what is told of it."""
    rng = random.Random(seed)
    case, order = case_of(rng), order_of(rng)
    signal.alarm(PATIENCE)
    try:
        told = wrong(case, order)
    except OrderError:
        return "refused by contract", ""
    except GlowError as error:
        return "refused", str(error)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    if told is None:
        return "right", ""
    shown = ",".join(str(item.spec()) for item in fewest(case, order))
    return "wrong", f"seed {seed}: {case.name}: -p '{shown}'\n  {told}"


def batch(first: int) -> list[tuple[str, str]]:
    """The outcomes of the orders from one seed on."""
    with np.errstate(all="ignore"):
        return [one(seed) for seed in range(first, first + BATCH)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt; 1 where something is wrong."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--count", type=int, default=50_000, help="orders")
    parser.add_argument("--seed", type=int, default=0, help="of the first order")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--refused", action="store_true", help="list what was refused, and why")
    a = parser.parse_args(arguments)
    firsts = range(a.seed, a.seed + a.count, BATCH)
    kinds: Counter[str] = Counter()
    with ProcessPoolExecutor(a.jobs) as pool:
        for outcomes in map(batch, firsts) if a.jobs == 1 else pool.map(batch, firsts):
            for kind, told in outcomes:
                kinds[kind] += 1
                if kind == "wrong" or (kind == "refused" and a.refused):
                    print(told, flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return int(kinds["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
