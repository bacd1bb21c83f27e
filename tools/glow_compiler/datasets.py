"""Data of the Trainer: arrays, batches from any iterable, inputs by name or in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glow_backends.base import Port
from glow_compiler.checks import numbers
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.plain_arrays import as_plain
from glow_dialects.core.types import Array

Batch = tuple[Any, Any]
"""(inputs: an array, a dict by name or a list in the model's order; labels, None where there are none)."""


def by_name(inputs: Any, expected: Sequence[Port]) -> dict[str, Array]:
    """Inputs as a dict: by name, a list in the model's order, or a bare array for the only one."""
    if isinstance(inputs, Mapping):
        return {str(n): numbers(f"input '{n}'", a) for n, a in inputs.items()}  # pyright: ignore
    names = [p.name for p in expected]
    if isinstance(inputs, list | tuple) and len(inputs) == len(names):  # pyright: ignore[reportUnknownArgumentType]
        arrays = [numbers(f"input '{n}'", a) for n, a in zip(names, inputs, strict=True)]  # pyright: ignore
        if len(names) > 1 or arrays[0].ndim == len(expected[0].shape):  # not the only row of an array
            return dict(zip(names, arrays, strict=True))
    if len(names) == 1:
        return {names[0]: numbers(f"input '{names[0]}'", inputs)}
    raise BindingError(f"the model has {len(names)} inputs: {', '.join(names)}")


def pair(item: Any) -> Batch:
    """A batch as (inputs, labels); of more than two parts the last one is the labels."""
    if not isinstance(item, list | tuple) or len(item) < 2:  # pyright: ignore[reportUnknownArgumentType]
        kind: str = type(item).__name__  # pyright: ignore[reportUnknownArgumentType]
        raise GlowError(f"the data set gave a {kind} where a batch (inputs, labels) is expected")
    *inputs, labels = item  # pyright: ignore[reportUnknownVariableType]
    return (inputs[0] if len(inputs) == 1 else inputs), labels  # pyright: ignore


def batches(dataset: Any, epoch: int) -> Iterator[Batch]:
    """The batches of an epoch from an iterable, or from a function of the epoch's number."""
    items: Any = dataset(epoch) if callable(dataset) else dataset
    if not hasattr(items, "__iter__"):
        raise GlowError(f"a {type(items).__name__} is not a data set: expected arrays or batches")
    for item in items:
        yield pair(item)


def cut(
    inputs: Any,
    labels: Any,
    expected: Sequence[Port],
    size: int,
    order: np.random.Generator | None,
) -> Iterator[Batch]:
    """Batches of `size` from whole arrays, shuffled by `order`; the last one is what is left."""
    data, targets = by_name(inputs, expected), None if labels is None else as_plain("the labels", labels)
    count = len(next(iter(data.values())) if targets is None else targets)
    others = "others" if labels is None else "the labels"
    for name, array in data.items():
        if len(array) != count:
            raise BindingError(f"input '{name}' has {len(array)} samples, {others} {count}")
    places = np.arange(count)
    if order is not None:
        order.shuffle(places)
    for first in range(0, count, size):
        chosen = places[first : first + size]
        yield {n: a[chosen] for n, a in data.items()}, None if targets is None else targets[chosen]


def whole(
    data: Iterator[Batch], expected: Sequence[Port], takes: Callable[[Any], bool] | None
) -> Iterator[Batch]:
    """The batches but for a last one of fewer samples than the model's, unless the model `takes` them."""
    before: Batch | None = None
    for batch in data:
        if before is not None:
            yield before
        before = batch
    if before is None:
        return
    if samples(by_name(before[0], expected), expected) is None or (takes is not None and takes(before[0])):
        yield before


def samples(data: Mapping[str, Array], expected: Sequence[Port]) -> int | None:
    """How many samples arrays hold that differ from the inputs in their number alone, each in one axis.

    None where they are as many, or the arrays differ in more.
    """
    counts: set[tuple[int, int]] = set()
    same: list[Port] = []
    for port in expected:
        array = data.get(port.name)
        if array is None or array.ndim != len(port.shape):
            return None
        differ = [(want, have) for want, have in zip(port.shape, array.shape, strict=True) if want != have]
        if len(differ) > 1:
            return None
        counts.update(differ)
        same += [] if differ else [port]
    if len(counts) != 1:
        return None
    want, have = counts.pop()
    return None if any(p.shape[:1] == (want,) for p in same) else have
