"""Random tree ensembles against onnxruntime: every kind of branch, missing values, all sums and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
WIDTH = 5


def nodes_of(rng: np.random.Generator, trees: int, modes: tuple[str, ...], missing: bool) -> dict[str, Any]:
    """The nodes of random trees: places, features, modes, values of a few levels each."""
    found: dict[str, list[Any]] = {
        key: []
        for key in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    tracks: list[int] = []
    for tree in range(trees):
        count, todo = 1, [(0, 0)]
        while todo:
            number, level = todo.pop()
            inner = level < 6 and (level == 0 or rng.random() < 0.7)
            found["treeids"].append(tree)
            found["nodeids"].append(number)
            found["featureids"].append(int(rng.integers(WIDTH)) if inner else 0)
            found["modes"].append(str(rng.choice(modes)) if inner else "LEAF")
            found["values"].append(float(rng.integers(-2, 3)) / 2)
            found["truenodeids"].append(count if inner else 0)
            found["falsenodeids"].append(count + 1 if inner else 0)
            tracks.append(int(missing and inner and rng.random() < 0.5))
            if inner:
                todo += [(count, level + 1), (count + 1, level + 1)]
                count += 2
    named = {f"nodes_{key}": values for key, values in found.items()}
    return {**named, "nodes_missing_value_tracks_true": tracks} if missing else named


def ensemble(
    seed: int,
    trees: int,
    targets: int,
    modes: tuple[str, ...] = MODES,
    missing: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """A TreeEnsembleRegressor with open batch size."""
    rng = np.random.default_rng(seed)
    nodes = nodes_of(rng, trees, modes, missing)
    leaves = [i for i, mode in enumerate(nodes["nodes_modes"]) if mode == "LEAF"]
    each = [(i, t) for i in leaves for t in range(targets) if t == 0 or rng.random() < 0.8]
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=targets,
        target_treeids=[nodes["nodes_treeids"][i] for i, _ in each],
        target_nodeids=[nodes["nodes_nodeids"][i] for i, _ in each],
        target_ids=[t for _, t in each],
        target_weights=[float(w) for w in rng.standard_normal(len(each))],
        **nodes,
        **attributes,
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", targets])
    graph = helper.make_graph([node], "trees", [x], [y])
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def samples(seed: int, count: int, missing: bool) -> Array:
    """Rows of numbers that often equal a node's value; some are no numbers."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(-4, 5, (count, WIDTH)) / 4).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = -0.0
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


def agrees(model: onnx.ModelProto, counts: tuple[int, ...], missing: bool, **options: Any) -> None:
    """Batches of some sizes give what onnxruntime gives."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(model, **options)
    for count in counts:
        x = samples(count, count, missing)
        want = np.asarray(session.run(None, {"x": x})[0])
        np.testing.assert_allclose(net.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)
    assert not net.report().notes.get("host")


@pytest.mark.slow
@pytest.mark.parametrize("modes", [(m,) for m in MODES] + [MODES], ids=lambda m: "-".join(m)[7:20])
@pytest.mark.parametrize("missing", [False, True])
def test_kinds_of_branches(modes: tuple[str, ...], missing: bool) -> None:
    """Each kind alone, and all together."""
    agrees(ensemble(3, 9, 1, modes, missing), (1, 5, 33), missing)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("trees", "targets"), [(1, 1), (3, 4), (40, 1), (70, 3), (5, 100)])
def test_sizes(trees: int, targets: int, backend: str) -> None:
    """Few and many trees and targets, batches that fill vectors and blocks or do not."""
    agrees(ensemble(trees, trees, targets), (1, 2, 16, 31, 300), False, backend=backend)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_doubles(backend: str) -> None:
    """Splits and samples in double, which differ by less than an f32 tells apart."""
    model = ensemble(6, 40, 2, missing=True)
    node = model.graph.node[0]
    values = next(a for a in node.attribute if a.name == "nodes_values")
    splits = np.array(values.floats, np.float64)
    node.attribute.remove(values)
    tensor = onnx.numpy_helper.from_array(splits + 1e-12)
    node.attribute.append(helper.make_attribute("nodes_values_as_tensor", tensor))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(model, backend=backend)
    for count in (1, 13, 200):
        x = samples(count, count, True).astype(np.float64)
        x += 1e-12 * np.random.default_rng(1).integers(0, 3, x.shape)
        want = np.asarray(session.run(None, {"x": x})[0])
        np.testing.assert_allclose(net.run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates(aggregate: str) -> None:
    """What is made of the trees' leaves, with base values."""
    model = ensemble(8, 12, 2, aggregate_function=aggregate, base_values=[0.5, -1.0])
    agrees(model, (1, 20), False)


@pytest.mark.slow
def test_two_threads() -> None:
    """Samples are shared by workers."""
    agrees(ensemble(5, 50, 2), (1, 3, 1000), False, threads=2)


def test_a_feature_that_is_not_there() -> None:
    """A node that asks for more than the rows have is refused."""
    model = ensemble(1, 2, 1)
    features = next(a for a in model.graph.node[0].attribute if a.name == "nodes_featureids")
    features.ints[0] = WIDTH
    with pytest.raises(GlowError, match="feature 5 of 5"):
        glow.compile(model, shapes={"x": (2, WIDTH)})
