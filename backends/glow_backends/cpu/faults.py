"""Out-of-range indices in kernels: reporting and the resulting error.

Each call that checks its indices has a pair of i64 in the program's table of faults: the size of the axis,
which is not 0 where an index lies outside, and the index. Several workers may report at a time; a pair is
stored as one vector, so that it stays together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_backends.cpu.memory import address, aligned_array

FAULT_BYTES = 16
"""Bytes of a pair."""
FAULT_SLOT = 2
"""The table's place in the program's table of pointers, behind the placeholders."""


class Faults:
    """The table of faults of a program whose checking calls have these names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._pairs = aligned_array((len(names), 2), np.dtype(np.int64))
        self._pairs[...] = 0
        #: The pairs as they are now and as they are without faults: bytes compare fastest.
        self._now: object = self._pairs.reshape(-1).data.cast("B") if names else b""
        self._clean: object = self._pairs.tobytes()
        self.address = address(self._pairs)

    def check(self) -> None:
        """Raise a GlowError for the first call that found an index out of range, and forget all."""
        if self._now != self._clean:
            from glow_dialects.ops.indexing import out_of_range

            pairs = self._pairs.tolist()
            self._pairs[...] = 0
            number = next(i for i, (limit, _) in enumerate(pairs) if limit)
            limit, index = pairs[number]
            raise out_of_range(self._names[number], index, limit)
