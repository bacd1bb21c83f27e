"""The universe of plain `xdsl-opt`: this project's dialects, and the passes that are not a backend's own."""

from xdsl.universe import Universe

from glow_backends.cpu.backend import CpuBackend
from glow_dialects.dialects import get_glow, get_glow_fn, get_glow_instr, get_quant
from glow_passes import factories

GLOW_UNIVERSE = Universe(
    all_dialects={
        "glow": get_glow,
        "glow_fn": get_glow_fn,
        "glow_instr": get_glow_instr,
        "quant": get_quant,
        **CpuBackend.dialects(),
    },
    all_passes=factories(),
)
