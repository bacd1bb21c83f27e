"""The kind of a file, from its first bytes and not its name; used by every command and `glow.load`."""

from __future__ import annotations

import os
import re
import zipfile
from enum import Enum
from pathlib import Path

from glow_dialects.core.errors import UnsupportedError


class FileKind(Enum):
    """The kinds of model files that are told apart; each value is how messages call one."""

    ONNX = "an ONNX model"
    TEXT = "text"
    GLOW = "a compiled program of Glow"
    TORCH_EXPORT = "a program of torch.export"
    TORCH = "a pickle of PyTorch"
    GGUF = "a language model in GGUF"
    LANGUAGE_FOLDER = "the folder of a language model"
    FOLDER = "a folder"
    ORT = "a model in ONNX Runtime's own format (ORT)"
    TFLITE = "a model of TensorFlow Lite"
    HDF5 = "a file in HDF5, as Keras writes them"
    SAFETENSORS = "a file of weights (safetensors)"
    ARRAYS = "a file of NumPy arrays"
    ZIP = "a zip archive"
    BINARY = "a file that is neither text nor a model of a known kind"


#: What to do with a kind that a command or function does not take.
REMEDIES = {
    FileKind.ONNX: "glow-run, glow-opt and glow.compile take it",
    FileKind.TEXT: "glow-run, glow-opt and glow.compile take IR (.mlir)",
    FileKind.GLOW: "glow-run and glow.load_program take it",
    FileKind.TORCH_EXPORT: "glow-run, glow-opt and glow.compile take it",
    FileKind.TORCH: "export the module: torch.export.save(torch.export.export(module, inputs), 'model.pt2')",
    FileKind.GGUF: "glow-generate, glow-serve and glow.LanguageModel take it",
    FileKind.LANGUAGE_FOLDER: "glow-generate, glow-serve and glow.LanguageModel take it",
    FileKind.FOLDER: "name the model file in it",
    FileKind.ORT: "give the .onnx file that it was made of",
    FileKind.TFLITE: "convert it to ONNX, by tf2onnx for example",
    FileKind.HDF5: "convert it to ONNX, by tf2onnx for example",
    FileKind.SAFETENSORS: "give the model of these weights: a .mlir file, or a folder with config.json",
    FileKind.ARRAYS: "--input and --inputs take it",
    FileKind.ZIP: "unpack it first",
    FileKind.BINARY: "check that it is the right file, and whole",
}

#: Kinds by the bytes that a file has at a place.
_MARKS = (
    (0, b"GGUF", FileKind.GGUF),
    (4, b"ORTM", FileKind.ORT),
    (4, b"TFL3", FileKind.TFLITE),
    (0, b"\x89HDF\r\n", FileKind.HDF5),
    (0, b"\x93NUMPY", FileKind.ARRAYS),
    (0, b"\x80\x02\x8a", FileKind.TORCH),
)
_BY_NAME = {
    ".onnx": FileKind.ONNX,
    ".pt2": FileKind.TORCH_EXPORT,
    ".glow": FileKind.GLOW,
    ".gguf": FileKind.GGUF,
    **dict.fromkeys((".pt", ".pth", ".ckpt"), FileKind.TORCH),
}
"""Kinds of names, for what cannot be told by content: files that are missing, empty or damaged."""


def kind_of_file(path: str | Path) -> FileKind:
    """The kind of a file or folder; by its name where its bytes do not tell."""
    place = Path(path)
    try:
        status = place.stat()
        known = (str(place.absolute()), status.st_mtime_ns, status.st_size, status.st_ino)
    except (OSError, ValueError):
        return _kind_of(place)
    if place.is_dir():  # what lies in it changes without it
        return _kind_of(place)
    if known not in _KINDS:
        if len(_KINDS) >= _MOST_KINDS:
            _KINDS.clear()
        _KINDS[known] = _kind_of(place)
    return _KINDS[known]


#: Kinds of files by path and state: who compiles a model asks several times.
_KINDS: dict[tuple[str, int, int, int], FileKind] = {}
_MOST_KINDS = 64


def _kind_of(place: Path) -> FileKind:
    named = _BY_NAME.get(place.suffix)
    if place.is_dir():
        return FileKind.LANGUAGE_FOLDER if (place / "config.json").is_file() else FileKind.FOLDER
    if not place.is_file():  # a pipe can be read once only
        return named or FileKind.TEXT
    try:
        with open(place, "rb") as file:
            head = file.read(512)
    except OSError:
        return named or FileKind.TEXT
    return _by_content(place, head) or named or (FileKind.TEXT if _is_text(head) else FileKind.BINARY)


def _by_content(path: Path, head: bytes) -> FileKind | None:
    """The kind that the first bytes tell."""
    for place, mark, kind in _MARKS:
        if head[place : place + len(mark)] == mark:
            return kind
    if head.startswith(b"PK\x03\x04"):
        return _of_archive(path)
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") <= os.path.getsize(path):
        return FileKind.SAFETENSORS
    # A ModelProto begins with its version, a small number, and goes on with another of its fields.
    known_field = len(head) > 2 and head[2] & 7 in (0, 2) and 2 <= head[2] >> 3 < 9
    if known_field and head[0] == 8 and head[1] < 32:
        return FileKind.ONNX
    return None


def _of_archive(path: Path) -> FileKind | None:
    """The kind of a zip archive, by the names in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    if any(n.endswith(("serialized_exported_program.json", "models/model.json")) for n in names):
        return FileKind.TORCH_EXPORT
    if names[:1] == ["manifest.json"]:
        return FileKind.GLOW
    if any(n.endswith("data.pkl") for n in names):
        return FileKind.TORCH
    return FileKind.ARRAYS if names and all(n.endswith(".npy") for n in names) else None


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # a letter that goes on behind what was read
    return b"\0" not in head


#: How the first line of IR begins: a module, a result, an operation of a dialect, an alias, or resources.
_IR = re.compile(r'module\b|%[\w.]|"?[A-Za-z_]\w*\.[\w.]+"?(?:[\s(@{]|$)|[#!][\w.]+\s*=|\{-#')


def check_text(path: Path, text: str) -> None:
    """UnsupportedError for a text that is no IR, where the file's name does not say that it should be."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("//")), "module")
    if path.suffix != ".mlir" and not _IR.match(first):
        raise UnsupportedError(
            f"{path}: not a model, but text; models are .onnx, .mlir, .pt2, .glow and .gguf files, StableHLO "
            "text, and folders with config.json"
        )


def is_kind(model: object, *kinds: FileKind) -> bool:
    """Whether a model is the path of a file of one of some kinds."""
    return isinstance(model, str | Path) and kind_of_file(model) in kinds


def refuse_file(path: str | Path, wanted: str) -> UnsupportedError:
    """The error for a file that is nothing of what is `wanted`: it says what it is, and what to do."""
    kind = kind_of_file(path)
    return UnsupportedError(f"{path}: expected {wanted}, found {kind.value}; {REMEDIES[kind]}")
