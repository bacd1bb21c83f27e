"""Rule of Einsum: pairs of operands contracted as batched matrix products."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import broadcast
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules.rule import Versions


def einsum(g: Emitter, n: Node) -> Value:
    """Einsum with ellipses, repeated labels and implicit output."""
    operands = n.tensors()
    inputs, output = _terms(n.text("equation", REQUIRED), [rank(x) for x in operands])
    terms = [_diagonal(g, x, labels) for x, labels in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        (a, left), (b, right) = terms[0], terms[1]
        later = set(output).union(*(labels for _, labels in terms[2:]))
        terms[:2] = [_contract(g, a, left, b, right, later)]
    x, labels = terms[0]
    gone = tuple(i for i, label in enumerate(labels) if label not in output)
    if gone:
        x = g(ReduceSumOp, x, axes=gone, keepdims=False)
        labels = [label for label in labels if label in output]
    if sorted(labels) != sorted(output):
        raise RuleError(f"the output has labels that no operand has, or twice: {', '.join(output)}")
    return g.transpose(x, [labels.index(label) for label in output])


def _terms(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand and of the output; an ellipsis becomes labels `.0`, `.1`, ... from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise RuleError(f"the equation has {len(parts)} terms for {len(ranks)} operands")
    widest = 0
    inputs: list[list[str]] = []
    for part, count in zip(parts, ranks, strict=True):
        named = len(part.replace("...", ""))
        width = count - named
        if width < 0 or (width and "..." not in part):
            raise RuleError(f"term '{part}' does not fit an operand of rank {count}")
        widest = max(widest, width)
        inputs.append(_labels(part, width))
    if arrow:
        return inputs, _labels(right, widest)
    once = sorted({c for labels in inputs for c in labels if c[0] != "."})
    single = [c for c in once if sum(labels.count(c) for labels in inputs) == 1]
    return inputs, [*_labels("...", widest), *single]


def _labels(term: str, width: int) -> list[str]:
    before, dots, after = term.partition("...")
    middle = [f".{i}" for i in range(width - 1, -1, -1)] if dots else []
    return [*before, *middle, *after]


def _diagonal(g: Emitter, x: Value, labels: list[str]) -> tuple[Value, list[str]]:
    """Repeated labels of one operand taken on their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            size = shape(x)[first]
            dims = [size if i in (first, second) else 1 for i in range(rank(x))]
            mask = np.eye(size, dtype=bool).reshape(dims)
            x = g(ReduceSumOp, g(SelectOp, mask, x, g.like(0, x)), axes=(second,), keepdims=False)
            labels = [*labels[:second], *labels[second + 1 :]]
    return x, labels


def _contract(
    g: Emitter, a: Value, left: list[str], b: Value, right: list[str], later: set[str]
) -> tuple[Value, list[str]]:
    """a and b with the labels that nothing else needs summed away."""
    sizes: dict[str, int] = {}
    for labels, x in ((left, a), (right, b)):
        for label, size in zip(labels, shape(x), strict=True):
            sizes[label] = size if size != 1 else sizes.get(label, 1)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in later]
    summed = [c for c in shared if c not in later]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    if not summed:
        first = _arranged(g, a, left, [*batch, *rows], sizes)
        second = _arranged(g, b, right, [*batch, *columns], sizes)
        dims = [sizes[c] for c in batch]
        wide = [*dims, *(sizes[c] for c in rows), *(1 for _ in columns)]
        tall = [*dims, *(1 for _ in rows), *(sizes[c] for c in columns)]
        return g(MulOp, g.reshape(first, wide), g.reshape(second, tall)), [*batch, *rows, *columns]
    groups = [prod([sizes[c] for c in group]) for group in (batch, rows, summed, columns)]
    first = g.reshape(
        _arranged(g, a, left, [*batch, *rows, *summed], sizes), (groups[0], groups[1], groups[2])
    )
    second = g.reshape(
        _arranged(g, b, right, [*batch, *summed, *columns], sizes), (groups[0], groups[2], groups[3])
    )
    labels = [*batch, *rows, *columns]
    return g.reshape(product(g, first, second), [sizes[c] for c in labels]), labels


def _arranged(g: Emitter, x: Value, labels: list[str], order: list[str], sizes: dict[str, int]) -> Value:
    x = g.transpose(x, [labels.index(c) for c in order])
    return broadcast(g, x, tuple(sizes[c] for c in order))


RULES: dict[str, Versions] = {"Einsum": einsum}
