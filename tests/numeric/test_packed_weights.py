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
from glow_frontends.language.packed_weights import with_packed

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def _words(codes: Array, bits: int, order: list[int] | None = None) -> Array:
    """Codes along the last axis in words of 32 bits, one after the other, the last filled with zeros."""
    each = 32 // bits
    codes = np.pad(codes, [(0, 0), (0, -codes.shape[-1] % each)])
    made = np.zeros((*codes.shape[:-1], codes.shape[-1] // each), np.uint32)
    for i in range(each):
        made |= codes[..., (order or list(range(each)))[i] :: each].astype(np.uint32) << np.uint32(bits * i)
    return made.view(np.int32)


class _Packer:
    """Rounds matrices [outputs, inputs] and stores them in a layout.

    Groups of `group` inputs (-1: one of all), the last perhaps a short one; `shuffled`: of any inputs.
    """

    def __init__(
        self, layout: str, bits: int, group: int, shuffled: bool = False, symmetric: bool = False
    ) -> None:
        self.layout, self.bits, self.group = layout, bits, group
        self.shuffled, self.symmetric = shuffled, symmetric
        self.random = np.random.default_rng(0)

    @property
    def settings(self) -> dict[str, Any]:
        """The table in config.json, as the tools write it."""
        sizes = {"bits": self.bits, "group_size": self.group}
        if self.layout == "awq":
            return {"quant_method": "awq", "version": "gemm", "zero_point": True, **sizes}
        if self.layout == "compressed":
            weights = {"num_bits": self.bits, "group_size": self.group, "symmetric": self.symmetric}
            groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
            method = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
            return {**method, "config_groups": groups, "ignore": ["lm_head"]}
        return {"quant_method": "gptq", "checkpoint_format": self.layout, "sym": self.symmetric, **sizes}

    def __call__(self, weight: Array) -> tuple[dict[str, Array], Array]:
        """The parts of a matrix, and the matrix that they stand for."""
        codes, points, scales, groups = self._rounded(weight)
        near = ((codes - points[groups].astype(np.float32)) * scales[groups].astype(np.float32)).T
        parts = getattr(self, f"_{self.layout.partition('_')[0]}")(codes, points, scales, groups)
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

    def _gptq(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        rows = _words(points, self.bits)
        if self.layout == "gptq":  # less one in every place, by one subtraction
            ones = int("1".rjust(self.bits, "0") * (32 // self.bits), 2)
            rows = (rows.view(np.uint32) - np.uint32(ones)).view(np.int32)
        parts = {"qweight": _words(codes.T, self.bits).T, "qzeros": rows, "scales": scales}
        return parts | {"g_idx": groups.astype(np.int32)}

    def _compressed(self, codes: Array, points: Array, scales: Array, groups: Array) -> Any:
        shape = np.array(codes.shape[::-1])
        parts = {"weight_packed": _words(codes.T, self.bits), "weight_scale": scales.T, "weight_shape": shape}
        if not self.symmetric:
            parts["weight_zero_point"] = _words(points, self.bits).T
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
}
QUICK = ("awq", "gptq-order", "compressed")


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


def test_in_float(tmp_path: Path) -> None:
    """A backend for quantised operators in float rounds no activations."""
    lms.quantised(tmp_path, "llama", _Packer("gptq", 4, 32))
    models = [glow.LanguageModel(tmp_path, activations="f32")]
    models += [glow.LanguageModel(tmp_path, backend=get_backend("cpu").in_float(e)) for e in (True, False)]
    floats, exact, rounded = (m.logits(lms.prompt_of(20)) for m in models)
    np.testing.assert_array_equal(exact, floats)
    assert not np.array_equal(rounded, floats)


def test_bits_of_each_matrix(tmp_path: Path) -> None:
    """Matrices of one folder may have codes of different widths: their sizes tell."""
    four, eight = _Packer("gptq", 4, 32), _Packer("gptq", 8, 32)
    weight = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)
    stored = {"a": four(weight), "b": eight(weight)}
    tensors = {f"{n}.{e}": (lambda a=a: a) for n, (parts, _) in stored.items() for e, a in parts.items()}
    made = with_packed(tensors, four.settings, "here")
    for name, (_, near) in stored.items():
        np.testing.assert_allclose(made[f"{name}.weight"]().array(), near, atol=1e-6)  # pyright: ignore


def _without(name: str) -> Callable[[dict[str, Array]], None]:
    return lambda tensors: [tensors.pop(n) for n in list(tensors) if n.endswith(name)] and None  # pyright: ignore


def _changed(ending: str, change: Callable[[Array], Array]) -> Callable[[dict[str, Array]], None]:
    return lambda tensors: tensors.update({n: change(x) for n, x in tensors.items() if n.endswith(ending)})


GPTQ_KNOWN = "of gptq is not known; there are: gptq, gptq_v2"
DAMAGE: dict[str, tuple[dict[str, Any], Callable[[dict[str, Array]], None] | None, str]] = {
    "method": (
        {"quant_method": "aqlm"},
        None,
        "weights quantised by 'aqlm' are not known; there are: awq, bitsandbytes, compressed-tensors, ",
    ),
    "layout": ({"checkpoint_format": "marlin"}, None, f"the layout 'marlin' {GPTQ_KNOWN}"),
    "older layout": ({"is_marlin_format": True}, None, f"the layout 'marlin' {GPTQ_KNOWN}"),
    "awq": (
        {"quant_method": "awq", "checkpoint_format": None, "version": "gemv"},
        None,
        "the layout 'gemv' of awq is not known; there are: gemm",
    ),
    "floats": (
        {"quant_method": "compressed-tensors", "checkpoint_format": None, "format": "nvfp4-pack-quantized"},
        None,
        "the layout 'nvfp4-pack-quantized' of compressed-tensors is not known; there are: pack-quantized",
    ),
    "bits": (
        {},
        _changed("qzeros", lambda x: np.resize(x, (len(x), x.shape[1] * 3 // 4))),
        "64 codes in 6 words of 32 bits; codes of 2, 4, 8 bits are known",
    ),
    "text": ({"group_size": "four"}, None, "is no table of settings with a number of inputs in a group"),
    "missing": ({}, _without("qzeros"), "the weights have no 'model.layers.0.self_attn.q_proj.qzeros'"),
    "kind": ({}, _changed("qweight", lambda x: x.astype(np.int64)), "qweight' is int64"),
    "sizes": ({}, _changed("q_proj.scales", lambda x: x[:, :-1]), "do not fit together"),
    "no index": ({"group_size": 48}, _without("g_idx"), "do not fit together"),
    "short index": ({}, _changed("g_idx", lambda x: x[:-1]), "g_idx' is [63] for 64 inputs"),
    "groups": ({}, _changed("g_idx", lambda x: x * 0), "do not fit together"),
    "unequal": (
        {},
        _changed("g_idx", lambda x: np.where(np.arange(len(x)) == 40, 1, x)),
        "does not give each group 16 inputs",
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
    with pytest.raises(glow.GlowError, match="no weights have few bits; load it with weights='int4'"):
        floats.save(tmp_path / "few")
    with pytest.raises(glow.GlowError, match="is not saved over its own files"):
        floats.save(tmp_path / "floats")
    with pytest.raises(glow.GlowError, match="few bits already; copy the folder"):
        glow.LanguageModel(packed).save(tmp_path / "few")
    lms.written(tmp_path / "latents", "deepseek_v3", kv_lora_rank=32)
    with pytest.raises(glow.GlowError, match="kv_b_proj' makes keys and values of latents"):
        glow.LanguageModel(tmp_path / "latents", weights="int4").save(tmp_path / "few")
