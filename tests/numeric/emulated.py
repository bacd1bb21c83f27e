"""CPU backends whose programs run elsewhere: in emulators of other processors, and in Node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Program, ports
from glow_backends.conformance import (
    Case,
    difference,
    expected_results,
    legalized,
    module_of_sample,
    plan,
)
from glow_backends.cpu.aot import AotProgram, Source, compile_ahead
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.select import select
from glow_backends.report import Report
from glow_dialects.core.types import Array
from glow_dialects.instr.memory import instr_functions
from glow_tools import compile_c, compile_wasm
from glow_tools.machines import run_bundle

TARGETS = (
    "cortex-a72",
    "armv7",
    "riscv64",
    "riscv64-v",
    "wasm32",
    "wasm32-scalar",
    "wasm32-relaxed",
    "cortex-m0plus",
    "cortex-m3",
    "cortex-m4",
    "cortex-m7",
    "cortex-m55",
)


def write(folder: Path, program: AotProgram) -> None:
    """The files of a bundle."""
    if program.target.triple.startswith("wasm"):
        files = compile_wasm.files([program], False, compile_wasm.linker())
    else:
        files = compile_c.files(program, "file")
    for name, data in files.items():
        (folder / name).write_bytes(data)


class EmulatedBackend(CpuBackend):
    """The CPU backend for another machine, each program run by its emulator."""

    name = "cpu in an emulator"

    def __init__(self, target: str) -> None:
        super().__init__(cpu=target)

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        (source,) = (f for f in instr_functions(module) if f.sym_name.data == function)
        return EmulatedProgram(module, compile_ahead([Source(module, source, "net")], self.target, "net"))

    def consume(self, module: ModuleOp, function: str = "main") -> Program:
        return self.compile(module, function)


class EmulatedProgram(Program):
    """A bundle of one function, run once each time."""

    def __init__(self, module: ModuleOp, program: AotProgram) -> None:
        self.inputs, self.outputs = ports(module, "input"), ports(module, "output")
        self.report, self.bundle = Report(), program
        self._folder = TemporaryDirectory()
        write(Path(self._folder.name), program)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        ((results,),) = run_bundle(Path(self._folder.name), self.bundle, [inputs])
        return results


def problems(target: str, samples: Sequence[Case]) -> list[str]:
    """How samples, run twice as functions of one bundle, differ from the cards' references.

    Those that run on the host here, by NumPy, are left out.
    """
    backend = CpuBackend(cpu=target)
    functions: dict[str, tuple[Source, dict[str, Array], Case]] = {}
    for number, case in enumerate(samples):
        module, feed = module_of_sample(case.sample, "constants")
        if legalized(backend, module)[1]:
            continue
        plan(backend, module)
        function = instr_functions(module)[0]
        selection = select(function, backend.target, checked=False)
        if not selection.host_steps:
            name = f"case{number}"
            functions[name] = Source(module, function, name, selection=selection), feed, case
    sources, feeds, taken = zip(*functions.values(), strict=True)
    assert len(sources) > 0.9 * len(samples), "most operators have kernels"
    program = compile_ahead(sources, backend.target, "net")
    found: list[str] = []
    with TemporaryDirectory() as folder:
        write(Path(folder), program)
        for case, runs in zip(taken, run_bundle(Path(folder), program, feeds, 2), strict=True):
            for result, (kind, want) in enumerate(expected_results(case.sample)):
                for got in runs:
                    wrong = difference(got[f"out{result}"], want, kind)
                    found += [f"{case.name}: {wrong}"] if wrong else []
    return found
