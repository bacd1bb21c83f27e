"""From LLVM IR to code in this process: optimise, emit an object, link it."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from glow_backends.cpu.target import CpuTarget, initialize_llvm

if TYPE_CHECKING:
    from llvmlite import ir


def new_module(name: str, target: CpuTarget) -> ir.Module:
    """An empty module for the target."""
    from llvmlite import ir

    module = ir.Module(name, context=ir.Context())
    module.triple = target.triple
    return module


LARGE = 22_300
"""Characters of LLVM IR from which on a module gets only the cheap passes."""
_MANY_STEPS = 220_000
"""Characters from which on a function of calls alone, one after the other, is translated call by call."""
_METADATA = "\n!llvm.dbg.cu"
"""Where a text goes on with what only debuggers read: it is no larger for that."""
_VECTOR = re.compile(r"<\d+ x ")
_BRANCH = re.compile(r"^ +(br|switch) ", re.MULTILINE)
_HALF = "half"
_FLOATS = ctypes.c_int()
"""What objects for Windows name where they compute in floats; its linkers find it in the C library only."""


@cache
def _machine(target: CpuTarget, level: int) -> llvm.TargetMachine:
    """A machine for all modules: to learn the target's features anew for each takes a millisecond."""
    return target.machine(level)


def optimized(
    module: ir.Module | str,
    target: CpuTarget,
    kernel: bool = False,
    large: int = LARGE,
    loops: bool = False,
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Parse, verify and optimise.

    A kernel of vectors comes out of its emitter in final form, and so does anything large: LLVM's O3
    pipeline finds nothing there and takes three times as long as the passes that clean up addresses.
    In large kernels of vectors next to nothing is computed twice. Loops over single elements gain by O3.
    On x86 kernels of vectors gain nothing by combined instructions and by the code generator's levels 2 and
    3, each of which takes a tenth of all the time; elsewhere that was not measured.
    A program of many steps is one block of calls, to which the code generator gives registers in time that
    grows with its square; there is nothing to gain between calls, so that it gets level 0.
    `large` is the number of characters from which on a module is large; `loops`: it has loops for vectors.
    """
    initialize_llvm()
    text = str(module)
    vectors = kernel and _VECTOR.search(text) is not None
    quick = vectors and "x86" in target.triple
    size = text.find(_METADATA) if _METADATA in text else len(text)
    straight = not kernel and size >= _MANY_STEPS and "x86" in target.triple and not _BRANCH.search(text)
    machine = _machine(target, 0 if straight else 1 if quick else 3)
    parsed = llvm.parse_assembly(text)
    parsed.data_layout = str(machine.target_data)
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = loops
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    if target.triple.startswith("wasm") and _HALF in text:
        passes = llvm.create_new_module_pass_manager()
        passes.add_simplify_cfg_pass()  # others compare halves as such, on which LLVM 22 never ends there
        passes.add_new_gvn_pass()
    elif size < large and not vectors:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_simplify_cfg_pass()
        if not quick:
            passes.add_instruction_combine_pass()
        if not kernel:
            passes.add_ipsccp_pass()  # ints that branches bound need no check for overflow
        if size < large or not vectors:
            passes.add_new_gvn_pass()
        if size < large:
            passes.add_loop_rotate_pass()
            if not quick:
                passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(parsed, builder)
    return parsed, machine


def emit_object(
    module: ir.Module | str,
    target: CpuTarget,
    kernel: bool = False,
    large: int = LARGE,
    loops: bool = False,
) -> bytes:
    """The optimised object file of a module."""
    parsed, machine = optimized(module, target, kernel, large, loops)
    return machine.emit_object(parsed)


class Linked:
    """Objects linked into this process; keeps their memory alive.

    Code finds the constants of its object by 32-bit distances, so that an object's sections must lie close to
    each other. JITLink maps them in one piece; LLVM's older linker (MCJIT) takes pages where there are some,
    which in a process with much memory may be gigabytes apart.
    """

    def __init__(self, objects: Sequence[bytes], target: CpuTarget) -> None:
        initialize_llvm()
        self._jit = llvm.create_lljit_compiler(target.machine(), use_jit_link=sys.platform != "win32")
        library = llvm.JITLibraryBuilder().add_current_process()
        if sys.platform == "win32":
            library.import_symbol("_fltused", ctypes.addressof(_FLOATS))
        for data in objects:
            library.add_object_img(data)
        self._library = library.link(self._jit, "glow")
        self._trackers: dict[str, llvm.ResourceTracker] = {}  # the end of any of them unloads the library

    def address(self, name: str) -> int:
        """Address of an exported function."""
        if name not in self._trackers:
            self._trackers[name] = self._jit.lookup("glow", name)
        return self._trackers[name][name]
