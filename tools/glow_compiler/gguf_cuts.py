"""How tokenizers of GGUF files cut texts before their parts are merged, by llama.cpp's names for it.

Each name stands for patterns that are applied one after the other, each to what the ones before left whole;
what a pattern does not match stays a part of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glow_dialects.core.errors import UnsupportedError


@dataclass(frozen=True)
class Cut:
    """Patterns, and what llama.cpp takes to be so for models of this kind."""

    patterns: tuple[str, ...]
    #: A part that is a token is that token, whatever its merges.
    whole: bool = False
    #: Texts begin with the token for that where files do not say so.
    begins: bool = False
    #: Merges are of letters, with "▁" for spaces if `spaces`, not of bytes written as letters.
    letters: bool = False
    spaces: bool = False


_SHORT = r"'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
"""English contractions."""
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
_LETTERS = r"[^\r\n\p{L}\p{N}]?"
"""What may stand before a word, as its part."""
_ASCII_SIGNS = r"[!-/:-@\[-`{-~]"
_KANA = r"[一-龥\u3040-ゟ゠-ヿ]+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _words(
    digits: str, short: str = f"{_SHORT}|", word: str = r"\p{L}+", signs: str = rf"{_SIGNS}[\r\n]*"
) -> str:
    """Contractions, words, some digits, signs, spaces."""
    return rf"{short}{_LETTERS}{word}|{digits}|{signs}|{_TAIL}"


def _cased(letter: str, digits: str, short: str = f"(?:{_SHORT})?") -> str:
    """Words that begin anew at a capital letter of ASCII; other letters count as both."""
    upper, lower = f"[{letter}&&[^a-z]]", f"[{letter}&&[^A-Z]]"
    words = f"{_LETTERS}{upper}*{lower}+{short}|{_LETTERS}{upper}+{lower}*{short}"
    return rf"{words}|{digits}|{_SIGNS}[\r\n/]*|{_TAIL}"


_LLAMA3 = _words(r"\p{N}{1,3}")
_QWEN2 = _words(r"\p{N}")
_MARKED = r"[\p{L}\p{M}]+"
_MARKED_WORDS = rf"{_LETTERS}{_MARKED}(?:{_SHORT})?|%s|{_SIGNS}[\r\n/]*|{_TAIL}"
_SPACES = "|".join(rf"\s{{{2**n}}}(?!\S)" for n in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s"
_SCRIPTS = rf"{_ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?{_MARKED}| ?[\p{{P}}\p{{S}}]+"
_HAN = "一-\u9fff㐀-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef\uf900-\ufaff\U0002f800-\U0002fa1f"
_EAST = r"[一-龥ࠀ-一가-\ud7ff&&\S]+"
_THOUSANDS = r"\P{N}*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
"""Digits by three from the last one; the first of them with what is before it, as llama.cpp has it."""
_STOPS = r" ?[^(\s|.,!?…。，、।۔،)]+"
_LATIN = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹ"
    "ℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
"""Letters that have a capital, as DeepSeek's first models know them."""
_ASIA = (
    "[一-\u9fff㐀-\u4dbf\u8c48-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdf"
    "เ-\u0eff\u1780-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+"
)
_DEEPSEEK3 = Cut((r"\p{N}{1,3}", _KANA, rf"{_SCRIPTS}[\r\n]*|{_TAIL}"))
_STARCODER = Cut((r"\p{N}", _GPT2))
_MERGED_SPACES = Cut((r"[^\n]+|\n+",), letters=True, spaces=True)

CUTS: Mapping[str, Cut] = {
    name: cut
    for names, cut in (
        ("default", Cut((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9]{3}"))),
        ("minicpm5", Cut((r"\p{N}{1,3}", _words(r"\p{N}+")), whole=True)),
        (
            "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
            Cut((_LLAMA3,), whole=True, begins=True),
        ),
        ("dbrx smaug-bpe glm4 chatglm-bpe", Cut((_LLAMA3,))),
        ("jais-2", Cut((_LLAMA3.replace(r"|\s+(?!\S)|\s+", f"|{_SPACES}"),))),
        (
            "deepseek-llm",
            Cut(
                (
                    r"[\r\n]",
                    rf"\s?[{_LATIN}]+",
                    r"\s?[!-/:-~！-／：-～‘-‟\u3000-。&&\S]+",
                    r"\s+\z",
                    _EAST,
                    r"\p{N}+",
                )
            ),
        ),
        (
            "deepseek-coder",
            Cut((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST, r"\p{N}")),
        ),
        ("deepseek-v3 hunyuan-dense hy_v4 joyai-llm", _DEEPSEEK3),
        (
            "spark2_5",
            Cut((r"\p{N}{1,3}", _KANA, rf"{_SCRIPTS}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}")),
        ),
        (
            "youtu",
            Cut(
                (
                    rf"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|{_KANA}",
                    _MARKED_WORDS % r"\p{N}",
                ),
                whole=True,
            ),
        ),
        ("falcon", Cut((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9]{3}"))),
        ("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", _STARCODER),
        (
            "gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat "
            "a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling",
            Cut((_GPT2,)),
        ),
        (
            "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
            Cut((_QWEN2,)),
        ),
        (
            "qwen35",
            Cut((_words(r"\p{N}", word=_MARKED, signs=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),)),
        ),
        ("poro-chat bloom gpt3-finnish", Cut((_STOPS,))),
        ("viking", Cut((_STOPS, r"\p{N}"))),
        ("tekken", Cut((_cased(r"\p{L}", r"\p{N}", short=""),), whole=True, begins=True)),
        ("gpt-4o llama4 kanana2 talkie minimax-m2", Cut((_cased(r"\p{L}", r"\p{N}{1,3}"),))),
        ("granite-embed-multi-97m", Cut((_cased(r"\p{L}\p{M}", r"\p{N}{1,3}"),), whole=True)),
        (
            "tiny_aya cohere2moe",
            Cut((_THOUSANDS, _MARKED_WORDS % r"\p{N}{1,3}")),
        ),
        (
            "chameleon",
            Cut(
                (
                    "<sentinel:[0-9]+>",
                    "IMGIMG[A-I]{1,4}Z",
                    r"[\t\n]|    |  ",
                    r"\p{N}",
                    rf"\p{{P}}|{_ASCII_SIGNS}",
                    _GPT2,
                ),
                begins=True,
            ),
        ),
        ("superbpe", Cut((r"\p{N}+", r"(?=(?:[0-9]{3})+(?![0-9]))"))),
        (
            "kimi-k2",
            Cut(
                (
                    rf"[{_HAN}]+|{_LETTERS}[\p{{L}}&&[^{_HAN}]]+(?:{_SHORT})?|\p{{N}}{{1,3}}"
                    rf"|{_SIGNS}[\r\n]*|{_TAIL}",
                )
            ),
        ),
        (
            "bailingmoe bailingmoe2 llada-moe",
            Cut((_QWEN2.replace(r"\s*[\r\n]+|", r"\s*[\r\n]|"),)),
        ),
        ("seed-coder", Cut((_words(r"\p{N}", signs=r" ?[^\s\p{L}\p{N}\r\n]+"),))),
        ("ufakzeka", Cut((_words(r"\p{N}", short=""),))),
        (
            "afmoe",
            Cut(
                (
                    _THOUSANDS,
                    _ASIA,
                    rf"{_SCRIPTS}[\r\n]*|{_TAIL}",
                )
            ),
        ),
        ("laguna", Cut((r"[^\n]+|\n+", _QWEN2))),
        (
            "exaone-moe",
            Cut(
                (
                    rf"{_SHORT}|{_LETTERS}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
                    rf"|{_SIGNS}[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
                )
            ),
        ),
        ("gemma4 granite-embed-multi-311m sarvam-moe", _MERGED_SPACES),
        ("whitespace", Cut((r"\S+",), letters=True)),
    )
    for name in names.split()
}


def cut_of(source: str, name: str) -> Cut:
    """How texts are cut by the name that a file has for it; UnsupportedError for a name not known."""
    if name not in CUTS:
        raise UnsupportedError(
            f"{source}: 'tokenizer.ggml.pre' is {name!r}, and how that cuts texts is not supported; "
            f"supported are: {', '.join(sorted(CUTS))}"
        )
    return CUTS[name]
