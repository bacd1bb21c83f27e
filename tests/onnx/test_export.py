"""ONNX export: every card's samples, run by onnxruntime as the independent reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from glow_backends.conformance import Case, cases, difference, expected_results, module_of_sample
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.types import Array
from glow_frontends.onnx.export import export_model, save_model

#: What ONNX has no operator for.
NO_FORM = {"avg_pool_backward", "conv_backward_weights", "max_pool_backward"}
#: Samples that are valid ONNX but more than onnxruntime's kernels take.
ORT_LACKS = {
    "conv_transpose[2]": "output_padding that is not below the stride",
    "lrn[1]": "even sizes",
    "lrn[2]": "rank 3",
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
    model = export_model(module)
    onnx.checker.check_model(model)
    if case.name in ORT_LACKS:
        pytest.skip(f"onnxruntime lacks {ORT_LACKS[case.name]}")
    results = session(model).run(None, feed)
    for got, (kind, want) in zip(results, expected_results(case.sample), strict=True):
        assert isinstance(got, np.ndarray)
        assert difference(got, want, kind) == ""


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
