"""GGUF files: blocks against the `gguf` package, models against transformers, damage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("transformers")

import gguf_models
import language_models as lms

import glow_compiler as glow
from glow_dialects.ops.dequantize_blocks import pack
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.gguf_tensors import KINDS


@pytest.mark.parametrize("number", KINDS)
def test_kinds_of_blocks(number: int) -> None:
    """Random bytes mean what the package says."""
    kind, r = KINDS[number], np.random.default_rng(0)
    raw = r.integers(0, 256, (6, 2 * kind.size)).astype(np.uint8)
    blocks = raw.reshape(-1, kind.size)
    for at in gguf_models.HALVES.get(kind.name, [0]):
        blocks[:, at : at + 2] = r.uniform(-1, 1, (len(blocks), 1)).astype(np.float16).view(np.uint8)
    want = gguf_models.gguf.quants.dequantize(raw, gguf_models.gguf.GGMLQuantizationType(number))
    codes, scales, points = kind.parts(blocks)
    depth = 2 * kind.elements
    packed = pack(codes.reshape(6, depth), kind.bits)
    rows = None if points is None else points.reshape(6, -1)
    made = Blocks(packed, scales.reshape(6, -1), kind.bits, kind.run, depth, kind.point, rows)
    np.testing.assert_allclose(made.array(), want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 16}
MODELS = [
    ("llama", "Q4_0", {}),
    pytest.param("llama", "F32", {}, marks=pytest.mark.slow),
    pytest.param("llama", "MXFP4", {}, marks=pytest.mark.slow),
    pytest.param("llama", "IQ4_NL", {}, marks=pytest.mark.slow),
    pytest.param("llama", "Q2_K", WIDE, marks=pytest.mark.slow),
    pytest.param("llama", "Q3_K", WIDE, marks=pytest.mark.slow),
    pytest.param("llama", "IQ4_XS", WIDE, marks=pytest.mark.slow),
    pytest.param("llama", "Q4_K", WIDE, marks=pytest.mark.slow),
    pytest.param("llama", "Q6_K", WIDE, marks=pytest.mark.slow),
    pytest.param("qwen2", "Q4_1", {}, marks=pytest.mark.slow),
    pytest.param("qwen3", "Q5_0", {}, marks=pytest.mark.slow),
    pytest.param("qwen3", "Q8_0", {}, marks=pytest.mark.slow),
    pytest.param("mixtral", "Q4_0", {}, marks=pytest.mark.slow),
    pytest.param("mixtral", "Q4_K", WIDE, marks=pytest.mark.slow),
    pytest.param("olmoe", "Q8_0", {}, marks=pytest.mark.slow),
    pytest.param("qwen2_moe", "F16", {"mlp_only_layers": []}, marks=pytest.mark.slow),
    pytest.param("qwen3_moe", "Q8_0", {}, marks=pytest.mark.slow),
    pytest.param("qwen3_moe", "Q6_K", WIDE | {"moe_intermediate_size": 256}, marks=pytest.mark.slow),
    pytest.param("qwen3_moe", "MXFP4", {}, marks=pytest.mark.slow),
    pytest.param("olmo2", "F32", {}, marks=pytest.mark.slow),
    pytest.param("smollm3", "F32", {"pad_token_id": 0, "num_hidden_layers": 4}, marks=pytest.mark.slow),
    pytest.param("gemma2", "F16", {"query_pre_attn_scalar": 16}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "form", "changes"), MODELS)
def test_models(kind: str, form: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """The tokens of transformers with the weights that the file stands for; near them in 8 bits."""
    own = lms.written(tmp_path / "folder", kind, **changes)
    file = tmp_path / "model.gguf"
    gguf_models.written(file, own, form)
    model, prompt = glow.LanguageModel(file, activations="f32"), lms.prompt_of(30)
    assert list(model.generate(prompt, 10)) == lms.continued(own, prompt, 10)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())
    if form.startswith("Q"):
        apart = np.abs(glow.LanguageModel(file).logits(prompt) - want).max(1)
        # Where experts are nearly as good as each other, 8 bits may choose others.
        most = np.median(apart) if kind in lms.ROUTED else apart.max()
        assert 1e-4 < most < 0.06 * np.abs(want).max()


_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_STRETCHED = {
    "add_rope_scaling_type": gguf_models.gguf.RopeScalingType.YARN,
    "add_rope_scaling_factor": 4.0,
    "add_rope_scaling_orig_ctx_len": 64,
}
_SIGMOID = {"add_expert_gating_func": gguf_models.gguf.ExpertGatingFuncType.SIGMOID}
FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "arcee": ("arcee", {}, {}),
    "command-r": ("cohere", {}, {}),
    "cohere2": ("cohere2", {}, {}),
    "deepseek2": ("deepseek_v3", {}, _SIGMOID),
    "deepseek2-stretched": (
        "deepseek_v2",
        {"rope_scaling": _YARN | {"mscale": 0.7, "mscale_all_dim": 0.7}, "q_lora_rank": None},
        _STRETCHED | {"add_rope_scaling_yarn_log_mul": 0.07},
    ),
    "dots1": ("dots1", {"n_group": 1, "topk_group": 1}, _SIGMOID),
    "ernie4_5": ("ernie4_5", {}, {}),
    "ernie4_5-moe": ("ernie4_5_moe", {}, {}),
    "exaone4": ("exaone4", {}, {}),
    "glm4": ("glm4", {}, {}),
    "glm4moe": ("glm4_moe", {"n_group": 1, "topk_group": 1}, {}),
    "gpt-oss": ("gpt_oss", {"rope_scaling": _YARN | {"truncate": False}, "swiglu_limit": 7.0}, _STRETCHED),
    "gptneox": ("gpt_neox", {}, {}),
    "granitemoe-shared": (
        "granitemoeshared",
        {"attention_multiplier": 0.2, "residual_multiplier": 0.5},
        {"add_attention_scale": 0.2, "add_residual_scale": 0.5},
    ),
    "hunyuan-dense": ("hunyuan_v1_dense", {}, {}),
    "hunyuan-moe": ("hunyuan_v1_moe", {}, {}),
    "minimax-m2": ("minimax_m2", {}, {}),
    "nemotron": ("nemotron", {}, {}),
    "olmo": ("olmo", {}, {"add_clamp_kqv": 0.5}),
    "phimoe": ("phimoe", {}, {}),
    "seed_oss": ("seed_oss", {}, {}),
    "stablelm": ("stablelm-parallel", {"qk_layernorm": False}, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str, tmp_path: Path) -> None:
    """One of each architecture, in floats; names are those of the package, pairs as llama.cpp turns them."""
    kind, changes, settings = FAMILIES[name]
    own = lms.written(tmp_path / "folder", kind, **changes)
    gguf_models.written(tmp_path / "model.gguf", own, "F32", **settings)
    model = glow.LanguageModel(tmp_path / "model.gguf")
    for length in (3, 150):
        prompt = lms.prompt_of(length)
        with lms.torch.no_grad():
            want = own(lms.torch.tensor([prompt])).logits[0].numpy()
        np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())
        assert list(model.generate(prompt, 10)) == lms.continued(own, prompt, 10)


@pytest.mark.slow
def test_granite_with_experts(tmp_path: Path) -> None:
    """Scales of Granite beside experts; files that say how routers score."""
    own = lms.written(tmp_path / "folder", "granitemoe", attention_multiplier=0.2)
    file, prompt = tmp_path / "model.gguf", lms.prompt_of(30)
    scales: dict[str, Any] = {
        "add_attention_scale": 0.2,
        "add_residual_scale": 0.5,
        "add_expert_weights_norm": True,
    }
    softmax = gguf_models.gguf.ExpertGatingFuncType.SOFTMAX
    gguf_models.written(file, own, "Q8_0", **scales, add_expert_gating_func=softmax)
    model = glow.LanguageModel(file, activations="f32")
    assert list(model.generate(prompt, 10)) == lms.continued(own, prompt, 10)
    other = SimpleNamespace(value=7)
    gguf_models.written(file, own, "F32", **scales, add_expert_gating_func=other)
    with pytest.raises(glow.GlowError, match="'granitemoe.expert_gating_func' is 7; softmax"):
        glow.LanguageModel(file)


SHORT, LONG = np.linspace(1, 2, 8, dtype=np.float32), np.linspace(2, 6, 8, dtype=np.float32)
SCALED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, np.ndarray]]] = {
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        {
            "add_rope_scaling_type": gguf_models.gguf.RopeScalingType.YARN,
            "add_rope_scaling_factor": 4.0,
            "add_rope_scaling_orig_ctx_len": 64,
        },
        {},
    ),
    "longrope": (
        {"rope_type": "longrope", "short_factor": SHORT.tolist(), "long_factor": LONG.tolist()},
        {
            "add_rope_scaling_attn_factors": (1 + np.log(256 / 64) / np.log(64)) ** 0.5,
            "add_rope_scaling_orig_ctx_len": 64,
        },
        {"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG},
    ),
    "linear": (
        {"rope_type": "linear", "factor": 2.0},
        {
            "add_rope_scaling_type": gguf_models.gguf.RopeScalingType.LINEAR,
            "add_rope_scaling_factor": 2.0,
        },
        {},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCALED)
def test_scaled_positions(kind: str, tmp_path: Path) -> None:
    """Rotary positions as settings and tensors stretch them, for short texts and long ones."""
    theirs, settings, tensors = SCALED[kind]
    more = {"original_max_position_embeddings": 64} if kind == "longrope" else {}
    own = lms.written(tmp_path / "folder", "llama", rope_scaling=theirs, **more)
    gguf_models.written(tmp_path / "model.gguf", own, "F32", tensors, **settings)
    model = glow.LanguageModel(tmp_path / "model.gguf")
    for length in (30, 100):
        prompt = lms.prompt_of(length)
        with lms.torch.no_grad():
            want = own(lms.torch.tensor([prompt])).logits[0].numpy()
        np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())


SCALES: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]] = {
    "scaled by 'longrope' are not known": (
        {"add_rope_scaling_type": gguf_models.gguf.RopeScalingType.LONGROPE},
        {},
    ),
    "3 factors stretch 8 pairs": ({}, {"rope_freqs.weight": np.ones(3, np.float32)}),
    "'llama.rope.scaling.factor' is 0": ({"add_rope_scaling_factor": 0.0}, {}),
}


@pytest.mark.parametrize("message", SCALES)
def test_positions_that_are_not_known(message: str, tmp_path: Path) -> None:
    """A scale that is unknown or does not fit is told."""
    settings, tensors = SCALES[message]
    gguf_models.written(tmp_path / "model.gguf", lms.written(tmp_path, "llama"), "F32", tensors, **settings)
    with pytest.raises(glow.GlowError, match=message):
        glow.LanguageModel(tmp_path / "model.gguf")


def test_weights_that_are_not_known(tmp_path: Path) -> None:
    """Nothing of a file is left out in silence."""
    own, gate = lms.written(tmp_path, "llama"), {"blk.0.ffn_gate_inp.weight": np.ones((4, 64), np.float32)}
    gguf_models.written(tmp_path / "model.gguf", own, "F32", gate)
    with pytest.raises(
        glow.GlowError, match="'blk.0.ffn_gate_inp.weight', one of 1 such weights, is no part"
    ):
        glow.LanguageModel(tmp_path / "model.gguf")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    gguf_models.written(folder / "model.gguf", lms.written(folder, "llama"), "Q8_0")
    return folder / "model.gguf"


DAMAGE = {
    "cut": (lambda d: d[:-4000], "the file is truncated: '"),
    "head": (lambda d: d[:300], "the file is truncated at byte 300, in its header"),
    "magic": (lambda d: b"GGML" + d[4:], "this is no GGUF file"),
    "version": (lambda d: d[:4] + b"\7" + d[5:], "GGUF of version 7; versions 2 and 3 are known"),
    "count": (lambda d: d[:8] + b"\xff" * 8 + d[16:], "the head is damaged: a count of"),
    "kind": (
        lambda d: d.replace(b"llama", b"drama"),
        "the architecture 'drama' is not supported; supported are: ",
    ),
    "empty": (lambda d: b"", "the file is empty"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files(case: str, file: Path, tmp_path: Path) -> None:
    """One message: what, and where."""
    change, message = DAMAGE[case]
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(change(file.read_bytes()))
    with pytest.raises(glow.GlowError) as caught:
        glow.LanguageModel(damaged)
    assert str(damaged) in str(caught.value) and message in str(caught.value)


@pytest.mark.slow
def test_own_weights(tmp_path: Path) -> None:
    """Weights of 8 and 4 bits made here are near the floats; what cannot be asked for is said."""
    own = lms.written(tmp_path, "llama")
    prompt = lms.prompt_of(20)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    errors = [
        np.sqrt(
            np.square(glow.LanguageModel(tmp_path, weights=w, activations=a).logits(prompt) - want).mean()
        )
        for w, a in (("int8", "f32"), ("int8", "int8"), ("int4", "int8"))
    ]
    assert errors == sorted(errors) and errors[1] < 0.05 * want.std() and errors[2] < 0.4 * want.std()
    for options, message in (
        ({"weights": "int3"}, "weights='int3': expected stored, int8 or int4"),
        ({"group": 0}, "group=0: expected a number of inputs"),
        ({"activations": "f64"}, "activations='f64': expected int8 or f32"),
    ):
        with pytest.raises(glow.GlowError, match=message):
            glow.LanguageModel(tmp_path, **options)  # pyright: ignore
