"""Tokenizers of GGUF files, as the `tokenizers` package has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glow_dialects.core.errors import UnsupportedError

_CONTROL, _USER = 3, 4
"""Types of tokens: special ones, those that were added."""
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
)
_PATTERNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama-bpe", "llama3", "smaug-bpe", "glm4", "chatglm-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "hunyuan", "stablelm2"), (_LLAMA3.replace("{1,3}", ""),)),
    **dict.fromkeys(("gpt-4o", "minimax-m2"), (_O200K,)),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), _DEEPSEEK3),
}
"""How texts are cut before their parts are merged, one pattern after the other, by the name that files have
for it."""


def tokenizer_of(source: str, tokens: Mapping[str, Any]) -> Any:
    """The tokenizer that a file's settings describe; UnsupportedError for kinds that are not known."""
    from tokenizers import AddedToken

    kind = tokens.get("model", "none")
    makers = {"gpt2": _bytes_merged, "llama": _pieces_merged}
    if kind not in makers:
        raise UnsupportedError(f"{source}: a tokenizer of kind '{kind}'; there are: {', '.join(makers)}")
    made = makers[kind](tokens)
    words: Sequence[str] = tokens["tokens"]
    types: Sequence[int] = tokens.get("token_type", ())
    for number, kind in enumerate(types):
        if kind in (_CONTROL, _USER):
            added = AddedToken(words[number], normalized=False, special=kind == _CONTROL)
            (made.add_special_tokens if kind == _CONTROL else made.add_tokens)([added])
    _begin(made, tokens)
    return made


def _begin(made: Any, tokens: Mapping[str, Any]) -> None:
    """Let texts begin with the token for that, if the file says so."""
    from tokenizers import processors

    number = tokens.get("bos_token_id")
    if number is None or not tokens.get("add_bos_token", tokens.get("model") == "llama"):
        return
    word = tokens["tokens"][number]
    made.post_processor = processors.TemplateProcessing(
        single=f"{word} $A", pair=f"{word} $A $B", special_tokens=[(word, number)]
    )


def _bytes_merged(tokens: Mapping[str, Any]) -> Any:
    """Bytes as letters, merged pair by pair (GPT-2's)."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(tokens["tokens"])}
    merges = [tuple(pair.split(" ", 1)) for pair in tokens["merges"]]
    made = Tokenizer(models.BPE(vocabulary, merges, fuse_unk=False, byte_fallback=False))
    cuts = [
        pre_tokenizers.Split(Regex(p), "isolated") for p in _PATTERNS.get(tokens.get("pre", "default"), ())
    ]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not cuts)
    made.pre_tokenizer = pre_tokenizers.Sequence([*cuts, level])
    made.decoder = decoders.ByteLevel()
    return made


def _pieces_merged(tokens: Mapping[str, Any]) -> Any:
    """Pieces merged in the order of their scores (SentencePiece's), bytes for what is no piece."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    words: Sequence[str] = tokens["tokens"]
    vocabulary = {word: i for i, word in enumerate(words)}
    scores: Sequence[float] = tokens["scores"]
    merges: list[tuple[float, int, int, str, str]] = []
    for number, word in enumerate(words):
        for cut in range(1, len(word)):
            left, right = vocabulary.get(word[:cut]), vocabulary.get(word[cut:])
            if left is not None and right is not None:
                merges.append((-scores[number], left, right, word[:cut], word[cut:]))
    pairs = [(left, right) for *_, left, right in sorted(merges)]
    unknown = words[tokens.get("unknown_token_id", 0)]
    made = Tokenizer(models.BPE(vocabulary, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    first = tokens.get("add_space_prefix", True)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if first else spaces
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if first else parts)
    return made
