"""Unpacked weights with separate scales: 8-bit floats and ints, NF4 and FP4."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import E4M3, pack
from glow_frontends.language.blocks import Blocks

SCALES = ("weight_scale_inv", "weight_scale", "SCB")
"""What the scales of a matrix are called. They multiply, the inverted ones, too; SCB are those of 127."""
KINDS = ("int8", "float8_e4m3fn")
"""The types of elements of 8 bits that are known."""
TABLES = (
    *("absmax", "quant_map", "nested_absmax", "nested_quant_map"),
    *("bitsandbytes__nf4", "bitsandbytes__fp4"),
)
"""What is beside the codes of NF4 and FP4, by the ends of the names."""
_BLOCKS = {"int8": (32,), "float8_e4m3fn": (128, 64, 32)}
"""Places of a block where a whole row shares a scale: what meets ints is rounded block by block."""
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""Floats of 4 bits, of which the first is the sign."""

Tensors = Mapping[str, Callable[[], Array]]


@dataclass(frozen=True)
class Scaled:
    """A matrix of floats (e4m3) or ints of 8 bits.

    `sides`: outputs and inputs that have a scale in common, where the settings say it.
    """

    tensors: Tensors
    base: str
    place: str
    sides: tuple[int, int] | None

    def __call__(self) -> Blocks:
        """The matrix; GlowError where its parts do not fit."""
        weight = self.tensors[f"{self.base}.weight"]()
        if weight.ndim != 2 or str(weight.dtype) not in KINDS:
            raise GlowError(
                f"{self.place}: '{self.base}.weight' is {weight.dtype} {list(weight.shape)} with scales; "
                f"matrices of {' and '.join(KINDS)} are known"
            )
        outputs, inputs = weight.shape
        block = next((b for b in _BLOCKS[str(weight.dtype)] if inputs % b == 0), inputs)
        scales = self._numbers(next(s for s in SCALES if f"{self.base}.{s}" in self.tensors))
        if f"{self.base}.SCB" in self.tensors:
            scales = scales / np.float32(127)
        grid = self._grid(scales, outputs, inputs)
        if grid.shape[1] > 1:
            block = -(-inputs // grid.shape[1]) if self.sides is None else self.sides[1]
        scales = _wide(grid, block, inputs)
        codes = np.ascontiguousarray(weight).view(np.uint8)
        if weight.dtype != np.int8:
            if ((codes & 0x7F) == 0x7F).any():
                raise GlowError(f"{self.place}: '{self.base}.weight' contains NaN")
            return Blocks(codes, scales, 8, block, inputs, levels=E4M3)
        codes = codes ^ np.uint8(128)
        if f"{self.base}.weight_zero_point" not in self.tensors:
            return Blocks(codes, scales, 8, block, inputs, 128.0)
        zeros = self._grid(self._numbers("weight_zero_point"), outputs, inputs)
        return Blocks(codes, scales, 8, block, inputs, 0.0, _wide(zeros + np.float32(128), block, inputs))

    def _numbers(self, ending: str) -> Array:
        return np.asarray(self.tensors[f"{self.base}.{ending}"](), np.float32)

    def _grid(self, numbers: Array, outputs: int, inputs: int) -> Array:
        """Numbers of the matrix, of its rows or of rectangles of it as [outputs, 1 or more]."""
        rows, columns = (*numbers.shape, 1, 1)[:2] if numbers.ndim < 3 else (0, 0)
        high, wide = -(-outputs // max(rows, 1)), -(-inputs // max(columns, 1))
        if self.sides is not None and columns > 1:
            high, wide = self.sides
        if min(high, wide) < 1 or (rows, columns) != (-(-outputs // high), -(-inputs // wide)):
            raise GlowError(
                f"{self.place}: '{self.base}': scales {list(numbers.shape)} do not fit the weights "
                f"{[outputs, inputs]}"
            )
        return np.repeat(numbers.reshape(rows, columns), high, 0)[:outputs]


def _wide(grid: Array, block: int, inputs: int) -> Array:
    """[outputs, blocks], where a row had one number."""
    count = -(-inputs // block) if grid.shape[1] == 1 else 1
    return np.ascontiguousarray(np.repeat(grid, count, 1))


@dataclass(frozen=True)
class FourBits:
    """A matrix of bitsandbytes: codes two in a byte, a table of what they stand for, a scale a block.

    The scales may be codes themselves, with a table, scales and a mean of their own ("double quantization").
    """

    tensors: Tensors
    base: str
    place: str
    kind: str

    def __call__(self) -> Blocks | Array:
        """The matrix, as floats where blocks go over the ends of rows; GlowError where parts do not fit."""
        state = f"quant_state.bitsandbytes__{self.kind}"
        try:
            form: dict[str, Any] = json.loads(bytes(self._part(state)))
            (outputs, inputs), block = form["shape"], int(form["blocksize"])
        except (ValueError, KeyError, TypeError):
            raise GlowError(f"{self.place}: '{self.base}.weight.{state}' cannot be read") from None
        stored, scales = self.tensors[f"{self.base}.weight"]().reshape(-1), self._part("absmax")
        levels = self._part("quant_map").astype(np.float32)
        if "nested_blocksize" in form:
            own, number = self._part("nested_absmax"), int(form["nested_blocksize"])
            spread = np.repeat(own, number)[: scales.size]
            scales = self._part("nested_quant_map")[scales] * spread + np.float32(form["nested_offset"])
        codes = np.stack([stored >> 4, stored & 15], 1).reshape(-1)
        count = outputs * inputs
        if levels.shape != (16,) or codes.size != count or scales.shape != (-(-count // block),):
            raise GlowError(
                f"{self.place}: '{self.base}.weight': {codes.size} codes, {scales.size} scales and "
                f"{levels.size} levels do not fit {[outputs, inputs]} in blocks of {block}"
            )
        scales = np.asarray(scales, np.float32)
        if inputs % block:
            return (levels[codes] * np.repeat(scales, block)[:count]).reshape(outputs, inputs)
        packed = pack(codes.reshape(outputs, inputs), 4)
        table = tuple(map(float, levels))
        return Blocks(packed, scales.reshape(outputs, -1), 4, block, inputs, levels=table)

    def _part(self, ending: str) -> Array:
        name = f"{self.base}.weight.{ending}"
        if name not in self.tensors:
            raise GlowError(f"{self.place}: the weights have no '{name}'")
        return np.asarray(self.tensors[name]())


@dataclass(frozen=True)
class Mxfp4:
    """The matrices of experts as gpt-oss has them, in the format MXFP4 of the Open Compute Project.

    `base`_blocks are bytes [experts, outputs, blocks, 16], two floats of 4 bits in each, `base`_scales bytes
    [experts, outputs, blocks]: powers of 2, 127 for 1.
    """

    tensors: Tensors
    base: str
    place: str

    def __call__(self) -> Blocks:
        """The matrices; GlowError where their parts do not fit."""
        codes, scales = (self._part(ending) for ending in ("_blocks", "_scales"))
        if codes.ndim != 4 or codes.shape[3] != 16 or scales.shape != codes.shape[:3]:
            raise GlowError(
                f"{self.place}: '{self.base}_blocks' {list(codes.shape)} and '{self.base}_scales' "
                f"{list(scales.shape)} do not fit; a block is 16 bytes with one scale"
            )
        if (scales == 255).any():
            raise GlowError(f"{self.place}: '{self.base}_scales' has invalid scales (255)")
        experts, outputs, blocks, _ = codes.shape
        numbers = np.ldexp(np.float32(1), scales.astype(np.int32) - 127)
        codes = codes.reshape(experts, outputs, blocks * 16)
        return Blocks(codes, numbers, 4, 32, blocks * 32, levels=_E2M1)

    def _part(self, ending: str) -> Array:
        stored = self.tensors.get(f"{self.base}{ending}")
        part = None if stored is None else stored()
        if part is None or part.dtype != np.uint8:
            kind = "missing" if part is None else part.dtype
            raise GlowError(f"{self.place}: '{self.base}{ending}' is {kind}, expected bytes")
        return part
