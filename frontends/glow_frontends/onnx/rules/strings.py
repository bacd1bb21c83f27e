"""Rules of strings and text features, on the host: object arrays of Python strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.graph import Emitter, RuleError
from glow_frontends.onnx.node import Node, Result, known_inputs
from glow_frontends.onnx.rules.rule import Rule, Versions, check_alike, check_entries, option
from glow_frontends.onnx.rules.selection import inputs_of

MAX_COLUMNS = 1 << 24
"""Of the result of a TfIdfVectorizer."""


def text_array(values: list[Any], shape: tuple[int, ...]) -> Array:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)


def texts_of(n: Node, count: int) -> list[Array]:
    """The first `count` inputs, all of strings."""
    texts = inputs_of(n, count)
    for index, value in enumerate(texts):
        if not _is_text(value):
            raise RuleError(f"input {index} is missing" if value is None else f"input {index} is not strings")
    return texts


def string_concat(g: Emitter, n: Node) -> Array:
    """StringConcat, broadcasting."""
    del g
    try:
        left, right = np.broadcast_arrays(*texts_of(n, 2))
    except ValueError as error:
        raise RuleError(str(error)) from None
    pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
    return text_array([a + b for a, b in pairs], left.shape)


def string_split(g: Emitter, n: Node) -> list[Array]:
    """StringSplit: substrings, padded with empty strings, and how many each string has."""
    del g
    (x,) = texts_of(n, 1)
    delimiter, most = n.text("delimiter", "") or None, n.integer("maxsplit", -1)
    parts: list[list[str]] = [s.split(delimiter, most) if s else [] for s in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    rows = [p + [""] * (width - len(p)) for p in parts]
    flat = [s for row in rows for s in row]
    counts = np.array([len(p) for p in parts], dtype=np.int64).reshape(x.shape)
    return [text_array(flat, (*x.shape, width)), counts]


def regex_full_match(g: Emitter, n: Node) -> Array:
    """RegexFullMatch."""
    del g
    (x,) = texts_of(n, 1)
    try:
        pattern = re.compile(n.text("pattern", ""))
    except re.error as error:
        raise RuleError(f"the pattern is no regular expression: {error}") from None
    matches = [pattern.fullmatch(s) is not None for s in x.reshape(-1)]
    return np.array(matches, dtype=bool).reshape(x.shape)


def string_normalizer(g: Emitter, n: Node) -> Array:
    """StringNormalizer: remove stop words, then change case."""
    del g
    (x,) = texts_of(n, 1)
    cases: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = option(n, "case_change_action", cases, "NONE")
    stop = list(n.texts("stopwords", ()))
    exact = n.flag("is_case_sensitive")
    banned = set(stop) if exact else {w.lower() for w in stop}
    kept = [s for s in x.reshape(-1) if (s if exact else s.lower()) not in banned]
    words = [change(s) for s in kept] or [""]
    return text_array(words, (len(words),) if x.ndim == 1 else (1, len(words)))


def tf_idf(g: Emitter, n: Node) -> Array:
    """TfIdfVectorizer: counts of the pool's n-grams with skips, as tf, idf or both."""
    del g
    (x,) = inputs_of(n, 1)
    rows = [x] if x.ndim == 1 else list(x)
    indexes, pool = _pool(n)
    weights = np.array(n.numbers("weights") or [1.0] * len(indexes))
    check_alike("ngram_indexes", len(indexes), weights=list(weights))
    shortest, longest = n.integer("min_gram_length"), n.integer("max_gram_length")
    if not 1 <= shortest <= longest:
        raise RuleError(f"attributes 'min_gram_length' {shortest} and 'max_gram_length' {longest}")
    most_skips = n.integer("max_skip_count")
    if most_skips < 0:
        raise RuleError(f"attribute 'max_skip_count' is {most_skips}, below 0")
    width = max(indexes) + 1
    if width > MAX_COLUMNS:
        raise RuleError(f"attribute 'ngram_indexes' asks for {width} columns, more than {MAX_COLUMNS}")
    out = np.zeros((len(rows), width), np.float32)
    for number, row in enumerate(rows):
        for gram in _grams(
            [v.item() if hasattr(v, "item") else v for v in row], shortest, longest, most_skips
        ):
            place = pool.get(gram)
            if place is not None:
                out[number, indexes[place]] += 1
    by_column = np.zeros(width, np.float32)
    by_column[list(indexes)] = weights
    mode = n.text("mode")
    if mode == "IDF":
        out = (out > 0) * by_column
    elif mode == "TFIDF":
        out = out * by_column
    out = out.astype(np.float32)
    return out[0] if x.ndim == 1 else out


def _pool(n: Node) -> tuple[Sequence[int], dict[tuple[Any, ...], int]]:
    """The columns of the n-grams of the pool, and the position of each n-gram among them."""
    items = list(n.texts("pool_strings") or n.integers("pool_int64s") or ())
    counts: Sequence[int] = n.integers("ngram_counts") or ()
    indexes: Sequence[int] = n.integers("ngram_indexes") or ()
    starts = [*counts, len(items)]
    grams: list[tuple[Any, ...]] = []
    for length, (begin, end) in enumerate(pairwise(starts), 1):
        if not 0 <= begin <= end <= len(items) or (end - begin) % length:
            raise RuleError(
                f"attribute 'ngram_counts' {list(counts)} does not divide a pool of {len(items)} entries "
                f"into {length}-grams"
            )
        grams += [tuple(items[i : i + length]) for i in range(begin, end, length)]
    if not indexes or min(indexes) < 0:
        raise RuleError(
            f"attribute 'ngram_indexes' {list(indexes)} must have a column, from 0, for each n-gram"
        )
    check_entries("ngram_indexes", len(indexes), len(grams))
    return indexes, {gram: i for i, gram in enumerate(grams)}


def _grams(row: list[Any], shortest: int, longest: int, skips: int) -> list[tuple[Any, ...]]:
    """Every n-gram of the row with every allowed number of skipped elements; single ones once."""
    grams: list[tuple[Any, ...]] = []
    for length in range(shortest, longest + 1):
        for skip in range(1 if length == 1 else skips + 1):
            step = skip + 1
            span = (length - 1) * step
            grams += [tuple(row[i : i + span + 1 : step]) for i in range(len(row) - span)]
    return grams


#: Operators that move elements and never look at them: what they do to numbers, they do to strings.
MOVING = {
    *("ArrayFeatureExtractor", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "OneHot", "Pad", "Reshape", "ReverseSequence", "Scatter"),
    *("ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose"),
    *("Unsqueeze", "Where"),
}


def moving(rule: Rule) -> Rule:
    """The rule of a moving operator, which takes known strings as numbers of theirs; 0 is the empty one."""

    def moved(g: Emitter, n: Node) -> Result:
        if not any(_is_text(v) for v in n.inputs):
            return rule(g, n)
        known = known_inputs(n)
        texts = sorted({"", *(t for v in known if v is not None and _is_text(v) for t in v.reshape(-1))})
        numbers = {text: i for i, text in enumerate(texts)}

        def coded(value: Array) -> Array:
            flat = [numbers[text] for text in value.reshape(-1)]
            return np.array(flat, np.int64).reshape(value.shape)

        inputs = [coded(v) if v is not None and _is_text(v) else v for v in known]
        result = rule(g, replace(n, inputs=inputs))
        table = np.array(texts, dtype=object)
        if isinstance(result, np.ndarray):
            return np.asarray(table[result], dtype=object)
        assert isinstance(result, Sequence)
        return [np.asarray(table[v], dtype=object) for v in result if isinstance(v, np.ndarray)]

    return moved


def _is_text(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


RULES: dict[str, Versions] = {
    "StringConcat": string_concat,
    "StringSplit": string_split,
    "RegexFullMatch": regex_full_match,
    "StringNormalizer": string_normalizer,
    "TfIdfVectorizer": tf_idf,
}
