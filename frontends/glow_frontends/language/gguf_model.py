"""Language models of GGUF files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_frontends.language.blocks import Blocks, of_latents
from glow_frontends.language.decoder import (
    Decoder,
    LanguageFiles,
    Latent,
    Weight,
    check_all_known,
    unread,
)
from glow_frontends.language.gguf_file import GgufFile
from glow_frontends.language.gguf_tensors import GgufTensor
from glow_frontends.language.rope import Rope, yarn_factors, yarn_gain
from glow_frontends.language.routing import MIXER, SIGMOID, SOFTMAX, Router
from glow_frontends.language.settings import MOST_LAYERS, MOST_PARTS, token_numbers

_WHOLE = {
    "embed": "token_embd",
    "positions": "position_embd",
    "norm": "output_norm",
    "head": "output",
}
_LAYER = {
    "attention_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "after_attention": "post_attention_norm",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "after_mlp": "post_ffw_norm",
    "router": "ffn_gate_inp",
    "shared_router": "ffn_gate_inp_shexp",
    "sinks": "attn_sinks",
    "q_a": "attn_q_a",
    "q_a_norm": "attn_q_a_norm",
    "kv": "attn_kv_a_mqa",
    "kv_norm": "attn_kv_a_norm",
    "k_up": "attn_k_b",
    "v_up": "attn_v_b",
} | {
    f"{ours}{part}": f"ffn_{part}_{theirs}"
    for part in ("gate", "up", "down")
    for ours, theirs in (("experts_", "exps"), ("shared_", "shexp"))
}
_BEHIND = {"after_attention": "", "mlp_norm": "post_attention_norm"}
_OWN = {"glm4moe": _BEHIND, "gpt-oss": _BEHIND, "seed_oss": _BEHIND}
"""Names that differ, by architecture; "": there is no such weight."""
_WAVES = {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}
#: What differs from the most common decoder, by architecture.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "arcee": {"activation": "relu2", "gated": False},
    "cohere2": {"centred": True, "parallel": True},
    "command-r": {"centred": True, "parallel": True},
    "deepseek2": {},
    "dots1": {},
    "ernie4_5": {},
    "ernie4_5-moe": {},
    "exaone": {},
    "exaone4": {"prenorm": False},
    "gemma": {"activation": "gelu_tanh"},
    "gemma2": {"activation": "gelu_tanh"},
    "gemma3": {"activation": "gelu_tanh"},
    "glm4": {},
    "glm4moe": {},
    "gpt-oss": {"slope": 1.702, "limit": 7.0, "lift": 1.0},
    "gpt2": {"activation": "gelu_tanh", "gated": False, "centred": True},
    "gptneox": {"activation": "gelu", "gated": False, "centred": True},
    "granite": {},
    "granitemoe": {},
    "hunyuan-dense": {"normed_turned": True},
    "hunyuan-moe": {"normed_turned": True},
    "llama": {},
    "minimax-m2": {},
    "nemotron": {"activation": "relu2", "gated": False, "centred": True},
    "olmo": {"centred": True, "scaled": False},
    "olmo2": {"prenorm": False},
    "olmoe": {},
    "phi2": {"activation": "gelu_tanh", "gated": False, "centred": True, "parallel": True},
    "phi3": {},
    "phimoe": {"centred": True},
    "qwen2": {},
    "qwen2moe": {},
    "qwen3": {},
    "qwen3moe": {},
    "seed_oss": {},
    "smollm3": {},
    "stablelm": {"centred": True},
    "starcoder": {"activation": "gelu_tanh", "gated": False, "centred": True},
    "starcoder2": {"activation": "gelu_tanh", "gated": False, "centred": True},
}
_INTERLEAVED = (
    *("arcee", "cohere2", "command-r", "deepseek2", "ernie4_5", "ernie4_5-moe", "glm4"),
    *("granite", "granitemoe", "llama", "olmo", "smollm3"),
)
"""Architectures whose matrices of queries and keys are written for pairs of neighbouring features."""
_UNTURNED = ("gpt2", "starcoder")
"""Architectures that have a table of positions."""
_AS_THEY_ARE = ("deepseek2", "dots1", "glm4moe", "olmoe", "qwen2moe")
"""Architectures whose experts' shares do not add up to 1 where settings do not say so."""
_LARGE_GEMMAS = {"gemma2": 46, "gemma3": 62}
"""Layers of those that scale scores by the width of a head's share, which their files do not say."""
_SCORES = {1: SOFTMAX, 2: SIGMOID, 3: SOFTMAX}
"""How routers make scores of experts; 3 is of the chosen ones alone, whose shares add up to 1 so."""
_SIGMOIDS = ("glm4moe", "minimax-m2")
"""Architectures that score by sigmoids where their files do not say how."""


def read_gguf(path: Path) -> LanguageFiles:
    """A model of a file; GlowError where it is damaged, UnsupportedError for what is not known."""
    file = GgufFile(path)
    if file.kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedError(
            f"{path}: the architecture '{file.kind}' is not supported; supported are: {known}"
        )
    for name in file.entries:
        GgufTensor(file, name).check()
    with file.guarded():
        return _read(path, file)


def _read(path: Path, file: GgufFile) -> LanguageFiles:
    decoder = _decoder(file)
    settings = file.settings
    tokens = {n.removeprefix("tokenizer.ggml."): v for n, v in settings.items() if "tokenizer.ggml." in n}
    ends = [
        number
        for n in ("eos_token_id", "eot_token_id")
        for number in token_numbers(tokens.get(n), f"{path}: 'tokenizer.ggml.{n}'")
    ]
    begin = token_numbers(tokens.get("bos_token_id"), f"{path}: 'tokenizer.ggml.bos_token_id'")
    texts, template = tokens.get("tokens", []), settings.get("tokenizer.chat_template")
    for name, value, kind in (("ggml.tokens", texts, list), ("chat_template", template, str | None)):
        if not isinstance(value, kind):
            raise GlowError(f"{path}: 'tokenizer.{name}' is {str(value)[:60]!r}")
    special = {n: tokens.get(f"{n[:3]}_token_id") for n in ("bos_token", "eos_token")}
    return LanguageFiles(
        str(path),
        decoder,
        _weights(file, decoder),
        tuple(ends),
        begin[0] if begin else None,
        tokens=tokens,
        chat_template=template,
        special={n: texts[i] for n, i in special.items() if i is not None and i < len(texts)},
    )


def _decoder(f: GgufFile) -> Decoder:
    width, heads = f.count("embedding_length"), f.count("attention.head_count", most=MOST_PARTS)
    blocks = f.count("block_count", most=MOST_LAYERS)
    layers = blocks - int(f.number("nextn_predict_layers", 0))  # what guesses further tokens is not read
    key = "attention.key_length"
    head = f.count(f"{key}_mla" if f.get(f"{key}_mla") else key, default=width // heads)
    windows = _windows(f, layers)
    own: dict[str, Any] = {"parallel": bool(f.get("use_parallel_residual", False)), **ARCHITECTURES[f.kind]}
    epsilon = f.get("attention.layer_norm_rms_epsilon", f.get("attention.layer_norm_epsilon", 1e-5))
    gemma = f.kind.startswith("gemma")
    entry = f.entries.get("token_embd.weight")
    large = _LARGE_GEMMAS.get(f.kind) == layers
    return Decoder(
        vocabulary=entry.shape[0] if entry else f.count("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        shared=f.count("attention.head_count_kv", default=heads),
        head=head,
        hidden=f.count("feed_forward_length"),
        places=f.count("context_length"),
        epsilon=float(epsilon),
        rope=None if f.kind in _UNTURNED else _rope(f, head),
        local_rope=_local_rope(f, head),
        turned=_turned(f, layers, windows),
        windows=windows,
        scale=(width / heads) ** -0.5 if large else _scale(f, head),
        score_cap=f.number("attn_logit_softcapping", 0.0),
        logit_cap=f.number("final_logit_softcapping", 0.0),
        logit_scale=f.divisor("logit_scale", 1.0) ** (1 if f.kind in _COHERES else -1),
        clip=f.number("attention.clamp_kqv", 0.0),
        latent=_latent(f),
        embed_scale=float(np.float32(width**0.5)) if gemma else f.number("embedding_scale", 1.0),
        residual_scale=f.number("residual_scale", 1.0),
        router=_router(f),
        **own,
    )


_COHERES = ("cohere2", "command-r")


def _turned(f: GgufFile, layers: int, windows: tuple[int, ...]) -> tuple[bool, ...]:
    """Which layers have rotary positions."""
    if f.kind == "smollm3":
        return tuple((i + 1) % 4 > 0 for i in range(layers))
    return tuple(map(bool, windows)) if f.kind in ("cohere2", "exaone4") else ()


def _scale(f: GgufFile, head: int) -> float:
    """What scores are multiplied with, which grows with what the positions of latents are stretched by."""
    growth = f.number("rope.scaling.yarn_log_multiplier", 0.0)
    if f.get("attention.kv_lora_rank") is None or not growth:
        return f.number("attention.scale", 0.0)
    return head**-0.5 * (1.0 + growth * math.log(f.divisor("rope.scaling.factor", 1.0))) ** 2


def _latent(f: GgufFile) -> Latent | None:
    """Keys and values made of latents, where they are."""
    if f.get("attention.kv_lora_rank") is None:
        return None
    value = "attention.value_length"
    value = f"{value}_mla" if f.get(f"{value}_mla") else value
    return Latent(f.count("attention.kv_lora_rank"), f.count("rope.dimension_count"), f.count(value))


def _router(f: GgufFile) -> Router | None:
    """How tokens choose experts, where there are such."""
    if not f.get("expert_count"):
        return None
    kind = f.get("expert_gating_func", 0) or (2 if f.kind in _SIGMOIDS else 1)
    if kind not in _SCORES:
        known = "softmax (1, 3) and sigmoid (2) are known"
        raise UnsupportedError(f"{f.label('expert_gating_func')} is {kind}; {known}")
    mixer = f.kind == "phimoe"
    return Router(
        experts=f.count("expert_count", most=MOST_PARTS),
        chosen=f.count("expert_used_count"),
        normalised=bool(f.get("expert_weights_norm", f.kind not in _AS_THEY_ARE)),
        scale=f.number("expert_weights_scale", 1.0) or 1.0,
        scores=MIXER if mixer else _SCORES[kind],
        groups=f.count("expert_group_count", default=1),
        kept=f.count("expert_group_used_count", default=1),
        best=2 if _SCORES[kind] == SIGMOID else 1,
        far=0.02 if mixer else 0.0,
    )


def _rope(f: GgufFile, head: int) -> Rope:
    """Rotary positions, whose waves a tensor may stretch."""
    base = f.number("rope.freq_base", 10000.0)
    plain = Rope(f.count("rope.dimension_count", default=head) // 2, base, f.kind in _INTERLEAVED)
    plain = replace(plain, gain=f.number("rope.scaling.attn_factor", 1.0))
    first = f.count("rope.scaling.original_context_length", default=f.count("context_length"))
    short, long = (_stored_factors(f, f"rope_factors_{n}.weight") for n in ("short", "long"))
    if short and f.count("context_length") > first:
        return replace(plain, factors=short, long_factors=long, short_places=first)
    factor, kind = f.divisor("rope.scaling.factor", 1.0), f.get("rope.scaling.type", "none")
    if kind == "linear":
        return replace(plain, factors=(factor,) * plain.pairs)
    if kind == "yarn":
        fast, slow = (f.number(f"rope.scaling.yarn_beta_{n}", t) for n, t in (("fast", 32.0), ("slow", 1.0)))
        stretched = yarn_factors(plain, factor, first, fast, slow, f.kind != "gpt-oss")
        # Where there are latents scores grow in place of cosines and sines.
        gain = 1.0 if f.get("attention.kv_lora_rank") else yarn_gain(factor)
        return replace(plain, factors=stretched, gain=plain.gain * gain)
    if kind != "none" and not short:
        raise UnsupportedError(f"{f.path}: rotary positions scaled by '{kind}' are not known")
    return replace(plain, factors=short or _stored_factors(f, "rope_freqs.weight"))


def _local_rope(f: GgufFile, head: int) -> Rope | None:
    """Those of layers with a window, where they have others."""
    bases = {"gemma3": 10000.0, "olmo2": f.number("rope.freq_base", 10000.0)}
    return Rope(head // 2, f.number("rope.freq_base_swa", bases[f.kind])) if f.kind in bases else None


def _stored_factors(f: GgufFile, name: str) -> tuple[float, ...]:
    """The factors that a tensor has, if there is one."""
    return tuple(map(float, np.asarray(GgufTensor(f, name)()))) if name in f.entries else ()


def _windows(f: GgufFile, layers: int) -> tuple[int, ...]:
    window = int(f.get("attention.sliding_window", 0) or 0)
    if not window or f.kind in ("phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe"):
        return ()
    every = {"cohere2": 4, "exaone4": 4, "gemma2": 2, "gemma3": 6, "gpt-oss": 2, "olmo2": 4}.get(f.kind)
    pattern = f.get("attention.sliding_window_pattern", every)
    if isinstance(pattern, list):
        return tuple(window if local else 0 for local in pattern)
    return tuple(0 if pattern and (i + 1) % int(pattern) == 0 else window for i in range(layers))


def _weights(f: GgufFile, decoder: Decoder) -> Mapping[str, Callable[[], Weight]]:
    """The weights under our names; each is read once. UnsupportedError where the file has others."""
    found: dict[str, Callable[[], Weight]] = {}
    names = dict(_WHOLE)
    for layer in range(decoder.layers):
        own = _LAYER | _OWN.get(f.kind, {})
        if f"blk.{layer}.attn_q_b.weight" in f.entries:
            own["q"] = "attn_q_b"
        names |= {f"{layer}.{ours}": f"blk.{layer}.{theirs}" for ours, theirs in own.items() if theirs}
    for ours, theirs in names.items():
        for ending, own in (("weight", ours), ("bias", f"{ours}.bias")):
            if f"{theirs}.{ending}" in f.entries:
                found[own] = cache(GgufTensor(f, f"{theirs}.{ending}").__call__)
        if ours.endswith(".shared_router") and ours in found:
            found[ours] = _matrix(found[ours])
    q, kv, hidden = decoder.heads * decoder.head, decoder.shared * decoder.head, decoder.hidden
    for layer in range(decoder.layers):
        for ending, behind in (("weight", ""), ("bias", ".bias")):
            whole = f"blk.{layer}.attn_qkv.{ending}"
            if whole in f.entries:
                tensor = cache(GgufTensor(f, whole).__call__)
                for name, start, end in (("q", 0, q), ("k", q, q + kv), ("v", q + kv, q + 2 * kv)):
                    found[f"{layer}.{name}{behind}"] = _rows(tensor, start, end)
        found |= _beside(f, decoder, layer)
        up = f.entries.get(f"blk.{layer}.ffn_up.weight")
        if decoder.gated and f"{layer}.gate" not in found and up and up.shape[0] == 2 * hidden:
            tensor = found[f"{layer}.up"]
            found[f"{layer}.gate"] = _rows(tensor, 0, hidden)
            found[f"{layer}.up"] = _rows(tensor, hidden, 2 * hidden)
    known = {f"{theirs}.{ending}" for theirs in names.values() for ending in ("weight", "bias")}
    known |= {f"blk.{i}.{name}" for i in range(decoder.layers) for name in _MORE}
    first = decoder.layers
    known |= {n for n in f.entries if n.startswith("blk.") and int(n.split(".")[1]) in _ahead(f, first)}
    ignored = {own.removesuffix(".bias") for own in unread(found, decoder.router)}
    known -= {f"{names[own]}.{ending}" for own in ignored for ending in ("weight", "bias")}
    check_all_known(f.entries.keys() - known - _WAVES, f.path, f.kind)
    return found


_MORE = ("attn_qkv.weight", "attn_qkv.bias", "attn_kv_b.weight", "exp_probs_b.bias")
"""Weights of a layer that are several of ours, or called otherwise."""


def _ahead(f: GgufFile, first: int) -> range:
    """The numbers of the layers behind all others that guess further tokens."""
    return range(first, first + int(f.number("nextn_predict_layers", 0)))


def _beside(f: GgufFile, decoder: Decoder, layer: int) -> dict[str, Callable[[], Weight]]:
    """What chooses experts beside their scores, and the matrix that makes keys and values of latents."""
    found: dict[str, Callable[[], Weight]] = {}
    offsets, whole = (f"blk.{layer}.{name}" for name in ("exp_probs_b.bias", "attn_kv_b.weight"))
    if offsets in f.entries:
        found[f"{layer}.router_offsets"] = GgufTensor(f, offsets)
    if whole in f.entries and decoder.latent is not None:
        tensor = cache(GgufTensor(f, whole).__call__)
        plain = decoder.head - decoder.latent.turned
        for name in ("k_up", "v_up"):
            keys = name == "k_up"
            found[f"{layer}.{name}"] = cache(partial(_of_latents, tensor, decoder.heads, plain, keys))
    return found


def _of_latents(tensor: Callable[[], Weight], heads: int, plain: int, keys: bool) -> Weight:
    return of_latents(tensor(), heads, plain, keys)


def _matrix(tensor: Callable[[], Weight]) -> Callable[[], Weight]:
    """A weight of one output, which files also have as a vector."""
    return lambda: np.atleast_2d(np.asarray(tensor()))


def _rows(tensor: Callable[[], Weight], start: int, end: int) -> Callable[[], Weight]:
    """Some rows of a weight."""

    def part() -> Weight:
        whole = tensor()
        return whole.rows(slice(start, end)) if isinstance(whole, Blocks) else whole[start:end]

    return part
