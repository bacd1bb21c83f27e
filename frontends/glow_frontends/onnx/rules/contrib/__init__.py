"""Rules of com.microsoft: operators that onnxruntime's optimiser and quantiser write."""

from __future__ import annotations

from collections.abc import Mapping

from glow_frontends.onnx.rules import strings
from glow_frontends.onnx.rules.contrib import (
    attention,
    caches,
    decoding,
    diffusion,
    experts,
    few_bit_weights,
    fused,
    hashes,
    nchwc,
    packing,
    quantized,
)
from glow_frontends.onnx.rules.rule import Versions

#: Families of the domain, as `rules.RULES` lists those of others.
FAMILIES: tuple[Mapping[str, Versions], ...] = (
    attention.RULES,
    few_bit_weights.RULES,
    caches.RULES,
    decoding.RULES,
    diffusion.RULES,
    experts.RULES,
    fused.RULES,
    hashes.RULES,
    packing.RULES,
    quantized.RULES,
    strings.CONTRIB,
)

__all__ = ["FAMILIES", "nchwc"]
