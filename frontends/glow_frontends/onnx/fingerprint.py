"""A digest of everything that a model's program depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data


def content_digest(model: onnx.ModelProto, path: Path | None) -> str:
    """Digest of a model; `path` is the file that it was read from, if it was.

    External data counts by its files' size and time of change.
    """
    if path is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    else:
        digest = hashlib.sha256(model.SerializeToString())
    folder = Path() if path is None else path.parent
    for location in sorted(_external_files(model)):
        data = folder / location
        if data.is_file():
            found = data.stat()
            digest.update(f"{data.resolve()} {found.st_size} {found.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def fingerprint(content: str, shapes: Mapping[str, Sequence[int]], values: Mapping[str, np.ndarray]) -> str:
    """Digest of a model's content, the shapes of its inputs and the inputs known at compile time."""
    digest = hashlib.sha256(content.encode())
    for name in sorted(shapes):
        digest.update(f"{name} {tuple(shapes[name])}\0".encode())
    for name in sorted(values):
        array = values[name]
        digest.update(f"{name} {array.dtype} {array.shape}\0".encode() + array.tobytes())
    return digest.hexdigest()


def _external_files(model: onnx.ModelProto) -> set[str]:
    return {
        entry.value
        for tensor in model.graph.initializer
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
