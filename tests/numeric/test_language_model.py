"""Language models of folders against transformers, token by token; caches, sequences, errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import language_models as lms

import glow_compiler as glow
from glow_compiler.language_model import LanguageModel
from glow_frontends.language.huggingface_names import NAMES

slow = pytest.mark.slow
FIRST = ["llama", *(pytest.param(k, marks=slow) for k in lms.KINDS if k != "llama")]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, lms.written(folder, "llama")


@pytest.fixture(scope="module")
def model(llama: tuple[Path, Any]) -> LanguageModel:
    return glow.LanguageModel(llama[0])


def test_kinds_are_tested() -> None:
    """Every architecture has a model here."""
    alike = {"kimi_k2"}  # DeepSeek V3 by another name, in test_language_families
    assert set(NAMES) == {kind.partition("-")[0] for kind in lms.KINDS} | alike


@pytest.mark.parametrize("kind", FIRST)
def test_greedy_tokens(kind: str, tmp_path: Path) -> None:
    """Prompts of one piece, a padded piece and several; logits and tokens as transformers has them."""
    own = lms.written(tmp_path, kind)
    model = glow.LanguageModel(tmp_path)
    for length in (1, 5, 40, 150):
        prompt = lms.prompt_of(length)
        assert list(model.generate(prompt, 20)) == lms.continued(own, prompt, 20), length
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(model.logits(prompt), want, atol=2e-5 * np.abs(want).max())


@pytest.mark.slow
def test_positions_change_with_the_length(tmp_path: Path) -> None:
    """A text that grows past the places that a model was first made for is read again, with the others."""
    own, prompt = lms.written(tmp_path, "phi3-long"), lms.prompt_of(55)
    model = glow.LanguageModel(tmp_path)
    assert list(model.generate(prompt, 20)) == lms.continued(own, prompt, 20)
    short = glow.LanguageModel(tmp_path, capacity=64)
    with lms.torch.no_grad():
        want = own(lms.torch.tensor([prompt])).logits[0].numpy()
    np.testing.assert_allclose(short.logits(prompt), want, atol=2e-5 * np.abs(want).max())


def test_interpreter(llama: tuple[Path, Any]) -> None:
    """The references of the operators generate the same."""
    prompt = lms.prompt_of(9)
    made = list(glow.LanguageModel(llama[0], backend="interpreter").generate(prompt, 4))
    assert made == lms.continued(llama[1], prompt, 4)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves(kind: str, tmp_path: Path) -> None:
    """Weights of 16 bits are taken as they are: the tokens of the same numbers in 32 bits."""
    own = lms.written(tmp_path, "llama").to(getattr(lms.torch, kind))
    own.save_pretrained(tmp_path / "half")
    prompt = lms.prompt_of(30)
    model = glow.LanguageModel(tmp_path / "half")
    assert list(model.generate(prompt, 12)) == lms.continued(own.float(), prompt, 12)
    labels = {c.label for c in next(iter(model.programs.programs.values())).selection.calls}  # pyright: ignore
    assert "matmul_half" in labels and "glow_cpu_instr.gemm" not in labels


def test_threads(llama: tuple[Path, Any]) -> None:
    """Several workers generate the same."""
    prompt = lms.prompt_of(140)
    made = list(glow.LanguageModel(llama[0], threads=3).generate(prompt, 8))
    assert made == lms.continued(llama[1], prompt, 8)


def test_prefixes_are_kept(llama: tuple[Path, Any]) -> None:
    """What the cache holds of a text is not computed again, and what it holds of another one is not seen."""
    model = glow.LanguageModel(llama[0])
    calls: list[int] = []
    run = model.programs._run

    def counted(tokens: Any, *rest: Any, **named: Any) -> Any:
        calls.append(len(tokens))
        return run(tokens, *rest, **named)

    model.programs._run = counted
    prompt = lms.prompt_of(40)
    first = list(model.generate(prompt, 3))
    assert calls == [16, 16, 8, 1, 1]
    calls.clear()
    assert list(model.generate([*prompt, *first], 1)) == lms.continued(llama[1], [*prompt, *first], 1)
    assert calls == [1]
    calls.clear()
    other = [*prompt[:20], 5, 6, 7]
    assert list(model.generate(other, 6)) == lms.continued(llama[1], other, 6)
    assert calls[0] == 3


def test_generators_may_take_turns(llama: tuple[Path, Any], model: LanguageModel) -> None:
    """Two generators on one cache: each one continues its own text."""
    prompts = [lms.prompt_of(7), lms.prompt_of(12)]
    both = [model.generate(p, 6) for p in prompts]
    made = [[next(g) for g in both] for _ in range(6)]
    for number, prompt in enumerate(prompts):
        assert [row[number] for row in made] == lms.continued(llama[1], prompt, 6)


def test_many(llama: tuple[Path, Any]) -> None:
    """Several sequences in one cache, of which one ends early."""
    model = glow.LanguageModel(llama[0])
    prompts = [lms.prompt_of(n) for n in (3, 20, 1)]
    want = [lms.continued(llama[1], p, 9) for p in prompts]
    assert model.generate_many(prompts, 9) == want
    assert list(model.generate(prompts[1], 9)) == want[1]
    stop = want[0][2]
    cut = [w[: w.index(stop) + 1] if stop in w else w for w in want]
    assert model.generate_many(prompts, 9, stop=stop) == cut


def test_capacity_grows(llama: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that outgrows the cache goes on, with what was in it."""
    import glow_compiler.language_programs as programs

    monkeypatch.setattr(programs, "FIRST_CAPACITY", 64)
    model = glow.LanguageModel(llama[0])
    prompt = lms.prompt_of(60)
    assert list(model.generate(prompt, 10)) == lms.continued(llama[1], prompt, 10)
    assert model.programs.capacity == 128 and len(model.programs.slots[0].tokens) == 69


def test_long_texts_change_no_others(tmp_path: Path) -> None:
    """With other positions in long texts, each text of a batch gets what it gets alone, later too."""
    made = lms.written(tmp_path, "phi3")
    model = glow.LanguageModel(tmp_path)
    prompts = [lms.prompt_of(n) for n in (70, 5, 60, 64, 65, 90)]  # 64 is the longest that is short
    want = [lms.continued(made, p, 7) for p in prompts]
    assert model.generate_many(prompts, 7) == want
    for number in (1, 0, 2, 1, 3):
        assert list(model.generate(prompts[number], 7)) == want[number]


def test_log_probabilities(llama: tuple[Path, Any], model: LanguageModel) -> None:
    """Of the token and of the likeliest, as transformers has them."""
    prompt = lms.prompt_of(11)
    (token,) = model.generate(prompt, 1, logprobs=3)
    with lms.torch.no_grad():
        logits = llama[1](lms.torch.tensor([prompt])).logits[0]
    want = lms.torch.log_softmax(logits[-1].double(), -1).numpy()
    assert token.logprob == pytest.approx(want.max(), abs=1e-4)
    assert [t for t, _ in token.top] == np.argsort(-want)[:3].tolist()
    losses = lms.torch.nn.functional.cross_entropy(logits[:-1], lms.torch.tensor(prompt[1:]))
    assert model.perplexity(prompt) == pytest.approx(float(losses.exp()), rel=1e-4)


def test_ends(llama: tuple[Path, Any], model: LanguageModel) -> None:
    """A token that ends texts is the last one; so is one of `stop`."""
    prompt = lms.prompt_of(8)
    want = lms.continued(llama[1], prompt, 12)
    last = want.index(want[4])
    assert list(model.generate(prompt, 12, stop=[want[4]])) == want[: last + 1]
    assert list(model.generate(prompt, 0)) == []


BAD: dict[str, tuple[Callable[[LanguageModel], Any], str]] = {
    "token": (lambda m: next(m.generate([3, 97])), "token 97 is out of range: the model has 97 tokens"),
    "negative": (lambda m: next(m.generate([-1])), "token -1 is out of range"),
    "empty": (lambda m: next(m.generate([])), "a text without tokens has no next token"),
    "floats": (lambda m: m.generate([0.5]), "a prompt is a text or a list of tokens, not list"),  # pyright: ignore
    "full": (
        lambda m: next(m.generate([1] * 257)),
        "the cache is full: a text of 257 tokens, the model is made for 256",
    ),
    "temperature": (lambda m: m.generate([1], temperature=-1), "temperature=-1: expected a number from 0"),
    "top_p": (lambda m: m.generate([1], top_p=2), "top_p=2: expected a number from 0 to 1"),
    "penalty": (lambda m: m.generate([1], repetition_penalty=0), "repetition_penalty=0"),
    "count": (lambda m: m.generate([1], -1), "max_tokens=-1: expected a number from 0"),
    "text": (lambda m: m.generate("hello"), "there is no tokenizer.json; use tokens instead of text"),
    "chat": (lambda m: m.chat([]), "there is no chat template"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls(name: str, model: LanguageModel) -> None:
    """One clear message each, and the model is as good as before."""
    call, message = BAD[name]
    with pytest.raises(glow.GlowError) as caught:
        call(model)
    assert message in str(caught.value)
    assert len(list(model.generate([1, 2], 2))) == 2


def test_full_capacity(llama: tuple[Path, Any]) -> None:
    """A capacity that was chosen does not grow: what fits is generated."""
    made: Iterator[int] = glow.LanguageModel(llama[0], capacity=12).generate(lms.prompt_of(9), 20)
    with pytest.raises(glow.GlowError, match="the cache is full: a text of 13 tokens, capacity=12"):
        for count, _ in enumerate(made, 1):  # noqa: B007
            pass
    assert count == 4


def _damaged(folder: Path, case: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    first = min(folder.glob("*.safetensors"))
    data = first.read_bytes()
    if case == "unknown":
        config["model_type"] = "parrot"
    elif case == "missing":
        del config["hidden_size"]
    elif case == "activation":
        config["hidden_act"] = "snake"
    elif case == "cut":
        first.write_bytes(data[:-4])
    elif case == "head":
        first.write_bytes(data[:20])
    elif case == "more":
        config["num_hidden_layers"] = 1
    elif case == "shard":
        first.unlink()
    elif case == "none":
        for file in folder.glob("*.safetensors*"):
            file.unlink()
    (folder / "config.json").write_text("{" if case == "json" else json.dumps(config))


MESSAGES = {
    "unknown": "the architecture 'parrot' is not supported; supported are: arcee, ",
    "missing": "config.json: 'hidden_size' is missing",
    "activation": "the activation 'snake' is not supported",
    "cut": "the file is truncated: '",
    "head": "the file is truncated: 20 bytes",
    "more": "'model.layers.1.input_layernorm.weight', one of 9 such weights, is no part of the architecture",
    "shard": "No such file or directory",
    "none": "there are no .safetensors files",
    "json": "config.json: this is not JSON",
}


@pytest.mark.parametrize("case", MESSAGES)
def test_damaged_folders(case: str, llama: tuple[Path, Any], tmp_path: Path) -> None:
    """What is wrong with a folder, and where."""
    for file in llama[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    _damaged(tmp_path, case)
    with pytest.raises(glow.GlowError) as caught:
        glow.LanguageModel(tmp_path)
    assert MESSAGES[case] in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_attention_heads": 0}, "config.json: 'num_attention_heads' is 0, expected an integer"),
        ({"num_attention_heads": -4}, "'num_attention_heads' is -4, expected an integer"),
        ({"hidden_size": "wide"}, "'hidden_size' is 'wide', expected an integer"),
        ({"hidden_size": 3.5}, "'hidden_size' is 3.5, expected an integer"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 heads of keys and values"),
        ({"rms_norm_eps": "small"}, "'rms_norm_eps' is 'small', expected a number"),
        ({"rope_theta": []}, "'rope_theta' is [], expected a number"),
        ({"vocab_size": None}, "'vocab_size' is missing"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rotary positions are scaled, and 'factor' is missing"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "x"}}, "positions cannot be read: {'rope_type':"),
        ({"rope_scaling": {"rope_type": "twist"}}, "rotary positions scaled by 'twist' are not supported"),
        (
            {"use_bidirectional_attention": True},
            "'use_bidirectional_attention' is set, which changes the model",
        ),
    ],
)
def test_settings_that_are_no_such_numbers(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 1,
        "vocab_size": 10, "intermediate_size": 16, "max_position_embeddings": 32, "hidden_act": "silu",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({**config, **settings}))
    with pytest.raises(glow.GlowError) as caught:
        glow.LanguageModel(tmp_path)
    assert message in str(caught.value)


def test_no_model(tmp_path: Path) -> None:
    """A path at which there is none."""
    with pytest.raises(glow.GlowError, match="no such file or folder"):
        glow.LanguageModel(tmp_path / "nothing")
