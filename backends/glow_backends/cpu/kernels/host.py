"""Operators that stay whole although no kernel computes them."""

from __future__ import annotations

from typing import cast

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.kernel import Kernel
from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.dft import DftOp

_SHORT = 16


class HostDft(Kernel[DftOp, None]):
    """Short inverse transforms stay with numpy.fft: published results hold its noise where zero is exact."""

    OPS = (DftOp,)

    def supports(self, node: GraphOp) -> bool:
        dft = cast(DftOp, node)
        short = not is_open((dft.length,)) and dft.length <= _SHORT
        return short and dft.inverse and not dft.onesided

    def match(self, op: DftOp, context: CallContext) -> None:
        return None
