"""Files of no form that the project writes, and what killed processes leave: one message, nothing kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import refused, run
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.file_kinds import FileKind, kind_of_file
from glow_dialects.core.files import whole
from glow_tools import opt
from glow_tools import run as run_command


def saved(folder: Path) -> Path:
    """A program beside its weights."""
    g = glow.GraphBuilder()
    w = g.constant(np.ones((30, 30), np.float32), "wide")
    g.save(g.matmul(g.placeholder("x", (2, 30)), w), "y")
    glow.save(g, folder / "big.mlir")
    return folder / "big.mlir"


@pytest.mark.parametrize(
    "header",
    [
        "[1, 2]",
        "null",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"wide": 1}',
        '{"wide": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 4]}}',
        '{"wide": {"dtype": "F32", "shape": [1], "data_offsets": [0, Infinity]}}',
        '{"wide": {"dtype": "F32", "shape": [1e400], "data_offsets": {}}}',
    ],
)
def test_weights_of_another_form(tmp_path: Path, header: str) -> None:
    """Headers that no weights file has."""
    path, text = saved(tmp_path), header.encode()
    weights = tmp_path / "big.weights.safetensors"
    weights.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    refused(run(opt.main, path), "not a weights file", "big.weights.safetensors")


@pytest.mark.parametrize("location", ["a\0b", "x" * 5000, "loop", "missing"])
def test_places_of_external_data(tmp_path: Path, location: str) -> None:
    """Names that no file can have, and a link to itself: the data are missing."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    made = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], [weights]))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = tmp_path / "outside.onnx"
    path.write_bytes(made.SerializeToString())
    refused(run(run_command.main, path, "--random", "0"), "external data", "are missing")


def test_leftovers_of_killed_writes_go(tmp_path: Path) -> None:
    """Those of the file that is written, when they are old."""
    left = [tmp_path / f".y.mlir.{number:016x}" for number in range(2)]
    others = [tmp_path / f".z.mlir.{0:016x}", tmp_path / ".y.mlir.txt"]
    for file in (*left, *others):
        file.write_text("")
    for file in (left[0], *others):
        os.utime(file, (0, 0))
    with whole(tmp_path / "y.mlir") as temporary:
        temporary.write_text("text")
    assert {f.name for f in tmp_path.iterdir()} == {"y.mlir", left[1].name, *(f.name for f in others)}


def test_files_of_others(tmp_path: Path) -> None:
    """Where a model is PyTorch's, or a language model's folder, the message says what to do with it."""
    (tmp_path / "net.pth").write_bytes(b"PK\x03\x04\xff\xfe")
    refused(run(opt.main, tmp_path / "net.pth"), "found a pickle of PyTorch; ", "torch.export.save")
    (tmp_path / "config.json").write_text("{}")
    refused(run(opt.main, tmp_path), "found the folder of a language model", "glow.LanguageModel")
    with pytest.raises(glow.GlowError, match=r"torch\.export\.save"):
        glow.compile(tmp_path / "net.pth")


#: The first bytes of files, and what they are.
CONTENTS = {
    "ort": (b"\x18\0\0\0ORTM" + bytes(40), FileKind.ORT, "give the .onnx file"),
    "gguf": (b"GGUF\x03\0\0\0" + bytes(40), FileKind.GGUF, "glow-generate"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), FileKind.TFLITE, "ONNX"),
    "keras": (b"\x89HDF\r\n\x1a\n" + bytes(40), FileKind.HDF5, "ONNX"),
    "weights": (b"\x02\0\0\0\0\0\0\0{}", FileKind.BINARY, "right file"),
    "tensors": (b'\x08\0\0\0\0\0\0\0{"a":{}}', FileKind.SAFETENSORS, "of these weights"),
    "array": (b"\x93NUMPY\x01\0" + bytes(40), FileKind.ARRAYS, "--input"),
    "noise": (bytes(range(255, 200, -1)), FileKind.BINARY, "right file"),
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("suffix", ["", ".mlir"])
def test_files_are_known_by_content(name: str, suffix: str, tmp_path: Path) -> None:
    """A file that is no graph is called what it is, whatever its name."""
    content, kind, remedy = CONTENTS[name]
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(content)
    assert kind_of_file(path) is kind
    refused(run(opt.main, path), "expected a graph", kind.value, remedy)
    refused(run(run_command.main, path, "--random", "0"), kind.value, remedy)


def test_models_without_their_extension(tmp_path: Path) -> None:
    """A model in ONNX and one in zip archives run under any name."""
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    for name in ("model", "model.mlir", "model.bin"):
        path = tmp_path / name
        path.write_bytes(made.SerializeToString())
        np.testing.assert_array_equal(glow.compile(path)(np.ones(2, np.float32)), -np.ones(2, np.float32))
        assert run(opt.main, path).status == 0
    saved = tmp_path / "program"
    glow.compile(tmp_path / "model", shapes={}).save(saved)
    assert kind_of_file(saved) is FileKind.GLOW
