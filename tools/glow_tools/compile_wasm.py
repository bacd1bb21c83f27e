"""A program compiled ahead of time as a WebAssembly module with a loader, laid out as a package of npm."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from glow_backends.cpu.jit import emit_object
from glow_backends.program_data import dtype_named
from glow_dialects.core.errors import GlowError
from glow_tools.common import fail
from glow_tools.compile_c import checksum

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotFunction, AotProgram

_NAMES = ("wasm-ld", *(f"wasm-ld-{version}" for version in range(22, 12, -1)))
_STACK = 1 << 20
"""Bytes of each thread's; kernels keep blocks of registers there that do not fit."""
_PAGE = 1 << 16
_FUNCTIONS = (
    *(
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
    ),
    *("expm1", "fmod", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh"),
)
_MATH = [name + kind for name in _FUNCTIONS for kind in ("", "f")]
"""What the loader takes of JavaScript where code calls the mathematical library."""
_ARRAYS = {
    "float32": "Float32Array",
    "float64": "Float64Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
    "bool": "Uint8Array",
    "int16": "Int16Array",
    "uint16": "Uint16Array",
    "int32": "Int32Array",
    "uint32": "Uint32Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
}
"""What JavaScript calls an array of a type."""
_BITS = {1: "Uint8Array", 2: "Uint16Array", 4: "Uint32Array", 8: "BigUint64Array"}
"""The same of types that it does not have, which are their bits, by their bytes."""


def linker() -> str:
    """The path of LLVM's linker for WebAssembly; ends with a message where there is none."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        fail("the linker wasm-ld is not installed; it is in the package lld of most systems")
    return found


_CHECKSUM = """
target triple = "{triple}"
define i64 @glow_checksum(ptr %data, i32 %bytes) {{
entry:
  br label %next
next:
  %at = phi i32 [ 0, %entry ], [ %after, %more ]
  %first = phi <4 x i32> [ zeroinitializer, %entry ], [ %firsts, %more ]
  %second = phi <4 x i32> [ zeroinitializer, %entry ], [ %seconds, %more ]
  %left = icmp ult i32 %at, %bytes
  br i1 %left, label %more, label %done
more:
  %place = getelementptr i8, ptr %data, i32 %at
  %words = load <4 x i32>, ptr %place, align 16
  %seconds = add <4 x i32> %second, %first
  %firsts = add <4 x i32> %first, %words
  %after = add i32 %at, 16
  br label %next
done:
  %fours = shl <4 x i32> %second, splat (i32 2)
  %own = mul <4 x i32> %first, <i32 4, i32 3, i32 2, i32 1>
  %both = add <4 x i32> %fours, %own
  %sum2 = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %both)
  %sum1 = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %first)
  %high = zext i32 %sum2 to i64
  %low = zext i32 %sum1 to i64
  %shifted = shl i64 %high, 32
  %result = or i64 %shifted, %low
  ret i64 %result
}}
declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)
"""
"""The sums of the header's `glow_checksum`, four words at a time; weights are a multiple of 64 bytes."""


def files(programs: Sequence[AotProgram], embedded: bool, linker: str) -> dict[str, bytes]:
    """The files of a package by name: of a program, and of the same with threads where that is wanted."""
    program, *threaded = programs
    name = program.name
    modules = {f"{name}.wasm": _module(program, linker, embedded)}
    for other in threaded:
        modules[f"{name}.threads.wasm"] = _module(other, linker, embedded)
    facts = [_facts(p, file, data) for p, (file, data) in zip(programs, modules.items(), strict=True)]
    content = {**modules, f"{name}.mjs": _loader(programs, facts, embedded).encode()}
    if threaded:
        content[f"{name}.worker.mjs"] = _text("wasm_worker.mjs").replace("__NAME__", name).encode()
    if not embedded:
        content[f"{name}.weights"] = programs[-1].weights
    # The types of the package, and those of the file NAME.mjs, which TypeScript looks for by its name.
    content |= dict.fromkeys((f"{name}.d.ts", f"{name}.d.mts"), _types(program).encode())
    return content | {"package.json": _package(program, list(content)).encode()}


def _pages(program: AotProgram) -> int:
    """Of the memory that threads share, which does not grow: all that the loader reserves, and the stacks."""
    tensors = sum(t.bytes + 64 + 4 + 8 * len(t.shape) for f in program.functions for t in f.tensors)
    constant = 2 * len(program.object) + len(program.weights)
    reserved = constant + tensors + _arena(program) + 1024 * len(program.functions)
    return -(-(reserved + (_STACK + 64) * program.target.threads) // _PAGE) + 1


def _arena(program: AotProgram) -> int:
    return max(f.arena_bytes for f in program.functions)


def _module(program: AotProgram, linker: str, embedded: bool) -> bytes:
    exports = [f.name for f in program.functions] + ["__heap_base", "glow_checksum"]
    exports += [f"{f.name}_plan" for f in program.functions if f.sizes]
    exports += [f"{program.name}_weights"] if embedded else []
    shared: list[str] = []
    if program.target.threads > 1:
        bytes_ = _pages(program) * _PAGE
        shared = ["--shared-memory", "--import-memory", "--export-table", "--export=__stack_pointer"]
        shared += [f"--initial-memory={bytes_}", f"--max-memory={bytes_}"]
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "program.o").write_bytes(program.object)
        checksum_text = _CHECKSUM.format(triple=program.target.triple)
        (path / "checksum.o").write_bytes(emit_object(checksum_text, program.target))
        command = [linker, "--no-entry", "--stack-first", "-z", f"stack-size={_STACK}", "--strip-debug"]
        (path / "imports").write_text("\n".join(_MATH))
        command += [*shared, *(f"--export={name}" for name in exports), "--allow-undefined-file=imports"]
        command += ["program.o", "checksum.o", "-o", "program.wasm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GlowError(f"{linker}: {done.stderr.strip()}")
        return (path / "program.wasm").read_bytes()


def _array(dtype: str) -> str:
    return _ARRAYS.get(dtype) or _BITS[dtype_named(dtype).itemsize]


def _text(file: str) -> str:
    return resources.files("glow_tools").joinpath(file).read_text(encoding="utf-8")


def _facts(program: AotProgram, file: str, module: bytes) -> dict[str, object]:
    """What the loader has to know of a module."""
    facts: dict[str, object] = {"file": file, "key": f"{zlib.crc32(module):08x}", "arena": _arena(program)}
    if program.target.threads > 1:
        facts |= {"workers": program.target.threads, "pages": _pages(program), "stack": _STACK}
    return facts


def _loader(programs: Sequence[AotProgram], modules: Sequence[dict[str, object]], embedded: bool) -> str:
    """The loader with what it has to know of this program."""
    program, weights = programs[0], programs[-1].weights
    functions = {
        f.name: {
            "sizes": [asdict(size) for size in f.sizes],
            "tensors": [{**asdict(t), "array": _array(t.dtype)} for t in f.tensors],
        }
        for f in program.functions
    }
    facts = {
        "name": program.name,
        "single": modules[0],
        "threads": modules[1] if len(modules) > 1 else None,
        "weightBytes": len(weights),
        "weightChecksum": f"{checksum(weights):#018x}",
        "embedded": embedded,
        "functions": functions,
    }
    return _text("wasm_loader.mjs").replace("__PROGRAM__", json.dumps(facts, indent=1))


def _types(program: AotProgram) -> str:
    blocks: list[str] = []
    for function in program.functions:
        for kind in ("input", "output"):
            fields = [
                f"  {json.dumps(t.name)}: {_array(t.dtype)}; // {_shape(t.shape)} {t.dtype}"
                for t in function.tensors
                if t.kind == kind
            ]
            word = f"{_pascal(function.name)}{kind.capitalize()}s"
            blocks.append("\n".join([f"export interface {word} {{", *fields, "}"]))
        if function.sizes:
            fields = [f"  {json.dumps(s.name)}: number; // {s.least} to {s.most}" for s in function.sizes]
            blocks.append("\n".join([f"export interface {_pascal(function.name)}Sizes {{", *fields, "}"]))
    kinds = {f.name: _function_type(f) for f in program.functions}
    members = "\n".join(f"    {name}: {kind};" for name, kind in kinds.items())
    text = _text("wasm_loader.d.ts").replace("__FUNCTIONS__", members)
    text = text.replace("__FIRST__", kinds[program.functions[0].name])
    return "\n\n".join([*blocks, text])


def _function_type(function: AotFunction) -> str:
    name = _pascal(function.name)
    return f"Fn<{name}Inputs, {name}Outputs{f', {name}Sizes' if function.sizes else ''}>"


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Program"


def _shape(shape: Sequence[int | None]) -> str:
    return "x".join("?" if d is None else str(d) for d in shape) or "scalar"


def _package(program: AotProgram, listed: Sequence[str]) -> str:
    name = program.name
    package = {
        "name": name.lower().replace("_", "-").strip("-") or "program",
        "version": "1.0.0",
        "description": f"{name}, compiled to WebAssembly by glow-compile",
        "type": "module",
        "main": f"./{name}.mjs",
        "types": f"./{name}.d.ts",
        "exports": {".": {"types": f"./{name}.d.ts", "default": f"./{name}.mjs"}, "./*": "./*"},
        "files": list(listed),
        "sideEffects": False,
    }
    return json.dumps(package, indent=2) + "\n"
