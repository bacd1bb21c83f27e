"""StableHLO text, as JAX wrote it once: values beside NumPy, names, sizes, and messages. It needs no JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import GlowError, ImportProblems
from glow_dialects.core.types import Array
from glow_frontends.stablehlo import import_stablehlo

FOLDER = Path(__file__).with_name("programs")
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    """Normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x: Array, axis: int = -1) -> Array:
    """Of NumPy."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layers(w: Array, b: Array, v: Array, c: Array, x: Array) -> list[Array]:
    return [softmax(np.maximum(np.maximum(x @ w + b, 0) @ v + c, 0))]


def norm(x: Array, scale: Array, offset: Array) -> list[Array]:
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset
    return [y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))]


def image(x: Array, w: Array) -> list[Array]:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    y = np.einsum("nyxcij,ijco->nyxo", patches, w).reshape(2, 3, 2, 3, 2, 4)
    return [y.max((2, 4)), y.mean((2, 4))]


def indexed(x: Array, i: Array, v: Array) -> list[Array]:
    added, written = x.copy(), x.copy()
    np.add.at(added, i, v)
    for place, value in zip(i + 2, v, strict=True):
        if place < len(x):
            written[place] = value
    top, left = min(i[0], 3), min(i[1], 2)
    return [x[i], added, written, x[top : top + 2, left : left + 2]]


def ordered(x: Array) -> list[Array]:
    best = np.argsort(-x, 1, kind="stable")[:, :2]
    tops = [np.take_along_axis(x, best, 1), best.astype(np.int32)]
    places = [np.argsort(-x, 0, kind="stable"), np.argmax(x, 1)]
    return [np.sort(x), *(p.astype(np.int32) for p in places), *tops, np.cumsum(x, 0)]


def loops(x: Array) -> list[Array]:
    total, rows = np.zeros(3, np.float32), []
    for row in x:
        rows.append(total * row)
        total = total + row
    grown, turns = total**2 + 1, 0
    while grown.sum() < 100:
        grown, turns = grown * 2, turns + 1
    return [np.array(rows), grown, np.array(turns, np.int32), total if total[0] > 0 else -total]


def bits(x: Array) -> list[Array]:
    u = x.view(np.uint32)
    counts = [bin(v).count("1") for v in u]
    return [u ^ ((u << 13) | (u >> 19)), (u >> 3).view(np.int32), x >> 3, np.array(counts, np.uint32)]


def grouped(q: Array, k: Array) -> list[Array]:
    return [np.einsum("bqhd,bkhd->bhqk", q, k), np.einsum("abcd,ebcd->ae", q, k)]


def open_rows(x: Array) -> list[Array]:
    return [softmax(x.reshape(-1, 2), 0), x + np.float32(len(x)), np.concatenate([x, x])]


Case = tuple[Callable[..., list[Array]], Sequence[Array]]
CASES: dict[str, Case] = {
    "layers": (layers, [floats(5, 6), floats(6), floats(6, 4), floats(4), floats(3, 5)]),
    "norm": (norm, [floats(3, 8), floats(8), floats(8)]),
    "image": (image, [floats(2, 6, 6, 3), floats(3, 3, 3, 4)]),
    "indexed": (indexed, [floats(5, 4), np.array([2, 4, 0], np.int32), floats(3, 4)]),
    "ordered": (ordered, [floats(4, 5)]),
    "loops": (loops, [floats(4, 3)]),
    "bits": (bits, [np.array([0, 1, -1, 7, -8, 1 << 30, -(1 << 31)], np.int32)]),
    "grouped": (grouped, [floats(2, 3, 4, 5), floats(2, 3, 4, 5)]),
    "open_rows": (open_rows, [floats(5, 4)]),
}


def run(net: Any, arrays: Sequence[Array]) -> list[Array]:
    """Outputs for inputs in order."""
    out = net.run({port.name: a for port, a in zip(net.inputs, arrays, strict=True)})
    return [out[port.name] for port in net.outputs]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, backend: str) -> None:
    """Values, shapes and element types of a file."""
    formula, arrays = CASES[name]
    got = run(glow.compile(FOLDER / f"{name}.mlir", backend), arrays)
    for x, y in zip(got, formula(*arrays), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_names_and_sizes() -> None:
    """Names of arguments and results, and of sizes that stay open."""
    net = glow.compile(FOLDER / "layers.mlir")
    assert [p.name for p in net.inputs] == [
        "params[0][0]",
        "params[0][1]",
        "params[1][0]",
        "params[1][1]",
        "x",
    ]
    assert [p.name for p in net.outputs] == ["result"]
    net = glow.compile(FOLDER / "open_rows.mlir", specialize="never")
    assert net.inputs[0].names == ("n", "4")
    for rows in (1, 5, 9):
        x = floats(rows, 4)
        for got, want in zip(run(net, [x]), open_rows(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_refused_by_name() -> None:
    """Operations that have no meaning here are named, with the line of the function that they come from."""
    with pytest.raises(ImportProblems, match=r"stablehlo\.fft at .*write_programs\.py:\d+: complex"):
        glow.load(FOLDER / "spectrum.mlir")


def program(body: str, kind: str = "tensor<2xf32>", result: str = "") -> str:
    """A function of one argument, %x, that returns %y."""
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({kind}) -> {result or kind}, sym_name = "main"}}> ({{
  ^bb0(%x: {kind}):
{body}
    "func.return"(%y) : ({result or kind}) -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def unary(name: str, kind: str = "tensor<2xf32>") -> str:
    """A program of one operation."""
    return program(f'    %y = "{name}"(%x) : ({kind}) -> {kind}', kind)


MESSAGES = {
    "no rule": (unary("stablehlo.frobnicate"), r"stablehlo\.frobnicate at program:5.*: no rule for this"),
    "complex": (unary("stablehlo.negate", "tensor<2xcomplex<f32>>"), "input 'arg0'.*complex numbers"),
    "a library": (
        unary("stablehlo.custom_call").replace("(%x)", '(%x) <{call_target_name = "cu"}>'),
        "a call of 'cu', a library",
    ),
    "no function": (
        program('    %y = "func.call"(%x) <{callee = @g}> : (tensor<2xf32>) -> tensor<2xf32>'),
        "there is no function @g",
    ),
    "no attribute": (unary("stablehlo.transpose"), "attribute 'permutation' is missing"),
    "no main": (unary("stablehlo.negate").replace('"main"', '"other"'), "there is no function @main"),
    "not generic": (
        "func.func @main(%x: tensor<2xf32>) {\n  %0 = stablehlo.negate %x }",
        "not in generic form",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    """What is wrong with a program, and where."""
    text, message = MESSAGES[name]
    with pytest.raises(GlowError, match=message):
        import_stablehlo(text)


def test_plain_text() -> None:
    """A program without JAX's names; floats that are written by their bits."""
    kind = "tensor<2xf32>"
    direction = "comparison_direction = #stablehlo<comparison_direction NE>"
    body = f"""
    %c = "stablehlo.constant"() <{{value = dense<[0x7F800000, -1.5]> : {kind}}}> : () -> {kind}
    %n = "stablehlo.constant"() <{{value = dense<0x7FC00000> : {kind}}}> : () -> {kind}
    %m = "stablehlo.minimum"(%x, %c) : ({kind}, {kind}) -> {kind}
    %e = "stablehlo.compare"(%n, %n) <{{{direction}}}> : ({kind}, {kind}) -> tensor<2xi1>
    %y = "stablehlo.select"(%e, %m, %x) : (tensor<2xi1>, {kind}, {kind}) -> {kind}"""
    net = glow.compile(import_stablehlo(program(body)))
    assert [p.name for p in (*net.inputs, *net.outputs)] == ["arg0", "result[0]"]
    np.testing.assert_array_equal(run(net, [np.float32([3, 4])])[0], np.float32([3, -1.5]))
