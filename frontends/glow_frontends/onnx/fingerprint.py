"""A digest of everything that a model says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
from onnx.external_data_helper import uses_external_data

from glow_frontends.onnx.tensors import real_file


def content_digest(model: onnx.ModelProto, path: Path | None, of_file: str | None = None) -> str:
    """Digest of a model; `path` is the file that it was read from, if it was.

    External data counts by its files' size and time of change. `of_file` is the sha256 of the file, where
    that is known.
    """
    if path is None:
        of_file = hashlib.sha256(model.SerializeToString()).hexdigest()
    elif of_file is None:
        with path.open("rb") as file:
            of_file = hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256(of_file.encode())
    folder = Path() if path is None else path.parent
    for location in sorted(external_files(model) - {path.name if path is not None else ""}):
        data = real_file(folder / location)
        if data is not None and data.is_file():
            status = data.stat()
            digest.update(f"{data} {status.st_size} {status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def external_files(model: onnx.ModelProto) -> set[str]:
    """Names of the files that hold weights of the model."""
    return {
        entry.value
        for tensor in model.graph.initializer
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
