"""config.json: what it says of a decoder, by architecture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_frontends.language.decoder import Decoder, Router
from glow_frontends.language.rope import Rope, llama3_factors, yarn_factors, yarn_gain
from glow_frontends.language.settings import Settings

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


@dataclass(frozen=True)
class Config(Settings):
    """The settings of a file."""

    file: Path
    settings: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The architecture."""
        return str(self.settings.get("model_type", "nothing"))

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, `default` where it is absent or null."""
        found = self.settings.get(name)
        return default if found is None else found

    def label(self, name: str) -> str:
        return f"{self.file}: '{name}'"


def decoder_of(c: Config) -> Decoder:
    """The decoder of a configuration."""
    made = _gpt2(c) if c.kind == "gpt2" else _common(c)
    change = _CHANGES.get(c.kind)
    for name in _OTHER:
        if c.get(name):
            raise UnsupportedError(
                f"{c.label(name)} is set, which makes another model of it; it is not known"
            )
    return made if change is None else change(c, made)


_OTHER = ("use_bidirectional_attention", "is_encoder_decoder", "add_cross_attention", "clip_qkv")
"""Settings of models that do not continue texts, or compute otherwise."""


def activation_of(c: Config, name: str) -> str:
    """Our name of an activation."""
    kind = c.get("hidden_activation" if c.kind.startswith("gemma") else name) or c.need(name, "hidden_act")
    if kind not in _ACTIVATIONS:
        raise UnsupportedError(f"{c.file}: the activation '{kind}' is not known")
    return _ACTIVATIONS[kind]


def _common(c: Config) -> Decoder:
    """What most architectures have in common."""
    heads, width = c.count("num_attention_heads"), c.count("hidden_size")
    head = c.count("head_dim", default=width // heads)
    layers = c.count("num_hidden_layers")
    return Decoder(
        vocabulary=c.count("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        shared=c.count("num_key_value_heads", default=heads),
        head=head,
        hidden=c.count("intermediate_size"),
        places=c.count("max_position_embeddings"),
        epsilon=c.number("rms_norm_eps", c.number("layer_norm_eps", 1e-6)),
        activation=activation_of(c, "hidden_act"),
        rope=rope_of(c, head),
        windows=_windows(c, layers),
        router=_router(c),
    )


def _router(c: Config) -> Router | None:
    """How tokens choose experts, where there are such."""
    if c.kind not in _ROUTED:
        return None
    return Router(
        experts=c.count("num_experts" if c.get("num_experts") else "num_local_experts"),
        chosen=c.count("num_experts_per_tok"),
        normalised=_ROUTED[c.kind] or bool(c.get("norm_topk_prob", False)),
    )


_ROUTED = {"granitemoe": True, "mixtral": True, "olmoe": False, "qwen2_moe": False, "qwen3_moe": False}
"""Architectures with experts, and whether the shares of the chosen ones add up to 1 whatever settings say."""


def _windows(c: Config, layers: int) -> tuple[int, ...]:
    """The window of each layer."""
    window = c.get("sliding_window", 0)
    if not window or c.settings.get("use_sliding_window") is False:
        return ()
    kinds = c.get("layer_types")
    if kinds is None and c.kind in ("qwen2", "qwen3"):
        full = int(c.number("max_window_layers", layers))
        kinds = ["full_attention" if i < full else "sliding_attention" for i in range(layers)]
    if kinds is None and c.kind == "qwen2_moe":
        most = c.number("max_window_layers", 28)
        kinds = ["full_attention" if i % 2 or i >= most else "sliding_attention" for i in range(layers)]
    if kinds is None and c.kind == "gemma2":
        kinds = ["full_attention" if i % 2 else "sliding_attention" for i in range(layers)]
    if kinds is None and c.kind == "gemma3_text":
        every = c.count("sliding_window_pattern", default=6)
        kinds = ["sliding_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    if kinds is None:
        return (int(window),) * layers
    return tuple(int(window) if kind == "sliding_attention" else 0 for kind in kinds)


def rope_of(c: Config, head: int, layers: str = "full_attention", base: str = "rope_theta") -> Rope:
    """The rotary positions of layers of a kind."""
    parameters: dict[str, Any] = c.get("rope_parameters", {})
    if layers in parameters:
        parameters = parameters[layers]
    scaling: dict[str, Any] = c.get("rope_scaling", parameters if "rope_type" in parameters else {})
    theta = c.number(base, parameters.get("rope_theta", 10000.0))
    share = c.number("partial_rotary_factor", parameters.get("partial_rotary_factor", 1.0))
    plain = Rope(int(head * share) // 2, theta)
    try:
        return _scaled(c, plain, scaling)
    except KeyError as error:
        raise GlowError(f"{c.file}: rotary positions are scaled, and {error} is missing") from None
    except (TypeError, ValueError, ZeroDivisionError):
        raise GlowError(f"{c.file}: the scale of rotary positions cannot be read: {scaling}") from None


def _scaled(c: Config, plain: Rope, scaling: Mapping[str, Any]) -> Rope:
    """Positions stretched as settings say."""
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind in ("default", "dynamic"):  # `dynamic` changes beyond the length that the model was made for
        return plain
    if kind == "linear":
        return replace(plain, factors=(float(scaling["factor"]),) * plain.pairs)
    if kind == "llama3":
        return replace(plain, factors=llama3_factors(plain, scaling))
    if kind == "yarn":
        return _yarn(c, plain, scaling)
    if kind in ("longrope", "su"):
        return _long(c, plain, scaling)
    raise UnsupportedError(f"{c.file}: rotary positions scaled by '{kind}' are not known")


def _first_places(c: Config, s: Mapping[str, Any]) -> int:
    """The places that the model was first made for, before its positions were scaled."""
    places = c.count("max_position_embeddings")
    first = s.get("original_max_position_embeddings", places)
    return c.count("original_max_position_embeddings", default=first)


def _yarn(c: Config, rope: Rope, s: Mapping[str, Any]) -> Rope:
    factor, fast, slow = float(s["factor"]), float(s.get("beta_fast") or 32), float(s.get("beta_slow") or 1)
    factors = yarn_factors(rope, factor, _first_places(c, s), fast, slow, s.get("truncate", True))
    gain = yarn_gain(factor)
    if s.get("mscale") and s.get("mscale_all_dim"):
        gain = yarn_gain(factor, float(s["mscale"])) / yarn_gain(factor, float(s["mscale_all_dim"]))
    return replace(rope, factors=factors, gain=float(s.get("attention_factor") or gain))


def _long(c: Config, rope: Rope, s: Mapping[str, Any]) -> Rope:
    """Phi 3's: other factors for texts that are longer than those it was first made for."""
    places, first = c.count("max_position_embeddings"), _first_places(c, s)
    factor = float(s.get("factor") or places / first)
    gain = math.sqrt(1 + math.log(max(1.0, factor)) / math.log(first))
    short, long = (tuple(map(float, s[n])) for n in ("short_factor", "long_factor"))
    return replace(
        rope,
        factors=short,
        long_factors=long if places > first else (),
        short_places=first if places > first else 0,
        gain=float(s.get("attention_factor") or gain),
    )


def _gpt2(c: Config) -> Decoder:
    width, heads = c.count("n_embd"), c.count("n_head")
    return Decoder(
        vocabulary=c.count("vocab_size"),
        width=width,
        layers=c.count("n_layer"),
        heads=heads,
        shared=heads,
        head=width // heads,
        hidden=c.count("n_inner", default=4 * width),
        places=c.count("n_positions", "n_ctx"),
        epsilon=c.number("layer_norm_epsilon", 1e-5),
        activation=activation_of(c, "activation_function"),
        gated=False,
        centred=True,
        scale=0.0 if c.get("scale_attn_weights", True) else 1.0,
        scale_by_layer=bool(c.get("scale_attn_by_inverse_layer_idx", False)),
    )


def _gemma(c: Config, d: Decoder) -> Decoder:
    scale = c.get("query_pre_attn_scalar")
    return replace(
        d,
        embed_scale=_as_trained(c, d.width**0.5),
        scale=0.0 if scale is None else float(scale) ** -0.5,
        score_cap=c.number("attn_logit_softcapping", 0.0),
        logit_cap=c.number("final_logit_softcapping", 0.0),
    )


def _as_trained(c: Config, number: float) -> float:
    """A number as the model's element type holds it."""
    import ml_dtypes
    import numpy as np

    kind = c.get("dtype", c.get("torch_dtype", "float32"))
    return float(np.asarray(number, ml_dtypes.bfloat16 if kind == "bfloat16" else np.float32))


def _gemma3(c: Config, d: Decoder) -> Decoder:
    local = rope_of(c, d.head, "sliding_attention", "rope_local_base_freq")
    return replace(_gemma(c, d), local_rope=replace(local, factors=()))


def _phi(c: Config, d: Decoder) -> Decoder:
    share = c.number("partial_rotary_factor", 0.5)
    pairs = int(d.head * share) // 2
    rope = None if d.rope is None or "rope_parameters" in c.settings else replace(d.rope, pairs=pairs)
    return replace(d, centred=True, gated=False, parallel=True, rope=rope or d.rope)


def _granite(c: Config, d: Decoder) -> Decoder:
    return replace(
        d,
        embed_scale=c.number("embedding_multiplier", 1.0),
        residual_scale=c.number("residual_multiplier", 1.0),
        scale=c.number("attention_multiplier", 0.0),
        logit_scale=1.0 / c.divisor("logits_scaling", 1.0),
    )


def _olmo(c: Config, d: Decoder) -> Decoder:
    local = rope_of(c, d.head, "sliding_attention")
    return replace(d, prenorm=False, local_rope=replace(local, factors=(), gain=1.0))


def _smollm3(c: Config, d: Decoder) -> Decoder:
    every = c.count("no_rope_layer_interval", default=4)
    turned = c.get("no_rope_layers", [(i + 1) % every for i in range(d.layers)])
    return replace(d, turned=tuple(map(bool, turned)))


def _starcoder(c: Config, d: Decoder) -> Decoder:
    return replace(d, centred=True, gated=False, epsilon=c.number("norm_epsilon", 1e-5))


_CHANGES: dict[str, Callable[[Config, Decoder], Decoder]] = {
    "gemma": _gemma,
    "gemma2": _gemma,
    "gemma3_text": _gemma3,
    "granite": _granite,
    "granitemoe": _granite,
    "olmo2": _olmo,
    "olmo3": _olmo,
    "phi": _phi,
    "smollm3": _smollm3,
    "starcoder2": _starcoder,
}
