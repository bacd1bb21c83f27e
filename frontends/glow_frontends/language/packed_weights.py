"""Packed low-bit weights of other tools: the same codes, row by row, as blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import WIDTHS, pack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import Weight
from glow_frontends.language.packed_words import in_fours, in_planes, in_words, of_outputs, run_on
from glow_frontends.language.scaled_weights import KINDS, SCALES, TABLES, FourBits, Mxfp4, Scaled
from glow_frontends.language.settings import float_like

_LAYOUTS = {
    "awq": ("gemm", "gemv", "gemv_fast", "llm-awq"),
    "bitsandbytes": ("nf4", "fp4", "int8"),
    "compressed-tensors": (
        *("pack-quantized", "float-quantized", "int-quantized"),
        *("naive-quantized", "mixed-precision"),
    ),
    "fbgemm_fp8": ("fp8",),
    "fp8": ("fp8",),
    "gptq": ("gptq", "gptq_v2", "gptq_p"),
    "modelopt": ("fp8",),
    "mxfp4": ("mxfp4",),
}
"""Methods (`quant_method`), and the layouts of each that are known; the first where settings name none."""

_NAMED_BY = {
    "awq": ("version", "checkpoint_format", "format"),
    "compressed-tensors": ("format",),
    "gptq": ("checkpoint_format", "format"),
    "modelopt": ("quant_algo",),
}
"""The settings that name the layout of a method."""

_AS_GEMM = ("exllama", "exllamav2", "ipex")
"""Versions of AWQ that name the kernels which are to read `gemm`."""

_MISPLACED = np.array([0x24924924, 0x92492492, 0x49249249], np.uint32)
"""What older versions of GPTQModel took from words of points of 3 bits, in place of 1 from each point."""

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
            f"{place}: weights quantised by '{method}' are not supported; "
            f"supported are: {', '.join(_LAYOUTS)}"
        )
    layout = _layout(method, settings, known[0])
    if layout not in known:
        raise UnsupportedError(
            f"{place}: the layout '{layout}' of {method} is not supported; supported are: {', '.join(known)}"
        )
    _check_turns(settings, place)
    if layout in ("nf4", "fp4"):
        tables = [n for n in tensors if n.endswith(".weight.quant_map")]
        bases = [n.removesuffix(".weight.quant_map") for n in tables]
        return found | {f"{base}.weight": FourBits(tensors, base, place, layout) for base in bases}
    if layout == "mxfp4":
        bases = [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]
        rest = {n: t for n, t in found.items() if n[: -len("_blocks")] not in bases}
        return rest | {f"{base}.weight": Mxfp4(tensors, base, place) for base in bases}
    if method not in ("awq", "gptq"):
        found |= _scaled(tensors, settings, place)
    for name in tensors:
        base, _, ending = name.rpartition(".")
        if ending in ("qweight", "weight_packed"):
            found[f"{base}.weight"] = _Packed(tensors, base, layout, settings, place)
    return found


def _layout(method: str, settings: Mapping[str, Any], usual: str) -> str:
    """The layout of a method that the settings name, each in its way."""
    if settings.get("is_marlin_format"):
        return "marlin"
    if method == "bitsandbytes":
        return "int8" if settings.get("load_in_8bit") else str(settings.get("bnb_4bit_quant_type", "fp4"))
    names = (settings.get(name) for name in _NAMED_BY.get(method, ()))
    layout = str(next(filter(None, names), usual)).lower()
    return "gemm" if method == "awq" and layout in _AS_GEMM else layout


def _check_turns(settings: Mapping[str, Any], place: str) -> None:
    """UnsupportedError where a model turns what it computes, beside having turned its weights."""
    turned = settings.get("rotation")
    for scheme in ((settings.get("transform_config") or {}).get("config_groups") or {}).values():
        places = [str(step.get("location")) for step in scheme.get("apply", ())]
        turned = next((p for p in places if not p.startswith("weight")), turned)
    if turned:
        raise UnsupportedError(
            f"{place}: it needs rotated activations ('{turned}'), which is not supported; quantise the model "
            "without rotation"
        )


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
    """A matrix of a folder, whose codes lie in words."""

    tensors: Mapping[str, Callable[[], Array]]
    base: str
    layout: str
    settings: Mapping[str, Any]
    place: str

    def __call__(self) -> Blocks:
        """The matrix; GlowError where its parts do not fit."""
        found = self._read()
        outputs, inputs = found.codes.shape
        groups = found.scales.shape[-1]
        index = self._index(inputs)
        block = self._block(inputs, groups) if index is None else int(np.count_nonzero(index == 0))
        fits = found.scales.shape == found.points.shape == (outputs, groups)
        if not fits or not block or groups != -(-inputs // block):
            raise GlowError(
                f"{self.place}: '{self.base}': codes {found.codes.shape}, points {found.points.shape} and "
                f"scales {found.scales.shape} do not match"
            )
        order = None if index is None else self._order(index, block)
        codes = found.codes if order is None else found.codes[:, order]
        shifts = found.points.astype(np.float32)
        even = shifts.size and (shifts == shifts.flat[0]).all()
        held = next(width for width in WIDTHS if width >= found.bits)
        return Blocks(
            pack(np.ascontiguousarray(codes), held),
            np.ascontiguousarray(found.scales, np.float32),
            held,
            block,
            inputs,
            float(shifts.flat[0]) if even else 0.0,
            None if even else np.ascontiguousarray(shifts),
            order,
        )

    def _read(self) -> _Codes:
        if self.layout in _LAYOUTS["compressed-tensors"]:
            return self._compressed()
        if self.layout in _LAYOUTS["gptq"]:
            return self._gptq()
        return {"gemm": self._gemm, "gemv": self._gemv}.get(self.layout, self._gemv_fast)()

    def _gptq(self) -> _Codes:
        """Words of inputs, and of points of outputs, which the first form of files has less one."""
        words, points, scales = self._part("qweight"), self._part("qzeros"), self._floats("scales")
        outputs = words.shape[1]
        bits = self._bits(points.shape[1], outputs, lambda bits: [-(-outputs * bits // 32)])
        planes = self.layout == "gptq_p" or bits in (5, 6, 7)
        if planes and (outputs % 32 or len(words) % bits):
            raise GlowError(
                f"{self.place}: '{self.base}': {list(words.shape)} words do not hold codes of {bits} bits "
                "32 by 32"
            )
        order = in_planes if planes else run_on
        if self.layout == "gptq" and not planes:
            read = self._one_more(points, bits)[:, :outputs]
        else:
            read = order(points, bits)[:, :outputs]
        return _Codes(bits, order(words.T, bits), read.T, scales.T)

    def _one_more(self, points: Array, bits: int) -> Array:
        """Points that are stored less one. Where points are divided between words, tools take it from each
        point; else from words as numbers: a point that was 0 borrowed from the next.
        """
        words = points.view(np.uint32)
        if bits in WIDTHS:
            return run_on(words + np.uint32(sum(1 << place for place in range(0, 32, bits))), bits)
        if _made_before(self.settings, "gptqmodel", (6, 1)):
            return run_on(words + np.resize(_MISPLACED, words.shape[1]), bits)
        return run_on(words, bits) + np.uint8(1) & np.uint8((1 << bits) - 1)

    def _gemm(self) -> _Codes:
        """Words of eight outputs, of codes as of points."""
        words, points = (of_outputs(self._part(n)) for n in ("qweight", "qzeros"))
        return _Codes(4, words.T, points.T, self._floats("scales").T)

    def _gemv(self) -> _Codes:
        """Words of eight inputs and of points of eight groups, of which there may be more than groups."""
        codes, points = (run_on(self._part(n), 4) for n in ("qweight", "qzeros"))
        groups = self._groups(codes.shape[1])
        return _Codes(4, codes, points[:, :groups], self._floats("scales")[:, :groups])

    def _gemv_fast(self) -> _Codes:
        """Words of 16 bits; for more groups than there are scales, and points times these, below 0."""
        words = self._part("qweight", np.int16)
        if words.shape[1] % 64:
            raise GlowError(
                f"{self.place}: '{self.base}.qweight': {words.shape[1]} inputs; this layout has them 64 by 64"
            )
        groups = self._groups(words.shape[1])
        named = "scaled_zeros" if f"{self.base}.scaled_zeros" in self.tensors else "qzeros"
        scales, shifts = (self._floats(n)[:groups].astype(np.float32).T for n in ("scales", named))
        if scales.shape != shifts.shape:
            raise GlowError(
                f"{self.place}: '{self.base}': scales {scales.shape} and {named} {shifts.shape} do not match"
            )
        return _Codes(4, in_fours(words), -shifts / np.where(scales == 0, 1, scales), scales)

    def _compressed(self) -> _Codes:
        """Words of inputs, and of points of outputs; without points half of all codes are below 0.

        Widths that do not divide words leave their highest bits empty in older files.
        """
        words, scales = self._part("weight_packed"), self._floats("weight_scale")
        shape = self.tensors.get(f"{self.base}.weight_shape")
        if shape is None:
            raise GlowError(f"{self.place}: the weights have no '{self.base}.weight_shape'")
        outputs, inputs = len(words), int(shape()[-1])

        def sizes(bits: int) -> list[int]:
            return [-(-inputs * bits // 32), -(-inputs // (32 // bits))]

        bits = self._bits(words.shape[1], inputs, sizes)
        dense, divided = (size == words.shape[1] for size in sizes(bits))
        older = divided and (not dense or _older(self.settings.get("version"), (0, 18)))
        order = in_words if older else run_on
        if scales.size == 1:
            scales = np.full((outputs, 1), scales.flat[0])
        points = np.full(scales.shape, 1 << (bits - 1), np.int16)
        if f"{self.base}.weight_zero_point" in self.tensors:
            zeros = self._matrix("weight_zero_point")
            if zeros.dtype == np.int8:
                points += zeros.reshape(-1)[0] if zeros.size == 1 else zeros
            else:
                points = order(self._part("weight_zero_point").T, bits)[:, :outputs].T
        return _Codes(bits, order(words, bits)[:, :inputs], points, scales)

    def _bits(self, words: int, codes: int, sizes: Callable[[int], list[int]]) -> int:
        """The bits of codes that fill a row of words, by `sizes` that a number of bits may take.

        UnsupportedError for others, and where several of those fill it that the settings name.
        """
        groups = (self.settings.get("config_groups") or {}).values()
        named = [(group.get("weights") or {}).get("num_bits") for group in groups]
        named += [self.settings.get("bits")]
        fitting = [b for b in range(8, 0, -1) if words in sizes(b)]
        likely = [b for b in fitting if b in named]
        if not fitting or len(likely) > 1:
            bits = " or ".join(map(str, likely or ["1 to 8"]))
            raise UnsupportedError(
                f"{self.place}: '{self.base}': {codes} codes in {words} words of 32 bits cannot be "
                f"recognised as codes of {bits} bits"
            )
        return (likely or fitting)[0]

    def _part(self, ending: str, kind: type = np.int32) -> Array:
        """A part of words."""
        part = self._matrix(ending)
        if part.dtype != kind:
            raise self._wrong(ending, part)
        return np.ascontiguousarray(part)

    def _floats(self, ending: str) -> Array:
        """A part of scales; one for the whole matrix need be none."""
        part = self._matrix(ending)
        if np.issubdtype(part.dtype, np.integer):
            raise self._wrong(ending, part)
        return part

    def _matrix(self, ending: str) -> Array:
        name = f"{self.base}.{ending}"
        if name not in self.tensors:
            raise GlowError(f"{self.place}: the weights have no '{name}'")
        part = np.asarray(self.tensors[name]())
        if part.ndim != 2 and part.size != 1:
            raise self._wrong(ending, part)
        return part

    def _wrong(self, ending: str, part: Array) -> GlowError:
        kind = f"{part.dtype} {list(part.shape)}"
        return GlowError(f"{self.place}: '{self.base}.{ending}' is {kind}, not such a matrix")

    @property
    def _size(self) -> int:
        """How many inputs a group has by the settings; -1: all, 0: they do not say."""
        return int(self.settings.get("group_size", self.settings.get("q_group_size", 0)) or 0)

    def _block(self, inputs: int, groups: int) -> int:
        """How many inputs a group has, where there is no index."""
        return inputs if self._size < 0 else self._size or -(-inputs // max(groups, 1))

    def _groups(self, inputs: int) -> int:
        """How many groups there are by the settings, where parts have more."""
        if not self._size:
            raise GlowError(f"{self.place}: its settings have no 'group_size', which '{self.layout}' needs")
        return -(-inputs // self._block(inputs, 1))

    def _index(self, inputs: int) -> Array | None:
        """The group of each input, where the folder says it."""
        ending = "g_idx" if self.layout in _LAYOUTS["gptq"] else "weight_g_idx"
        stored = self.tensors.get(f"{self.base}.{ending}")
        index = None if stored is None else np.asarray(stored())
        if index is not None and index.shape != (inputs,):
            raise GlowError(
                f"{self.place}: '{self.base}.{ending}' is {list(index.shape)} for {inputs} inputs"
            )
        return None if index is None or (index < 0).any() else index  # negative ones were never set

    def _order(self, index: Array, block: int) -> Array | None:
        """The inputs group by group, where they were taken in another order than they have."""
        inputs = np.arange(len(index))
        if not np.array_equal(np.sort(index), inputs // block):
            raise GlowError(
                f"{self.place}: '{self.base}': its index does not assign {block} inputs to each group"
            )
        order = np.argsort(index, kind="stable").astype(np.int32)
        return None if np.array_equal(order, inputs) else order


def _made_before(settings: Mapping[str, Any], tool: str, version: tuple[int, int]) -> bool:
    """Whether an older version of a tool made the weights, as the settings say ("tool:1.2.3")."""
    makers = (settings.get("meta") or {}).get("quantizer") or []
    for maker in [makers] if isinstance(makers, str) else makers:
        name, _, own = str(maker).partition(":")
        if name == tool and own:
            return _older(own, version)
    return False


def _older(own: Any, version: tuple[int, int]) -> bool:
    """Whether the version of a tool ("1.2.3") comes before another one; False where none is given."""
    numbers = [int(part) for part in str(own).split(".")[:2] if part.isdigit()]
    return len(numbers) == 2 and tuple(numbers) < version


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
        raise GlowError(f"{place} is not a table of settings with a group size")
    for name in ("config_groups", "meta", "transform_config"):
        if not isinstance(settings.get(name) or {}, dict):
            raise GlowError(f"{place}: '{name}' is not a table of settings")
    return settings
