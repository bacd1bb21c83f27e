"""Weights of language models, quantised when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_backends.base import Backend
    from glow_frontends.language import LanguageFiles
    from glow_frontends.language.decoder import Weight

_MATRICES = {
    *("q", "k", "v", "o", "q_a", "kv", "k_up", "v_up", "cross_q", "cross_k", "cross_v", "cross_o", "head"),
    *(f"{kind}{part}" for kind in ("", "shared_", "experts_") for part in ("gate", "up", "down")),
}
"""The weights of products with activations; those by which tokens choose their experts stay floats."""
_LONGEST = 512
"""Tokens that are looked at together."""


def with_weights(
    files: LanguageFiles, weights: str, group: int, importance: Mapping[str, Array] | None = None
) -> LanguageFiles:
    """The model with its matrices of few bits; those that have so few already stay as they are.

    Columns that are no whole number of groups stay floats. A matrix that is also the table of the tokens
    stays there as it is stored. `importance`: by the name of a matrix, how much each of its inputs weighs.
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
    weigh = importance or {}
    changed = {
        n: _few(own[n], bits, group, weigh.get(f"{n}.weight"))
        for n in own
        if n.rpartition(".")[2] in _MATRICES
    }
    return replace(files, weights=own | changed)


def _few(
    weight: Callable[[], Weight], bits: int, group: int, importance: Array | None
) -> Callable[[], Weight]:
    """The weight as blocks, made once."""

    @cache
    def made() -> Weight:
        from glow_frontends.language.blocks import Blocks
        from glow_passes.quantize.weight_blocks import quantize_blocks

        array = weight()
        *lead, depth = array.shape
        if isinstance(array, Blocks) or depth % group:
            return array
        codes, scales = quantize_blocks(np.asarray(array).reshape(-1, depth), bits, group, importance)
        codes, scales = codes.reshape(*lead, -1), scales.reshape(*lead, -1)
        return Blocks(codes, scales, bits, group, depth, float(1 << (bits - 1)))

    return made


def importance_of(files: LanguageFiles, texts: Sequence[Sequence[int]], backend: Backend) -> dict[str, Array]:
    """The mean square of each input of the matrices over texts, by the matrix's name.

    GlowError for tokens that the model does not have.
    """
    from glow_compiler.language_slots import check_tokens
    from glow_compiler.weight_quantization import input_squares
    from glow_frontends.language import Form, decoder_graph

    check_tokens(texts, files.decoder.vocabulary)
    stream = [token for text in texts for token in text]
    count = min(files.decoder.places, _LONGEST, len(stream))
    whole = [stream[i : i + count] for i in range(0, len(stream) - count + 1, count)]
    graph = decoder_graph(files, Form(1, count, 1, count, every=True, rounded=False))
    feeds = [
        {"tokens": np.array([p], np.int32), "slots": np.zeros(1, np.int32), "starts": np.zeros(1, np.int32)}
        for p in whole
    ]
    return input_squares(graph.module, feeds, backend)
