"""Formulas that move elements: what their patterns take, and what they leave alone, one reason each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from graph_runner import Net
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, element_type, shape_of, tensor

Formula = Callable[[Net, SSAValue], SSAValue]


def t(n: Net, *shape: int) -> SSAValue:
    """An input of different numbers."""
    size = int(np.prod(shape))
    return n.g.input(np.linspace(-2, 3, size, dtype=np.float32).reshape(shape))


def row(size: int) -> Array:
    """Known numbers."""
    return np.arange(size, dtype=np.float32)


def to(n: Net, x: SSAValue, *shape: int) -> SSAValue:
    """A reshape."""
    return n.reshape(x, results=tensor(shape, np.float32))


def soft(n: Net, x: SSAValue, *shape: int) -> SSAValue:
    """A reshape of what is computed."""
    return to(n, n.softmax(x, axis=1), *shape)


def expand(n: Net, x: SSAValue, *shape: int) -> SSAValue:
    """An expansion."""
    return n.expand(x, results=tensor(shape, np.float32))


def when(n: Net) -> SSAValue:
    """A predicate."""
    return n.g.input(np.array(True))


def turn(n: Net, x: SSAValue, *permutation: int) -> SSAValue:
    """A transpose, of a matrix where nothing is said."""
    return n.transpose(x, permutation=permutation or (1, 0))


def cut(
    n: Net, x: SSAValue, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] = ()
) -> SSAValue:
    """A slice."""
    return n.slice(x, starts=starts, ends=ends, steps=steps or [1] * len(starts))


def columns(n: Net, x: SSAValue, start: int, end: int, step: int = 1) -> SSAValue:
    """Columns of a matrix."""
    return cut(n, x, (0, start), (shape_of(x)[0], end), (1, step))


def cat(n: Net, *parts: Any, axis: int = 1) -> SSAValue:
    """A concatenation."""
    return n.concat(list(parts), axis=axis)


def pick(n: Net, x: SSAValue, indices: Any, axis: int = 1) -> SSAValue:
    """A gather of known indices."""
    return n.gather(x, np.array(indices, np.int64), axis=axis)


def padded(n: Net, x: SSAValue, pads: Sequence[int], value: float = 0.0, mode: str = "constant") -> SSAValue:
    """A pad of the last two axes: above, left, below, right."""
    missing = [0] * (len(shape_of(x)) - 2)
    return n.pad(x, pads=[*missing, *pads[:2], *missing, *pads[2:]], value=value, mode=mode)


def conv(n: Net, x: SSAValue, **more: Any) -> SSAValue:
    """A convolution with three filters of 2 x 2."""
    return n.conv(x, np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 2, 2, 2), None, **more)


def cast(n: Net, x: SSAValue, name: str) -> SSAValue:
    """A conversion."""
    return n.cast(x, results=tensor(shape_of(x), element_type(name)))


TRANSPOSES: dict[str, tuple[Formula, str]] = {
    "twice": (lambda n, x: turn(n, turn(n, x)), ""),
    "two that do not cancel": (lambda n, x: turn(n, turn(n, t(n, 2, 3, 4), 1, 2, 0), 1, 2, 0), "transpose"),
    "ones move": (lambda n, x: turn(n, t(n, 1, 3, 4), 1, 0, 2), "reshape"),
    "nothing moves": (lambda n, x: turn(n, x, 0, 1), ""),
    "others move": (lambda n, x: turn(n, t(n, 1, 3, 4), 1, 2, 0), "reshape"),
    "others change places": (lambda n, x: turn(n, t(n, 1, 3, 4), 2, 0, 1), "transpose"),
    "below a function": (lambda n, x: n.exp(turn(n, x)), "exp transpose"),
    "below a function of three axes": (lambda n, x: n.exp(turn(n, t(n, 2, 3, 4), 1, 2, 0)), "exp transpose"),
    "below a function under a predicate": (
        lambda n, x: n.exp(turn(n, x), predicate=when(n)), "transpose exp",
    ),
    "below a sum": (lambda n, x: n.add(turn(n, x), turn(n, t(n, 3, 6))), "add transpose"),
    "below a sum with a constant": (
        lambda n, x: n.add(turn(n, x), row(18).reshape(6, 3)), "add transpose",
    ),
    "below a sum with a row": (lambda n, x: n.add(turn(n, x), row(3)), "add transpose"),
    "below a sum with a number": (lambda n, x: n.add(turn(n, x), t(n, 1)), "add transpose"),
    "below a sum with a number of two axes": (lambda n, x: n.add(turn(n, x), t(n, 1, 1)), "add transpose"),
    "a number of more axes": (lambda n, x: n.add(turn(n, x), t(n, 1, 1, 1)), "transpose add"),
    "beside what is not known": (lambda n, x: n.add(turn(n, x), t(n, 6, 3)), "transpose add"),
    "of different permutations": (
        lambda n, x: n.add(turn(n, t(n, 3, 3, 3), 1, 2, 0), turn(n, t(n, 3, 3, 3), 2, 0, 1)),
        "transpose transpose add",
    ),
    "of a larger result": (lambda n, x: n.add(turn(n, x), np.ones((2, 6, 3), np.float32)), "transpose add"),
    "that another operator reads": (
        lambda n, x: n.matmul(n.exp(a := turn(n, x)), turn(n, a)), "exp transpose matmul",
    ),
    "read by what cannot pass": (
        lambda n, x: n.matmul(x, n.add(n.exp(a := turn(n, x)), n.softmax(a, axis=0))),
        "transpose exp softmax add matmul",
    ),
    "below two functions": (lambda n, x: n.add(n.exp(a := turn(n, x)), n.tanh(a)), "exp tanh add transpose"),
    "below a function and a concat": (
        lambda n, x: cat(n, a := turn(n, x), turn(n, t(n, 2, 6)), n.exp(a)), "exp concat transpose",
    ),
    "of a concat, read by what cannot pass": (
        lambda n, x: n.add(n.reduce_sum(n.softmax(a := turn(n, x), axis=0), axes=(0, 1)),
                           cat(n, a, turn(n, t(n, 2, 6)))),
        "transpose softmax reduce_sum transpose concat add",
    ),
    "below a concat": (lambda n, x: cat(n, turn(n, x), turn(n, t(n, 2, 6)), axis=1), "concat transpose"),
    "below a concat of one": (lambda n, x: cat(n, turn(n, x)), "concat transpose"),
    "below half a concat": (lambda n, x: cat(n, turn(n, x), t(n, 6, 2)), "transpose concat"),
    "below a concat of two permutations": (
        lambda n, x: cat(n, turn(n, t(n, 3, 3, 3), 1, 2, 0), turn(n, t(n, 3, 3, 3), 2, 0, 1)),
        "transpose transpose concat",
    ),
    "below a concat along another axis": (
        lambda n, x: cat(n, turn(n, t(n, 2, 3, 4), 1, 2, 0), turn(n, t(n, 2, 3, 5), 1, 2, 0)),
        "concat transpose",
    ),
    "below a slice": (lambda n, x: cut(n, turn(n, x), (1, 0), (5, 3), (2, 1)), "slice transpose"),
    "below a slice of three axes": (
        lambda n, x: cut(n, turn(n, t(n, 2, 3, 4), 1, 2, 0), (1, 0, 0), (3, 4, 2)), "slice transpose",
    ),
    "below a slice beside a reader": (
        lambda n, x: n.add(cut(n, a := turn(n, x), (0, 0), (1, 3)), n.softmax(a, axis=0)),
        "transpose slice softmax add",
    ),
    "below a sum over an axis": (lambda n, x: n.reduce_sum(turn(n, x), axes=(0,)), "reduce_sum"),
    "below a kept sum": (lambda n, x: n.sum(turn(n, t(n, 2, 3, 4), 1, 2, 0), 0), "reduce_sum transpose"),
    "below a sum that turns what is left": (
        lambda n, x: n.reduce_sum(turn(n, t(n, 2, 3, 4), 2, 0, 1), axes=(1,)), "reduce_sum transpose",
    ),
    "below a sum that leaves the order": (
        lambda n, x: n.reduce_sum(turn(n, t(n, 2, 3, 4), 0, 2, 1), axes=(1,)), "reduce_sum",
    ),
    "below a sum of four axes": (
        lambda n, x: n.reduce_sum(turn(n, t(n, 2, 3, 4, 5), 3, 1, 2, 0), axes=(2,)), "reduce_sum transpose",
    ),
    "below a sum beside a reader": (lambda n, x: n.matmul(n.sum(a := turn(n, x), 1), n.sum(a, 0)),
                                    "transpose reduce_sum reduce_sum matmul"),
}  # fmt: skip
RESHAPES: dict[str, tuple[Formula, str]] = {
    "of its own shape": (lambda n, x: to(n, x, 3, 6), ""),
    "of a reshape": (lambda n, x: to(n, to(n, x, 18), 2, 9), "reshape"),
    "back again": (lambda n, x: to(n, to(n, x, 18), 3, 6), ""),
    "of something else": (lambda n, x: to(n, n.exp(x), 18), "exp reshape"),
    "an expansion by ones": (lambda n, x: expand(n, x, 1, 3, 6), "reshape"),
    "an expansion": (lambda n, x: expand(n, x, 2, 3, 6), "expand"),
    "below a function": (lambda n, x: n.exp(to(n, n.softmax(x, axis=1), 18)), "softmax exp reshape"),
    "below a function under a predicate": (
        lambda n, x: n.exp(soft(n, x, 18), predicate=when(n)), "softmax reshape exp",
    ),
    "of a copy": (lambda n, x: n.identity(soft(n, x, 18)), "softmax reshape identity"),
    "of what is known": (
        lambda n, x: n.exp(to(n, n.splat(value=2.0, results=tensor((3, 6), np.float32)), 18)), "reshape exp",
    ),
    "of an input": (lambda n, x: n.exp(to(n, x, 18)), "reshape exp"),
    "of a product, read twice": (
        lambda n, x: n.add(n.exp(a := to(n, n.softmax(x, axis=1), 18)), n.softmax(a, axis=0)),
        "softmax reshape exp softmax add",
    ),
    "beside its like": (
        lambda n, x: n.add(soft(n, x, 18), to(n, n.softmax(t(n, 3, 6), axis=0), 18)),
        "softmax softmax add reshape",
    ),
    "beside its like of another shape": (
        lambda n, x: n.add(soft(n, x, 18), soft(n, t(n, 2, 9), 18)), "softmax reshape softmax reshape add",
    ),
    "beside a tensor of as many axes": (
        lambda n, x: n.add(soft(n, x, 6, 3), t(n, 6, 3)), "softmax reshape add",
    ),
    "beside a known matrix": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), row(18).reshape(3, 6)), "softmax reshape add",
    ),
    "beside a number of as many axes": (
        lambda n, x: n.add(soft(n, x, 3, 2, 3), t(n, 1, 1)), "softmax add reshape",
    ),
    "of a smaller shape than what is known": (
        lambda n, x: n.add(soft(n, x, 18), row(36).reshape(2, 18)), "softmax reshape add",
    ),
    "beside a number": (lambda n, x: n.add(soft(n, x, 18), 1.5), "softmax add reshape"),
    "beside a number of more axes": (
        lambda n, x: n.add(soft(n, x, 3, 2, 3), t(n, 1, 1, 1)), "softmax reshape add reshape",
    ),
    "beside a row that was a column": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), to(n, t(n, 6, 1), 6)), "softmax reshape add reshape",
    ),
    "beside a tensor of more axes": (
        lambda n, x: n.add(soft(n, x, 3, 2, 3), t(n, 3, 2, 3)), "softmax reshape add reshape",
    ),
    "beside a tensor of fewer axes": (
        lambda n, x: n.add(soft(n, x, 18), t(n, 18)), "softmax reshape add",
    ),
    "beside a known tensor of fewer axes": (
        lambda n, x: n.add(soft(n, x, 18), row(18)),
        "softmax reshape add reshape",
    ),
    "beside a row": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), row(6)),
        "softmax add reshape",
    ),
    "beside a row of two axes": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), row(6).reshape(1, 6)),
        "softmax reshape add reshape",
    ),
    "beside a row that is not known": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), t(n, 6)), "softmax add reshape",
    ),
    "beside a row that was given axes": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), to(n, t(n, 6), 1, 1, 6)), "softmax add reshape",
    ),
    "beside a row of two axes that is not known": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), t(n, 1, 6)), "softmax reshape add",
    ),
    "beside a row of another length": (
        lambda n, x: n.add(soft(n, x, 6, 3), row(3)),
        "softmax reshape add",
    ),
    "beside a column": (
        lambda n, x: n.add(soft(n, x, 1, 3, 6), row(3).reshape(3, 1)),
        "softmax reshape add",
    ),
    "of a smaller shape than the result": (
        lambda n, x: n.add(soft(n, x, 18), t(n, 2, 18)), "softmax reshape add",
    ),
}  # fmt: skip
SLICES: dict[str, tuple[Formula, str]] = {
    "all": (lambda n, x: columns(n, x, 0, 6), ""),
    "all but one": (lambda n, x: columns(n, x, 1, 6), "slice"),
    "all, backwards": (lambda n, x: cut(n, x, (0, 5), (3, -1), (1, -1)), "slice"),
    "of a slice": (lambda n, x: columns(n, columns(n, x, 1, 6), 2, 4), "slice"),
    "of a slice with steps": (lambda n, x: columns(n, columns(n, t(n, 2, 30), 3, 29, 3), 1, 8, 2), "slice"),
    "of a slice, backwards": (
        lambda n, x: columns(n, cut(n, x, (0, 5), (3, -1), (1, -1)), 1, 3), "slice slice",
    ),
    "of two axes": (lambda n, x: cut(n, cut(n, x, (1, 1), (3, 6)), (0, 1), (1, 4)), "slice"),
    "of nothing": (lambda n, x: columns(n, columns(n, x, 1, 6), 2, 2), "slice slice"),
    "of the first part": (lambda n, x: columns(n, cat(n, x, t(n, 3, 2)), 1, 6), "slice"),
    "of the second part": (lambda n, x: columns(n, cat(n, x, t(n, 3, 2)), 6, 7), "slice"),
    "of the whole second part": (lambda n, x: columns(n, cat(n, x, t(n, 3, 2)), 6, 8), ""),
    "of both parts": (lambda n, x: columns(n, cat(n, x, t(n, 3, 2)), 5, 7), "concat slice"),
    "of a part, backwards": (
        lambda n, x: cut(n, cat(n, x, t(n, 3, 2)), (0, 4), (3, 1), (1, -1)), "concat slice",
    ),
    "of parts, nothing": (lambda n, x: columns(n, cat(n, x, t(n, 3, 2)), 2, 2), "concat slice"),
    "of rows of parts": (lambda n, x: cut(n, cat(n, x, t(n, 3, 2)), (1, 6), (2, 8)), "slice"),
    "insert everything": (lambda n, x: n.insert(t(n, 3, 6), x, starts=(0, 0)), ""),
    "insert a part": (lambda n, x: n.insert(t(n, 3, 6), columns(n, x, 0, 3), starts=(0, 3)), "slice insert"),
    "insert another tensor": (lambda n, x: n.insert(x, t(n, 3, 2), starts=(0, 3)), "insert"),
    "insert nothing": (lambda n, x: n.insert(x, t(n, 3, 0), starts=(0, 3)), ""),
    "insert its own part": (lambda n, x: n.insert(x, columns(n, x, 2, 5), starts=(0, 2)), ""),
    "insert its own part elsewhere": (
        lambda n, x: n.insert(x, columns(n, x, 2, 5), starts=(0, 1)), "slice insert",
    ),
    "insert its own part with steps": (
        lambda n, x: n.insert(x, columns(n, x, 0, 6, 2), starts=(0, 0), steps=(1, 2)), "",
    ),
    "insert its own part with other steps": (
        lambda n, x: n.insert(x, columns(n, x, 0, 6, 2), starts=(0, 0), steps=(1, 1)), "slice insert",
    ),
    "insert a part of another": (
        lambda n, x: n.insert(x, columns(n, t(n, 3, 6), 2, 5), starts=(0, 2)), "slice insert",
    ),
    "flip": (lambda n, x: n.flip(x, axes=(0,)), "flip"),
    "flip twice": (lambda n, x: n.flip(n.flip(x, axes=(0,)), axes=(0,)), ""),
    "flip of two axes": (lambda n, x: n.flip(n.flip(x, axes=(0,)), axes=(1,)), "flip"),
    "flip of ones": (lambda n, x: n.flip(t(n, 1, 4), axes=(0,)), ""),
    "flip of ones and more": (lambda n, x: n.flip(t(n, 1, 4), axes=(0, 1)), "flip"),
    "flip of two": (lambda n, x: n.flip(t(n, 2, 4), axes=(0,)), "flip"),
    "flip that is read twice": (lambda n, x: n.add(n.flip(a := n.flip(x, axes=(0,)), axes=(1,)), a),
                                "flip flip add"),
}  # fmt: skip
CONCATS: dict[str, tuple[Formula, str]] = {
    "of one": (lambda n, x: cat(n, x), ""),
    "of an empty one": (lambda n, x: cat(n, t(n, 3, 0)), ""),
    "of empty ones": (lambda n, x: cat(n, t(n, 3, 0), t(n, 3, 0)), "concat"),
    "of concats": (lambda n, x: cat(n, cat(n, x, t(n, 3, 2)), t(n, 3, 1)), "concat"),
    "of concats along another axis": (
        lambda n, x: cat(n, cat(n, x, t(n, 2, 6), axis=0), t(n, 5, 1)), "concat concat",
    ),
    "of a concat that is read twice": (
        lambda n, x: cat(n, a := cat(n, x, t(n, 3, 2)), n.exp(a)), "concat exp concat",
    ),
    "with nothing": (lambda n, x: cat(n, x, t(n, 3, 0)), ""),
    "with nothing and more": (lambda n, x: cat(n, x, t(n, 3, 0), t(n, 3, 2)), "concat"),
    "of neighbours": (lambda n, x: cat(n, columns(n, x, 1, 2), columns(n, x, 2, 5)), "slice"),
    "of all": (lambda n, x: cat(n, columns(n, x, 0, 2), columns(n, x, 2, 6)), ""),
    "of three neighbours": (
        lambda n, x: cat(n, columns(n, x, 1, 2), columns(n, x, 2, 3), columns(n, x, 3, 5)), "slice",
    ),
    "of neighbours and more": (
        lambda n, x: cat(n, columns(n, x, 1, 2), columns(n, x, 2, 5), t(n, 3, 1)), "slice concat",
    ),
    "of all but the last": (lambda n, x: cat(n, columns(n, x, 0, 2), columns(n, x, 2, 5)), "slice"),
    "not of neighbours": (
        lambda n, x: cat(n, columns(n, x, 0, 2), columns(n, x, 3, 5)), "slice slice concat",
    ),
    "of neighbours of two": (
        lambda n, x: cat(n, columns(n, x, 0, 2), columns(n, t(n, 3, 6), 2, 5)), "slice slice concat",
    ),
    "of neighbours with steps": (
        lambda n, x: cat(n, columns(n, x, 0, 3, 2), columns(n, x, 3, 6)), "slice slice concat",
    ),
    "of rows of neighbours": (
        lambda n, x: cat(n, cut(n, x, (0, 0), (2, 2)), cut(n, x, (0, 2), (2, 5))), "slice slice concat",
    ),
    "of later rows of neighbours": (
        lambda n, x: cat(n, cut(n, x, (1, 0), (3, 2)), cut(n, x, (1, 2), (3, 5))), "slice slice concat",
    ),
    "of rows with steps": (
        lambda n, x: cat(n, cut(n, x, (0, 0), (3, 2), (2, 1)), cut(n, x, (0, 2), (3, 5), (2, 1))),
        "slice slice concat",
    ),
    "of neighbours along the first axis": (
        lambda n, x: cat(n, cut(n, x, (0, 0), (1, 6)), cut(n, x, (1, 0), (2, 6)), axis=0), "slice",
    ),
}  # fmt: skip
GATHERS: dict[str, tuple[Formula, str]] = {
    "one": (lambda n, x: pick(n, x, 2), "slice reshape"),
    "the last": (lambda n, x: pick(n, x, -1), "slice reshape"),
    "the first row": (lambda n, x: pick(n, x, [0], axis=0), "slice"),
    "neighbours": (lambda n, x: pick(n, x, [1, 2, 3]), "slice"),
    "all": (lambda n, x: pick(n, x, [0, 1, 2, 3, 4, 5]), "slice"),
    "every second": (lambda n, x: pick(n, x, [1, 3, 5]), "slice"),
    "from the end": (lambda n, x: pick(n, x, [-3, -2, -1]), "slice"),
    "backwards": (lambda n, x: pick(n, x, [3, 2, 1]), "gather"),
    "the same twice": (lambda n, x: pick(n, x, [3, 3]), "gather"),
    "uneven": (lambda n, x: pick(n, x, [0, 1, 3]), "gather"),
    "none": (lambda n, x: pick(n, x, np.zeros(0)), "gather"),
    "of two axes": (lambda n, x: pick(n, x, [[0, 1]]), "gather"),
    "under a predicate": (
        lambda n, x: n.gather(x, np.array([1, 2]), axis=1, predicate=when(n)), "gather",
    ),
    "not known": (lambda n, x: n.gather(x, n.g.input(np.array([1, 2])), axis=1), "gather"),
}  # fmt: skip
EXPANSIONS: dict[str, tuple[Formula, str]] = {
    "of an expansion": (lambda n, x: expand(n, expand(n, x, 2, 3, 6), 4, 2, 3, 6), "expand"),
    "once": (lambda n, x: n.tile(x, repeats=(1, 1)), ""),
    "twice": (lambda n, x: n.tile(x, repeats=(1, 2)), "tile"),
    "twice along ones": (lambda n, x: n.tile(t(n, 1, 6), repeats=(2, 1)), "expand"),
    "twice along the last ones": (lambda n, x: n.tile(t(n, 3, 1), repeats=(1, 2)), "expand"),
    "twice along ones and more": (lambda n, x: n.tile(t(n, 1, 6), repeats=(2, 2)), "tile"),
    "before a sum": (lambda n, x: n.add(expand(n, x, 2, 3, 6), t(n, 2, 3, 6)), "add"),
    "before a sum, second": (lambda n, x: n.add(t(n, 2, 3, 6), expand(n, x, 2, 3, 6)), "add"),
    "that makes the result's shape": (lambda n, x: n.add(expand(n, x, 2, 3, 6), t(n, 3, 6)), "expand add"),
    "before a sum under a predicate": (
        lambda n, x: n.add(expand(n, x, 2, 3, 6), t(n, 2, 3, 6), predicate=when(n)), "expand add",
    ),
    "of both": (lambda n, x: n.add(expand(n, x, 2, 3, 6), expand(n, t(n, 3, 6), 2, 3, 6)), "expand add"),
}  # fmt: skip
IMAGE = (1, 2, 4, 5)
PADS: dict[str, tuple[Formula, str]] = {
    "before a convolution": (lambda n, x: conv(n, padded(n, t(n, *IMAGE), (1, 2, 0, 1))), "conv"),
    "before a convolution with pads": (
        lambda n, x: conv(n, padded(n, t(n, *IMAGE), (1, 2, 0, 1)), pads=(0, 1, 2, 0)), "conv",
    ),
    "of ones": (lambda n, x: conv(n, padded(n, t(n, *IMAGE), (1, 2, 0, 1), 1.0)), "pad conv"),
    "by reflection": (
        lambda n, x: conv(n, padded(n, t(n, *IMAGE), (1, 2, 0, 1), mode="reflect")), "pad conv",
    ),
    "of channels": (
        lambda n, x: conv(n, n.pad(t(n, 1, 1, 4, 5), pads=(0, 1, 0, 0, 0, 0, 0, 0), value=0.0)), "pad conv",
    ),
    "of channels at the end": (
        lambda n, x: conv(n, n.pad(t(n, 1, 1, 4, 5), pads=(0, 0, 0, 0, 0, 1, 0, 0), value=0.0)), "pad conv",
    ),
    "that is read twice": (
        lambda n, x: n.add(n.reduce_sum(a := padded(n, t(n, *IMAGE), (1, 2, 0, 1)), axes=(0, 1, 2, 3)),
                           conv(n, a)),
        "pad reduce_sum conv add",
    ),
    "before a maximum": (
        lambda n, x: n.max_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1), -math.inf), kernel=(2, 2)), "max_pool",
    ),
    "as large as the window": (
        lambda n, x: n.max_pool(padded(n, t(n, *IMAGE), (2, 1, 0, 1), -math.inf), kernel=(2, 2)),
        "pad max_pool",
    ),
    "as large as the window, at the end": (
        lambda n, x: n.max_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 2), -math.inf), kernel=(2, 2)),
        "pad max_pool",
    ),
    "zeros before a maximum": (
        lambda n, x: n.max_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1)), kernel=(2, 2)), "pad max_pool",
    ),
    "zeros before a maximum of what is positive": (
        lambda n, x: n.max_pool(padded(n, n.sigmoid(t(n, *IMAGE)), (1, 1, 0, 1)), kernel=(2, 2)),
        "sigmoid max_pool",
    ),
    "zeros before a maximum of what may be negative": (
        lambda n, x: n.max_pool(padded(n, n.tanh(t(n, *IMAGE)), (1, 1, 0, 1)), kernel=(2, 2)),
        "tanh pad max_pool",
    ),
    "zeros as large as the window": (
        lambda n, x: n.max_pool(padded(n, n.sigmoid(t(n, *IMAGE)), (1, 2, 0, 1)), kernel=(2, 2)),
        "sigmoid pad max_pool",
    ),
    "ones before a maximum": (
        lambda n, x: n.max_pool(padded(n, n.sigmoid(t(n, *IMAGE)), (1, 1, 0, 1), 1.0), kernel=(2, 2)),
        "sigmoid pad max_pool",
    ),
    "before an average": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1)), kernel=(2, 2)), "avg_pool",
    ),
    "before an average of its own pads": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 0, 0, 1)), kernel=(3, 3), pads=(1, 1, 1, 1),
                                count_include_pad=True),
        "avg_pool",
    ),
    "before an average that does not count its pads": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 0, 0, 1)), kernel=(3, 3), pads=(1, 1, 1, 1),
                                count_include_pad=False),
        "pad avg_pool",
    ),
    "before an average, as large as the window": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 2, 0, 1)), kernel=(2, 2)), "pad avg_pool",
    ),
    "before an average with dilations": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1)), kernel=(2, 2), dilations=(2, 2)),
        "pad avg_pool",
    ),
    "before what has a predicate": (
        lambda n, x: conv(n, padded(n, t(n, *IMAGE), (1, 2, 0, 1)), predicate=when(n)), "pad conv",
    ),
    "before a maximum under a predicate": (
        lambda n, x: n.max_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1), -math.inf), kernel=(2, 2),
                                predicate=when(n)),
        "pad max_pool",
    ),
    "before an average under a predicate": (
        lambda n, x: n.avg_pool(padded(n, t(n, *IMAGE), (1, 1, 0, 1)), kernel=(2, 2), predicate=when(n)),
        "pad avg_pool",
    ),
    "below a transpose under a predicate": (
        lambda n, x: n.transpose(padded(n, x, (1, 0, 2, 3)), permutation=(1, 0), predicate=when(n)),
        "pad transpose",
    ),
    "under a predicate, below a transpose": (
        lambda n, x: turn(n, n.pad(x, pads=(1, 0, 2, 3), value=0.0, predicate=when(n))), "pad transpose",
    ),
    "below a transpose": (lambda n, x: turn(n, padded(n, x, (1, 0, 2, 3), 4.0)), "transpose pad"),
    "below a transpose, read twice": (
        lambda n, x: n.matmul(a := padded(n, x, (1, 0, 2, 3), 4.0), turn(n, a)), "pad transpose matmul",
    ),
    "below a transpose of three axes": (
        lambda n, x: turn(n, padded(n, t(n, 2, 3, 4), (1, 0, 2, 3)), 1, 2, 0), "transpose pad",
    ),
}  # fmt: skip
FAMILIES: dict[str, dict[str, tuple[Formula, str]]] = {
    "transposes": TRANSPOSES,
    "reshapes": RESHAPES,
    "slices": SLICES,
    "concats": CONCATS,
    "gathers": GATHERS,
    "expansions": EXPANSIONS,
    "fold_pads": PADS,
}
