"""Layers that stay float because rounding them costs the network most, as a profile measured it."""

from __future__ import annotations

from collections.abc import Iterable
from math import log10

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from glow_passes.quantize.apply_profile import LOSS

#: (decibels, part): while a network's outputs have fewer decibels of signal over noise, layers may stay
#: float up to this part of its products. An exchange of accuracy for time that holds on every target.
PARTS = ((45.0, 0.05), (32.0, 0.3), (28.0, 1.0))


def costly_layers(sizes: Iterable[tuple[Operation, int]]) -> set[Operation]:
    """The layers to keep in float of (layer, its products), those first that cost most a product.

    Noise of layers adds up as if it were independent; what was not measured is taken for none.
    """
    layers = [(_loss(op), size, op) for op, size in sizes]
    noise, total = sum(loss for loss, _, _ in layers), sum(size for _, size, _ in layers)
    ops: set[Operation] = set()
    spent = 0
    for loss, size, op in sorted(layers, key=lambda entry: entry[0] / max(entry[1], 1), reverse=True):
        decibels = -10 * log10(max(noise, 1e-30))
        if any(decibels < enough and spent + size <= part * total for enough, part in PARTS):
            ops.add(op)
            spent += size
            noise -= loss
    return ops


def _loss(op: Operation) -> float:
    loss = op.attributes.get(LOSS)
    return loss.value.data if isinstance(loss, FloatAttr) else 0.0
