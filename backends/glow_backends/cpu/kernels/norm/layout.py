"""Normalisations carried over to blocked values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glow_backends.cpu.kernels.norm.lrn_op import BlockedLrnOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import dtype_of
from glow_dialects.ops.lrn import LrnOp
from glow_passes.graph.regions import Region


def lrn(op: LrnOp, region: Region, target: CpuTarget) -> bool:
    """Local response normalisation of a blocked NCHW value."""
    form = region.known.get(op.input)
    size: int = op.size
    if form is None or form.last or size > 2 * target.lanes + 1 or dtype_of(op.input.type) != np.float32:
        return False
    numbers = {n: getattr(op, n) for n in ("alpha", "beta", "bias")}
    new = BlockedLrnOp(form.value, channels=form.channels, size=size, **numbers)
    region.remember(op.result, replace(form, value=region.add(new)))
    return True
