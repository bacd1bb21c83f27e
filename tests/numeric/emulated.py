"""CPU backends whose programs run elsewhere: in emulators of other processors, and in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Program, ports
from glow_backends.cpu.aot import AotProgram, Source, compile_ahead
from glow_backends.cpu.backend import CpuBackend
from glow_backends.report import Report
from glow_dialects.core.types import Array
from glow_dialects.instr.memory import instr_functions
from glow_tools import compile_c, compile_wasm

RUN_IN_NODE = """
import { readFileSync, writeFileSync } from "node:fs";
import { load } from "./net.mjs";
const net = await load();
const arrays = { Float32Array, Float64Array, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array,
  Uint32Array, BigInt64Array, BigUint64Array };
const inputs = {};
JSON.parse(process.argv[2]).forEach((file, i) => {
  const { name, array } = net.inputs[i];
  const data = readFileSync(file);
  inputs[name] = new arrays[array](data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
});
for (const [name, array] of Object.entries(net.run(inputs))) {
  writeFileSync(`${name.replace(/\\W/g, "_")}.out`, new Uint8Array(array.buffer));
}
"""

BOARD = """
ENTRY(reset)
SECTIONS {
  . = 0;
  .vectors : { KEEP(*(.vectors)) }
  .text : { *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) KEEP(*(.init_array)) KEEP(*(.fini_array)) }
  .exidx : { __exidx_start = .; *(.ARM.exidx*) __exidx_end = .; }
  . = RAM;
  .data : { *(.data*) }
  .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; }
  end = .; __end__ = .;
}
"""
START = """
extern void _start(void);
extern char end[];
void *_sbrk(int bytes);
void *_sbrk(int bytes) {
  static char *next = end;
  char *place = next;
  return next += bytes, place;
}
void reset(void);
void reset(void) {
  *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* the coprocessors of floats and vectors */
  __asm__ volatile("dsb\\nisb");
  _start();
}
__attribute__((section(".vectors"), used)) static void *const vectors[] = {(void *)TOP, (void *)reset};
"""


@dataclass(frozen=True)
class Machine:
    """A processor, what links for it and what runs it: `compiler` with its options, `emulator` likewise."""

    target: str
    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    #: Of a board without an operating system, where its memory is.
    ram: int | None = None

    @property
    def missing(self) -> str:
        """What is not installed, "" where all is."""
        return ", ".join(t for t in (self.compiler[0], self.emulator[0]) if not shutil.which(t))


def _linux(target: str, prefix: str, emulator: str, *options: str) -> Machine:
    return Machine(target, (f"{prefix}-gcc", "-static", "-O1"), (emulator, *options))


def _board(target: str, cpu: str, board: str, ram: int, *options: str) -> Machine:
    """Newlib's semihosting reads and writes the files of this machine."""
    link = (f"-mcpu={cpu}", "-mthumb", *options, "--specs=rdimon.specs", "-O1")
    quiet = ("-display", "none", "-serial", "none", "-monitor", "none")
    return Machine(
        target, ("arm-none-eabi-gcc", *link), ("qemu-system-arm", "-M", board, *quiet, "-kernel"), ram
    )


MACHINES = {
    m.target: m
    for m in (
        _linux("cortex-a72", "aarch64-linux-gnu", "qemu-aarch64"),
        _linux("armv7", "arm-linux-gnueabihf", "qemu-arm"),
        _linux("riscv64", "riscv64-linux-gnu", "qemu-riscv64"),
        _linux("riscv64-v", "riscv64-linux-gnu", "qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"),
        Machine("wasm32", ("wasm-ld",), ("node",)),
        Machine("wasm32-scalar", ("wasm-ld",), ("node",)),
        _board("cortex-m4", "cortex-m4", "mps2-an386", 0x20000000, "-mfloat-abi=softfp", "-mfpu=fpv4-sp-d16"),
        _board("cortex-m3", "cortex-m3", "mps2-an385", 0x20000000),
        _board("cortex-m55", "cortex-m55", "mps3-an547", 0x60000000, "-mfloat-abi=softfp"),
    )
}


class EmulatedBackend(CpuBackend):
    """The CPU backend for another machine, each program linked statically and run by the emulator."""

    name = "cpu in an emulator"

    def __init__(self, machine: Machine) -> None:
        super().__init__(cpu=machine.target)
        self.machine = machine

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        (source,) = (f for f in instr_functions(module) if f.sym_name.data == function)
        program = compile_ahead([Source(module, source, "net")], self.target, "net")
        return EmulatedProgram(module, program, self.machine)

    def consume(self, module: ModuleOp, function: str = "main") -> Program:
        return self.compile(module, function)


class EmulatedProgram(Program):
    """An object linked with the program that glow-compile writes, or a module with its loader."""

    def __init__(self, module: ModuleOp, program: AotProgram, machine: Machine) -> None:
        self.inputs, self.outputs = ports(module, "input"), ports(module, "output")
        self.report, self.machine = Report(), machine
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        wasm = machine.target.startswith("wasm")
        files = (
            compile_wasm.files([program], False, compile_wasm.linker())
            if wasm
            else compile_c.files(program, "file")
        )
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        if wasm:
            (self.folder / "run.mjs").write_text(RUN_IN_NODE)
        else:
            self._link()

    def _link(self) -> None:
        sources = ["net_example.c", "net.o"]
        options: list[str] = []
        if self.machine.ram is not None:
            (self.folder / "board.ld").write_text(BOARD.replace("RAM", hex(self.machine.ram)))
            (self.folder / "start.c").write_text(START)
            sources += ["start.c"]
            options = ["-T", "board.ld", f"-DTOP={self.machine.ram + 0x1F0000:#x}"]
        command = [*self.machine.compiler, *sources, *options, "-lm", "-o", "net"]
        subprocess.run(command, cwd=self.folder, check=True)

    def _command(self, files: list[str]) -> list[str]:
        if self.machine.target.startswith("wasm"):
            return [*self.machine.emulator, "run.mjs", json.dumps(files)]
        if self.machine.ram is None:
            return [*self.machine.emulator, "./net", "net.weights", *files]
        arguments = ",".join(f"arg={text}" for text in ("net", "net.weights", *files))
        semihosting = f"enable=on,target=native,{arguments}"
        return [*self.machine.emulator, "net", "-semihosting-config", semihosting]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        for number, port in enumerate(self.inputs):
            np.ascontiguousarray(inputs[port.name]).tofile(self.folder / f"{number}.bin")
        files = [f"{n}.bin" for n in range(len(self.inputs))]
        subprocess.run(self._command(files), cwd=self.folder, check=True, timeout=60)
        results: dict[str, Array] = {}
        for port in self.outputs:
            data = np.fromfile(self.folder / f"{port.name}.out", np.uint8)
            results[port.name] = data.view(port.dtype).reshape(port.shape)
        return results
