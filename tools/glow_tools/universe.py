"""The universe of plain `xdsl-opt`: dialects and passes of this project, its backends and other packages."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError

from glow_backends.base import backend_dialects
from glow_dialects.core.errors import GlowError
from glow_dialects.dialects import get_glow, get_glow_fn, get_glow_instr, get_quant
from glow_tools.common import describe
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


def show_message(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """What our commands print of an error, in place of a traceback; GLOW_TRACEBACK=1 shows that."""
    if isinstance(error, GlowError | DiagnosticException | ParseError) and not os.environ.get(
        "GLOW_TRACEBACK"
    ):
        print(f"error: {describe(error)}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


if os.path.basename(sys.argv[0]) == "xdsl-opt":  # which lets every error through
    sys.excepthook = show_message
