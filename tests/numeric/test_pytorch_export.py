"""Training of what PyTorch's exporter with its optimiser writes: merged, turned and expanded weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_frontends.onnx.pytorch_export import ExportWarning

LINEAR, NORM = "torch.nn.modules.linear.Linear", "torch.nn.modules.normalization.LayerNorm"
PARAMETERS = (
    "token",
    "first.weight",
    "first.bias",
    "second.weight",
    "second.bias",
    "words.weight",
    "head.weight",
)
TABLE = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def _node(kind: str, inputs: list[str], result: str, scope: str, of: str = "", **attributes: Any) -> Any:
    made = helper.make_node(kind, inputs, [result], **attributes)
    for key, value in (("name_scopes", ["", scope, result]), ("class_hierarchy", ["Net", of, "aten"])):
        made.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=str(value))
    return made


def exported(parameters: tuple[str, ...] = PARAMETERS, told: bool = True) -> onnx.ModelProto:
    """token + words[x], two normalisations and a head tied to the words, as PyTorch 2.13 writes them.

    The normalisations share ones and zeros, the head's weight lies turned round in `val_1`, the token is
    repeated for the batch, the buffer `table` is added, the number `val_2` multiplied.
    """
    norm = {"axis": -1, "epsilon": 1e-5}
    nodes = [
        _node("Gather", ["head.weight", "x"], "embedding", "words"),
        _node("Add", ["embedding", "expand"], "add", ""),
        _node("Add", ["add", "table"], "placed", ""),
        _node("LayerNormalization", ["placed", "first.weight", "first.bias"], "a", "first", NORM, **norm),
        _node("Mul", ["a", "val_2"], "scaled", ""),
        _node("Tanh", ["scaled"], "tanh", ""),
        _node("LayerNormalization", ["tanh", "first.weight", "first.bias"], "b", "second", NORM, **norm),
        _node("MatMul", ["b", "val_1"], "y", "head", LINEAR),
    ]
    arrays = {
        "head.weight": TABLE,
        "first.weight": np.ones(4, np.float32),
        "first.bias": np.zeros(4, np.float32),
        "val_1": np.ascontiguousarray(TABLE.T),
        "val_2": np.full((1,), 0.5, np.float32),
        "table": np.full((3, 4), 0.25, np.float32),
        "expand": np.tile(np.arange(4, dtype=np.float32), (2, 1, 1)),
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 6])],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    if told:
        lines = [f"p_{n.replace('.', '_')}: PARAMETER target='{n}'" for n in parameters]
        lines.append("b_table: BUFFER target='table' persistent=True")
        key = "pkg.torch.export.ExportedProgram.graph_signature"
        graph.metadata_props.add(key=key, value="\n".join(lines))
    return helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])


def _peer(x: Array, target: Array, steps: int, rate: float) -> tuple[list[float], dict[str, Array]]:
    """The network that was exported, trained by PyTorch."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    values = {
        n: np.ones(4, np.float32) if n.endswith("weight") else np.zeros(4, np.float32) for n in PARAMETERS
    }
    values |= {"head.weight": TABLE, "token": np.arange(4, dtype=np.float32)[None, None]}
    del values["words.weight"]
    p = {n: torch.tensor(a, requires_grad=True) for n, a in values.items()}
    optimizer, losses = torch.optim.SGD(p.values(), rate), list[float]()
    for _ in range(steps):
        optimizer.zero_grad()
        y = p["head.weight"][torch.tensor(x)] + p["token"] + 0.25
        y = F.layer_norm(y, (4,), p["first.weight"], p["first.bias"])
        y = F.layer_norm((y * 0.5).tanh(), (4,), p["second.weight"], p["second.bias"])
        loss = F.mse_loss(y @ p["head.weight"].T, torch.tensor(target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: a.detach().numpy() for n, a in p.items()}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_steps(backend: str) -> None:
    """Norms learn for themselves, the head with the words, one token for all; buffers and numbers stay."""
    x = np.array([[0, 1, 2], [3, 4, 5]])
    target = np.random.default_rng(1).normal(size=(2, 3, 6)).astype(np.float32)
    trainer = glow.Trainer(exported(), "mse", glow.optim.SGD(0.5), backend=backend)
    losses, want = _peer(x, target, 5, 0.5)
    np.testing.assert_allclose([trainer.step(x, target) for _ in range(5)], losses, rtol=1e-5)
    found = trainer.parameters()
    assert set(found) == set(want)
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def test_parameters_that_are_gone() -> None:
    """A warning names what the file does not have any more."""
    with pytest.warns(ExportWarning, match="folded 2 of the network's 9 .*norm.weight, norm.bias"):
        glow.Trainer(exported((*PARAMETERS, "norm.weight", "norm.bias")), "mse", backend="interpreter")


def test_models_without_signature() -> None:
    """Of a model that does not tell its parameters nothing is changed."""
    found = glow.Trainer(exported(told=False), "mse", backend="interpreter").parameters()
    assert set(found) == {"head.weight", "first.weight", "first.bias", "val_1", "val_2", "table", "expand"}


def test_folded_views_and_zeros() -> None:
    """What was turned, reshaped or repeated follows its parameter; zero biases come back; new values stay."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    table, weight = (rng.normal(size=s).astype(np.float32) for s in ((3, 4), (4, 4)))
    x, target = (rng.normal(size=s).astype(np.float32) for s in ((2, 3, 4), (2, 4, 3)))
    nodes = [
        _node("Add", ["x", "expand"], "a", ""),
        _node("MatMul", ["a", "val_1"], "b", "linear", LINEAR),
        _node("Transpose", ["b"], "c", "", perm=(0, 2, 1)),
        _node("Mul", ["c", "permute"], "d", ""),
        _node("Mul", ["d", "table_1"], "e", ""),
        _node("Add", ["e", "zeros"], "f", ""),
        _node("ReduceSum", ["table"], "g", "", keepdims=0),
        _node("Add", ["f", "g"], "y", ""),
    ]
    arrays = {
        "table": table,
        "expand": np.tile(table[None], (2, 1, 1)),
        "val_1": np.ascontiguousarray(weight.T),
        "permute": np.ascontiguousarray(table.T),
        "table_1": np.ascontiguousarray(table.T.reshape(1, 4, 3)),
        "zeros": np.zeros((4, 3), np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, target.shape)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    lines = [f"PARAMETER target='{n}'" for n in ("table", "linear.weight", "linear.bias")]
    graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value="\n".join(lines))
    model = helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.005), backend="interpreter")
    values = {"table": table, "linear.weight": weight, "linear.bias": np.zeros(4, np.float32)}
    p = {n: torch.tensor(a, requires_grad=True) for n, a in values.items()}
    optimizer = torch.optim.SGD(p.values(), 0.005)
    for _ in range(4):
        optimizer.zero_grad()
        y = torch.nn.functional.linear(torch.tensor(x) + p["table"], p["linear.weight"], p["linear.bias"])
        y = y.transpose(1, 2) * p["table"].T * p["table"].T + p["table"].sum()
        loss = torch.nn.functional.mse_loss(y, torch.tensor(target))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, target) == pytest.approx(loss.item(), rel=1e-5)
    found = trainer.parameters()
    assert set(found) == set(p)
    for name, value in p.items():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(kind: str) -> None:
    """Weights that the exporter rearranged are the network's; a layer that is called twice has one set."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = getattr(torch.nn, kind)(3, 4, bidirectional=True)
    parameters = {n: p.detach().numpy().copy() for n, p in net.named_parameters()}
    gates = (0, 3, 1, 2) if kind == "LSTM" else (1, 0, 2)

    def stacked(*names: str) -> Array:
        rows = [[parameters[n + suffix] for n in names] for suffix in ("", "_reverse")]
        ordered = [[np.split(a, len(gates))[i] for a in row for i in gates] for row in rows]
        return np.stack([np.concatenate(row) for row in ordered])

    arrays = {
        "val_1": stacked("weight_ih_l0"),
        "val_2": stacked("weight_hh_l0"),
        "val_3": stacked("bias_ih_l0", "bias_hh_l0"),
        "begin": np.array([0], np.int64),
        "end": np.array([3], np.int64),
        "last": np.array([2], np.int64),
        "one": np.array([1], np.int64),
    }
    arrays |= {f"{n}_again": arrays[n] for n in ("val_1", "val_2", "val_3")}
    options: dict[str, Any] = {"hidden_size": 4, "direction": "bidirectional"}
    options |= {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [
        _node(kind, ["x", "val_1", "val_2", "val_3"], "a", "layer", **options),
        _node("ReduceMean", ["a", "one"], "b", "", keepdims=0),
        _node("Slice", ["b", "begin", "end", "last"], "c", ""),
        _node(kind, ["c", "val_1_again", "val_2_again", "val_3_again"], "y", "layer", **options),
    ]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 2, 2, 4])],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    lines = [f"PARAMETER target='layer.{n}'" for n in parameters]
    graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value="\n".join(lines))
    model = helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.1), backend="interpreter")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    rng = np.random.default_rng(0)
    x, target = (rng.normal(size=s).astype(np.float32) for s in ((5, 2, 3), (5, 2, 2, 4)))
    for _ in range(3):
        optimizer.zero_grad()
        a = net(torch.tensor(x))[0].reshape(5, 2, 2, 4).mean(2)
        y = net(a[..., :3])[0].reshape(5, 2, 2, 4).transpose(1, 2)
        loss = torch.nn.functional.mse_loss(y, torch.tensor(target))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, target) == pytest.approx(loss.item(), rel=1e-5)
    found = trainer.parameters()
    assert set(found) == {f"layer.{n}" for n in parameters}
    for name, value in net.named_parameters():
        np.testing.assert_allclose(found[f"layer.{name}"], value.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_layers_that_begin_as_copies() -> None:
    """What two modules share only by its contents is separate, though no node is of the parameter's own."""
    weight = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    nodes = [
        _node("Gemm", ["x", "layers.0.out.weight"], "a", "layers.0", transB=1),
        _node("Tanh", ["a"], "b", ""),
        _node("Gemm", ["b", "layers.0.out.weight"], "y", "layers.1", transB=1),
    ]
    kind = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    initializer = numpy_helper.from_array(weight, "layers.0.out.weight")
    graph = helper.make_graph(nodes, "main", [kind], [result], [initializer])
    names = [f"layers.{i}.out.{n}" for i in (0, 1) for n in ("weight", "bias")]
    lines = [f"PARAMETER target='{n}'" for n in names]
    graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value="\n".join(lines))
    model = helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])
    found = glow.Trainer(model, "mse", backend="interpreter").parameters()
    assert set(found) == set(names)
    np.testing.assert_array_equal(found["layers.1.out.weight"], weight)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_fresh_normalisations(backend: str) -> None:
    """Weights and statistics that begin equal are each layer's own, one layer's in both of its calls.

    A fresh network of three normalisations by batches, one of them called twice, one without parameters, a
    layer norm without parameters, and a prelu whose slope the exporter reshaped.
    """
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    batch, row = "torch.nn.modules.batchnorm.BatchNorm2d", {"axis": -1}
    shared = ["one.weight", "one.bias", "one.bias", "one.weight"]
    nodes = [
        _node("BatchNormalization", ["x", *shared], "a", "one", batch),
        _node("PRelu", ["a", "val_1"], "b", "slope"),
        _node("BatchNormalization", ["b", *shared], "c", "two", batch),
        _node("BatchNormalization", ["c", *shared], "d", "two", batch),
        _node("BatchNormalization", ["d", *shared], "e", "bare", batch),
        _node("LayerNormalization", ["e", "one.weight"], "f", "row", NORM, **row),
        _node("Mul", ["f", "scale"], "y", ""),
    ]
    start = {
        "one.weight": np.ones(4, np.float32),
        "one.bias": np.zeros(4, np.float32),
        "val_1": np.full((1, 4, 1, 1), 0.25, np.float32),
        "scale": np.linspace(0.5, 2, 4, dtype=np.float32).reshape(4, 1, 1),
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4, 5, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4, 5, 4])],
        [numpy_helper.from_array(a, n) for n, a in start.items()],
    )
    parameters = ["one.weight", "one.bias", "slope.weight", "two.weight", "two.bias", "scale"]
    buffers = [f"{n}.running_{kind}" for n in ("one", "two", "bare") for kind in ("mean", "var")]
    lines = [f"p: PARAMETER target='{n}'" for n in parameters] + [f"b: BUFFER target='{n}'" for n in buffers]
    key = "pkg.torch.export.ExportedProgram.graph_signature"
    graph.metadata_props.add(key=key, value="\n".join(lines))
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, producer_name="pytorch", opset_imports=opset)

    ones, zeros = (torch.full((4,), v) for v in (1.0, 0.0))
    values = {n: (ones if n.endswith("weight") else zeros).clone() for n in parameters}
    values |= {"slope.weight": torch.full((4,), 0.25), "scale": torch.tensor(start["scale"])}
    for value in values.values():
        value.requires_grad_()
    statistics = {n: (ones if n.endswith("var") else zeros).clone() for n in buffers}

    def forward(x: Any, training: bool) -> Any:
        def norm(x: Any, name: str) -> Any:
            running = [statistics[f"{name}.running_{kind}"] for kind in ("mean", "var")]
            own = [values.get(f"{name}.{kind}") for kind in ("weight", "bias")]
            return F.batch_norm(x, *running, *own, training=training)

        y = F.prelu(norm(x, "one"), values["slope.weight"])
        y = norm(norm(norm(y, "two"), "two"), "bare")
        return F.layer_norm(y, (4,)) * values["scale"]

    rng = np.random.default_rng(0)
    x, target = (rng.normal(size=(3, 4, 5, 4)).astype(np.float32) * 2 + 1 for _ in range(2))
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.5), backend=backend)
    optimizer = torch.optim.SGD(values.values(), 0.5)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(forward(torch.tensor(x), True), torch.tensor(target))
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(trainer.step(x, target), loss.item(), rtol=1e-5)
    found = trainer.parameters()
    assert set(found) == set(values)
    for name, value in values.items():
        np.testing.assert_allclose(found[name], value.detach(), rtol=1e-3, atol=1e-5, err_msg=name)
    with torch.no_grad():
        np.testing.assert_allclose(trainer.predict(x), forward(torch.tensor(x), False), rtol=1e-3, atol=1e-4)


def test_nodes_of_no_module() -> None:
    """A split that the exporter put in is of the module that takes its parts, and so is what it splits."""
    kind = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    nodes = [
        _node("Add", ["x", "one.bias"], "a", "one"),
        helper.make_node("Split", ["one.bias"], ["left", "right"], num_outputs=2, axis=1),
        _node("Add", ["a", "left"], "b", "two"),
        _node("Mul", ["b", "right"], "y", "two"),
    ]
    initializer = numpy_helper.from_array(np.zeros((2, 4), np.float32), "one.bias")
    nodes[2].input[1] = "wide"
    nodes[3].input[1] = "wide"
    nodes.insert(2, helper.make_node("Concat", ["left", "right"], ["wide"], axis=1))
    graph = helper.make_graph(nodes, "main", [kind], [result], [initializer])
    lines = [f"PARAMETER target='{n}.bias'" for n in ("one", "two")]
    graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value="\n".join(lines))
    model = helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 20)])
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.5), backend="interpreter")
    trainer.step(np.ones((2, 4), np.float32), np.ones((2, 4), np.float32))
    found = trainer.parameters()
    assert set(found) == {"one.bias", "two.bias"}
    assert (found["one.bias"] == 0).all() and (found["two.bias"] != 0).all()
