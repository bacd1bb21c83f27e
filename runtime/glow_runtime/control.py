"""Programs of modules with branches and loops: functions around compiled graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, Program, ports
from glow_backends.report import Report
from glow_dialects.core.types import Array
from glow_passes.fn.outline_control import outline_control
from glow_runtime.functions import FunctionProgram, type_of


class ControlProgram(Program):
    """A module whose function `main` has `glow.if` or `glow.loop`: native branches and loops on the CPU."""

    def __init__(self, module: ModuleOp, backend: Backend) -> None:
        start = time.perf_counter()
        self.inputs, self.outputs = ports(module, "input"), ports(module, "output")
        work = module.clone()
        outline_control(work)
        self.functions = FunctionProgram(work, "main", backend)
        example = [type_of(np.zeros(p.shape, p.dtype)) for p in self.inputs]
        instance = self.functions.specialize(tuple(example))
        self.report = Report(stages={"compile": time.perf_counter() - start})
        if instance.native is not None:
            self.report = instance.native.graphs.report
            self.report.stages["compile"] = time.perf_counter() - start

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        results = self.functions.run([np.asarray(inputs[p.name]) for p in self.inputs])
        return {p.name: np.asarray(v) for p, v in zip(self.outputs, results, strict=True)}
