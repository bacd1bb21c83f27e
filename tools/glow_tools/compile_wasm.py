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

from glow_dialects.core.errors import GlowError
from glow_tools.common import fail
from glow_tools.compile_c import checksum

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotFunction, AotProgram

_NAMES = ("wasm-ld", *(f"wasm-ld-{version}" for version in range(22, 12, -1)))
_STACK = 1 << 20
"""Bytes; kernels keep blocks of registers there that do not fit."""
_ARRAYS = {
    "float32": "Float32Array",
    "float64": "Float64Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
    "bool": "Uint8Array",
    "int16": "Int16Array",
    "uint16": "Uint16Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
    "int32": "Int32Array",
    "uint32": "Uint32Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
}
"""What JavaScript calls an array of a type; 16-bit floats are their bits."""


def linker() -> str:
    """The path of LLVM's linker for WebAssembly; ends with a message where there is none."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        fail("the linker wasm-ld is not installed; it is in the package lld of most systems")
    return found


def files(program: AotProgram, embedded: bool, linker: str) -> dict[str, bytes]:
    """The files of a package by name."""
    name = program.name
    module = _module(program, linker, embedded)
    content = {
        f"{name}.wasm": module,
        f"{name}.mjs": _loader(program, module, embedded).encode(),
        f"{name}.d.ts": _types(program).encode(),
        "package.json": _package(program, embedded).encode(),
    }
    if not embedded:
        content[f"{name}.weights"] = program.weights
    return content


def _module(program: AotProgram, linker: str, embedded: bool) -> bytes:
    exports = [f.name for f in program.functions] + ["__heap_base"]
    exports += [f"{f.name}_plan" for f in program.functions if f.sizes]
    exports += [f"{program.name}_weights"] if embedded else []
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "program.o").write_bytes(program.object)
        command = [linker, "--no-entry", "--stack-first", "-z", f"stack-size={_STACK}", "--strip-debug"]
        command += [*(f"--export={name}" for name in exports), "program.o", "-o", "program.wasm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GlowError(f"{linker}: {done.stderr.strip()}")
        return (path / "program.wasm").read_bytes()


def _text(file: str) -> str:
    return resources.files("glow_tools").joinpath(file).read_text(encoding="utf-8")


def _loader(program: AotProgram, module: bytes, embedded: bool) -> str:
    """The loader with what it has to know of this program."""
    functions = {
        f.name: {
            "arena": f.arena_bytes,
            "sizes": [asdict(size) for size in f.sizes],
            "tensors": [{**asdict(t), "array": _ARRAYS[t.dtype]} for t in f.tensors],
        }
        for f in program.functions
    }
    facts = {
        "name": program.name,
        "moduleKey": f"{zlib.crc32(module):08x}",
        "weightBytes": len(program.weights),
        "weightChecksum": f"{checksum(program.weights):016x}",
        "embedded": embedded,
        "functions": functions,
    }
    return _text("wasm_loader.mjs").replace("__PROGRAM__", json.dumps(facts, indent=1))


def _types(program: AotProgram) -> str:
    blocks: list[str] = []
    for function in program.functions:
        for kind in ("input", "output"):
            fields = [
                f"  {json.dumps(t.name)}: {_ARRAYS[t.dtype]}; // {_shape(t.shape)} {t.dtype}"
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


def _package(program: AotProgram, embedded: bool) -> str:
    name = program.name
    listed = [f"{name}.wasm", f"{name}.mjs", f"{name}.d.ts", *([] if embedded else [f"{name}.weights"])]
    package = {
        "name": name.lower().replace("_", "-").strip("-") or "program",
        "version": "1.0.0",
        "description": f"{name}, compiled to WebAssembly by glow-compile",
        "type": "module",
        "main": f"./{name}.mjs",
        "types": f"./{name}.d.ts",
        "exports": {".": {"types": f"./{name}.d.ts", "default": f"./{name}.mjs"}, "./*": "./*"},
        "files": listed,
        "sideEffects": False,
    }
    return json.dumps(package, indent=2) + "\n"
