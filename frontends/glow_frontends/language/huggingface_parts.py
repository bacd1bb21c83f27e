"""Folders of multimodal models: the text part as a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_TEXTS = {
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
}
"""Architectures that are another one where there are texts alone: all their positions are the same then."""

_USUAL: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 4096,
    },
    "llama": {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
    },
    "mistral": {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "sliding_window": 4096,
    },
}  # fmt: skip
"""What settings of a part leave out where it is what transformers' classes have, by architecture."""
_ROPES = {"gemma3_text": {"rope_theta": 1e6, "rope_local_base_freq": 10000.0}}
"""Likewise for rotary positions, which newer files have in a table of their own."""

_BEFORE = ("model.language_model.", "model.text_model.", "language_model.")
"""What stands before the names of weights that are the text's part."""
_OTHERS = (
    *("vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "mm_projector.", "connector."),
    *("audio_tower.", "image_newline"),
)
"""What names of the other parts' weights begin with."""


def text_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the part for texts, and what the whole says of its tokens and types."""
    part = settings.get("text_config")
    if not isinstance(part, dict):
        kind = str(settings.get("model_type"))
        return settings if kind not in _TEXTS else {**settings, "model_type": _TEXTS[kind]}
    kind = str(part.get("model_type"))
    usual = _USUAL.get(kind, {}) | ({} if "rope_parameters" in part else _ROPES.get(kind, {}))
    kept = ("bos_token_id", "eos_token_id", "dtype", "torch_dtype", "quantization_config")
    whole = {name: settings[name] for name in kept if settings.get(name) is not None}
    tied = {n: settings[n] for n in ("tie_word_embeddings",) if settings.get(n) is not None}
    return {**usual, **whole, **part, **tied, "model_type": _TEXTS.get(kind, kind)}


def text_tensors(tensors: Mapping[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
    """The tensors of the part for texts, by the names that they have in a folder of their own."""
    found: dict[str, Callable[[], T]] = {}
    for name, tensor in tensors.items():
        if name.removeprefix("model.").startswith(_OTHERS):
            continue
        before = next((b for b in _BEFORE if name.startswith(b)), "")
        rest = name.removeprefix(before)
        found[rest if before in ("", "language_model.") else f"model.{rest}"] = tensor
    return found
