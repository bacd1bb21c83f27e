"""The cost of rounding each layer of a network: measured, one layer at a time, on representative data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_compiler.api import compile
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.module import PlaceholderOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.quantize.apply_profile import annotate
from glow_passes.quantize.profile import Profile
from glow_passes.quantize.quantize import Options
from glow_passes.quantize.schema import Schema
from glow_passes.quantize.switched_layers import switched

#: How many batches of the data are enough.
BATCHES = 2

Feed = Mapping[str, Any]


def losses(module: ModuleOp, ranges: Profile, data: Sequence[Feed], backend: str) -> dict[str, float]:
    """Noise over signal in the outputs with one layer on integers, for every layer worth it.

    `module` is the optimised graph that the profile is of. A network with a state gives none: it
    would answer the same input differently each time.
    """
    schema, both = Schema(), module.clone()
    if any(isinstance(op, PlaceholderOp) and op.kind.data == "state" for op in both.body.block.ops):
        return {}
    annotate(both, ranges, schema, "none")
    switches = switched(both, Options(schema))
    if not switches:
        return {}
    for item in (CsePass(), DcePass()):
        item.apply(context(), both)
    net = compile(both, backend=backend)
    off = {name: np.zeros(1, bool) for name in switches.values()}
    loss_of_layer = dict.fromkeys(switches, 0.0)
    for feed in data[:BATCHES]:
        exact = {name: np.array(value) for name, value in net.run({**feed, **off}).items()}
        for layer, switch in switches.items():
            rounded = net.run({**feed, **off, switch: np.ones(1, bool)})
            loss_of_layer[layer] += _noise(exact, rounded) / min(len(data), BATCHES)
    return loss_of_layer


def _noise(exact: Mapping[str, Array], rounded: Mapping[str, Array]) -> float:
    """Mean square of the change relative to that of the value, on average over the outputs."""
    parts: list[float] = []
    for name, array in exact.items():
        if array.dtype.kind not in "fiub":
            continue
        want = np.asarray(array, np.float64)
        error = np.asarray(rounded[name], np.float64) - want
        usual = np.isfinite(want) & np.isfinite(error)
        signal = float((want[usual] ** 2).sum())
        if signal > 0:
            parts.append(float((error[usual] ** 2).sum()) / signal)
    return float(np.mean(parts)) if parts else 0.0
