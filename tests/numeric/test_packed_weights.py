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
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.huggingface import read_folder

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def _words(codes: np.ndarray, bits: int, order: list[int] | None = None) -> np.ndarray:
    """Codes along the last axis in words of 32 bits, one after the other."""
    each = 32 // bits
    made = np.zeros((*codes.shape[:-1], codes.shape[-1] // each), np.uint32)
    for i in range(each):
        made |= codes[..., (order or list(range(each)))[i] :: each].astype(np.uint32) << np.uint32(bits * i)
    return made.view(np.int32)


class _Packer:
    """Rounds matrices [outputs, inputs] and stores them in a layout."""

    def __init__(self, method: str, bits: int, group: int, shuffled: bool, v2: bool) -> None:
        self.method, self.bits, self.group, self.shuffled, self.v2 = method, bits, group, shuffled, v2
        self.random = np.random.default_rng(0)

    def __call__(self, weight: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The parts of a matrix, and the matrix that they stand for."""
        outputs, inputs = weight.shape
        groups = np.arange(inputs) // self.group
        if self.shuffled:
            groups = self.random.permutation(groups)
        most = (1 << self.bits) - 1
        codes = np.zeros((inputs, outputs), np.uint8)
        scales = np.zeros((inputs // self.group, outputs), np.float16)
        points = np.zeros(scales.shape, np.uint8)
        near = np.zeros_like(weight)
        for number in range(len(scales)):
            own = weight[:, groups == number].T.astype(np.float32)
            low, high = own.min(0), own.max(0)
            scales[number] = (high - low) / most
            scale = scales[number].astype(np.float32)
            points[number] = np.clip(np.rint(-low / scale), 1, most)
            codes[groups == number] = np.clip(np.rint(own / scale) + points[number], 0, most)
            near[:, groups == number] = (
                (codes[groups == number] - points[number].astype(np.float32)) * scale
            ).T
        if self.method == "awq":
            words, rows = _words(codes, self.bits, AWQ_ORDER), _words(points, self.bits, AWQ_ORDER)
            return {"qweight": words, "qzeros": rows, "scales": scales}, near
        stored = points if self.v2 else points - 1
        words = np.ascontiguousarray(_words(np.ascontiguousarray(codes.T), self.bits).T)
        index = groups.astype(np.int32)
        rows = _words(stored, self.bits)
        return {"qweight": words, "qzeros": rows, "scales": scales, "g_idx": index}, near


def _quantised(folder: Path, kind: str, bits: int, packer: _Packer) -> Any:
    """Write a model of which all matrices of layers are packed; transformers' own of the same numbers."""
    own = lms.written(folder, kind)
    tensors = {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}
    state = own.state_dict()
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        parts, near = packer(tensors.pop(name))
        base = name.removesuffix(".weight")
        tensors |= {f"{base}.{ending}": part for ending, part in parts.items()}
        state[name].copy_(lms.torch.tensor(near))
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    settings = {"quant_method": packer.method, "bits": bits, "group_size": packer.group}
    if packer.v2:
        settings["checkpoint_format"] = "gptq_v2"
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    return own


CASES: dict[str, tuple[Any, ...]] = {
    "gptq": ("llama", "gptq", 4, 32, False, False),
    "awq": ("llama", "awq", 4, 32, False, False),
    "gptq-order": ("llama", "gptq", 4, 16, True, False),
    "gptq-8": ("qwen2", "gptq", 8, 32, False, True),
    "gptq-fused": ("phi3", "gptq", 4, 32, True, False),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("awq", "gptq-order") else pytest.mark.slow) for n in CASES]
)
def test_layouts(name: str, tmp_path: Path) -> None:
    """The codes stay codes; tokens and logits are those of the numbers they stand for."""
    kind, method, bits, *rest = CASES[name]
    own = _quantised(tmp_path, kind, bits, _Packer(method, bits, *rest))
    assert isinstance(read_folder(tmp_path).weights["0.q"](), Blocks)
    model, prompt = glow.LanguageModel(tmp_path, activations="f32"), lms.prompt_of(30)
    assert list(model.generate(prompt, 8)) == lms.continued(own, prompt, 8)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(prompt), want, atol=3e-5 * np.abs(want).max())
    near = glow.LanguageModel(tmp_path).logits(prompt)
    assert np.abs(near - want).max() < 0.1 * np.abs(want).max()


def _without(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: [tensors.pop(n) for n in list(tensors) if n.endswith(name)] and None  # pyright: ignore


DAMAGE: dict[str, tuple[dict[str, Any], Callable[[dict[str, np.ndarray]], None] | None, str]] = {
    "method": (
        {"quant_method": "aqlm"},
        None,
        "weights quantised by 'aqlm' are not known; there are: awq, gptq",
    ),
    "bits": ({"bits": 3}, None, "weights of 3 bits by gptq; there are: 4, 8"),
    "text": ({"bits": "four"}, None, "is no table of settings with a number of bits"),
    "missing": ({}, _without("qzeros"), "the weights have no 'model.layers.0.self_attn.q_proj.qzeros'"),
    "kind": (
        {},
        lambda t: t.update({n: x.astype(np.int64) for n, x in t.items() if n.endswith("qweight")}),
        "qweight' is int64",
    ),
    "sizes": (
        {},
        lambda t: t.update({n: x[:, :-1] for n, x in t.items() if n.endswith("q_proj.scales")}),
        "do not fit together",
    ),
    "groups": (
        {},
        lambda t: t.update({n: x * 0 for n, x in t.items() if n.endswith("g_idx")}),
        "g_idx' does not give each group 16 inputs",
    ),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    _quantised(folder, "llama", 4, _Packer("gptq", 4, 16, False, False))
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


@pytest.mark.parametrize(
    ("kind", "bits"), [("llama", 4), *(pytest.param(k, 8, marks=pytest.mark.slow) for k in ("gpt2", "phi3"))]
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
