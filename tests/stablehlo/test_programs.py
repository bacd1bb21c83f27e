"""Programs of JAX beside JAX: networks, loops, gradients, random numbers, symbolic sizes; what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from beside_jax import answers, check, close, export, exported, jax, leaves, numbers
from test_rules import convolved

import glow_compiler as glow
from glow_dialects.core.errors import GlowError, ImportProblems
from glow_dialects.core.types import Array

jnp, lax, nn = jax.numpy, jax.lax, jax.nn
pytestmark = [pytest.mark.slow, pytest.mark.peers]


def weights(*shape: int, seed: int = 0) -> Array:
    """Small enough that layers neither explode nor saturate."""
    return numbers(*shape, seed=seed) / np.float32(np.sqrt(shape[0]))


def layers(*widths: int) -> list[tuple[Array, Array]]:
    """Weights and biases."""
    return [(weights(a, b), numbers(b, seed=1)) for a, b in zip(widths, widths[1:], strict=False)]


def mlp(p: Any, x: Any) -> Any:
    """Layers with relu between them."""
    for w, b in p[:-1]:
        x = nn.relu(x @ w + b)
    return x @ p[-1][0] + p[-1][1]


def cnn(p: Any, x: Any) -> Any:
    """Convolutions with batch normalisation, relu and pools, then classes."""
    for w, scale, offset, mean, variance in p["blocks"]:
        x = (convolved(x, w) - mean) * (scale * lax.rsqrt(variance + 1e-5)) + offset
        x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return nn.softmax(x.mean((1, 2)) @ p["classes"])


def norm(x: Any, scale: Any, offset: Any) -> Any:
    """A layer normalisation."""
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset


def transformer(p: Mapping[str, Any], x: Any) -> Any:
    """A block of four heads that look back."""
    count, length, width = x.shape
    heads = partial(jnp.reshape, shape=(count, length, 4, width // 4))
    q, k, v = map(heads, jnp.split(norm(x, p["g1"], p["b1"]) @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // 4)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(x.shape)
    x = x + mixed @ p["out"]
    return x + nn.gelu(norm(x, p["g2"], p["b2"]) @ p["up"] + p["bias"]) @ p["down"]


BLOCK = {
    "g1": numbers(32),
    "b1": numbers(32, seed=1),
    "g2": numbers(32, seed=2),
    "b2": numbers(32, seed=3),
    "qkv": weights(32, 96),
    "out": weights(32, 32),
    "up": weights(32, 64),
    "bias": numbers(64),
    "down": weights(64, 32),
}
BLOCKS = {
    "blocks": [
        (weights(3, 3, a, b), numbers(b), numbers(b, seed=1), numbers(b, seed=2), np.abs(numbers(b, seed=3)))
        for a, b in ((3, 8), (8, 16))
    ],
    "classes": weights(16, 4),
}


def lstm(p: Mapping[str, Any], x: Any) -> Any:
    """A recurrent network by lax.scan."""

    def cell(state: Any, now: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(now @ p["w"] + h @ p["u"] + p["b"], 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], 8))
    return lax.scan(cell, (zeros, zeros), x)


def step(p: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent."""
    loss, slopes = jax.value_and_grad(
        lambda p: -(nn.log_softmax(mlp(p, x)) * nn.one_hot(y, 4)).sum(1).mean()
    )(p)
    return loss, jax.tree.map(lambda a, b: a - 0.1 * b, p, slopes)


def convolved_loss(p: Any, x: Any) -> Any:
    """A loss through convolutions, strides and a max pool."""
    y = nn.relu(convolved(x, p[0]) + p[1])
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return (convolved(y, p[2], (2, 2)) ** 2).mean()


CELL = {"w": weights(4, 32), "u": weights(8, 32), "b": numbers(32)}
PROGRAMS: dict[str, tuple[Any, ...]] = {
    "mlp": (mlp, layers(8, 16, 16, 4), numbers(3, 8)),
    "cnn": (cnn, BLOCKS, numbers(2, 12, 12, 3)),
    "transformer": (transformer, BLOCK, numbers(2, 10, 32)),
    "lstm, written out": (lstm, CELL, numbers(6, 2, 4)),
    "lstm, a loop": (lstm, CELL, numbers(70, 2, 4)),
    "a scan of many turns": (
        lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros(3), x),
        numbers(300, 3),
    ),
    "a scan from the end": (
        lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), jnp.zeros(3), x, reverse=True),
        numbers(200, 3),
    ),
    "a counted loop": (lambda x: lax.fori_loop(0, 600, lambda i, v: v * 0.9 + i, x), numbers(3)),
    "a loop that data end": (
        lambda x: lax.while_loop(lambda s: (s[0] ** 2).sum() < 1e3, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0)),
        numbers(3),
    ),
    "a loop of a number that is given": (
        lambda x, n: lax.while_loop(
            lambda s: s[1] < n, lambda s: (s[0] + s[2], s[1] + 1, s[2]), (x, 0, x * 2)
        ),
        numbers(3),
        np.int32(0),
    ),
    "branches": (
        lambda x, i: [
            lax.cond(x[0] > 0, lambda v: v * 2, lambda v: v.sum() + v, x),
            [lax.switch(k, [lambda v: v, lambda v: v * 2, jnp.exp], x) for k in i],
        ],
        numbers(3),
        np.int32([0, 1, 2, 9, -1]),
    ),
    "loops in loops": (
        lambda x: lax.fori_loop(
            0,
            30,
            lambda i, v: (
                lax.fori_loop(0, i, lambda j, u: u * 0.99 + j, v)
                + lax.cond(v[0] > i, lambda: 1.0, lambda: 2.0)
            ),
            x,
        ),
        numbers(3),
    ),
    "random numbers": (
        lambda k: [
            jax.random.normal(k, (3, 4)),
            jax.random.uniform(k, (5,)),
            jax.random.randint(k, (5,), 0, 10),
            jax.random.bernoulli(k, 0.3, (7,)),
            jax.random.permutation(k, 8),
            jax.random.split(k),
        ],
        np.uint32([3, 5]),
    ),
    "dropout": (
        lambda x: jnp.where(jax.random.bernoulli(jax.random.PRNGKey(3), 0.5, x.shape), x / 0.5, 0),
        numbers(4, 5),
    ),
    "a step of training": (step, layers(8, 16, 4), numbers(6, 8), np.int32([0, 1, 2, 3, 0, 1])),
    "gradients of convolutions": (
        jax.grad(convolved_loss),
        [weights(3, 3, 3, 5), numbers(5), weights(3, 3, 5, 4)],
        numbers(2, 8, 9, 3),
    ),
    "gradients of indexing": (
        jax.grad(lambda x, i: (x[i] ** 2).sum() + (x[:, i] ** 3).sum()),
        numbers(4, 4),
        np.int32([3, 0, 3]),
    ),
    "second derivatives": (jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 3)), numbers(4)),
    "for each of two": (
        lambda x, w: jax.vmap(jax.vmap(lambda a, b: jnp.tanh(a @ b), (0, None)), (None, 0))(x, w),
        numbers(5, 3),
        numbers(4, 3, 2),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    """Values of a program."""
    function, *arguments = PROGRAMS[name]
    check(function, *arguments, tolerance=2e-5)


@pytest.mark.parametrize(
    "name,wanted",
    [
        ("mlp", "fully_connected relu fully_connected relu fully_connected"),
        ("transformer", None),
        ("cnn", None),
    ],
)
def test_few_nodes(name: str, wanted: str | None) -> None:
    """What JAX writes out is one operator of the graph again."""
    from xdsl.context import Context

    from glow_dialects.core.graph_op import GraphOp
    from glow_passes.pipeline import optimize

    function, *arguments = PROGRAMS[name]
    module = glow.load(exported(function, arguments))
    for item in optimize():
        item.apply(Context(), module)
    nodes = [op.name.removeprefix("glow.") for op in module.walk() if isinstance(op, GraphOp)]
    nodes = [n for n in nodes if n not in ("get", "splat", "reshape")]
    if wanted is not None:
        assert " ".join(nodes) == wanted
    elif name == "transformer":
        assert nodes.count("layer_norm") == 2 and nodes.count("softmax") == nodes.count("gelu") == 1
        assert not {"expand", "reduce_sum", "exp", "sqrt", "tanh"} & set(nodes), nodes
    else:
        assert nodes.count("max_pool") == 2 and nodes.count("softmax") == 1 and "expand" not in nodes, nodes


Specs = Sequence[tuple[tuple[int | str, ...], str]]
SYMBOLIC: dict[str, tuple[Callable[..., Any], str, Specs, Sequence[Mapping[str, int]]]] = {
    "rows": (
        lambda x, w: nn.softmax(nn.relu(x @ w)),
        "b",
        [(("b", 8), "float32"), ((8, 4), "float32")],
        [{"b": 1}, {"b": 7}, {"b": 64}],
    ),
    "two sizes": (
        lambda x: nn.softmax(x.reshape(-1, 3) @ jnp.ones((3, 2)) + x.shape[0], axis=0),
        "b, s",
        [(("b", "s", 3), "float32")],
        [{"b": 2, "s": 3}, {"b": 5, "s": 1}],
    ),
    "attention": (
        lambda x: transformer(BLOCK, x),
        "b, s",
        [(("b", "s", 32), "float32")],
        [{"b": 2, "s": 3}, {"b": 1, "s": 17}],
    ),
    "images": (
        lambda x: cnn(BLOCKS, x),
        "b",
        [(("b", 12, 12, 3), "float32")],
        [{"b": 2}, {"b": 5}],
    ),
    "shapes": (
        lambda x: [
            jnp.concatenate([x, x], 0),
            x[:, ::2],
            x[1:],
            x[::-1],
            jnp.arange(x.shape[0]),
            jnp.sort(x, 0),
            jnp.argmax(x, 0),
            jnp.pad(x, ((1, 2), (0, 0))),
            x.T.reshape(-1),
            x.mean(0),
            x.at[1].set(0.0),
            jnp.broadcast_to(x[:, None], (x.shape[0], 2, 4)),
            jnp.tril(x @ x.T),
            jnp.cumsum(x, 0),
        ],
        "b",
        [(("b", 4), "float32")],
        [{"b": 2}, {"b": 5}, {"b": 8}],
    ),
    "a scan": (
        lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(3), x),
        "n",
        [(("n", 3), "float32")],
        [{"n": 2}, {"n": 5}],
    ),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str) -> None:
    """One import for any size, and the names of sizes are those of the function."""
    function, names, shapes, runs = SYMBOLIC[name]
    limits = [f"{names[0]}>=2"] if name == "shapes" else []
    symbols = dict(zip(names.split(", "), export.symbolic_shape(names, constraints=limits), strict=True))
    specs = [
        jax.ShapeDtypeStruct(tuple(symbols.get(d, d) for d in shape), dtype)
        for shape, dtype in shapes  # pyright: ignore
    ]
    program = export.export(jax.jit(function))(*specs)
    net = glow.compile(program, specialize="never")
    assert net.inputs[0].names == tuple(map(str, shapes[0][0]))
    for run in runs:
        arguments = [numbers(*(run.get(d, d) for d in shape)) for shape, _ in shapes]  # pyright: ignore
        want = [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*arguments))]
        close(answers(net, leaves(program, arguments)), want, 2e-5)


def test_names() -> None:
    """Ports are called as arguments and results are; serialized bytes are a model as well."""
    program = exported(lambda p, x: {"y": x @ p["w"]}, [{"w": numbers(4, 2)}, numbers(3, 4)])
    for model in (program, program.serialize(), bytes(program.serialize())):
        net = glow.compile(model)
        assert [p.name for p in net.inputs] == ["p['w']", "x"]
        assert [p.name for p in net.outputs] == ["result['y']"]


def test_large_constants() -> None:
    """Weights that a function closes over are constants of the module."""
    w = numbers(40, 50)
    limits = np.where(np.arange(50) % 2, np.inf, 1.0).astype(np.float32)
    check(lambda x: jnp.minimum(x @ w, limits), numbers(3, 40), backends=["cpu"])


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), "stablehlo.fft at .*complex"),
    "complex numbers": (lambda x: (x * 2j).real, "complex numbers"),
    "libraries": (lambda x: jnp.linalg.inv(x), "stablehlo.custom_call at .*lapack"),
    "generators of devices": (
        lambda x: lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (3,))[1] + x[0, 0],
        "rng_bit_generator",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Each operation that cannot be compiled is named, with the line that it comes from."""
    function, message = REFUSED[name]
    with pytest.raises(ImportProblems, match=message) as caught:
        glow.load(exported(function, [numbers(4, 4)]))
    assert "test_programs.py:" in str(caught.value)


def test_refused_together() -> None:
    """All problems of a program are told at once."""
    with pytest.raises(ImportProblems) as caught:
        glow.load(exported(lambda x: [jnp.fft.fft(x), jnp.linalg.inv(x)], [numbers(4, 4)]))
    assert {"fft", "lapack"} <= {w for w in ("fft", "lapack") if w in str(caught.value)}
    assert len(caught.value.problems) == 3  # one of them that complex numbers are made


def test_other_bytes() -> None:
    """Bytes that only begin like a function of JAX."""
    with pytest.raises(GlowError, match="no exported function of JAX"):
        glow.load(b"<\0\0\0ML\xefR")
    with pytest.raises(TypeError, match=r"jax\.export\.export"):
        glow.compile(jnp.ones(3))
