"""Names of the weights in Hugging Face folders, by architecture (`model_type`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.language.decoder import Decoder

JOINED, TURNS, GROUPS, LATENT = "joined", "turns", "groups", "latent"
"""Order of the rows of several weights stored as one matrix: one weight after the other; rows alternating;
per key head the rows of queries, keys and values; per head the rows that make keys and values of latents."""


@dataclass(frozen=True)
class Fused:
    """Weights of ours that are one in the files."""

    parts: tuple[str, ...]
    order: str = JOINED

    def rows(self, part: str, d: Decoder, outputs: int) -> slice | Array:
        """The rows of a part in a matrix of so many."""
        number, count = self.parts.index(part), len(self.parts)
        if self.order == TURNS:
            return slice(number, None, count)
        if self.order == GROUPS:
            each = d.heads // d.shared
            first, end = {"q": (0, each), "k": (each, each + 1), "v": (each + 1, each + 2)}[part]
            places = np.arange(d.shared * (each + 2) * d.head).reshape(d.shared, each + 2, d.head)
            return places[:, first:end].reshape(-1)
        known = {"q": d.heads * d.head, "k": d.shared * d.head, "v": d.shared * d.head}
        rest = outputs - sum(known.get(p, 0) for p in self.parts)
        each = rest // max(1, sum(p not in known for p in self.parts))
        widths = [known.get(p, each) for p in self.parts]
        return slice(sum(widths[:number]), sum(widths[: number + 1]))


@dataclass(frozen=True)
class Names:
    """The names of an architecture's weights, and how it stores them.

    `own`: theirs by ours, of layers behind the number of the layer; `*` is the number of an expert or head,
    `|` stands between names of which a file has one. They end in `.weight` and `.bias`, or in nothing and
    `_bias`.
    """

    own: Mapping[str, str]
    fused: Mapping[str, Fused] = field(default_factory=dict[str, Fused])
    #: What stands before all names but the head's.
    prefix: str = "model."
    #: The name of the list of layers.
    layers: str = "layers"
    #: Matrices that are [inputs, outputs].
    turned: tuple[str, ...] = ()
    #: Scales of norms are stored less one.
    lifted: bool = False
    #: The head is the table of the tokens where settings do not say otherwise.
    tied: bool = False
    #: Rows of the table of positions that no token has.
    skipped: int = 0


WHOLE = ("embed", "positions", "norm", "head")
"""Weights that are no layer's."""


def _parts(ours: str, theirs: str) -> dict[str, str]:
    """A gated part of a layer."""
    return {f"{ours}{part}": f"{theirs}.{part}_proj" for part in ("gate", "up", "down")}


def _without(names: Mapping[str, str], *left: str) -> dict[str, str]:
    return {ours: theirs for ours, theirs in names.items() if ours not in left}


_GATE_UP, _QKV = Fused(("gate", "up")), Fused(("q", "k", "v"))
_GROUPED = Fused(("q", "k", "v"), GROUPS)
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
} | _parts("", "mlp")
_AFTER = {
    "after_attention": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "after_mlp": "post_feedforward_layernorm",
}
_OLMO = _without(_LLAMA | _AFTER, "attention_norm", "mlp_norm")
_EXPERTS = _LLAMA | {"router": "mlp.gate"} | _parts("experts_", "mlp.experts.*")
_MIXTRAL = _LLAMA | {
    "router": "block_sparse_moe.gate|block_sparse_moe.router",
    "router_offsets": "block_sparse_moe.e_score_correction_bias",
    "experts_gate": "block_sparse_moe.experts.*.w1",
    "experts_up": "block_sparse_moe.experts.*.w3",
    "experts_down": "block_sparse_moe.experts.*.w2",
}
_SHARED = (
    _EXPERTS
    | _parts("shared_", "mlp.shared_experts")
    | {"router_offsets": "mlp.gate.e_score_correction_bias|mlp.moe_statics.e_score_correction_bias"}
)
_LATENT = Names(
    _SHARED
    | {
        "q": "self_attn.q_b_proj|self_attn.q_proj",
        "q_a": "self_attn.q_a_proj",
        "q_a_norm": "self_attn.q_a_layernorm",
        "kv": "self_attn.kv_a_proj_with_mqa",
        "kv_norm": "self_attn.kv_a_layernorm",
    },
    {"self_attn.kv_b_proj": Fused(("k_up", "v_up"), LATENT)},
)
_GRANITE_EXPERTS = {
    "router": "block_sparse_moe.router.layer",
    "experts_down": "block_sparse_moe.output_linear",
    "shared_down": "shared_mlp.output_linear",
}
_GRANITE_FUSED = {
    "block_sparse_moe.input_linear": Fused(("experts_gate", "experts_up")),
    "shared_mlp.input_linear": Fused(("shared_gate", "shared_up")),
}
_PHI = {"norm": "final_layernorm", "o": "self_attn.dense", "up": "mlp.fc1", "down": "mlp.fc2"} | {
    "q_norm": "self_attn.q_layernorm",
    "k_norm": "self_attn.k_layernorm",
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
_GPT_J = {part: f"attn.{part}_proj" for part in ("q", "k", "v")} | {
    "o": "attn.out_proj",
    "up": "mlp.fc_in",
    "down": "mlp.fc_out",
}
_GPT_NEOX = {
    "embed": "embed_in",
    "norm": "final_layer_norm",
    "head": "embed_out|lm_head",
    "attention_norm": "input_layernorm",
    "o": "attention.dense",
    "mlp_norm": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
}
_FALCON = _GPT_NEOX | {
    "embed": "word_embeddings",
    "norm": "ln_f",
    "head": "lm_head",
    "attention_norm": "ln_attn|input_layernorm",
    "o": "self_attention.dense",
    "mlp_norm": "ln_mlp|post_attention_layernorm",
}
_OPT = _without(_LLAMA, "gate") | {
    "positions": "embed_positions",
    "norm": "final_layer_norm",
    "attention_norm": "self_attn_layer_norm",
    "o": "self_attn.out_proj",
    "mlp_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}
_EXAONE = {p: f"attn.attention.{p}_proj" for p in ("q", "k", "v")} | {
    **_without(_GPT2, "positions"),
    "o": "attn.attention.out_proj",
    "gate": "mlp.c_fc_0",
    "up": "mlp.c_fc_1",
}
_HUNYUAN = {"q_norm": "self_attn.query_layernorm", "k_norm": "self_attn.key_layernorm"}
_HEADS = {"q_norm": "self_attn.q_layernorm.norms.*", "k_norm": "self_attn.k_layernorm.norms.*"}

NAMES: dict[str, Names] = {
    "arcee": Names(_LLAMA),
    "cohere": Names(_LLAMA, tied=True),
    "cohere2": Names(_LLAMA, tied=True),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "dots1": Names(_SHARED),
    "ernie4_5": Names(_LLAMA, tied=True),
    "ernie4_5_moe": Names(_SHARED, tied=True),
    "exaone": Names(_EXAONE, prefix="transformer.", layers="h"),
    "exaone4": Names(_OLMO),
    "falcon": Names(
        _FALCON, {"self_attention.query_key_value": _GROUPED}, prefix="transformer.", layers="h", tied=True
    ),
    "gemma": Names(_LLAMA, lifted=True, tied=True),
    "gemma2": Names(_LLAMA | _AFTER, lifted=True, tied=True),
    "gemma3_text": Names(_LLAMA | _AFTER, lifted=True, tied=True),
    "glm": Names(_LLAMA, {"mlp.gate_up_proj": _GATE_UP}),
    "glm4": Names(
        _LLAMA | {"after_attention": "post_self_attn_layernorm", "after_mlp": "post_mlp_layernorm"},
        {"mlp.gate_up_proj": _GATE_UP},
    ),
    "glm4_moe": Names(_SHARED),
    "glm4_moe_lite": _LATENT,
    "gpt2": Names(
        _GPT2,
        {"attn.c_attn": _QKV},
        prefix="transformer.",
        layers="h",
        turned=("q", "k", "v", "o", "up", "down"),
        tied=True,
    ),
    "gpt_bigcode": Names(_GPT2, {"attn.c_attn": _GROUPED}, prefix="transformer.", layers="h", tied=True),
    "gpt_neo": Names(
        _GPT2 | {p: f"attn.attention.{p}_proj" for p in ("q", "k", "v")} | {"o": "attn.attention.out_proj"},
        prefix="transformer.",
        layers="h",
        tied=True,
    ),
    "gpt_neox": Names(_GPT_NEOX, {"attention.query_key_value": _GROUPED}, prefix="gpt_neox."),
    "gpt_oss": Names(
        _LLAMA
        | {"sinks": "self_attn.sinks", "router": "mlp.router", "experts_down": "mlp.experts.down_proj"},
        {"mlp.experts.gate_up_proj": Fused(("experts_gate", "experts_up"), TURNS)},
        turned=("experts_gate", "experts_up", "experts_down"),
    ),
    "gptj": Names(_without(_GPT2, "positions", "mlp_norm") | _GPT_J, prefix="transformer.", layers="h"),
    "granite": Names(_LLAMA),
    "granitemoe": Names(_LLAMA | _GRANITE_EXPERTS, _GRANITE_FUSED),
    "granitemoehybrid": Names(
        _LLAMA | {"down": "shared_mlp.output_linear"}, {"shared_mlp.input_linear": _GATE_UP}
    ),
    "granitemoeshared": Names(_LLAMA | _GRANITE_EXPERTS, _GRANITE_FUSED),
    "helium": Names(_LLAMA),
    "hunyuan_v1_dense": Names(_LLAMA | _HUNYUAN),
    "hunyuan_v1_moe": Names(
        _EXPERTS | _HUNYUAN | {"router": "mlp.gate.wg"} | _parts("shared_", "mlp.shared_mlp")
    ),
    "internlm3": Names(_LLAMA),
    "kimi_k2": _LATENT,
    "llama": Names(_LLAMA),
    "minimax_m2": Names(_MIXTRAL),
    "ministral": Names(_LLAMA),
    "ministral3": Names(_LLAMA),
    "mistral": Names(_LLAMA),
    "mixtral": Names(_MIXTRAL),
    "nemotron": Names(_LLAMA, lifted=True),
    "olmo": Names(_without(_LLAMA, "norm", "attention_norm", "mlp_norm")),
    "olmo2": Names(_OLMO),
    "olmo3": Names(_OLMO),
    "olmoe": Names(_EXPERTS),
    "opt": Names(_OPT, prefix="model.decoder.", tied=True, skipped=2),
    "phi": Names(_LLAMA | _PHI),
    "phi3": Names(_LLAMA, {"self_attn.qkv_proj": _QKV, "mlp.gate_up_proj": _GATE_UP}),
    "phimoe": Names(_MIXTRAL),
    "qwen2": Names(_LLAMA),
    "qwen2_moe": Names(
        _EXPERTS | _parts("shared_", "mlp.shared_expert") | {"shared_router": "mlp.shared_expert_gate"}
    ),
    "qwen3": Names(_LLAMA),
    "qwen3_moe": Names(_EXPERTS),
    "seed_oss": Names(_LLAMA),
    "smollm3": Names(_LLAMA),
    "stablelm": Names(_LLAMA | _HEADS),
    "starcoder2": Names(_LLAMA | {"up": "mlp.c_fc", "down": "mlp.c_proj"}),
    "youtu": _LATENT,
}

MISSING = {
    "layers that keep a state instead of keys and values (Mamba, RWKV, linear attention)": (
        *("bailing_hybrid", "bamba", "falcon_h1", "falcon_mamba", "jamba", "kimi_linear", "mamba", "mamba2"),
        *("minimax", "nemotron_h", "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"),
        *("qwen3_5_text", "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2"),
    ),
    "short convolutions instead of attention": ("lfm2", "lfm2_moe", "lfm3"),
    "attention with linear biases (ALiBi)": ("bloom", "mpt"),
    "attention within chunks": ("llama4", "llama4_text"),
    "embeddings of each layer, and layers that share keys and values": (
        *("gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"),
    ),
    "attention to places that an indexer chooses": ("deepseek_v32", "deepseek_v4", "glm_moe_dsa"),
    "the activation xIELU": ("apertus",),
    "rotary positions of their own in each layer": ("granite_swa", "granitemoe_swa"),
    "attention to images within layers": ("mllama",),
    "experts of which some do nothing, and two attentions in a layer": ("longcat_flash",),
    "experts of one tensor that lies in either order": ("qwen3_vl_moe_text",),
}
"""What architectures compute that is not known here, for those that people ask for."""


def missing(kind: str) -> str:
    """What an architecture computes that is not known, as messages say it; "" where that is not known."""
    return next((f" (it has {what})" for what, kinds in MISSING.items() if kind in kinds), "")
