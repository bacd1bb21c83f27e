"""The universe of plain `xdsl-opt`: dialects and passes of this project, its backends and other packages."""

from xdsl.universe import Universe

from glow_backends.base import backend_dialects
from glow_dialects.dialects import get_glow, get_glow_fn, get_glow_instr, get_quant
from glow_tools.pipelines import every_pass

GLOW_UNIVERSE = Universe(
    all_dialects={
        **backend_dialects(),
        "glow": get_glow,
        "glow_fn": get_glow_fn,
        "glow_instr": get_glow_instr,
        "quant": get_quant,
    },
    all_passes={name: (lambda kind=kind: kind) for name, kind in every_pass().items()},
)
