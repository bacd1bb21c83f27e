"""GGUF files of small models, written by the `gguf` package from transformers' own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf: Any = pytest.importorskip("gguf")

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate": "ffn_gate_exps",
    "mlp.experts.up": "ffn_up_exps",
    "mlp.experts.down": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
_ROUTES = ("ffn_gate_inp", "ffn_gate_inp_shexp")
"""Matrices that stay floats."""
_ARCHITECTURES = {
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "granitemoe": "granitemoe",
}
_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
#: Places in each layer's names, by architecture, that differ.
_AFTER = {
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_OTHER = {
    "olmo2": _AFTER,
    "gemma2": _AFTER | {"pre_feedforward_layernorm": "ffn_norm"},
}

#: Bytes of blocks at which f16 begin, where that is not 0 alone.
HALVES = {
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "MXFP4": [],
    "Q6_K": [208],
    "Q4_1": [0, 2],
    "Q5_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
}


def _name(kind: str, theirs: str) -> str:
    stem, _, ending = theirs.rpartition(".")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{ending}"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{(_NAMES | _OTHER.get(kind, {}))[part]}.{ending}"


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """The weights by name; the gates of experts apart from what they open."""
    for name, weight in model.state_dict().items():
        name = name.replace("block_sparse_moe.router", "mlp.gate").replace("block_sparse_moe", "mlp")
        stem, _, part = name.rpartition(".")
        if part == "gate_up_proj":
            half = weight.shape[1] // 2
            yield f"{stem}.gate.weight", weight[:, :half]
            yield f"{stem}.up.weight", weight[:, half:]
        elif part == "down_proj":
            yield f"{stem}.down.weight", weight
        else:
            yield name, weight


def _turned(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys in the order for pairs of neighbours, as llama's converter writes them."""
    head = len(array) // heads
    return array.reshape(heads, 2, head // 2, -1).swapaxes(1, 2).reshape(array.shape)


def _blocks(array: np.ndarray, kind: Any) -> np.ndarray:
    """A matrix in blocks of a kind; random ones where the package does not write them."""
    try:
        return gguf.quants.quantize(array, kind)
    except NotImplementedError:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        shape = *array.shape[:-1], array.shape[-1] // elements * size
        raw = np.random.default_rng(array.size).integers(0, 256, shape)
        raw = raw.astype(np.uint8)
        for scale in (1.0, 0.0):
            scale = scale or 0.15 / gguf.quants.dequantize(raw, kind).std()
            for at in HALVES.get(kind.name, [0]):
                raw.reshape(-1, size)[:, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
        return raw


def written(
    file: Path, model: Any, form: str, tensors: Mapping[str, np.ndarray] | None = None, **more: Any
) -> None:
    """Write a model with its matrices in a form ("F32", "Q4_0"...); the model gets the weights written.

    `tensors`: others that the file has; `more`: settings, by the writer's methods.
    """
    c = model.config
    kind = _ARCHITECTURES.get(c.model_type, str(c.model_type))
    writer = gguf.GGUFWriter(str(file), kind)
    add = writer.add_uint32
    for name, value in {
        "embedding_length": c.hidden_size,
        "block_count": c.num_hidden_layers,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
        "attention.key_length": c.head_dim,
        "attention.value_length": c.head_dim,
        "feed_forward_length": c.intermediate_size,
        "context_length": c.max_position_embeddings,
        "rope.dimension_count": c.head_dim,
        "vocab_size": c.vocab_size,
    }.items():
        add(f"{kind}.{name}", value)
    writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    writer.add_float32(f"{kind}.rope.freq_base", c.rope_parameters["rope_theta"])
    if kind == "gemma2":
        writer.add_float32(f"{kind}.attn_logit_softcapping", c.attn_logit_softcapping)
        writer.add_float32(f"{kind}.final_logit_softcapping", c.final_logit_softcapping)
        add(f"{kind}.attention.sliding_window", c.sliding_window)
    if experts := getattr(c, "num_local_experts", getattr(c, "num_experts", 0)):
        add(f"{kind}.expert_count", experts)
        add(f"{kind}.expert_used_count", c.num_experts_per_tok)
    for key, value in more.items():
        getattr(writer, key)(value)
    q_type = gguf.GGMLQuantizationType[form]
    tied = model.config.tie_word_embeddings
    for theirs, weight in _tensors(model):
        if tied and theirs == "lm_head.weight":
            continue
        array = weight.numpy()
        if kind.startswith("gemma") and "norm" in theirs:
            array = array + 1
        data, ours = array, _name(kind, theirs)
        codes = array.ndim > 1 and ours.split(".")[-2] not in _ROUTES
        if codes:
            data = _blocks(array, q_type)
            import torch

            weight.copy_(torch.tensor(gguf.quants.dequantize(data, q_type).reshape(array.shape)))
        heads = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}
        part = theirs.split(".")[-2]
        if kind in ("granitemoe", "llama", "smollm3") and part in heads:
            data = _turned(data, heads[part])
        if codes and form != "F32":
            writer.add_tensor(ours, data, raw_dtype=q_type)
        else:
            writer.add_tensor(ours, np.ascontiguousarray(data, np.float32))
    for name, array in (tensors or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
