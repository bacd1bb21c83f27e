"""Language models of GGUF files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import UnsupportedError
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import (
    Decoder,
    LanguageFiles,
    Weight,
    check_all_known,
    unread,
)
from glow_frontends.language.gguf_file import GgufFile
from glow_frontends.language.gguf_tensors import GgufTensor
from glow_frontends.language.rope import Rope, yarn_factors, yarn_gain
from glow_frontends.language.routing import Router

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
} | {
    f"{ours}{part}": f"ffn_{part}_{theirs}"
    for part in ("gate", "up", "down")
    for ours, theirs in (("experts_", "exps"), ("shared_", "shexp"))
}
_WAVES = {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}
#: What differs from the most common decoder, by architecture.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gemma": {"activation": "gelu_tanh"},
    "gemma2": {"activation": "gelu_tanh"},
    "gemma3": {"activation": "gelu_tanh"},
    "gpt2": {"activation": "gelu_tanh", "gated": False, "centred": True},
    "granite": {},
    "granitemoe": {},
    "llama": {},
    "olmo2": {"prenorm": False},
    "olmoe": {},
    "phi2": {"activation": "gelu_tanh", "gated": False, "centred": True, "parallel": True},
    "phi3": {},
    "qwen2": {},
    "qwen2moe": {},
    "qwen3": {},
    "qwen3moe": {},
    "smollm3": {},
    "starcoder2": {"activation": "gelu_tanh", "gated": False, "centred": True},
}
_INTERLEAVED = ("granite", "granitemoe", "llama", "smollm3")
"""Architectures whose matrices of queries and keys are written for pairs of neighbouring features."""
_AS_THEY_ARE = ("olmoe", "qwen2moe")
"""Architectures whose experts' shares do not add up to 1 where settings do not say so."""
_LARGE_GEMMAS = {"gemma2": 46, "gemma3": 62}
"""Layers of those that scale scores by the width of a head's share, which their files do not say."""
_SOFTMAX = 1
"""How routers make scores of experts."""


def read_gguf(path: Path) -> LanguageFiles:
    """A model of a file; GlowError where it is damaged, UnsupportedError for what is not known."""
    file = GgufFile(path)
    if file.kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedError(f"{path}: the architecture '{file.kind}' is not known; there are: {known}")
    for name in file.entries:
        GgufTensor(file, name).check()
    decoder = _decoder(file)
    settings = file.settings
    tokens = {n.removeprefix("tokenizer.ggml."): v for n, v in settings.items() if "tokenizer.ggml." in n}
    ends = [tokens[n] for n in ("eos_token_id", "eot_token_id") if tokens.get(n) is not None]
    texts = tokens.get("tokens", [])
    special = {n: tokens.get(f"{n[:3]}_token_id") for n in ("bos_token", "eos_token")}
    return LanguageFiles(
        str(path),
        decoder,
        _weights(file, decoder),
        tuple(ends),
        tokens.get("bos_token_id"),
        tokens=tokens,
        chat_template=settings.get("tokenizer.chat_template"),
        special={n: texts[i] for n, i in special.items() if i is not None and i < len(texts)},
    )


def _decoder(f: GgufFile) -> Decoder:
    width, heads, layers = (f.count(n) for n in ("embedding_length", "attention.head_count", "block_count"))
    head = f.count("attention.key_length", default=width // heads)
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
        rope=None if f.kind == "gpt2" else _rope(f, head),
        local_rope=_local_rope(f, head),
        turned=tuple((i + 1) % 4 > 0 for i in range(layers)) if f.kind == "smollm3" else (),
        windows=_windows(f, layers),
        scale=(width / heads) ** -0.5 if large else f.number("attention.scale", 0.0),
        score_cap=f.number("attn_logit_softcapping", 0.0),
        logit_cap=f.number("final_logit_softcapping", 0.0),
        logit_scale=1.0 / f.divisor("logit_scale", 1.0),
        embed_scale=float(np.float32(width**0.5)) if gemma else f.number("embedding_scale", 1.0),
        residual_scale=f.number("residual_scale", 1.0),
        router=_router(f),
        **ARCHITECTURES[f.kind],
    )


def _router(f: GgufFile) -> Router | None:
    """How tokens choose experts, where there are such."""
    if not f.get("expert_count"):
        return None
    kind = f.get("expert_gating_func", 0) or _SOFTMAX
    if kind != _SOFTMAX:
        raise UnsupportedError(f"{f.label('expert_gating_func')} is {kind}; softmax (1) is known")
    return Router(
        experts=f.count("expert_count"),
        chosen=f.count("expert_used_count"),
        normalised=bool(f.get("expert_weights_norm", f.kind not in _AS_THEY_ARE)),
        scale=f.number("expert_weights_scale", 1.0) or 1.0,
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
        stretched = yarn_factors(plain, factor, first, fast, slow)
        return replace(plain, factors=stretched, gain=plain.gain * yarn_gain(factor))
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
    every = {"gemma2": 2, "gemma3": 6, "olmo2": 4}.get(f.kind)
    pattern = f.get("attention.sliding_window_pattern", every)
    if isinstance(pattern, list):
        return tuple(window if local else 0 for local in pattern)
    return tuple(0 if pattern and (i + 1) % int(pattern) == 0 else window for i in range(layers))


def _weights(f: GgufFile, decoder: Decoder) -> Mapping[str, Callable[[], Weight]]:
    """The weights under our names; each is read once. UnsupportedError where the file has others."""
    found: dict[str, Callable[[], Weight]] = {}
    names = dict(_WHOLE)
    for layer in range(decoder.layers):
        names |= {f"{layer}.{ours}": f"blk.{layer}.{theirs}" for ours, theirs in _LAYER.items()}
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
        up = f.entries.get(f"blk.{layer}.ffn_up.weight")
        if decoder.gated and f"{layer}.gate" not in found and up and up.shape[0] == 2 * hidden:
            tensor = found[f"{layer}.up"]
            found[f"{layer}.gate"] = _rows(tensor, 0, hidden)
            found[f"{layer}.up"] = _rows(tensor, hidden, 2 * hidden)
    known = {f"{theirs}.{ending}" for theirs in names.values() for ending in ("weight", "bias")}
    known |= {f"blk.{i}.attn_qkv.{ending}" for i in range(decoder.layers) for ending in ("weight", "bias")}
    ignored = {own.removesuffix(".bias") for own in unread(found, decoder.router)}
    known -= {f"{names[own]}.{ending}" for own in ignored for ending in ("weight", "bias")}
    check_all_known(f.entries.keys() - known - _WAVES, f.path, f.kind)
    return found


def _matrix(tensor: Callable[[], Weight]) -> Callable[[], Weight]:
    """A weight of one output, which files also have as a vector."""
    return lambda: np.atleast_2d(np.asarray(tensor()))


def _rows(tensor: Callable[[], Weight], start: int, end: int) -> Callable[[], Weight]:
    """Some rows of a weight."""

    def part() -> Weight:
        whole = tensor()
        return whole.rows(slice(start, end)) if isinstance(whole, Blocks) else whole[start:end]

    return part
