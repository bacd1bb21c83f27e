"""Operators of init nets: each fills one blob with known values."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from glow_dialects.core.element_types import by
from glow_dialects.core.types import Array
from glow_frontends.caffe2.node import Node
from glow_frontends.graph.errors import RuleError

#: Element types by Caffe2's numbers; BYTE is another uint8.
DTYPES = {3: np.dtype(np.uint8), **{number: t.dtype for number, t in by("caffe2").items()}}
MAX_ELEMENTS = 1 << 34


def _shape(n: Node) -> tuple[int, ...]:
    shape = n.integers("shape")
    if any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS:
        raise RuleError(f"shape {list(shape)} is not a shape")
    return shape


def _tensor_fill(dtype: type[np.generic], read: Callable[[Node], Array]) -> Callable[[Node], Array]:
    def fill(n: Node) -> Array:
        shape, values = _shape(n), read(n)
        if values.size != prod(shape):
            raise RuleError(f"{values.size} values for shape {list(shape)}")
        return values.astype(dtype).reshape(shape)

    return fill


def _ints(n: Node) -> Array:
    return np.array(n.integers("values"), np.int64)


def _bytes(n: Node) -> Array:
    argument = next((a for a in n.op.arg if a.name == "values"), None)
    parts = [] if argument is None else list(argument.strings)
    return np.frombuffer(b"".join(parts), np.uint8)


def _constant(n: Node) -> Array:
    dtype = DTYPES.get(n.integer("dtype", 1))
    if dtype is None:
        raise RuleError(f"element type {n.integer('dtype')}")
    return np.full(_shape(n), n.number("value")).astype(dtype)


def _random(draw: Callable[[Node, np.random.Generator, tuple[int, ...]], Array]) -> Callable[[Node], Array]:
    """Reproducible: the seed is the blob's name."""

    def fill(n: Node) -> Array:
        rng = np.random.default_rng(list(n.op.output[0].encode()))
        return draw(n, rng, _shape(n)).astype(np.float32)

    return fill


def _fan_in(shape: tuple[int, ...]) -> int:
    return max(1, prod(shape[1:]))


FILLS: dict[str, Callable[[Node], Array]] = {
    "GivenTensorFill": _tensor_fill(np.float32, lambda n: n.numbers("values")),
    "GivenTensorFp16Fill": _tensor_fill(np.float16, lambda n: n.numbers("values")),
    "GivenTensorDoubleFill": _tensor_fill(np.float64, lambda n: n.numbers("values")),
    "GivenTensorIntFill": _tensor_fill(np.int32, _ints),
    "GivenTensorInt64Fill": _tensor_fill(np.int64, _ints),
    "GivenTensorBoolFill": _tensor_fill(np.bool_, _ints),
    "GivenTensorByteStringToUInt8Fill": _tensor_fill(np.uint8, _bytes),
    "ConstantFill": _constant,
    "UniformFill": _random(lambda n, rng, s: rng.uniform(n.number("min"), n.number("max", 1.0), s)),
    "GaussianFill": _random(lambda n, rng, s: rng.normal(n.number("mean"), n.number("std", 1.0), s)),
    "XavierFill": _random(lambda n, rng, s: rng.uniform(-1, 1, s) * np.sqrt(3.0 / _fan_in(s))),
    "MSRAFill": _random(lambda n, rng, s: rng.normal(0, np.sqrt(2.0 / _fan_in(s)), s)),
}
