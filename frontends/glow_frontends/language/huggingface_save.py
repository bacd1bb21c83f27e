"""Saving quantised models as folders in GPTQ's layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import unpack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import LanguageFiles, Weight
from glow_frontends.language.huggingface import read_json
from glow_frontends.language.huggingface_names import LATENT, NAMES, WHOLE, Fused
from glow_frontends.language.huggingface_parts import text_settings, text_tensors
from glow_frontends.language.safetensors import folder_tensors


def save_folder(files: LanguageFiles, target: Path) -> None:
    """Write a model that came from a folder, with its blocks of codes, and the files of its texts.

    UnsupportedError for models that came from elsewhere, GlowError where nothing is in few bits, where the
    target is the source, or cannot be written.
    """
    source = Path(files.source)
    if not source.is_dir():
        raise UnsupportedError(f"{source}: only models of Hugging Face's folders are saved as such")
    if target.resolve() == source.resolve():
        raise GlowError(f"{target}: a model is not saved over its own files")
    whole = read_json(source / "config.json")
    config, tensors = dict(text_settings(whole)), dict[str, Callable[[], Array]](folder_tensors(source))
    if config != whole:
        tensors = text_tensors(tensors)
    if config.get("quantization_config"):
        raise GlowError(f"{source}: its weights are quantised already; copy the folder")
    kept: dict[str, Array] = dict.fromkeys(tensors, np.empty(0))
    packed: list[Blocks] = []
    for theirs, fused, parts in _matrices(str(config["model_type"]), files, tensors):
        blocks = [p for p in parts if isinstance(p, Blocks)]
        if blocks and fused is not None and fused.order == LATENT:
            raise UnsupportedError(
                f"{source}: '{theirs}' projects latents to keys and values, "
                "and its quantised rows cannot be split"
            )
        if len(blocks) != len(parts):
            continue
        if blocks[0].codes.ndim > 2:
            raise UnsupportedError(
                f"{source}: GPTQ needs one matrix per weight, and '{theirs}' contains all experts"
            )
        kept.pop(f"{theirs}.weight", None)
        kept |= {
            f"{theirs}.{ending}": part for ending, part in _stored(_joined(blocks, fused, files)).items()
        }
        packed += blocks
    if not packed:
        raise GlowError(f"{source}: no weights are quantised; load it with weights='int4' or 'int8'")
    kept |= {name: tensors[name]() for name in kept if name in tensors}
    config["quantization_config"] = _settings(packed[0])
    if "lm_head.qweight" in kept:
        config["tie_word_embeddings"] = False
    _write(source, target, config, kept)


def _write(source: Path, target: Path, config: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        save_file({n: np.ascontiguousarray(t) for n, t in tensors.items()}, target / "model.safetensors")
        (target / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        for name in ("generation_config", "tokenizer", "tokenizer_config"):
            with suppress(FileNotFoundError):
                shutil.copy(source / f"{name}.json", target)
        with suppress(FileNotFoundError):
            shutil.copy(source / "chat_template.jinja", target)
    except OSError as error:
        raise GlowError(f"{target}: {error.strerror or error}") from None


def _matrices(
    kind: str, files: LanguageFiles, tensors: Collection[str]
) -> Iterator[tuple[str, Fused | None, Sequence[Weight]]]:
    """The name of each matrix, and its parts."""
    weights, names = files.weights, NAMES[kind]
    inside = {part for fused in names.fused.values() for part in fused.parts}
    if "head" in weights:
        heads = names.own["head"].split("|")
        yield next((n for n in heads if f"{n}.weight" in tensors), heads[-1]), None, [weights["head"]()]
    for layer in range(files.decoder.layers):
        place = f"{names.prefix}{names.layers}.{layer}"
        for ours, theirs in names.own.items():
            if ours in (*WHOLE, *inside) or f"{layer}.{ours}" not in weights:
                continue
            whole = weights[f"{layer}.{ours}"]()
            if "*" not in theirs:
                found = (f"{place}.{n}" for n in theirs.split("|"))
                yield next(n for n in found if {n, f"{n}.weight"} & {*tensors}), None, [whole]
            elif isinstance(whole, Blocks):
                for number in range(len(whole.codes)):
                    yield f"{place}.{theirs.replace('*', str(number))}", None, [whole.expert(number)]
        for theirs, fused in names.fused.items():
            parts = [f"{layer}.{part}" for part in fused.parts]
            if parts[0] in weights:
                yield f"{place}.{theirs}", fused, [weights[part]() for part in parts]


def _joined(blocks: list[Blocks], fused: Fused | None, files: LanguageFiles) -> Blocks:
    """The parts of a fused matrix, each at its rows."""
    first, outputs = blocks[0], sum(len(b.codes) for b in blocks)
    if fused is None:
        return first
    places = [fused.rows(part, files.decoder, outputs) for part in fused.parts]
    codes, scales = (np.empty((outputs, *p.shape[1:]), p.dtype) for p in (first.codes, first.scales))
    for rows, part in zip(places, blocks, strict=True):
        codes[rows], scales[rows] = part.codes, part.scales
    return Blocks(codes, scales, first.bits, first.block, first.depth, first.point)


def _stored(blocks: Blocks) -> dict[str, Array]:
    """The parts of a matrix, as `packed_weights` reads them."""
    bits, (outputs, inputs) = blocks.bits, blocks.shape
    codes = unpack(blocks.codes, bits, inputs)
    groups = inputs // blocks.block
    # Points are stored less one.
    points = np.full((groups, outputs), int(blocks.point) - 1, np.uint8)
    return {
        "qweight": np.ascontiguousarray(_words(codes, bits).T),
        "qzeros": _words(points, bits),
        "scales": blocks.scales.T.astype(np.float16),
        "g_idx": (np.arange(inputs) // blocks.block).astype(np.int32),
    }


def _words(codes: Array, bits: int) -> Array:
    """Codes along the last axis in words of 32 bits, lowest bits first; zeros fill the last."""
    each = 32 // bits
    full = np.zeros((len(codes), -(-codes.shape[1] // each) * each), np.uint32)
    full[:, : codes.shape[1]] = codes
    parts = full.reshape(len(codes), -1, each) << (np.arange(each, dtype=np.uint32) * np.uint32(bits))
    return np.bitwise_or.reduce(parts, axis=2).view(np.int32)


def _settings(blocks: Blocks) -> dict[str, Any]:
    return {
        "quant_method": "gptq",
        "bits": blocks.bits,
        "group_size": blocks.block,
        "sym": True,
        "desc_act": False,
        "lm_head": True,
        "checkpoint_format": "gptq",
    }
