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
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.element_types import dtype_named

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

ALIGN = 64
_HEADER = struct.Struct("<Q")
#: What a first block has room for.
FIRST_BLOCK = 1 << 16
#: Bytes that are read at once to begin with, and those that a file descriptor takes.
FIRST_BYTES, _CONTROL = 1 << 12, socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0


#: An array of a message: its dtype's name, its shape, and where it lies in the sender's block.
Place = tuple[str, tuple[int, ...], int]


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return dtype_named(name)


@cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isnative and dtype.kind not in "mMSU" else dtype.str


class Block:
    """Memory that processes share by its file descriptor; it has no name, and goes with the last of them."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self.memory = mmap.mmap(descriptor, size)

    @staticmethod
    def of(size: int) -> Block:
        """A new block."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("glow-tensors", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile(prefix="glow-tensors-") as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, size)
        return Block(descriptor, size)

    def array(self, place: Place) -> Array:
        """An array in it, without a copy."""
        name, shape, offset = place
        return np.ndarray(shape, _dtype(name), self.memory, offset)

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
        placed: dict[str, Place] = {}
        others: dict[str, Any] = {}
        size = 0
        arrays = arrays or {}
        for name, value in arrays.items():
            if isinstance(value, np.ndarray) and value.dtype != object:
                placed[name] = _name(value.dtype), value.shape, size
                size += -(-value.nbytes // ALIGN) * ALIGN
            else:
                others[name] = value
        fresh = size > 0 and (self._mine is None or self._mine.size < size)
        if fresh:
            if self._mine is not None:
                self._mine.close()
            self._mine = Block.of(max(FIRST_BLOCK, 1 << (size - 1).bit_length()))
        if size:
            assert self._mine is not None
            for name, place in placed.items():
                np.copyto(self._mine.array(place), arrays[name])
        body = pickle.dumps((message, placed, others), pickle.HIGHEST_PROTOCOL)
        frame = _HEADER.pack(len(body)) + body
        sent = 0
        if fresh and self._mine is not None:
            sent = socket.send_fds(self._connection, [frame], [self._mine.descriptor])
        if sent < len(frame):
            self._connection.sendall(frame[sent:] if sent else frame)

    def receive(self) -> tuple[Any, dict[str, Any]]:
        """An object and arrays, which see the sender's block until its next message. EOFError at the end."""
        data, control, _, _ = self._connection.recvmsg(FIRST_BYTES, _CONTROL)
        while data and len(data) < _HEADER.size:
            more, later, _, _ = self._connection.recvmsg(FIRST_BYTES, _CONTROL)
            data, control = data + more if more else b"", control or later
        if not data:
            raise EOFError
        (length,) = _HEADER.unpack_from(data)
        body = data[_HEADER.size :]
        while len(body) < length:
            more = self._connection.recv(min(length - len(body), 1 << 20))
            if not more:
                raise EOFError
            body += more
        if control:
            (descriptor,) = struct.unpack_from("i", control[0][2])
            if self._theirs is not None:
                self._theirs.close()
            self._theirs = Block(descriptor, os.fstat(descriptor).st_size)
        message, placed, arrays = pickle.loads(body)
        for name, place in placed.items():
            if self._theirs is None:
                arrays[name] = np.empty(place[1], _dtype(place[0]))  # all are empty
            else:
                arrays[name] = self._theirs.array(place)
        return message, arrays

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        for block in (self._mine, self._theirs):
            if block is not None:
                block.close()


def copied(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays that no later message changes."""
    return {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in arrays.items()}
