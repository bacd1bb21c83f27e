"""How GGUF tokenizers cut texts: the parts that llama.cpp makes of some, by its names for ways to cut."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers")

import glow_compiler as glow
from glow_compiler.gguf_cuts import CUTS
from glow_compiler.gguf_tokenizer import tokenizer_of

TEXTS = [
    "It's DON'T",
    "\xa0\xc9a \xd1Bc\t\u65e5\u672c",
    "\u8a9e\u3072\ud55c\uae00x e\u0301x\u0915\u094d",
    " 12345 \u2167\xb2\u0663\u0664\u3000",
    "\u0e44\u0e17\u0e22  \n\n y/;\r\n",
    " $1,234.5=!! ",
    "\u201cq\u201d\xe9\u3002\U0001f642   ",
    "aBc__x1\r\rD",
]
"""Contractions, capitals, letters that have marks or no case, numbers of all kinds, spaces, signs."""
THEIRS = {
    "default": (
        "2 1 1 4 1 1 | 2 3 5 1 6 | 13 2 2 4 3 | 1 3 2 1 9 3 | 9 4 2 2 2 | "
        "1 1 1 1 3 1 1 3 1 | 3 1 3 2 3 4 3 | 3 2 1 1 1 1 1"
    ),
    (
        "minicpm5 llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano "
        "dbrx smaug-bpe glm4 chatglm-bpe"
    ): ("2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"),
    "jais-2": (
        "2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 2 1 | 3 2 1 1 2 1"
    ),
    "deepseek-llm": (
        "2 1 1 4 1 1 | 4 1 3 2 1 6 | 12 1 2 2 1 6 | 1 5 1 3 6 3 | 9 2 1 1 2 2 1 1 | "
        "2 1 1 3 1 1 3 1 | 3 1 3 2 3 4 3 | 3 2 1 1 1 1 1"
    ),
    "deepseek-coder": (
        "2 1 1 4 1 1 | 5 5 1 6 | 12 1 2 2 1 3 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | "
        "9 2 1 1 2 2 1 1 | 2 1 1 1 1 1 1 1 1 2 1 | 3 1 3 2 3 7 | 3 2 1 1 1 1 1"
    ),
    "deepseek-v3 hunyuan-dense hy_v4 joyai-llm": (
        "2 2 4 2 | 5 5 1 6 | 6 7 11 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 3 1 3 2 7 3 | 3 2 1 1 2 1"
    ),
    "spark2_5": (
        "2 2 4 2 | 5 5 1 6 | 6 7 11 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 2 1 1 | "
        "2 1 1 1 1 1 1 1 3 1 | 3 1 3 2 7 3 | 3 2 1 1 1 1 1"
    ),
    "youtu": (
        "4 6 | 5 5 1 6 | 6 6 1 11 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 4 | "
        "2 1 1 1 1 1 1 1 3 1 | 3 1 3 2 3 4 3 | 3 2 1 1 2 1"
    ),
    "falcon": (
        "2 1 1 4 1 1 | 2 3 5 1 6 | 13 2 2 4 3 | 1 3 2 10 3 | 9 4 2 2 2 | "
        "1 1 1 1 3 1 1 3 1 | 3 1 3 2 3 4 3 | 3 2 1 1 1 1 1"
    ),
    "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": (
        "2 2 4 1 1 | 2 3 5 1 6 | 13 2 2 4 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | "
        "9 4 2 2 2 | 2 1 1 1 1 1 1 1 3 1 | 3 1 3 2 7 3 | 3 2 1 1 1 1 1"
    ),
    (
        "gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe "
        "gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling"
    ): (
        "2 2 4 1 1 | 2 3 5 1 6 | 13 2 2 4 3 | 6 10 3 | 9 4 2 2 2 | 2 1 1 3 1 1 3 1 | "
        "3 1 3 2 7 3 | 3 2 1 1 1 1 1"
    ),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 "
        "bailingmoe bailingmoe2 llada-moe ufakzeka"
    ): (
        "2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 4 | "
        "2 1 1 1 1 1 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "qwen35": (
        "2 2 4 2 | 5 5 7 | 13 11 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 4 | "
        "2 1 1 1 1 1 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "poro-chat bloom gpt3-finnish": (
        "4 6 | 2 3 5 1 6 | 13 11 | 6 10 3 | 9 4 4 2 | 3 1 3 1 2 3 | 9 3 4 3 | 7 2 1"
    ),
    "viking": (
        "4 6 | 2 3 5 1 6 | 13 11 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 4 2 | "
        "2 1 1 1 1 1 1 1 1 3 | 9 3 4 3 | 6 1 2 1"
    ),
    "tekken": (
        "2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 4 | "
        "2 1 1 1 1 1 1 1 3 1 | 4 5 7 3 | 1 2 2 1 1 2 1"
    ),
    "gpt-4o llama4 kanana2 talkie minimax-m2": (
        "4 6 | 5 5 7 | 13 2 6 3 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 3 | 1 2 2 1 1 2 1"
    ),
    "granite-embed-multi-97m": (
        "4 6 | 5 5 7 | 13 11 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 3 | 1 2 2 1 1 2 1"
    ),
    "tiny_aya cohere2moe": (
        "4 6 | 5 5 7 | 13 11 | 1 2 3 1 3 6 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "chameleon": (
        "2 1 1 4 1 1 | 2 3 5 1 6 | 13 2 2 4 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | "
        "9 2 1 1 2 1 1 1 1 | 1 1 1 1 1 1 1 1 1 1 1 1 1 | 3 1 3 2 3 4 2 1 | 3 1 1 1 1 1 1 1"
    ),
    "superbpe": "10 | 17 | 24 | 1 2 3 1 9 3 | 19 | 2 1 1 3 1 1 4 | 19 | 6 1 3",
    "kimi-k2": (
        "4 6 | 5 5 1 6 | 3 10 2 6 3 | 1 3 2 1 7 2 3 | 9 4 2 4 | 2 1 1 3 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "seed-coder": (
        "2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 2 2 | "
        "2 1 1 1 1 1 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "afmoe": (
        "2 2 4 2 | 5 5 1 6 | 12 1 11 | 1 2 3 1 3 6 3 | 3 6 4 2 4 | 2 1 1 3 1 1 3 1 | "
        "3 1 3 2 7 3 | 3 2 1 1 2 1"
    ),
    "laguna": (
        "2 2 4 2 | 5 5 7 | 13 2 6 3 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 2 2 2 3 1 | "
        "2 1 1 1 1 1 1 1 3 1 | 4 5 7 3 | 3 2 1 1 2 1"
    ),
    "exaone-moe": (
        "2 2 4 2 | 10 7 | 24 | 1 1 1 1 1 1 1 3 2 2 2 3 | 9 4 2 3 1 | 2 1 1 1 1 1 1 1 3 1 | "
        "4 5 7 3 | 3 2 1 1 2 1"
    ),
    "gemma4 granite-embed-multi-311m sarvam-moe": "10 | 10 | 11 | 12 | 5 2 5 1 | 13 | 9 | 10",
}
"""Bytes of the parts, text by text; letters where bytes are not written as such."""


@pytest.mark.parametrize("names", THEIRS)
def test_cuts(names: str) -> None:
    """Parts are those of llama.cpp."""
    for name in names.split():
        settings = {"model": "gpt2", "tokens": ["a"], "merges": [], "pre": name}
        cutter = tokenizer_of("x", settings).pre_tokenizer
        for text, want in zip(TEXTS, THEIRS[names].split(" | "), strict=True):
            spelt = text.replace(" ", "▁") if CUTS[name].spaces else text
            parts = [part for part, _ in cutter.pre_tokenize_str(spelt)]
            assert " ".join(str(len(p)) for p in parts) == want, (name, text)


def test_every_name_is_tested() -> None:
    """One that llama.cpp cannot use itself, for texts with spaces, is left out."""
    assert {n for names in THEIRS for n in names.split()} == set(CUTS) - {"whitespace"}


def test_what_else_a_name_says() -> None:
    """Words that are tokens are not merged, and texts have a beginning, where llama.cpp has it so."""
    settings = {"model": "gpt2", "tokens": ["a", "b", "c", "bc", "abc"], "merges": ["b c"], "bos_token_id": 0}
    assert tokenizer_of("x", settings | {"pre": "tekken"}).encode("abc").ids == [0, 4]
    assert tokenizer_of("x", settings | {"pre": "qwen2"}).encode("abc").ids == [0, 3]
    assert tokenizer_of("x", settings | {"pre": "tekken", "add_bos_token": False}).encode("abc").ids == [4]


def test_letters() -> None:
    """Merges of letters, spaces written as such, bytes for what is no token."""
    words = ["▁", "a", "▁a", *(f"<0x{b:02X}>" for b in range(256))]
    made = tokenizer_of("x", {"model": "gpt2", "tokens": words, "merges": ["▁ a"], "pre": "gemma4"})
    assert [words[i] for i in made.encode("a aé").ids] == ["a", "▁a", "<0xC3>", "<0xA9>"]
    assert made.decode(made.encode("a aé").ids) == "a aé"


def test_unknown_name() -> None:
    """A name that is not known is an error, in tokenizers without such a name it does not matter."""
    with pytest.raises(glow.UnsupportedError, match="x: 'tokenizer.ggml.pre' is 'zzz'.*supported.* gpt-2,"):
        tokenizer_of("x", {"model": "gpt2", "tokens": ["a"], "merges": [], "pre": "zzz"})
    assert tokenizer_of("x", {"model": "llama", "tokens": ["a"], "scores": [0.0], "pre": "zzz"})


BAD = {
    "tokens": (None, 3, ["a", 4], {"a": 0}),
    "merges": (None, "a b", ["ab"], [["a", "b"]], ["a z"]),
    "token_type": ("x", [1, 2], ["x"]),
    "bos_token_id": ("a", 7, -1, 0.5),
    "pre": (3, ["gpt-2"], None),
}


@pytest.mark.parametrize("field", BAD)
def test_damaged_settings(field: str) -> None:
    """A setting of another kind is named."""
    settings = {"model": "gpt2", "tokens": ["a"], "merges": [], "pre": "gpt-2"}
    for value in BAD[field]:
        changed = {n: v for n, v in (settings | {field: value}).items() if v is not None}
        if field == "pre" and value is None:
            continue
        with pytest.raises(glow.GlowError, match=r"x: .*tokenizer\.ggml\."):
            tokenizer_of("x", changed | {"add_bos_token": True})
