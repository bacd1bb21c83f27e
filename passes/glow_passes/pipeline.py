"""Pipelines as data: named tuples of passes, run with verification and instrumentation at each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_dialects.core.time_limit import current
from glow_passes.analysis import Kept, keeping
from glow_passes.autodiff.rematerialize import RematerializePass
from glow_passes.changes import Snapshot
from glow_passes.contract import is_optional, preserved
from glow_passes.failure import named_failure
from glow_passes.instr.dead_stores import DeadStoresPass
from glow_passes.instr.eliminate_copies import EliminateCopiesPass
from glow_passes.instr.plan_memory import PlanMemoryPass
from glow_passes.instr.share_buffers import ShareBuffersPass
from glow_passes.instr.shrink_lives import ShrinkLivesPass
from glow_passes.legality import Legality, legality
from glow_passes.lower.irgen import IrgenPass
from glow_passes.lower.schedule import SchedulePass

#: Graph -> instructions.
LOWER: tuple[ModulePass, ...] = (
    SchedulePass(),  # order nodes so that little memory is live
    RematerializePass(),  # functions with a memory budget keep less for later
    IrgenPass(),  # one node, one or more instructions on buffers
)

#: Instructions -> instructions with a place for every buffer.
INSTR: tuple[ModulePass, ...] = (
    EliminateCopiesPass(),  # compute results where they are saved
    ShareBuffersPass(),  # in place where the operand dies
    ShrinkLivesPass(),  # lives end at the last use
    DeadStoresPass(),  # results that nobody reads, and instructions that the above left unused
    PlanMemoryPass(),  # offsets in one arena
)

Observer = Callable[[ModulePass, ModuleOp, float], None]


@dataclass
class PassRunner:
    """Runs passes in order; `observers` see each pass, the module after it and its seconds.

    Optional ones are left out where the time of the compilation is over.
    """

    context: Context
    verify: bool = False
    observers: list[Observer] = field(default_factory=list[Observer])
    legality: Legality = field(default_factory=Legality)

    def run(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        """Apply `passes` to `module` in place."""
        with keeping() as kept, legality(self.legality):
            self._run(module, passes, kept)

    def _run(self, module: ModuleOp, passes: Sequence[ModulePass], kept: Kept) -> None:
        now = Snapshot(module) if self.verify else None
        for item in passes:
            limit = current() if is_optional(item) else None
            if limit is not None and limit.skips(item.name):
                continue
            start = time.perf_counter()
            try:
                with nullcontext() if limit is None else limit.during(item.name):
                    item.apply(self.context, module)
                elapsed = time.perf_counter() - start
                kept.invalidate(preserved(item))
                if now is not None:
                    now = Snapshot(module, now)
                    if now.changes():
                        now.verify()
            except Exception as error:
                failure = named_failure(error, item)
                if failure is error:
                    raise
                raise failure from error
            for observer in self.observers:
                observer(item, module, elapsed)


def optimize(lowered: bool = False) -> tuple[ModulePass, ...]:
    """Target-independent graph optimisation, in order; `lowered`: nothing is recognised again."""
    from glow_passes.graph import OPTIMIZE, OPTIMIZE_LOWERED

    return OPTIMIZE_LOWERED if lowered else OPTIMIZE


def train() -> tuple[ModulePass, ...]:
    """A training function beside the inference function; the learning rate is an input."""
    from glow_passes.autodiff.differentiate import DifferentiatePass
    from glow_passes.autodiff.make_trainable import MakeTrainablePass

    return (
        MakeTrainablePass(),  # weights that are constants become placeholders
        DifferentiatePass(optimizer="sgd"),  # gradients, and updates in place
    )


def match_integers(exact: bool = False) -> tuple[ModulePass, ...]:
    """The passes that make integer operators of quantised models, before constants are folded.

    `exact`: those that leave them in float.
    """
    if exact:
        from glow_passes.quantize.exact_quantization import ExactQuantizationPass

        return (ExactQuantizationPass(),)
    from glow_passes.quantize.match_qdq import MatchQdqPass

    return (MatchQdqPass(),)
