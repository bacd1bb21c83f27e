"""What programs are read from and run on: files, arrays that a run is bound to, memory of states, dtypes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from glow_backends.base import Program
    from glow_dialects.core.types import Array


class Bound:
    """A program bound to arrays of its own: write to `inputs`, call, read `outputs`.

    The arrays stay the same from call to call, so that a call costs as little as it can.
    """

    def __init__(
        self, program: Program, inputs: Mapping[str, Array], outputs: Mapping[str, Array] | None = None
    ) -> None:
        self.program = program
        self.inputs = {name: np.array(array) for name, array in inputs.items()}
        self.outputs = dict(outputs or {p.name: np.zeros(p.shape, p.dtype) for p in program.outputs})

    def __call__(self) -> dict[str, Array]:
        """Run on the present contents of `inputs`; returns `outputs`."""
        for name, array in self.program.run(self.inputs).items():
            np.copyto(self.outputs[name], array)
        return self.outputs


_STATE_ALIGN = 64
"""Bytes to whose multiples states are aligned, whatever runs on them."""


def zeros(shape: Sequence[int], dtype: np.dtype) -> Array:
    """Memory for a state that any backend's programs take."""
    size = prod(shape) * dtype.itemsize
    block = np.zeros(size + _STATE_ALIGN, np.uint8)
    start = -block.__array_interface__["data"][0] % _STATE_ALIGN
    return block[start : start + size].view(dtype).reshape(shape)


class ProgramFiles(ABC):
    """The files of a program that a backend wrote. OSError where one is missing or damaged."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The contents of a file."""

    @abstractmethod
    def block(self, name: str, stamp: Mapping[str, Any]) -> Array:
        """The bytes of a file, mapped; `stamp` is what the backend knows of it: its `bytes` and more."""
