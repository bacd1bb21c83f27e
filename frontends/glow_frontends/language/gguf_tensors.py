"""Tensors of GGUF files: floats, and blocks of codes as they are, in the order of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from glow_dialects.core.element_types import by
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import pack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.gguf_file import GgufFile

Parts = tuple[Array, Array, Array | None]
"""Codes [blocks, elements], scales [blocks, sub-blocks], points of these if they differ."""


@dataclass(frozen=True)
class BlockKind:
    """A kind of blocks: elements and bytes of one, bits of a code, elements of a scale, the common point."""

    name: str
    elements: int
    size: int
    bits: int
    run: int
    point: float
    parts: Callable[[Array], Parts]


def _halves(x: Array, at: int) -> Array:
    """The f16 at a byte of each block, as f32 [blocks, 1]."""
    return np.ascontiguousarray(x[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(x: Array) -> Array:
    """The lower halves of bytes, then the upper ones."""
    return np.concatenate([x & 15, x >> 4], 1)


def _points(scales: Array, lows: Array) -> tuple[Array, Array]:
    """Scales and points for code scale + low; where a scale is 0 codes hardly count."""
    safe = np.where(scales == 0, np.float32(1e-20), scales)
    return safe, -lows / safe


def _fifth(x: Array) -> Array:
    """The fifth bits of 32 codes, in 4 bytes."""
    return np.unpackbits(np.ascontiguousarray(x), axis=1, bitorder="little") << 4


def _q4_0(x: Array) -> Parts:
    return _nibbles(x[:, 2:]), _halves(x, 0), None


def _q4_1(x: Array) -> Parts:
    return _nibbles(x[:, 4:]), *_points(_halves(x, 0), _halves(x, 2))


def _q5_0(x: Array) -> Parts:
    return _nibbles(x[:, 6:]) | _fifth(x[:, 2:6]), _halves(x, 0), None


def _q5_1(x: Array) -> Parts:
    return _nibbles(x[:, 8:]) | _fifth(x[:, 4:8]), *_points(_halves(x, 0), _halves(x, 2))


def _q8_0(x: Array) -> Parts:
    return x[:, 2:] ^ np.uint8(128), _halves(x, 0), None


def _sixes(x: Array) -> tuple[Array, Array]:
    """Scales and minima of eight runs, 6 bits each, in 12 bytes."""
    low, high, rest = x[:, :4], x[:, 4:8], x[:, 8:]
    scales = np.concatenate([low & 63, rest & 15 | (low >> 6) << 4], 1)
    minima = np.concatenate([high & 63, rest >> 4 | (high >> 6) << 4], 1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _runs(x: Array) -> tuple[Array, Array]:
    """Scales and points of the eight runs of a block of the K kinds."""
    scales, minima = _sixes(x[:, 4:16])
    return _points(_halves(x, 0) * scales, -_halves(x, 2) * minima)


def _pairs_of_runs(x: Array) -> Array:
    """256 codes in 128 bytes: of each 32 bytes the lower halves, then the upper ones."""
    return _nibbles(x.reshape(-1, 32)).reshape(len(x), 256)


def _q4_k(x: Array) -> Parts:
    return _pairs_of_runs(x[:, 16:]), *_runs(x)


def _q5_k(x: Array) -> Parts:
    fifth = x[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _pairs_of_runs(x[:, 48:]) | fifth.reshape(len(x), 256) << 4, *_runs(x)


def _q6_k(x: Array) -> Parts:
    low = x[:, :128].reshape(-1, 2, 64)
    low = np.concatenate([low & 15, low >> 4], 2).reshape(len(x), 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = x[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    scales = _halves(x, 208) * x[:, 192:208].view(np.int8).astype(np.float32)
    return (low | high << 4).reshape(len(x), 256), scales, None


def _quarters(x: Array) -> Array:
    """256 codes of 2 bits in 64 bytes: of each 32 bytes the lowest bits, then the next ones."""
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    return (x.reshape(-1, 2, 1, 32) >> shifts & 3).reshape(len(x), 256)


def _q2_k(x: Array) -> Parts:
    scales, minima = (x[:, :16] & 15).astype(np.float32), (x[:, :16] >> 4).astype(np.float32)
    return _quarters(x[:, 16:80]), *_points(_halves(x, 80) * scales, -_halves(x, 82) * minima)


def _q3_k(x: Array) -> Parts:
    third = (x[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(len(x), 256)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (x[:, None, 104:108] >> shifts & 3).reshape(len(x), 16)
    scales = (_nibbles(x[:, 96:104]) | high << 4).astype(np.float32) - 32
    return _quarters(x[:, 32:96]) | third << 2, _halves(x, 108) * scales, None


_CURVE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the codes of the IQ4 kinds stand for."""
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the floats of 4 bits."""


def _looked_up(codes: Array, levels: tuple[int, ...]) -> Array:
    """Codes of 8 bits, with the point 128, for those that stand for levels."""
    return np.array([128 + level for level in levels], np.uint8)[codes]


def _iq4_nl(x: Array) -> Parts:
    return _looked_up(_nibbles(x[:, 2:]), _CURVE), _halves(x, 0), None


def _iq4_xs(x: Array) -> Parts:
    high = x[:, 2:4, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
    low = x[:, 4:8, None] >> np.array([0, 4], np.uint8) & 15
    scales = (low.reshape(len(x), 8) | high.reshape(len(x), 8) << 4).astype(np.float32) - 32
    return (
        _looked_up(_nibbles(x[:, 8:].reshape(-1, 16)).reshape(len(x), 256), _CURVE),
        _halves(x, 0) * scales,
        None,
    )


def _mxfp4(x: Array) -> Parts:
    scales = np.ldexp(np.float32(1), x[:, :1].astype(np.int32) - 128)
    return _looked_up(_nibbles(x[:, 1:]), _E2M1), scales, None


KINDS = {
    2: BlockKind("Q4_0", 32, 18, 4, 32, 8.0, _q4_0),
    3: BlockKind("Q4_1", 32, 20, 4, 32, 0.0, _q4_1),
    6: BlockKind("Q5_0", 32, 22, 8, 32, 16.0, _q5_0),
    7: BlockKind("Q5_1", 32, 24, 8, 32, 0.0, _q5_1),
    8: BlockKind("Q8_0", 32, 34, 8, 32, 128.0, _q8_0),
    10: BlockKind("Q2_K", 256, 84, 4, 16, 0.0, _q2_k),
    11: BlockKind("Q3_K", 256, 110, 4, 16, 4.0, _q3_k),
    12: BlockKind("Q4_K", 256, 144, 4, 32, 0.0, _q4_k),
    13: BlockKind("Q5_K", 256, 176, 8, 32, 0.0, _q5_k),
    14: BlockKind("Q6_K", 256, 210, 8, 16, 32.0, _q6_k),
    20: BlockKind("IQ4_NL", 32, 18, 8, 32, 128.0, _iq4_nl),
    23: BlockKind("IQ4_XS", 256, 136, 8, 32, 128.0, _iq4_xs),
    39: BlockKind("MXFP4", 32, 17, 8, 32, 128.0, _mxfp4),
}
"""Kinds of blocks by GGUF's numbers."""


def stored_type(kind: int, shape: Sequence[int]) -> tuple[str, int]:
    """What a type of a file is called, and the bytes of a tensor of it; 0 where it is not known."""
    count = prod(shape)
    if kind in by("gguf"):
        return by("gguf")[kind].name, count * by("gguf")[kind].dtype.itemsize
    blocks = KINDS.get(kind)
    return (f"type {kind}", 0) if blocks is None else (blocks.name, count // blocks.elements * blocks.size)


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file, read when it is called."""

    file: GgufFile
    name: str

    def check(self) -> None:
        """UnsupportedError for elements that are not known, GlowError where the file ends before them."""
        self._raw()

    def _raw(self) -> Array:
        entry = self.file.entries[self.name]
        count = prod(entry.shape)
        if entry.kind in by("gguf"):
            return self.file.bytes_of(self.name, count * by("gguf")[entry.kind].dtype.itemsize)
        kind = KINDS.get(entry.kind)
        if kind is None:
            floats = [t.safetensors for t in by("gguf").values()]
            known = ", ".join([*floats, *(k.name for k in KINDS.values())])
            raise UnsupportedError(
                f"{self.file.path}: '{self.name}' is of type {entry.kind}; there are: {known}"
            )
        if len(entry.shape) not in (2, 3) or entry.shape[-1] % kind.elements:
            raise GlowError(f"{self.file.path}: '{self.name}' of shape {list(entry.shape)} in {kind.name}")
        return self.file.bytes_of(self.name, count // kind.elements * kind.size)

    def __call__(self) -> Array | Blocks:
        """The tensor."""
        entry, raw = self.file.entries[self.name], self._raw()
        if entry.kind in by("gguf"):
            return raw.view(by("gguf")[entry.kind].dtype).reshape(entry.shape)
        kind, (*lead, depth) = KINDS[entry.kind], entry.shape
        codes, scales, points = kind.parts(raw.reshape(-1, kind.size))
        return Blocks(
            pack(codes.reshape(*lead, depth), kind.bits),
            np.ascontiguousarray(scales.reshape(*lead, -1)),
            kind.bits,
            kind.run,
            depth,
            kind.point,
            None if points is None else np.ascontiguousarray(points.reshape(*lead, -1)),
        )
