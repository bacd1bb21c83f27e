"""NumPy functions on lists of arrays: splits, grids, blocks, index arrays; shapes of arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.fn.primitives.cotangents import BroadcastLike
from glow_dialects.fn.primitives.operators import Operator, Stack
from glow_dialects.fn.primitives.shapes import Shape
from glow_dialects.fn.primitives.tuples import Len, ToArray
from glow_frontends.python.calls import Handler, Keywords, apply_value, evaluated, static_attribute
from glow_frontends.python.comparisons import known
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.hints import refusal
from glow_frontends.python.numpy_analysis import slope, slopes
from glow_frontends.python.numpy_names import as_array, call_function

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions


def _arguments(
    c: Expressions, node: ast.AST, name: str, names: str, values: Sequence[Value], keywords: Keywords
) -> list[Value]:
    """The arguments of a function by the order of `names`, of which those with `=` have a default."""
    places = {name: default for name, _, default in (n.partition("=") for n in names.split())}
    given = dict(zip(places, values, strict=False)) | keywords
    missing = [n for n, default in places.items() if not default and n not in given]
    if len(values) > len(places) or keywords.keys() - places.keys() or missing:
        c.fail(node, f"these are not the arguments of np.{name}", f"give {', '.join(places)}")
    return [given.get(n, Static(ast.literal_eval(default or "None"))) for n, default in places.items()]


def _split(name: str, axis: str | None) -> Handler:
    """np.split and its like: the tuple of parts; `axis` is that of the text where the call names none."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        names = "ary indices_or_sections axis=0" if axis is None else f"ary indices_or_sections axis={axis}"
        if axis is not None and (len(values) > 2 or "axis" in keywords):
            c.fail(node, f"np.{name} has a fixed axis", "use np.split with axis")
        array, sections, along = _arguments(c, node, name, names, values, keywords)
        cuts = known(c, sections)
        if cuts is None:
            c.fail(
                node, f"the sections of np.{name} must be known at compile time", "write the number of parts"
            )
        places = cuts.value if isinstance(cuts.value, int) else [int(p) for p in cuts.value]
        count = places if isinstance(places, int) else len(places) + 1
        options = {"sections": Static(places), "axis": along, "uneven": Static(name == "array_split")}
        whole = as_array(c, node, array)
        parts = [
            call_function(c, node, "split_part", [whole], {**options, "index": Static(i)})
            for i in range(count)
        ]
        return c.tuple(*parts)

    return handle


def _each(c: Expressions, node: ast.AST, name: str, arrays: Sequence[SSAValue], keywords: Keywords) -> Value:
    """The tuple of what a function gives for each place of several arrays."""
    whole = c.tuple(*arrays)
    parts = [
        call_function(c, node, name, [whole], {**keywords, "index": Static(i)}) for i in range(len(arrays))
    ]
    return c.tuple(*parts)


def _meshgrid(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """The coordinates of a grid, one array an axis."""
    indexing = keywords.get("indexing", Static("xy"))
    if keywords.keys() - {"indexing"} or not isinstance(indexing, Static):
        c.fail(node, "np.meshgrid takes rows of coordinates and indexing='xy' or 'ij'")
    return _each(c, node, "meshgrid", [as_array(c, node, v) for v in values], {"indexing": indexing})


def _broadcast_arrays(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    if keywords:
        c.fail(node, "np.broadcast_arrays takes arrays only")
    return _each(c, node, "broadcast_part", [as_array(c, node, v) for v in values], {})


def _open_grid(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.ix_: each row along an axis of its own."""
    axes = range(len(values))
    wide = [
        call_function(c, node, "expand_dims", [v], {"axis": Static([a for a in axes if a != i])})
        for i, v in enumerate(values)
    ]
    return c.tuple(*wide)


def _indices(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """The coordinates of the elements of a shape that has been written out."""
    (dimensions,) = _arguments(c, node, "indices", "dimensions", values, keywords)
    sizes = c.items(dimensions, node)
    if sizes is None:
        c.unknown_length(node, "np.indices", "write the sizes out: np.indices((x.shape[0], x.shape[1]))")
    rows = [call_function(c, node, "arange", [n], {}) for n in sizes]
    grid = c.items(_meshgrid(c, node, list(rows), {"indexing": Static("ij")}), node)
    return c.prim(Stack, *[c.ssa(g, node) for g in grid or ()], axis=to_attribute(0))


def _diagonal(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.diag_indices: the same places along each axis."""
    size, rank = _arguments(c, node, "diag_indices", "n ndim=2", values, keywords)
    if not isinstance(rank, Static):
        c.fail(node, "the axes of np.diag_indices must be known at compile time", "write the number")
    return c.tuple(*[call_function(c, node, "arange", [size], {})] * rank.value)


def _triangle(name: str, upper: bool, of_array: bool) -> Handler:
    """np.tril_indices and its like: rows and columns."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        names = "arr k=0" if of_array else "n k=0 m=None"
        first, k, *rest = _arguments(c, node, name, names, values, keywords)
        if of_array:
            shape = c.prim(Shape, as_array(c, node, first))
            first, rest = c.get(shape, 0), [c.get(shape, 1)]
        options = {"upper": Static(upper), "n": first, "k": k, "m": rest[0]}
        return c.tuple(
            *[call_function(c, node, "triangle_part", [], {**options, "index": Static(i)}) for i in range(2)]
        )

    return handle


def _joined(name: str) -> Handler:
    """np.concatenate and np.stack."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        arrays, axis = _arguments(c, node, name, "arrays axis=0", values, keywords)
        items = c.items(arrays, node)
        first = isinstance(axis, Static) and axis.value == 0
        if items is None and name == "stack" and first:
            return c.prim(ToArray, c.ssa(arrays, node))
        if items is None:
            c.unknown_length(node, f"np.{name}", "write the arrays out")
        parts = [as_array(c, node, v) for v in items]
        if name == "concatenate" and (not isinstance(axis, Static) or axis.value is None):
            return call_function(c, node, "concatenate", [c.tuple(*parts)], {"axis": axis})
        card = Operator("concat") if name == "concatenate" else Stack()
        return c.prim(card, *parts, axis=static_attribute(c, node, "axis", axis))

    return handle


def _block(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """Arrays in nested lists, the innermost ones beside each other along the last axis."""
    (whole,) = _arguments(c, node, "block", "arrays", values, keywords)
    rank = _depth(c, whole, node)
    return _assembled(c, node, whole, rank, rank)


def _depth(c: Expressions, value: Value, node: ast.AST) -> int:
    items = c.items(value, node)
    return 0 if items is None else 1 + max((_depth(c, v, node) for v in items), default=0)


def _assembled(c: Expressions, node: ast.AST, value: Value, depth: int, rank: int) -> SSAValue:
    items = c.items(value, node)
    if (items is None) != (depth == 0):
        c.fail(node, "the lists of np.block must be equally deep", "write every row as a list")
    if items is None:
        return call_function(c, node, "at_least", [value], {"rank": Static(rank)})
    parts = [_assembled(c, node, v, depth - 1, rank) for v in items]
    return c.prim(Operator("concat"), *parts, axis=to_attribute(-depth))


def _gradient(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.gradient of an array, by one step, by one for each axis, or by none."""
    first, *steps = values
    array = as_array(c, node, first)
    axis, order = keywords.get("axis", Static(None)), keywords.get("edge_order", Static(1))
    axes = known(c, axis)
    if axes is None or keywords.keys() - {"axis", "edge_order"}:
        c.fail(node, "np.gradient takes steps, axis and edge_order, known at compile time")
    distances = [as_array(c, node, s) for s in steps] or [c.constant(1.0)]
    if axes.value is None and len(distances) == 1:
        return apply_value(c, node, Static(slopes), [array, *distances, order], {})
    single = isinstance(axes.value, int)
    chosen = [axes.value] if single else list(range(len(distances)) if axes.value is None else axes.value)
    if len(distances) not in (1, len(chosen)):
        c.fail(
            node, f"np.gradient of {len(distances)} steps for {len(chosen)} axes", "give one step per axis"
        )
    distances *= len(chosen) // len(distances)
    made = [
        apply_value(c, node, Static(slope), [array, d, Static(a), order], {})
        for a, d in zip(chosen, distances, strict=True)
    ]
    return made[0] if single else c.tuple(*[c.ssa(m, node) for m in made])


def _insert(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    array, places, new, axis = _arguments(c, node, "insert", "arr obj values axis=None", values, keywords)
    return call_function(c, node, "insert", [array, new], {"obj": places, "axis": axis})


def _compress(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """The elements that a list of truths picks, which is known when compiling."""
    condition, array, axis = _arguments(c, node, "compress", "condition a axis=None", values, keywords)
    chosen = known(c, condition)
    if chosen is None:
        c.fail(node, *refusal(np.compress))
    places = Static(np.flatnonzero(np.asarray(chosen.value)))
    return call_function(c, node, "take", [array, places], {"axis": axis})


def _of_shape(name: str) -> Handler:
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        (array,) = _arguments(c, node, name, "a", values, keywords)
        shape = c.prim(Shape, as_array(c, node, array))
        return shape if name == "shape" else c.prim(Len, shape)

    return handle


def _real_part(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.real and np.conj: numbers here have no imaginary part."""
    (array,) = _arguments(c, node, "real", "val", values, keywords)
    return as_array(c, node, array)


def _imaginary_part(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    (array,) = _arguments(c, node, "imag", "val", values, keywords)
    return c.prim(BroadcastLike, c.constant(0), as_array(c, node, array))


def _or_known(thing: Any, handler: Handler) -> Handler:
    """A handler; the function itself where all its arguments are known."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        return evaluated(thing, values, keywords) or handler(c, node, values, keywords)

    return handle


#: Handlers of functions of lists of arrays, and of those that ask for shapes.
STRUCTURES: dict[Any, Handler] = {
    np.split: _split("split", None), np.array_split: _split("array_split", None),
    np.vsplit: _split("vsplit", "0"), np.hsplit: _split("hsplit", "None"),
    np.dsplit: _split("dsplit", "2"),
    np.concatenate: _joined("concatenate"), np.stack: _joined("stack"),
    np.meshgrid: _meshgrid, np.broadcast_arrays: _broadcast_arrays, np.block: _block, np.insert: _insert,
    np.gradient: _gradient,
    np.compress: _compress, np.extract: _compress,
    np.shape: _of_shape("shape"), np.ndim: _of_shape("ndim"),
    np.real: _real_part, np.conjugate: _real_part, np.imag: _imaginary_part,
    **{
        f: _or_known(f, handler)
        for f, handler in (
            (np.ix_, _open_grid), (np.indices, _indices), (np.diag_indices, _diagonal),
            (np.tril_indices, _triangle("tril_indices", False, False)),
            (np.triu_indices, _triangle("triu_indices", True, False)),
            (np.tril_indices_from, _triangle("tril_indices_from", False, True)),
            (np.triu_indices_from, _triangle("triu_indices_from", True, True)),
        )
    },
}  # fmt: skip
