"""What `run` accepts in place of plain arrays, on models of fixed and of open shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import BindingError
from glow_tools import opt, run


def proto(shape: list[int | str]) -> ModelProto:
    """y = x + x."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "doubled", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def doubled(shape: list[int | str], backend: str = "cpu") -> glow.Executable:
    """The model, compiled."""
    return glow.compile(proto(shape), backend=backend)


def read_only(array: np.ndarray) -> np.ndarray:
    """An array that is not to be written."""
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    """The same numbers from an address that is no multiple of four."""
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    raw[:] = array.reshape(-1).view(np.uint8)
    return raw.view(np.float32).reshape(array.shape)


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "plain": lambda x: x,
    "read only": read_only,
    "strided": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "transposed": lambda x: np.asfortranarray(x),
    "reversed": lambda x: x[::-1].copy()[::-1],
    "unaligned": unaligned,
    "other byte order": lambda x: x.astype(">f4"),
    "list": lambda x: [[np.float32(v) for v in row] for row in x],
}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("shape", [[3, 4], ["n", 4], ["n", "m"]], ids=str)
def test_forms_of_arrays(shape: list[int | str], backend: str) -> None:
    """Each form gives the sum, when the shape is met first and afterwards."""
    net = doubled(shape, backend)
    for _ in range(2):
        for name, form in FORMS.items():
            x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
            np.testing.assert_array_equal(net.run({"x": form(x)})["y"], x + x, err_msg=name)


def test_nothing_in_an_array() -> None:
    """Arrays without elements."""
    net = doubled(["n", 4])
    for _ in range(2):
        assert net.run({"x": np.zeros((0, 4), np.float32)})["y"].shape == (0, 4)
        assert net.run({"x": np.ones((1, 4), np.float32)})["y"].tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize("shape", [[3, 4], ["n", 4]], ids=str)
def test_wrong_inputs_after_right_ones(shape: list[int | str]) -> None:
    """A call that went well does not loosen what the next is held to."""
    net = doubled(shape)
    x = np.ones((3, 4), np.float32)
    net.run({"x": x})
    wrong: dict[str, dict[str, Any]] = {"missing input 'x'": {}, "unknown input 'z'": {"x": x, "z": x}}
    wrong["dtype float64"] = {"x": x.astype(np.float64)}
    for words, inputs in wrong.items():
        with pytest.raises(BindingError, match=words):
            net.run(inputs)
    for other in (np.ones((3, 5), np.float32), np.ones(12, np.float32)):
        with pytest.raises(BindingError, match="shape"):
            net.run({"x": other})


def test_few_programs_are_kept_and_each_is_right() -> None:
    """More shapes than are kept, in turn: the oldest go and come again."""
    net = doubled(["n", 4])
    for _ in range(2):
        for n in range(1, 19):
            x = np.full((n, 4), n, np.float32)
            np.testing.assert_array_equal(net.run({"x": x})["y"], x + x)


@pytest.mark.parametrize("name", ["ω", "ключ ⇒ 值", '{"a": 1}', "y:0", "1st", "a" * 3000])
def test_names_of_any_form(name: str) -> None:
    """Outputs are found by the names that the model gives them."""
    node = helper.make_node("Neg", ["x " + name], [name])
    x = helper.make_tensor_value_info("x " + name, TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    graph = helper.make_graph([node], name, [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    got = glow.compile(model).run({"x " + name: np.arange(3, dtype=np.float32)})
    assert got[name].tolist() == [0, -1, -2]


def test_bytes_are_models() -> None:
    """The content of an .onnx file is a model; other bytes are refused by a message."""
    data = proto(["N", 4]).SerializeToString()
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(glow.compile(data).run({"x": x})["y"], x + x)
    assert "glow.add" in str(glow.load(bytearray(data)))
    for other in (b"model.onnx", data[:-3]):
        with pytest.raises(glow.GlowError, match=f"a model of {len(other)} bytes: not an ONNX model"):
            glow.compile(other)


def test_dimensions_are_bound_by_name() -> None:
    """`{"N": 3}` fixes the dimension wherever it stands; other names are refused with the known shapes."""
    model = proto(["N", "M"])
    net = glow.compile(model, shapes={"N": 3, "M": (4,)})
    assert net.inputs[0].shape == (3, 4)
    assert "tensor<3x[M]xf32>" in str(glow.load(model, {"N": 3}))
    partly = glow.compile(model, shapes={"N": 3})
    assert partly.inputs[0].named_shape == "(3, M)"
    for size in (2, 5):
        x = np.ones((3, size), np.float32)
        np.testing.assert_array_equal(partly.run({"x": x})["y"], x + x)
    with pytest.raises(BindingError, match=r"expected \(3, M\)"):
        partly.run({"x": np.ones((2, 2), np.float32)})
    with pytest.raises(glow.GlowError, match=r"no input or dimension 'Q'; the inputs are x: \(N, M\)"):
        glow.compile(model, shapes={"Q": 3})


FILES = (
    ["--input", "x.npy"],
    ["--input", "x=x.npy"],
    ["--input", "x.npz"],
    ["--inputs", "x.npz"],
    ["--inputs", "x.npy"],
    ["--random", "0", "--shape", "N=5"],
    ["--random", "0", "--shape", "x=5x4"],
)


@pytest.mark.parametrize("words", FILES, ids=" ".join)
def test_files_of_inputs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arrays by name, an array for a name or for the only input, and the size of a named dimension."""
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(proto(["N", 4]).SerializeToString())
    x = np.ones((5, 4), np.float32)
    np.save("x.npy", x)
    np.savez("x.npz", x=x)
    assert run.main(["m.onnx", "--backend", "interpreter", *words]) == 0
    assert "y: float32 [5, 4]" in capsys.readouterr().out


def test_modules_are_bound_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Open sizes of IR have names, too."""
    glow.save(glow.load(proto(["N", 4])), tmp_path / "m.mlir")
    assert opt.main([str(tmp_path / "m.mlir"), "--shape", "N=7"]) == 0
    assert "tensor<7x4xf32>" in capsys.readouterr().out


def test_files_that_name_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive has names of its own."""
    model, file = tmp_path / "m.onnx", tmp_path / "x.npz"
    model.write_bytes(proto([2, 4]).SerializeToString())
    np.savez(file, x=np.ones((2, 4), np.float32))
    assert run.main([str(model), "--backend", "interpreter", "--input", f"x={file}"]) == 1
    assert "this is an archive of arrays by name; give it without 'x='" in capsys.readouterr().err
