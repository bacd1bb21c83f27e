"""Small language models with random weights, written as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 256,
    "head_dim": 16,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 4, "moe_intermediate_size": 32}
PLAIN = {name: value for name, value in SIZES.items() if name != "head_dim"}
"""Sizes of architectures whose heads share the width."""
MHA = PLAIN | {"num_key_value_heads": 4}
GATES = {"n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 32}
GROUPS = GATES | {"n_group": 4, "topk_group": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LATENT = MHA | {
    "kv_lora_rank": 40,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 20,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
GPT2 = {"vocab_size": 97, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
KINDS: dict[str, dict[str, Any]] = {
    "llama": SIZES,
    "llama-long": SIZES
    | {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
    "llama-yarn": SIZES
    | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    "mistral": SIZES | {"sliding_window": 7},
    "qwen2": SIZES,
    "qwen3": SIZES,
    "gemma": SIZES,
    "gemma2": SIZES | {"sliding_window": 6, "query_pre_attn_scalar": 20},
    "gemma3_text": SIZES | {"sliding_window": 6, "query_pre_attn_scalar": 20, "num_hidden_layers": 7},
    "gpt2": GPT2,
    "gpt2-scaled": GPT2 | {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
    "olmo2": SIZES,
    "olmo3": SIZES | {"sliding_window": 7, "num_hidden_layers": 4},
    "phi": {k: v for k, v in SIZES.items() if k != "head_dim"} | {"num_key_value_heads": 4},
    "phi-normed": SIZES | {"num_key_value_heads": 4, "qk_layernorm": True},
    "phi3": SIZES | {"pad_token_id": 0},
    "phi3-long": SIZES
    | {
        "pad_token_id": 0,
        "original_max_position_embeddings": 64,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0 + i / 8 for i in range(8)],
            "long_factor": [2.0 + i / 2 for i in range(8)],
        },
    },
    "smollm3": SIZES | {"pad_token_id": 0, "num_hidden_layers": 4},
    "granite": SIZES | {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0},
    "starcoder2": SIZES,
    "mixtral": SIZES | {"num_local_experts": 8, "num_experts_per_tok": 2},
    "mixtral-one": SIZES | {"num_local_experts": 3, "num_experts_per_tok": 1, "sliding_window": 7},
    "qwen2_moe": SIZES | EXPERTS | {"shared_expert_intermediate_size": 96, "mlp_only_layers": [1]},
    "qwen3_moe": SIZES | EXPERTS | {"norm_topk_prob": True},
    "olmoe": SIZES | EXPERTS | {"pad_token_id": 0, "num_key_value_heads": 4},
    "gpt_oss": SIZES
    | {"num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 7, "swiglu_limit": 0.5},
    "gpt_oss-plain": SIZES
    | {"num_local_experts": 6, "num_experts_per_tok": 3, "rope_scaling": {"rope_type": "default"}},
    "granitemoehybrid": PLAIN
    | {"layer_types": ["full_attention"] * 2, "num_local_experts": 0, "position_embedding_type": "rope"}
    | {"residual_multiplier": 0.5, "shared_intermediate_size": 96},
    "granitemoehybrid-unturned": PLAIN
    | {"layer_types": ["full_attention"] * 2, "num_local_experts": 0, "shared_intermediate_size": 40},
    "granitemoeshared": SIZES
    | {"num_local_experts": 6, "num_experts_per_tok": 2, "shared_intermediate_size": 40},
    "glm": SIZES | {"pad_token_id": 0},
    "glm4": SIZES | {"pad_token_id": 0},
    "glm4_moe": SIZES | GROUPS | {"use_qk_norm": True, "routed_scaling_factor": 1.5, "attention_bias": True},
    "glm4_moe-plain": SIZES | GATES | {"n_group": 1, "topk_group": 1, "norm_topk_prob": False},
    "glm4_moe_lite": LATENT | GROUPS | {"rms_norm_eps": 1e-5},
    "deepseek_v2": LATENT | GATES | {"first_k_dense_replace": 1, "routed_scaling_factor": 2.0},
    "deepseek_v2-groups": LATENT
    | GROUPS
    | {"topk_method": "group_limited_greedy", "q_lora_rank": None, "rope_scaling": YARN | {"mscale": 0.7}},
    "deepseek_v3": LATENT | GROUPS | {"num_hidden_layers": 3},
    "deepseek_v3-yarn": LATENT
    | GATES
    | {
        "n_group": 1,
        "topk_group": 1,
        "rope_interleave": False,
        "attention_bias": True,
        "first_k_dense_replace": 1,
    }
    | {"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9}},
    "dots1": SIZES | GROUPS,
    "phimoe": SIZES | {"num_local_experts": 6, "attention_bias": True, "lm_head_bias": True},
    "minimax_m2": SIZES | {"num_local_experts": 6, "num_experts_per_tok": 3, "rotary_dim": 8},
    "hunyuan_v1_moe": SIZES | {"num_experts": 6, "moe_topk": 2, "pad_token_id": 0},
    "ernie4_5_moe": PLAIN
    | {"moe_num_experts": 6, "moe_k": 3, "moe_num_shared_experts": 2, "moe_intermediate_size": 32}
    | {"pad_token_id": 0},
    "arcee": SIZES,
    "cohere": PLAIN | {"pad_token_id": 0, "use_qk_norm": True},
    "cohere2": PLAIN | {"pad_token_id": 0, "sliding_window": 7, "num_hidden_layers": 4},
    "ernie4_5": SIZES | {"pad_token_id": 0, "use_bias": True},
    "exaone4": SIZES | {"sliding_window": 7, "num_hidden_layers": 4},
    "exaone4-full": SIZES | {"sliding_window": None, "layer_types": ["full_attention"] * 2},
    "falcon": {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "falcon-new": PLAIN | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
    "falcon-serial": PLAIN | {"multi_query": False, "parallel_attn": False, "ffn_hidden_size": 96},
    "gpt_bigcode": GPT2,
    "gpt_bigcode-heads": GPT2 | {"multi_query": False},
    "gpt_neo": {"vocab_size": 97, "hidden_size": 64, "num_layers": 2, "num_heads": 4}
    | {"attention_types": [[["global", "local"], 1]], "window_size": 7, "max_position_embeddings": 256},
    "gpt_neox": MHA | {"attention_bias": True},
    "gpt_neox-serial": MHA | {"use_parallel_residual": False, "rotary_pct": 0.5},
    "gptj": GPT2 | {"rotary_dim": 8},
    "helium": SIZES | {"pad_token_id": 0},
    "hunyuan_v1_dense": SIZES | {"pad_token_id": 0},
    "ministral": SIZES | {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]},
    "ministral3": SIZES
    | {"rope_scaling": YARN | {"llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 16}},
    "exaone": SIZES | {"num_attention_heads": 4},
    "internlm3": SIZES | {"pad_token_id": 0, "qkv_bias": True, "bias": True},
    "youtu": LATENT,
    "nemotron": SIZES,
    "olmo": MHA | {"clip_qkv": 0.5},
    "opt": MHA | {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "seed_oss": SIZES | {"pad_token_id": 0, "attention_bias": True},
    "stablelm": PLAIN | {"pad_token_id": 0, "use_qkv_bias": True},
    "stablelm-parallel": PLAIN | {"use_parallel_residual": True, "qk_layernorm": True},
    "granitemoe": SIZES | {"num_local_experts": 6, "num_experts_per_tok": 2, "residual_multiplier": 0.5},
}
ROUTED = ("granitemoe", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe")
"""Those with experts."""


def written(folder: Path, kind: str, seed: int = 0, **changes: Any) -> Any:
    """Write a model of a kind, and give transformers' own."""
    torch.manual_seed(seed)
    settings = {"bos_token_id": 1, "eos_token_id": None} | KINDS[kind] | changes
    config = transformers.AutoConfig.for_model(kind.partition("-")[0], **settings)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    ones = 0.0 if kind.startswith("gemma") else 1.0
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn_like(weight) * 0.15 + (ones if weight.ndim == 1 else 0.0))
        for name, buffer in made.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.15)
    made.save_pretrained(folder, max_shard_size="80KB")
    return made


def quantised(folder: Path, kind: str, packer: Any, beside: str = "", **changes: Any) -> Any:
    """Write a model of which all matrices of layers are packed; transformers' own of the same numbers.

    `packer`: `settings`, and (weights [outputs, inputs]) -> parts by name, the matrix that they stand for.

    `beside`: the file that the settings are in, in place of config.json.
    """
    from safetensors.numpy import load_file, save_file

    own = written(folder, kind, **changes)
    tensors = {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}
    state = own.state_dict()
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        weight = tensors.pop(name)
        weight[::5] = np.abs(weight[::5])  # points of 0
        parts, near = packer(weight)
        base = name.removesuffix(".weight")
        tensors |= {f"{base}.{ending}": part for ending, part in parts.items()}
        _place(state, name).copy_(torch.tensor(near))
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    file, settings = ("config.json", config | {"quantization_config": packer.settings})
    if beside:
        file, settings = beside, {k: v for k, v in packer.settings.items() if k != "quant_method"}
    (folder / file).write_text(json.dumps(settings))
    return own


def _place(state: dict[str, Any], name: str) -> Any:
    """Where transformers keeps a matrix: those of experts together, gates before what they are for."""
    before, experts, behind = name.partition(".experts.")
    if not experts:
        return state[name]
    number, part = int(behind.split(".")[0]), behind.split(".")[1]
    if part == "down_proj":
        return state[f"{before}.experts.down_proj"][number]
    both = state[f"{before}.experts.gate_up_proj"][number]
    half = len(both) // 2
    return both[:half] if part == "gate_proj" else both[half:]


def continued(model: Any, prompt: list[int], count: int) -> list[int]:
    """The tokens that transformers generates greedily."""
    made = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, pad_token_id=0)
    return made[0, len(prompt) :].tolist()


def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Some tokens."""
    return np.random.default_rng(seed + length).integers(2, 96, length).tolist()
