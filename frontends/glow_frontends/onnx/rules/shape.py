"""Rules of constants, shapes and structure: tensors moved or created without arithmetic."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.depth_to_space import DepthToSpaceOp, SpaceToDepthOp
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.tile import TileOp
from glow_frontends.graph import BoundedValue, Emitter, RuleError, Value, dtype_of_value, rank, shape, uniform
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.counts import shaped
from glow_frontends.graph.emitter import MAX_FOLDED
from glow_frontends.graph.module import check_size
from glow_frontends.graph.movement import broadcast, cut, join, pieces, repeated
from glow_frontends.graph.sizes import objects, sizes_of
from glow_frontends.onnx.node import Node, Result
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.run_time_slices import span


def constant(g: Emitter, n: Node) -> Array:
    """Constant, in each of its attribute forms."""
    del g
    for name in ("value", "sparse_value"):
        array = n.tensor(name)
        if array is not None:
            return array
    for name, read, dtype in (
        ("value_float", n.number, np.float32),
        ("value_floats", n.numbers, np.float32),
        ("value_int", n.integer, np.int64),
        ("value_ints", n.integers, np.int64),
        ("value_string", n.text, object),
        ("value_strings", n.texts, object),
    ):
        if n.has(name):
            return np.array(read(name), dtype=dtype)
    raise RuleError("a constant without a value")


def constant_of_shape(g: Emitter, n: Node) -> Value | BoundedValue:
    """ConstantOfShape: one element, repeated without memory."""
    value = n.tensor("value")
    value = np.zeros((), np.float32) if value is None else value
    bound = shaped(g, n[0]) if isinstance(n[0], SSAValue) else None
    if bound is not None:
        dims, axis, length = bound
        return g.bounded(uniform(value, dims), axis, length)
    dims = g.ints(n[0], "the shape of a constant")
    check_size(dims)
    return repeated(g, value, dims)


def shape_(g: Emitter, n: Node) -> Value:
    """Shape: known, or made of sizes that the run tells."""
    dims = shape(n[0])[slice(n.integer("start", 0), n.integer("end"))]
    return g.sizes(objects(dims), np.dtype(np.int64))


def size(g: Emitter, n: Node) -> Value:
    """Size: the same."""
    return g.size(prod(shape(n[0])), np.dtype(np.int64))


def identity(g: Emitter, n: Node) -> Result:
    """Identity of anything."""
    del g
    value = n.any_input(0)
    if value is None:
        raise RuleError("input 0 is missing")
    return value


def reshape(g: Emitter, n: Node) -> Value:
    """Reshape: 0 copies a dimension (unless allowzero), one -1 is computed."""
    x = n[0]
    wanted = n.integers("shape") if n.opset < 5 else g.ints(n[1], "the target of Reshape")
    if wanted is None:
        raise RuleError("attribute 'shape' is missing")
    dims = list(wanted)
    if not n.flag("allowzero"):
        for index, dim in enumerate(dims):
            if dim == 0:
                if index >= rank(x):
                    raise RuleError(f"dimension {index} is copied from a tensor of rank {rank(x)}")
                dims[index] = shape(x)[index]
    total = prod(shape(x))
    if dims.count(-1) == 1:
        rest = prod([d for d in dims if d != -1])
        dims[dims.index(-1)] = total // rest if rest else 0
    if any(d < 0 for d in dims) or prod(dims) != total:
        raise RuleError(f"{'x'.join(map(str, shape(x)))} does not reshape to {list(wanted)}")
    return g.reshape(x, dims)


def flatten(g: Emitter, n: Node) -> Value:
    """Flatten to a matrix."""
    dims = shape(n[0])
    axis = (
        axis_of(n.integer("axis", 1), len(dims) + 1)
        if n.integer("axis", 1) >= 0
        else n.integer("axis") + len(dims)
    )
    return g.reshape(n[0], (prod(dims[:axis]), prod(dims[axis:])))


def squeeze(g: Emitter, n: Node) -> Value:
    """Squeeze: axes by attribute, by input since opset 13, or all of size 1."""
    dims = shape(n[0])
    axes = n.integers("axes")
    axes_input = n.get(1)
    if axes_input is not None:
        axes = g.ints(axes_input, "the axes of Squeeze")
    chosen = [i for i, d in enumerate(dims) if d == 1] if axes is None else axes_of(axes, len(dims))
    if any(dims[i] != 1 for i in chosen):
        raise RuleError(f"axes {list(chosen)} of {'x'.join(map(str, dims))} are not all 1")
    return g.reshape(n[0], [d for i, d in enumerate(dims) if i not in chosen])


def unsqueeze(g: Emitter, n: Node) -> Value:
    """Unsqueeze: axes by attribute, by input since opset 13."""
    axes = n.integers("axes") if n.has("axes") else g.ints(n[1], "the axes of Unsqueeze")
    total = rank(n[0]) + len(axes)
    chosen = axes_of(axes, total)
    rest = iter(shape(n[0]))
    return g.reshape(n[0], [1 if i in chosen else next(rest) for i in range(total)])


def transpose(g: Emitter, n: Node) -> Value:
    """Transpose; all axes reversed by default."""
    permutation = n.integers("perm") or tuple(reversed(range(rank(n[0]))))
    if sorted(permutation) != list(range(rank(n[0]))):
        raise RuleError(f"perm {permutation} is not a permutation of {rank(n[0])} axes")
    return g.transpose(n[0], permutation)


def concat(g: Emitter, n: Node) -> Value:
    """Concat; axis 1 by default before opset 4."""
    parts = n.tensors()
    axis = axis_of(n.integer("axis", 1), rank(parts[0]))
    return join(g, parts, axis)


def slice_(g: Emitter, n: Node) -> Value | BoundedValue:
    """Slice: bounds by attributes before opset 10, by inputs since; in a loop's body they may be computed."""
    x = n[0]
    if n.opset < 10:
        starts, ends = n.integers("starts"), n.integers("ends")
        axes, steps = n.integers("axes"), None
    else:
        axes, steps = (None if n.get(i) is None else g.ints(n[i], "a bound of Slice") for i in (3, 4))
        if g.scope.turning and any(isinstance(n[i], SSAValue) for i in (1, 2)):
            chosen = axes_of(axes if axes is not None else range(prod(shape(n[1]))), rank(x))
            return span(g, x, n[1], n[2], chosen, steps or (1,) * len(chosen))
        starts, ends = (g.ints(n[i], "a bound of Slice") for i in (1, 2))
    axes = axes_of(axes if axes is not None else range(len(starts)), rank(x))
    if {len(starts), len(ends), len(axes if steps is None else steps)} != {len(axes)}:
        raise RuleError(f"{len(starts)} starts and {len(ends)} ends for {len(axes)} axes")
    dims = shape(x)
    begin, end, step = [0] * len(dims), list(dims), [1] * len(dims)
    for index, axis in enumerate(axes):
        stride = steps[index] if steps is not None else 1
        if stride == 0:
            raise RuleError("a step of 0")
        begin[axis], end[axis] = _bounds(starts[index], ends[index], stride, dims[axis])
        step[axis] = stride
    return cut(g, x, begin, end, step)


def _bounds(start: int, end: int, step: int, dim: int) -> tuple[int, int]:
    """Slice's bounds made explicit; -1 as an end stands before element 0.

    Unlike Python's, a backward walk that starts before the tensor starts at element 0.
    """
    least, last = (0, dim) if step > 0 else (-1, dim - 1)
    start, end = (v + dim if v < 0 else v for v in (start, end))
    return min(max(start, 0), max(last, 0)), min(max(end, least), last)


def split(g: Emitter, n: Node) -> list[Value]:
    """Split: sizes by attribute, by input since opset 13, or equal parts."""
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    total = shape(n[0])[axis]
    sizes = n.integers("split")
    if n.get(1) is not None:
        sizes = g.ints(n[1], "the sizes of Split")
    if sizes is None:
        count = n.integer("num_outputs", n.outputs)
        chunk = -(-total // count)
        sizes = tuple(max(0, min(chunk, total - i * chunk)) for i in range(count))
    if any(size < 0 for size in sizes) or sum(sizes) != total:
        raise RuleError(f"sizes {list(sizes)} do not add up to {total}")
    return pieces(g, n[0], axis, sizes)


def expand(g: Emitter, n: Node) -> Value | BoundedValue:
    """Expand: broadcast in both directions."""
    bound = shaped(g, n[1]) if isinstance(n[1], SSAValue) else None
    if bound is not None:
        dims, axis, length = bound
        before = max(rank(n[0]) - len(dims), 0)
        own = axis + before - (max(rank(n[0]), len(dims)) - rank(n[0]))
        if own < 0 or shape(n[0])[own] == 1:
            return g.bounded(broadcast(g, n[0], tuple(dims)), axis + before, length)
    return broadcast(g, n[0], g.ints(n[1], "the target of Expand"))


def tile(g: Emitter, n: Node) -> Value:
    """Tile; before opset 6 along one axis."""
    if n.opset < 6:
        repeats = [1] * rank(n[0])
        axis = axis_of(g.integer(n[2], "the axis of Tile"), rank(n[0]))
        repeats[axis] = g.integer(n[1], "the count of Tile")
    else:
        repeats = list(g.ints(n[1], "the repeats of Tile"))
    if len(repeats) != rank(n[0]):
        raise RuleError(f"{len(repeats)} repeats for a tensor of rank {rank(n[0])}")
    if all(r == 1 for r in repeats):
        return n[0]
    check_size([d * r for d, r in zip(shape(n[0]), repeats, strict=True)])
    return g(TileOp, n[0], repeats=tuple(repeats))


def range_(g: Emitter, n: Node) -> Value | BoundedValue:
    """Range of known bounds, or up to a length that the run tells."""
    start, limit, delta = (n[i] for i in range(3))
    if isinstance(limit, SSAValue) and isinstance(start, np.ndarray) and isinstance(delta, np.ndarray):
        bound = shaped(g, g.reshape(limit, (1,)))
        if bound is not None and not np.any(start) and np.all(delta == 1):
            (dims, axis, length) = bound
            numbers = g.bounded(np.arange(dims[0], dtype=np.int64), axis, length)
            assert isinstance(numbers, BoundedValue)
            return numbers
    bounds = [n[i] for i in range(3)]
    if any(isinstance(v, SSAValue) for v in bounds) and all(sizes_of(v) is not None for v in bounds):
        first, last, step = (g.integer(n[i], "a bound of Range") for i in range(3))
        if not step:
            raise RuleError("a step of 0")
        span = last - first if step > 0 else first - last
        return _steps(g, first, step, max(0, -(-span // abs(step))), dtype_of_value(n[0]))
    start, limit, delta = (g.scalar(n[i], "a bound of Range") for i in range(3))
    if not delta:
        raise RuleError("a step of 0")
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))
    check_size([count], MAX_FOLDED)
    return (start + np.arange(count) * delta).astype(start.dtype)


def _steps(g: Emitter, first: int, step: int, count: int, dtype: np.dtype) -> Value:
    """first, first + step... of an open count."""
    numbers: Value = g(IotaOp, results=tensor((count,), dtype))
    if step != 1:
        numbers = g(MulOp, numbers, g.like(step, numbers))
    if first == 0:
        return numbers
    return g(AddOp, numbers, g.size(first, dtype))


def pad(g: Emitter, n: Node) -> Value:
    """Pad; negative padding crops."""
    x = n[0]
    count = rank(x)
    if n.opset < 11:
        pads, fill = n.integers("pads", n.integers("paddings")), n.number("value", 0.0)
        axes = tuple(range(count))
    else:
        pads = g.ints(n[1], "the pads of Pad")
        fill = n.get(2)
        axes = tuple(range(count)) if n.get(3) is None else axes_of(g.ints(n[3], "the axes of Pad"), count)
    if len(pads or ()) != 2 * len(axes):
        raise RuleError(f"{len(pads or ())} pads for {len(axes)} axes, expected two for each")
    begins, ends = [0] * count, [0] * count
    for index, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[index], pads[index + len(axes)]
    dims = shape(x)
    x = cut(
        g,
        x,
        [max(0, -b) for b in begins],
        [d - max(0, -e) for d, e in zip(dims, ends, strict=True)],
    )
    begins, ends = [max(0, b) for b in begins], [max(0, e) for e in ends]
    check_size([d + b + e for d, b, e in zip(shape(x), begins, ends, strict=True)])
    if not any(begins) and not any(ends):
        return x
    number = (
        0.0 if fill is None else fill if isinstance(fill, float) else float(g.scalar(fill, "the fill of Pad"))
    )
    return g(PadOp, x, pads=(*begins, *ends), mode=n.text("mode", "constant"), value=number)


def depth_to_space(g: Emitter, n: Node) -> Value:
    """DepthToSpace in either order of channels."""
    return g(DepthToSpaceOp, n[0], block=n.integer("blocksize"), mode=n.text("mode", "DCR"))


def space_to_depth(g: Emitter, n: Node) -> Value:
    """SpaceToDepth in either order of channels."""
    return g(SpaceToDepthOp, n[0], block=n.integer("blocksize"), mode=n.text("mode", "DCR"))


RULES: dict[str, Versions] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape_,
    "Size": size,
    "Identity": identity,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Slice": slice_,
    "Split": split,
    "Expand": expand,
    "Tile": tile,
    "Range": range_,
    "Pad": pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
