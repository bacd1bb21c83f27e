"""Folders with weights as GPTQ and AWQ lay them out, against transformers with the numbers they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import language_models as lms
from safetensors.numpy import load_file, save_file

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_dialects.core.types import Array
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.huggingface import read_folder
from glow_frontends.language.packed_weights import quantization_of, with_packed

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
PLANES = {3: (2, 1), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1)}
MISPLACED = [int("001" * 10 + "00", 2), int("100" * 10 + "10", 2), int("010" * 10 + "01", 2)]


def _words(codes: Array, bits: int, order: list[int] | None = None) -> Array:
    """As many codes along the last axis as fit in each word of 32 bits, the last filled with zeros."""
    each = 32 // bits
    codes = np.pad(codes, [(0, 0), (0, -codes.shape[-1] % each)])
    made = np.zeros((*codes.shape[:-1], codes.shape[-1] // each), np.uint32)
    for i in range(each):
        made |= codes[..., (order or list(range(each)))[i] :: each].astype(np.uint32) << np.uint32(bits * i)
    return made.view(np.int32)


def _stream(codes: Array, bits: int) -> Array:
    """The bits of all codes along the last axis, 32 a word, the last filled with zeros."""
    single = (codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(len(codes), -1)
    single = np.pad(single, [(0, 0), (0, -single.shape[1] % 32)])
    return np.ascontiguousarray(np.packbits(single, axis=1, bitorder="little")).view(np.int32)


def _planes(codes: Array, bits: int) -> Array:
    """Of 32 codes along the last axis the lowest bits, then the next ones."""
    words, start, blocks = [], 0, codes.reshape(-1, 32)
    for width in PLANES[bits]:
        words.append(_words(blocks >> start & (1 << width) - 1, width))
        start += width
    return np.concatenate(words, 1).reshape(len(codes), -1)


def _fours(codes: Array) -> Array:
    """Codes [outputs, inputs] of 4 bits, each in the word and place where `gemv_fast` has it."""
    n, k = np.indices(codes.shape)
    inside = k % 32
    place = inside % 8 // 2 * 8 + inside % 2 * 4 + inside // 8
    place += n % 4 * 64 + k % 64 // 32 * 32
    made = np.zeros((len(codes) // 4, codes.shape[1]), np.uint16)
    at = n // 4, k // 64 * 64 + place // 4
    np.bitwise_or.at(made, at, codes.astype(np.uint16) << (4 * (place % 4)).astype(np.uint16))
    return made.view(np.int16)


class _Packer:
    """Rounds matrices [outputs, inputs] and stores them in a layout.

    Groups of `group` inputs (-1: one of all), the last perhaps a short one; `shuffled`: of any inputs.
    """

    def __init__(
        self,
        layout: str,
        bits: int,
        group: int,
        shuffled: bool = False,
        symmetric: bool = False,
        version: str = "",
    ) -> None:
        self.layout, self.bits, self.group, self.version = layout, bits, group, version
        self.shuffled, self.symmetric = shuffled, symmetric
        self.random = np.random.default_rng(0)

    @property
    def settings(self) -> dict[str, Any]:
        """The table in config.json, as the tools write it."""
        sizes = {"bits": self.bits, "group_size": self.group}
        if self.layout.startswith("awq"):
            return {"quant_method": "awq", "version": self.version or "gemm", "zero_point": True, **sizes}
        if self.layout == "compressed":
            weights = {"num_bits": self.bits, "group_size": self.group, "symmetric": self.symmetric}
            groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
            method = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
            return {**method, "config_groups": groups, "ignore": ["lm_head"], "version": self.version}
        made = {"meta": {"quantizer": [self.version]}} if self.version else {}
        return made | {
            "quant_method": "gptq",
            "checkpoint_format": self.layout,
            "sym": self.symmetric,
            **sizes,
        }

    def __call__(self, weight: Array) -> tuple[dict[str, Array], Array]:
        """The parts of a matrix, and the matrix that they stand for."""
        codes, points, scales, groups = self._rounded(weight)
        near = ((codes - points[groups].astype(np.float32)) * scales[groups].astype(np.float32)).T
        name = self.layout if self.layout.startswith("awq") else self.layout.partition("_")[0]
        parts = getattr(self, f"_{name}")(codes, points, scales, groups)
        return {n: np.ascontiguousarray(a) for n, a in parts.items()}, near

    def _rounded(self, weight: Array) -> tuple[Array, ...]:
        """Codes [inputs, outputs], points and scales [groups, outputs], and each input's group."""
        outputs, inputs = weight.shape
        groups = np.arange(inputs) // (inputs if self.group == -1 else self.group)
        if self.shuffled:
            groups = self.random.permutation(groups)
        most = (1 << self.bits) - 1
        codes = np.zeros((inputs, outputs), np.uint8)
        scales = np.zeros((groups.max() + 1, outputs), np.float16)
        points = np.zeros(scales.shape, np.uint8)
        for number in range(len(scales)):
            own = weight[:, groups == number].T.astype(np.float32)
            low, high = np.minimum(own.min(0), 0), np.maximum(own.max(0), 0)
            if self.symmetric:
                high = np.maximum(-low, high)
                low = -high
            scales[number] = (high - low) / most
            scale = scales[number].astype(np.float32)
            points[number] = 1 << (self.bits - 1) if self.symmetric else np.rint(-low / scale)
            codes[groups == number] = np.clip(np.rint(own / scale) + points[number], 0, most)
        return codes, points, scales, groups

    def _awq(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        words, rows = _words(codes, self.bits, AWQ_ORDER), _words(points, self.bits, AWQ_ORDER)
        return {"qweight": words, "qzeros": rows, "scales": scales}

    def _awq_gemv(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        more = [(0, 0), (0, -len(scales) % 16)]  # as many more groups as the kernels read
        rows = np.pad(scales.T, more)
        return {"qweight": _words(codes.T, 4), "qzeros": _words(np.pad(points.T, more), 4), "scales": rows}

    def _awq_fast(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        more = [(0, -len(scales) % 8), (0, 0)]
        named = "qzeros" if self.symmetric else "scaled_zeros"
        shifts = np.pad(-scales.astype(np.float32) * points, more)
        return {"qweight": _fours(codes.T), named: shifts, "scales": np.pad(scales, more)}

    def _gptq(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        pack = _planes if self.layout == "gptq_p" or self.bits in (5, 6, 7) else _stream
        rows = pack(points, self.bits)
        if self.layout == "gptq":
            rows = self._one_less(points, rows)
        words = pack(np.ascontiguousarray(codes.T), self.bits).T
        return {"qweight": words, "qzeros": rows, "scales": scales, "g_idx": groups.astype(np.int32)}

    def _one_less(self, points: Array, rows: Array) -> Array:
        """Points less one: those of 3 bits each, others in all places of a word by one subtraction."""
        if self.version:  # as GPTQModel did it before version 7
            return (rows.view(np.uint32) - np.resize(np.array(MISPLACED, np.uint32), rows.shape[1])).view(
                np.int32
            )
        if self.bits == 3:
            return _stream(points - np.uint8(1) & np.uint8(7), 3)
        ones = int("1".rjust(self.bits, "0") * (32 // self.bits), 2)
        return (rows.view(np.uint32) - np.uint32(ones)).view(np.int32)

    def _compressed(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        pack = _words if self.version.startswith("0.1") and self.version < "0.18" else _stream
        shape = np.array(codes.shape[::-1])
        parts = {"weight_packed": pack(codes.T, self.bits), "weight_scale": scales.T, "weight_shape": shape}
        if not self.symmetric:
            parts["weight_zero_point"] = pack(points, self.bits).T
        return parts | ({"weight_g_idx": groups.astype(np.int32)} if self.shuffled else {})


WIDE = {"hidden_size": 128, "head_dim": 32, "intermediate_size": 256, "num_hidden_layers": 1}
ODD = {"hidden_size": 100, "head_dim": 10, "intermediate_size": 60, "num_hidden_layers": 1}
CASES: dict[str, tuple[str, _Packer, dict[str, Any]]] = {
    "gptq": ("llama", _Packer("gptq", 4, 32), {}),
    "awq": ("llama", _Packer("awq", 4, 32), {}),
    "gptq-order": ("llama", _Packer("gptq", 4, 16, shuffled=True), {}),
    "compressed": ("llama", _Packer("compressed", 4, 32), {}),
    "gptq-8": ("qwen2", _Packer("gptq_v2", 8, 32), {}),
    "gptq-fused": ("phi3", _Packer("gptq", 4, 32, shuffled=True), {}),
    "gptq-2": ("llama", _Packer("gptq", 2, 32), {}),
    "gptq-64": ("qwen3", _Packer("gptq_v2", 4, 64, shuffled=True), WIDE),
    "gptq-128": ("qwen2", _Packer("gptq", 4, 128, symmetric=True), WIDE),
    "gptq-8-order": ("llama", _Packer("gptq", 8, 64, shuffled=True, symmetric=True), WIDE),
    "gptq-one": ("qwen2", _Packer("gptq", 4, -1, shuffled=True), WIDE),
    "gptq-8-one": ("llama", _Packer("gptq", 8, -1), WIDE),
    "gptq-short": ("llama", _Packer("gptq", 4, 96, shuffled=True), WIDE),
    "gptq-beside": ("llama", _Packer("gptq", 4, 32), {"beside": "quantize_config.json"}),
    "awq-64": ("qwen3", _Packer("awq", 4, 64, symmetric=True), WIDE),
    "awq-128": ("qwen2", _Packer("awq", 4, 128), WIDE),
    "awq-one": ("llama", _Packer("awq", 4, -1), WIDE),
    "awq-beside": ("llama", _Packer("awq", 4, 32), {"beside": "quant_config.json"}),
    "compressed-order": ("qwen2", _Packer("compressed", 4, 64, shuffled=True), WIDE),
    "compressed-8": ("qwen3", _Packer("compressed", 8, 128, symmetric=True), WIDE),
    "compressed-one": ("llama", _Packer("compressed", 4, -1), ODD),
    "gptq-3": ("llama", _Packer("gptq", 3, 32), {}),
    "gptq-3-order": ("qwen2", _Packer("gptq_v2", 3, 64, shuffled=True), WIDE),
    "gptq-3-128": ("qwen3", _Packer("gptq", 3, 128, shuffled=True, symmetric=True), WIDE),
    "gptq-3-older": ("llama", _Packer("gptq", 3, 32, version="gptqmodel:5.6.0"), {}),
    "gptq-2-order": ("qwen2", _Packer("gptq_v2", 2, 32, shuffled=True), WIDE),
    **{f"gptq-planes-{b}": ("llama", _Packer("gptq_p", b, 32, shuffled=b == 5), {}) for b in (3, 5, 6)},
    "gptq-planes-7": ("llama", _Packer("gptq_v2", 7, 32), {}),
    "awq-gemv": ("llama", _Packer("awq_gemv", 4, 32, version="gemv"), {}),
    "awq-gemv-64": ("qwen3", _Packer("awq_gemv", 4, 64, version="gemv"), WIDE),
    "awq-gemv-one": ("qwen2", _Packer("awq_gemv", 4, -1, version="gemv"), WIDE),
    "awq-fast": ("llama", _Packer("awq_fast", 4, 64, version="gemv_fast"), WIDE),
    "awq-fast-zeros": ("qwen2", _Packer("awq_fast", 4, 128, symmetric=True, version="gemv_fast"), WIDE),
    "awq-fast-llm": ("qwen3", _Packer("awq_fast", 4, 32, version="llm-awq"), WIDE),
    "awq-exllama": ("llama", _Packer("awq", 4, 32, version="exllama"), {}),
    "compressed-3": ("llama", _Packer("compressed", 3, 32, version="0.18.1"), {}),
    "compressed-5": ("llama", _Packer("compressed", 5, 32, version="0.18.1"), {}),
    "compressed-3-older": ("llama", _Packer("compressed", 3, 32, version="0.12.2"), {}),
    "compressed-7-older": ("llama", _Packer("compressed", 7, 32, version="0.12.2"), {}),
    "compressed-3-one": ("llama", _Packer("compressed", 3, -1, version="0.18.0"), ODD),
    "compressed-3-one-older": ("llama", _Packer("compressed", 3, -1, version="0.17.1"), ODD),
    "compressed-3-symmetric": ("qwen3", _Packer("compressed", 3, 64, symmetric=True, version="0.18.1"), WIDE),
}
QUICK = ("awq", "gptq-order", "compressed", "gptq-3", "awq-gemv")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_layouts(name: str, tmp_path: Path) -> None:
    """The codes stay codes; tokens and logits are those of the numbers they stand for."""
    kind, packer, changes = CASES[name]
    own = lms.quantised(tmp_path, kind, packer, **changes)
    assert isinstance(read_folder(tmp_path).weights["0.q"](), Blocks)
    model, prompt = glow.LanguageModel(tmp_path, activations="f32"), lms.prompt_of(30)
    assert list(model.generate(prompt, 8)) == lms.continued(own, prompt, 8)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(prompt), want, atol=3e-5 * np.abs(want).max())
    near = glow.LanguageModel(tmp_path).logits(prompt)
    assert np.abs(near - want).max() < 0.1 * np.abs(want).max()


@pytest.mark.slow
def test_in_float(tmp_path: Path) -> None:
    """A backend for quantised operators in float rounds no activations."""
    lms.quantised(tmp_path, "llama", _Packer("gptq", 4, 32))
    models = [glow.LanguageModel(tmp_path, activations="f32")]
    models += [glow.LanguageModel(tmp_path, backend=get_backend("cpu").in_float(e)) for e in (True, False)]
    floats, exact, rounded = (m.logits(lms.prompt_of(20)) for m in models)
    np.testing.assert_array_equal(exact, floats)
    assert not np.array_equal(rounded, floats)


def _read(settings: dict[str, Any], **stored: dict[str, Array]) -> dict[str, Any]:
    """The matrices NAME of parts, as a folder with these settings has them."""
    tensors = {f"{n}.{e}": (lambda a=a: a) for n, parts in stored.items() for e, a in parts.items()}
    made = with_packed(tensors, quantization_of(settings, "here"), "here")
    return {n: loader() for n, loader in made.items() if n.endswith(".weight")}


def _matrix(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape or (64, 96)).astype(np.float32)


def test_bits_of_each_matrix() -> None:
    """Matrices of one folder may have codes of different widths: their sizes tell."""
    packers = {f"m{bits}": _Packer("gptq", bits, 32) for bits in (2, 3, 4, 8)}
    stored = {n: packer(_matrix()) for n, packer in packers.items()}
    made = _read(packers["m4"].settings, **{n: parts for n, (parts, _) in stored.items()})
    for name, (_, near) in stored.items():
        np.testing.assert_allclose(made[f"{name}.weight"].array(), near, atol=1e-6)


@pytest.mark.parametrize(("bits", "held"), [(1, 1), (2, 2), (3, 4), (5, 8)])
def test_memory_of_codes(bits: int, held: int) -> None:
    """Codes of a width that does not divide bytes lie in the next one that does."""
    packer = _Packer("compressed", bits, 32, version="0.18.1")
    parts, near = packer(_matrix())
    (made,) = _read(packer.settings, a=parts).values()
    assert made.bits == held and made.codes.shape == (64, 96 * held // 8)
    np.testing.assert_allclose(made.array(), near, atol=1e-6)


@pytest.mark.parametrize("one", [True, False])
def test_plain_points(one: bool) -> None:
    """Points that are not packed, as old files have them; and one scale and point for the whole matrix."""
    codes = np.random.default_rng(0).integers(0, 16, (8, 64)).astype(np.uint8)
    scales, points = np.full((8, 2), 0.25, np.float32), np.full((8, 2), 3, np.int8)
    parts: dict[str, Array] = {"weight_packed": _words(codes, 4), "weight_shape": np.array(codes.shape)}
    parts["weight_scale"] = scales[:1, 0] if one else scales
    parts["weight_zero_point"] = points[:1, 0] if one else points
    (made,) = _read(_Packer("compressed", 4, 32, version="0.9.1").settings, a=parts).values()
    np.testing.assert_array_equal(made.array(), (codes.astype(np.float32) - 8 - 3) * 0.25)


def test_mixed_layouts() -> None:
    """Some matrices of a folder packed, others of 8 bits, which an older name stands for, too."""
    packer = _Packer("compressed", 4, 32)
    parts, near = packer(_matrix())
    eight = np.random.default_rng(0).integers(-128, 128, (64, 96)).astype(np.int8)
    other = {"weight": eight, "weight_scale": np.full((64, 1), 0.5, np.float32)}
    made = _read({**packer.settings, "format": "mixed-precision"}, a=parts, b=other)
    np.testing.assert_allclose(made["a.weight"].array(), near, atol=1e-6)
    np.testing.assert_array_equal(made["b.weight"].array(), eight * np.float32(0.5))
    (alone,) = _read({**packer.settings, "format": "naive-quantized"}, b=other).values()
    np.testing.assert_array_equal(alone.array(), eight * np.float32(0.5))


def _turned(place: str) -> dict[str, Any]:
    steps = {"R1": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": place}]}}
    return {"transform_config": {"config_groups": steps}}


COMPRESSED, FAST = _Packer("compressed", 4, 32), _Packer("awq_fast", 4, 32, version="gemv_fast")
REFUSED: dict[str, tuple[_Packer, dict[str, Any], dict[str, Callable[[Array], Array]], str]] = {
    "rotation": (
        _Packer("gptq", 4, 32),
        {"rotation": "hadamard"},
        {},
        "needs rotated activations ('hadamard')",
    ),
    "transform": (COMPRESSED, _turned("input"), {}, "needs rotated activations ('input')"),
    "table": (COMPRESSED, {"transform_config": "R1"}, {}, "'transform_config' is not a table of settings"),
    "gemv": (
        _Packer("awq_gemv", 4, 32, version="gemv"),
        {"group_size": None},
        {},
        "its settings have no 'group_size', which 'gemv' needs",
    ),
    "fast": (FAST, {}, {"qweight": lambda x: x[:, :32]}, "32 inputs; this layout has them 64 by 64"),
    "fast points": (FAST, {}, {"scaled_zeros": lambda x: x[:1]}, "scaled_zeros (64, 1) do not match"),
    "fast words": (FAST, {}, {"qweight": lambda x: x.view(np.int32)}, "qweight' is int32 [16, 32]"),
    "planes": (_Packer("gptq_p", 5, 32), {}, {"qweight": lambda x: x[:-1]}, "codes of 5 bits 32 by 32"),
    "floats": (_Packer("gptq", 4, 32), {}, {"scales": lambda x: x.view(np.int16)}, "scales' is int16"),
    "bits": (
        _Packer("compressed", 7, 32, version="0.12.2"),
        {"config_groups": {str(b): {"weights": {"num_bits": b}} for b in (7, 8)}},
        {},
        "64 codes in 16 words of 32 bits cannot be recognised as codes of 8 or 7 bits",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What would be read wrong is refused; weights that were turned once and for all are not."""
    packer, changes, damage, message = REFUSED[name]
    parts = packer(_matrix(64, 64))[0]
    assert "a.weight" in _read(packer.settings | _turned("weight_input"), a=parts)
    parts |= {n: change(parts[n]) for n, change in damage.items()}
    with pytest.raises(glow.GlowError) as caught:
        _read(packer.settings | changes, a=parts)
    assert message in str(caught.value) and "here" in str(caught.value)


def _without(name: str) -> Callable[[dict[str, Array]], None]:
    return lambda tensors: [tensors.pop(n) for n in list(tensors) if n.endswith(name)] and None  # pyright: ignore


def _changed(ending: str, change: Callable[[Array], Array]) -> Callable[[dict[str, Array]], None]:
    return lambda tensors: tensors.update({n: change(x) for n, x in tensors.items() if n.endswith(ending)})


GPTQ_KNOWN = "of gptq is not supported; supported are: gptq, gptq_v2, gptq_p"
DAMAGE: dict[str, tuple[dict[str, Any], Callable[[dict[str, Array]], None] | None, str]] = {
    "method": (
        {"quant_method": "aqlm"},
        None,
        "weights quantised by 'aqlm' are not supported; supported are: "
        "awq, bitsandbytes, compressed-tensors, ",
    ),
    "layout": ({"checkpoint_format": "marlin"}, None, f"the layout 'marlin' {GPTQ_KNOWN}"),
    "older layout": ({"is_marlin_format": True}, None, f"the layout 'marlin' {GPTQ_KNOWN}"),
    "awq": (
        {"quant_method": "awq", "checkpoint_format": None, "version": "marlin"},
        None,
        "the layout 'marlin' of awq is not supported; supported are: gemm, gemv, gemv_fast, llm-awq",
    ),
    "floats": (
        {"quant_method": "compressed-tensors", "checkpoint_format": None, "format": "nvfp4-pack-quantized"},
        None,
        "the layout 'nvfp4-pack-quantized' of compressed-tensors is not "
        "supported; supported are: pack-quantized",
    ),
    "bits": (
        {},
        _changed("qzeros", lambda x: x[:, :-1]),
        "64 codes in 7 words of 32 bits cannot be recognised as codes of 1 to 8 bits",
    ),
    "meta": ({"meta": "gptqmodel"}, None, "'meta' is not a table of settings"),
    "text": ({"group_size": "four"}, None, "is not a table of settings with a group size"),
    "missing": ({}, _without("qzeros"), "the weights have no 'model.layers.0.self_attn.q_proj.qzeros'"),
    "kind": ({}, _changed("qweight", lambda x: x.astype(np.int64)), "qweight' is int64"),
    "sizes": ({}, _changed("q_proj.scales", lambda x: x[:, :-1]), "do not match"),
    "no index": ({"group_size": 48}, _without("g_idx"), "do not match"),
    "short index": ({}, _changed("g_idx", lambda x: x[:-1]), "g_idx' is [63] for 64 inputs"),
    "groups": ({}, _changed("g_idx", lambda x: x * 0), "do not match"),
    "unequal": (
        {},
        _changed("g_idx", lambda x: np.where(np.arange(len(x)) == 40, 1, x)),
        "does not assign 16 inputs to each group",
    ),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    lms.quantised(folder, "llama", _Packer("gptq", 4, 16))
    return folder


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged(name: str, packed: Path, tmp_path: Path) -> None:
    """One message: what does not fit, and where."""
    settings, change, message = DAMAGE[name]
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] |= settings
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = load_file(packed / "model.safetensors")
    if change is not None:
        change(tensors)
    save_file({n: np.ascontiguousarray(t) for n, t in tensors.items()}, tmp_path / "model.safetensors")
    with pytest.raises(glow.GlowError) as caught:
        next(glow.LanguageModel(tmp_path).generate([1, 2], 1))
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)


def test_without_settings(packed: Path, tmp_path: Path) -> None:
    """Nothing says how the weights are packed: the message names the files that would."""
    config = json.loads((packed / "config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((packed / "model.safetensors").read_bytes())
    with pytest.raises(glow.GlowError, match=r"is packed, and neither .* nor quantize_config\.json"):
        glow.LanguageModel(tmp_path)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("llama", 4), *(pytest.param(k, 8, marks=pytest.mark.slow) for k in ("gpt2", "gpt_neox", "phi3"))],
)
def test_saved(kind: str, bits: int, tmp_path: Path) -> None:
    """What was rounded here and saved is the same when it is loaded, bit by bit."""
    lms.written(tmp_path / "floats", kind)
    model, prompt = glow.LanguageModel(tmp_path / "floats", weights=f"int{bits}"), lms.prompt_of(20)
    model.save(tmp_path / "few")
    again = glow.LanguageModel(tmp_path / "few")
    assert isinstance(again.files.weights["0.q"](), Blocks)
    np.testing.assert_array_equal(again.logits(prompt), model.logits(prompt))
    before, after = (sum(f.stat().st_size for f in (tmp_path / n).iterdir()) for n in ("floats", "few"))
    assert after < 0.7 * before


def test_saving_what_cannot_be(tmp_path: Path, packed: Path) -> None:
    lms.written(tmp_path / "floats", "llama")
    floats = glow.LanguageModel(tmp_path / "floats")
    with pytest.raises(glow.GlowError, match="no weights are quantised; load it with weights='int4'"):
        floats.save(tmp_path / "few")
    with pytest.raises(glow.GlowError, match="is not saved over its own files"):
        floats.save(tmp_path / "floats")
    with pytest.raises(glow.GlowError, match="quantised already; copy the folder"):
        glow.LanguageModel(packed).save(tmp_path / "few")
    lms.written(tmp_path / "latents", "deepseek_v3", kv_lora_rank=32)
    with pytest.raises(glow.GlowError, match="kv_b_proj' projects latents to keys and values"):
        glow.LanguageModel(tmp_path / "latents", weights="int4").save(tmp_path / "few")
