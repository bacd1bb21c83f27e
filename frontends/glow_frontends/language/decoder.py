"""Decoder: everything in which the architectures of language models differ, and the weights of one.

Weights have names of ours: `embed`, `positions`, `norm`, `head`, and for layer i `i.attention_norm`, `i.q`,
`i.k`, `i.v`, `i.o`, `i.q_norm`, `i.k_norm`, `i.after_attention`, `i.mlp_norm`, `i.gate`, `i.up`, `i.down`,
`i.after_mlp`; where an encoder's output is seen, `i.cross_norm`, `i.cross_q` and `i.cross_o`. A bias is
called like its weight with `.bias` behind it. Matrices are [outputs, inputs].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_frontends.language.blocks import Blocks

Weight = Array | Blocks
"""A matrix or vector of floats, or a matrix of codes of few bits."""


@dataclass(frozen=True)
class Rope:
    """Rotary positions: pair i of `pairs` turns by base^(-i / pairs) / factors[i] a place."""

    pairs: int
    base: float = 10000.0
    interleaved: bool = False
    factors: tuple[float, ...] = ()
    #: What cosines and sines are multiplied with.
    gain: float = 1.0

    def tables(self, places: int) -> tuple[Array, Array]:
        """Cosines and sines [places, pairs], f32."""
        turns = self.base ** (-np.arange(self.pairs, dtype=np.float64) / self.pairs)
        if self.factors:
            turns = turns / np.asarray(self.factors)
        # Products in f32, as the models were trained with.
        angles = np.arange(places, dtype=np.float32)[:, None] * turns.astype(np.float32)
        return tuple((f(angles) * self.gain).astype(np.float32) for f in (np.cos, np.sin))  # pyright: ignore


@dataclass(frozen=True)
class Decoder:
    """A decoder: sizes, kinds of its parts, and what differs from layer to layer."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    #: Heads of keys and values.
    shared: int
    head: int
    hidden: int
    #: The longest sequence that the model is made for.
    places: int
    epsilon: float
    activation: str = "silu"
    #: The activation of one product is multiplied with another product.
    gated: bool = True
    #: Zero mean and unit variance instead of unit root mean square.
    centred: bool = False
    #: Attention and the rest of a layer see the same input.
    parallel: bool = False
    rope: Rope | None = None
    #: Rotary positions of layers with a window, where they have others.
    local_rope: Rope | None = None
    #: One a layer: the places that a token sees, 0 for all before it.
    windows: tuple[int, ...] = ()
    #: What scores are multiplied with; 0: one over the root of the head's size.
    scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    logit_scale: float = 1.0
    embed_scale: float = 1.0
    residual_scale: float = 1.0
    #: Places of an encoder's output, whose keys and values every layer sees; 0: there is no encoder.
    memory: int = 0

    def __post_init__(self) -> None:
        if self.heads % self.shared:
            raise GlowError(f"{self.heads} heads cannot share {self.shared} heads of keys and values")

    @property
    def score_scale(self) -> float:
        """What scores are multiplied with."""
        return self.scale or self.head**-0.5

    def window(self, layer: int) -> int:
        """The places that a token of a layer sees; 0: all."""
        return self.windows[layer] if self.windows else 0


@dataclass
class LanguageFiles:
    """A model as its files have it: the decoder, its weights by name, and what goes with its texts."""

    source: str
    decoder: Decoder
    weights: Mapping[str, Callable[[], Weight]]
    #: Tokens that end a text.
    ends: tuple[int, ...] = ()
    #: The token that begins a text, if one does.
    begin: int | None = None
    #: A `tokenizer.json`, or what else tells the tokens.
    tokenizer: Path | None = None
    #: Tokens as GGUF files have them.
    tokens: Mapping[str, Any] = field(default_factory=dict[str, Any])
    chat_template: str | None = None
    #: Texts of the tokens that templates name.
    special: Mapping[str, str] = field(default_factory=dict[str, str])
