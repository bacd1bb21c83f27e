"""Tokenizers of GGUF files, as the `tokenizers` package has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from glow_compiler.gguf_cuts import Cut, cut_of
from glow_dialects.core.errors import GlowError, UnsupportedError

_CONTROL, _USER = 3, 4
"""Types of tokens: special ones, those that were added."""


def tokenizer_of(source: str, tokens: Mapping[str, Any]) -> Any:
    """The tokenizer that a file's settings describe; UnsupportedError for kinds that are not known, GlowError
    for settings that cannot be."""
    kind = tokens.get("model", "none")
    if kind not in _MAKERS:
        raise UnsupportedError(f"{source}: a tokenizer of kind '{kind}'; there are: {', '.join(_MAKERS)}")
    _check(source, tokens)
    try:
        return _made(source, tokens, _MAKERS[kind](source, tokens))
    except GlowError:
        raise
    except Exception as error:  # of whatever class: the package is native code
        raise GlowError(f"{source}: the tokenizer of 'tokenizer.ggml.*' cannot be made: {error}") from None


def _made(source: str, tokens: Mapping[str, Any], made: Any) -> Any:
    """A tokenizer with the tokens that are special or were added, and those that begin a text."""
    from tokenizers import AddedToken

    words: Sequence[str] = tokens["tokens"]
    types: Sequence[int] = tokens.get("token_type", ())
    for number, kind in enumerate(types):
        if kind in (_CONTROL, _USER):
            added = AddedToken(words[number], normalized=False, special=kind == _CONTROL)
            (made.add_special_tokens if kind == _CONTROL else made.add_tokens)([added])
    _begin(source, made, tokens)
    return made


def _check(source: str, tokens: Mapping[str, Any]) -> None:
    """GlowError for a setting of a wrong type or length."""
    count = len(tokens["tokens"]) if isinstance(tokens.get("tokens"), list) else -1
    lists = {
        "tokens": (str, None),
        "merges": (str, None),
        "scores": (int | float, count),
        "token_type": (int, count),
    }
    needed = {"gpt2": ("tokens", "merges"), "llama": ("tokens", "scores")}[tokens["model"]]
    for name, (kind, length) in lists.items():
        value = tokens.get(name)
        if value is None and name not in needed:
            continue
        if not isinstance(value, list) or not all(isinstance(v, kind) for v in cast("list[Any]", value)):
            what = "missing" if value is None else f"no list of {'texts' if kind is str else 'numbers'}"
            raise GlowError(f"{source}: 'tokenizer.ggml.{name}' is {what}")
        if length is not None and len(cast("list[Any]", value)) != length:
            raise GlowError(f"{source}: 'tokenizer.ggml.{name}' has {len(value)} entries for {length} tokens")
    for name in ("bos_token_id", "unknown_token_id"):
        value = tokens.get(name, 0)
        if not isinstance(value, int) or not 0 <= value < count:
            raise GlowError(f"{source}: 'tokenizer.ggml.{name}' is {value!r}, there are {count} tokens")


def _begin(source: str, made: Any, tokens: Mapping[str, Any]) -> None:
    """Let texts begin with the token for that, if the file or the kind says so."""
    from tokenizers import processors

    number = tokens.get("bos_token_id")
    usual = tokens["model"] == "llama" or _cut(source, tokens).begins
    if number is None or not tokens.get("add_bos_token", usual):
        return
    word = tokens["tokens"][number]
    made.post_processor = processors.TemplateProcessing(
        single=f"{word} $A", pair=f"{word} $A $B", special_tokens=[(word, number)]
    )


def _cut(source: str, tokens: Mapping[str, Any]) -> Cut:
    return cut_of(source, tokens.get("pre", "default"))


def _pair(source: str, merge: str) -> tuple[str, str]:
    """Both parts of a merge; the first may be a space, where bytes are not written as letters."""
    at = merge.find(" ", 1)
    if at < 0:
        raise GlowError(f"{source}: 'tokenizer.ggml.merges' has {merge!r}, which is not a pair")
    return merge[:at], merge[at + 1 :]


def _bytes_merged(source: str, tokens: Mapping[str, Any]) -> Any:
    """Bytes as letters, merged pair by pair (GPT-2's), or letters, with bytes for what is no token."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    cut = _cut(source, tokens)
    vocabulary = {word: i for i, word in enumerate(tokens["tokens"])}
    merges = [_pair(source, pair) for pair in tokens["merges"]]
    merged = models.BPE(vocabulary, merges, ignore_merges=cut.whole, byte_fallback=cut.letters)
    made = Tokenizer(merged)
    cuts: list[Any] = [pre_tokenizers.Split(Regex(p), "isolated") for p in cut.patterns]
    if cut.letters:
        if cut.spaces:
            made.normalizer = normalizers.Replace(" ", "▁")
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        made.pre_tokenizer, made.decoder = pre_tokenizers.Sequence(cuts), decoders.Sequence(parts)
        return made
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*cuts, level])
    made.decoder = decoders.ByteLevel()
    return made


def _pieces_merged(source: str, tokens: Mapping[str, Any]) -> Any:
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


_MAKERS = {"gpt2": _bytes_merged, "llama": _pieces_merged}
