"""onnxruntime with integer products that are exact on every processor."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """A session of a model: without VNNI, onnxruntime's fast products of bytes saturate at 16 bits."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(model.SerializeToString(), options, providers=providers)


@cache
def is_exact() -> bool:
    """Whether products of unknown bytes are exact here, which no option of onnxruntime makes them."""
    byte, sbyte, number = onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.INT32
    kinds = (("x", byte, (1, 8)), ("w", sbyte, (8, 1)))
    infos = [helper.make_tensor_value_info(*kind) for kind in kinds]
    result = helper.make_tensor_value_info("y", number, (1, 1))
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "g", infos, [result])
    versions = [helper.make_opsetid("", 18)]
    peer = session(helper.make_model(graph, opset_imports=versions, ir_version=8))
    (y,) = peer.run(None, {"x": np.full((1, 8), 255, np.uint8), "w": np.full((8, 1), 127, np.int8)})
    return int(y[0, 0]) == 8 * 255 * 127


SATURATES = "onnxruntime's products of bytes saturate on this processor"
