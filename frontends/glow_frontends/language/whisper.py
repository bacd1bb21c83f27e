"""Whisper folders: the audio encoder, the decoder, and control tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import UnsupportedError
from glow_frontends.language.decoder import Decoder, LanguageFiles, Weight
from glow_frontends.language.huggingface import Tensors, optional_json, read_json, texts_beside
from glow_frontends.language.huggingface_config import Config, activation_of
from glow_frontends.language.safetensors import folder_tensors

_LAYER = {
    "attention_norm": "self_attn_layer_norm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.out_proj",
    "mlp_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}
_CROSS = {
    "cross_norm": "encoder_attn_layer_norm",
    "cross_q": "encoder_attn.q_proj",
    "cross_o": "encoder_attn.out_proj",
}
_MANY_LANGUAGES = 51865
"""Tokens of the smallest vocabulary of many languages; that of English alone has one less."""
_LANGUAGE = re.compile(r"<\|[a-z]{2,3}\|>")
_HEARD = {"cross_k": "encoder_attn.k_proj", "cross_v": "encoder_attn.v_proj"}


@dataclass(frozen=True)
class SpeechFiles:
    """A model that writes down what a sound says.

    `encoder.decoder` describes the encoder's layers. `bins`: of a spectrum. `languages`, `tasks`: the tokens
    that ask for them; none for models of one language. `silent` and `silent_first`: tokens that are never
    written, not at first.
    """

    encoder: LanguageFiles
    decoder: LanguageFiles
    bins: int
    start: int
    languages: Mapping[str, int]
    tasks: Mapping[str, int]
    no_timestamps: int | None
    silent: tuple[int, ...] = ()
    silent_first: tuple[int, ...] = ()


def read_whisper(folder: Path, stored: bool = True) -> SpeechFiles:
    """The model of a folder, with its weights where they are `stored` there.

    GlowError for what is missing or damaged, UnsupportedError for other models.
    """
    config = Config(folder / "config.json", read_json(folder / "config.json"))
    if config.kind != "whisper":
        raise UnsupportedError(
            f"{folder}: the architecture '{config.kind}' does not write down sounds; 'whisper' does"
        )
    tensors = folder_tensors(folder) if stored else {}
    more = _asking_tokens(config, folder) | optional_json(folder / "generation_config.json")
    encoder, decoder = (_side(config, tensors, side, folder) for side in ("encoder", "decoder"))
    end = int(more.get("eos_token_id", config.count("eos_token_id")))
    decoder = LanguageFiles(
        str(folder), decoder.decoder, decoder.weights, (end,), None, **texts_beside(folder)
    )

    def tokens(name: str) -> tuple[int, ...]:
        return tuple(int(t) for t in more.get(name) or config.get(name) or ())

    return SpeechFiles(
        encoder,
        decoder,
        config.count("num_mel_bins"),
        int(more.get("decoder_start_token_id", config.count("decoder_start_token_id"))),
        {k.strip("<|>"): int(v) for k, v in (more.get("lang_to_id") or {}).items()},
        {k: int(v) for k, v in (more.get("task_to_id") or {}).items()},
        more.get("no_timestamps_token_id"),
        tokens("suppress_tokens"),
        tokens("begin_suppress_tokens"),
    )


def _asking_tokens(config: Config, folder: Path) -> dict[str, Any]:
    """The tokens that ask for something, as the tokenizer names them, where a model knows many languages."""
    if config.count("vocab_size") < _MANY_LANGUAGES:
        return {}
    added = optional_json(folder / "tokenizer.json").get("added_tokens") or ()
    known = {str(t["content"]): int(t["id"]) for t in added}
    return {
        "lang_to_id": {name: i for name, i in known.items() if _LANGUAGE.fullmatch(name)},
        "task_to_id": {n: known[f"<|{n}|>"] for n in ("transcribe", "translate") if f"<|{n}|>" in known},
        "no_timestamps_token_id": known.get("<|notimestamps|>"),
    }


def _side(c: Config, tensors: Tensors, side: str, folder: Path) -> LanguageFiles:
    """The encoder or the decoder."""
    heads, width = c.count(f"{side}_attention_heads"), c.count("d_model")
    places = c.count("max_source_positions")
    decodes = side == "decoder"
    sizes = Decoder(
        vocabulary=c.count("vocab_size"),
        width=width,
        layers=c.count(f"{side}_layers"),
        heads=heads,
        shared=heads,
        head=width // heads,
        hidden=c.count(f"{side}_ffn_dim"),
        places=c.count("max_target_positions") if decodes else places,
        epsilon=1e-5,
        activation=activation_of(c, "activation_function"),
        gated=False,
        centred=True,
        memory=places if decodes else 0,
    )
    return LanguageFiles(str(folder), sizes, _weights(c, tensors, side, sizes))


def _weights(c: Config, tensors: Tensors, side: str, sizes: Decoder) -> dict[str, Callable[[], Weight]]:
    """The weights of a side under our names."""
    found: dict[str, Callable[[], Weight]] = {}

    def add(ours: str, theirs: str) -> None:
        for ending, own in (("weight", ours), ("bias", f"{ours}.bias")):
            if tensor := tensors.get(f"model.{theirs}.{ending}"):
                found[own] = tensor

    whole = {"norm": "layer_norm", "positions": "embed_positions"}
    whole |= {"embed": "embed_tokens"} if side == "decoder" else {"conv1": "conv1", "conv2": "conv2"}
    for ours, theirs in whole.items():
        add(ours, f"{side}.{theirs}")
    for layer in range(sizes.layers):
        for ours, theirs in (_LAYER | (_CROSS if side == "decoder" else {})).items():
            add(f"{layer}.{ours}", f"{side}.layers.{layer}.{theirs}")
    for layer in range(c.count("decoder_layers")) if side == "encoder" else ():
        for ours, theirs in _HEARD.items():
            add(f"{layer}.{ours}", f"decoder.layers.{layer}.{theirs}")
    return found
