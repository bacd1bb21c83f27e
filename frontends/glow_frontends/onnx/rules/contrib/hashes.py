"""MurmurHash3, by which scikit-learn's FeatureHasher and HashingVectorizer find a feature's column."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.graph import Emitter, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.selection import inputs_of

ALL = 0xFFFFFFFF


def murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 of bytes, 0 <= result < 2^32."""
    h, whole = seed & ALL, len(data) // 4 * 4
    for start in range(0, whole, 4):
        h ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & ALL
    if whole < len(data):
        h ^= _scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & ALL
    h = (h ^ h >> 13) * 0xC2B2AE35 & ALL
    return h ^ h >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & ALL


def _scrambled(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & ALL, 15) * 0x1B873593 & ALL


def murmur_hash(g: Emitter, n: Node) -> Array:
    """MurmurHash3 of each string (its UTF-8) or number (its bytes): u32, or i32 where not `positive`."""
    del g
    (x,) = inputs_of(n, 1)
    seed = n.integer("seed", 0)
    if x.dtype == object:
        items = [str(s).encode() for s in x.reshape(-1)]
    elif x.dtype.itemsize in (4, 8) and x.dtype.kind in "iuf":
        items = [v.tobytes() for v in x.reshape(-1)]
    else:
        raise RuleError(f"elements of type {x.dtype}, expected strings or numbers of 32 or 64 bits")
    hashes = np.array([murmur3(item, seed) for item in items], np.uint32).reshape(x.shape)
    return hashes if n.integer("positive", 1) else hashes.view(np.int32)


RULES: dict[str, Versions] = {"MurmurHash3": murmur_hash}
