"""ONNX export: every card's samples, run by onnxruntime as the independent reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import Float32Type

import glow_compiler as glow
from glow_backends.conformance import Case, cases, difference, expected_results, module_of_sample
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_frontends.onnx import import_model
from glow_frontends.onnx.export import export_model, save_model

pytestmark = pytest.mark.slow

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"

#: What ONNX (of the opset that is written) has no operator for.
NO_FORM = {
    "avg_pool_backward",
    "bit_cast",
    "cache_write",
    "cached_attention",
    "conv_backward_weights",
    "dropout_train",
    "max_pool_backward",
    "rotary",
}
#: What takes the bits of signed numbers and floats, for which ONNX has no form.
OF_BITS = {"popcount", "count_leading_zeros", "nextafter"}
#: Integer division by zero is ours to define; ONNX does not, and onnxruntime may stop the process.
DIVISIONS = {"div", "mod", "fmod", "floor_div"}
#: Samples that are valid ONNX but more than onnxruntime's kernels take.
ORT_LACKS = {
    "conv_transpose[2]": "output_padding that is not below the stride",
    "lrn[1]": "even sizes",
    "lrn[2]": "rank 3",
    "reduce[48]": "logarithms of integers",
    "resize[16]": "a rounding of its own",
    "resize[25]": "our rounding of integers",
}
CASES = list(cases())


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """The model in onnxruntime, without its optimisations."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_onnxruntime_agrees(case: Case) -> None:
    module, feed = module_of_sample(case.sample, "inputs")
    name = case.sample.op.name.removeprefix("glow.")
    if name in NO_FORM:
        with pytest.raises(UnsupportedError, match=name):
            export_model(module)
        return
    if name in OF_BITS and case.sample.arrays()[0].dtype.kind != "u":
        with pytest.raises(UnsupportedError, match="bit_cast"):
            export_model(module)
        return
    model = export_model(module)
    onnx.checker.check_model(model)
    if case.name in ORT_LACKS:
        pytest.skip(f"onnxruntime lacks {ORT_LACKS[case.name]}")
    if name in DIVISIONS and _divides_by_zero(*case.sample.arrays()):
        return
    if case.sample.arrays() and different(case, onnxruntime_results(model, feed)):
        # onnxruntime lacks many element types, and differs from the standard about NaN.
        assert different(case, ReferenceEvaluator(model).run(None, feed)) == ""


def _divides_by_zero(dividend: Array, divisor: Array) -> bool:
    return divisor.dtype.kind in "iu" and not divisor.all()


def onnxruntime_results(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array] | None:
    """The outputs; None where onnxruntime does not take an element type or an attribute."""
    try:
        return session(model).run(None, feed)  # pyright: ignore[reportReturnType]
    except Exception as error:
        text = str(error)
        if any(word in text for word in ("NOT_IMPLEMENTED", "INVALID", "Numpy", "FAIL")):
            return None
        raise


def different(case: Case, results: object) -> str:
    """What differs from the references of the cards; empty where nothing does."""
    if results is None:
        return "no results"
    for got, (kind, want) in zip(results, expected_results(case.sample), strict=True):  # pyright: ignore
        made = np.asarray(got)
        if want.dtype == np.float64:  # attributes of ONNX are float32, and so is what they reach
            made, want, kind = made.astype(np.float32), want.astype(np.float32), Float32Type()
        if case.sample.op.name.startswith("glow.quantized_") and made.dtype == want.dtype != np.float32:
            # Through real numbers, halves may round the other way.
            found = "" if np.abs(made.astype(int) - want.astype(int)).max() <= 1 else "more than a step"
        else:
            found = difference(made, want, kind)
        if found:
            return found
    return ""


def small_module() -> tuple[object, Array]:
    case = next(c for c in CASES if c.name == "relu[0]")
    module, feed = module_of_sample(case.sample, "inputs")
    return module, next(iter(feed.values()))


def test_the_last_node_writes_the_output_itself() -> None:
    module, _ = small_module()
    model = export_model(module)  # pyright: ignore[reportArgumentType]
    assert [n.op_type for n in model.graph.node] == ["Relu"]
    assert [o.name for o in model.graph.output] == ["out0"]


def test_a_module_without_the_function_is_an_error() -> None:
    module, _ = small_module()
    with pytest.raises(GlowError, match="no graph function @other"):
        export_model(module, "other")  # pyright: ignore[reportArgumentType]


def test_a_saved_model_is_whole(tmp_path: Path) -> None:
    module, x = small_module()
    save_model(module, tmp_path / "m.onnx")  # pyright: ignore[reportArgumentType]
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    made = session(onnx.load(str(tmp_path / "m.onnx"))).run(None, {"in0": x})[0]
    np.testing.assert_array_equal(made, np.maximum(x, 0))


def test_large_weights_lie_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a limit the weights are a file of their own, which onnxruntime maps."""
    monkeypatch.setattr("glow_frontends.onnx.export.exporter._EXTERNAL_BYTES", 1000)
    g = glow.GraphBuilder()
    w = np.random.default_rng(0).random((40, 50), dtype=np.float32)
    x, bias = np.ones((2, 40), np.float32), np.ones(50, np.float32)
    product = g.matmul(g.placeholder("x", (2, 40)), g.constant(w, "w"))
    g.save(g.add(g.add(product, g.constant(w[:2] * 3, "v")), g.constant(bias, "b")), "y")
    glow.save(g, tmp_path / "m.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.weights"]
    made = ort.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.asarray(made), x @ w + w[:2] * 3 + 1, rtol=1e-5)
    np.testing.assert_allclose(glow.compile(tmp_path / "m.onnx")(x), x @ w + w[:2] * 3 + 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet", "light_resnet50"])
def test_light_models_round_trip(name: str) -> None:
    """Model -> module -> ONNX: onnxruntime gives the same for both."""
    source = onnx.load(str(LIGHT / f"{name}.onnx"))
    made = export_model(import_model(source))
    weights = {i.name for i in source.graph.initializer}
    (info,) = [i for i in source.graph.input if i.name not in weights]
    dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
    x = np.random.default_rng(0).random(dims, dtype=np.float32)
    want = session(source).run(None, {info.name: x})[0]
    got = session(made).run(None, {info.name: x})[0]
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.bool_, np.int16, np.uint64, np.float16])
def test_selection_and_an_input_as_output(kind: type) -> None:
    """Where of types that onnxruntime lacks, and an input that is an output as it is."""
    node = onnx.helper.make_node("Where", ["c", "x", "y"], ["z"])
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    info = onnx.helper.make_tensor_value_info
    inputs = [info("c", onnx.TensorProto.BOOL, [3]), *(info(n, element, [3]) for n in "xy")]
    graph = onnx.helper.make_graph([node], "g", inputs, [info("z", element, [3]), info("x", element, [3])])
    made = export_model(import_model(onnx.helper.make_model(graph)))
    feeds = {
        "c": np.array([True, False, True]),
        "x": np.array([1, 0, 1]).astype(kind),
        "y": np.array([0, 1, 0]).astype(kind),
    }
    z, x = session(made).run(["z", "x"], feeds)
    np.testing.assert_array_equal(np.asarray(z), np.where(feeds["c"], feeds["x"], feeds["y"]))
    np.testing.assert_array_equal(np.asarray(x), feeds["x"])
