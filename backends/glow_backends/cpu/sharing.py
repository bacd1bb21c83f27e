"""Whether the kernels of a program are worth sharing among threads."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import KernelCall
from glow_backends.cpu.emit.common import PARALLEL_BYTES
from glow_backends.cpu.select import HostStep, Selection, TurnsCall
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.types import bytes_of
from glow_dialects.instr.memory import WeightOp, origin

_LEAST_GAIN = 0.25
"""The smallest gain, as a fraction of the time, for which threads are used. They have a cost that is not
estimated: data that one worker wrote is not in the cache of the next one."""


def worth_sharing(selection: Selection, target: CpuTarget) -> bool:
    """Whether a program is estimated to be faster on all threads than on one."""
    cycles = [_cycles(step, target) for step in selection.steps]
    shared = sum(alone - together for alone, together in cycles)
    meeting = target.costs.worker_start + target.costs.barrier * len(cycles)
    return shared > meeting + _LEAST_GAIN * sum(alone for alone, _ in cycles)


def _cycles(step: KernelCall | HostStep, target: CpuTarget) -> tuple[float, float]:
    """Rough cycles of a step on one thread and on all; constants count by the arithmetic on them."""
    if isinstance(step, HostStep):
        return 0.0, 0.0
    if isinstance(step, TurnsCall):
        turns, inner = estimate(step.spec.turns), [_cycles(s, target) for s in step.turn.steps]
        meeting = target.costs.barrier * (len(inner) + 1)
        return turns * sum(a for a, _ in inner), turns * (meeting + sum(t for _, t in inner))
    owners = [(v, origin(v).owner) for v in step.operands if isinstance(v, SSAValue)]
    moved = sum(estimate(bytes_of(v.type)) for v, o in owners if not (isinstance(o, WeightOp) and o.constant))
    alone = max(estimate(step.flops) / (4 * target.lanes), moved / target.costs.moved_bytes_a_cycle)
    sharing = min(target.threads, step.parts or target.threads)
    if not step.flops and moved < PARALLEL_BYTES:
        sharing = 1  # its kernel does not share so little
    return alone, alone / sharing
