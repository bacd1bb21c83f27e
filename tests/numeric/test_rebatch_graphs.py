"""Graphs for another number of samples: the interpreter's results for these are the first of those before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import random
from glow_dialects.dialects import context
from glow_dialects.ops.module import placeholders
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.rebatch import RebatchPass, rebatch

OLD = 6
"""Samples before: a product, so that parts of it divide other sizes, too."""


def graph(shape: tuple[int, ...], body: Callable[[glow.GraphBuilder, Any], Any]) -> ModuleOp:
    """A function of one input."""
    g = glow.GraphBuilder()
    g.save(body(g, g.placeholder("x", shape)), "y")
    return g.module


def each(*shape: int) -> np.ndarray:
    """Values that differ from sample to sample."""
    return random(*shape, seed=3)


#: Shape of the input, its axis of samples, that of the output, whether there may be more, and the body.
CASES: dict[str, tuple[tuple[int, ...], int, int, bool, Callable[[glow.GraphBuilder, Any], Any]]] = {
    "a slice of columns": ((OLD, 5), 0, 0, True, lambda g, x: g.slice(x, (0, 1), (OLD, 3))),
    "a slice of rows of samples": (
        (OLD, 4, 2), 0, 0, True,
        lambda g, x: g.reshape(g.slice(g.reshape(x, (OLD * 4, 2)), (0, 1), (OLD * 4, 2)), (OLD, 4)),
    ),
    "a slice whose columns are as many": ((OLD, 8), 0, 0, True, lambda g, x: g.slice(x, (0, 1), (OLD, OLD))),
    "a resize": (
        (OLD, 2, 3, 3), 0, 0, True, lambda g, x: g.resize(x, (OLD, 2, OLD, 5)),
    ),
    "samples second": ((3, OLD, 2), 1, 1, True, lambda g, x: g.relu(g.slice(x, (1, 0, 0), (3, OLD, 1)))),
    "a reshape behind samples": ((3, OLD, 4), 1, 1, True, lambda g, x: g.reshape(x, (3, OLD, 2, 2))),
    "a reshape in front of samples": ((4, OLD, 3), 1, 2, True, lambda g, x: g.reshape(x, (2, 2, OLD, 3))),
    "samples in rows, and back": (
        (2, OLD, 4), 1, 1, True,
        lambda g, x: g.reshape(g.exp(g.reshape(x, (2 * OLD * 2, 2))), (2, OLD, 4)),
    ),
    "expanded": ((OLD, 1), 0, 0, True, lambda g, x: g.expand(x, (OLD, 5))),
    "expanded in front": ((OLD, 2), 0, 1, True, lambda g, x: g.expand(x, (OLD, OLD, 2))),
    "expanded rows of samples": (
        (OLD, 2, 1), 0, 0, True,
        lambda g, x: g.reshape(g.expand(g.reshape(x, (OLD * 2, 1)), (OLD * 2, 3)), (OLD, 2, 3)),
    ),
    "a number each": ((OLD, 2), 0, 0, False, lambda g, x: g.mul(x, g.constant(each(OLD, 1)))),
    "a computed number each": ((OLD, 2), 0, 0, False, lambda g, x: g.add(x, g.neg(g.constant(each(OLD, 2))))),
    "alike, samples second, named": (
        (2, OLD), 1, 1, False, lambda g, x: g.mul(x, g.constant(np.full((1, OLD), 3, np.float32), "w"))
    ),
    "alike, samples second": (
        (2, OLD), 1, 1, False, lambda g, x: g.mul(x, g.constant(np.full((1, OLD), 3, np.float32)))
    ),
    "twice": (
        (OLD, 2), 0, 0, False,
        lambda g, x: g.sub(g.mul(x, g.constant(each(OLD, 2))), g.constant(each(OLD, 1))),
    ),
    "a matrix as large": ((OLD, OLD), 0, 0, True, lambda g, x: g.matmul(x, g.constant(each(OLD, OLD)))),
    "joined with the first of each": (
        (OLD, 2), 0, 0, False, lambda g, x: g.concat([x, g.constant(each(OLD, 3))], axis=1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_first_samples(name: str) -> None:
    """For fewer samples, and for more where nothing has an entry for each."""
    shape, axis, out, more, body = CASES[name]
    x = random(*(2 * OLD if i == axis else n for i, n in enumerate(shape)))
    first = graph(shape, body)
    for count in (1, 2, 3, 5, *((8, 2 * OLD) if more else ())):
        module = graph(shape, body)
        given = tuple(count if i == axis else n for i, n in enumerate(shape))
        rebatch(module, {"x": given})
        module.verify()
        data = x.take(range(count), axis)
        have = glow.compile(module, backend="interpreter").run({"x": data})["y"]
        wide = x.take(range(OLD), axis) if count <= OLD else np.resize(x, shape)
        if count <= OLD:
            want = glow.compile(first, backend="interpreter").run({"x": wide})["y"].take(range(count), out)
            np.testing.assert_allclose(have, want, rtol=1e-6)
        parts = [
            glow.compile(first, backend="interpreter").run({"x": x.take(np.arange(i, i + OLD) % count, axis)})
            for i in range(0, count, OLD)
        ]
        if more:
            want = np.concatenate([p["y"] for p in parts], out).take(range(count), out)
            np.testing.assert_allclose(have, want, rtol=1e-6)


def test_what_is_not_needed_is_not_left() -> None:
    """Slices that were tried and did not fit are gone."""
    module = graph(*[CASES["twice"][i] for i in (0, 4)])
    rebatch(module, {"x": (2, 2)})
    assert len([op for op in module.walk() if isinstance(op, SliceOp)]) == 2


REFUSED: dict[str, tuple[tuple[int, ...], int, str, Callable[[glow.GraphBuilder, Any], Any]]] = {
    "two samples a row": ((OLD, 2), 0, "glow.reshape", lambda g, x: g.reshape(x, (3, 4))),
    "a sum over samples": ((OLD, 2), 0, "glow.reduce_sum", lambda g, x: g.reduce_sum(x, axes=(0,))),
    "features as many": ((2, OLD), 1, "glow.mul", lambda g, x: g.mul(x, g.constant(each(1, OLD)))),
    "many features as many": (
        (2, OLD), 1, "glow.mul", lambda g, x: g.mul(x, g.constant(each(1, OLD), "w")),
    ),
    "computed features": (
        (OLD, 2), 0, "no output has the samples", lambda g, x: g.neg(g.constant(each(OLD, 2)))
    ),
    "nothing to divide": ((OLD, 0), 0, "glow.reshape", lambda g, x: g.reshape(x, (OLD, 0, 3))),
}  # fmt: skip


@pytest.mark.parametrize("hint", [None, "r"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, hint: str | None) -> None:
    """What mixes samples, or whose entries may be something else, is named."""
    shape, axis, message, body = REFUSED[name]
    g = glow.GraphBuilder()
    made = body(g, g.placeholder("x", shape))
    g.save(made, "y")
    for op in g.function.walk():
        for result in op.results:
            result.name_hint = hint
    if message.startswith("glow."):
        told = r" \(%r\)" if hint else ""
        message += f"{told} does not keep samples apart: the model stays one for {shape[axis]} of them"
    with pytest.raises(GlowError, match=message):
        rebatch(g.module, {"x": tuple(2 if i == axis else n for i, n in enumerate(shape))})


def test_more_samples_than_entries() -> None:
    """A number for each of six samples is none for eight."""
    with pytest.raises(GlowError, match="glow.mul"):
        rebatch(graph(*[CASES["a number each"][i] for i in (0, 4)]), {"x": (8, 2)})


def test_shapes_that_are_no_other_number() -> None:
    """Of another rank, or two axes; inputs of which one has other samples."""
    body = CASES["a slice of columns"][4]
    for shape in ((2, 4), (2,), (2, 5, 1)):
        with pytest.raises(GlowError, match=r"input 'x' of shape \(6, 5\) does not become"):
            rebatch(graph((OLD, 5), body), {"x": shape})
    g = glow.GraphBuilder()
    g.save(g.add(g.placeholder("a", (OLD, 2)), g.placeholder("b", (OLD, 2))), "y")
    with pytest.raises(GlowError, match="the inputs disagree"):
        rebatch(g.module, {"a": (2, 2), "b": (3, 2)})


def test_states_keep_their_shape() -> None:
    """What has a place of its own from call to call cannot lose samples."""
    g = glow.GraphBuilder()
    g.save(g.placeholder("x", (OLD, 2)), "y")
    for p in placeholders(g.module).values():
        if p.sym_name.data == "y":
            p.properties["kind"] = type(p.kind)("state")
    with pytest.raises(GlowError, match="glow.save does not keep samples apart"):
        rebatch(g.module, {"x": (2, 2)})


def test_the_pass() -> None:
    """Every input with another first size, none without axes, and none that has the size."""
    g = glow.GraphBuilder()
    a, b, c, d = (g.placeholder(n, s) for n, s in (("a", (4, 2)), ("b", (4, 1)), ("c", ()), ("d", (3, 2))))
    g.save(g.mul(g.add(a, b), c), "y")
    g.save(d, "z")
    RebatchPass(3).apply(context(), g.module)
    shapes = {n: tuple(p.type.get_shape()) for n, p in placeholders(g.module).items()}
    assert shapes == {"a": (3, 2), "b": (3, 1), "c": (), "d": (3, 2), "y": (3, 2), "z": (3, 2)}
