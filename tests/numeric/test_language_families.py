"""What single families have of their own: weights of gpt-oss in MXFP4, routers, latents, windows; errors."""

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
from glow_frontends.language.blocks import Blocks

MXFP4_SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96}


def logits_of(own: Any, prompt: list[int]) -> np.ndarray:
    with lms.torch.no_grad():
        return own(lms.torch.tensor([prompt])).logits[0].numpy()


def check(folder: Path, own: Any, **options: Any) -> Any:
    """Prompts of one piece and several, beyond windows; the tokens of transformers."""
    model = glow.LanguageModel(folder, **options)
    for length in (1, 17, 150):
        prompt = lms.prompt_of(length)
        want = logits_of(own, prompt)
        np.testing.assert_allclose(model.logits(prompt), want, atol=1e-5 * np.abs(want).max())
        assert list(model.generate(prompt, 12)) == lms.continued(own, prompt, 12), length
    return model


def with_mxfp4(folder: Path, own: Any) -> None:
    """The folder with its experts in MXFP4, of random codes; the model gets what they stand for.

    The numbers are those of the specification (OCP Microscaling Formats 1.0): sign, two bits of exponent
    with a bias of 1, one of mantissa; a scale of 2^(e - 127) for 32 of them.
    """
    tensors = {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}
    r = np.random.default_rng(0)
    for name in [n for n in tensors if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        codes = r.integers(0, 16, (experts, outputs, inputs))
        scales = r.integers(123, 126, (experts, outputs, inputs // 32))
        exponent, mantissa = codes >> 1 & 3, codes & 1
        size = np.where(exponent, 2.0 ** (exponent - 1) * (1 + mantissa / 2), mantissa / 2)
        real = np.where(codes & 8, -size, size) * np.repeat(2.0 ** (scales - 127), 32, 2) * 0.5
        pairs = codes.reshape(experts, outputs, -1, 16, 2)
        tensors[f"{name}_blocks"] = (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8)
        tensors[f"{name}_scales"] = (scales - 1).astype(np.uint8)
        own.get_parameter(name).data.copy_(lms.torch.tensor(real.swapaxes(1, 2)))
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))


def test_mxfp4(tmp_path: Path) -> None:
    """Codes of 4 bits are taken as they are, and stay so in the program's weights."""
    own = lms.written(tmp_path, "gpt_oss", **MXFP4_SIZES)
    with_mxfp4(tmp_path, own)
    model = check(tmp_path, own)
    down = model.files.weights["0.experts_down"]()
    assert (down.bits, down.block, down.codes.shape) == (4, 32, (6, 64, 48))
    tensors = load_file(tmp_path / "model.safetensors")
    torch = lms.torch
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors  # the maker's own reading

    parts = (torch.tensor(tensors[f"model.layers.0.mlp.experts.down_proj_{n}"]) for n in ("blocks", "scales"))
    theirs = convert_moe_packed_tensors(*parts, dtype=torch.float32)
    np.testing.assert_array_equal(down.array(), theirs.numpy().swapaxes(1, 2))


def test_damaged_mxfp4(tmp_path: Path) -> None:
    """Parts that are missing, do not fit, or are no numbers."""
    own = lms.written(tmp_path, "gpt_oss", **MXFP4_SIZES)
    with_mxfp4(tmp_path, own)
    whole, name = load_file(tmp_path / "model.safetensors"), "model.layers.0.mlp.experts.down_proj_scales"
    for change, message in (
        (None, "experts.down_proj_scales' is missing, expected bytes"),
        (whole[name][:, :-1], r"_scales' \[6, 63, 3\] do not fit; a block is 16 bytes"),
        (whole[name].astype(np.float32), "_scales' is float32, expected bytes"),
        (np.full_like(whole[name], 255), "has invalid scales"),
    ):
        tensors = {n: t for n, t in whole.items() if n != name}
        save_file(tensors if change is None else tensors | {name: change}, tmp_path / "model.safetensors")
        with pytest.raises(glow.GlowError, match=message):
            next(glow.LanguageModel(tmp_path).generate([1], 1))


VISION = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "image_size": 28, "patch_size": 14, "depth": 1, "num_heads": 2, "embed_dim": 16, "out_hidden_size": 64,
    "fullatt_block_indexes": [0], "deepstack_visual_indexes": [0],
}  # fmt: skip
MROPE = {"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [2, 3, 3]}}
PARTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma3": ("gemma3", "gemma3_text", {"sliding_window": 7, "num_hidden_layers": 7}),
    "llava": ("llava", "llama", {}),
    "mistral3": ("mistral3", "mistral", {"sliding_window": 7}),
    "ministral3": ("mistral3", "ministral3", {}),
    "smolvlm": ("smolvlm", "llama", {}),
    "qwen2_vl": ("qwen2_vl", "qwen2_vl_text", MROPE),
    "qwen2_5_vl": ("qwen2_5_vl", "qwen2_5_vl_text", MROPE),
    "qwen3_vl": ("qwen3_vl", "qwen3_vl_text", {}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "gemma3" else pytest.mark.slow) for n in PARTS]
)
def test_parts_for_texts(name: str, tmp_path: Path) -> None:
    """Models that also see images continue texts alike."""
    kind, text, changes = PARTS[name]
    sizes = lms.SIZES | {"model_type": text, "pad_token_id": 0} | changes
    transformers, torch = lms.transformers, lms.torch
    config = transformers.AutoConfig.for_model(kind, text_config=sizes, vision_config=VISION)
    made = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager").eval()
    made.generation_config.eos_token_id = None
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn_like(weight) * 0.15 + (1.0 if weight.ndim == 1 else 0.0))
    made.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    settings |= {"eos_token_id": None}
    settings["text_config"] |= {"eos_token_id": None}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "generation_config.json").unlink()
    check(tmp_path, made)
    few = glow.LanguageModel(tmp_path, weights="int4")
    few.save(tmp_path / "few")  # a folder of the texts alone
    prompt = lms.prompt_of(20)
    np.testing.assert_array_equal(glow.LanguageModel(tmp_path / "few").logits(prompt), few.logits(prompt))


@pytest.mark.parametrize("kind", ["gemma3_text", "llama", "mistral"])
def test_settings_left_out(kind: str) -> None:
    """What a part leaves out is what transformers has."""
    from glow_frontends.language.huggingface_config import Config, decoder_of
    from glow_frontends.language.huggingface_parts import text_settings

    few = {"model_type": "llava", "text_config": {"model_type": kind, "num_hidden_layers": 7}}
    whole = lms.transformers.AutoConfig.for_model(kind, num_hidden_layers=7).to_dict()
    of = (decoder_of(Config(Path("config.json"), text_settings(s))) for s in (few, whole))
    assert next(of) == next(of)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "mamba2"}, "'mamba2' is not supported (it has layers that keep a state instead"),
        (
            {"model_type": "llama4"},
            "'llama4' is not supported (it has attention within chunks); supported are: arcee",
        ),
        (
            {"text_config": {"model_type": "gemma4_text"}},
            "'gemma4_text' is not supported (it has embeddings of",
        ),
        (
            {"model_type": "granitemoehybrid", "layer_types": ["mamba"]},
            "layers other than attention (Mamba)",
        ),
        (
            {"model_type": "falcon", "alibi": True},
            "'alibi' is set; attention with linear biases (ALiBi) is not",
        ),
        ({"model_type": "opt", "do_layer_norm_before": False}, "models with 'do_layer_norm_before' false or"),
        (
            {"model_type": "deepseek_v2", "topk_method": "odd"},
            "'topk_method' is 'odd'; 'group_limited_greedy'",
        ),
        ({"model_type": "deepseek_v3", "n_group": 3}, "2 of 3 groups by their 2 best experts: that does not"),
        ({"model_type": "deepseek_v3", "n_group": 4, "topk_group": 1}, "3 experts in 1 of 4 groups of 2"),
    ],
)
def test_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What is not known is told by its name, with what is missing."""
    sizes = lms.LATENT | lms.GROUPS | {"hidden_act": "silu", "rms_norm_eps": 1e-5}
    (tmp_path / "config.json").write_text(json.dumps(sizes | settings))
    with pytest.raises(glow.GlowError) as caught:
        glow.LanguageModel(tmp_path)
    assert message in str(caught.value)


def test_released_files(tmp_path: Path) -> None:
    """What files of releases have beside those that transformers writes: other names, layers that guess."""
    own = lms.written(tmp_path, "deepseek_v3")
    tensors = {n: t for file in tmp_path.glob("*.safetensors") for n, t in load_file(file).items()}
    tensors["model.layers.3.eh_proj.weight"] = np.ones((64, 128), np.float32)
    for file in tmp_path.glob("*.safetensors*"):
        file.unlink()
    save_file(tensors, tmp_path / "model.safetensors")
    settings = json.loads((tmp_path / "config.json").read_text())
    settings["num_nextn_predict_layers"] = 1
    (tmp_path / "config.json").write_text(json.dumps(settings | {"model_type": "kimi_k2"}))
    check(tmp_path, own)
    settings["num_nextn_predict_layers"] = 0
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(glow.GlowError, match=r"'model.layers.3.eh_proj.weight', one of 1 such weights"):
        glow.LanguageModel(tmp_path)


@pytest.mark.parametrize("kind", ["gpt_oss", pytest.param("deepseek_v3", marks=pytest.mark.slow)])
def test_several_texts(kind: str, tmp_path: Path) -> None:
    """Texts that go on together, with several workers; the references of the operators."""
    own = lms.written(tmp_path, kind)
    prompts = [lms.prompt_of(n) for n in (3, 20, 1)]
    want = [lms.continued(own, p, 9) for p in prompts]
    assert glow.LanguageModel(tmp_path, threads=3).generate_many(prompts, 9) == want
    assert list(glow.LanguageModel(tmp_path, backend="interpreter").generate(prompts[0], 4)) == want[0][:4]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt_oss", "deepseek_v3", "glm4_moe", "phimoe", "cohere2"])
def test_halves_and_seeds(kind: str, tmp_path: Path) -> None:
    """Weights of 16 bits are taken as they are, whatever they are."""
    for seed in range(3):
        own = lms.written(tmp_path / str(seed), kind, seed=seed).to(lms.torch.bfloat16)
        half = tmp_path / f"{seed}-half"
        own.save_pretrained(half)
        auto = lms.transformers.AutoModelForCausalLM
        check(half, auto.from_pretrained(half, dtype=lms.torch.float32, attn_implementation="eager"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt_oss", "deepseek_v3"])
def test_few_bits(kind: str, tmp_path: Path) -> None:
    """Rounded weights and activations stay near; latents are made of rounded matrices, too."""
    own, prompt = lms.written(tmp_path, kind, **WHOLE_GROUPS[kind]), lms.prompt_of(40)
    want = logits_of(own, prompt)
    for weights, apart in (("int8", 0.05), ("int4", 0.5)):
        model = glow.LanguageModel(tmp_path, weights=weights, activations="f32")
        error = np.median(np.abs(model.logits(prompt) - want).max(1))
        assert 1e-5 < error < apart * np.abs(want).max(), weights
    if kind == "deepseek_v3":
        made = [model.files.weights[f"1.{name}"]() for name in ("k_up", "v_up")]
        assert all(isinstance(weight, Blocks) and weight.bits == 4 for weight in made)


WHOLE_GROUPS = {"gpt_oss": {}, "deepseek_v3": {"kv_lora_rank": 32, "qk_nope_head_dim": 32, "q_lora_rank": 32}}
