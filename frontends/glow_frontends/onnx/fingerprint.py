"""A digest of everything that a model's program depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data


def fingerprint(
    model: onnx.ModelProto,
    folder: Path | None,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, np.ndarray],
) -> str:
    """Digest of a model, the shapes bound to its inputs and the inputs known at compile time.

    External data counts by its files' size and time of change; `folder` is where they lie.
    """
    digest = hashlib.sha256(model.SerializeToString())
    for location in sorted(_external_files(model)):
        path = (folder or Path()) / location
        if path.is_file():
            found = path.stat()
            digest.update(f"{path.resolve()} {found.st_size} {found.st_mtime_ns}\0".encode())
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
