"""ONNX files whose weights stay where they are: large initializers become external data in the file itself.

Protobuf copies whatever it parses, and Python copies it again. So the outer levels of the file are
read by hand: the raw data of large initializers are left out, and the tensors say where they lie.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from onnx import ModelProto

from glow_dialects.core.errors import GlowError
from glow_frontends.onnx.model import load, parse

LARGE = 1 << 16
"""Bytes of raw data from which on an initializer is mapped."""

_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}


def load_mapped(path: Path) -> ModelProto:
    """Read an ONNX file as `load` does, the raw data of large initializers as data external to the proto.

    They lie in the file itself, which must stay as it is while the model is used.
    """
    if path.is_symlink():  # external data do not leave the model's folder
        return load(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(_without_weights(data, path.name), str(path))
    except (OSError, ValueError, _Malformed, GlowError):
        return load(path)  # which says what is wrong


class _Malformed(Exception):
    """Bytes that are no message."""


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, kind, first byte, first byte of the content, end) of each field of a message."""
    at = start
    while at < end:
        tag, content = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, after = _varint(data, content, end)
        elif kind == _BYTES:
            size, content = _varint(data, content, end)
            after = content + size
        elif kind in _FIXED:
            after = content + _FIXED[kind]
        else:
            raise _Malformed
        if after > end:
            raise _Malformed
        yield number, kind, at, content, after
        at = after


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _Malformed


def _encoded(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _without_weights(data: mmap.mmap, name: str) -> bytes:
    parts: list[bytes] = []
    for number, kind, start, content, end in _fields(data, 0, len(data)):
        if (number, kind) == (_GRAPH, _BYTES):
            parts.append(_message(_GRAPH, b"".join(_graph(data, content, end, name))))
        else:
            parts.append(data[start:end])
    return b"".join(parts)


def _graph(data: mmap.mmap, start: int, end: int, name: str) -> Iterator[bytes]:
    for number, kind, first, content, after in _fields(data, start, end):
        if (number, kind) == (_INITIALIZER, _BYTES) and after - content >= LARGE:
            yield _message(_INITIALIZER, _tensor(data, content, after, name))
        else:
            yield data[first:after]


def _tensor(data: mmap.mmap, start: int, end: int, name: str) -> bytes:
    """A tensor without its raw data; as it is where they are few, or elsewhere already."""
    fields = list(_fields(data, start, end))
    raw = [f for f in fields if f[0] == _RAW_DATA and f[1] == _BYTES]
    if len(raw) != 1 or raw[0][4] - raw[0][3] < LARGE or any(f[0] == _DATA_LOCATION for f in fields):
        return data[start:end]
    _, _, _, content, after = raw[0]
    kept = b"".join(data[f[2] : f[4]] for f in fields if f is not raw[0])
    where = {"location": name, "offset": str(content), "length": str(after - content)}
    entries = (_message(1, key.encode()) + _message(2, text.encode()) for key, text in where.items())
    external = b"".join(_message(_EXTERNAL_DATA, entry) for entry in entries)
    return kept + external + _encoded(_DATA_LOCATION << 3 | _VARINT) + b"\x01"
