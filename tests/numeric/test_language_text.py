"""Texts of language models: tokenizers, streaming, stop texts, conversations, the command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("jinja2")

import language_models as lms
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import glow_compiler as glow
from glow_compiler.gguf_tokenizer import tokenizer_of
from glow_compiler.language_model import LanguageModel
from glow_compiler.language_text import Stream
from glow_compiler.token_text import TokenText
from glow_tools.generate import main

CORPUS = ["the cat sat on the mat", "a dog ran to the cat", "ünïcode: 12 tést, don't"] * 9
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'cook' %}{{ raise_exception('no cooks') }}"
    "{% endif %}[{{ m.role }}] {{ m.content }} {% endfor %}{% if add_generation_prompt %}[bot]{% endif %}"
)


def bytes_tokenizer() -> Any:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=letters)
    made.train_from_iterator(CORPUS, trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("texts")
    lms.written(made, "llama", vocab_size=300, bos_token_id=0, eos_token_id=1)
    bytes_tokenizer().save(str(made / "tokenizer.json"))
    (made / "chat_template.jinja").write_text(TEMPLATE)
    (made / "tokenizer_config.json").write_text('{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}')
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return glow.LanguageModel(folder)


def test_pieces(model: LanguageModel) -> None:
    """The pieces of a text are the text of the tokens; each one knows the token that completed it."""
    tokens = list(model.generate(model.texts.tokens("the cat"), 30))
    pieces = list(model.generate("the cat", 30))
    assert "".join(pieces) == model.texts.text(tokens)
    assert {int(p.token) for p in pieces} <= {int(t) for t in tokens}


def test_whole_characters(model: LanguageModel) -> None:
    """Bytes of a character are held back until it is whole."""
    stream, whole = Stream(model.texts, []), "tést ünï!"
    parts = [stream.add(t) for t in model.texts.tokens(whole, special=False)]
    assert "".join(parts) + stream.rest() == whole and not any("�" in p for p in parts)


def test_stop_texts(model: LanguageModel) -> None:
    """The text ends before a stop text, no part of which is given."""
    whole = "".join(model.generate("the cat", 40))
    stop = next(whole[i : i + 2] for i in range(4, len(whole)) if whole[i : i + 2].isascii())
    want = whole[: whole.index(stop)]
    assert "".join(model.generate("the cat", 40, stop=stop)) == want
    assert "".join(model.generate("the cat", 40, stop=[stop, "~~~~"])) == want
    tokens = list(model.generate(model.texts.tokens("the cat"), 40, stop=[stop]))
    assert stop in model.texts.text(tokens) and stop not in model.texts.text(tokens[:-1])


class Pieces:
    """Texts whose tokens are pieces of bytes."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def text(self, tokens: Sequence[int]) -> str:
        return b"".join(self.pieces[t] for t in tokens).decode(errors="replace")

    def after(self, prompt: Sequence[int] | None) -> TokenText:
        return TokenText(self.text, lambda token: False, prompt or ())


def cut(texts: Pieces, tokens: Sequence[int], stops: Sequence[str]) -> str:
    """The text before the first stop text, looked for in all of it after each token."""
    for end in range(1, len(tokens) + 1):
        whole = texts.text(tokens[:end])
        if begins := [whole.index(stop) for stop in stops if stop in whole]:
            return whole[: min(begins)]
    return texts.text(tokens)


def test_stop_texts_over_tokens() -> None:
    """As by a plain search after each token; nothing is given that a stop text then takes."""
    texts = Pieces(b"a", b"b", b"ab", b"aab", "é".encode(), b"\xc3", b"\xa9")
    random = np.random.default_rng(0)
    for _ in range(3000):
        tokens = [int(t) for t in random.integers(5, size=random.integers(1, 14))]
        tokens = [part for t in tokens for part in ((5, 6) if t == 4 and random.random() < 0.5 else (t,))]
        stops = [
            "".join(random.choice(list("abé"), random.integers(1, 6))) for _ in range(random.integers(1, 4))
        ]
        stream, given = Stream(cast(Any, texts), stops), ""
        for token in tokens:
            given += stream.add(token)
            if stream.stopped:
                break
        assert given + stream.rest() == cut(texts, tokens, stops), (tokens, stops)


@pytest.mark.parametrize("stop", ["b" + "a" * 1_000_000, "ab" * 500_000, "a" * 1_000_000 + "b"])
def test_long_stop_texts_are_searched_in_linear_time(stop: str) -> None:
    """A second a token was a minute."""
    stream = Stream(cast(Any, Pieces(b"ab" * 50, b"a" * 100)), [stop])
    began = time.process_time()
    for number in range(50):
        stream.add(number % 2)
    assert time.process_time() - began < 1 and not stream.stopped


def test_conversation(model: LanguageModel) -> None:
    """The template's text is the prompt; what it refuses is said."""
    messages = [{"role": "user", "content": "a dog"}]
    prompt = "<s>[user] a dog [bot]"
    assert model.texts.conversation(messages) == prompt
    tokens = model.texts.tokens(prompt, special=False)
    want = model.texts.text(list(model.generate(tokens, 12)))
    assert "".join(model.chat(messages, max_tokens=12)) == want
    with pytest.raises(glow.GlowError, match="the chat template refuses the messages: no cooks"):
        model.chat([{"role": "cook", "content": "soup"}])


def test_command(folder: Path, model: LanguageModel, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, tokens and speed; usage and bad input."""
    assert main([str(folder), "the cat", "--max-tokens", "9"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == "".join(model.generate("the cat", 9)).rstrip("\n")
    assert main([str(folder), "--tokens", "5,6", "--max-tokens", "4", "--bench"]) == 0
    made = capsys.readouterr()
    assert made.out.strip() == ",".join(map(str, model.generate([5, 6], 4)))
    assert "prompt: 2 tokens, " in made.err and "answer: 4 tokens, " in made.err
    assert main([str(folder), "--tokens", "300"]) == 1
    assert "error: token 300 is out of range: the model has 300 tokens" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main([str(folder)])
    assert caught.value.code == 2


TEXTS = ["the cat sat", "ünïcode  12\n", "don't  <s> dog</s>", ""]


def test_bytes_of_gguf() -> None:
    """A tokenizer of bytes by what GGUF files say of it."""
    own = bytes_tokenizer()
    vocabulary = own.get_vocab()
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    import json

    merges = [" ".join(m) for m in json.loads(own.to_str())["model"]["merges"]]
    types = [3, 3, *[1] * (len(words) - 2)]
    settings = {
        "model": "gpt2",
        "tokens": words,
        "merges": merges,
        "token_type": types,
        "bos_token_id": 0,
        "pre": "gpt-2",
    }
    made = tokenizer_of("x", settings | {"add_bos_token": True})
    for text in TEXTS:
        assert made.encode(text).ids == own.encode(text).ids
        assert made.decode(made.encode(text).ids) == own.decode(own.encode(text).ids)


def test_pieces_of_gguf() -> None:
    """A tokenizer of pieces: the best merges first, bytes for what is unknown."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    pieces = {"▁": -9.0, "t": -9.0, "h": -9.0, "e": -9.0, "th": -2.0, "he": -1.0, "▁t": -3.0}
    words += list(pieces)
    settings = {
        "model": "llama",
        "tokens": words,
        "scores": [*[0.0] * 259, *pieces.values()],
        "token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        "bos_token_id": 1,
        "unknown_token_id": 0,
    }
    made = tokenizer_of("x", settings)

    def spelt(text: str) -> list[str]:
        return [words[i] for i in made.encode(text).ids]

    assert spelt("the") == ["<s>", "▁t", "he"]  # "he" is better than "th"
    assert spelt("h é") == ["<s>", "▁", "h", "▁", "<0xC3>", "<0xA9>"]
    assert made.decode(made.encode("h é the").ids) == "h é the"


def test_unknown_tokenizer() -> None:
    """A kind that is not known is named."""
    with pytest.raises(glow.UnsupportedError, match="x: a tokenizer of kind 't5'; there are: gpt2, llama"):
        tokenizer_of("x", {"model": "t5", "tokens": []})
