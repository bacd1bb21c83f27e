"""Rules of ai.onnx.ml: encoders, scalers, linear models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.activation import SigmoidOp
from glow_dialects.ops.arg_reduce import ArgMaxOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp
from glow_dialects.ops.logic import AndOp, IsNanOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.unary_math import AbsOp, SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import join, take
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions, check_alike, check_entries, tables_of
from glow_frontends.onnx.rules.selection import inputs_of

FLOAT = np.dtype(np.float32)
#: A LabelEncoder of at most this many numeric keys is compiled as comparisons.
MAX_COMPARED = 64
#: Integer keys of a LabelEncoder are the places of a table that is at most so many times as long.
MAX_SPREAD = 64


def array_feature_extractor(g: Emitter, n: Node) -> Value:
    """ArrayFeatureExtractor: columns of the last axis."""
    x, indices = n[0], n[1]
    flat = g.reshape(indices, (prod(shape(indices)),))
    if rank(x) == 1:
        x = g.reshape(x, (1, *shape(x)))
    return take(g, x, flat, rank(x) - 1)


def binarizer(g: Emitter, n: Node) -> Value:
    """Binarizer: 1 above the threshold, else 0."""
    x = n[0]
    above = g(CmpGtOp, x, g.like(n.number("threshold", 0.0), x))
    return g(SelectOp, above, g.like(1, x), g.like(0, x))


def scaler(g: Emitter, n: Node) -> Value:
    """Scaler: (x - offset) * scale, in float."""
    x = cast_to(g, n[0], FLOAT)
    offset, scale = (_of_columns(n.numbers(name), name, x) for name in ("offset", "scale"))
    return g(MulOp, g(SubOp, x, offset), scale)


def _of_columns(values: Sequence[float] | None, name: str, x: Value) -> Array:
    """A list attribute of one entry for all columns, or one for each."""
    check_entries(name, len(values or ()), 1, *shape(x)[-1:])
    return np.array(values, dtype_of_value(x))


def imputer(g: Emitter, n: Node) -> Value:
    """Imputer: the replaced value (or NaN) becomes the imputed one of its column."""
    x = n[0]
    whole = dtype_of_value(x).kind in "iu"
    name, read = ("int64", n.integer) if whole else ("float", n.number)
    values = (n.integers if whole else n.numbers)(f"imputed_value_{name}s")
    replaced = read(f"replaced_value_{name}", 0)
    fill = _of_columns(values, f"imputed_value_{name}s", x)
    is_nan = not whole and np.isnan(replaced)
    matches = g(IsNanOp, x) if is_nan else g(CmpEqOp, x, g.like(replaced, x))
    return g(SelectOp, matches, fill, x)


def normalizer(g: Emitter, n: Node) -> Value:
    """Normalizer: each row over its maximum, sum of magnitudes, or length."""
    x = cast_to(g, n[0], FLOAT)
    last, norm = rank(x) - 1, n.text("norm", "MAX")
    if norm == "MAX":
        size = g(ReduceMaxOp, x, axes=(last,), keepdims=True)
    elif norm == "L1":
        size = g(ReduceSumOp, g(AbsOp, x), axes=(last,), keepdims=True)
    else:
        size = g(SqrtOp, g(ReduceSumOp, g(MulOp, x, x), axes=(last,), keepdims=True))
    return g(DivOp, x, g(SelectOp, g(CmpEqOp, size, g.like(0, size)), g.like(1, size), size))


def feature_vectorizer(g: Emitter, n: Node) -> Value:
    """FeatureVectorizer: inputs side by side, in float."""
    sizes: tuple[int, ...] = n.integers("inputdimensions", ())
    parts: list[Value] = []
    for index, x in enumerate(n.tensors()):
        wide = x if rank(x) == 2 else g.reshape(x, (1, prod(shape(x))))
        if index < len(sizes) and shape(wide)[1] > sizes[index]:
            wide = take(g, wide, np.arange(sizes[index]), 1)
        parts.append(cast_to(g, wide, FLOAT))
    return join(g, parts, 1)


def one_hot_encoder(g: Emitter, n: Node) -> Value:
    """OneHotEncoder: one column for each category."""
    x = n[0]
    dims = (*shape(x), 1)
    if dtype_of_value(x) == object:
        (texts,) = inputs_of(n, 1)
        categories = np.array(n.texts("cats_strings", ()), dtype=object)
        return (texts.reshape(dims) == categories).astype(FLOAT)
    codes = np.array(n.integers("cats_int64s", ()), np.int64)
    equal = g(CmpEqOp, g.reshape(cast_to(g, x, np.dtype(np.int64)), dims), codes)
    return cast_to(g, equal, FLOAT)


def category_mapper(g: Emitter, n: Node) -> Array:
    """CategoryMapper: strings to integers or back, on the host."""
    del g
    (x,) = inputs_of(n, 1)
    texts, numbers = n.texts("cats_strings", ()), n.integers("cats_int64s", ())
    check_alike("cats_strings", len(texts), cats_int64s=numbers)
    if x.dtype == object:
        return _mapped(x, dict(zip(texts, numbers, strict=True)), n.integer("default_int64", -1), np.int64)
    table = dict(zip(numbers, texts, strict=True))
    return _mapped(x, table, n.text("default_string", "_Unused"), object)


def _mapped(x: Array, table: dict[Any, Any], default: Any, dtype: Any) -> Array:
    out: Array = np.empty(x.size, dtype=dtype)
    out[:] = [table.get(v, default) for v in x.reshape(-1).tolist()]
    return out.reshape(x.shape)


def _table(n: Node, prefix: str) -> Array:
    tensor = n.tensor(f"{prefix}_tensor")
    if tensor is not None:
        return tensor.reshape(-1)
    for suffix, read, dtype in (
        ("strings", n.texts, object),
        ("int64s", n.integers, np.int64),
        ("floats", n.numbers, np.float32),
    ):
        values = read(f"{prefix}_{suffix}")
        if values is not None:
            return np.array(values, dtype=dtype)
    # Version 1 maps positions of one list of classes.
    classes = n.texts("classes_strings")
    if classes is None:
        raise RuleError(f"attribute '{prefix}_*' is missing")
    return np.array(classes, dtype=object)


def _encoding(n: Node, of_texts: bool) -> tuple[Array, Array, Array]:
    """Keys, values and the default value of a LabelEncoder, whose input may be texts."""
    if n.opset < 2:
        classes = _table(n, "classes")
        positions = np.arange(classes.size)
        keys, values = (classes, positions) if of_texts else (positions, classes)
    else:
        keys, values = _table(n, "keys"), _table(n, "values")
    if not keys.size or keys.size != values.size:
        raise RuleError(f"attributes 'keys_*' and 'values_*' have {keys.size} and {values.size} entries")
    return keys, values, _default(n, values)


def table_of_texts(n: Node) -> Callable[[Array], Array] | None:
    """A LabelEncoder from numbers to texts."""
    with tables_of(n):
        keys, values, default = _encoding(n, False)
    if values.dtype != object or keys.dtype == object:
        return None
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    item: Any = default.reshape(-1)[0]
    return lambda x: _mapped(x, table, item, object)


def label_encoder(g: Emitter, n: Node) -> Value:
    """LabelEncoder: values[i] where the input is keys[i]; NaN is a key like any other."""
    x = n[0]
    with tables_of(n):
        keys, values, default = _encoding(n, dtype_of_value(x) == object)
    numeric = object not in (keys.dtype, values.dtype)
    if numeric and keys.size <= MAX_COMPARED:
        out: Value = default
        for key, value in reversed(list(zip(keys, values, strict=True))):
            is_nan = keys.dtype.kind == "f" and np.isnan(key)
            matches = g(IsNanOp, x) if is_nan else g(CmpEqOp, x, np.array(key, dtype_of_value(x)))
            out = g(SelectOp, matches, np.array(value), out)
        return out
    if numeric:
        return _looked_up(g, x, keys.astype(dtype_of_value(x)), values, default)
    (array,) = inputs_of(n, 1)
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    default_item: Any = default.reshape(-1)[0]
    return _mapped(array, table, default_item, values.dtype)


def _looked_up(g: Emitter, x: Value, keys: Array, values: Array, default: Array) -> Value:
    """The values of many numeric keys: by their distance from the least where they are dense integers,
    by halving the sorted ones otherwise."""
    keys, order = np.unique(keys, return_index=True)  # NaN, if it is a key, is the last
    values = values[order]
    low, high = keys[0], keys[-1]
    if keys.dtype.kind in "iu" and int(high) - int(low) < MAX_SPREAD * keys.size:
        table = np.full(int(high) - int(low) + 2, default, values.dtype)
        table[(keys - low).astype(np.int64)] = values
        place = g(SubOp, g(MaxOp, x, g.like(low, x)), g.like(low, x))
        inside = g(AndOp, g(CmpGeOp, x, g.like(low, x)), g(CmpLeOp, x, g.like(high, x)))
        place = g(SelectOp, inside, cast_to(g, place, np.dtype(np.int64)), np.array(len(table) - 1))
        return take(g, table, place, 0)
    is_nan = keys.dtype.kind == "f" and bool(np.isnan(high))
    numbers = keys[:-1] if is_nan else keys
    step = 1 << (numbers.size.bit_length() - 1)
    filled, results = (_filled(a, 2 * step) for a in (numbers, values[: numbers.size]))
    place: Value = np.array(0)
    while step:
        further = g(AddOp, place, np.array(step))
        place = g(SelectOp, g(CmpLeOp, take(g, filled, further, 0), x), further, place)
        step //= 2
    known = g(CmpEqOp, take(g, filled, place, 0), x)
    out = g(SelectOp, known, take(g, results, place, 0), default)
    return g(SelectOp, g(IsNanOp, x), np.array(values[-1]), out) if is_nan else out


def _filled(items: Array, size: int) -> Array:
    """Items, and the last of them as often as makes `size`."""
    return np.append(items, np.full(size - items.size, items[-1]))


def _default(n: Node, values: Array) -> Array:
    tensor = n.tensor("default_tensor")
    if tensor is not None:
        check_entries("default_tensor", tensor.size, 1)
        return np.asarray(tensor).reshape(())
    if values.dtype == object:
        return np.array(n.text("default_string", "_Unused"), dtype=object)
    if values.dtype.kind in "iu":
        return np.array(n.integer("default_int64", -1), values.dtype)
    return np.array(n.number("default_float", -0.0), values.dtype)


def post_transform(g: Emitter, scores: Value, name: str) -> Value:
    """NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO of scores [N, E]."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return g(SigmoidOp, scores)
    if name == "SOFTMAX":
        return g(SoftmaxOp, scores, axis=rank(scores) - 1)
    if name == "SOFTMAX_ZERO":
        zero = g(CmpEqOp, scores, g.like(0, scores))
        hidden = g(SelectOp, zero, g.like(-1e30, scores), scores)
        return g(SelectOp, zero, scores, g(SoftmaxOp, hidden, axis=rank(scores) - 1))
    raise RuleError(f"post_transform '{name}'")


def linear_regressor(g: Emitter, n: Node) -> Value:
    """LinearRegressor: x coefficients' + intercepts."""
    targets = n.integer("targets", 1)
    if targets < 1:
        raise RuleError(f"attribute 'targets' is {targets}, expected at least 1")
    return post_transform(g, _scores(g, n, targets), n.text("post_transform", "NONE"))


def _scores(g: Emitter, n: Node, count: int) -> Value:
    x = cast_to(g, n[0], FLOAT)
    x = x if rank(x) == 2 else g.reshape(x, (1, *shape(x)))
    coefficients = n.numbers("coefficients", ())
    check_entries("coefficients", len(coefficients), count * shape(x)[1])
    weights = np.array(coefficients, FLOAT).reshape(count, shape(x)[1])
    scores = product(g, x, np.ascontiguousarray(weights.T))
    intercepts = n.numbers("intercepts")
    check_entries("intercepts", len(intercepts or ()), 0, 1, count)
    return scores if not intercepts else g(AddOp, scores, np.array(intercepts, FLOAT))


def linear_classifier(g: Emitter, n: Node) -> list[Value]:
    """LinearClassifier: labels and scores; one row of coefficients decides between two classes."""
    labels = class_labels(n)
    rows = len(n.numbers("intercepts") or labels)
    check_entries("intercepts", rows, len(labels), *[1] * (len(labels) == 2))
    scores = _scores(g, n, rows)
    if rows == 1 and len(labels) == 2:
        logistic = n.text("post_transform", "NONE") == "LOGISTIC"
        one = post_transform(g, scores, n.text("post_transform", "NONE"))
        other = g(SubOp, g.like(1, one), one) if logistic else g(MulOp, one, g.like(-1, one))
        scores = join(g, [other, one], 1)
        return [pick_labels(g, scores, labels), scores]
    return [pick_labels(g, scores, labels), post_transform(g, scores, n.text("post_transform", "NONE"))]


def class_labels(n: Node) -> Array:
    """The labels of a classifier."""
    for name in ("classlabels_ints", "classlabels_int64s"):
        if n.has(name) and n.integers(name):
            return np.array(n.integers(name), np.int64)
    labels = np.array(n.texts("classlabels_strings", ()), dtype=object)
    if not labels.size:
        raise RuleError("attribute 'classlabels_*' has no entries")
    return labels


def pick_labels(g: Emitter, scores: Value, labels: Array) -> Value:
    """The label of the largest score of each row."""
    best = g(ArgMaxOp, scores, axis=1, keepdims=False, select_last_index=False)
    if labels.dtype == object:
        return labels[g.known(best, "a label that is a string")]
    return take(g, labels, best, 0)


RULES: dict[str, Versions] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "CategoryMapper": category_mapper,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "Scaler": scaler,
}
