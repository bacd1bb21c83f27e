"""Windows of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations (one entry a spatial axis) and pads (begins, then ends)."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    #: Further end padding of each axis so that ceil_mode's last window exists; it is never counted.
    extra: tuple[int, ...]

    @property
    def spatial(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    def padded(self) -> tuple[int, ...]:
        """Pads with the extra end padding added."""
        ends = (p + e for p, e in zip(self.pads[self.spatial :], self.extra, strict=True))
        return self.pads[: self.spatial] + tuple(ends)

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
