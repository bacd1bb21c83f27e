"""Decoders as ONNX models against onnxruntime: caches of GroupQueryAttention, and pasts that are joined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

ort: Any = pytest.importorskip("onnxruntime")

WIDTH, HEADS, HEAD, TOKENS, PLACES = 32, 2, 16, 41, 64


class _Writer:
    """Nodes and constants of a model of one layer."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.random = np.random.default_rng(0)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, self.random.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5)

    def node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **options: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, **options))
        return outputs[0]

    def linear(self, x: str, name: str, columns: int = WIDTH) -> str:
        return self.node("MatMul", [x, self.weight(name, WIDTH, columns)], [f"{name}.y"])


def _start(w: _Writer, ids: str) -> list[str]:
    x = w.node("Gather", [w.weight("embed", TOKENS, WIDTH), ids], ["x"])
    return [w.linear(x, name) for name in "qkv"]


def _save(w: _Writer, file: Path, inputs: list[Any], y: str) -> None:
    w.node("Add", ["x", y], ["sum"])
    w.node("Identity", [w.linear("sum", "head", TOKENS)], ["logits"])
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "S", TOKENS])]
    shape = [1, HEADS, "T", HEAD]
    outputs += [
        helper.make_tensor_value_info(f"present.0.{n}", TensorProto.FLOAT, shape) for n in ("key", "value")
    ]
    graph = helper.make_graph(w.nodes, "decoder", inputs, outputs, w.constants)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), file)


def _pasts(name: str) -> list[Any]:
    return [
        helper.make_tensor_value_info(f"{name}.0.{n}", TensorProto.FLOAT, [1, HEADS, "P", HEAD])
        for n in ("key", "value")
    ]


def grouped(file: Path) -> None:
    """The layout of onnxruntime-genai, with lengths as inputs."""
    w = _Writer()
    angles = np.arange(PLACES)[:, None] / 100 ** (np.arange(0, HEAD, 2) / HEAD)[None]
    tables = [w.constant(f.__name__, f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    pasts = ["past_key_values.0.key", "past_key_values.0.value"]
    inputs = [*_start(w, "input_ids"), *pasts, "seqlens_k", "total_sequence_length", *tables]
    outputs = ["y", "present.0.key", "present.0.value"]
    options = {"num_heads": HEADS, "kv_num_heads": HEADS, "do_rotary": 1, "domain": "com.microsoft"}
    w.node("GroupQueryAttention", inputs, outputs, **options)
    values = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "S"]),
        *_pasts("past_key_values"),
    ]
    values.append(helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1]))
    values.append(helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, []))
    _save(w, file, values, "y")


def joined(file: Path) -> None:
    """The layout of optimum: pasts are joined, positions and a mask are inputs."""
    w = _Writer()
    q, k, v = _start(w, "input_ids")
    split, whole = (
        w.constant("split", np.array([1, -1, HEADS, HEAD])),
        w.constant("whole", np.array([1, -1, WIDTH])),
    )
    parts: list[str] = []
    for name, x in zip("qkv", (q, k, v), strict=True):
        rows = w.node("Reshape", [x, split], [f"{name}.rows"])
        parts.append(w.node("Transpose", [rows], [f"{name}.heads"], perm=[0, 2, 1, 3]))
    for name, part in (("key", parts[1]), ("value", parts[2])):
        w.node("Concat", [f"past.0.{name}", part], [f"present.0.{name}"], axis=2)
    turned = w.node("Transpose", ["present.0.key"], ["turned"], perm=[0, 1, 3, 2])
    scores = w.node("MatMul", [parts[0], turned], ["scores"])
    steps = w.node("CumSum", ["attention_mask", w.constant("one", np.array(1))], ["steps"])
    last = w.node("Unsqueeze", ["position_ids", w.constant("axis", np.array([2]))], ["last"])
    seen = w.node("LessOrEqual", [w.node("Sub", [steps, "one"], ["places"]), last], ["seen"])
    low = w.constant("low", np.array(-1e9, np.float32))
    weights = w.node("Softmax", [w.node("Where", [seen, scores, low], ["allowed"])], ["weights"], axis=3)
    y = w.node("MatMul", [weights, "present.0.value"], ["heads"])
    w.node("Reshape", [w.node("Transpose", [y], ["rows"], perm=[0, 2, 1, 3]), whole], ["y"])
    kinds = {"input_ids": "S", "attention_mask": "T", "position_ids": "S"}
    values = [helper.make_tensor_value_info(n, TensorProto.INT64, [1, d]) for n, d in kinds.items()]
    _save(w, file, [*values, *_pasts("past")], "y")


def reference(file: Path, prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens by onnxruntime, with the whole text as the prompt of each step."""
    session, text = ort.InferenceSession(str(file)), list(prompt)
    for _ in range(count):
        total = len(text)
        known = {
            "input_ids": np.array([text]),
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(total)[None],
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
        }
        empty = np.zeros((1, HEADS, 0, HEAD), np.float32)
        feeds = {v.name: known.get(v.name, empty) for v in session.get_inputs()}
        text.append(int(session.run(["logits"], feeds)[0][0, -1].argmax()))
    return text[len(prompt) :]


@pytest.mark.slow
@pytest.mark.parametrize("layout", [grouped, joined])
def test_tokens(layout: Any, tmp_path: Path) -> None:
    """Greedy tokens, again after a shared prefix, and the logits of a whole text."""
    file = tmp_path / "model.onnx"
    layout(file)
    model, prompt = glow.LanguageModel(file), [3, 14, 15, 9, 2]
    want = reference(file, prompt, 4)
    assert list(model.generate(prompt, 4)) == want
    assert list(model.generate([*prompt[:3], 7], 2)) == reference(file, [*prompt[:3], 7], 2)
    assert model.logits([*prompt, *want]).argmax(1)[len(prompt) - 1 : -1].tolist() == want
    with pytest.raises(glow.GlowError, match="token 41 is out of range: the model has 41 tokens"):
        next(model.generate([41]))


def test_messages(tmp_path: Path) -> None:
    """A model that is no decoder, a file that is no model, a text that is too long."""
    file = tmp_path / "model.onnx"
    grouped(file)
    with pytest.raises(glow.GlowError, match="a text of 65 tokens, the model is made for 64"):
        next(glow.LanguageModel(file).generate([1] * 65))
    with pytest.raises(glow.GlowError, match="the weights of an ONNX model cannot be changed"):
        glow.LanguageModel(file, weights="int4")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    other = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [other])
    onnx.save(helper.make_model(graph), tmp_path / "relu.onnx")
    with pytest.raises(glow.UnsupportedError, match="a decoder needs tokens and past keys and values"):
        glow.LanguageModel(tmp_path / "relu.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 30)
    with pytest.raises(glow.GlowError, match="this is no ONNX model"):
        glow.LanguageModel(tmp_path / "bad.onnx")
