"""Random graphs whose sizes change from call to call, beside onnxruntime: `hunt.py --open`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
from rounding import rounding_decides

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_tools.reduce_onnx import OnnxCase as Case

Axis = tuple[str, int]
"""An axis of an input."""
Outputs = dict[str, np.ndarray]
CALLS = 6
"""Sizes that a graph is called with, after its own."""


def fault(case: Case) -> str | None:
    """What is wrong with a case whose axes are open, as far as other sizes can be; None where nothing is.

    Sizes that onnxruntime refuses say nothing, nor do images that are smaller than a window.
    """
    names = _open_axes(case)
    if not names:
        return None
    model = opened(case.model, names)
    net, plain = glow.compile(model), None
    for sizes, feed, want in _calls(case, names):
        try:
            got = net.run(feed)
        except GlowError as error:
            if "does not fit" in str(error):
                continue
            return f"is refused: {error}"
        for name, array in want.items():
            if got[name].shape != array.shape:
                return f"has another shape: {name}, {got[name].shape} for {array.shape}, sizes {sizes}"
            if _close(got[name], array):
                continue
            plain = plain or glow.compile(model, backend="interpreter")
            if _close(got[name], plain.run(feed)[name]):
                continue
            if not rounding_decides(Case(model, feed), name, got[name]):
                return f"differs from the interpreter and from onnxruntime: {name}, sizes {sizes}"
    return None


def wanted(case: Case) -> None:
    """What `fault` asks of onnxruntime, which dies of some sizes without elements."""
    list(_calls(case, _open_axes(case)))


def _calls(case: Case, names: dict[Axis, str]) -> Iterator[tuple[dict[str, int], dict[str, Any], Outputs]]:
    """Sizes that the graph can have, inputs of them, and onnxruntime's outputs."""
    reference = _Reference(opened(case.model, names))
    for sizes in _sizes(case, names):
        feed = _feed(case, {axis: sizes[name] for axis, name in names.items()})
        want = reference.run(feed)
        if want is not None:
            yield sizes, feed, want


def _close(ours: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results agree; of bytes, which are rounded, to one step."""
    if ours.dtype.kind in "iu":
        return bool((np.abs(ours.astype(np.int64) - other.astype(np.int64)) <= 1).all())
    return np.allclose(ours, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def opened(model: onnx.ModelProto, names: dict[Axis, str]) -> onnx.ModelProto:
    """The model with names for some axes of its inputs, and no word on the sizes of its outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, axis) in names:
                dim.dim_param = names[value.name, axis]
    for value in made.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("value")
    return made


def _open_axes(case: Case) -> dict[Axis, str]:
    """Axes that can have other sizes, by themselves or as one with the same axis of the other inputs."""
    every = {(n, axis): f"{n}_{axis}" for n, a in case.feed.items() for axis in range(a.ndim)}
    reference = _Reference(opened(case.model, every))

    def can_grow(axes: list[Axis]) -> bool:
        feeds = (_feed(case, {a: case.feed[a[0]].shape[a[1]] + more for a in axes}) for more in (1, 3))
        return all(reference.run(feed) is not None for feed in feeds)

    names: dict[Axis, str] = {}
    for axis, name in every.items():
        if can_grow([axis]):
            names[axis] = name
        elif axis[0] == next(iter(case.feed)):
            alike = [a for a in every if a[1] == axis[1]]
            if len(alike) > 1 and can_grow(alike):
                names |= dict.fromkeys(alike, name)
    return names


def _sizes(case: Case, names: dict[Axis, str]) -> Iterator[dict[str, int]]:
    """Sizes by name: the graph's own, then others."""
    own = {name: case.feed[axis[0]].shape[axis[1]] for axis, name in names.items()}
    rng = np.random.default_rng([size for a in case.feed.values() for size in a.shape])
    yield own
    for _ in range(CALLS):
        choices = {n: [1, 2, 3, s, s + 1, s + 3, 2 * s, 3 * s + 1, s + 17] for n, s in own.items()}
        yield {n: int(rng.choice(c)) for n, c in choices.items()}


def _feed(case: Case, sizes: dict[Axis, int]) -> dict[str, Any]:
    """Inputs of these sizes, whose elements are those of the graph's own inputs, over and over."""
    shapes = {n: [sizes.get((n, i), s) for i, s in enumerate(a.shape)] for n, a in case.feed.items()}
    return {n: np.resize(a, shapes[n]) for n, a in case.feed.items()}


class _Reference:
    """A model in onnxruntime, as it stands."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self._names = [o.name for o in model.graph.output]

    def run(self, feed: dict[str, Any]) -> Outputs | None:
        """The outputs; None where the model is not for these sizes."""
        try:
            values = self._session.run(None, feed)
        except Exception:  # onnxruntime's exceptions have no common class but this one
            return None
        return dict(zip(self._names, values, strict=True))
