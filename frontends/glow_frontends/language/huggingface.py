"""Folders as Hugging Face has them: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_frontends.language.blocks import Blocks, stacked
from glow_frontends.language.decoder import Decoder, LanguageFiles, Weight, check_all_known, unread
from glow_frontends.language.huggingface_config import Config, decoder_of
from glow_frontends.language.packed_weights import quantization_of, settings_beside, with_packed
from glow_frontends.language.safetensors import folder_tensors
from glow_frontends.language.scaled_weights import SCALES, TABLES

Tensors = Mapping[str, Callable[[], Weight]]

_LLAMA = {
    "embed": "embed_tokens",
    "norm": "norm",
    "head": "lm_head",
    "attention_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_GEMMA2 = _LLAMA | {
    "after_attention": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "after_mlp": "post_feedforward_layernorm",
}
_OLMO = {n: theirs for n, theirs in _LLAMA.items() if n not in ("attention_norm", "mlp_norm")} | {
    "after_attention": "post_attention_layernorm",
    "after_mlp": "post_feedforward_layernorm",
}
_EXPERTS = _LLAMA | {
    "router": "mlp.gate",
    "experts_gate": "mlp.experts.*.gate_proj",
    "experts_up": "mlp.experts.*.up_proj",
    "experts_down": "mlp.experts.*.down_proj",
}
_MIXTRAL = _LLAMA | {
    "router": "block_sparse_moe.gate",
    "experts_gate": "block_sparse_moe.experts.*.w1",
    "experts_up": "block_sparse_moe.experts.*.w3",
    "experts_down": "block_sparse_moe.experts.*.w2",
}
_PHI = _LLAMA | {
    "norm": "final_layernorm",
    "o": "self_attn.dense",
    "q_norm": "self_attn.q_layernorm",
    "k_norm": "self_attn.k_layernorm",
    "up": "mlp.fc1",
    "down": "mlp.fc2",
}
_GPT2 = {
    "embed": "wte",
    "positions": "wpe",
    "norm": "ln_f",
    "head": "lm_head",
    "attention_norm": "ln_1",
    "o": "attn.c_proj",
    "mlp_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
NAMES: dict[str, dict[str, str]] = {
    "gemma": _LLAMA,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA2,
    "gpt2": _GPT2,
    "granite": _LLAMA,
    "granitemoe": _LLAMA
    | {"router": "block_sparse_moe.router.layer", "experts_down": "block_sparse_moe.output_linear"},
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _MIXTRAL,
    "olmo2": _OLMO,
    "olmo3": _OLMO,
    "olmoe": _EXPERTS,
    "phi": _PHI,
    "phi3": _LLAMA,
    "qwen2": _LLAMA,
    "qwen2_moe": _EXPERTS
    | {f"shared_{part}": f"mlp.shared_expert.{part}_proj" for part in ("gate", "up", "down")}
    | {"shared_router": "mlp.shared_expert_gate"},
    "qwen3": _LLAMA,
    "qwen3_moe": _EXPERTS,
    "smollm3": _LLAMA,
    "starcoder2": _LLAMA | {"up": "mlp.c_fc", "down": "mlp.c_proj"},
}
"""What weights are called, by architecture (`model_type`); `*` is the number of an expert."""
WHOLE = ("embed", "positions", "norm", "head")
"""Weights that are no layer's."""
FUSED = {
    "granitemoe": {"block_sparse_moe.input_linear": ("experts_gate", "experts_up")},
    "gpt2": {"attn.c_attn": ("q", "k", "v")},
    "phi3": {"self_attn.qkv_proj": ("q", "k", "v"), "mlp.gate_up_proj": ("gate", "up")},
}
"""Weights that are several of ours, one behind the other."""
_TABLES = (".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")
"""What old files hold beside weights: waves of rotary positions, masks."""
_PACKED = (
    *("qweight", "qzeros", "scaled_zeros", "scales", "g_idx", *SCALES, *TABLES),
    *(f"weight_{part}" for part in ("packed", "shape", "zero_point", "g_idx", "format")),
    *("input_scale", "activation_scale", "k_scale", "v_scale"),
)
"""Parts of weights of few bits, and scales of what is computed, which stays as it is."""


def read_folder(folder: Path) -> LanguageFiles:
    """A model of a folder; GlowError for what is missing or damaged, UnsupportedError for unknown kinds."""
    config = Config(folder / "config.json", read_json(folder / "config.json"))
    kind = config.kind
    if kind == "whisper":
        raise UnsupportedError(f"{folder}: whisper writes down sounds; glow.SpeechModel reads it")
    if kind not in NAMES:
        known = ", ".join(NAMES)
        raise UnsupportedError(f"{folder}: the architecture '{kind}' is not known; there are: {known}")
    decoder = decoder_of(config)
    label, quantised = config.label("quantization_config"), config.get("quantization_config")
    if quantised is None:
        label, quantised = settings_beside(folder, read_json)
    quantised = quantization_of(quantised, label)
    tensors = with_packed(folder_tensors(folder), quantised, str(folder))
    weights = _weights(kind, decoder, tensors, config)
    more = optional_json(folder / "generation_config.json")
    ends = more.get("eos_token_id", config.get("eos_token_id"))
    return LanguageFiles(
        str(folder),
        decoder,
        weights,
        tuple(ends) if isinstance(ends, list) else () if ends is None else (int(ends),),
        config.get("bos_token_id"),
        **texts_beside(folder),
    )


def texts_beside(folder: Path) -> dict[str, Any]:
    """What the files of a folder say of texts: fields of `LanguageFiles`."""
    texts = optional_json(folder / "tokenizer_config.json")
    tokenizer, template = folder / "tokenizer.json", folder / "chat_template.jinja"
    return {
        "tokenizer": tokenizer if tokenizer.exists() else None,
        "chat_template": template.read_text(encoding="utf-8") if template.exists() else _template(texts),
        "special": {n: _text(v) for n, v in texts.items() if n.endswith("_token") and v is not None},
    }


def read_json(file: Path) -> dict[str, Any]:
    """A table of settings; GlowError where there is none."""
    try:
        made = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GlowError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise GlowError(f"{file}: this is not JSON: {error}") from None
    if not isinstance(made, dict):
        raise GlowError(f"{file}: this is no table of settings")
    return made


def optional_json(file: Path) -> dict[str, Any]:
    """A table of settings, empty where the file is not there."""
    return read_json(file) if file.exists() else {}


def _text(value: Any) -> str:
    """The text of a special token, which may be a table."""
    return str(value.get("content", "")) if isinstance(value, dict) else str(value)


def _template(texts: Mapping[str, Any]) -> str | None:
    """The chat template, of several the one called default."""
    found = texts.get("chat_template")
    if isinstance(found, list):
        return next((t["template"] for t in found if t.get("name") == "default"), None)
    return found


def _weights(
    kind: str, decoder: Decoder, tensors: Tensors, config: Config
) -> dict[str, Callable[[], Weight]]:
    """The weights under our names; UnsupportedError where the files have more than the architecture."""
    found: dict[str, Callable[[], Weight]] = {}
    prefix, layers = prefixes(kind)
    theirs_of: dict[str, str] = {}
    left = {n for n in tensors if not n.endswith(_TABLES) and n.rpartition(".")[2] not in _PACKED}

    def add(ours: str, theirs: str) -> None:
        for ending in ("weight", "bias"):
            name = f"{theirs}.{ending}"
            if "*" in name:
                tensor = _experts(decoder, tensors, name, left, config)
            else:
                tensor = tensors.get(name)
                left.discard(name)
            if tensor is not None:
                made = _changed(kind, ours, ending, tensor)
                own = ours if ending == "weight" else f"{ours}.bias"
                found[own], theirs_of[own] = made, name

    for ours, theirs in NAMES[kind].items():
        if ours in WHOLE:
            add(ours, theirs if ours == "head" else prefix + theirs)
            continue
        for layer in range(decoder.layers):
            add(f"{layer}.{ours}", f"{prefix}{layers}.{layer}.{theirs}")
    for theirs, parts in FUSED.get(kind, {}).items():
        for layer in range(decoder.layers):
            name = f"{prefix}{layers}.{layer}.{theirs}"
            _split(found, tensors, name, layer, parts, decoder)
            left -= {f"{name}.weight", f"{name}.bias"}
    left |= {theirs_of.get(own, own) for own in unread(found, decoder.router)}
    check_all_known(left, config.file.parent, kind)
    if config.get("tie_word_embeddings", kind in ("gemma", "gemma2", "gemma3_text", "gpt2")):
        found.pop("head", None)
    return found


def _experts(
    decoder: Decoder, tensors: Tensors, name: str, left: set[str], config: Config
) -> Callable[[], Weight] | None:
    """The weights of all experts, if a layer has such; what is found is taken from `left`."""
    count = decoder.router.experts if decoder.router else 0
    names = [name.replace("*", str(number)) for number in range(count)]
    if not left & {*names}:
        return None
    left.difference_update(names)
    missing = next((n for n in names if n not in tensors), None)
    if missing is not None:
        raise GlowError(f"{config.file.parent}: of {count} experts the weights '{missing}' are missing")
    return cache(lambda: stacked([tensors[n]() for n in names], f"{config.file.parent}: '{name}'"))


def prefixes(kind: str) -> tuple[str, str]:
    """What stands before all names of weights, and the name of the list of layers."""
    return ("transformer.", "h") if kind == "gpt2" else ("model.", "layers")


def _changed(kind: str, ours: str, ending: str, tensor: Callable[[], Weight]) -> Callable[[], Weight]:
    """A weight as the graph takes it: matrices [outputs, inputs], scales of norms as they are."""
    part = ours.rpartition(".")[2]
    if kind.startswith("gemma") and ("norm" in part or part.startswith("after")):
        return lambda: np.asarray(tensor(), np.float32) + np.float32(1)
    if kind == "gpt2" and ending == "weight" and part in ("o", "up", "down"):
        return lambda: _turned(tensor())
    return tensor


def _turned(weight: Weight) -> Weight:
    """A matrix the other way round; codes are [outputs, inputs] whatever they stand for."""
    return weight if isinstance(weight, Blocks) else weight.T


def _split(
    found: dict[str, Callable[[], Weight]],
    tensors: Tensors,
    name: str,
    layer: int,
    parts: tuple[str, ...],
    decoder: Decoder,
) -> None:
    """Add the parts of a fused weight and its bias."""
    widths = {f"{kind}{part}": decoder.hidden for kind in ("", "experts_") for part in ("gate", "up")}
    widths["q"] = decoder.heads * decoder.head
    start = 0
    for part in parts:
        end = start + widths.get(part, decoder.shared * decoder.head)
        for ending, ours in (("weight", f"{layer}.{part}"), ("bias", f"{layer}.{part}.bias")):
            if tensor := tensors.get(f"{name}.{ending}"):
                turned = ending == "weight" and name.endswith("c_attn")
                found[ours] = _Part(tensor, start, end, turned)
        start = end


class _Part:
    """Some rows of a tensor; of its transpose if `turned`."""

    def __init__(self, tensor: Callable[[], Weight], start: int, end: int, turned: bool) -> None:
        self.tensor, self.rows, self.turned = tensor, slice(start, end), turned

    def __call__(self) -> Weight:
        """The rows."""
        whole = _turned(self.tensor()) if self.turned else self.tensor()
        if isinstance(whole, Blocks):
            return whole.rows(self.rows.start, self.rows.stop)
        return whole[:, self.rows] if whole.ndim == 3 else whole[self.rows]
