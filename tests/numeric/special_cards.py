"""Every card on special values: what differs between the CPU backend and the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from graph_runner import Graph
from xdsl.utils.exceptions import VerifyException

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array
from glow_dialects.ops import CARDS

REFUSED = (GlowError, VerifyException, AssertionError, ValueError, TypeError, KeyError, NotImplementedError)
KINDS = {
    t: np.dtype(getattr(ml_dtypes, t, t))
    for t in (
        "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64",
        "uint8", "uint16", "uint32", "uint64", "bool",
    )
}  # fmt: skip


def is_float(kind: np.dtype) -> bool:
    """Whether the elements are floats."""
    return kind.kind == "f" or kind.name == "bfloat16"


def special(kind: np.dtype) -> Array:
    """Every special value of a type, and a few ordinary ones."""
    if kind == bool:
        return np.array([False, True])
    if not is_float(kind):
        info = np.iinfo(kind)
        numbers = [info.min, info.min + 1, -2, -1, 0, 1, 2, 3, 7, 8, 31, 63, info.max - 1, info.max]
        return np.unique(np.array([n for n in numbers if info.min <= n <= info.max], kind))
    info = ml_dtypes.finfo(kind)
    most, least, tiny = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
    half = [most, least, tiny, 0.5, 1.5, 2.5, 1.0, 2.0, 3.0, 100.0, 0.3, 90.0, 6.0, 12.0]
    numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, *half, *(-v for v in half)]
    return np.array(numbers, np.float64).astype(kind)


def mild(kind: np.dtype) -> Array:
    """The special values whose sums do not depend on their order: none is near the largest."""
    x = special(kind)
    if not is_float(kind):
        return x
    return x[~(np.isfinite(x.astype(np.float64)) & (np.abs(x.astype(np.float64)) > 200))]


@dataclass(frozen=True)
class Difference:
    """Results that are not what they are compared with."""

    operator: str
    kind: str
    door: str
    peer: str
    inputs: tuple[Any, ...]
    ours: Any
    theirs: Any


def ulps(ours: Array, theirs: Array) -> Array:
    """Units of the last place between floats; 0 for two NaN, infinite for one, or for zeros of two signs."""
    kind = theirs.dtype
    x, y = ours.astype(np.float64), theirs.astype(np.float64)
    info = ml_dtypes.finfo(kind)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.maximum(np.abs(y), float(info.smallest_normal)))
        step = np.ldexp(1.0, exponent - 1 - info.nmant)
        error = np.abs(x - y) / step
        error = np.where((x == y) & (np.signbit(x) == np.signbit(y)), 0, error)
        error = np.where((x == y) & (x == 0) & (np.signbit(x) != np.signbit(y)), np.inf, error)
        error = np.where(np.isnan(x) | np.isnan(y) | np.isinf(x) | np.isinf(y), np.inf, error)
        error = np.where((np.isnan(x) & np.isnan(y)) | ((x == y) & np.isinf(x)), 0, error)
    return error


def unequal(ours: Array, theirs: Array, allowed: float = 0.0) -> Array:
    """Where two results differ by more than is allowed."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return np.ones(theirs.shape, bool)
    if not is_float(theirs.dtype):
        return ours != theirs
    return ulps(ours, theirs) > allowed


def filled(sample: Sample, kind: np.dtype, start: int, values: Array) -> Sample:
    """The sample with special values of a type in the operands of its first type."""
    first = sample.arrays()[0].dtype

    def change(value: Any, number: int) -> Any:
        if value is None:
            return None
        if isinstance(value, Sequence):
            return [change(v, number + i) for i, v in enumerate(value)]
        if value.dtype != first:
            return value
        index = (np.arange(value.size) * (2 * number + 1) + start + 5 * number) % len(values)
        return values[index].reshape(value.shape)

    return replace(sample, inputs=tuple(change(v, i) for i, v in enumerate(sample.inputs)))


def crossed(sample: Sample, kind: np.dtype) -> Sample | None:
    """An element-wise sample of two operands on every pair of special values."""
    values = special(kind)
    arrays = [v for v in sample.inputs if isinstance(v, np.ndarray)]
    if len(arrays) != len(sample.inputs) or len({a.dtype for a in arrays}) > 1 or sample.results is not None:
        return None
    if len(arrays) == 1:
        return replace(sample, inputs=(values,))
    if len(arrays) == 2:
        pairs = np.meshgrid(values, values)
        return replace(sample, inputs=(pairs[0].ravel(), pairs[1].ravel()))
    return None


def run(sample: Sample) -> tuple[list[Array], list[Array]] | None:
    """(the CPU's results, those of the operator's own meaning), None where the type is refused."""
    graph = Graph()
    arrays = sample.arrays()
    try:
        op = sample.build(graph.b, [graph.input(a) for a in arrays])
        op.verify()
        for result in op.results:
            graph.save(result)
        with np.errstate(all="ignore"):
            meant = sample.detached()[1].evaluate(arrays)
        net = glow.compile(graph.module, "cpu")
    except REFUSED:
        return None
    return list(net.run(graph.inputs).values()), meant


def samples(card_names: Sequence[str] = ()) -> Iterator[tuple[str, Sample]]:
    """Every sample whose first operand is an array, with its operator's name."""
    for card in CARDS:
        for sample in card.SAMPLES:
            name = sample.op.name.removeprefix("glow.")
            if sample.arrays() and (not card_names or name in card_names):
                yield name, sample
