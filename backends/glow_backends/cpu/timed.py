"""A program that reports when each of its steps ended: a clock is read around every kernel."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import STEP_TIMES
from glow_backends.cpu.bundle import Bundle
from glow_backends.cpu.program import CpuProgram, HostStepRunner
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.forks import ForkLock

if TYPE_CHECKING:  # a program that is known starts without the compiler's modules
    from glow_dialects.core.types import Array

STAMP = "glow_stamp"
"""`void glow_stamp(i64 n, i64 worker)` stores the cycle counter at `glow_stamps[worker][n]`."""
STAMPS = "glow_stamps"
#: Seconds in which the cycle counter is measured, at least, and readings of which the best counts.
MEASURED, TRIES = 2e-3, 4


class TimedProgram(CpuProgram):
    """A program with stamps (see `profile.stamped_program`); its runs follow each other, as it has one table.

    Outputs have STEP_TIMES besides: [steps, 2] seconds by `time.perf_counter`, first worker to last.
    """

    def __init__(self, bundle: Bundle, target: CpuTarget, host: HostStepRunner | None = None) -> None:
        super().__init__(bundle, target, host)
        self.steps = bundle.steps
        shape = bundle.threads, len(self.steps), 2
        table = (ctypes.c_int64 * prod(shape)).from_address(self.linked.address(STAMPS))
        self._stamps = np.frombuffer(memoryview(table), np.int64).reshape(shape)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
        self._stamp = kind(self.linked.address(STAMP))
        self._one_run = ForkLock()
        self._first = self._now()
        while self._now()[1] - self._first[1] < MEASURED:
            pass

    def _now(self) -> tuple[int, float]:
        """The cycle counter and the clock at the same moment, between which nothing else ran."""
        if not self._stamps.size:
            return 0, time.perf_counter()
        best = 0, 0.0, float("inf")
        for _ in range(TRIES):
            before = time.perf_counter()
            self._stamp(0, 0)
            after = time.perf_counter()
            if after - before < best[2]:
                best = int(self._stamps[0, 0, 0]), (before + after) / 2, after - before
        return best[:2]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with self._one_run:
            cycles, began = self._now()
            outputs = super().run(inputs)
            taken = self._stamps - cycles
        first, last = taken[..., 0].min(axis=0), taken[..., 1].max(axis=0)
        seconds = (began - self._first[1]) / max(cycles - self._first[0], 1)
        outputs[STEP_TIMES] = began + np.stack([first, last], axis=1) * seconds
        return outputs
