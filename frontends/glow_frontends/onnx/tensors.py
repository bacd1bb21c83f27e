"""ONNX tensors as NumPy arrays: mapped or viewed where possible, checked against their claimed size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from glow_dialects.core.element_types import by
from glow_dialects.core.errors import GlowError
from glow_dialects.core.mapped_files import file_bytes
from glow_dialects.core.types import Array
from glow_frontends.graph.values import MAX_ELEMENTS

#: Element types stored several to a byte: their bits.
PACKED = {number: t.bits for number, t in by("onnx").items() if 1 < t.bits < 8}


def numpy_type(element: int) -> np.dtype:
    """The NumPy dtype of an ONNX element type (`object` for strings)."""
    if element == TensorProto.STRING:
        return np.dtype(object)
    if element not in by("onnx"):
        raise GlowError(f"unknown element type {element}")
    return by("onnx")[element].dtype


def onnx_type(dtype: np.dtype) -> int:
    """The ONNX element type of a NumPy dtype."""
    if dtype == object:
        return int(TensorProto.STRING)
    number = by("name")[dtype.name].onnx
    assert number is not None
    return number


def to_array(tensor: TensorProto, folder: Path | None = None) -> Array:
    """The contents of a tensor; a GlowError where the data do not fit the claimed shape.

    Raw data are viewed and external data (below `folder`) mapped, never copied.
    """
    dims = [int(d) for d in tensor.dims]
    count = 1
    for dim in dims:
        if dim < 0:
            raise GlowError(f"tensor '{tensor.name}': negative dimension {dim}")
        count *= dim
    if count > MAX_ELEMENTS:
        raise GlowError(f"tensor '{tensor.name}': {count} elements are too many")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, dims, count, folder)
    dtype = numpy_type(tensor.data_type)
    if tensor.data_type in PACKED or dtype == object:
        return _decoded(tensor, dims, count)
    if tensor.HasField("raw_data"):
        data = tensor.raw_data
        if len(data) != count * dtype.itemsize:
            raise GlowError(f"tensor '{tensor.name}': {len(data)} bytes for {count} elements of {dtype.name}")
        return np.frombuffer(data, dtype=dtype).reshape(dims)
    return _decoded(tensor, dims, count)


def _decoded(tensor: TensorProto, dims: Sequence[int], count: int) -> Array:
    fields = (
        "raw_data",
        "float_data",
        "int32_data",
        "string_data",
        "int64_data",
        "double_data",
        "uint64_data",
    )
    present = sum(len(getattr(tensor, f)) for f in fields)
    if count > 8 * present:
        raise GlowError(f"tensor '{tensor.name}': {present} values for {count} elements")
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError, KeyError, onnx.checker.ValidationError) as error:
        raise GlowError(f"tensor '{tensor.name}': {error}") from None
    if array.dtype == object:
        array = np.array([_text(v) for v in array.reshape(-1)], dtype=object)
    if array.size != count:
        raise GlowError(f"tensor '{tensor.name}': {array.size} values for {count} elements")
    return array.reshape(dims)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def real_file(path: Path) -> Path | None:
    """Where a path leads to; None for names that no file can have and links in a circle."""
    try:
        path.stat()
        return path.resolve()
    except FileNotFoundError:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _external(tensor: TensorProto, dims: Sequence[int], count: int, folder: Path | None) -> Array:
    entries = {e.key: e.value for e in tensor.external_data}
    where = f"tensor '{tensor.name}': external data"
    if folder is None:
        raise GlowError(f"{where} need the model's path; give the file name instead of the model")
    location, root = entries.get("location", ""), folder.resolve()
    path = real_file(root / location)
    if path is not None and not path.is_relative_to(root):
        raise GlowError(f"{where} '{location[:200]}' lie outside the model's folder")
    if path is None or not path.is_file():
        raise GlowError(f"{where} '{location[:200]}' are missing")
    dtype = numpy_type(tensor.data_type)
    bits = PACKED.get(tensor.data_type)
    size = (count * bits + 7) // 8 if bits else count * dtype.itemsize
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(size)))
    except ValueError:
        raise GlowError(f"{where} have a malformed offset or length") from None
    if length != size or offset < 0 or offset + size > path.stat().st_size:
        raise GlowError(f"{where}: {size} bytes at {offset} are not in '{path.name}'")
    if bits:
        twin = TensorProto(data_type=tensor.data_type, dims=dims, name=tensor.name)
        twin.raw_data = bytes(file_bytes(path, offset, size))
        return _decoded(twin, dims, count)
    if count == 0:
        return np.zeros(dims, dtype)
    return file_bytes(path, offset, size).view(dtype).reshape(dims)


def from_sparse(sparse: onnx.SparseTensorProto, folder: Path | None = None) -> Array:
    """A sparse tensor, made dense."""
    values, indices = to_array(sparse.values, folder), to_array(sparse.indices, folder)
    dims = tuple(int(d) for d in sparse.dims)
    count = prod(dims)
    if count > MAX_ELEMENTS >> 6 or any(d < 0 for d in dims):
        raise GlowError(f"sparse tensor '{sparse.values.name}': {count} elements are too many")
    dense = np.zeros(dims, values.dtype)
    try:
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
    except IndexError as error:
        raise GlowError(f"sparse tensor '{sparse.values.name}': {error}") from None
    return dense
