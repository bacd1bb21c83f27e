"""glow-compile: a model as code for any machine, with a C header, weights and a program that uses it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser
from glow_tools.common import (
    add_budget,
    add_debug_info,
    add_exact,
    add_json,
    add_shape,
    command,
    fail,
    guarded,
    input_option,
    print_json,
)
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotProgram, Source
    from glow_backends.cpu.aot_sizes import Size
    from glow_backends.cpu.backend import CpuBackend

EXAMPLES = """\
  glow-compile model.onnx -o build                 build/model.{o,h,weights} and model_example.c
  glow-compile model.onnx -o build --shape data=1x3x224x224 --shape data=8x3x224x224
  glow-compile model.onnx -o build --size batch=1..64
  glow-compile model.onnx -o build --target cortex-a72 --emit library
  glow-compile model.onnx -o build --target cortex-m4 --weights embed --memory 256K
  glow-compile model.onnx -o build --target wasm32
  glow-compile model.onnx -o build --target riscv64-v --check onnxruntime
  cc -O2 build/model_example.c build/model.o -o example && ./example build/model.weights
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-compile",
        "Compile a model ahead of time. Writes an object file, a C header, a file of weights and an example "
        "program in C; or a WebAssembly module. The result runs without Python and without this compiler.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", nargs="?", help=".onnx or .mlir file")
    add("-o", "--output", type=Path, metavar="FOLDER", help="folder for the files")
    add("--name", help="name of the function and the files (default: the model's file name)")
    add("--target", default="host", help="a preset (see --list-targets) or an LLVM triple (default: host)")
    add("--mcpu", help="the CPU, as LLVM calls it, for a triple or for this machine's architecture")
    add("--mattr", default="", metavar="+A,-B", help="CPU features to add or remove, as LLVM calls them")
    add("--list-targets", action="store_true", help="print the presets and exit")
    told = "object file, or static library lib*.a with files for CMake"
    add("--emit", choices=("object", "library"), default="object", help=told)
    told = "where the weights are: in a file, in the object, or as C source"
    add("--weights", choices=("file", "embed", "c"), default="file", help=told)
    add("--memory", type=_bytes, metavar="BYTES", help="fail if a run needs more memory (64K, 2M)")
    add("--threads", type=int, default=1, help="threads of a run, which your callback starts")
    add_shape(parser)
    told = "the value of an input that determines the graph: sr=16000"
    add("--input", type=input_option, action="append", default=[], metavar="NAME=VALUE", help=told)
    told = "let each call choose the size of a dynamic dimension, between these limits"
    add("--size", type=_range, action="append", default=[], metavar="NAME=MIN..MAX", help=told)
    add_exact(parser)
    add_budget(parser)
    add_debug_info(parser)
    add_json(parser)
    told = "run the result on random inputs, if necessary in an emulator or Node, and compare"
    add("--check", choices=("interpreter", "onnxruntime"), help=told)
    return parser


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size in bytes; write for example 65536, 64K, 2M")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def _range(text: str) -> Size:
    from glow_backends.cpu.aot_sizes import Size

    match = re.fullmatch(r"(.+)=(\d+)\.\.(\d+)", text)
    if match is None or not 1 <= int(match[2]) < int(match[3]):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=MIN..MAX, such as batch=1..64")
    return Size(match[1], int(match[2]), int(match[3]))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-compile`."""
    parser = arguments()
    a = parser.parse_args(_joined(sys.argv[1:] if argv is None else argv))
    if a.list_targets:
        return guarded(_list)
    if a.model is None or a.output is None:
        parser.error("a model and -o FOLDER are needed")
    return guarded(lambda: _run(a))


def _joined(words: Sequence[str]) -> list[str]:
    """`--mattr -x` as `--mattr=-x`: argparse takes what begins with a dash for an option."""
    text = "\0".join(words)
    return re.sub(r"(^|\0)--mattr\0-(?=\w)", r"\1--mattr=-", text).split("\0") if words else []


def _list() -> None:
    from glow_backends.cpu.presets import PRESETS

    for name, preset in PRESETS.items():
        print(f"{name:16} {preset.triple:30} {preset.cpu:16} {preset.features}")


def _run(a: argparse.Namespace) -> int:
    from glow_backends.cpu.aot import compile_ahead
    from glow_backends.cpu.backend import CpuBackend
    from glow_backends.cpu.weights import ProgramWeights, WeightPool
    from glow_dialects.core.time_limit import NOTE, limited

    name = a.name or re.sub(r"\W", "_", Path(a.model).stem)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        fail(f"'{name}' is not a name in C; give one with --name")
    backend = CpuBackend(cpu=_target(a), threads=a.threads)
    write = _writer(a, backend.target.triple)
    if a.check:
        from glow_tools.compile_check import prepare

        prepare(a, backend.target)
    backend.target = backend.target.freely
    backends = [backend]
    if a.threads > 1 and backend.target.triple.startswith("wasm"):  # not every page may have threads
        backends = [CpuBackend(cpu=_target(a)), backend]
    weights = ProgramWeights(WeightPool())
    with Progress("reading the model and running passes") as progress:
        with limited(a.compile_budget) as limit:
            sources = [list(_sources(a, name, each)) for each in backends]
        progress("generating code")
        options = a.weights == "embed", a.debug_info, a.output, a.size, weights
        programs = [
            compile_ahead(own, each.target, name, *options)
            for each, own in zip(backends, sources, strict=True)
        ]
    if a.memory is not None:
        _check_memory(programs[-1], a.memory)
    listings = {file: text.encode() for file, text in programs[-1].listings.items()}
    files = write(programs) | listings
    _write(a.output, files)
    note = None if limit is None else limit.note()
    if a.json:
        told = {str(a.output / file): len(data) for file, data in files.items()}
        print_json({"files": told, **_sizes(programs[-1]), **({NOTE: note} if note else {})})
    else:
        _print_sizes(programs[-1], {a.output / file: len(data) for file, data in files.items()})
        print(f"{NOTE}: {note}\n" if note else "", end="")
    if a.check:
        from glow_tools.compile_check import check

        return check(a, programs[-1], sources[-1])
    return 0


def _target(a: argparse.Namespace) -> str:
    """The target as the backend names it."""
    from glow_backends.cpu.presets import PRESETS
    from glow_backends.cpu.target import host

    if not a.mcpu and not a.mattr:
        return a.target
    if a.target == "host" and a.mcpu in (*PRESETS, "host") and not a.mattr:
        return a.mcpu
    preset = PRESETS.get(a.target)
    triple = host().triple if a.target == "host" else preset.triple if preset else a.target
    if preset and not a.mcpu:
        features = ",".join(f for f in (preset.features, a.mattr) if f)
        return f"{triple}/{preset.cpu}/{features}"
    return f"{triple}/{a.mcpu or ''}/{a.mattr}"


def _writer(a: argparse.Namespace, triple: str) -> Callable[[Sequence[AotProgram]], dict[str, bytes]]:
    """What makes the files of a program; options that do not go together are told before the work.

    A WebAssembly module with threads comes behind the same without.
    """
    from glow_tools import compile_c, compile_library, compile_wasm

    if triple.startswith("wasm64"):
        fail("modules with memories of 64 bits are not made; take wasm32")
    if triple.startswith("wasm"):
        if a.weights == "c" or a.emit == "library":
            fail("a WebAssembly module has its weights in a file or embedded, and is no library")
        linker = compile_wasm.linker()
        return lambda programs: compile_wasm.files(programs, a.weights == "embed", linker)
    if a.emit == "library":
        if "apple" in triple:
            fail("--emit library writes archives of ELF objects; take the object and libtool for this target")
        return lambda programs: compile_library.files(programs[0], a.weights)
    return lambda programs: compile_c.files(programs[0], a.weights)


def _sources(a: argparse.Namespace, name: str, backend: CpuBackend) -> Iterable[Source]:
    """The planned functions of the model, for each set of shapes: a name met again begins another set."""
    from glow_backends.cpu.aot import Source
    from glow_dialects.instr.memory import instr_functions
    from glow_tools.bench_kernels import planned
    from glow_tools.input_values import values_given

    if a.size:
        from glow_tools.compile_sizes import open_sources

        yield from open_sources(a.model, name, a.size, dict(a.shape), backend, a.exact)
        return
    given = values_given(a.model, a.input)
    sets: list[dict[str, Any]] = [{}]
    for tensor, shape in a.shape:
        if tensor in sets[-1]:
            sets.append({})
        sets[-1][tensor] = shape
    names: set[str] = set()
    for number, shapes in enumerate(sets):
        module, _, _ = planned(a.model, {**sets[0], **shapes}, backend, inputs=given, exact=a.exact)
        functions = list(instr_functions(module))
        for function in functions:
            own = f"{name}_{function.sym_name.data}" if len(functions) > 1 else name
            own = re.sub(r"\W", "_", own) + (f"_{number + 1}" if number else "")
            if own in names:
                fail(f"two functions would be called '{own}' in C")
            names.add(own)
            yield Source(module, function, own)


def _sizes(program: AotProgram) -> dict[str, Any]:
    """What a device needs, by name."""
    functions = {
        f.name: {"tensor_bytes": f.mutable_bytes, "arena_bytes": f.arena_bytes} for f in program.functions
    }
    return {"code_bytes": program.code_bytes, "weight_bytes": len(program.weights), "functions": functions}


def _print_sizes(program: AotProgram, files: Mapping[Path, int]) -> None:
    """What was written, and what a device needs: flash for code and constants, memory for the rest."""
    for file, size in files.items():
        print(f"wrote {file} ({size} bytes)")
    code = program.code_bytes
    print(f"{code} bytes of code and its constants, {len(program.weights)} of weights")
    for f in program.functions:
        print(f"{f.name}: {f.mutable_bytes} bytes of tensors, {f.arena_bytes} to work in")


def _check_memory(program: AotProgram, limit: int) -> None:
    for function in program.functions:
        need = function.mutable_bytes + function.arena_bytes
        if need > limit:
            fail(
                f"{function.name} needs {need} bytes of memory ({function.mutable_bytes} for tensors, "
                f"{function.arena_bytes} to work in), and --memory allows {limit}"
            )


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """All of them or none."""
    from glow_dialects.core.files import whole

    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for file, data in files.items():
            stack.enter_context(whole(folder / file)).write_bytes(data)


if __name__ == "__main__":
    raise SystemExit(main())
