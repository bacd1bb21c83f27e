"""Whether rounding decides an answer: `Floor` of a sum that is 3 but for its last bit is 2 or 3.

Every float result within a graph is moved by about its last bit, in many ways; what onnxruntime's own
outputs range over then is as right as its first answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from glow_dialects.core.errors import GlowError
from glow_tools.onnxruntime_run import onnxruntime_outputs
from glow_tools.reduce_onnx import OnnxCase as Case

_WAYS = 400
"""A sum of three is moved across its jump by one way in forty, and each element must be by one of them."""
_LAST_BIT = 3e-7
"""Of an element itself, and of the largest of its tensor: sums lose what their terms cancel."""


def rounding_decides(case: Case, name: str, ours: np.ndarray) -> bool:
    """Whether ours lies in the range of what onnxruntime says of an output, element by element."""
    low, high = np.full(ours.shape, np.inf), np.full(ours.shape, -np.inf)
    try:
        for said in moved_answers(case, name, _WAYS):
            if said.shape != ours.shape or said.dtype != ours.dtype:
                return False
            low, high = np.minimum(low, said), np.maximum(high, said)
            room = 1e-4 + 1e-3 * np.maximum(np.abs(low), np.abs(high))
            if ((ours >= low - room) & (ours <= high + room)).all():
                return True
    except GlowError:
        pass  # it has no answer
    return False


def moved_answers(case: Case, name: str, ways: int = 12) -> Iterator[np.ndarray]:
    """What onnxruntime says of an output, not optimised, where floats move; a GlowError if nothing."""
    for way in range(ways):
        yield onnxruntime_outputs(_moved(case.model, way), case.feed, plain=True)[name]


def _moved(model: onnx.ModelProto, way: int) -> bytes:
    """The model with noise on each float result of its nodes."""
    typed = shape_inference.infer_shapes(model).graph
    floats = {
        v.name
        for v in (*typed.value_info, *typed.output)
        if v.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    made.graph.initializer.append(numpy_helper.from_array(np.array(_LAST_BIT, np.float32), "last_bit"))
    rng = np.random.default_rng(way)
    for node in model.graph.node:
        moved = [name for name in node.output if name in floats]
        made.graph.node.append(node)
        made.graph.node[-1].output[:] = [f"{n}.exact" if n in moved else n for n in node.output]
        for name in moved:
            made.graph.node.extend(_noise(name, float(rng.integers(1 << 24))))
    return made.SerializeToString()


def _noise(name: str, seed: float) -> list[onnx.NodeProto]:
    """From `NAME.exact` to `NAME`, which differs by random parts of a last bit."""
    exact, noise, size, most, both, bits, move = (
        f"{name}.{part}" for part in ("exact", "noise", "size", "most", "both", "bits", "move")
    )
    return [
        helper.make_node("RandomUniformLike", [exact], [noise], low=-1.0, high=1.0, seed=seed),
        helper.make_node("Abs", [exact], [size]),
        helper.make_node("ReduceMax", [size], [most], keepdims=0),
        helper.make_node("Add", [size, most], [both]),
        helper.make_node("Mul", [both, "last_bit"], [bits]),
        helper.make_node("Mul", [bits, noise], [move]),
        helper.make_node("Add", [exact, move], [name]),
    ]
