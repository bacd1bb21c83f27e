"""Every method of the graph builder against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_dialects.ops import OPERATORS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3)).astype(np.float32)
Y = RNG.standard_normal((2, 3)).astype(np.float32)
P = RNG.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
Q = P + 1
I, J = np.array([[5, -7, 3]]), np.array([[2, 2, 2]])
B, C = np.array([True, True, False]), np.array([True, False, False])
IMAGE = RNG.standard_normal((1, 4, 4, 4)).astype(np.float32)
ODD = np.array([np.nan, np.inf, -np.inf, 1], np.float32)

Case = tuple[Callable[..., Any], tuple[Array, ...], Any]


def erf(x: Array) -> Array:
    """The error function of Python."""
    return np.vectorize(math.erf)(x.astype(np.float64))


def softmax(x: Array, axis: int) -> Array:
    """By its definition."""
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def standardized(x: Array, axes: tuple[int, ...]) -> Array:
    """Zero mean and unit variance."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def windows(x: Array) -> Array:
    """The 2x2 windows of stride 2, their elements last."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)


def placed(x: Array) -> Array:
    """Positions in the flat image of the largest elements of `windows`."""
    places = windows(np.arange(x.size).reshape(x.shape))
    return np.take_along_axis(places, windows(x).argmax(-1)[..., None], -1)[..., 0]


def local(x: Array) -> Array:
    """Local response normalisation over three channels."""
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    return x / (1 + 1e-4 / 3 * total) ** 0.75


def recurrent(x: Array, w: Array, r: Array) -> Array:
    """Hidden states of a simple recurrent network."""
    h, made = np.zeros((x.shape[1], r.shape[2])), []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T)
        made.append(h[None])
    return np.stack(made)


UNARY: dict[str, tuple[Callable[[Array], Any], Array]] = {
    **{n: (getattr(np, n), X) for n in ("abs", "floor", "ceil", "sign", "trunc", "sin", "cos", "tan")},
    **{n: (getattr(np, n), X) for n in ("sinh", "cosh", "exp", "expm1", "tanh")},
    **{n: (getattr(np, n), P) for n in ("sqrt", "log", "log1p")},
    **{f"a{n}": (getattr(np, f"arc{n}"), P) for n in ("sin", "cos", "tan", "sinh", "tanh")},
    "acosh": (np.arccosh, Q), "neg": (np.negative, X), "round": (np.rint, 3 * X), "erf": (erf, X),
    "rsqrt": (lambda x: 1 / np.sqrt(x), P), "reciprocal": (lambda x: 1 / x, P), "identity": (lambda x: x, X),
    "is_nan": (np.isnan, ODD), "is_inf": (np.isinf, ODD), "logical_not": (np.logical_not, B),
    "bitwise_not": (np.invert, I), "relu": (lambda x: np.maximum(x, 0), X),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), X), "softplus": (lambda x: np.log1p(np.exp(x)), X),
    "softsign": (lambda x: x / (1 + np.abs(x)), X), "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), X),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 4 * X), "dropout": (lambda x: x, X),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), X),
    "gelu": (lambda x: x * (1 + erf(x / 2**0.5)) / 2, X),
    "elu": (lambda x: np.where(x > 0, x, np.exp(x) - 1), X), "swish": (lambda x: x / (1 + np.exp(-x)), X),
    "celu": (lambda x: np.where(x > 0, x, np.exp(x) - 1), X), "logit": (lambda x: np.log(x / (1 - x)), P),
    "selu": (lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * (np.exp(x) - 1)), X),
    "hard_sigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), 4 * X), "clip": (lambda x: x, X),
    "thresholded_relu": (lambda x: np.where(x > 1, x, 0), X), "global_avg_pool": (
        lambda x: x.mean((2, 3), keepdims=True), IMAGE),
    "flatten": (lambda x: x.reshape(1, 64), IMAGE), "transpose": (np.transpose, X), "softmax": (
        lambda x: softmax(x, -1), X),
    "log_softmax": (lambda x: np.log(softmax(x, -1)), X), "layer_norm": (lambda x: standardized(x, (-1,)), X),
    "rms_norm": (lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), X),
    "lp_normalize": (lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), X), "trilu": (np.triu, X),
    "reduce_sum": (np.sum, X), "reduce_mean": (np.mean, X), "reduce_max": (np.max, X),
    "reduce_min": (np.min, X),
    "reduce_prod": (np.prod, X), "reduce_sum_square": (lambda x: (x * x).sum(), X),
    "reduce_l1": (lambda x: np.abs(x).sum(), X), "reduce_l2": (lambda x: np.sqrt((x * x).sum()), X),
    "reduce_log_sum": (lambda x: np.log(x.sum()), P),
    "reduce_log_sum_exp": (lambda x: np.log(np.exp(x).sum()), X),
}  # fmt: skip

BINARY: dict[str, tuple[Callable[[Array, Array], Any], Array, Array]] = {
    "add": (np.add, X, Y), "sub": (np.subtract, X, Y), "mul": (np.multiply, X, Y), "div": (np.divide, X, P),
    "max": (np.maximum, X, Y), "min": (np.minimum, X, Y), "pow": (np.power, P, Y), "mod": (np.mod, I, J),
    "fmod": (np.fmod, I, J), "floor_div": (np.floor_divide, I, J), "bitwise_and": (np.bitwise_and, I, J),
    "bitwise_or": (np.bitwise_or, I, J), "bitwise_xor": (np.bitwise_xor, I, J),
    "shift_left": (np.left_shift, J, J),
    "shift_right": (np.right_shift, np.abs(I), J), "logical_and": (np.logical_and, B, C),
    "logical_or": (np.logical_or, B, C), "logical_xor": (np.logical_xor, B, C), "cmp_eq": (np.equal, X, X),
    "cmp_ne": (np.not_equal, X, Y), "cmp_lt": (np.less, X, Y), "cmp_le": (np.less_equal, X, Y),
    "cmp_gt": (np.greater, X, Y), "cmp_ge": (np.greater_equal, X, X), "matmul": (np.matmul, X, Y.T.copy()),
    "prelu": (lambda x, s: np.where(x > 0, x, s * x), X, Y), "fully_connected": (np.matmul, X, Y.T.copy()),
    "batch_matmul": (np.matmul, X[None], Y.T[None].copy()),
}  # fmt: skip

ONES = np.ones((4, 1, 2, 2), np.float32)
PAIRS = np.array([[0, 1], [1, 2]])
TABLE: dict[str, Case] = {
    "constant": (lambda g, x: g.add(x, g.constant([1.0, 2.0, 3.0])), (X,), X + [1, 2, 3]),
    "select": (lambda g, c, x, y: g.select(c, x, y), (X > 0, X, Y), np.where(X > 0, X, Y)),
    "cast": (lambda g, x: g.cast(x, np.int32), (3 * X,), (3 * X).astype(np.int32)),
    "arg_max": (lambda g, x: g.arg_max(x, -1), (X,), X.argmax(-1)),
    "arg_min": (lambda g, x: g.arg_min(x, 0, keepdims=True), (X,), X.argmin(0)[None]),
    "cumsum": (lambda g, x: g.cumsum(x, -1, reverse=True), (X,), X[:, ::-1].cumsum(-1)[:, ::-1]),
    "reshape": (lambda g, x: g.reshape(x, (3, -1)), (X,), X.reshape(3, 2)),
    "concat": (lambda g, x, y: g.concat([x, y], axis=-1), (X, Y), np.concatenate([X, Y], -1)),
    "slice": (lambda g, x: g.slice(x, (0, 0), (2, 3), (1, 2)), (X,), X[:, ::2]),
    "insert_slice": (lambda g, x, y: g.insert_slice(x, y, (1, 0)), (X, Y[:1]), np.stack([X[0], Y[0]])),
    "tile": (lambda g, x: g.tile(x, (2, 1)), (X,), np.tile(X, (2, 1))),
    "pad": (lambda g, x: g.pad(x, (0, 1, 1, 0), value=2), (X,),
            np.pad(X, ((0, 1), (1, 0)), constant_values=2)),
    "expand": (lambda g, x: g.expand(x, (4, 2, 3)), (X,), np.broadcast_to(X, (4, 2, 3))),
    "flip": (lambda g, x: g.flip(x, (-1,)), (X,), X[:, ::-1]),
    "gather": (lambda g, x, i: g.gather(x, i, axis=-1), (X, np.array([2, 0])), X[:, [2, 0]]),
    "gather_nd": (lambda g, x, i: g.gather_nd(x, i), (X, PAIRS), X[PAIRS[:, 0], PAIRS[:, 1]]),
    "gather_elements": (
        lambda g, x, i: g.gather_elements(x, i, axis=-1), (X, PAIRS), np.take_along_axis(X, PAIRS, -1)),
    "scatter_nd": (
        lambda g, x, i, u: g.scatter_nd(x, i, u), (X, np.array([[1]]), Y[:1]), np.stack([X[0], Y[0]])),
    "scatter_elements": (
        lambda g, x, i, u: g.scatter_elements(x, i, u, axis=-1), (X, np.array([[1], [1]]), Y[:, :1]),
        np.stack([X[:, 0], Y[:, 0], X[:, 2]], 1)),
    "one_hot": (
        lambda g, i, v: g.one_hot(i, v, 3), (np.array([2, 0]), np.array([0, 1], np.float32)),
        np.eye(3)[[2, 0]]),
    "top_k": (lambda g, x: g.top_k(x, 2)[0], (X,), -np.sort(-X)[:, :2]),
    "depth_to_space": (
        lambda g, x: g.depth_to_space(x, 2), (IMAGE,),
        IMAGE.reshape(1, 2, 2, 1, 4, 4).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 8, 8)),
    "space_to_depth": (
        lambda g, x: g.space_to_depth(x, 2), (IMAGE,),
        IMAGE.reshape(1, 4, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 2, 2)),
    "resize": (
        lambda g, x: g.resize(x, (1, 4, 8, 8)), (IMAGE,),
        IMAGE.repeat(2, 2).repeat(2, 3)),
    "conv": (
        lambda g, x, w: g.conv(x, w, strides=2, group=4), (IMAGE, ONES), windows(IMAGE).sum(-1)),
    "conv_transpose": (
        lambda g, x, w: g.conv_transpose(x, w, strides=2, group=4), (IMAGE, ONES),
        IMAGE.repeat(2, 2).repeat(2, 3)),
    "max_pool": (lambda g, x: g.max_pool(x, 2, strides=2), (IMAGE,), windows(IMAGE).max(-1)),
    "max_pool_with_argmax": (
        lambda g, x: g.max_pool_with_argmax(x, 2, strides=2)[1], (IMAGE,), placed(IMAGE)),
    "avg_pool": (lambda g, x: g.avg_pool(x, 2, strides=2), (IMAGE,), windows(IMAGE).mean(-1)),
    "lp_pool": (lambda g, x: g.lp_pool(x, 2, strides=2), (IMAGE,), np.sqrt((windows(IMAGE) ** 2).sum(-1))),
    "batch_norm": (
        lambda g, x, s: g.batch_norm(x, s, s, s, s), (IMAGE, np.full(4, 0.5, np.float32)),
        (IMAGE - 0.5) / np.sqrt(0.5 + 1e-5) * 0.5 + 0.5),
    "instance_norm": (
        lambda g, x, s: g.instance_norm(x, s, s), (IMAGE, np.ones(4, np.float32)),
        standardized(IMAGE, (2, 3)) + 1),
    "group_norm": (
        lambda g, x, s: g.group_norm(x, s, s, 2), (IMAGE, np.ones(4, np.float32)),
        standardized(IMAGE.reshape(1, 2, 2, 4, 4), (2, 3, 4)).reshape(IMAGE.shape) + 1),
    "lrn": (lambda g, x: g.lrn(x, 3), (IMAGE,), local(IMAGE)),
    "rnn": (
        lambda g, x, w, r: g.rnn(x, w, r)[0], (IMAGE[0], IMAGE[:, 0], IMAGE[:, 1]),
        recurrent(IMAGE[0], IMAGE[:, 0], IMAGE[:, 1])),
    # Gates of nothing are one half, and new values 0: the states stay 0.
    "gru": (
        lambda g, x, w: g.gru(x, w, w)[0], (IMAGE[0], np.zeros((1, 12, 4), np.float32)),
        np.zeros((4, 1, 4, 4))),
    "lstm": (
        lambda g, x, w: g.lstm(x, w, w)[2], (IMAGE[0], np.zeros((1, 16, 4), np.float32)),
        np.zeros((1, 4, 4))),
}  # fmt: skip

#: What every operator is inserted with, and methods that other tests are about.
COMMON = {"array", "insert", "one", "placeholder", "predicated", "save", "size", "trainable"} | {
    "update",
    "value",
}


def computed(build: Callable[..., Any], inputs: Sequence[Array]) -> Array:
    """The value of a graph of some inputs."""
    g = glow.GraphBuilder()
    g.save(build(g, *[g.placeholder(f"x{i}", a.shape, a.dtype) for i, a in enumerate(inputs)]), "y")
    names = [f"x{i}" for i in range(len(inputs))]
    return glow.compile(g, backend="interpreter").run(dict(zip(names, inputs, strict=True)))["y"]


def check(made: Array, expected: Any) -> None:
    """Equal up to rounding, in type of number and shape."""
    expected = np.asarray(expected)
    assert made.shape == expected.shape
    assert (made.dtype.kind == "f") == (expected.dtype.kind == "f")
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_of_one_operand(name: str) -> None:
    """Methods of one value, other arguments as they are by default."""
    function, x = UNARY[name]
    check(computed(lambda g, v: getattr(g, name)(v), (x,)), function(x))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_of_two_operands(name: str) -> None:
    """Methods of two values."""
    function, x, y = BINARY[name]
    check(computed(lambda g, v, w: getattr(g, name)(v, w), (x, y)), function(x, y))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_of_other_arguments(name: str) -> None:
    """Methods with arguments of their own."""
    build, inputs, expected = TABLE[name]
    check(computed(build, inputs), expected)


def test_none_is_missing() -> None:
    """Every public method is in one of the tables."""
    kinds = glow.GraphBuilder.__mro__[:-1]
    declared = {name for kind in kinds for name in [*vars(kind), *vars(kind).get("__annotations__", ())]}
    methods = {name for name in declared if not name.startswith("_")}
    assert methods == {*UNARY, *BINARY, *TABLE} | COMMON


def test_every_operator_is_a_method() -> None:
    """Operators without a declared method, too: operands in order, properties by name."""
    names = [name for names in OPERATORS.values() for name in names.split()]
    assert set(names) <= set(dir(glow.GraphBuilder()))
    assert all(callable(getattr(glow.GraphBuilder(), name)) for name in names)
    result = computed(lambda g, v: g.replace_nan(v, value=7.0), (ODD,))
    check(result, np.where(np.isnan(ODD), 7, ODD))
    check(computed(lambda g, v: g.max(2, v), (X,)), np.maximum(2, X))


def test_an_operator_that_there_is_not() -> None:
    """A misspelt name is an error with the name that is like it."""
    with pytest.raises(AttributeError, match="GraphBuilder has no operator 'rleu'; did you mean 'relu'"):
        glow.GraphBuilder().rleu  # pyright: ignore  # noqa: B018


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm", "lp_normalize"])
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_none(name: str, axis: int) -> None:
    """An axis beyond the rank is refused, not counted round."""
    g = glow.GraphBuilder()
    with pytest.raises(glow.ShapeError, match=rf"axis {axis} of tensor<2x3xf32>"):
        getattr(g, name)(g.placeholder("x", (2, 3)), axis=axis)
