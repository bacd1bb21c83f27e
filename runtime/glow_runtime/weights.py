"""Weight files: the constants of a .mlir file in safetensors format, mapped when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.attributes import Resource, ResourceAttr
from glow_dialects.core.element_types import by, is_standard
from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import WEIGHTS, whole
from glow_dialects.core.mapped_files import file_bytes
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of
from glow_dialects.ops.module import ConstantOp, PlaceholderOp

SUFFIX = WEIGHTS
DIGEST = "glow.digest"
"""The text of a weights file that tells its contents."""


#: Dtypes that the file format knows; others (bfloat16, int4, ...) are stored as bytes.
def _is_plain(dtype: np.dtype) -> bool:
    """Whether the file has elements of a type as such, and does not get their bytes."""
    return is_standard(dtype) and dtype.kind in "biuf"


def resources(module: ModuleOp) -> list[tuple[Resource, ConstantOp | PlaceholderOp]]:
    """The blocks of weights that the module refers to, each with what it is the value of."""
    resources_of: list[tuple[Resource, ConstantOp | PlaceholderOp]] = []
    for op in module.body.block.ops:
        if not isinstance(op, ConstantOp | PlaceholderOp):
            continue
        value = op.value if isinstance(op, ConstantOp) else op.init
        if isinstance(value, ResourceAttr):
            resources_of.append((value.data, op))
    return resources_of


def write(module: ModuleOp, path: Path) -> int:
    """Write every loaded weight to `path`, an existing file being overwritten; returns how many."""
    arrays: dict[str, Array] = {}
    for resource, op in resources(module):
        if resource.array is None:
            raise GlowError(f"@{op.sym_name.data} has no values: its weights file was not found")
        plain = np.asarray(resource.array, order="C")
        plain = plain if _is_plain(plain.dtype) else plain.reshape(-1).view(np.uint8)
        assert arrays.setdefault(resource.name, plain) is plain, f"two weights {resource.name}"
    save_arrays(arrays, path)
    return len(arrays)


def save_arrays(arrays: dict[str, Array], path: Path, facts: dict[str, str] | None = None) -> None:
    """Write arrays, and texts beside them, in safetensors; OSError where the file cannot be written.

    A digest of all stands beside them, so that damage is noticed.
    """
    texts = facts or {}
    try:
        save_file(arrays, str(path), {**texts, DIGEST: _digest(arrays, texts)})
    except SafetensorError as error:
        raise OSError(str(error)) from None


def check_digest(arrays: Mapping[str, Array], facts: Mapping[str, str]) -> None:
    """ValueError where arrays and texts are not those that were written; files of others have no digest."""
    if DIGEST in facts and facts[DIGEST] != _digest(arrays, {n: t for n, t in facts.items() if n != DIGEST}):
        raise ValueError("it was damaged after it was written")


def _digest(arrays: Mapping[str, Array], facts: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name} {array.dtype} {array.shape}\0".encode())
        digest.update(memoryview(cast(Any, np.ascontiguousarray(array).reshape(-1).view(np.uint8))))
    return digest.hexdigest()


def attach(module: ModuleOp, path: Path) -> None:
    """Give the module's weights their arrays, mapped; GlowError where the file does not fit the module."""
    try:
        arrays = mapped(path)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise GlowError(f"{path}: not a weights file: {error}") from None
    for resource, op in resources(module):
        name = resource.name
        if name not in arrays:
            raise GlowError(f"{path}: no weights for @{name}")
        array = arrays[name]
        dtype, shape = dtype_of(op.type), shape_of(op.type)
        packed = array.dtype == np.uint8 and not _is_plain(dtype)
        if packed and array.size == bytes_of(op.type):
            array = array.reshape(-1).view(dtype).reshape(shape)
        if array.shape != shape or array.dtype != dtype:
            raise GlowError(f"{path}: @{name} is {array.dtype}{array.shape}, the program needs {op.type}")
        resource.array = array


class WeightWriter:
    """Writes the weights of modules beside their text; equal ones of several files are one on the disk."""

    def __init__(self) -> None:
        self.last: tuple[dict[str, Array], Path] | None = None

    def __call__(self, module: ModuleOp) -> Callable[[Path], None]:
        """What writes the weights of a module as it is now beside a program; missing values are left out."""
        arrays = {r.name: r.array for r, _ in resources(module) if r.array is not None}
        return lambda program: self._write(arrays, program.with_suffix(SUFFIX))

    def _write(self, arrays: dict[str, Array], file: Path) -> None:
        if not arrays:
            return
        known, before = self.last or ({}, file)
        same = known.keys() == arrays.keys() and all(known[n] is a for n, a in arrays.items())
        if same and before != file and before.exists():
            file.unlink(missing_ok=True)
            try:
                file.hardlink_to(before)
                return
            except OSError:  # another file system, or one without links
                pass
        plain = {n: np.asarray(a, order="C") for n, a in arrays.items()}
        plain = {n: a if _is_plain(a.dtype) else a.reshape(-1).view(np.uint8) for n, a in plain.items()}
        with whole(file) as temporary:
            save_arrays(plain, temporary)
        self.last = (arrays, file)


def attach_weights(module: ModuleOp, program: Path) -> None:
    """Attach the weights file beside a `.mlir` file, if there is one."""
    weights = program.with_suffix(SUFFIX)
    if weights.is_file():
        attach(module, weights)


def mapped(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, read when they are looked at.

    The file: the length of the header (8 bytes), the header as JSON (name -> dtype, shape, first and
    last offset behind the header), the data. ValueError, KeyError, TypeError, OverflowError or
    RecursionError where it is no such file.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size
        if not 2 <= length <= size - 8:
            raise ValueError("its header is truncated")
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is not an object of JSON")
    data = file_bytes(path)
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + int(at) for at in entry["data_offsets"])
        dtype, shape = by("safetensors")[entry["dtype"]].dtype, tuple(int(d) for d in entry["shape"])
        if not 8 + length <= begin <= end <= size or end - begin != dtype.itemsize * prod(shape):
            raise ValueError(f"the position of {name} is wrong")
        part = data[begin:end]
        if begin % dtype.itemsize:
            part = part.copy()  # only whole multiples can be seen as such elements
        arrays[name] = part.view(np.ndarray).view(dtype).reshape(shape)
    check_digest(arrays, dict(header.get("__metadata__") or {}))
    return arrays
