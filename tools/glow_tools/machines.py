"""Bundles run on the machine that they are for: this one, an emulator of it, or Node."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.element_types import dtype_named
from glow_dialects.core.errors import GlowError

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotFunction, AotProgram
    from glow_backends.cpu.target import CpuTarget
    from glow_dialects.core.types import Array

_BOARD = """
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
_START = """
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
_STACK_TOP = 0x1F0000
"""Where a board's stack begins, from the start of its memory."""


@dataclass(frozen=True)
class Machine:
    """What links for a processor and what runs it: `compiler` and `emulator` with their options."""

    compiler: tuple[str, ...]
    emulator: tuple[str, ...] = ()
    #: Of a board without an operating system, where its memory is.
    ram: int | None = None

    @property
    def missing(self) -> str:
        """What is not installed, "" where all is."""
        tools = (self.compiler[0], *self.emulator[:1])
        return ", ".join(tool for tool in tools if not shutil.which(tool))

    def __str__(self) -> str:
        return self.emulator[0] if self.emulator else "this machine"


def _linux(prefix: str, emulator: str, *options: str) -> Machine:
    return Machine((f"{prefix}-gcc", "-static", "-O1"), (emulator, *options))


def _board(cpu: str, board: str, ram: int, *options: str) -> Machine:
    """Newlib's semihosting reads and writes the files of this machine."""
    link = (f"-mcpu={cpu}", "-mthumb", *options, "--specs=rdimon.specs", "-O1")
    quiet = ("-display", "none", "-serial", "none", "-monitor", "none")
    return Machine(("arm-none-eabi-gcc", *link), ("qemu-system-arm", "-M", board, *quiet, "-kernel"), ram)


_SOFT = "-mfloat-abi=softfp"
_BOARDS = {
    "cortex-m0plus": _board("cortex-m0plus", "mps2-an385", 0x20000000),
    "cortex-m3": _board("cortex-m3", "mps2-an385", 0x20000000),
    "cortex-m4": _board("cortex-m4", "mps2-an386", 0x20000000, _SOFT, "-mfpu=fpv4-sp-d16"),
    "cortex-m7": _board("cortex-m7", "mps2-an500", 0x20000000, _SOFT, "-mfpu=fpv5-d16"),
    "cortex-m33": _board("cortex-m33", "mps3-an547", 0x60000000, _SOFT, "-mfpu=fpv5-sp-d16"),
    "cortex-m55": _board("cortex-m55", "mps3-an547", 0x60000000, _SOFT),
    "cortex-m85": _board("cortex-m55", "mps3-an547", 0x60000000, _SOFT),
}
_SYSTEMS = {
    "aarch64": _linux("aarch64-linux-gnu", "qemu-aarch64", "-cpu", "max"),
    "armv7": _linux("arm-linux-gnueabihf", "qemu-arm", "-cpu", "max"),
    "riscv64": _linux("riscv64-linux-gnu", "qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"),
    "x86_64": _linux("x86_64-linux-gnu", "qemu-x86_64", "-cpu", "max"),
}


def machine_for(target: CpuTarget) -> Machine:
    """The machine of a target; GlowError where there is none that runs it here."""
    architecture = target.triple.partition("-")[0]
    if architecture.startswith("wasm"):
        relaxed = ("--experimental-wasm-relaxed-simd",) if "+relaxed-simd" in target.features else ()
        return Machine(("wasm-ld",), ("node", *relaxed))
    if architecture == platform.machine() and not target.lacks:
        return Machine(("cc", "-O1"))
    board = architecture.startswith("thumb")
    known = _BOARDS.get(target.cpu) if board else _SYSTEMS.get(architecture)
    if known is None or not (board or "linux" in target.triple):
        raise GlowError(f"there is no emulator for {target.triple} ({target.cpu}) that is known here")
    return known


def run_bundle(
    folder: Path, program: AotProgram, feeds: Sequence[Mapping[str, Array]], runs: int = 1
) -> list[list[dict[str, Array]]]:
    """The outputs of each function of the bundle in `folder`, run `runs` times on its inputs.

    States begin with their first values and pass from one run to the next. GlowError says what is not
    installed, and what a program says that fails.
    """
    machine = machine_for(program.target)
    if machine.missing:
        raise GlowError(f"{machine.missing} is not installed, which {program.target.cpu} needs here")
    with TemporaryDirectory() as name:
        place = Path(name)
        with (place / "inputs").open("wb") as file:
            for function, feed in zip(program.functions, feeds, strict=True):
                for tensor in function.tensors:
                    if tensor.kind == "input":
                        file.write(np.ascontiguousarray(feed[tensor.name]).tobytes())
        _done(_command(folder, program, machine, place, runs), place)
        data = (place / "outputs").read_bytes()
    results: list[list[dict[str, Array]]] = []
    for function in program.functions:
        results.append([])
        for _ in range(runs):
            outputs, data = _outputs(function, data)
            results[-1].append(outputs)
    return results


def _command(folder: Path, program: AotProgram, machine: Machine, place: Path, runs: int) -> list[str]:
    """What runs a bundle in a folder that has its inputs."""
    words = ["inputs", "outputs", str(runs)]
    if program.target.triple.startswith("wasm"):
        (place / "run.mjs").write_bytes(_text("bundle_runner.mjs"))
        return [*machine.emulator, "run.mjs", (folder / f"{program.name}.mjs").resolve().as_uri(), *words]
    weights = folder / f"{program.name}.weights"
    if weights.exists():
        (place / "weights").symlink_to(weights.resolve())
    _link(folder.resolve(), program, machine, place)
    words = ["weights", *words]
    if machine.ram is None:
        return [*machine.emulator, "./program", *words]
    listed = ",".join(f"arg={word}" for word in ("program", *words))
    return [*machine.emulator, "program", "-semihosting-config", f"enable=on,target=native,{listed}"]


def _link(folder: Path, program: AotProgram, machine: Machine, place: Path) -> None:
    name, threads = program.name, program.target.threads
    (place / "run.c").write_bytes(_text("bundle_runner.c"))
    sources = ["run.c", *(str(f) for f in _linked(folder, name) if f.exists())]
    options = [f'-DHEADER="{name}.h"', f"-DBUNDLE={name}_bundle", f"-I{folder}"]
    if threads > 1:
        options += [f"-DTHREADS={threads}", "-pthread"]
    if machine.ram is not None:
        (place / "board.ld").write_text(_BOARD.replace("RAM", hex(machine.ram)))
        (place / "start.c").write_text(_START)
        sources.append("start.c")
        options += ["-T", "board.ld", f"-DTOP={machine.ram + _STACK_TOP:#x}"]
    _done([*machine.compiler, *options, *sources, "-lm", "-o", "program"], place)


def _linked(folder: Path, name: str) -> list[Path]:
    """The files of a bundle that may be there to be linked; of a library, the archive."""
    library = folder / f"lib{name}.a"
    code = library if library.exists() else folder / f"{name}.o"
    return [folder / f"{name}_weights.c", code]


def _text(file: str) -> bytes:
    return resources.files("glow_tools").joinpath(file).read_bytes()


def _done(command: Sequence[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or f"it ended with status {done.returncode}"
        raise GlowError(f"{command[0]}: {said}")


def _outputs(function: AotFunction, data: bytes) -> tuple[dict[str, Array], bytes]:
    """The outputs of a run, and what follows them."""
    outputs: dict[str, Array] = {}
    for tensor in function.tensors:
        if tensor.kind == "output":
            own, data = data[: tensor.bytes], data[tensor.bytes :]
            shape = [d or 0 for d in tensor.shape]
            outputs[tensor.name] = np.frombuffer(own, dtype_named(tensor.dtype)).reshape(shape)
    return outputs, data
