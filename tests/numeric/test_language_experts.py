"""Language models with mixtures of experts against transformers: routes, weights of few bits, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import language_models as lms
from safetensors.numpy import load_file, save_file

import glow_compiler as glow
from glow_dialects.ops.dequantize_blocks import dequantize_blocks
from glow_passes.quantize.weight_blocks import quantize_blocks

slow = pytest.mark.slow
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_moe": ("qwen3_moe", {}),
    "qwen3_moe-plain": ("qwen3_moe", {"norm_topk_prob": False, "num_experts_per_tok": 1}),
    "olmoe-normalised": ("olmoe", {"norm_topk_prob": True, "num_experts_per_tok": 2}),
    "olmoe-clipped": ("olmoe", {"clip_qkv": 0.5}),
    "mixtral-all": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 4}),
    "qwen2_moe": ("qwen2_moe", {"norm_topk_prob": True, "mlp_only_layers": []}),
}
FIRST = [pytest.param(name, marks=() if name == "qwen3_moe" else slow) for name in ROUTES]
KINDS = [pytest.param(kind, marks=() if kind == "qwen3_moe" else slow) for kind in lms.ROUTED]


def logits_of(own: Any, prompt: list[int]) -> np.ndarray:
    with lms.torch.no_grad():
        return own(lms.torch.tensor([prompt])).logits[0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_routes(name: str, tmp_path: Path) -> None:
    """Few and all experts, shares that add up to 1 or not; one token, a few, more than a piece."""
    kind, changes = ROUTES[name]
    own = lms.written(tmp_path, kind, **changes)
    model = glow.LanguageModel(tmp_path)
    for length in (1, 2, 17, 100):
        prompt = lms.prompt_of(length)
        want = logits_of(own, prompt)
        np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())
        assert list(model.generate(prompt, 8)) == lms.continued(own, prompt, 8), length


@pytest.mark.slow
def test_several_texts(tmp_path: Path) -> None:
    """Texts that go on together; several workers."""
    own = lms.written(tmp_path, "qwen3_moe")
    prompts = [lms.prompt_of(n) for n in (3, 20, 1)]
    model = glow.LanguageModel(tmp_path, threads=3)
    assert model.generate_many(prompts, 9) == [lms.continued(own, p, 9) for p in prompts]


def test_interpreter(tmp_path: Path) -> None:
    """The references of the operators generate the same."""
    own, prompt = lms.written(tmp_path, "qwen2_moe"), lms.prompt_of(9)
    made = list(glow.LanguageModel(tmp_path, backend="interpreter").generate(prompt, 4))
    assert made == lms.continued(own, prompt, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves(kind: str, tmp_path: Path) -> None:
    """Weights of 16 bits are taken as they are."""
    own = lms.written(tmp_path, "qwen3_moe").to(getattr(lms.torch, kind))
    own.save_pretrained(tmp_path / "half")
    prompt = lms.prompt_of(30)
    model = glow.LanguageModel(tmp_path / "half")
    assert list(model.generate(prompt, 12)) == lms.continued(own.float(), prompt, 12)
    labels = {c.label for c in next(iter(model.programs.programs.values())).selection.calls}  # pyright: ignore
    assert "expert_matmul" in labels and "matmul_half" in labels


def rounded_folder(folder: Path, bits: int, group: int) -> Path:
    """The folder with every matrix of its layers and the head as its codes stand for, but for routers."""
    tensors = {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}
    for name, array in tensors.items():
        routes = any(part in name for part in (".gate.weight", ".router.", "shared_expert_gate"))
        if array.ndim < 2 or "embed" in name or routes:
            continue
        codes, scales = quantize_blocks(array.reshape(-1, array.shape[-1]), bits, group)
        form: dict[str, Any] = {"bits": bits, "block": group, "depth": array.shape[-1], "levels": None}
        near = dequantize_blocks(codes, scales, None, point=float(1 << (bits - 1)), **form)
        tensors[name] = near.reshape(array.shape)
    target = folder / "rounded"
    target.mkdir()
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text((folder / "config.json").read_text())
    return target


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [4, pytest.param(8, marks=slow)])
def test_few_bits(kind: str, bits: int, tmp_path: Path) -> None:
    """The logits of the numbers that codes stand for, with floats; with 8 bits near them at first."""
    lms.written(tmp_path, kind, intermediate_size=64)
    folder = rounded_folder(tmp_path, bits, 32)
    own = lms.transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    prompt = lms.prompt_of(100)
    want = logits_of(own, prompt)
    model = glow.LanguageModel(tmp_path, weights=f"int{bits}", activations="f32")
    np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())
    assert list(model.generate(prompt, 5)) == lms.continued(own, prompt, 5)
    fast = glow.LanguageModel(tmp_path, weights=f"int{bits}")
    labels = {c.label for p in (fast.logits(prompt), fast.programs.programs)[1].values() for c in calls(p)}
    assert "glow_cpu_instr.integer_block_gemm" in labels and "expert_matmul" not in labels
    pieces = np.stack([fast.programs.logits([prompt[:n]])[0] for n in (1, 2, 17)])
    np.testing.assert_allclose(pieces, fast.logits(prompt)[[0, 1, 16]], atol=1e-5 * np.abs(want).max())


def calls(program: Any) -> Any:
    return program.selection.calls


def changed(folder: Path, **settings: Any) -> None:
    """Change settings of a folder."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_errors(tmp_path: Path) -> None:
    """Experts that are missing or too many, more choices than experts, what computes otherwise."""
    lms.written(tmp_path, "olmoe")
    gate = r"model.layers.\d.mlp.experts."
    changed(tmp_path, num_experts=9)
    with pytest.raises(
        glow.GlowError, match=rf"of 9 experts the weights '{gate}8.gate_proj.weight' are missing"
    ):
        glow.LanguageModel(tmp_path)
    changed(tmp_path, num_experts=7)
    with pytest.raises(
        glow.GlowError, match=rf"'{gate}7.down_proj.weight', one of 6 such weights, is no part"
    ):
        glow.LanguageModel(tmp_path)
    changed(tmp_path, num_experts=8, num_experts_per_tok=9)
    with pytest.raises(glow.GlowError, match="a token cannot choose 9 of 8 experts"):
        glow.LanguageModel(tmp_path)
    changed(tmp_path, num_experts_per_tok=2, is_encoder_decoder=True)
    with pytest.raises(glow.GlowError, match="'is_encoder_decoder' is set"):
        glow.LanguageModel(tmp_path)


def test_experts_of_other_sizes(tmp_path: Path) -> None:
    """One expert that does not fit the others is told with the name of them all."""
    lms.written(tmp_path, "qwen3_moe")
    for file in tmp_path.glob("*.safetensors"):
        tensors = load_file(file)
        for name in tensors:
            if name.endswith("layers.0.mlp.experts.3.up_proj.weight"):
                tensors[name] = np.ones((16, 64), np.float32)
        save_file(tensors, file)
    message = r"experts.\*.up_proj.weight': sizes of experts differ: \[32, 64\] and \[16, 64\]"
    with pytest.raises(glow.GlowError, match=message):
        list(glow.LanguageModel(tmp_path).generate([3], 1))


def test_weights_beside_experts(tmp_path: Path) -> None:
    """A layer has experts or it has none: weights of the other kind are not left out in silence."""
    lms.written(tmp_path, "qwen3_moe", mlp_only_layers=[1])
    beside = {"model.layers.0.mlp.up_proj.weight": np.ones((96, 64), np.float32)}
    save_file(beside, tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(glow.GlowError, match=r"'model.layers.0.mlp.up_proj.weight', one of 1 such weights"):
        glow.LanguageModel(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    for file in tmp_path.glob("*.safetensors"):
        tensors = {n: t for n, t in load_file(file).items() if "mlp.gate." not in n}
        save_file(tensors, file)
    with pytest.raises(glow.GlowError, match=r"experts.\*.down_proj.weight', one of 3 such weights"):
        glow.LanguageModel(tmp_path)


@pytest.mark.slow
def test_saving(tmp_path: Path) -> None:
    """Experts of few bits are saved one by one, and are the same model when they are read."""
    lms.written(tmp_path / "own", "qwen3_moe", intermediate_size=64)
    model, prompt = glow.LanguageModel(tmp_path / "own", weights="int4"), lms.prompt_of(20)
    model.save(tmp_path / "saved")
    saved = glow.LanguageModel(tmp_path / "saved")
    assert "model.layers.1.mlp.experts.7.down_proj.qweight" in load_file(tmp_path / "saved/model.safetensors")
    np.testing.assert_array_equal(saved.logits(prompt), model.logits(prompt))
    lms.written(tmp_path / "joined", "granitemoe", intermediate_size=64)
    with pytest.raises(glow.GlowError, match="output_linear' contains all experts"):
        glow.LanguageModel(tmp_path / "joined", weights="int4").save(tmp_path / "not")


def test_scores_of_other_experts(tmp_path: Path) -> None:
    """A router that scores more experts than there are would choose what is not there."""
    lms.written(tmp_path, "qwen3_moe")
    for file in tmp_path.glob("*.safetensors"):
        tensors = load_file(file)
        for name in tensors:
            if name.endswith("layers.0.mlp.gate.weight"):
                tensors[name] = np.ones((10, 64), np.float32)
        save_file(tensors, file)
    with pytest.raises(glow.GlowError, match=r"'0.router' has 10 outputs for 8 experts"):
        list(glow.LanguageModel(tmp_path).generate([3], 1))
