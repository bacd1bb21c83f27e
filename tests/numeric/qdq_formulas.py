"""Formulas of integers and conversions: what becomes operators on integers, what stays, one reason each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graph_runner import Net
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, QuantizedArray, UniformQuantizedType, shape_of, tensor

Formula = Callable[[Net], SSAValue]
of = UniformQuantizedType.of
#: Types of activations, of weights (one scale, a scale an output or an input), of results.
X, W, OUTPUTS, INPUTS = (
    of(8, 0.5, 3),
    of(8, 0.25),
    of(8, [0.25, 0.5], axis=1),
    of(8, [0.25, 0.5, 1.0], axis=0),
)
Y, BOTH = of(8, 1.0, -5), of(8, [1.0, 2.0], axis=1)
ROWS = of(8, [0.5, 1.0, 0.25, 2.0], axis=0)
WIDE, WIDER = of(16, 0.01), of(32, 0.01)


def stored(kind: UniformQuantizedType, *shape: int, most: int = 127) -> Array:
    """Integers of a type."""
    low = -most if kind.signed else 0
    numbers = np.random.default_rng(sum(shape)).integers(low, low + 2 * most + 1, shape)
    return QuantizedArray.of(numbers, kind)


def given(n: Net, *shape: int, kind: UniformQuantizedType = X) -> SSAValue:
    """An input of integers."""
    return n.g.input(stored(kind, *shape))


def real(n: Net, value: Any, dtype: str = "float32") -> SSAValue:
    """What integers stand for."""
    value = n.of(value)
    return n.dequantize(value, results=tensor(shape_of(value), dtype))


def x(n: Net, *shape: int, kind: UniformQuantizedType = X, dtype: str = "float32") -> SSAValue:
    """A dequantised input."""
    return real(n, given(n, *shape, kind=kind), dtype)


def w(
    n: Net, *shape: int, kind: UniformQuantizedType = W, most: int = 127, dtype: str = "float32"
) -> SSAValue:
    """Dequantised weights."""
    return real(n, stored(kind, *shape, most=most), dtype)


def store(n: Net, value: SSAValue, kind: UniformQuantizedType = Y) -> SSAValue:
    """A value as integers."""
    return n.quantize(value, results=tensor(shape_of(value), kind))


def when(n: Net) -> SSAValue:
    """A predicate."""
    return n.g.input(np.array(True))


def product(n: Net, columns: int = 2, **weights: Any) -> SSAValue:
    """[4, 3] by constant weights."""
    return n.matmul(x(n, 4, 3), w(n, 3, columns, **weights))


def linear(n: Net, result: Any = "float32", bias: Any = None, weights: Any = None, **more: Any) -> SSAValue:
    """A product of integers, beside a conversion."""
    weights = stored(W, 3, 2, most=1) if weights is None else weights
    n.g.save(x(n, 1, 1))
    return n.quantized_fully_connected(given(n, 4, 3), weights, bias, results=tensor((4, 2), result), **more)


def twice(n: Net, value: SSAValue) -> SSAValue:
    """A value that is an output, too."""
    n.g.save(value)
    return value


def row(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


MATRIX = np.ones((4, 2), np.float32)
LAYER = "quantized_fully_connected"
FLOAT = "dequantize dequantize matmul"
MATCHED: dict[str, tuple[Formula, str]] = {
    # layers
    "one scale": (product, LAYER),
    "a scale for each output": (lambda n: product(n, kind=OUTPUTS), LAYER),
    "a scale for each input": (lambda n: product(n, kind=INPUTS), FLOAT),
    "weights of 16 bits": (lambda n: product(n, kind=WIDE), FLOAT),
    "weights of another zero point": (lambda n: product(n, kind=of(8, 0.25, 2), most=60), LAYER),
    "unsigned weights": (lambda n: product(n, kind=of(8, 0.25, 128, signed=False)), LAYER),
    "unsigned weights without a zero point": (lambda n: product(n, kind=of(8, 0.25, 0, signed=False)), LAYER),
    "a zero point for each output": (
        lambda n: product(n, kind=of(8, [0.25, 0.5], [1, -2], axis=1), most=60),
        LAYER,
    ),
    "activations of 16 bits": (lambda n: n.matmul(x(n, 4, 3, kind=WIDE), w(n, 3, 2)), FLOAT),
    "a scale for each channel of activations": (lambda n: n.matmul(x(n, 4, 2, kind=BOTH), w(n, 2, 2)), FLOAT),
    "under a predicate": (lambda n: n.matmul(x(n, 4, 3), w(n, 3, 2), predicate=when(n)), FLOAT),
    "16-bit floats": (
        lambda n: n.matmul(x(n, 4, 3, dtype="float16"), w(n, 3, 2, dtype="float16")),
        FLOAT,
    ),
    "turned weights": (
        lambda n: n.matmul(
            x(n, 4, 3), n.transpose(w(n, 2, 3, kind=of(8, [0.25, 0.5], axis=0)), permutation=(1, 0))
        ),
        LAYER,
    ),
    "turned weights of one scale": (
        lambda n: n.matmul(x(n, 4, 3), n.transpose(w(n, 2, 3), permutation=(1, 0))),
        LAYER,
    ),
    "weights turned under a predicate": (
        lambda n: n.matmul(x(n, 4, 3), n.transpose(w(n, 2, 3), permutation=(1, 0), predicate=when(n))),
        "dequantize dequantize transpose matmul",
    ),
    # biases
    "a bias": (lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), row(2, -3)), LAYER),
    "a stored bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), real(n, stored(of(32, 0.125), 2))),
        LAYER,
    ),
    "a bias between two units": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2, most=9), row(2.01, -3.03)),
        LAYER,
    ),
    "an infinite bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), row(np.inf, 1)),
        "quantized_matmul add",
    ),
    "a bias beyond 32 bits": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), row(2.0**31 / 8, 1)),
        "quantized_matmul add",
    ),
    "the largest bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), row(2.0**31 / 8 - 16, 1)),
        LAYER,
    ),
    "a computed bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), n.g.input(row(1, 2))),
        "quantized_matmul add",
    ),
    "a bias that is not a number": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2), row(np.nan, 1)),
        "quantized_matmul add",
    ),
    "weights of zeros and a bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2, most=0), row(2.01, 1)),
        LAYER,
    ),
    "weights of 16 bits less their zero point, and a bias": (
        lambda n: n.fully_connected(x(n, 4, 3), w(n, 3, 2, kind=of(8, 0.25, 1, signed=False)), row(2.01, 1)),
        LAYER,
    ),
    "filters and a bias": (
        lambda n: n.conv(
            x(n, 1, 2, 3, 3), w(n, 2, 2, 1, 1, kind=of(8, [0.25, 0.5], axis=0), most=3), row(2.01, -3.03)
        ),
        "quantized_conv",
    ),
    # biases behind
    "a row behind": (lambda n: n.add(product(n), row(2, -3)), LAYER),
    "a row before": (lambda n: n.add(row(2, -3), product(n)), LAYER),
    "a row behind a stack": (
        lambda n: n.add(n.batch_matmul(x(n, 2, 3, 3), w(n, 3, 2)), row(2, -3)),
        f"reshape {LAYER} reshape",
    ),
    "a matrix behind": (lambda n: n.add(product(n), MATRIX), f"{LAYER} add"),
    "a larger one behind": (lambda n: n.add(product(n), np.ones((2, 4, 2), np.float32)), f"{LAYER} add"),
    "a second row behind": (
        lambda n: n.add(linear(n, bias=np.array([5, 6], np.int32)), row(2, -3)),
        f"dequantize {LAYER} add",
    ),
    "a row behind columns": (
        lambda n: n.add(n.reshape(product(n), results=tensor((4, 2, 1), "float32")), row(2, -3)),
        f"{LAYER} reshape add",
    ),
    "a row behind what is read twice": (lambda n: n.add(twice(n, product(n)), row(2, -3)), f"{LAYER} add"),
    "a row behind a stack read twice": (
        lambda n: n.add(twice(n, n.reshape(product(n), results=tensor((2, 2, 2), "float32"))), row(2, -3)),
        f"{LAYER} reshape add",
    ),
    "a row behind 16-bit floats": (
        lambda n: n.add(linear(n, result="float16"), np.array([2, -3], np.float16)),
        f"dequantize {LAYER} add",
    ),
    "a row behind computed weights": (
        lambda n: n.add(linear(n, weights=given(n, 3, 2, kind=W)), row(2, -3)),
        f"dequantize {LAYER}",
    ),
    # products
    "a stack": (
        lambda n: n.batch_matmul(x(n, 2, 3, 3), w(n, 3, 2, kind=OUTPUTS)),
        f"reshape {LAYER} reshape",
    ),
    "a matrix as a stack": (lambda n: n.batch_matmul(x(n, 4, 3), w(n, 3, 2)), LAYER),
    "a stack by a stack of weights": (
        lambda n: n.batch_matmul(x(n, 2, 4, 3), w(n, 2, 3, 2)),
        "quantized_matmul",
    ),
    "a stack under a predicate": (
        lambda n: n.batch_matmul(x(n, 2, 3, 3), w(n, 3, 2), predicate=when(n)),
        "dequantize dequantize batch_matmul",
    ),
    "a stack of 16-bit floats": (
        lambda n: n.batch_matmul(x(n, 2, 3, 3, dtype="float16"), w(n, 3, 2, dtype="float16")),
        "dequantize dequantize batch_matmul",
    ),
    "a product of two inputs": (lambda n: n.matmul(x(n, 4, 3), x(n, 3, 2)), "quantized_matmul"),
    "of two inputs, with a bias": (
        lambda n: n.fully_connected(x(n, 4, 3), x(n, 3, 2), row(1, 2)),
        "quantized_matmul add",
    ),
    "of two inputs under a predicate": (lambda n: n.matmul(x(n, 4, 3), x(n, 3, 2), predicate=when(n)), FLOAT),
    "of two inputs of 16-bit floats": (
        lambda n: n.matmul(x(n, 4, 3, dtype="float16"), x(n, 3, 2, dtype="float16")),
        FLOAT,
    ),
    # stored results
    "stored": (lambda n: store(n, product(n)), LAYER),
    "stored behind a stack": (
        lambda n: store(n, n.batch_matmul(x(n, 2, 3, 3), w(n, 3, 2))),
        f"reshape {LAYER} reshape",
    ),
    "stored in 16 bits": (lambda n: store(n, product(n), WIDE), LAYER),
    "stored in 32 bits": (lambda n: store(n, product(n), WIDER), f"{LAYER} quantize"),
    "stored by channel": (lambda n: store(n, product(n), BOTH), f"{LAYER} quantize"),
    "stored by row": (lambda n: store(n, product(n), ROWS), f"{LAYER} quantize"),
    "stored and read behind a stack": (
        lambda n: store(n, twice(n, n.reshape(product(n), results=tensor((8,), "float32")))),
        f"{LAYER} reshape quantize",
    ),
    "stored behind a relu": (lambda n: store(n, n.relu(product(n))), LAYER),
    "stored behind limits": (lambda n: store(n, n.clip(product(n), -9, 9)), LAYER),
    "stored behind one number": (lambda n: store(n, n.clip(product(n), 9, 9)), LAYER),
    "stored behind limits that cross": (
        lambda n: store(n, n.clip(product(n), 9, -9)),
        f"{LAYER} clip quantize",
    ),
    "stored behind a relu read twice": (
        lambda n: store(n, twice(n, n.relu(product(n)))),
        f"{LAYER} relu quantize",
    ),
    "stored behind a relu under a predicate": (
        lambda n: store(n, n.relu(product(n), predicate=when(n))),
        f"{LAYER} relu quantize",
    ),
    "stored and read": (lambda n: store(n, twice(n, product(n))), f"{LAYER} quantize"),
    "stored behind a stack that is read": (
        lambda n: store(n, n.reshape(twice(n, product(n)), results=tensor((8,), "float32"))),
        f"{LAYER} reshape quantize",
    ),
    # operators between conversions
    "a sum": (lambda n: store(n, n.add(x(n, 4, 3), x(n, 4, 3, kind=Y))), "quantized_add"),
    "a sum and a relu": (lambda n: store(n, n.relu(n.add(x(n, 4, 3), x(n, 4, 3, kind=Y)))), "quantized_add"),
    "a sum in 16 bits": (
        lambda n: store(n, n.add(x(n, 4, 3), x(n, 4, 3, kind=Y)), WIDE),
        "dequantize dequantize add quantize",
    ),
    "a sum by channel": (
        lambda n: store(n, n.add(x(n, 4, 2), x(n, 4, 2, kind=Y)), BOTH),
        "dequantize dequantize add quantize",
    ),
    "a sum by row": (
        lambda n: store(n, n.add(x(n, 4, 2), x(n, 4, 2, kind=Y)), ROWS),
        "dequantize dequantize add quantize",
    ),
    "a convolution of two inputs": (
        lambda n: store(n, n.conv(x(n, 1, 2, 3, 3), x(n, 2, 2, 1, 1, kind=W))),
        "dequantize dequantize conv quantize",
    ),
    "a sum read twice": (
        lambda n: store(n, twice(n, n.add(x(n, 4, 3), x(n, 4, 3, kind=Y)))),
        "dequantize dequantize add quantize",
    ),
    "a relu of a sum read twice": (
        lambda n: store(n, twice(n, n.relu(n.add(x(n, 4, 3), x(n, 4, 3, kind=Y))))),
        "dequantize dequantize add relu quantize",
    ),
    "a sum under a predicate": (
        lambda n: store(n, n.add(x(n, 4, 3), x(n, 4, 3, kind=Y), predicate=when(n))),
        "dequantize dequantize add quantize",
    ),
    "a relu of a sum under a predicate": (
        lambda n: store(n, n.relu(n.add(x(n, 4, 3), x(n, 4, 3, kind=Y)), predicate=when(n))),
        "dequantize dequantize add relu quantize",
    ),
    "a sum with a number": (
        lambda n: store(n, n.add(x(n, 4, 3), n.g.input(MATRIX[:, :1]))),
        "dequantize add quantize",
    ),
    "a mean": (
        lambda n: store(n, n.avg_pool(x(n, 1, 2, 4, 4), kernel=(2, 2), strides=(2, 2))),
        "quantized_avg_pool",
    ),
    "a layer of stored weights": (
        lambda n: store(n, n.matmul(x(n, 4, 3), x(n, 3, 2))),
        "quantized_matmul",
    ),
    # functions
    "a function": (lambda n: store(n, n.sigmoid(x(n, 4, 3))), "lookup"),
    "a function in 16 bits": (lambda n: store(n, n.sigmoid(x(n, 4, 3)), WIDE), "dequantize sigmoid quantize"),
    "a function of 16 bits": (
        lambda n: store(n, n.sigmoid(x(n, 4, 3, kind=WIDE))),
        "dequantize sigmoid quantize",
    ),
    "limits are no function": (lambda n: store(n, n.relu(x(n, 4, 3))), "dequantize relu quantize"),
    "a function by a number": (lambda n: store(n, n.mul(n.sigmoid(x(n, 4, 3)), 3.0)), "lookup"),
    "a function by a row": (
        lambda n: store(n, n.mul(n.sigmoid(x(n, 4, 3)), row(1, 2, 3))),
        "dequantize sigmoid mul quantize",
    ),
    "a function under a predicate": (
        lambda n: store(n, n.sigmoid(x(n, 4, 3), predicate=when(n))),
        "dequantize sigmoid quantize",
    ),
    "a function of another shape": (
        lambda n: store(n, n.mul(n.sigmoid(x(n, 1, 3)), np.full((1, 1, 1), 2, np.float32))),
        "dequantize sigmoid mul quantize",
    ),
    "a function of numbers": (
        lambda n: store(n, n.sigmoid(n.add(real(n, twice(n, given(n, 4, 2))), n.g.input(MATRIX)))),
        "dequantize add sigmoid quantize",
    ),
    "a function of a sum of elements": (
        lambda n: store(n, n.sigmoid(n.softmax(x(n, 4, 3), axis=1))),
        "dequantize softmax sigmoid quantize",
    ),
    # conversions alone
    "rounded once more": (
        lambda n: real(n, n.rescale(given(n, 4, 3), results=tensor((4, 3), Y))),
        "rescale dequantize",
    ),
}


def turned(n: Net, value: SSAValue, **more: Any) -> SSAValue:
    """The same elements in another order."""
    return n.flip(value, axes=(0,), **more)


def again(n: Net, value: SSAValue, kind: UniformQuantizedType = X, **more: Any) -> SSAValue:
    """Integers as those of another type."""
    return n.rescale(value, results=tensor(shape_of(value), kind), **more)


def table(kind: UniformQuantizedType = Y) -> Array:
    return stored(kind, 256)


def lookup(n: Net, value: SSAValue, entries: Any) -> SSAValue:
    return n.lookup(value, entries)


def at(step: int) -> UniformQuantizedType:
    """16 bits from -128 - step / 256 to 128 - (step + 1) / 256."""
    return of(16, 1 / 256, step)


ONE, HALF, LARGE = of(8, 1.0), of(8, 0.5), of(8, 2.0)
UP = of(8, 0.5, -128)
CAST = "dequantize"
FOLDED: dict[str, tuple[Formula, str]] = {
    "there and back": (lambda n: store(n, x(n, 4, 3), X), ""),
    "to another type": (lambda n: store(n, x(n, 4, 3)), "rescale"),
    # two conversions
    "to the same type": (lambda n: again(n, given(n, 4, 3), X), ""),
    "through a larger range": (
        lambda n: again(n, again(n, given(n, 4, 3, kind=HALF), ONE), LARGE),
        "rescale",
    ),
    "into a smaller range": (lambda n: again(n, again(n, given(n, 4, 3, kind=LARGE), ONE), HALF), "rescale"),
    "through a smaller range": (
        lambda n: again(n, again(n, given(n, 4, 3, kind=LARGE), ONE), LARGE),
        "rescale rescale",
    ),
    "of rows": (lambda n: again(n, again(n, given(n, 4, 3, kind=ROWS), ONE), LARGE), "rescale rescale"),
    "through rows": (lambda n: again(n, again(n, given(n, 4, 3, kind=HALF), ROWS), LARGE), "rescale rescale"),
    "stored, then smaller": (lambda n: again(n, store(n, n.g.input(MATRIX), ONE), HALF), "quantize"),
    "stored, then larger": (lambda n: again(n, store(n, n.g.input(MATRIX), ONE), LARGE), "quantize rescale"),
    "stored, then read and smaller": (
        lambda n: again(n, twice(n, store(n, n.g.input(MATRIX), ONE)), HALF),
        "quantize rescale",
    ),
    "half a step below": (lambda n: real(n, again(n, given(n, 4, 3, kind=at(128)), ONE)), CAST),
    "half a step above": (lambda n: real(n, again(n, given(n, 4, 3, kind=at(127)), ONE)), CAST),
    "more than that below": (
        lambda n: real(n, again(n, given(n, 4, 3, kind=at(129)), ONE)),
        f"rescale {CAST}",
    ),
    "more than that above": (
        lambda n: real(n, again(n, given(n, 4, 3, kind=at(126)), ONE)),
        f"rescale {CAST}",
    ),
    # what moves elements
    "moved": (lambda n: turned(n, x(n, 4, 3)), f"flip {CAST}"),
    "moved under a predicate": (lambda n: turned(n, x(n, 4, 3), predicate=when(n)), f"{CAST} flip"),
    "moved rows": (lambda n: turned(n, x(n, 4, 3, kind=ROWS)), f"{CAST} flip"),
    "moved numbers": (lambda n: turned(n, n.g.input(MATRIX)), "flip"),
    "joined": (lambda n: n.concat([x(n, 4, 3), x(n, 4, 3)], axis=0), f"concat {CAST}"),
    "joined, of two types": (
        lambda n: n.concat([x(n, 4, 3), x(n, 4, 3, kind=Y)], axis=0),
        f"{CAST} {CAST} concat",
    ),
    "joined with numbers": (lambda n: n.concat([x(n, 4, 2), n.g.input(MATRIX)], axis=0), f"{CAST} concat"),
    # limits
    "a relu": (lambda n: n.relu(real(n, linear(n, Y))), f"{CAST} {LAYER} {CAST}"),
    "limits": (lambda n: n.clip(real(n, linear(n, Y)), -9, 9), f"{CAST} {LAYER} {CAST}"),
    "one number": (lambda n: n.clip(real(n, linear(n, Y)), 9, 9), f"{CAST} {LAYER} {CAST}"),
    "limits that cross": (lambda n: n.clip(real(n, linear(n, Y)), 9, -9), f"{CAST} {LAYER} clip"),
    "a relu under a predicate": (
        lambda n: n.relu(real(n, linear(n, Y)), predicate=when(n)),
        f"{CAST} {LAYER} relu",
    ),
    "a relu of what is read": (lambda n: n.relu(twice(n, real(n, linear(n, Y)))), f"{CAST} {LAYER} relu"),
    "a relu of integers that are read": (
        lambda n: n.relu(real(n, twice(n, linear(n, Y)))),
        f"{CAST} {LAYER} {CAST} relu",
    ),
    # producers
    "a layer": (lambda n: again(n, linear(n, Y)), f"{CAST} {LAYER}"),
    "a layer that is read": (lambda n: again(n, twice(n, linear(n, Y))), f"{CAST} {LAYER} rescale"),
    "a layer under a predicate": (
        lambda n: again(n, linear(n, Y, predicate=when(n))),
        f"{CAST} {LAYER} rescale",
    ),
    "a layer in more bits": (lambda n: again(n, linear(n, Y), WIDE), f"{CAST} {LAYER} rescale"),
    "a layer of rows": (lambda n: again(n, linear(n, Y), ROWS), f"{CAST} {LAYER} rescale"),
    "a sum": (
        lambda n: n.quantized_add(again(n, given(n, 4, 3), ONE), given(n, 4, 3), results=tensor((4, 3), Y)),
        "quantized_add",
    ),
    "a sum of what was limited": (
        lambda n: n.quantized_add(
            again(n, given(n, 4, 3, kind=LARGE), ONE), given(n, 4, 3), results=tensor((4, 3), Y)
        ),
        "rescale quantized_add",
    ),
    "a sum of what it is": (
        lambda n: n.quantized_add(given(n, 4, 3), given(n, 4, 3), results=tensor((4, 3), Y)),
        "quantized_add",
    ),
    # tables
    "a table": (lambda n: again(n, lookup(n, given(n, 4, 3), table())), "lookup"),
    "a table that is read": (
        lambda n: again(n, twice(n, lookup(n, given(n, 4, 3), table()))),
        "lookup rescale",
    ),
    "a table of an input": (
        lambda n: again(n, lookup(n, given(n, 4, 3), given(n, 256, kind=Y))),
        "lookup rescale",
    ),
    "a table of rows": (lambda n: again(n, lookup(n, given(n, 4, 3), table()), ROWS), "lookup rescale"),
    "a table of unsigned bytes": (
        lambda n: again(n, lookup(n, given(n, 4, 3), table()), of(8, 0.5, 7, signed=False)),
        "lookup rescale",
    ),
    "two tables": (lambda n: lookup(n, lookup(n, given(n, 4, 3), table()), table(X)), "lookup"),
    "two tables, of unsigned bytes": (
        lambda n: lookup(n, lookup(n, given(n, 4, 3), table(of(8, 0.5, 7, signed=False))), table(X)),
        "lookup",
    ),
    "two tables, one that is read": (
        lambda n: lookup(n, twice(n, lookup(n, given(n, 4, 3), table())), table(X)),
        "lookup lookup",
    ),
    "two tables, the first an input": (
        lambda n: lookup(n, lookup(n, given(n, 4, 3), given(n, 256, kind=Y)), table(X)),
        "lookup lookup",
    ),
    "two tables, the second an input": (
        lambda n: lookup(n, lookup(n, given(n, 4, 3), table()), given(n, 256)),
        "lookup lookup",
    ),
    # borders
    "real": (lambda n: real(n, linear(n, Y)), f"{CAST} {LAYER}"),
    "real and read": (lambda n: real(n, twice(n, linear(n, Y))), f"{CAST} {LAYER} {CAST}"),
    "real above 0": (lambda n: real(n, linear(n, UP)), f"{CAST} {LAYER} {CAST}"),
    "real between limits": (lambda n: real(n, linear(n, Y, low=-9)), f"{CAST} {LAYER} {CAST}"),
    "a real mean": (
        lambda n: real(
            n,
            n.quantized_avg_pool(
                given(n, 1, 2, 4, 4), kernel=(2, 2), strides=(2, 2), results=tensor((1, 2, 2, 2), Y)
            ),
        ),
        f"quantized_avg_pool {CAST}",
    ),
}
