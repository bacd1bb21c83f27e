"""Low-bit codes packed in 32-bit words, in the orders of the different tools.

Each function takes words i32 [..., words], and gives codes u8 [..., as many as the words hold].
"""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import WIDTHS, unpack

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word of eight codes those of neighbouring outputs are."""


def run_on(words: Array, bits: int) -> Array:
    """Codes one behind the other, lowest bits first; some begin in one word and end in the next."""
    held = np.ascontiguousarray(words).view(np.uint8)
    if bits in WIDTHS:
        return unpack(held, bits, held.shape[-1] * 8 // bits)
    # Eight codes fill as many bytes as they have bits; the last ones may lack some.
    *lead, count = held.shape
    eights = np.zeros((*lead, -(-count // bits), bits), np.uint8)
    eights.reshape(*lead, -1)[..., :count] = held
    whole = np.zeros(eights.shape[:-1], np.uint64)
    for place in range(bits):
        whole |= eights[..., place].astype(np.uint64) << np.uint64(8 * place)
    codes = np.empty((*whole.shape, 8), np.uint8)
    for place in range(8):
        codes[..., place] = (whole >> np.uint64(bits * place)) & np.uint64((1 << bits) - 1)
    return codes.reshape(*lead, -1)[..., : 8 * count // bits]


def in_words(words: Array, bits: int) -> Array:
    """Codes that no word divides, lowest bits first: each word has as many as fit, its highest bits may be
    empty."""
    each = 32 // bits
    shifts = np.arange(each, dtype=np.uint32) * np.uint32(bits)
    wide = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts
    return (wide & np.uint32((1 << bits) - 1)).astype(np.uint8).reshape(*words.shape[:-1], -1)


def in_planes(words: Array, bits: int) -> Array:
    """Of each 32 codes first the lowest 4 bits (2 of 2 and 3 bits), then the next ones, at most 2 and 1."""
    *lead, count = words.shape
    blocks = np.ascontiguousarray(words).reshape(*lead, count // bits, bits)
    codes = np.zeros((*blocks.shape[:-1], 32), np.uint8)
    start = 0
    for width in (8, 4, 2, 1):
        if bits - start >= width:
            codes |= run_on(blocks[..., start : start + width], width) << np.uint8(start)
            start += width
    return codes.reshape(*lead, -1)


def of_outputs(words: Array) -> Array:
    """Eight codes of 4 bits a word, as AWQ's `gemm` has those of neighbouring outputs."""
    codes = run_on(words, 4)
    return codes.reshape(*words.shape, 8)[..., list(_AWQ_ORDER)].reshape(codes.shape)


def in_fours(words: Array) -> Array:
    """Codes of 4 bits [outputs, inputs] of words i16 [outputs / 4, inputs], as AWQ's `gemv_fast` has them.

    64 words hold 64 inputs of four outputs, 16 words of each output, one behind the other. The eights of 32
    inputs hold every eighth input from an even one on, and then from the odd one behind it.
    """
    fours, inputs = words.shape
    codes = run_on(words, 4).reshape(fours, inputs // 64, 4, 2, 4, 2, 4)
    # Axes: four outputs, 64 inputs, output, half, eight, odd or even, which eighth input.
    return codes.transpose(0, 2, 1, 3, 6, 4, 5).reshape(fours * 4, inputs)
