"""Hugging Face folders: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.files import unreadable
from glow_frontends.language.blocks import Blocks, of_latents, stacked
from glow_frontends.language.decoder import Decoder, LanguageFiles, Weight, check_all_known, unread
from glow_frontends.language.huggingface_config import Config, decoder_of
from glow_frontends.language.huggingface_names import LATENT, NAMES, WHOLE, Fused, Names, missing
from glow_frontends.language.huggingface_parts import text_settings, text_tensors
from glow_frontends.language.packed_weights import quantization_of, settings_beside, with_packed
from glow_frontends.language.safetensors import folder_tensors
from glow_frontends.language.scaled_weights import SCALES, TABLES
from glow_frontends.language.settings import token_numbers

Tensors = Mapping[str, Callable[[], Weight]]

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
    whole = read_json(folder / "config.json")
    config = Config(folder / "config.json", text_settings(whole))
    with config.guarded():
        return _read(folder, whole, config)


def _read(folder: Path, whole: Mapping[str, Any], config: Config) -> LanguageFiles:
    kind = config.kind
    if kind == "whisper":
        raise UnsupportedError(f"{folder}: whisper writes down sounds; glow.SpeechModel reads it")
    if kind not in NAMES:
        known = ", ".join(NAMES)
        lacking = f"the architecture '{kind}' is not supported{missing(kind)}"
        raise UnsupportedError(f"{folder}: {lacking}; supported are: {known}")
    decoder = decoder_of(config)
    label, quantised = config.label("quantization_config"), config.get("quantization_config")
    if quantised is None:
        label, quantised = settings_beside(folder, read_json)
    quantised = quantization_of(quantised, label)
    stored = folder_tensors(folder)
    if whole != config.settings:
        stored = text_tensors(stored)
    tensors = with_packed(stored, quantised, str(folder))
    weights = _weights(kind, decoder, tensors, config)
    more = optional_json(folder / "generation_config.json")
    own = more.get("eos_token_id", config.get("eos_token_id"))
    told = folder / ("generation_config.json" if "eos_token_id" in more else "config.json")
    begin = token_numbers(config.get("bos_token_id"), config.label("bos_token_id"))
    return LanguageFiles(
        str(folder),
        decoder,
        weights,
        token_numbers(own, f"{told}: 'eos_token_id'"),
        begin[0] if begin else None,
        **texts_beside(folder),
    )


def texts_beside(folder: Path) -> dict[str, Any]:
    """What the files of a folder say of texts: fields of `LanguageFiles`."""
    texts = optional_json(folder / "tokenizer_config.json")
    tokenizer, template = folder / "tokenizer.json", folder / "chat_template.jinja"
    return {
        "tokenizer": tokenizer if tokenizer.exists() else None,
        "chat_template": _text_of(template) if template.exists() else _template(folder, texts),
        "special": {n: t for n, v in texts.items() if n.endswith("_token") and (t := _text(v)) is not None},
    }


def read_json(file: Path) -> dict[str, Any]:
    """A table of settings; GlowError where there is none."""
    try:
        made = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(file, error) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise GlowError(f"{file}: this is not JSON: {error}") from None
    if not isinstance(made, dict):
        raise GlowError(f"{file}: this is not a table of settings")
    return made


def optional_json(file: Path) -> dict[str, Any]:
    """A table of settings, empty where the file is not there."""
    return read_json(file) if file.exists() else {}


def _text(value: Any) -> str | None:
    """The text of a special token, which may be a table; None for what is no text, as add_bos_token."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GlowError(f"{file}: this is not text: {error}") from None


def _template(folder: Path, texts: Mapping[str, Any]) -> str | None:
    """The chat template, of several the one called default."""
    found = texts.get("chat_template")
    if isinstance(found, list):
        named = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}  # pyright: ignore
        found = named.get("default")
    if found is not None and not isinstance(found, str):
        raise GlowError(f"{folder / 'tokenizer_config.json'}: 'chat_template' is not text")
    return found


def _weights(
    kind: str, decoder: Decoder, tensors: Tensors, config: Config
) -> dict[str, Callable[[], Weight]]:
    """The weights under our names; UnsupportedError where the files have more than the architecture."""
    found: dict[str, Callable[[], Weight]] = {}
    names, theirs_of = NAMES[kind], dict[str, str]()
    lists, first = f"{names.prefix}{names.layers}", decoder.layers
    ahead = tuple(f"{lists}.{first + i}." for i in range(int(config.number("num_nextn_predict_layers", 0))))
    left = {n for n in tensors if not n.endswith((*_TABLES,)) and n.rpartition(".")[2] not in _PACKED}
    left = {n for n in left if not n.startswith(ahead)}  # by none of no beginnings

    def add(ours: str, theirs: str) -> None:
        for own, endings in ((ours, (".weight", "")), (f"{ours}.bias", (".bias", "_bias"))):
            for name in (f"{theirs}{ending}" for ending in endings):
                if "*" in name:
                    count = _count(decoder, ours.rpartition(".")[2])
                    tensor = _stack(count, tensors, name, left, config)
                else:
                    tensor = tensors.get(name)
                    left.discard(name)
                if tensor is not None:
                    found[own], theirs_of[own] = _changed(names, own, tensor), name

    for ours, theirs in names.own.items():
        for one in theirs.split("|"):
            if ours in WHOLE:
                add(ours, one if ours == "head" else names.prefix + one)
                continue
            for layer in range(decoder.layers):
                add(f"{layer}.{ours}", f"{lists}.{layer}.{one}")
    for theirs in names.fused:
        for layer in range(decoder.layers):
            found |= _parts(names, theirs, layer, decoder, tensors, left)
    left |= {theirs_of.get(own, own) for own in unread(found, decoder.router)}
    check_all_known(left, config.file.parent, kind)
    tied = config.get("tie_word_embeddings", names.tied)
    return {n: w for n, w in found.items() if n != "head" or not tied}


def _parts(
    names: Names, theirs: str, layer: int, decoder: Decoder, tensors: Tensors, left: set[str]
) -> dict[str, Callable[[], Weight]]:
    """The weights of a layer that are stored as one; what is found is taken from `left`."""
    found: dict[str, Callable[[], Weight]] = {}
    fused = names.fused[theirs]
    for behind, endings in (("", (".weight", "")), (".bias", (".bias", "_bias"))):
        for name in (f"{names.prefix}{names.layers}.{layer}.{theirs}{ending}" for ending in endings):
            if tensor := tensors.get(name):
                left.discard(name)
                for part in fused.parts:
                    found[f"{layer}.{part}{behind}"] = _Part(
                        tensor, part, fused, names, decoder, bool(behind)
                    )
    return found


def _count(decoder: Decoder, part: str) -> int:
    """How many weights of a part are numbered: one an expert, or norms of one head each."""
    heads = {"q_norm": decoder.heads, "k_norm": decoder.shared}
    return heads.get(part, decoder.router.experts if decoder.router else 0)


def _stack(
    count: int, tensors: Tensors, name: str, left: set[str], config: Config
) -> Callable[[], Weight] | None:
    """Numbered weights as one, if a layer has such; what is found is taken from `left`."""
    names = [name.replace("*", str(number)) for number in range(count)]
    if not left & {*names}:
        return None
    left.difference_update(names)
    missing = next((n for n in names if n not in tensors), None)
    if missing is not None:
        what = "experts" if ".experts." in name else "heads"
        raise GlowError(f"{config.file.parent}: of {count} {what} the weights '{missing}' are missing")
    return cache(lambda: stacked([tensors[n]() for n in names], f"{config.file.parent}: '{name}'"))


def _changed(names: Names, ours: str, tensor: Callable[[], Weight]) -> Callable[[], Weight]:
    """A weight as the graph takes it: matrices [outputs, inputs], scales of norms as they are."""
    part = ours.rpartition(".")[2]
    if names.lifted and ("norm" in part or part.startswith("after")):
        return lambda: np.asarray(tensor(), np.float32) + np.float32(1)
    if part in names.turned:
        return lambda: _turned(tensor())
    if ours == "positions" and names.skipped:
        return lambda: np.asarray(tensor())[names.skipped :]
    return tensor


def _turned(weight: Weight) -> Weight:
    """Matrices the other way round; codes are [outputs, inputs] whatever they stand for."""
    return weight if isinstance(weight, Blocks) else weight.swapaxes(-1, -2)


@dataclass(frozen=True)
class _Part:
    """One of the weights that are one tensor, or its bias."""

    tensor: Callable[[], Weight]
    part: str
    fused: Fused
    names: Names
    decoder: Decoder
    bias: bool

    def __call__(self) -> Weight:
        """Its rows."""
        turned = self.part in self.names.turned and not self.bias
        whole = _turned(self.tensor()) if turned else self.tensor()
        if self.fused.order == LATENT:
            d = self.decoder
            assert d.latent is not None
            return of_latents(whole, d.heads, d.head - d.latent.turned, self.part == "k_up")
        rows = self.fused.rows(self.part, self.decoder, whole.shape[-1 if self.bias else -2])
        if isinstance(whole, Blocks):
            return whole.rows(rows)
        return whole[..., rows] if self.bias else whole[..., rows, :]
