"""numpy.einsum as transpositions, products of matrices and sums."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_frontends.python.emit import Static, Value

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions


def einsum(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> Value:
    """The sum of products that a text such as "ij,jk->ik" describes, of any number of arrays."""
    text = values[0].value if values and isinstance(values[0], Static) else None
    if not isinstance(text, str):
        c.fail(node, "the text of einsum must be known when compiling", "write it out")
    sources, arrow, result = text.replace(" ", "").partition("->")
    terms = sources.split(",")
    if not arrow:
        result = "".join(sorted(x for x in set(sources) - {","} if sources.count(x) == 1))
    arrays = [c.ssa(v, node) for v in values[1:]]
    if len(terms) != len(arrays):
        c.fail(node, f"einsum of {len(arrays)} arrays with {len(terms)} terms")
    if any(len(set(t)) < len(t) for t in [*terms, result]) or "." in text or not set(result) <= set(sources):
        c.fail(node, f"einsum '{text}' cannot be compiled", "name each axis of an array once, without ...")
    made, term = arrays[0], terms[0]
    for index, (array, other) in enumerate(zip(arrays[1:], terms[1:], strict=True), 2):
        kept = set(result).union(*terms[index:])
        made, term = _product(c, made, term, array, other, kept)
    made, term = _summed(c, made, term, set(result))
    return _ordered(c, made, term, result)


def _summed(c: Expressions, value: SSAValue, term: str, kept: set[str]) -> tuple[SSAValue, str]:
    """Summed over the axes that nothing else needs."""
    gone = [i for i, x in enumerate(term) if x not in kept]
    if gone:
        value = c.prim("op:reduce_sum", value, axis=to_attribute(gone))
    return value, "".join(x for x in term if x in kept)


def _ordered(c: Expressions, value: SSAValue, term: str, wanted: str) -> SSAValue:
    """The axes in another order."""
    if term == wanted:
        return value
    return c.prim("op:transpose", value, permutation=to_attribute([term.index(x) for x in wanted]))


def _product(
    c: Expressions, left: SSAValue, first: str, right: SSAValue, second: str, kept: set[str]
) -> tuple[SSAValue, str]:
    """The product of two, summed over the axes that both have and nothing else needs."""
    left, first = _summed(c, left, first, kept | set(second))
    right, second = _summed(c, right, second, kept | set(first))
    shared = [x for x in first if x in second]
    batch = "".join(x for x in shared if x in kept)
    inner = "".join(x for x in shared if x not in kept)
    rows = "".join(x for x in first if x not in second)
    columns = "".join(x for x in second if x not in first)
    sizes: dict[str, SSAValue] = {}
    for value, term in ((left, first), (right, second)):
        shape = c.prim("shape", value)
        sizes |= {x: c.prim("item", shape, c.constant(i)) for i, x in enumerate(term)}
    left = _folded(c, _ordered(c, left, first, batch + rows + inner), [*batch], [rows, inner], sizes)
    right = _folded(c, _ordered(c, right, second, batch + inner + columns), [*batch], [inner, columns], sizes)
    made = c.prim("op:batch_matmul", left, right)
    term = batch + rows + columns
    return c.prim("reshape", made, c.tuple(*[sizes[x] for x in term])), term


def _folded(
    c: Expressions, value: SSAValue, batch: Sequence[str], groups: Sequence[str], sizes: dict[str, SSAValue]
) -> SSAValue:
    """Groups of axes as one axis each, behind the axes of the batch."""
    shape = [sizes[x] for x in batch]
    for group in groups:
        size = c.constant(1)
        for x in group:
            size = c.prim("mul", size, sizes[x])
        shape.append(size)
    return c.prim("reshape", value, c.tuple(*shape))
