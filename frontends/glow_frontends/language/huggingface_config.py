"""config.json: the decoder's parameters, by architecture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_frontends.language.decoder import Decoder, Latent
from glow_frontends.language.rope import Rope, llama3_factors, yarn_factors, yarn_gain
from glow_frontends.language.routing import MIXER, SIGMOID, Router
from glow_frontends.language.settings import MOST_LAYERS, MOST_PARTS, Settings

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
}


@dataclass(frozen=True)
class Config(Settings):
    """The settings of a file."""

    file: Path
    settings: Mapping[str, Any]
    asked: list[str] = field(default_factory=list[str], compare=False)  # pyright: ignore

    @property
    def kind(self) -> str:
        """The architecture."""
        return str(self.settings.get("model_type", "nothing"))

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, `default` where it is absent or null."""
        self.asked.append(name)
        found = self.settings.get(name)
        return default if found is None else found

    def label(self, name: str) -> str:
        return f"{self.file}: '{name}'"


def decoder_of(c: Config) -> Decoder:
    """The decoder of a configuration."""
    made = _common(c)
    change = _CHANGES.get(c.kind)
    for name in _OTHER:
        if c.get(name):
            raise UnsupportedError(f"{c.label(name)} is set, which changes the model and is not supported")
    made = replace(made, clip=c.number("clip_qkv", 0.0))
    return made if change is None else change(c, made)


_OTHER = ("use_bidirectional_attention", "is_encoder_decoder", "add_cross_attention")
"""Settings of models that do not continue texts, or compute otherwise."""


def activation_of(c: Config, *names: str) -> str:
    """Our name of an activation, by the first setting there is of some names."""
    kind = c.need(*names)
    if kind not in _ACTIVATIONS:
        raise UnsupportedError(f"{c.file}: the activation '{kind}' is not supported")
    return _ACTIVATIONS[kind]


_EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")


def _common(c: Config) -> Decoder:
    """What most architectures have in common, under the names that they have for it."""
    heads = c.count("num_attention_heads", "n_head", "num_heads", most=MOST_PARTS)
    width = c.count("hidden_size", "n_embd")
    head = c.count("head_dim", default=width // heads)
    layers = c.count("num_hidden_layers", "n_layer", "num_layers", most=MOST_LAYERS)
    hidden = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
    known = any(c.get(name) for name in hidden)
    activation = ("hidden_act", "activation_function", "activation")
    return Decoder(
        vocabulary=c.count("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        shared=c.count("num_key_value_heads", default=c.count("num_kv_heads", default=heads)),
        head=head,
        hidden=c.count(*hidden) if known or c.kind not in _FOURFOLD else 4 * width,
        places=c.count("max_position_embeddings", "n_positions", "n_ctx"),
        epsilon=c.number(next((n for n in _EPSILONS if c.get(n) is not None), "rms_norm_eps"), 1e-6),
        activation=activation_of(c, *(("hidden_activation",) if c.kind in _GEMMAS else ()), *activation),
        rope=rope_of(c, head),
        windows=_windows(c, layers),
        router=_router(c),
    )


_FOURFOLD = ("falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gptj")
"""Architectures whose layers are four times as wide inside where settings do not say how wide."""
_GEMMAS = ("gemma", "gemma2", "gemma3_text")


def _router(c: Config) -> Router | None:
    """How tokens choose experts, where there are such."""
    if c.kind not in _ROUTED:
        return None
    counts = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
    chosen = ("num_experts_per_tok", "moe_topk", "moe_k")
    fixed: dict[str, Any] = {"normalised": bool(c.get("norm_topk_prob", False)), **_ROUTED[c.kind]}
    in_groups = _in_groups(c)
    return Router(
        experts=c.count(*counts, most=MOST_PARTS),
        chosen=c.count(*chosen),
        scale=c.number("routed_scaling_factor", 1.0),
        groups=c.count("n_group", default=1) if in_groups else 1,
        kept=c.count("topk_group", default=1) if in_groups else 1,
        **fixed,
    )


def _in_groups(c: Config) -> bool:
    """Whether experts are chosen in groups; UnsupportedError where they are chosen in a way not known."""
    known, usual = ("group_limited_greedy", "greedy") if c.kind == "deepseek_v2" else ("noaux_tc",) * 2
    method = c.get("topk_method", usual)
    if method not in (known, "greedy"):
        raise UnsupportedError(f"{c.label('topk_method')} is '{method}'; '{known}' is known, and 'greedy'")
    return method == known


_SIGMOIDS: dict[str, Any] = {"scores": SIGMOID, "best": 2}
_ROUTED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"normalised": False},
    "deepseek_v3": _SIGMOIDS,
    "dots1": _SIGMOIDS,
    "ernie4_5_moe": {"normalised": True},
    "glm4_moe": _SIGMOIDS,
    "glm4_moe_lite": _SIGMOIDS,
    "gpt_oss": {"normalised": True},
    "granitemoe": {"normalised": True},
    "granitemoeshared": {"normalised": True},
    "hunyuan_v1_moe": {"normalised": True},
    "kimi_k2": _SIGMOIDS,
    "minimax_m2": {"normalised": True, "scores": SIGMOID},
    "mixtral": {"normalised": True},
    "olmoe": {},
    "phimoe": {"scores": MIXER},
    "qwen2_moe": {},
    "qwen3_moe": {},
}
"""Architectures with experts, and what their routers do whatever settings say."""


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
    if kinds is None and c.kind in _PATTERNS:
        every = c.get("sliding_window_pattern", _PATTERNS[c.kind])
        every = len(every) if isinstance(every, str) else every  # "LLLG"
        kinds = ["sliding_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    if kinds is None:
        return (int(window),) * layers
    return tuple(int(window) if kind == "sliding_attention" else 0 for kind in kinds)


_PATTERNS = {"cohere2": 4, "exaone4": 4, "gemma2": 2, "gemma3_text": 6, "gpt_oss": 2, "olmo3": 4}
"""Architectures of which one of so many layers has no window, where settings do not say which."""


def rope_of(c: Config, head: int, layers: str = "full_attention", base: str = "rope_theta") -> Rope:
    """The rotary positions of layers of a kind."""
    parameters: dict[str, Any] = c.get("rope_parameters", {})
    if layers in parameters:
        parameters = parameters[layers]
    scaling: dict[str, Any] = c.get("rope_scaling", parameters if "rope_type" in parameters else {})
    base = "rotary_emb_base" if c.kind == "gpt_neox" else base
    theta = c.number(base, parameters.get("rope_theta", 10000.0))
    plain = Rope(_turned_features(c, head, parameters) // 2, theta, c.kind in _INTERLEAVED)
    try:
        return _scaled(c, plain, scaling)
    except KeyError as error:
        raise GlowError(f"{c.file}: rotary positions are scaled, and {error} is missing") from None
    except (TypeError, ValueError, ZeroDivisionError):
        raise GlowError(f"{c.file}: the scale of rotary positions cannot be read: {scaling}") from None


def _turned_features(c: Config, head: int, parameters: Mapping[str, Any]) -> int:
    """How many features of a head are turned to their place."""
    if c.get("kv_lora_rank") is not None:
        return c.count("qk_rope_head_dim")
    if c.get("rotary_dim") is not None:
        return c.count("rotary_dim")
    usual = parameters.get("partial_rotary_factor", c.get("rotary_pct", _SHARES.get(c.kind, 1.0)))
    return int(head * c.number("partial_rotary_factor", usual))


_SHARES = dict.fromkeys(("glm", "glm4", "glm4_moe", "nemotron", "phi"), 0.5) | {
    "gpt_neox": 0.25,
    "stablelm": 0.25,
}
"""The share of features that are turned to their place where settings do not say it."""
_INTERLEAVED = (
    *("cohere", "cohere2", "deepseek_v2", "deepseek_v3", "ernie4_5", "ernie4_5_moe"),
    *("glm", "glm4", "glm4_moe_lite", "gptj", "helium", "kimi_k2", "youtu"),
)
"""Architectures whose pairs are neighbouring features."""


def _scaled(c: Config, plain: Rope, scaling: Mapping[str, Any]) -> Rope:
    """Positions stretched as settings say."""
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    # `dynamic` changes beyond the length that the model was made for, `mrope` where there are images.
    if kind in ("default", "dynamic", "mrope"):
        return plain
    if kind == "linear":
        return replace(plain, factors=(float(scaling["factor"]),) * plain.pairs)
    if kind == "llama3":
        return replace(plain, factors=llama3_factors(plain, scaling))
    if kind == "yarn":
        return _yarn(c, plain, scaling)
    if kind in ("longrope", "su"):
        return _long(c, plain, scaling)
    raise UnsupportedError(f"{c.file}: rotary positions scaled by '{kind}' are not supported")


def _ministral3(c: Config, d: Decoder) -> Decoder:
    """Queries that grow with their place, beside positions of which all features are turned."""
    scaling: Mapping[str, Any] = c.get("rope_scaling", c.get("rope_parameters", {}))
    growth = float(scaling.get("llama_4_scaling_beta") or 0)
    rope = None if d.rope is None else replace(d.rope, growth=growth, grown=_first_places(c, scaling))
    return replace(d, rope=rope)


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


def _gpt2(c: Config, d: Decoder) -> Decoder:
    return replace(
        d,
        gated=False,
        centred=True,
        rope=None,
        scale=0.0 if c.get("scale_attn_weights", True) else 1.0,
        scale_by_layer=bool(c.get("scale_attn_by_inverse_layer_idx", False)),
    )


def _gpt_bigcode(c: Config, d: Decoder) -> Decoder:
    return replace(_gpt2(c, d), shared=1 if c.get("multi_query", True) else d.heads)


def _gpt_neo(c: Config, d: Decoder) -> Decoder:
    kinds = [kind for some, times in c.need("attention_types") for kind in some * times]
    window = c.count("window_size", default=256)
    windows = tuple(window if kind == "local" else 0 for kind in kinds)
    return replace(_gpt2(c, d), scale=1.0, windows=windows)


def _gpt_neox(c: Config, d: Decoder) -> Decoder:
    return replace(d, gated=False, centred=True, parallel=bool(c.get("use_parallel_residual", True)))


def _falcon(c: Config, d: Decoder) -> Decoder:
    if c.get("alibi"):
        raise UnsupportedError(
            f"{c.label('alibi')} is set; attention with linear biases (ALiBi) is not supported"
        )
    new = bool(c.get("new_decoder_architecture", False))
    shared = d.shared if new else 1 if c.get("multi_query", True) else d.heads
    parallel = new or bool(c.get("parallel_attn", True))
    return replace(d, gated=False, centred=True, parallel=parallel, shared=shared)


def _opt(c: Config, d: Decoder) -> Decoder:
    if not c.get("do_layer_norm_before", True) or c.get("word_embed_proj_dim", d.width) != d.width:
        raise UnsupportedError(
            f"{c.file}: models with 'do_layer_norm_before' false or 'word_embed_proj_dim' other than "
            "'hidden_size' are not known"
        )
    return replace(d, gated=False, centred=True, rope=None, epsilon=1e-5)


def _gpt_oss(c: Config, d: Decoder) -> Decoder:
    return replace(d, slope=c.number("swiglu_alpha", 1.702), limit=c.number("swiglu_limit", 7.0), lift=1.0)


def _latent(c: Config, d: Decoder) -> Decoder:
    """Keys and values made of latents, and scores that grow with what positions are stretched by."""
    turned, value = c.count("qk_rope_head_dim"), c.count("v_head_dim")
    head = c.count("qk_nope_head_dim") + turned
    scaling: Mapping[str, Any] = c.get("rope_scaling", c.get("rope_parameters", {}))
    factor, gain = float(scaling.get("factor") or 1), float(scaling.get("mscale_all_dim") or 0)
    rope = d.rope
    if rope is not None and c.get("rope_interleave") is False:
        rope = replace(rope, interleaved=False)
    return replace(
        d,
        head=head,
        rope=rope,
        latent=Latent(c.count("kv_lora_rank"), turned, value),
        scale=head**-0.5 * yarn_gain(factor, gain) ** 2,
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


def _phi(_: Config, d: Decoder) -> Decoder:
    return replace(d, centred=True, gated=False, parallel=True)


def _phimoe(c: Config, d: Decoder) -> Decoder:
    assert d.router is not None
    far = 2 * c.number("router_jitter_noise", 0.01)
    return replace(d, centred=True, router=replace(d.router, far=far))


def _cohere(c: Config, d: Decoder) -> Decoder:
    turned = tuple(map(bool, d.windows)) if c.kind == "cohere2" else ()
    scale = c.number("logit_scale", 0.0625)
    return replace(d, centred=True, parallel=True, logit_scale=scale, turned=turned)


def _stablelm(c: Config, d: Decoder) -> Decoder:
    return replace(d, centred=True, parallel=bool(c.get("use_parallel_residual", False)))


def _exaone(_: Config, d: Decoder) -> Decoder:
    return replace(d, prenorm=False, turned=tuple(map(bool, d.windows)))


def _hunyuan(c: Config, d: Decoder) -> Decoder:
    return replace(d, normed_turned=True)


def _ungated(_: Config, d: Decoder) -> Decoder:
    return replace(d, gated=False)


def _granite(c: Config, d: Decoder) -> Decoder:
    return replace(
        d,
        embed_scale=c.number("embedding_multiplier", 1.0),
        residual_scale=c.number("residual_multiplier", 1.0),
        scale=c.number("attention_multiplier", 0.0),
        logit_scale=1.0 / c.divisor("logits_scaling", 1.0),
    )


def _granite_hybrid(c: Config, d: Decoder) -> Decoder:
    """Granite 4 without what the name says: attention in each layer, and no experts."""
    kinds = c.get("layer_types", c.get("layers_block_type"))
    if kinds is None or not {*kinds} <= {"attention", "full_attention"} or c.get("num_local_experts", 0):
        raise UnsupportedError(
            f"{c.file}: layers other than attention (Mamba), or with experts "
            "in parallel to attention, are not supported"
        )
    rope = d.rope if c.get("position_embedding_type") == "rope" else None
    return replace(_granite(c, d), rope=rope)


def _olmo(c: Config, d: Decoder) -> Decoder:
    return replace(d, centred=True, scaled=False, epsilon=1e-5)


def _olmo2(c: Config, d: Decoder) -> Decoder:
    local = rope_of(c, d.head, "sliding_attention")
    return replace(d, prenorm=False, local_rope=replace(local, factors=(), gain=1.0))


def _smollm3(c: Config, d: Decoder) -> Decoder:
    every = c.count("no_rope_layer_interval", default=4)
    turned = c.get("no_rope_layers", [(i + 1) % every for i in range(d.layers)])
    return replace(d, turned=tuple(map(bool, turned)))


def _centred(_: Config, d: Decoder) -> Decoder:
    return replace(d, centred=True, gated=False)


_CHANGES: dict[str, Callable[[Config, Decoder], Decoder]] = {
    "arcee": _ungated,
    "cohere": _cohere,
    "cohere2": _cohere,
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "exaone4": _exaone,
    "falcon": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma,
    "gemma3_text": _gemma3,
    "glm4_moe_lite": _latent,
    "kimi_k2": _latent,
    "youtu": _latent,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "gptj": lambda _, d: replace(d, gated=False, centred=True, parallel=True),
    "granite": _granite,
    "granitemoe": _granite,
    "granitemoehybrid": _granite_hybrid,
    "granitemoeshared": _granite,
    "hunyuan_v1_dense": _hunyuan,
    "hunyuan_v1_moe": _hunyuan,
    "ministral3": _ministral3,
    "nemotron": _centred,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo2,
    "opt": _opt,
    "phi": _phi,
    "phimoe": _phimoe,
    "smollm3": _smollm3,
    "stablelm": _stablelm,
    "starcoder2": _centred,
}
"""What differs from the most common decoder, by architecture."""
