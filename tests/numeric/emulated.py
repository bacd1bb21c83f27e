"""A CPU backend whose programs run in an emulator of AArch64, for tests of NEON code."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Program, Report, ports
from glow_backends.cpu.aot import AotProgram, compile_ahead
from glow_backends.cpu.backend import CpuBackend
from glow_dialects.core.types import Array
from glow_dialects.instr.memory import instr_functions
from glow_tools.compile import example, header

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
INSTALLED = bool(shutil.which(COMPILER) and shutil.which(EMULATOR))


class EmulatedBackend(CpuBackend):
    """The CPU backend for a Cortex-A72, each program linked statically and run by the emulator."""

    name = "cpu in an emulator"

    def __init__(self) -> None:
        super().__init__(cpu="cortex-a72")

    def compile(self, module: ModuleOp) -> Program:
        (function,) = instr_functions(module)
        return EmulatedProgram(module, compile_ahead(module, function, self.target, "net"))


class EmulatedProgram(Program):
    """An object file linked with the example that glow-compile writes."""

    def __init__(self, module: ModuleOp, program: AotProgram) -> None:
        self.inputs, self.outputs = ports(module, "input"), ports(module, "output")
        self.report = Report()
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "net.o").write_bytes(program.object)
        (folder / "net.weights").write_bytes(program.weights)
        (folder / "net.h").write_text(header(program))
        (folder / "net.c").write_text(example(program))
        command = [COMPILER, "-static", "-O1", "net.c", "net.o", "-lm", "-o", "net"]
        subprocess.run(command, cwd=folder, check=True)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        folder = Path(self._folder.name)
        for number, port in enumerate(self.inputs):
            np.ascontiguousarray(inputs[port.name]).tofile(folder / f"{number}.bin")
        files = [f"{n}.bin" for n in range(len(self.inputs))]
        subprocess.run([EMULATOR, "./net", "net.weights", *files], cwd=folder, check=True)
        made: dict[str, Array] = {}
        for port in self.outputs:
            data = np.fromfile(folder / f"{port.name}.out", np.uint8)
            made[port.name] = data.view(port.dtype).reshape(port.shape)
        return made
