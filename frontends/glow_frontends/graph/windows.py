"""Windows of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from glow_dialects.ops.pad import PadOp
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.values import Value


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations (one entry a spatial axis) and pads (begins, then ends)."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    #: Further end padding of each axis so that ceil_mode's last window exists; it is never counted.
    extra: tuple[int, ...] = ()

    @property
    def spatial(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    def padded(self) -> tuple[int, ...]:
        """Pads with the extra end padding added."""
        if not self.extra:
            return self.pads
        ends = (p + e for p, e in zip(self.pads[self.spatial :], self.extra, strict=True))
        return self.pads[: self.spatial] + tuple(ends)

    def options(self) -> dict[str, Any]:
        """The properties of a pool."""
        return {
            "kernel": self.kernel,
            "strides": self.strides,
            "pads": self.padded(),
            "dilations": self.dilations,
        }

    def ceiled(self, sizes: Sequence[int]) -> Window:
        """The window in ceil_mode over axes of these sizes."""
        return replace(self, extra=ceil_padding(sizes, self))

    @property
    def span(self) -> tuple[int, ...]:
        """Extent of the dilated kernel."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def ceil_padding(sizes: Sequence[int], window: Window) -> tuple[int, ...]:
    """End padding that ceil_mode adds; a last window that starts in the end padding is dropped."""
    out: list[int] = []
    for axis, size in enumerate(sizes):
        stride, span = window.strides[axis], window.span[axis]
        begin, end = window.pads[axis], window.pads[axis + window.spatial]
        count = -(-(size + begin + end - span) // stride) + 1
        if (count - 1) * stride >= size + begin:
            count -= 1
        out.append(max(0, (count - 1) * stride + span - (size + begin + end)))
    return tuple(out)


def zeros_around(g: Emitter, x: Value, pads: Sequence[int]) -> Value:
    """x [N, C, ...] with zeros at the begins and ends of its spatial axes."""
    half = len(pads) // 2
    return g(PadOp, x, pads=(0, 0, *pads[:half], 0, 0, *pads[half:]), mode="constant", value=0.0)
