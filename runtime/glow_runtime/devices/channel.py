"""Channel: messages between two processes, with tensors in memory that both map.

A message is a pickled object; its arrays lie in a block of shared memory, one for each direction, which the
sender replaces by a larger one where it must (its file descriptor travels with the message).
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

ALIGN = 64
_HEADER = struct.Struct("<QB")
#: What a first block has room for.
FIRST_BLOCK = 1 << 16


@dataclass(frozen=True)
class Placed:
    """An array of a message: where it lies in the sender's block."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


class Block:
    """Memory that processes share by its file descriptor; it has no name, and goes with the last of them."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self.memory = mmap.mmap(descriptor, size)

    @staticmethod
    def of(size: int) -> Block:
        """A new block."""
        descriptor = os.memfd_create("glow-tensors", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return Block(descriptor, size)

    def array(self, place: Placed) -> Array:
        """An array in it, without a copy."""
        return np.ndarray(place.shape, place.dtype, self.memory, place.offset)

    def close(self) -> None:
        """Let go of it; what is mapped stays mapped for as long as arrays see it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Channel:
    """One end of a connection. A thread sends, and a thread receives: one message at a time each way."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._mine: Block | None = None
        self._theirs: Block | None = None

    def send(self, message: Any, arrays: Mapping[str, Any] | None = None) -> None:
        """Send an object and arrays by name. Values that are no arrays of numbers travel as they are."""
        placed: dict[str, Any] = {}
        plain: list[tuple[Placed, Array]] = []
        size = 0
        for name, value in (arrays or {}).items():
            if isinstance(value, np.ndarray) and value.dtype != object:
                place = Placed(value.dtype, value.shape, size)
                size += -(-value.nbytes // ALIGN) * ALIGN
                plain.append((place, value))
                placed[name] = place
            else:
                placed[name] = value
        fresh = size > 0 and (self._mine is None or self._mine.size < size)
        if fresh:
            if self._mine is not None:
                self._mine.close()
            self._mine = Block.of(max(FIRST_BLOCK, 1 << (size - 1).bit_length()))
        for place, value in plain:
            assert self._mine is not None
            if value.size:
                np.copyto(self._mine.array(place), value)
        descriptors = [self._mine.descriptor] if fresh and self._mine is not None else []
        body = pickle.dumps((message, placed), pickle.HIGHEST_PROTOCOL)
        frame = _HEADER.pack(len(body), len(descriptors)) + body
        if descriptors:
            sent = socket.send_fds(self._connection, [frame], descriptors)
            if sent < len(frame):
                self._connection.sendall(frame[sent:])
        else:
            self._connection.sendall(frame)

    def receive(self) -> tuple[Any, dict[str, Any]]:
        """An object and arrays, which see the sender's block until its next message. EOFError at the end."""
        data, descriptors = self._some(1 << 16)
        while len(data) < _HEADER.size:
            more, others = self._some(1 << 16)
            data += more
            descriptors += others
        length, _ = _HEADER.unpack_from(data)
        body = bytearray(data[_HEADER.size :])
        while len(body) < length:
            more = self._connection.recv(min(length - len(body), 1 << 20))
            if not more:
                raise EOFError
            body += more
        if descriptors:
            if self._theirs is not None:
                self._theirs.close()
            self._theirs = Block(descriptors[0], os.fstat(descriptors[0]).st_size)
        message, placed = pickle.loads(body)
        arrays: dict[str, Any] = {}
        for name, value in placed.items():
            if isinstance(value, Placed):
                empty = self._theirs is None
                value = np.empty(value.shape, value.dtype) if empty else self._theirs.array(value)  # pyright: ignore
            arrays[name] = value
        return message, arrays

    def _some(self, size: int) -> tuple[bytes, list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self._connection, size, 1)
        if not data:
            raise EOFError
        return data, list(descriptors)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        for block in (self._mine, self._theirs):
            if block is not None:
                block.close()


def copied(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays that no later message changes."""
    return {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in arrays.items()}
