"""Reduction of ONNX models: fewer nodes and outputs, smaller shapes, weights of one number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_frontends.onnx.model import uses
from glow_frontends.onnx.parts import constants, ends, part, serialized, weights, with_outputs, write
from glow_tools.delta import smallest
from glow_tools.onnxruntime_run import onnxruntime_outputs

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from glow_dialects.core.types import Array

Feed = dict[str, Any]


@dataclass
class OnnxCase:
    """A model and its inputs."""

    model: ModelProto
    feed: Feed

    def size(self) -> str:
        """How large it is, for messages."""
        return f"{len(self.model.graph.node)} nodes"

    def write(self, path: Path) -> None:
        """Write the model."""
        write(path, self.model)


Wrong = Callable[[OnnxCase], bool]


def reduced(case: OnnxCase, wrong: Wrong) -> OnnxCase:
    """A small model that is still wrong: what left-out nodes made becomes an input, or a weight.

    Inputs keep the values that they have in the whole model.
    """
    cutter = _Cutter(case)
    nodes = smallest(list(case.model.graph.node), lambda some: wrong(cutter.part(some)))
    case = cutter.part(nodes)
    outputs = [o.name for o in case.model.graph.output]
    outputs = smallest(outputs, lambda some: wrong(cutter.part(nodes, some)))
    case = cutter.part(nodes, outputs) if len(outputs) < len(case.model.graph.output) else case
    return _with_splats(_smaller_shapes(case, wrong), wrong)


class _Cutter:
    """Parts of a model, of which every value is known."""

    def __init__(self, case: OnnxCase) -> None:
        self.case = case
        self.constants = constants(case.model)
        self.values: Feed = {**_values(case), **case.feed}
        self.outputs = {o.name for o in case.model.graph.output}

    def part(self, nodes: Sequence[NodeProto], outputs: Collection[str] | None = None) -> OnnxCase:
        """Some of the nodes, with inputs in place of the others."""

        made = {o for n in nodes for o in n.output if o}
        needed = {name for n in nodes for name in uses(n)} - made
        given = {n: v for n, v in self.values.items() if n in needed}
        inputs = {n: v for n, v in given.items() if n not in self.constants}
        weights = {n: v for n, v in given.items() if n in self.constants}
        if outputs is None:
            outputs = list(dict.fromkeys([*ends(nodes), *sorted(self.outputs & made)]))
        forms = {name: self.values.get(name) for name in outputs}
        return OnnxCase(part(self.case.model, nodes, inputs, weights, forms), inputs)


def _values(case: OnnxCase) -> Feed:
    """The tensors that nodes make, by onnxruntime, or by the interpreter where that does not run it."""
    import glow_compiler as glow

    names = [o for n in case.model.graph.node for o in n.output if o]
    whole = with_outputs(case.model, names)
    try:
        values = onnxruntime_outputs(serialized(whole), case.feed, plain=True)
    except GlowError:
        values = dict(glow.compile(whole, backend="interpreter").run(case.feed))
    return {n: v for n, v in values.items() if isinstance(v, np.ndarray)}


def _smaller_shapes(case: OnnxCase, wrong: Wrong) -> OnnxCase:
    """Every size that inputs and weights have made smaller, wherever it stands, as far as that goes."""
    sizes = {d for a in _arrays(case).values() for d in a.shape if d > 1}
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, size // 2)):
            if new < size and wrong(made := _resized(case, size, new)):
                case = made
                break
    return case


def _arrays(case: OnnxCase) -> dict[str, Array]:
    return {**case.feed, **weights(case.model)}


def _resized(case: OnnxCase, size: int, new: int) -> OnnxCase:
    """Inputs and weights with `new` elements where an axis has `size`; so do lists of sizes."""

    def cut(array: Array) -> Array:
        if array.dtype == np.int64 and array.ndim == 1 and size in array:
            return np.where(array == size, new, array)
        return np.ascontiguousarray(array[tuple(slice(new if d == size else d) for d in array.shape)])

    return _with_arrays(case, {n: cut(a) for n, a in _arrays(case).items()})


def _with_arrays(case: OnnxCase, arrays: dict[str, Array]) -> OnnxCase:
    """The same nodes on other arrays."""
    feed = {n: arrays[n] for n in case.feed}
    weights = {n: a for n, a in arrays.items() if n not in feed}
    outputs = dict.fromkeys(o.name for o in case.model.graph.output)
    return OnnxCase(part(case.model, case.model.graph.node, feed, weights, outputs), feed)


def _with_splats(case: OnnxCase, wrong: Wrong) -> OnnxCase:
    """Weights whose elements may as well be one number."""
    arrays = _arrays(case)
    for name, array in arrays.items():
        if name in case.feed or array.dtype.kind != "f" or array.size < 2:
            continue
        for number in (1, float(array.astype(np.float64).mean())):
            made = _with_arrays(case, {**_arrays(case), name: np.full_like(array, number)})
            if wrong(made):
                case = made
                break
    return case
