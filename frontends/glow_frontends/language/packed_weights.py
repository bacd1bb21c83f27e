"""Weights of few bits in folders, as other tools pack them: the same codes, row by row, as blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import pack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import Weight
from glow_frontends.language.scaled_weights import KINDS, SCALES, TABLES, FourBits, Mxfp4, Scaled
from glow_frontends.language.settings import float_like

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word of eight codes those of neighbouring outputs are."""

_WIDTHS = (2, 4, 8)
"""Bits of codes that fill words of 32 evenly."""

_LAYOUTS = {
    "awq": ("gemm",),
    "bitsandbytes": ("nf4", "fp4", "int8"),
    "compressed-tensors": ("pack-quantized", "float-quantized", "int-quantized"),
    "fbgemm_fp8": ("fp8",),
    "fp8": ("fp8",),
    "gptq": ("gptq", "gptq_v2"),
    "modelopt": ("fp8",),
    "mxfp4": ("mxfp4",),
}
"""Methods (`quant_method`), and the layouts of each that are known."""

_BESIDE = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
"""Files with the settings of folders that are older than `quantization_config`, and their methods."""

Loader = Callable[[], Weight]


@dataclass(frozen=True)
class _Codes:
    """What a layout holds: codes [outputs, inputs], points and scales [outputs, groups]."""

    bits: int
    codes: Array
    points: Array
    scales: Array


def with_packed(
    tensors: Mapping[str, Callable[[], Array]], settings: Mapping[str, Any], place: str
) -> dict[str, Loader]:
    """A folder's tensors, with a `.weight` for each that is packed.

    `settings`: its `quantization_config`, `place` what messages name. UnsupportedError for other layouts.
    """
    found: dict[str, Loader] = dict(tensors)
    if not settings:
        parts = tuple(f".{ending}" for ending in ("qweight", "weight_packed", *SCALES, *TABLES))
        packed = next((n for n in tensors if n.endswith(parts)), None)
        if packed is not None:
            raise GlowError(
                f"{place}: '{packed}' is packed, and neither config.json ('quantization_config') nor "
                f"{' or '.join(_BESIDE)} says how"
            )
        return found
    method = str(settings.get("quant_method"))
    known = _LAYOUTS.get(method)
    if known is None:
        raise UnsupportedError(
            f"{place}: weights quantised by '{method}' are not known; there are: {', '.join(_LAYOUTS)}"
        )
    layout = _layout(method, settings, known[0])
    if layout not in known:
        raise UnsupportedError(
            f"{place}: the layout '{layout}' of {method} is not known; there are: {', '.join(known)}"
        )
    if layout in ("nf4", "fp4"):
        tables = [n for n in tensors if n.endswith(".weight.quant_map")]
        bases = [n.removesuffix(".weight.quant_map") for n in tables]
        return found | {f"{base}.weight": FourBits(tensors, base, place, layout) for base in bases}
    if layout == "mxfp4":
        bases = [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]
        rest = {n: t for n, t in found.items() if n[: -len("_blocks")] not in bases}
        return rest | {f"{base}.weight": Mxfp4(tensors, base, place) for base in bases}
    if layout not in ("pack-quantized", "gemm", "gptq", "gptq_v2"):
        return found | _scaled(tensors, settings, place)
    ending = ".weight_packed" if method == "compressed-tensors" else ".qweight"
    size = int(settings.get("group_size", settings.get("q_group_size", 0)) or 0)
    for name in tensors:
        if name.endswith(ending):
            base = name.removesuffix(ending)
            found[f"{base}.weight"] = _Packed(tensors, base, layout, size, place)
    return found


def _layout(method: str, settings: Mapping[str, Any], usual: str) -> str:
    """The layout of a method that the settings name, each in its way."""
    if settings.get("is_marlin_format"):
        return "marlin"
    if method == "bitsandbytes":
        return "int8" if settings.get("load_in_8bit") else str(settings.get("bnb_4bit_quant_type", "fp4"))
    names = (settings.get(name) for name in ("checkpoint_format", "version", "format", "quant_algo"))
    return str(next(filter(None, names), usual)).lower()


def _scaled(
    tensors: Mapping[str, Callable[[], Array]], settings: Mapping[str, Any], place: str
) -> dict[str, Loader]:
    """The matrices of 8 bits, which have scales beside."""
    sides = settings.get("weight_block_size")
    for group in (settings.get("config_groups") or {}).values():
        sides = sides or (group.get("weights") or {}).get("block_structure")
    found: dict[str, Loader] = {}
    for name, tensor in tensors.items():
        base, _, ending = name.rpartition(".")
        if ending == "weight" and any(f"{base}.{scales}" in tensors for scales in SCALES):
            found[name] = Scaled(tensors, base, place, None if sides is None else (sides[0], sides[1]))
        elif str(getattr(tensor, "dtype", None)) in KINDS and ending == "weight":
            raise GlowError(f"{place}: '{name}' has 8 bits, and no scales ({', '.join(SCALES)}) beside")
    return found


@dataclass(frozen=True)
class _Packed:
    """A matrix of a folder, whose codes lie in words of 32 bits.

    `size`: how many inputs a group has by the settings; -1: all, 0: they do not say.
    """

    tensors: Mapping[str, Callable[[], Array]]
    base: str
    layout: str
    size: int
    place: str

    def __call__(self) -> Blocks:
        """The matrix; GlowError where its parts do not fit."""
        compressed = self.layout == "pack-quantized"
        read = self._compressed if compressed else self._awq if self.layout == "gemm" else self._gptq
        found = read()
        outputs, inputs = found.codes.shape
        groups = found.scales.shape[-1]
        index = self._index("weight_g_idx" if compressed else "g_idx", inputs)
        block = self._block(inputs, groups) if index is None else int(np.count_nonzero(index == 0))
        fits = found.scales.shape == found.points.shape == (outputs, groups)
        if not fits or not block or groups != -(-inputs // block):
            raise GlowError(
                f"{self.place}: '{self.base}': codes {found.codes.shape}, points {found.points.shape} and "
                f"scales {found.scales.shape} do not fit together"
            )
        order = None if index is None else self._order(index, block)
        codes = found.codes if order is None else found.codes[:, order]
        shifts = found.points.astype(np.float32)
        even = shifts.size and (shifts == shifts.flat[0]).all()
        return Blocks(
            pack(np.ascontiguousarray(codes), found.bits),
            np.ascontiguousarray(found.scales, np.float32),
            found.bits,
            block,
            inputs,
            float(shifts.flat[0]) if even else 0.0,
            None if even else np.ascontiguousarray(shifts),
            order,
        )

    def _gptq(self) -> _Codes:
        """Words of inputs, and of points of outputs, which the first form of files has less one.

        They were taken from words, not from points: one that was 0 borrowed from the next.
        """
        words, points, scales = (self._part(n) for n in ("qweight", "qzeros", "scales"))
        bits = self._width(points.shape[1], words.shape[1])
        if self.layout == "gptq":
            ones = sum(1 << place for place in range(0, 32, bits))
            points = (points.view(np.uint32) + np.uint32(ones)).view(np.int32)
        points = _unpacked(points, bits)[:, : words.shape[1]]
        return _Codes(bits, _unpacked(words.T, bits), points.T, scales.T)

    def _awq(self) -> _Codes:
        """Words of eight outputs, of codes as of points."""
        words, points = (_in_order(_unpacked(self._part(n), 4)) for n in ("qweight", "qzeros"))
        return _Codes(4, words.T, points.T, self._part("scales").T)

    def _compressed(self) -> _Codes:
        """Words of inputs, and of points of outputs; without points half of all codes are below 0."""
        words, scales = self._part("weight_packed"), self._part("weight_scale")
        shape = self.tensors.get(f"{self.base}.weight_shape")
        outputs, inputs = len(words), int(shape()[-1]) if shape is not None else 0
        bits = self._width(words.shape[1], inputs)
        points = np.full(scales.shape, 1 << (bits - 1), np.uint8)
        if f"{self.base}.weight_zero_point" in self.tensors:
            points = _unpacked(self._part("weight_zero_point").T, bits)[:, :outputs].T
        return _Codes(bits, _unpacked(words, bits)[:, :inputs], points, scales)

    def _width(self, words: int, codes: int) -> int:
        """The bits of codes that fill a row of words; UnsupportedError for others."""
        bits = 32 * words // max(codes, 1)
        if bits not in _WIDTHS:
            raise UnsupportedError(
                f"{self.place}: '{self.base}': {codes} codes in {words} words of 32 bits; "
                f"codes of {', '.join(map(str, _WIDTHS))} bits are known"
            )
        return bits

    def _part(self, ending: str) -> Array:
        name = f"{self.base}.{ending}"
        if name not in self.tensors:
            raise GlowError(f"{self.place}: the weights have no '{name}'")
        part = self.tensors[name]()
        if part.ndim != 2 or ("scale" not in ending) != (part.dtype == np.int32):
            raise GlowError(
                f"{self.place}: '{name}' is {part.dtype} {list(part.shape)}, no matrix of such parts"
            )
        return np.ascontiguousarray(part)

    def _block(self, inputs: int, groups: int) -> int:
        """How many inputs a group has, where there is no index."""
        return inputs if self.size < 0 else self.size or -(-inputs // max(groups, 1))

    def _index(self, ending: str, inputs: int) -> Array | None:
        """The group of each input, where the folder says it."""
        stored = self.tensors.get(f"{self.base}.{ending}")
        index = None if stored is None or self.layout == "gemm" else np.asarray(stored())
        if index is not None and index.shape != (inputs,):
            raise GlowError(
                f"{self.place}: '{self.base}.{ending}' is {list(index.shape)} for {inputs} inputs"
            )
        return None if index is None or (index < 0).any() else index  # negative ones were never set

    def _order(self, index: Array, block: int) -> Array | None:
        """The inputs group by group, where they were taken in another order than they have."""
        inputs = np.arange(len(index))
        if not np.array_equal(np.sort(index), inputs // block):
            raise GlowError(f"{self.place}: '{self.base}': its index does not give each group {block} inputs")
        order = np.argsort(index, kind="stable").astype(np.int32)
        return None if np.array_equal(order, inputs) else order


def _in_order(codes: Array) -> Array:
    """Codes of AWQ's words as the outputs follow each other."""
    return codes.reshape(len(codes), -1, 8)[:, :, list(_AWQ_ORDER)].reshape(codes.shape)


def _unpacked(words: Array, bits: int) -> Array:
    """The codes of words along the last axis, lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    wide = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts
    return (wide & np.uint32((1 << bits) - 1)).astype(np.uint8).reshape(*words.shape[:-1], -1)


def settings_beside(folder: Path, read: Callable[[Path], dict[str, Any]]) -> tuple[str, Any]:
    """Settings of quantisation in a file of their own, and its name; of the first that `read` is to read."""
    for name, method in _BESIDE.items():
        if (folder / name).exists():
            return str(folder / name), {"quant_method": method, **read(folder / name)}
    return "", None


def quantization_of(settings: Any, place: str) -> Mapping[str, Any]:
    """`quantization_config`, checked as far as it is read; GlowError where it is no table."""
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not float_like(settings.get("group_size") or 0):
        raise GlowError(f"{place} is no table of settings with a number of inputs in a group")
    return settings
