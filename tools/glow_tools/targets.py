"""The targets of `glow-opt -t`: MLIR text, the seeds' form, graph pictures, kernels, LLVM IR, assembly."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer


def text_of(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """The module as text, with the `locations` of operations where they are wanted."""
    out = StringIO()
    Printer(out, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return out.getvalue() + "\n"


def mlir(module: ModuleOp, a: argparse.Namespace) -> str:
    """The module in MLIR syntax."""
    return text_of(module, a.print_op_generic, a.print_debuginfo)


def glow_ir(module: ModuleOp, a: argparse.Namespace) -> str:
    """The instruction level as the Glow IR document writes it."""
    from glow_dialects.instr.listing import print_glow_ir

    return print_glow_ir(module)


def dot(module: ModuleOp, a: argparse.Namespace) -> str:
    """The graph level for Graphviz (the paper's dumpDAG)."""
    from glow_passes.watch.dot import to_dot

    return to_dot(module)


def svg(module: ModuleOp, a: argparse.Namespace) -> str:
    """The graph level as a picture."""
    from glow_passes.watch.dot import to_svg

    return to_svg(module)


def kernels(module: ModuleOp, a: argparse.Namespace) -> str:
    """Kernels that are described as nests of loops (`glow_kernel`), with their schedules."""
    return _cpu(a).kernels_listing(module)


def llvm_ir(module: ModuleOp, a: argparse.Namespace) -> str:
    """Kernels and program as LLVM IR, before LLVM's optimiser."""
    return _cpu(a).listing(module, assembly=False, times=a.times)


def asm(module: ModuleOp, a: argparse.Namespace) -> str:
    """Kernels and program as assembly."""
    return _cpu(a).listing(module, assembly=True, times=a.times)


def _cpu(a: argparse.Namespace):
    from glow_backends.cpu.backend import CpuBackend

    return CpuBackend(cpu=a.mcpu)


Emit = Callable[[ModuleOp, argparse.Namespace], str]
EMITTERS: dict[str, Emit] = {
    "mlir": mlir,
    "glow-ir": glow_ir,
    "dot": dot,
    "svg": svg,
    "kernels": kernels,
    "llvm-ir": llvm_ir,
    "asm": asm,
}


def emitter(target: str) -> Emit:
    """What prints a module for a target: ours, or a function of a package (entry point `glow.targets`)."""
    from glow_dialects.core.errors import UnsupportedError

    if target in EMITTERS:
        return EMITTERS[target]
    from glow_dialects.core.packages import added

    others = added("glow.targets", lambda thing: None if callable(thing) else "it is no function of a module")
    if target not in others:
        raise UnsupportedError(f"no target '{target}'; there are: {', '.join([*EMITTERS, *others])}")
    return lambda module, a: others[target](module)
