"""Streams of tokens: the text is that of all tokens after the prompt's, whatever they depend on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from glow_compiler.language_text import Stream, Texts
from glow_frontends.language import LanguageFiles

BYTES = [f"<0x{b:02X}>" for b in range(256)]


def sentencepiece() -> Tokenizer:
    """Llama 2's kind: pieces with their space before them, bytes for other characters."""
    words = ["<unk>", *BYTES, "▁", "▁▁", "▁once", "▁upon", "▁a", "a", "▁time", "é", "▁\n"]
    made = Tokenizer(
        models.BPE({w: i for i, w in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>")
    )
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(parts)
    return made


def metaspace() -> Tokenizer:
    """Gemma's and others' kind: the first token's space is no space."""
    words = ["<unk>", "▁", "▁▁", "▁once", "▁a", "a", "time", "▁time"]
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, [], unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return made


def letters() -> Tokenizer:
    """GPT-2's kind: bytes as letters."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġtime", "Ã©"]
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def wordpiece() -> Tokenizer:
    """BERT's kind: spaces between words that are written together with what is before them by ##."""
    words = ["[UNK]", "a", "time", "##s", "don", "'", "t", ".", ",", "once"]
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return made


KINDS = (sentencepiece, metaspace, letters, wordpiece)


def texts_of(made: Any, folder: Path) -> Texts:
    made.add_special_tokens(["<s>", "</s>"])
    made.add_tokens([AddedToken("<tool>", special=False)])
    made.save(str(folder / "tokenizer.json"))
    return Texts(LanguageFiles("x", None, {}, tokenizer=folder / "tokenizer.json"))  # pyright: ignore


def streamed(stream: Stream, tokens: Sequence[int]) -> str:
    return "".join(map(stream.add, tokens)) + stream.rest()


@pytest.mark.parametrize("kind", KINDS)
def test_any_tokens(kind: Any, tmp_path: Path) -> None:
    """Words, spaces, bytes of whole and of broken characters, special tokens, in any order."""
    texts, chance = texts_of(kind(), tmp_path), random.Random(1)
    count = texts.tokenizer.get_vocab_size()
    some = [*chance.sample(range(count), min(count, 12)), *range(count - 9, count)]
    for _ in range(150):
        prompt = [
            count - 3,
            *chance.choices(range(count), k=chance.randrange(9)),
            chance.choice(texts._some_text),
        ]
        prompt = prompt[: chance.choice((1, 99))]
        tokens = chance.choices(chance.choice((some, range(count))), k=chance.randrange(1, 25))
        want = texts.text([*prompt, *tokens])[len(texts.text(prompt)) :]
        assert streamed(Stream(texts, [], prompt), tokens) == want


def test_space_before_the_answer(tmp_path: Path) -> None:
    """It stays where there is a prompt, known or not; a text that nothing is before has none."""
    texts = texts_of(sentencepiece(), tmp_path)
    once, time, begin = map(texts.tokenizer.token_to_id, ("▁once", "▁time", "<s>"))
    for prompt in (None, [begin, once], [once, begin]):
        assert streamed(Stream(texts, [], prompt), [time, time]) == " time time"
    for prompt in ([], [begin]):
        assert streamed(Stream(texts, [], prompt), [time, time]) == "time time"


def test_bytes_of_a_character(tmp_path: Path) -> None:
    """A character is given when its bytes are there, and what they are is certain."""
    texts = texts_of(sentencepiece(), tmp_path)
    numbers = [texts.tokenizer.token_to_id(f"<0x{b:02X}>") for b in "🙂".encode()]
    stream = Stream(texts, [])
    assert [stream.add(n) for n in numbers] == [""] * 4
    assert stream.add(texts.tokenizer.token_to_id("▁a")) == "🙂 a"
    stream = Stream(texts, [])
    assert [stream.add(n) for n in numbers[:2]] == ["", ""] and stream.rest() == "��"


def test_each_token_is_decoded_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a token does not grow with the answer."""
    texts = texts_of(sentencepiece(), tmp_path)
    decoded, text = [0], texts.text

    def counted(tokens: Sequence[int]) -> str:
        decoded[0] += len(tokens)
        return text(tokens)

    monkeypatch.setattr(texts, "text", counted)
    time = texts.tokenizer.token_to_id("▁time")
    assert streamed(Stream(texts, [], [time] * 900), [time] * 500) == " time" * 500
    assert decoded[0] < 6000
