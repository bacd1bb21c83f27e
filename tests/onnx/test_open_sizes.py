"""Models whose sizes change from call to call: one program serves them all, as the interpreter computes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.open_program import OpenProgram
from glow_dialects.core.errors import OpenSizes
from glow_runtime import compiler
from glow_runtime.open_programs import OpenPrograms

WIDTH, HEADS = 32, 4


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, np.ndarray]
) -> ModelProto:
    initializers = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs, **attributes)


def encoder() -> ModelProto:
    """Embedding, counted positions, masked attention of heads, layer norm and gelu, for any length."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    weights: dict[str, np.ndarray] = {
        "table": normal(50, WIDTH), "places": normal(600, WIDTH), "zero": np.array(0), "one": np.array(1),
        "heads": np.array([0, 0, HEADS, -1]), "flat": np.array([0, 0, WIDTH]), "axes": np.array([1, 2]),
        "scale": np.array(0.35, np.float32), "large": np.array(-1e4, np.float32),
        "unit": np.array(1, np.float32),
        "root": np.array(1.4142135, np.float32), "half": np.array(0.5, np.float32),
        "gamma": np.ones(WIDTH, np.float32), "beta": normal(WIDTH),
        "up": normal(WIDTH, 48), "down": normal(48, WIDTH),
        "bias": normal(48), **{w: normal(WIDTH, WIDTH) for w in ("wq", "wk", "wv", "wo")},
    }  # fmt: skip
    nodes = [
        _node("Gather", "table ids", "words"),
        _node("Shape", "ids", "shape"),
        _node("Gather", "shape one", "length"),
        _node("Range", "zero length one", "numbers"),
        _node("Gather", "places numbers", "position"),
        _node("Add", "words position", "x"),
        _node("Unsqueeze", "mask axes", "wide"),
        _node("Cast", "wide", "floats", to=TensorProto.FLOAT),
        _node("Sub", "unit floats", "gone"),
        _node("Mul", "gone large", "bar"),
    ]
    for name in "qkv":
        nodes += [
            _node("MatMul", f"x w{name}", f"{name}0"),
            _node("Reshape", f"{name}0 heads", f"{name}1"),
            _node("Transpose", f"{name}1", f"{name}", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        _node("MatMul", "q k", "dots"),
        _node("Mul", "dots scale", "scaled"),
        _node("Add", "scaled bar", "barred"),
        _node("Softmax", "barred", "weights", axis=-1),
        _node("MatMul", "weights v", "mixed"),
        _node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3]),
        _node("Reshape", "turned flat", "joined"),
        _node("MatMul", "joined wo", "out"),
        _node("Add", "x out", "sum"),
        _node("LayerNormalization", "sum gamma beta", "normal", axis=-1),
        _node("MatMul", "normal up", "h0"),
        _node("Add", "h0 bias", "h"),
        _node("Div", "h root", "h1"),
        _node("Erf", "h1", "h2"),
        _node("Add", "h2 unit", "h3"),
        _node("Mul", "h h3", "h4"),
        _node("Mul", "h4 half", "h5"),
        _node("MatMul", "h5 down", "last"),
        _node("Add", "normal last", "y"),
        _node("ReduceMean", "y", "mean", axes=[1], keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "n"]) for n in ("ids", "mask")]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "n", WIDTH]),
        helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["b", WIDTH]),
    ]
    return _model(nodes, inputs, outputs, weights)


def decoder() -> ModelProto:
    """One step of attention over past keys and values, which grow by the step's."""
    depth = 16
    rng = np.random.default_rng(1)
    weights: dict[str, np.ndarray] = {"scale": np.array(0.25, np.float32)}
    weights |= {w: rng.standard_normal((depth, depth)).astype(np.float32) / 4 for w in ("wq", "wk", "wv")}
    nodes = [
        _node("MatMul", "x wq", "q"),
        _node("MatMul", "x wk", "k"),
        _node("MatMul", "x wv", "v"),
        _node("Concat", "past_k k", "present_k", axis=2),
        _node("Concat", "past_v v", "present_v", axis=2),
        _node("Transpose", "present_k", "kt", perm=[0, 1, 3, 2]),
        _node("MatMul", "q kt", "dots"),
        _node("Mul", "dots scale", "scaled"),
        _node("Softmax", "scaled", "weights", axis=-1),
        _node("MatMul", "weights present_v", "y"),
    ]

    def info(name: str, dim: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, HEADS, dim, depth])

    inputs = [info("x", "s"), info("past_k", "past"), info("past_v", "past")]
    outputs = [info("y", "s"), info("present_k", "past + s"), info("present_v", "past + s")]
    return _model(nodes, inputs, outputs, weights)


def _encoder_inputs(batch: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    mask = (rng.random((batch, length)) < 0.8).astype(np.int64)
    mask[:, 0] = 1
    return {"ids": rng.integers(0, 50, (batch, length)), "mask": mask}


def _close(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name, values in b.items():
        assert a[name].shape == values.shape
        np.testing.assert_allclose(a[name], values, rtol=1e-4, atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def encoders() -> tuple[glow.Executable, glow.Executable]:
    """On the CPU after two lengths, and on the interpreter."""
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    return net, glow.compile(encoder(), backend="interpreter")


@pytest.mark.parametrize("length", [40, 33, 41, 49, 65, 100, 127, 250, 511])
def test_every_length_is_right_without_another_program(
    encoders: tuple[glow.Executable, glow.Executable], length: int, caplog: pytest.LogCaptureFixture
) -> None:
    net, reference = encoders
    with caplog.at_level(logging.INFO, "glow"):
        found = net.run(_encoder_inputs(1, length))
    assert not caplog.messages
    assert isinstance(net.program, OpenProgram)
    _close(found, reference.run(_encoder_inputs(1, length)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "length"),
    [(1, 1), (1, 2), (1, 5), (1, 13), (1, 16), (1, 17), (1, 32), (1, 48), (2, 9), (3, 9), (3, 33), (5, 8)],
)
def test_other_lengths_and_batches_are_right(
    encoders: tuple[glow.Executable, glow.Executable], batch: int, length: int
) -> None:
    net, reference = encoders
    _close(net.run(_encoder_inputs(batch, length)), reference.run(_encoder_inputs(batch, length)))


@pytest.mark.slow
def test_a_decoder_compiles_nothing_after_its_second_step(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(3)
    steps = [rng.standard_normal((1, HEADS, n, 16)).astype(np.float32) for n in (20, *[1] * 60)]
    results: list[list[np.ndarray]] = []
    compiled: list[int] = []
    for backend in ("cpu", "interpreter"):
        net = glow.compile(decoder(), backend=backend)
        past = {n: np.zeros((1, HEADS, 0, 16), np.float32) for n in ("past_k", "past_v")}
        results.append([])
        for number, x in enumerate(steps):
            with caplog.at_level(logging.INFO, "glow"):
                out = net.run({"x": x, **past})
            if caplog.messages and backend == "cpu":
                compiled.append(number)
            caplog.clear()
            past = {n: out[n.replace("past", "present")] for n in past}
            results[-1].append(out["y"])
    assert compiled == [1]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_arrays_bound_to_a_program_of_any_size() -> None:
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    inputs = _encoder_inputs(1, 23)
    bound = net.bind(inputs)
    _close(dict(bound()), net.run(inputs))


def test_inputs_that_disagree_are_refused(encoders: tuple[glow.Executable, glow.Executable]) -> None:
    net, _ = encoders
    inputs = _encoder_inputs(1, 40)
    with pytest.raises(glow.GlowError, match="do not broadcast"):
        net.run({**inputs, "mask": inputs["mask"][:, :39]})


def halved() -> ModelProto:
    """The input times half of its length, which is no whole number where that is odd."""
    weights = {"axis": np.array(1), "two": np.array(2, np.float32)}
    nodes = [
        _node("Shape", "x", "shape"),
        _node("Gather", "shape axis", "length"),
        _node("Cast", "length", "real", to=TensorProto.FLOAT),
        _node("Div", "real two", "half"),
        _node("Mul", "x half", "y"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "n"]) for n in "xy"]
    return _model(nodes, ports[:1], ports[1:], weights)


@pytest.mark.parametrize("length", [12, 40, 41, 43, 100])
def test_sizes_that_are_real_numbers_divide_as_such(length: int) -> None:
    net = glow.compile(halved())
    for size in (12, 40, length):
        x = np.ones((1, size), np.float32)
        np.testing.assert_array_equal(net.run({"x": x})["y"], x * (size / 2))
    assert length == 12 or isinstance(net.program, OpenProgram)


def test_a_program_refuses_sizes_that_it_is_not_for() -> None:
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    program = net.program
    assert isinstance(program, OpenProgram)
    with pytest.raises(glow.ShapeError, match="n=3"):
        program.run(_encoder_inputs(1, 3))


def test_prepared_shapes_have_programs_of_their_own() -> None:
    shapes = [{n: (1, length) for n in ("ids", "mask")} for length in (12, 40)]
    net = glow.compile(encoder(), shapes=shapes)
    for length, expected in ((12, False), (40, False), (50, True)):
        net.run(_encoder_inputs(1, length))
        assert isinstance(net.program, OpenProgram) == expected


def test_the_report_says_what_is_open_and_what_could_not_be() -> None:
    net = glow.compile(encoder())
    for length in (12, 40):
        net.run(_encoder_inputs(1, length))
    assert net.report().notes["sizes"] == "any n"
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "n"]) for n in "xy"]
    smooth = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", antialias=1)
    graph = _model([smooth], ports[:1], ports[1:], {"sizes": np.array([7, 7])})
    graph.opset_import[0].version = 18
    net = glow.compile(graph)
    for length in (12, 40):
        net.run({"x": np.ones((length, length), np.float32)})
    assert net.report().notes["sizes"] == "not any n: n elements become 7"


@pytest.mark.parametrize(("kind", "shape"), [("Size", []), ("Shape", [2])])
def test_sizes_alone_are_counted_by_the_run(kind: str, shape: list[int]) -> None:
    """Nothing reads the input, of whose size the output tells."""
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])]
    ports += [helper.make_tensor_value_info("y", TensorProto.INT64, shape)]
    net = glow.compile(_model([_node(kind, "x", "y")], ports[:1], ports[1:], {}))
    for sizes in ((3, 4), (3, 5), (7, 2), (10, 11), (8, 0)):
        x = np.zeros(sizes, np.float32)
        np.testing.assert_array_equal(net.run({"x": x})["y"], x.size if kind == "Size" else sizes)


@pytest.mark.slow
def test_two_threads() -> None:
    net, reference = glow.compile(encoder(), threads=2), glow.compile(encoder(), backend="interpreter")
    for batch, length in ((4, 60), (4, 100), (4, 129), (4, 256), (4, 77)):
        inputs = _encoder_inputs(batch, length)
        _close(net.run(inputs), reference.run(inputs))
    assert isinstance(net.program, OpenProgram) and net.report().notes["threads"] == 2


#: Name -> nodes from x [b, 4, h, w] to y, and weights.
OPERATORS: dict[str, tuple[list[Any], dict[str, np.ndarray]]] = {
    "pool": ([_node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2])], {}),
    "padded pool": ([_node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], {}),
    "means": ([_node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1] * 4)], {}),
    "mirrored": (
        [_node("Pad", "x p", "y", mode="reflect")],
        {"p": np.array([0, 0, 1, 2, 0, 0, 3, 1])},
    ),
    "halved": (
        [helper.make_node("Resize", ["x", "", "scales"], ["y"])],
        {"scales": np.array([1, 1, 0.5, 0.5], np.float32)},
    ),
    "global pool": ([_node("GlobalAveragePool", "x", "y")], {}),
    "instance norm": (
        [_node("InstanceNormalization", "x s s", "y")],
        {"s": np.arange(4, dtype=np.float32)},
    ),
    "softmax of columns": ([_node("Softmax", "x", "y", axis=2)], {}),
    "softmax of rows": ([_node("Softmax", "x", "y", axis=3)], {}),
    "mean of rows": ([_node("ReduceMean", "x", "y", axes=[3])], {}),
    "sum of exponentials": ([_node("ReduceLogSumExp", "x", "y", axes=[2])], {}),
    "norm of all": ([_node("ReduceL2", "x", "y", axes=[1, 2, 3])], {}),
    "transposed": ([_node("Transpose", "x", "y", perm=[3, 2, 1, 0])], {}),
    "moved": ([_node("Transpose", "x", "y", perm=[0, 3, 1, 2])], {}),
    "padded": ([_node("Pad", "x p", "y")], {"p": np.array([0, 0, 1, 2, 0, 0, 3, 1])}),
    "every other": (
        [_node("Slice", "x from to axes step", "y")],
        {"from": np.array([1]), "to": np.array([1 << 40]), "axes": np.array([2]), "step": np.array([2])},
    ),
    "backwards": (
        [_node("Slice", "x from to axes step", "y")],
        {"from": np.array([-1]), "to": np.array([-1 << 40]), "axes": np.array([3]), "step": np.array([-1])},
    ),
    "tiled": ([_node("Tile", "x counts", "y")], {"counts": np.array([1, 2, 3, 1])}),
    "best": ([_node("TopK", "x five", "y where", axis=3)], {"five": np.array([5])}),
    "squared": ([_node("Transpose", "x", "t", perm=[0, 1, 3, 2]), _node("MatMul", "x t", "y")], {}),
    "doubled": (
        [helper.make_node("Resize", ["x", "", "scales"], ["y"])],
        {"scales": np.array([1, 1, 2, 2], np.float32)},
    ),
    "linear, half as large": (
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
        {"scales": np.array([1, 1, 0.5, 0.5], np.float32)},
    ),
    "linear, by corners": (
        [
            helper.make_node(
                "Resize",
                ["x", "", "scales"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="align_corners",
            )
        ],
        {"scales": np.array([1, 1, 1.5, 2], np.float32)},
    ),
    "nearest, by half as much again": (
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], nearest_mode="floor")],
        {"scales": np.array([1, 1, 1.5, 1], np.float32)},
    ),
    "as large as another": (
        [
            _node("Slice", "x from to axes", "part"),
            _node("Shape", "x", "dims"),
            helper.make_node(
                "Resize",
                ["part", "", "", "dims"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="pytorch_half_pixel",
            ),
        ],
        {"from": np.array([0, 0]), "to": np.array([-2, -3]), "axes": np.array([2, 3])},
    ),
    "local response": ([_node("LRN", "x", "y", size=3)], {}),
    "batch norm": (
        [_node("BatchNormalization", "x s t t s", "y")],
        {"s": np.arange(1, 5, dtype=np.float32), "t": np.arange(4, dtype=np.float32)},
    ),
    "positions": (
        [
            _node("Shape", "x", "dims"),
            _node("Gather", "dims three", "width"),
            _node("Slice", "table zero width three", "part"),
            _node("Add", "x part", "y"),
        ],
        {
            "three": np.array([3]),
            "zero": np.array([0]),
            "table": np.arange(600, dtype=np.float32)[None, None, None],
        },
    ),
    "left over from training": ([_node("Dropout", "x", "d"), _node("Relu", "d", "y")], {}),
    "joined": ([_node("Concat", "x x", "c", axis=2), _node("Relu", "c", "y")], {}),
    "depth to space": ([_node("DepthToSpace", "x", "y", blocksize=2)], {}),
    "triangle": ([_node("Trilu", "x", "y")], {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_on_images_of_any_size(name: str) -> None:
    nodes, weights = OPERATORS[name]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"{n}0", 4 if n == "x" else None, "h", "w"])
        for n in ("x", "y")
    ]
    if name in ("transposed", "moved"):
        ports[1] = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    model = _model(nodes, ports[:1], ports[1:], weights)
    net, reference = glow.compile(model), glow.compile(model, backend="interpreter")
    rng = np.random.default_rng(0)
    for batch, height, width in ((1, 16, 16), (1, 24, 40), (1, 33, 35), (2, 20, 24), (3, 37, 64), (1, 9, 6)):
        x = {"x": rng.standard_normal((batch, 4, height, width)).astype(np.float32)}
        _close(net.run(x), reference.run(x))
        assert batch * height == 16 or isinstance(net.program, OpenProgram)


def test_recurrent_layers_of_any_length() -> None:
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal((1, 32, k)).astype(np.float32) / 3 for n, k in (("w", 4), ("r", 8))}
    nodes = [_node("LSTM", "x w r", "y last", hidden_size=8)]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "b", 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1, "b", 8]),
    ]
    model = _model(nodes, ports[:1], ports[1:], weights)
    net, reference = glow.compile(model), glow.compile(model, backend="interpreter")
    for length, batch in ((12, 1), (40, 1), (41, 1), (100, 1), (40, 2), (37, 3), (5, 9)):
        x = {"x": rng.standard_normal((length, batch, 4)).astype(np.float32)}
        _close(net.run(x), reference.run(x))


@pytest.mark.parametrize("shape", [(2, 9), (2,), (2, 8, 1)])
def test_wrong_shapes_are_told_by_dimension(shape: tuple[int, ...]) -> None:
    """An open dimension is shown by its name, not as the size that the caller happened to give."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 8]) for n in "xy")
    net = glow.compile(_model([_node("Relu", "x", "y")], [x], [y], {}))
    with pytest.raises(glow.BindingError, match=r"input 'x' has shape .*, expected \(N, 8\)"):
        net.run({"x": np.zeros(shape, np.float32)})


def test_an_unlucky_size_leaves_others_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A size at the end of two ranges has code of its own; others share theirs, in this process and later."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))

    refused = list[int]()

    def unlucky(shapes: dict[str, Any], program: OpenProgram) -> OpenProgram:
        if shapes["x"][0].symbol.usual == 16:
            refused.append(16)
            raise OpenSizes("of one size only")
        return program

    monkeypatch.setattr(compiler, "_checked", unlucky)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    model = _model([_node("Relu", "x", "y")], ports[:1], ports[1:], {})
    for _ in range(2):
        net = glow.compile(model)
        for size in (9, 16, 60, 79):
            x = np.linspace(-1, 1, size, dtype=np.float32)
            np.testing.assert_array_equal(net.run({"x": x})["y"], np.maximum(x, 0))
            assert isinstance(net.program, OpenProgram) or size <= 16
    assert refused == [16]


@pytest.mark.slow
def test_sizes_that_cannot_stay_open_are_tried_ever_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt costs what a program costs, and the sizes of the moment may be why it fails."""
    tried = list[int]()

    def refuse(self: OpenPrograms, shapes: dict[str, tuple[int, ...]], *rest: Any) -> None:
        tried.append(shapes["x"][0])
        raise OpenSizes("of one size only")

    monkeypatch.setattr(OpenPrograms, "_compiled", refuse)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    net = glow.compile(_model([_node("Relu", "x", "y")], ports[:1], ports[1:], {}))
    for size in range(2, 43):
        net.run({"x": np.zeros(size, np.float32)})
    assert tried == [3, 4, 5, 7, 11, 19, 35]
