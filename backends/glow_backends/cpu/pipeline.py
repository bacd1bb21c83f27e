"""The passes of the CPU backend, in order, with their purpose."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.passes import ModulePass

from glow_backends.cpu.passes.cpu_attention import CpuAttentionPass
from glow_backends.cpu.passes.cpu_channels import CpuChannelsPass
from glow_backends.cpu.passes.cpu_choose import CpuChoosePass
from glow_backends.cpu.passes.cpu_fuse import CpuFusePass
from glow_backends.cpu.passes.cpu_fuse_norms import CpuFuseNormsPass
from glow_backends.cpu.passes.cpu_fuse_sums import CpuFuseSumsPass
from glow_backends.cpu.passes.cpu_halves import CpuHalvesPass
from glow_backends.cpu.passes.cpu_images import CpuImagesPass
from glow_backends.cpu.passes.cpu_integer_blocks import CpuIntegerBlocksPass
from glow_backends.cpu.passes.cpu_layout import CpuLayoutPass
from glow_backends.cpu.passes.cpu_pairs import CpuPairsPass
from glow_backends.cpu.passes.cpu_place_parts import CpuPlacePartsPass
from glow_backends.cpu.passes.cpu_recurrent import CpuRecurrentPass
from glow_backends.cpu.passes.cpu_rows import CpuRowsPass
from glow_backends.cpu.passes.cpu_stack import CpuStackPass
from glow_backends.cpu.passes.cpu_turns import CpuTurnsPass
from glow_backends.cpu.passes.cpu_widen import CpuWidenPass
from glow_passes.instr.one_memory import OneMemoryPass
from glow_passes.instr.unroll import UnrollPass


def graph_passes(
    cpu: str = "host", threads: int = 1, winograd: bool = True, search: bool = False
) -> Sequence[ModulePass]:
    """From the lowered graph to the target's."""
    return (
        CpuWidenPass(cpu),  # layers on 16-bit floats
        CpuHalvesPass(),  # layers on 16-bit integers
        CpuRowsPass(),  # scatters and gathers of whole rows
        CpuRecurrentPass(),  # one product for all steps of a network
        CpuLayoutPass(cpu),  # channel blocks through whole regions
        CpuChannelsPass(),  # shuffles inside those regions
        CpuFusePass(cpu),  # epilogues
        CpuAttentionPass(),  # softmax between two products
        CpuFuseNormsPass(),  # around normalisations of training
        CpuFuseSumsPass(),  # residuals of quantised convolutions
        CpuPairsPass(cpu),  # 16-bit numbers in place of bytes, where products take pairs
        CpuIntegerBlocksPass(cpu),  # 8-bit activations by weights of few bits
        CpuStackPass(),  # the remaining element-wise operators
        CpuImagesPass(cpu, threads, winograd),  # batches part by part
        CpuChoosePass(cpu, threads, winograd, search),
    )


def instr_passes() -> Sequence[ModulePass]:
    """On instructions, before memory is planned."""
    return (
        UnrollPass(),  # programs for devices that have loops
        OneMemoryPass(),  # and memories
        CpuPlacePartsPass(),  # parts of a buffer stay in it
    )


def own_passes() -> Sequence[type[ModulePass]]:
    """The passes that this backend adds to those of every target."""
    from glow_backends.cpu.to_llvm import ConvertGlowInstrToLLVMPass  # no pipeline needs it

    used = dict.fromkeys(type(p) for p in (*graph_passes(), CpuPlacePartsPass(), CpuTurnsPass()))
    return (*used, ConvertGlowInstrToLLVMPass)
