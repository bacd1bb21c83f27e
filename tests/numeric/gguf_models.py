"""GGUF files of small models, written by the `gguf` package from transformers' own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf: Any = pytest.importorskip("gguf")

_ARCHITECTURES = {
    "cohere": "command-r",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "ernie4_5_moe": "ernie4_5-moe",
    "glm4_moe": "glm4moe",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoeshared": "granitemoe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "minimax_m2": "minimax-m2",
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
}
_TURNED = ("arcee", "granitemoe", "llama", "olmo", "smollm3")
"""Those whose queries and keys are written for pairs of neighbouring features."""
_FLOATS = ("ffn_gate_inp", "ffn_gate_inp_shexp", "attn_k_b", "attn_v_b")
"""Matrices that stay floats."""

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


def _name(kind: str, theirs: str, layers: int) -> str:
    """The name that the package has for one of transformers'."""
    arch = next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    name = gguf.get_tensor_name_map(arch, layers).get_name(theirs, (".weight", ".bias"))
    assert name is not None, theirs
    return name


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """The weights by names that the package knows, each of its own."""
    c = model.config
    for name, weight in model.state_dict().items():
        name = name.replace("block_sparse_moe.router.layer", "mlp.gate").replace("block_sparse_moe", "mlp")
        name = name.replace("moe_statics.", "").replace("mlp.router.layer", "mlp.gate")
        name = name.replace("mlp.e_score", "mlp.gate.e_score").replace("correction_bias", "correction.bias")
        stem, _, part = name.rpartition(".")
        ending = "bias" if part.endswith("_bias") else "weight"
        part = part.removesuffix("_bias")
        if part == "gate_up_proj":
            turned = weight.swapaxes(-1, -2) if c.model_type == "gpt_oss" and ending == "weight" else weight
            half = turned.shape[1] // 2
            cuts = (slice(0, None, 2), slice(1, None, 2)), (slice(half), slice(half, None))
            for own, cut in zip(("gate", "up"), cuts[c.model_type != "gpt_oss"], strict=True):
                yield f"{stem}.{own}_proj.{ending}", turned[:, cut]
        elif part == "down_proj":
            turned = weight.swapaxes(-1, -2) if c.model_type == "gpt_oss" and ending == "weight" else weight
            yield f"{stem}.down_proj.{ending}", turned
        elif stem.endswith("input_linear") and "shared_mlp" in stem:
            half = len(weight) // 2
            for own, cut in (("gate_proj", slice(half)), ("up_proj", slice(half, None))):
                yield (
                    f"{stem.replace('shared_mlp.input_linear', f'mlp.shared_expert.{own}')}.weight",
                    weight[cut],
                )
        elif "shared_mlp.output_linear" in stem:
            yield f"{stem.replace('shared_mlp.output_linear', 'mlp.shared_expert.down_proj')}.weight", weight
        elif stem.endswith("kv_b_proj"):
            own = weight.reshape(c.num_attention_heads, -1, c.kv_lora_rank)
            yield f"{stem.replace('kv_b', 'k_b')}.weight", own[:, : c.qk_nope_head_dim].swapaxes(1, 2)
            yield f"{stem.replace('kv_b', 'v_b')}.weight", own[:, c.qk_nope_head_dim :]
        elif stem.endswith("query_key_value"):
            own = weight.reshape(c.num_attention_heads, 3, -1, *weight.shape[1:]).swapaxes(0, 1)
            yield name, own.reshape(weight.shape)
        elif part == "sinks":
            yield f"{name}.weight", weight
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


def _settings(writer: Any, kind: str, c: Any) -> None:
    """What the file says of the architecture, as llama.cpp's converter writes it."""
    add = writer.add_uint32
    rope = c.rope_parameters
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    shared = getattr(c, "num_key_value_heads", c.num_attention_heads)
    numbers = {
        "embedding_length": c.hidden_size,
        "block_count": c.num_hidden_layers,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": shared,
        "attention.key_length": head,
        "attention.value_length": head,
        "feed_forward_length": c.intermediate_size,
        "context_length": c.max_position_embeddings,
        "rope.dimension_count": int(head * rope.get("partial_rotary_factor", 1.0)),
        "vocab_size": c.vocab_size,
    }
    if rank := getattr(c, "kv_lora_rank", 0):
        numbers |= {
            "attention.head_count_kv": 1,
            "attention.kv_lora_rank": rank,
            "attention.key_length": rank + c.qk_rope_head_dim,
            "attention.value_length": rank,
            "attention.key_length_mla": c.qk_nope_head_dim + c.qk_rope_head_dim,
            "attention.value_length_mla": c.v_head_dim,
            "rope.dimension_count": c.qk_rope_head_dim,
        }
    names = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    if experts := next((getattr(c, n) for n in names if getattr(c, n, 0)), 0):
        chosen = getattr(c, "num_experts_per_tok", 0) or getattr(c, "moe_topk", 0)
        numbers |= {"expert_count": experts, "expert_used_count": chosen}
    if getattr(c, "n_group", 0) and kind == "deepseek2":
        numbers |= {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group}
    if window := getattr(c, "sliding_window", None) if "sliding_attention" in _kinds(c) else None:
        numbers["attention.sliding_window"] = window
    for name, value in numbers.items():
        add(f"{kind}.{name}", value)
    if scale := getattr(c, "routed_scaling_factor", 0.0):
        writer.add_expert_weights_scale(scale)
        writer.add_expert_weights_norm(bool(getattr(c, "norm_topk_prob", False)))
    if getattr(c, "logit_scale", 0.0):
        writer.add_logit_scale(c.logit_scale)
    if hasattr(c, "use_parallel_residual"):
        writer.add_parallel_residual(c.use_parallel_residual)
    epsilon = getattr(c, "rms_norm_eps", None)
    if epsilon is None or kind == "phimoe":
        plain = getattr(c, "layer_norm_eps", None) or getattr(c, "norm_eps", None) or epsilon or 1e-5
        writer.add_layer_norm_eps(plain)
    else:
        writer.add_layer_norm_rms_eps(epsilon)
    writer.add_rope_freq_base(rope["rope_theta"])
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(c.attn_logit_softcapping)
        writer.add_final_logit_softcapping(c.final_logit_softcapping)


def _kinds(c: Any) -> list[str]:
    return getattr(c, "layer_types", None) or []


def written(
    file: Path, model: Any, form: str, tensors: Mapping[str, np.ndarray] | None = None, **more: Any
) -> None:
    """Write a model with its matrices in a form ("F32", "Q4_0"...); the model gets the weights written.

    `tensors`: others that the file has; `more`: settings, by the writer's methods.
    """
    c = model.config
    kind = _ARCHITECTURES.get(c.model_type, str(c.model_type))
    writer = gguf.GGUFWriter(str(file), kind)
    _settings(writer, kind, c)
    for key, value in more.items():
        getattr(writer, key)(value)
    q_type = gguf.GGMLQuantizationType[form]
    tied = model.config.tie_word_embeddings
    for theirs, weight in _tensors(model):
        if tied and theirs == "lm_head.weight":
            continue
        array = weight.numpy()
        if (kind.startswith("gemma") or kind == "nemotron") and theirs.endswith("norm.weight"):
            array = array + 1
        data, ours = array, _name(kind, theirs, c.num_hidden_layers)
        codes = array.ndim > 1 and form != "F32" and ours.split(".")[-2] not in _FLOATS
        if codes:
            data = _blocks(array, q_type)
            import torch

            weight.copy_(torch.tensor(gguf.quants.dequantize(data, q_type).reshape(array.shape)))
        heads = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}
        part = theirs.split(".")[-2]
        if kind in _TURNED and part in heads:
            data = _turned(data, heads[part])
        if codes:
            writer.add_tensor(ours, data, raw_dtype=q_type)
        else:
            writer.add_tensor(ours, np.ascontiguousarray(data, np.float32))
    for name, array in (tensors or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
