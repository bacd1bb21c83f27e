"""Packed constants of programs: stored in the block of the first program, and shared by later ones.

A model compiled for another shape has the same weights in the same order, mostly. They are found by their
content, so that nothing is packed, or held in memory, twice.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glow_backends.cpu.faults import FAULT_SLOT
from glow_backends.cpu.memory import WeightBlock, address
from glow_dialects.core.mapped_files import mapping_of

if TYPE_CHECKING:
    from glow_dialects.core.types import Array


@dataclass(frozen=True)
class Place:
    """Bytes from the start of a block: 0 is the program's own, n the n-th of those it shares."""

    block: int
    offset: int


def shared_slot(placeholders: int, number: int) -> int:
    """The place in a program's table of pointers of a shared block: behind the other entries."""
    return placeholders + FAULT_SLOT + 1 + number


class WeightPool:
    """Where constants are, by content. Blocks live as long as the programs that use them."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[weakref.ref[Array], int]] = {}

    def add(self, block: Array, places: Mapping[str, int]) -> None:
        """Make the constants of a block known, but for those that another block has."""
        held = weakref.ref(block)
        for content, offset in places.items():
            if self.find(content) is None:
                self._places[content] = held, offset

    def find(self, content: str) -> tuple[Array, int] | None:
        """The block that holds a constant and the offset in it; None where no program has it."""
        held, offset = self._places.get(content, (None, 0))
        block = None if held is None else held()
        return None if block is None else (block, offset)


class ProgramWeights:
    """The constants of a program that is being made, or of several that share a block."""

    def __init__(self, pool: WeightPool | None = None) -> None:
        self.pool = pool
        #: Blocks of earlier programs that this one refers to.
        self.shared: list[Array] = []
        #: The contents of its own block: content -> offset.
        self.places: dict[str, int] = {}
        self._own = WeightBlock()
        self._known: dict[str, Place] = {}

    def place(
        self, key: str, content: Callable[[], str], make: Callable[[], Array], normal: bool = False
    ) -> Place:
        """Where a constant is; `key` names it in this program, `content` wherever it is met.

        `normal`: zeros take the place of denormal numbers.
        """
        if key not in self._known:
            self._known[key] = self._placed(key, content, make, normal)
        return self._known[key]

    def _placed(self, key: str, content: Callable[[], str], make: Callable[[], Array], normal: bool) -> Place:
        if self.pool is None:
            return Place(0, self._own.place(key, make(), normal))
        digest = hashlib.sha256(content().encode()).hexdigest()[:32]
        place_in_pool = self.pool.find(digest)
        if place_in_pool is None:
            self.places[digest] = self._own.place(digest, make(), normal)
            return Place(0, self.places[digest])
        block, offset = place_in_pool
        number = next((i for i, b in enumerate(self.shared) if b is block), len(self.shared))
        if number == len(self.shared):
            self.shared.append(block)
        return Place(1 + number, offset)

    def begin(self) -> None:
        """Begin another program, which may call other constants by the same names."""
        self._known.clear()

    def values(self, array: Array) -> int:
        """Where in the program's own block these values are."""
        return self._own.place(f"values|{content_of(array)}", array)

    def build(self) -> Array:
        """The program's own block; nothing can be placed any more."""
        return self._own.build()


def content_of(array: Array) -> str:
    """A text that stands for the contents of an array: its place in a mapped file, or else a digest."""
    form = f"{array.dtype} {array.shape}"
    root = mapping_of(array)
    if root is not None and root.filename is not None:
        status = os.stat(root.filename)
        file = f"{root.filename} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
        return f"{form} {array.strides} {file} {root.offset + address(array) - address(root)}"
    plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"{form} {hashlib.sha256(memoryview(cast(Any, plain))).hexdigest()}"
