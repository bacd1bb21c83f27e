"""Decoder: all parameters in which language model architectures differ, and a model's weights.

Weights have names of ours: `embed`, `positions`, `norm`, `head`, and for layer i `i.attention_norm`, `i.q`,
`i.k`, `i.v`, `i.o`, `i.q_norm`, `i.k_norm`, `i.after_attention`, `i.mlp_norm`, `i.gate`, `i.up`, `i.down`,
`i.after_mlp`; where an encoder's output is seen, `i.cross_norm`, `i.cross_q` and `i.cross_o`. `i.sinks`
[heads] take a share of each head's attention.

Layers with experts have `i.router` [experts, inputs] in place of `i.gate`, `i.up`, `i.down`;
`i.experts_gate`, `i.experts_up`, `i.experts_down` [experts, outputs, inputs]; `i.router_offsets` [experts],
added to scores where they choose; and where one expert is asked by all `i.shared_gate`, `i.shared_up`,
`i.shared_down`, and `i.shared_router` [1, inputs], which weighs it.

Where keys and values are made of latents, `i.kv` in place of `i.k` and `i.v` makes these and the turned
keys; `i.kv_norm` is the latents' norm, `i.k_up` [heads, latent, features] makes latents of queries, `i.v_up`
[heads, features, latent] values of latents. `i.q_a` and `i.q_a_norm` are before `i.q`, if there are such.

A bias is called like its weight with `.bias` behind it. Matrices are [outputs, inputs].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.rope import Rope
from glow_frontends.language.routing import Router

Weight = Array | Blocks
"""A matrix or vector of floats, or a matrix of codes of few bits; experts' are one behind the other."""


@dataclass(frozen=True)
class Latent:
    """Keys and values of all heads made of one vector a token, which is what caches keep (DeepSeek 2024)."""

    #: Its features that make keys and values.
    width: int
    #: The last features of a head's queries and keys, which are turned to their place; keys share them.
    turned: int
    #: Features of a head's values.
    value: int
    #: Of the norms of latents.
    epsilon: float = 1e-6


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
    #: What x is multiplied with inside of "silu", x sigmoid(slope x).
    slope: float = 1.0
    #: Gates are at most this, what they open is within it on both sides; 0: no limit.
    limit: float = 0.0
    #: Added to the values that the gates multiply.
    lift: float = 0.0
    #: Zero mean and unit variance instead of unit root mean square.
    centred: bool = False
    #: Norms have scales.
    scaled: bool = True
    #: Attention and the rest of a layer see the same input, each by a norm of its own if it has one.
    parallel: bool = False
    #: The inputs of attention and of the rest of a layer are normalised.
    prenorm: bool = True
    rope: Rope | None = None
    #: Rotary positions of layers with a window, where they have others.
    local_rope: Rope | None = None
    #: One a layer: whether it has rotary positions; (): all have.
    turned: tuple[bool, ...] = ()
    #: Queries and keys are normalised after they are turned to their place.
    normed_turned: bool = False
    #: Queries, keys and values are within it on both sides; 0: no limit.
    clip: float = 0.0
    latent: Latent | None = None
    #: One a layer: the places that a token sees, 0 for all before it.
    windows: tuple[int, ...] = ()
    #: What scores are multiplied with; 0: one over the root of the head's size.
    scale: float = 0.0
    #: Scores of layer i are divided by i + 1.
    scale_by_layer: bool = False
    score_cap: float = 0.0
    logit_cap: float = 0.0
    logit_scale: float = 1.0
    embed_scale: float = 1.0
    residual_scale: float = 1.0
    #: Of layers with experts, if there are such.
    router: Router | None = None
    #: Places of an encoder's output, whose keys and values every layer sees; 0: there is no encoder.
    memory: int = 0

    def __post_init__(self) -> None:
        if self.heads % self.shared:
            raise GlowError(f"{self.heads} heads cannot share {self.shared} heads of keys and values")

    @property
    def cached(self) -> tuple[int, int]:
        """Heads that caches keep for a token, and the features of one."""
        latent = self.latent
        return (1, latent.width + latent.turned) if latent else (self.shared, self.head)

    @property
    def short_places(self) -> int:
        """The places of caches that have other rotary positions than longer ones; 0: all have the same."""
        return self.rope.short_places if self.rope else 0

    def rope_of(self, layer: int) -> Rope | None:
        """The rotary positions of a layer."""
        if self.turned and not self.turned[layer]:
            return None
        return (self.window(layer) and self.local_rope) or self.rope

    def score_scale(self, layer: int) -> float:
        """What scores of a layer are multiplied with."""
        return (self.scale or self.head**-0.5) / (layer + 1 if self.scale_by_layer else 1)

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


def unread(names: Collection[str], router: Router | None) -> set[str]:
    """Of our names of weights those that no graph reads: a layer has experts, or it has none."""
    routed = {n.removesuffix(".router") for n in names if n.endswith(".router")} if router else set[str]()
    unused: set[str] = set()
    for name in names:
        layer, _, part = name.removesuffix(".bias").partition(".")
        experts = part.startswith(("router", "experts_", "shared_"))
        if part in ("gate", "up", "down") if layer in routed else experts:
            unused.add(name)
    return unused


def check_all_known(left: Collection[str], path: Path, kind: str) -> None:
    """UnsupportedError where files have weights `left` that nothing of an architecture's graph reads."""
    if left:
        raise UnsupportedError(
            f"{path}: '{min(left)}', one of {len(left)} such weights, is no part of the architecture "
            f"'{kind}' as it is known; without it the model would be another one"
        )
