"""Weights of few bits in folders, as GPTQ and AWQ lay them out: the same codes, row by row, as blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import pack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import Weight
from glow_frontends.language.settings import float_like

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word of eight codes those of neighbouring outputs are."""

Loader = Callable[[], Weight]


def with_packed(
    tensors: Mapping[str, Callable[[], Array]], settings: Mapping[str, Any], place: str
) -> dict[str, Loader]:
    """A folder's tensors, with a `.weight` for each `.qweight`.

    `settings`: its `quantization_config`, `place` what messages name. UnsupportedError for other layouts.
    """
    found: dict[str, Loader] = dict(tensors)
    if not settings:
        return found
    method, bits = settings.get("quant_method"), settings.get("bits", 0)
    widths = {"gptq": (4, 8), "awq": (4,)}.get(str(method))
    if widths is None:
        raise UnsupportedError(
            f"{place}: weights quantised by '{method}' are not known; there are: awq, gptq"
        )
    if bits not in widths:
        raise UnsupportedError(
            f"{place}: weights of {bits!r} bits by {method}; there are: {str(widths)[1:-1]}"
        )
    if method == "awq" and settings.get("version", "gemm") != "gemm":
        raise UnsupportedError(f"{place}: AWQ's layout '{settings['version']}' is not known; gemm is")
    # The first form of GPTQ's files has points less one.
    more = 1 if method == "gptq" and settings.get("checkpoint_format", "gptq") == "gptq" else 0
    for name in tensors:
        if name.endswith(".qweight"):
            base = name.removesuffix(".qweight")
            found[f"{base}.weight"] = _Packed(tensors, base, bits, method == "awq", more, place)
    return found


@dataclass(frozen=True)
class _Packed:
    """A matrix of a folder, whose codes lie in words of 32 bits."""

    tensors: Mapping[str, Callable[[], Array]]
    base: str
    bits: int
    awq: bool
    more: int
    place: str

    def __call__(self) -> Blocks:
        """The matrix; GlowError where its parts do not fit."""
        words, points, scales = (self._part(n) for n in ("qweight", "qzeros", "scales"))
        codes = self._unpacked(words).T if self.awq else _unpacked(words.T, self.bits)
        rows = self._unpacked(points) if self.awq else _unpacked(points, self.bits)
        outputs, inputs = codes.shape
        groups, rows = len(scales), rows[:, :outputs]
        if scales.shape != (groups, outputs) or rows.shape != scales.shape or inputs % groups:
            raise GlowError(
                f"{self.place}: '{self.base}': codes {codes.shape[::-1]}, points {rows.shape} and scales "
                f"{scales.shape} do not fit together"
            )
        block = inputs // groups
        order = self._order(inputs, block)
        codes = codes if order is None else codes[:, order]
        shifts = (rows.astype(np.int32) + self.more).T.astype(np.float32)
        even = shifts.size and (shifts == shifts.flat[0]).all()
        return Blocks(
            pack(np.ascontiguousarray(codes), self.bits),
            np.ascontiguousarray(scales.T, np.float32),
            self.bits,
            block,
            inputs,
            float(shifts.flat[0]) if even else 0.0,
            None if even else np.ascontiguousarray(shifts),
            order,
        )

    def _part(self, ending: str) -> Array:
        name = f"{self.base}.{ending}"
        if name not in self.tensors:
            raise GlowError(f"{self.place}: the weights have no '{name}'")
        part = self.tensors[name]()
        if part.ndim != 2 or (ending != "scales") != (part.dtype == np.int32):
            raise GlowError(
                f"{self.place}: '{name}' is {part.dtype} {list(part.shape)}, no matrix of such parts"
            )
        return part

    def _unpacked(self, words: Array) -> Array:
        codes = _unpacked(words, self.bits)
        return codes.reshape(len(words), -1, 8)[:, :, list(_AWQ_ORDER)].reshape(codes.shape)

    def _order(self, inputs: int, block: int) -> Array | None:
        """The inputs group by group, where GPTQ took them in another order than they have."""
        index = self.tensors.get(f"{self.base}.g_idx")
        if index is None or self.awq:
            return None
        groups = np.asarray(index())
        if groups.shape != (inputs,) or not np.array_equal(np.sort(groups), np.arange(inputs) // block):
            raise GlowError(f"{self.place}: '{self.base}.g_idx' does not give each group {block} inputs")
        order = np.argsort(groups, kind="stable").astype(np.int32)
        return None if np.array_equal(order, np.arange(inputs)) else order


def _unpacked(words: Array, bits: int) -> Array:
    """The codes of words along the last axis, lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    wide = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts
    return (wide & np.uint32((1 << bits) - 1)).astype(np.uint8).reshape(*words.shape[:-1], -1)


def quantization_of(settings: Any, place: str) -> Mapping[str, Any]:
    """`quantization_config`, checked as far as it is read; GlowError where it is no table."""
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not float_like(settings.get("bits", 0)):
        raise GlowError(f"{place} is no table of settings with a number of bits")
    return settings
