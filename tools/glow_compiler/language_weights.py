"""Weights of language models, made of few bits when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.errors import GlowError

if TYPE_CHECKING:
    from glow_frontends.language import LanguageFiles
    from glow_frontends.language.decoder import Weight

_MATRICES = {"q", "k", "v", "o", "cross_q", "cross_k", "cross_v", "cross_o", "gate", "up", "down", "head"}
"""The weights of products with activations."""


def with_weights(files: LanguageFiles, weights: str, group: int) -> LanguageFiles:
    """The model with its matrices of few bits; those that have so few already stay as they are.

    Columns that are no whole number of groups stay floats. A matrix that is also the table of the tokens
    stays there as it is stored.
    """
    bits = {"stored": 0, "int8": 8, "int4": 4}.get(weights)
    if bits is None:
        raise GlowError(f"weights='{weights}': expected stored, int8 or int4")
    if group < 1:
        raise GlowError(f"group={group}: expected a number of inputs")
    if not bits:
        return files
    own = dict(files.weights)
    if "embed" in own:
        own.setdefault("head", own["embed"])
    changed = {n: _few(own[n], bits, group) for n in own if n.rpartition(".")[2] in _MATRICES}
    return replace(files, weights=own | changed)


def _few(weight: Callable[[], Weight], bits: int, group: int) -> Callable[[], Weight]:
    """The weight as blocks, made once."""

    @cache
    def made() -> Weight:
        from glow_frontends.language.blocks import Blocks
        from glow_passes.quantize.weight_blocks import quantize_blocks

        array = weight()
        if isinstance(array, Blocks) or array.shape[1] % group:
            return array
        codes, scales = quantize_blocks(np.asarray(array), bits, group)
        return Blocks(codes, scales, bits, group, array.shape[1], float(1 << (bits - 1)))

    return made
