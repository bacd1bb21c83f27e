"""Folders with weights of 8 bits and of bitsandbytes, against transformers with what they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("transformers")

import language_models as lms
from safetensors.numpy import save_file

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.huggingface import read_folder
from glow_frontends.language.safetensors import folder_tensors

F8 = ml_dtypes.float8_e4m3fn
Parts = tuple[dict[str, Array], Array]
"""The parts of a matrix by name, and the matrix that they stand for."""


@dataclass(frozen=True)
class _Packer:
    """A way to store a matrix, and the settings that say so."""

    pack: Callable[[Array], Parts]
    settings: dict[str, Any]

    def __call__(self, weight: Array) -> Parts:
        parts, near = self.pack(weight)
        return {n: np.ascontiguousarray(p) for n, p in parts.items()}, near


def _spread(scales: Array, high: int, wide: int, shape: tuple[int, ...]) -> Array:
    """A number for each element, of those for rectangles."""
    return scales.repeat(high, 0)[: shape[0]].repeat(wide, 1)[:, : shape[1]]


def _floats(name: str, high: int, wide: int) -> Callable[[Array], Parts]:
    """e4m3 with a scale for each rectangle; -1: as many as there are."""

    def pack(weight: Array) -> Parts:
        sides = [
            length if side < 0 else side for side, length in zip((high, wide), weight.shape, strict=True)
        ]
        padded = np.pad(weight, [(0, -n % s) for n, s in zip(weight.shape, sides, strict=True)])
        grid = np.abs(padded).reshape(-1, sides[0], padded.shape[1] // sides[1], sides[1]).max((1, 3)) / 448
        grid = np.maximum(grid.astype(np.float32), 1e-9)
        every = _spread(grid, *sides, weight.shape)
        codes = (weight / every).astype(F8)
        scales = grid[0, 0] if high == wide == -1 else grid
        extra = {"input_scale": np.float32(0.1)} if high == -1 else {}
        return {"weight": codes, name: scales, **extra}, codes.astype(np.float32) * every

    return pack


def _ints(weight: Array) -> Parts:
    """A scale for each row, in bfloat16, as compressed-tensors writes it."""
    scales = (np.abs(weight).max(1, keepdims=True) / 127).astype(ml_dtypes.bfloat16)
    real = scales.astype(np.float32)
    codes = np.clip(np.rint(weight / real), -128, 127).astype(np.int8)
    return {"weight": codes, "weight_scale": scales}, codes * real


def _pointed_ints(weight: Array) -> Parts:
    low, high = weight.min(1, keepdims=True), weight.max(1, keepdims=True)
    scales = ((high - low) / 255).astype(np.float32)
    points = np.rint(-128 - low / scales).astype(np.int8)
    codes = np.clip(np.rint(weight / scales) + points, -128, 127).astype(np.int8)
    near = (codes.astype(np.float32) - points) * scales
    return {"weight": codes, "weight_scale": scales, "weight_zero_point": points}, near


def _llm_int8(weight: Array) -> Parts:
    most = np.abs(weight).max(1).astype(np.float32)
    codes = np.rint(weight / most[:, None] * 127).astype(np.int8)
    parts = {"weight": codes, "SCB": most, "weight_format": np.uint8(0)}
    return parts, codes * (most[:, None] / np.float32(127))


def _four_bits(kind: str, block: int, nested: bool) -> Callable[[Array], Parts]:
    """Two codes in a byte, the first above; blocks run through all rows. `nested`: scales are codes, too."""
    table = np.sort(np.random.default_rng(3).uniform(-1, 1, 16)).astype(np.float32)
    inner = np.linspace(-1, 1, 256).astype(np.float32)

    def pack(weight: Array) -> Parts:
        flat = weight.reshape(-1)
        runs = np.pad(flat, (0, -flat.size % block)).reshape(-1, block)
        scales = np.abs(runs).max(1).astype(np.float32)
        form = {"quant_type": kind, "blocksize": block, "dtype": "float32", "shape": list(weight.shape)}
        parts: dict[str, Array] = {"weight.quant_map": table, "weight.absmax": scales}
        if nested:
            mean = np.float32(scales.mean())
            own = np.pad(scales - mean, (0, -scales.size % 256)).reshape(-1, 256)
            most = np.abs(own).max(1).astype(np.float32)
            chosen = np.abs(((scales - mean) / most.repeat(256)[: scales.size])[:, None] - inner).argmin(1)
            parts |= {"weight.nested_absmax": most, "weight.nested_quant_map": inner}
            parts["weight.absmax"] = chosen.astype(np.uint8)
            form |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(mean)}
            scales = inner[chosen] * most.repeat(256)[: scales.size] + mean
        codes = (
            np.abs((runs / scales[:, None]).reshape(-1)[: flat.size, None] - table).argmin(1).astype(np.uint8)
        )
        parts["weight"] = (codes[::2] << 4 | codes[1::2]).reshape(-1, 1)
        state = np.frombuffer(json.dumps(form).encode(), np.uint8)
        parts[f"weight.quant_state.bitsandbytes__{kind}"] = state
        return parts, (table[codes] * scales.repeat(block)[: flat.size]).reshape(weight.shape)

    return pack


def _compressed(layout: str, **weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": groups}


def _blocked(*sides: int) -> dict[str, Any]:
    return {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(sides)}


NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
INT8 = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True}
WIDE = {"hidden_size": 128, "head_dim": 32, "intermediate_size": 256, "num_hidden_layers": 1}
ODD = {"hidden_size": 100, "head_dim": 10, "intermediate_size": 60, "num_hidden_layers": 1}
CASES: dict[str, tuple[str, _Packer, dict[str, Any]]] = {
    "fp8": ("qwen3", _Packer(_floats("weight_scale_inv", 64, 32), _blocked(64, 32)), WIDE),
    "fp8-odd": ("llama", _Packer(_floats("weight_scale_inv", 48, 32), _blocked(48, 32)), ODD),
    "fp8-experts": ("qwen3_moe", _Packer(_floats("weight_scale_inv", 64, 32), _blocked(64, 32)), {}),
    "fp8-one": ("mistral", _Packer(_floats("weight_scale_inv", -1, -1), {"quant_method": "fp8"}), {}),
    "fp8-rows": ("llama", _Packer(_floats("weight_scale", 1, -1), {"quant_method": "fbgemm_fp8"}), WIDE),
    "fp8-fused": ("phi3", _Packer(_floats("weight_scale", 1, -1), _compressed("float-quantized")), {}),
    "fp8-blocks": (
        "llama",
        _Packer(_floats("weight_scale", 64, 64), _compressed("float-quantized", block_structure=[64, 64])),
        WIDE,
    ),
    "fp8-modelopt": (
        "llama",
        _Packer(_floats("weight_scale", -1, -1), {"quant_method": "modelopt", "quant_algo": "FP8"}),
        ODD,
    ),
    "int8": ("qwen2", _Packer(_ints, _compressed("int-quantized", num_bits=8)), WIDE),
    "int8-points": ("llama", _Packer(_pointed_ints, _compressed("int-quantized", num_bits=8)), ODD),
    "llm-int8": ("llama", _Packer(_llm_int8, INT8), {}),
    "nf4": ("llama", _Packer(_four_bits("nf4", 64, nested=True), NF4), WIDE),
    "fp4": ("qwen2", _Packer(_four_bits("fp4", 32, nested=False), NF4 | {"bnb_4bit_quant_type": "fp4"}), {}),
    "nf4-over-rows": ("llama", _Packer(_four_bits("nf4", 64, nested=False), NF4), ODD),
}
QUICK = ("fp8", "nf4")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_layouts(name: str, tmp_path: Path) -> None:
    """Tokens and logits are those of the numbers that the parts stand for; codes stay codes."""
    kind, packer, changes = CASES[name]
    own = lms.quantised(tmp_path, kind, packer, **changes)
    assert isinstance(read_folder(tmp_path).weights["0.q"](), Blocks) == (name != "nf4-over-rows")
    model, prompt = glow.LanguageModel(tmp_path, activations="f32"), lms.prompt_of(30)
    assert list(model.generate(prompt, 8)) == lms.continued(own, prompt, 8)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(prompt), want, atol=3e-5 * np.abs(want).max())
    near = glow.LanguageModel(tmp_path).logits(prompt)
    bound = 0.1 if "int8" in name else 3e-5  # activations of ints alone are rounded
    assert np.abs(near - want).max() < bound * np.abs(want).max()


Change = Callable[[dict[str, Array]], None]


def _changed(ending: str, change: Callable[[Array], Array | None]) -> Change:
    """Change what ends so, or drop it."""

    def apply(tensors: dict[str, Array]) -> None:
        for name in [n for n in tensors if n.endswith(ending)]:
            made = change(tensors.pop(name))
            if made is not None:
                tensors[name] = made

    return apply


DAMAGE: dict[str, tuple[str, dict[str, Any] | None, Change | None, str]] = {
    "no scales": (
        "fp8",
        {},
        _changed("scale_inv", lambda x: None),
        "has 8 bits, and no scales",
    ),
    "scales": ("fp8", {}, _changed("q_proj.weight_scale_inv", lambda x: x[:-1]), "do not fit the weights"),
    "cubes": ("fp8", {}, _changed("q_proj.weight_scale_inv", lambda x: x[None]), "do not fit the weights"),
    "sides": ("fp8", {"weight_block_size": [32, 64]}, None, "do not fit the weights [64, 64]"),
    "kind": (
        "fp8",
        {},
        _changed("q_proj.weight", lambda x: x.astype(np.float16)),
        "q_proj.weight' is float16",
    ),
    "none": (
        "fp8",
        {},
        _changed("q_proj.weight", lambda x: x.fill(np.nan) or x),
        "contains NaN",
    ),
    "settings": ("fp8", None, None, "is packed, and neither config.json"),
    "no table": (
        "nf4",
        {},
        _changed("q_proj.weight.absmax", lambda x: None),
        "no 'model.layers.0.self_attn.q_proj",
    ),
    "state": ("nf4", {}, _changed("__nf4", lambda x: x[1:]), "bitsandbytes__nf4' cannot be read"),
    "other state": (
        "nf4",
        {"bnb_4bit_quant_type": "fp4"},
        None,
        "weight.quant_state.bitsandbytes__fp4'",
    ),
    "levels": ("nf4", {}, _changed("q_proj.weight.quant_map", lambda x: x[1:]), "15 levels do not fit"),
    "codes": ("nf4", {}, _changed("q_proj.weight", lambda x: x[1:]), "do not fit [64, 64] in blocks of 64"),
    "no settings": ("nf4", None, None, "is packed, and neither config.json"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {n: tmp_path_factory.mktemp("scaled") for n in QUICK}
    for name, folder in made.items():
        lms.quantised(folder, "llama", CASES[name][1])
    return made


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """One message: what does not fit, and where."""
    source, settings, change, message = DAMAGE[name]
    config = json.loads((folders[source] / "config.json").read_text())
    own = config.pop("quantization_config")
    if settings is not None:
        config["quantization_config"] = own | settings
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {n: np.array(t()) for n, t in folder_tensors(folders[source]).items()}
    if change is not None:
        change(tensors)
    save_file({n: np.ascontiguousarray(t) for n, t in tensors.items()}, tmp_path / "model.safetensors")
    with pytest.raises(glow.GlowError) as caught:
        next(glow.LanguageModel(tmp_path).generate([1, 2], 1))
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)
