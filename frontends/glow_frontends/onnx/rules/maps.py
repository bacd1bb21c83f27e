"""Rules of maps, which live on the host: dictionaries from labels to numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.graph import Emitter, NeedsHost, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions, option
from glow_frontends.onnx.rules.selection import inputs_of
from glow_frontends.onnx.values import MapValue, SequenceValue

Rows = list[dict[str | int, Any]]


def rows_of_maps(n: Node) -> Callable[[Array], Rows]:
    """ZipMap of scores: for each row a dictionary from class to score, as callers get them."""
    labels = list(n.texts("classlabels_strings") or n.integers("classlabels_int64s") or ())

    def rows(scores: Array) -> Rows:
        wide = scores if scores.ndim == 2 else np.atleast_2d(scores)
        if wide.shape[1] != len(labels):
            raise RuleError(f"{len(labels)} labels for {wide.shape[1]} scores")
        pairs: Any = map(zip, repeat(labels), wide.tolist())
        return list(map(dict, pairs))

    return rows


def sequence_of_maps(rows: Rows) -> SequenceValue:
    """Dictionaries as other nodes read them."""
    return SequenceValue([MapValue(row) for row in rows])


def zip_map(g: Emitter, n: Node) -> SequenceValue:
    """ZipMap."""
    del g
    (scores,) = inputs_of(n, 1)
    return sequence_of_maps(rows_of_maps(n)(scores))


def _map(n: Node) -> MapValue:
    value = n.any_input(0)
    if not isinstance(value, MapValue):
        raise NeedsHost(n.op)
    return value


def dict_vectorizer(g: Emitter, n: Node) -> Array:
    """DictVectorizer: the values of a map in the order of a vocabulary, 0 where there is none."""
    del g
    entries = _map(n).entries
    words = n.texts("string_vocabulary") or n.integers("int64_vocabulary") or ()
    whole = all(isinstance(v, int) for v in entries.values())
    numbers = [entries.get(word, 0) for word in words]
    return np.array([numbers], np.int64 if whole else np.float32)


def cast_map(g: Emitter, n: Node) -> Array:
    """CastMap: a map's values as one row, dense by key order or sparse by key."""
    del g
    entries = _map(n).entries
    dtype = {"TO_FLOAT": np.dtype(np.float32), "TO_INT64": np.dtype(np.int64), "TO_STRING": np.dtype(object)}
    kind = option(n, "cast_to", dtype, "TO_FLOAT")
    convert = str if kind == object else kind.type
    if n.text("map_form", "DENSE") == "DENSE":
        return np.array([[convert(entries[k]) for k in sorted(entries)]], kind)
    row = np.full((1, n.integer("max_map", 1)), convert(0), kind)
    for key, value in entries.items():
        row[0, int(key)] = convert(value)
    return row


RULES: dict[str, Versions] = {"CastMap": cast_map, "DictVectorizer": dict_vectorizer, "ZipMap": zip_map}
