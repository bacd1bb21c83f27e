"""Node: one call of an ATen operator as its rule sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glow_dialects.core.extent import Extent
from glow_frontends.graph import Emitter, RuleError, Value, cast_to
from glow_frontends.torch.tensors import numpy_dtype


class Decomposed(RuleError):
    """A rule leaves this form of its operator to PyTorch's decomposition of it."""


@dataclass
class Node:
    """A node of an exported graph: its operator, and what the export knows of operands and results.

    `metas` are the operands as the export had them, tensors without contents; `meta` is the result.
    """

    name: str
    op: str
    metas: Sequence[Any]
    meta: Any
    #: Which of several results are read; None where there is one.
    read: frozenset[int] | None = None

    def wants(self, index: int) -> bool:
        """Whether result `index` is read."""
        return self.read is None or index in self.read

    @property
    def label(self) -> str:
        """What errors of a run call it."""
        return f"{self.op} '{self.name}'"

    @cached_property
    def dtype(self) -> np.dtype:
        """The element type of the (first) result."""
        first = self.meta[0] if isinstance(self.meta, list | tuple) else self.meta
        return numpy_dtype(first.dtype)

    def dtype_of(self, index: int) -> np.dtype:
        """The element type of an operand."""
        return numpy_dtype(self.metas[index].dtype)

    def promoted(self, *indices: int) -> np.dtype:
        """The type that PyTorch computes in for some operands, tensors and numbers; all by default."""
        import torch  # pyright: ignore[reportMissingImports]

        chosen = [self.metas[i] for i in indices] or [m for m in self.metas if m is not None]
        kind: Any = chosen[0]
        if len(chosen) == 1:
            return numpy_dtype(kind.dtype)
        return numpy_dtype(torch.result_type(kind, chosen[1]))


def operand(g: Emitter, x: Any, dtype: np.dtype) -> Value:
    """A tensor, a number or a size as a value of an element type."""
    if isinstance(x, Extent):
        return g.size(x, dtype)
    if isinstance(x, bool | int | float):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(x).astype(dtype)
    if isinstance(x, complex):
        raise RuleError("complex numbers are not known here")
    return cast_to(g, x, dtype)


def number(g: Emitter, x: Any, what: str) -> float:
    """A number that must be known now."""
    if isinstance(x, bool | int | float):
        return x
    return g.scalar(x, what).item()
