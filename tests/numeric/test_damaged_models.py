"""Damaged files of language models: whatever is wrong in them is one GlowError, at once."""

from __future__ import annotations

import copy
import json
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import language_models as lms

import glow_compiler as glow
from glow_frontends.language import read_language_model

WRONG: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**9, 10**400, "x", "", [], [1], ["x"], {}, {"a": 1}, float("nan"), [-64, 64]),
    *([64.0, 64], {"rope_type": "yarn"}, {"rope_type": "longrope", "short_factor": 3}, {"quant_method": []}),
]
RAW = (b"", b"[", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"null", b'{"a":' + b"9" * 6000 + b"}")


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a value of JSON, those of long lists up to the third."""
    parts = (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    )
    for key, part in parts:
        yield (*before, key)
        yield from places(part, (*before, key))


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    made = inner = copy.deepcopy(value)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return made


def told(path: Path) -> bool:
    """Whether a model cannot be read, which is said with its path and at once."""
    begun = time.perf_counter()
    try:
        read_language_model(path)
    except glow.GlowError as error:
        assert path.name in str(error) or "/" in str(error)
        return True
    finally:
        assert time.perf_counter() - begun < 2
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("damaged")
    lms.written(made, "phi3")
    (made / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    (made / "tokenizer_config.json").write_text('{"chat_template": [{"name": "default", "template": "x"}]}')
    return made


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_settings(name: str, folder: Path) -> None:
    """Each value replaced by some of other kinds, and files that are no JSON."""
    file, chance, count = folder / name, random.Random(0), 0
    whole = file.read_text()
    found = json.loads(whole)
    found |= (
        {"text_config": {}, "quantization_config": {}, "layer_types": []} if name == "config.json" else {}
    )
    try:
        for place in places(found):
            for wrong in chance.sample(WRONG, 4):
                file.write_text(json.dumps(put(json.loads(whole) | found, place, wrong)))
                count += told(folder)
        for raw in RAW:
            file.write_bytes(raw)
            assert told(folder)
    finally:
        file.write_text(whole)
    assert count


@pytest.mark.slow
def test_tables_of_tensors(folder: Path) -> None:
    """Types, shapes, places and the table itself, and bits of it."""
    file, chance = sorted(folder.glob("*.safetensors"))[0], random.Random(0)
    data = file.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    table, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = next(n for n in table if n != "__metadata__")

    def write(head: bytes) -> None:
        file.write_bytes(struct.pack("<Q", len(head)) + head + body)

    try:
        for place in ((name,), *((name, *p) for p in places(table[name]))):
            for wrong in WRONG:
                write(json.dumps(put(table, place, wrong)).encode())
                told(folder)
        for raw in (*RAW, b"3", b'"x"', b"[3]"):
            write(raw)
            assert told(folder)
        for _ in range(60):
            bits = bytearray(data)
            bits[chance.randrange(8 + length)] ^= 1 << chance.randrange(8)
            file.write_bytes(bits[: chance.choice((len(bits), chance.randrange(len(bits))))])
            told(folder)
    finally:
        file.write_bytes(data)


@pytest.mark.parametrize(
    "names", [3, {"a": 3}, {"a": []}, {"a": "../x.safetensors"}, {"a": "/x"}, {"a": "\0"}]
)
def test_index(names: Any, folder: Path) -> None:
    """Names of files are those of the folder."""
    index = folder / "model.safetensors.index.json"
    whole = index.read_bytes() if index.exists() else None
    try:
        index.write_text(json.dumps({"weight_map": names}))
        with pytest.raises(glow.GlowError, match=r"index\.json: the index cannot be read"):
            read_language_model(folder)
    finally:
        index.unlink() if whole is None else index.write_bytes(whole)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def setting(name: str, kind: int, data: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + data


def gguf(**changes: bytes) -> bytes:
    """The head of a file with some settings changed, each a kind and data."""
    settings = {
        "general.architecture": struct.pack("<I", 8) + text("llama"),
        **{
            f"llama.{n}": struct.pack("<II", 4, v)
            for n, v in (
                ("block_count", 1),
                ("context_length", 64),
                ("embedding_length", 32),
                ("feed_forward_length", 32),
                ("attention.head_count", 1),
            )
        },
        "tokenizer.ggml.bos_token_id": struct.pack("<II", 4, 1),
        "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, 1),
        "tokenizer.chat_template": struct.pack("<I", 8) + text("x"),
    }
    settings |= {n.replace("__", "."): v for n, v in changes.items()}
    head = b"".join(text(n) + v for n, v in settings.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(settings)) + head


def test_gguf(tmp_path: Path) -> None:
    """Settings of each other kind, counts beyond the file, lists in lists, bits."""
    file, chance = tmp_path / "x.gguf", random.Random(0)
    others = [
        struct.pack("<II", 4, 0),
        struct.pack("<II", 4, 10**9),
        struct.pack("<Ii", 5, -1),
        struct.pack("<If", 6, 0.5),
        struct.pack("<If", 6, float("nan")),
        struct.pack("<I?", 7, True),
        struct.pack("<I", 8) + text("x"),
        struct.pack("<IIQ", 9, 4, 0),
        struct.pack("<IIQ", 9, 4, 1 << 39),
        struct.pack("<IIQ", 9, 8, 1 << 39),
        struct.pack("<IIQ", 9, 9, 1) * 3000,
        struct.pack("<IQ", 8, 1 << 39),
        struct.pack("<IQ", 10, 1 << 63),
        struct.pack("<I", 77),
    ]
    names = [
        "general__architecture",
        "general__alignment",
        "tokenizer__ggml__bos_token_id",
        "tokenizer__ggml__tokens",
    ]
    names += ["tokenizer__ggml__eos_token_id", "tokenizer__chat_template", "llama__rope__freq_base"]
    names += [
        f"llama__{n}"
        for n in ("block_count", "context_length", "embedding_length", "expert_count", "vocab_size")
    ]
    names += [
        "llama__attention__head_count",
        "llama__attention__layer_norm_rms_epsilon",
        "llama__rope__scaling__type",
    ]
    for name in names:
        for other in others:
            file.write_bytes(gguf(**{name: other}))
            told(file)
    file.write_bytes(gguf(llama__block_count=struct.pack("<II", 4, 10**9)))
    with pytest.raises(glow.GlowError, match=r"x\.gguf: 'llama\.block_count' is 1000000000, more than"):
        read_language_model(file)
    data = gguf()
    for _ in range(300):
        bits = bytearray(data)
        bits[chance.randrange(4, len(bits))] ^= 1 << chance.randrange(8)
        file.write_bytes(bits[: chance.choice((len(bits), chance.randrange(len(bits))))])
        told(file)
