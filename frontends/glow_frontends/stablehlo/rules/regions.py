"""Recognition of the small functions inside reductions, scatters and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from xdsl.ir import Block

from glow_dialects.core.types import Array, dtype_of
from glow_frontends.graph import Emitter, RuleError
from glow_frontends.stablehlo.node import Node, op_name

#: What a function of two numbers computes, by the operation that it consists of.
_KINDS = {
    "stablehlo.add": "add",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.multiply": "mul",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}


def kind_of(block: Block) -> str:
    """add, max, min, mul, and, or, xor; "none" where the second number is the result; "" for others."""
    *body, last = block.ops
    if not body and list(last.operands) == [block.args[1]]:
        return "none"
    if len(body) == 1 and list(last.operands) == list(body[0].results):
        kind = _KINDS.get(op_name(body[0]))
        if kind is not None and set(body[0].operands) == set(block.args):
            return kind
    return ""


def neutral(kind: str, dtype: np.dtype) -> Array:
    """The number that changes nothing, of an element type."""
    if kind in ("add", "or", "xor"):
        return np.zeros((), dtype)
    if kind == "mul":
        return np.ones((), dtype)
    if kind == "and":
        return np.ones((), dtype) if dtype == bool else ~np.zeros((), dtype)
    if dtype == bool:
        return np.array(kind == "min")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array(limits.max if kind == "min" else limits.min, dtype)
    return np.array(np.inf if kind == "min" else -np.inf).astype(dtype)


def sort_keys(g: Emitter, n: Node) -> list[tuple[int, bool]]:
    """The operands that a comparison looks at, the first decides first; and whether from large to small.

    Told by what it answers for small numbers, every key greater, equal or less.
    """
    block = n.block()
    dtypes = [dtype_of(a.type) for a in block.args]
    count = len(dtypes) // 2

    def before(signs: Sequence[int]) -> bool:
        """Whether numbers come before others that are as much less, equal or greater."""
        arguments: list[Array] = []
        for index, sign in enumerate(signs):
            pair = [0, 1] if sign < 0 else [1, 0] if sign > 0 else [0, 0]
            arguments += [np.array(v).astype(dtypes[2 * index]) for v in pair]
        (answer,) = n.program.run(block, arguments)
        return bool(g.known(answer, "a comparison of sort"))

    def alone(index: int, sign: int) -> list[int]:
        return [sign if i == index else 0 for i in range(count)]

    keys = [i for i in range(count) if before(alone(i, -1)) != before(alone(i, 1))]
    down = {i: before(alone(i, 1)) for i in keys}

    def wins(i: int, k: int) -> bool:
        """Whether key i decides where key k says the contrary."""
        signs = [0] * count
        signs[i], signs[k] = (1 if down[i] else -1), (-1 if down[k] else 1)
        return before(signs)

    ordered = sorted(keys, key=lambda i: sum(wins(k, i) for k in keys if k != i))
    if not ordered or not _agrees(before, ordered, down, count):
        raise RuleError("a comparison that is no order of its operands")
    return [(i, down[i]) for i in ordered]


def _agrees(
    before: Callable[[Sequence[int]], bool], keys: Sequence[int], down: dict[int, bool], count: int
) -> bool:
    """Whether the order of keys gives every answer of a comparison."""
    for some in product((-1, 0, 1), repeat=min(len(keys), 4)):
        signs = [0] * count
        for key, sign in zip(keys, some, strict=False):
            signs[key] = sign
        first = next((k for k in keys if signs[k]), None)
        if before(signs) != (first is not None and (signs[first] > 0) == down[first]):
            return False
    return True


def is_arg(g: Emitter, n: Node) -> bool | None:
    """Of a reduction of (numbers, places): True for the place of the largest, False of the smallest, None
    where it is neither; of equal numbers the first place."""
    block = n.block()
    number, place = (dtype_of(a.type) for a in block.args[:2])
    answers: list[tuple[int, int]] = []
    for values in ((0, 1, 1, 0), (1, 0, 0, 1), (1, 1, 1, 0), (1, 0, 1, 1)):
        arrays = [np.array(v).astype(place if i % 2 else number) for i, v in enumerate(values)]
        results = [g.known(v, "a reduction") for v in n.program.run(block, arrays)]
        answers.append((int(results[0]), int(results[1])))
    if answers[2:] != [(1, 0), (1, 0)]:
        return None
    return {((1, 0), (1, 0)): True, ((0, 1), (0, 1)): False}.get((answers[0], answers[1]))
