"""Models as people ship them, and models that are wrong: what the importer accepts and what it says."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core import mapped_files
from glow_dialects.core.types import Array
from glow_dialects.ops.module import ConstantOp, constants
from glow_frontends.onnx import import_model, scope
from glow_frontends.onnx.model import parse

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))
X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    weights: dict[str, Array] | None = None,
    opset: int = 21,
    **more: object,
) -> onnx.ModelProto:
    """A model of these nodes."""
    initializers = [numpy_helper.from_array(v, n) for n, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs or [X], outputs or [Y], initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)  # pyright: ignore


def run(m: onnx.ModelProto, **inputs: Array) -> dict[str, Array]:
    """The model on the interpreter."""
    return glow.compile(m, backend="interpreter").run(inputs)


ROW = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_every_problem_is_reported_at_once() -> None:
    nodes = [
        helper.make_node("Rleu", ["x"], ["a"], name="first"),
        helper.make_node("Reshape", ["x", "shape"], ["b"], name="second"),
        helper.make_node("Softmax", ["x"], ["c"], name="third", axis=7),
        helper.make_node("Add", ["a", "b"], ["d"], name="after"),
        helper.make_node("Nonsense", ["d"], ["y"], name="last"),
    ]
    with pytest.raises(glow.ImportProblems) as caught:
        import_model(model(nodes, weights={"shape": np.array([5], np.int64)}))
    problems = {p.node: p for p in caught.value.problems if isinstance(p, glow.Problem)}
    assert set(problems) == {"first", "second", "third", "last"}
    assert "did you mean Relu?" in problems["first"].reason
    assert "2x3 does not reshape to [5]" in problems["second"].reason
    assert "axis 7 is out of range" in problems["third"].reason
    assert problems["third"].op == "Softmax" and problems["third"].opset == 21


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Relu", ["x"], ["a"])]
    np.testing.assert_array_equal(run(model(nodes), x=ROW)["y"], -ROW)


def test_a_cycle_is_named() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="two"),
        helper.make_node("Relu", ["b"], ["y"], name="three"),
    ]
    with pytest.raises(glow.ImportProblems, match="a cycle among the nodes one, two"):
        import_model(model(nodes))


def test_two_nodes_of_one_name() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]
    with pytest.raises(glow.ImportProblems, match="two nodes make the value 'y'"):
        import_model(model(nodes))


def test_an_undefined_value_is_named() -> None:
    with pytest.raises(glow.ImportProblems, match="the value 'nothing' is not defined"):
        import_model(model([helper.make_node("Relu", ["nothing"], ["y"])]))


def test_unbound_dimension() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    m = model([helper.make_node("Relu", ["x"], ["y"])], [x])
    with pytest.raises(glow.ShapeError, match=r"input 'x' is batchx3: dimension 0 is unbound"):
        import_model(m)
    import_model(m, shapes={"x": (4, 3)})
    net = glow.compile(m, backend="interpreter")
    assert net.run({"x": ROW})["y"].shape == (2, 3)
    assert net.run({"x": ROW[:1]})["y"].shape == (1, 3)


def test_shapes_that_contradict_the_model() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])])
    with pytest.raises(glow.ShapeError, match="dimension 1 cannot be 4"):
        import_model(m, shapes={"x": (2, 4)})
    with pytest.raises(glow.ShapeError, match="no input 'z'"):
        import_model(m, shapes={"z": (2, 4)})


def test_one_symbol_has_one_size() -> None:
    a = helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 3])
    b = helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n", 3])
    m = model([helper.make_node("Add", ["a", "b"], ["y"])], [a, b])
    module = import_model(m, shapes={"a": (5, 3)})
    assert "tensor<5x3xf32>" in str(module)


def test_wrong_declared_output_shape_is_ignored() -> None:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 7])
    assert run(model([helper.make_node("Relu", ["x"], ["y"])], outputs=[y]), x=ROW)["y"].shape == (2, 3)


def test_odd_names_survive() -> None:
    x = helper.make_tensor_value_info('{"in": 0}', TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("out:0", TensorProto.FLOAT, [2, 3])
    m = model([helper.make_node("Relu", ['{"in": 0}'], ["out:0"])], [x], [y])
    np.testing.assert_array_equal(run(m, **{'{"in": 0}': ROW})["out:0"], ROW)


def test_an_input_may_be_an_output() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], outputs=[X, Y])
    out = run(m, x=-ROW)
    np.testing.assert_array_equal(out["x"], -ROW)
    np.testing.assert_array_equal(out["y"], np.maximum(-ROW, 0))


def test_weights_with_nan_are_weights() -> None:
    weights = {"w": np.array([np.nan, 1, np.inf], np.float32)}
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], weights=weights)
    np.testing.assert_array_equal(run(m, x=ROW)["y"], ROW + weights["w"])


def test_functions_of_the_model() -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("Add", ["s", "b"], ["c"])]
    square = helper.make_function("mine", "SquareAdd", ["a", "b"], ["c"], body, [helper.make_opsetid("", 21)])
    node = helper.make_node("SquareAdd", ["x", "x"], ["y"], domain="mine")
    m = model([node], functions=[square])
    m.opset_import.append(helper.make_opsetid("mine", 1))
    np.testing.assert_array_equal(run(m, x=ROW)["y"], ROW * ROW + ROW)


def test_external_data_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are larger than what is read at once."""
    monkeypatch.setattr(mapped_files, "READ", 0)
    weight = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    m = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])],
        weights={"w": weight},
    )
    path = tmp_path / "model.onnx"
    onnx.save_model(m, path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    (constant,) = constants(import_model(path)).values()
    assert isinstance(constant, ConstantOp)
    array = constant.array()
    assert array is not None and mapped_files.mapping_of(array) is not None
    np.testing.assert_array_equal(array, weight)
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(glow.GlowError, match="are not in 'weights.bin'"):
        import_model(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(glow.GlowError, match="are missing"):
        import_model(path)


def test_external_data_stay_in_their_folder(tmp_path: Path) -> None:
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], weights={"w": ROW})
    weight = m.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    onnx.save_model(m, tmp_path / "model.onnx")
    with pytest.raises(glow.GlowError, match="outside the model's folder"):
        import_model(tmp_path / "model.onnx")


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x08\x07\x12\x04test", bytes(range(256))])
def test_files_that_are_no_models(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(data)
    with pytest.raises(glow.GlowError, match="not an ONNX model"):
        glow.load(tmp_path / "bad.onnx")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(glow.GlowError, match="No such file"):
        glow.load(tmp_path / "none.onnx")


def test_a_truncated_file(tmp_path: Path) -> None:
    data = LIGHT[0].read_bytes()
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(glow.GlowError, match="truncated"):
        glow.load(tmp_path / "cut.onnx")


@pytest.mark.parametrize("dims", [[1 << 40], [-5], [1 << 20, 1 << 20, 1 << 20], [25_000_000_000]])
def test_a_small_file_that_claims_a_large_tensor(dims: list[int]) -> None:
    m = model([helper.make_node("Add", ["x", "w"], ["y"])])
    m.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=dims)
    with pytest.raises(glow.ImportProblems, match="tensor 'w'"):
        import_model(m)


def test_a_computed_tensor_that_is_too_large() -> None:
    shape = np.array([1 << 20, 1 << 20, 3], np.int64)
    m = model([helper.make_node("Expand", ["x", "s"], ["y"])], weights={"s": shape})
    with pytest.raises(glow.ImportProblems, match="is too large|does not broadcast"):
        import_model(m)


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models_import(path: Path) -> None:
    import_model(path)


@given(st.data())
def test_mutated_models_give_messages(data: st.DataObject) -> None:
    """Any change of a model's bytes is imported or refused with a GlowError."""
    source = bytearray(_small_model())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(source) - 1))
        match data.draw(st.sampled_from(["set", "delete", "repeat", "cut"])):
            case "set":
                source[place] = data.draw(st.integers(0, 255))
            case "delete":
                del source[place : place + data.draw(st.integers(1, 8))]
            case "repeat":
                source[place:place] = source[place : place + data.draw(st.integers(1, 16))]
            case _:
                del source[max(1, place) :]
        if not source:
            return
    with contextlib.suppress(glow.GlowError):
        import_model(parse(bytes(source), "mutated"))


def _small_model() -> bytes:
    weights = {
        "w": np.ones((4, 3, 3, 3), np.float32),
        "b": np.zeros(4, np.float32),
        "shape": np.array([1, -1], np.int64),
        "m": np.ones((64, 2), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    return model(nodes, [x], weights=weights).SerializeToString()


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.BFLOAT16, TensorProto.INT32])
def test_clip_of_a_scalar(element: int) -> None:
    """Limits of shape [1], which exporters write, leave a scalar one."""
    limits = [helper.make_tensor(name, element, [1], [value]) for name, value in (("low", 0), ("high", 6))]
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    infos = [helper.make_tensor_value_info(name, element, []) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "clip", infos[:1], infos[1:], limits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    net = glow.compile(model, backend="interpreter")
    made = net(np.array(9).astype(net.inputs[0].dtype))
    assert np.shape(made) == ()
    assert float(np.asarray(made)) == 6


make = helper.make_node


@pytest.mark.parametrize(
    ("node", "weights", "message"),
    [
        (make("Tile", ["x", "r"], ["y"]), {"r": np.array([1])}, "1 repeats for a tensor of rank 2"),
        (
            make("OneHot", ["r", "d", "v"], ["y"]),
            {"r": np.array([1]), "d": np.array(-1), "v": np.array([0, 1])},
            "the depth -1 is not positive",
        ),
        (make("Trilu", ["r"], ["y"]), {"r": np.array([1])}, "rank 1 where at least 2 dimensions"),
        (make("EyeLike", ["r"], ["y"]), {"r": np.array([1])}, "a tensor of rank 1, expected a matrix"),
        (make("Pad", ["x", "r"], ["y"]), {"r": np.array([1])}, "1 pads for 2 axes, expected two for each"),
        (
            make("Slice", ["x", "r", "d"], ["y"]),
            {"r": np.array([1]), "d": np.array([2, 2])},
            "1 starts and 2",
        ),
        (
            make("Range", ["r", "d", "d"], ["y"]),
            {"r": np.array([1, 2]), "d": np.array(1)},
            "2 numbers where one",
        ),
        (make("CumSum", ["x", "r"], ["y"]), {"r": np.array([], np.int64)}, "the axis of CumSum is 0 numbers"),
        (
            make("Tile", ["x", "r"], ["y"]),
            {"r": np.array([1, np.inf])},
            "repeats of Tile is not integers",
        ),
        (make("ReverseSequence", ["x", "r"], ["y"], batch_axis=3), {"r": np.array([1])}, "axis 3 is out of"),
        (make("RegexFullMatch", ["r"], ["y"], pattern="a"), {"r": np.array([1])}, "input 0 is not strings"),
        (
            make("StringNormalizer", ["r"], ["y"], case_change_action="up"),
            {"r": np.array(["a"], object)},
            "case_change_action 'up', expected one of NONE, LOWER, UPPER",
        ),
        (
            make("ConvTranspose", ["w", "w"], ["y"], strides=[1]),
            {"w": np.ones((1, 1, 2, 2), np.float32)},
            "attribute 'strides' has 1 numbers, expected 2",
        ),
        (make("Relu", ["x"], ["y"], alpha=0.1), {}, "attribute 'alpha' is not one of Relu in version"),
        (make("Einsum", ["x"], ["y"], equation="ab->ac"), {}, "the output has labels that no operand has"),
    ],
)
def test_numbers_that_make_no_tensor(node: onnx.NodeProto, weights: dict[str, Array], message: str) -> None:
    with pytest.raises(glow.ImportProblems, match=message):
        glow.load(model([node], weights=weights))


def _broken(*_: object) -> None:
    raise KeyError("nothing")


def test_a_mistake_of_ours_is_not_said_to_be_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names node and operator, and says whose it is; in tests it is raised as it is."""
    monkeypatch.setattr(scope, "find_rule", lambda *_: _broken)
    broken = model([helper.make_node("Relu", ["x"], ["y"], name="act")])
    with pytest.raises(KeyError):
        glow.load(broken)
    monkeypatch.delenv("GLOW_STRICT")
    with pytest.raises(glow.ImportProblems) as caught:
        glow.load(broken)
    assert "node 'act' (Relu, opset" in str(caught.value)
    assert "internal error in the rule: KeyError 'nothing'; this is a bug in the compiler" in str(
        caught.value
    )


def test_a_mistake_of_ours_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a node that runs on the host."""
    net = glow.compile(model([helper.make_node("Unique", ["x"], ["y"])]), backend="interpreter")
    monkeypatch.setattr(scope, "find_rule", lambda *_: _broken)
    feed = {s.name: np.zeros(s.shape, s.dtype) for s in net.inputs}  # pyright: ignore
    with pytest.raises(KeyError):
        net.run(feed)
    monkeypatch.delenv("GLOW_STRICT")
    with pytest.raises(glow.GlowError, match=r"node 'y' \(Unique\): internal error in the rule: KeyError"):
        net.run(feed)
