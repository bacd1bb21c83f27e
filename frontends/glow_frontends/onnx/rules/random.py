"""Rules of random tensors: drawn when the model is compiled, from the seed that the node gives."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.compare import CmpLtOp
from glow_frontends.graph import Emitter, Value, cast_to, dtype_of_value, shape
from glow_frontends.graph.module import check_size
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type


def generator(n: Node) -> np.random.Generator:
    """Random numbers by the node's seed; without one by the names of its outputs, so that runs repeat."""
    seed = n.number("seed")
    if seed is not None:
        return np.random.default_rng(abs(int(seed)))
    return np.random.default_rng(list(n.proto.output[0].encode()) if n.proto.output else 0)


def _form(n: Node) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype: attributes, or those of the input of the `Like` forms."""
    if n.op.endswith("Like"):
        dims = shape(n[0])
        kind = numpy_type(n.integer("dtype")) if n.has("dtype") else dtype_of_value(n[0])
    else:
        dims, kind = n.integers("shape"), numpy_type(n.integer("dtype", 1))
    check_size(dims)
    return dims, kind


def uniform(g: Emitter, n: Node) -> Array:
    """RandomUniform and RandomUniformLike."""
    del g
    dims, kind = _form(n)
    return generator(n).uniform(n.number("low", 0.0), n.number("high", 1.0), dims).astype(kind)


def normal(g: Emitter, n: Node) -> Array:
    """RandomNormal and RandomNormalLike."""
    del g
    dims, kind = _form(n)
    return generator(n).normal(n.number("mean", 0.0), n.number("scale", 1.0), dims).astype(kind)


def bernoulli(g: Emitter, n: Node) -> Value:
    """Bernoulli: 1 with the probability that the input gives."""
    x = n[0]
    kind = numpy_type(n.integer("dtype")) if n.has("dtype") else dtype_of_value(x)
    draws = generator(n).random(shape(x)).astype(dtype_of_value(x))
    return cast_to(g, g(CmpLtOp, draws, x), kind)


def multinomial(g: Emitter, n: Node) -> Array:
    """Multinomial of known log probabilities."""
    chances = np.exp(g.known(n[0], "the probabilities of Multinomial").astype(np.float64))
    edges = np.cumsum(chances, axis=1)
    draws = generator(n).random((len(edges), n.integer("sample_size", 1))) * edges[:, -1:]
    picks = (draws[:, :, None] > edges[:, None, :]).sum(axis=2)
    return picks.astype(numpy_type(n.integer("dtype", 6)))


RULES: dict[str, Versions] = {
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "RandomNormal": normal,
    "RandomNormalLike": normal,
    "RandomUniform": uniform,
    "RandomUniformLike": uniform,
}
