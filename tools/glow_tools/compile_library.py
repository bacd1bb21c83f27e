"""A program compiled ahead of time as a static library that CMake and pkg-config find."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from glow_tools import compile_c

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotProgram


def files(program: AotProgram, weights: str) -> dict[str, bytes]:
    """The files of a bundle with `lib{name}.a` in place of the object."""
    name = program.name
    content = compile_c.files(program, weights)
    content[f"lib{name}.a"] = archive(f"{name}.o", content.pop(f"{name}.o"), _symbols(program, weights))
    content[f"{name}Config.cmake"] = _cmake(program, weights).encode()
    content[f"{name}.pc"] = _pkg_config(program).encode()
    return content


def _symbols(program: AotProgram, weights: str) -> list[str]:
    embedded = [f"{program.name}_weights"] if weights == "embed" else []
    return [f.name for f in program.functions] + embedded


def archive(member: str, data: bytes, symbols: list[str]) -> bytes:
    """An archive of one object as System V's ar writes it, with the index of symbols that linkers read."""
    long = f"{member}/\n".encode()
    names = b"".join(s.encode() + b"\0" for s in symbols)
    index_bytes = 4 + 4 * len(symbols) + len(names)
    first = 8 + 60 + _even(index_bytes) + 60 + _even(len(long))
    index = struct.pack(f">{1 + len(symbols)}I", len(symbols), *[first] * len(symbols)) + names
    return b"!<arch>\n" + _member("/", index) + _member("//", long) + _member("/0", data)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)


def _even(size: int) -> int:
    return size + size % 2


def _cmake(program: AotProgram, weights: str) -> str:
    name = program.name
    lines = [
        f"# find_package({name}) defines the library {name}::{name}"
        + (f" and {name}_WEIGHTS, the file of its weights." if weights == "file" else "."),
        f"if(NOT TARGET {name}::{name})",
        f"  add_library({name}::{name} STATIC IMPORTED)",
        f"  set_target_properties({name}::{name} PROPERTIES",
        f'    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"',
        '    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")',
    ]
    if weights == "c":
        source = f"${{CMAKE_CURRENT_LIST_DIR}}/{name}_weights.c"
        lines.append(f'  target_sources({name}::{name} INTERFACE "{source}")')
    lines.append("endif()")
    if weights == "file":
        lines.append(f'set({name}_WEIGHTS "${{CMAKE_CURRENT_LIST_DIR}}/{name}.weights")')
    return "\n".join(lines) + "\n"


def _pkg_config(program: AotProgram) -> str:
    name = program.name
    return (
        "folder=${pcfiledir}\n"
        f"Name: {name}\nDescription: a model compiled by glow-compile for {program.target.triple}\n"
        f"Version: 1\nLibs: -L${{folder}} -l{name}\nCflags: -I${{folder}}\n"
    )
