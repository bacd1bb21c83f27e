"""ONNX models for training: dropout, modes of normalisations, and which initializers are weights."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.sample import random
from glow_dialects.core.types import Array
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.dropout import DropoutOp, DropoutTrainOp
from glow_frontends.onnx.trainable import import_trainable

pytestmark = pytest.mark.slow


def model(nodes: list[Any], weights: dict[str, Array], shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model of `nodes` from x to y."""
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dropouts(ratios: list[float]) -> onnx.ModelProto:
    """y = x w behind dropouts of the given ratios."""
    nodes, last = [helper.make_node("Mul", ["x", "w"], ["v0"])], "v0"
    for i, _ in enumerate(ratios):
        out = "y" if i == len(ratios) - 1 else f"v{i + 1}"
        nodes.append(helper.make_node("Dropout", [last, f"r{i}"], [out]))
        last = out
    weights = {"w": np.ones((64, 100), np.float32)}
    return model(nodes, weights | {f"r{i}": np.array(r, np.float32) for i, r in enumerate(ratios)}, (64, 100))


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_dropout_is_kept_for_training(backend: str) -> None:
    """The recorded ratio is dropped in a step and scaled for; inference drops nothing."""
    x = np.ones((64, 100), np.float32)
    trainer = glow.Trainer(dropouts([0.3]), "regression", glow.optim.SGD(lr=1.0), backend=backend)
    loss = trainer.step(x, np.zeros_like(x))
    # dy = y where kept: w = 1 - (1 / 0.7)^2 there, and 1 where dropped.
    w = trainer.parameters()["w"]
    dropped = w == 1
    assert dropped.mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(w[~dropped], 1 - 1 / 0.7**2, rtol=1e-5)
    assert loss == pytest.approx((~dropped).mean() / 0.7**2, rel=1e-5)
    np.testing.assert_allclose(trainer.predict(x), w, rtol=1e-6)


def test_two_dropouts_drop_other_places() -> None:
    """Masks of two dropouts are independent, and those of another seed are others."""
    x, masks = np.ones((64, 100), np.float32), list[Array]()
    for seed in (0, 0, 1):
        trainer = glow.Trainer(
            dropouts([0.5, 0.5]), "regression", glow.optim.SGD(lr=1.0), backend="interpreter", seed=seed
        )
        trainer.step(x, np.zeros_like(x))
        masks.append(trainer.parameters()["w"] != 1)
    assert masks[0].mean() == pytest.approx(0.25, abs=0.02)
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] == masks[2]).mean() == pytest.approx(0.25**2 + 0.75**2, abs=0.03)


def test_dropout_survives_the_export(tmp_path: Path) -> None:
    """A trained model keeps its dropout for the next training; onnxruntime's inference ignores it."""
    import onnxruntime

    trainer = glow.Trainer(dropouts([0.3]), "regression", glow.optim.SGD(lr=0.1), backend="interpreter")
    x = random(64, 100)
    trainer.step(x, np.zeros_like(x))
    path = tmp_path / "trained.onnx"
    trainer.export(path)
    session = onnxruntime.InferenceSession(str(path))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], trainer.predict(x), rtol=1e-6)
    again = glow.Trainer(path, "regression", backend="interpreter")
    found = [op for op in again.graph.training.walk() if isinstance(op, DropoutTrainOp)]
    assert [op.ratio for op in found] == [pytest.approx(0.3)]
    assert not any(isinstance(op, DropoutOp) for op in again.graph.training.walk())


@pytest.mark.parametrize("mode", ["TRAINING", "EVAL"])
def test_models_exported_in_training_mode(mode: str) -> None:
    """PyTorch's export in training mode trains as one for inference: running averages and momentum too."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=0.3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)
    )
    net.train(mode == "TRAINING")
    x, labels, file = torch.tensor(random(4, 3, 5, 5)), np.array([0, 1, 2, 0]), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training = getattr(torch.onnx.TrainingMode, mode)
        torch.onnx.export(net, (x,), file, dynamo=False, training=training, do_constant_folding=False)
    trainer = glow.Trainer(
        onnx.load_from_string(file.getvalue()), "cross_entropy", glow.optim.SGD(lr=0.1), backend="cpu"
    )
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), torch.tensor(labels))
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), labels) == pytest.approx(loss.item(), rel=1e-4)
    net.eval()
    with torch.no_grad():
        np.testing.assert_allclose(trainer.predict(x.numpy()), net(x).numpy(), rtol=1e-3, atol=1e-4)


def test_momentum_of_the_model() -> None:
    """The node's momentum, where the Trainer's argument does not replace it."""
    vector = np.ones(3, np.float32)
    norm = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], momentum=0.6, training_mode=1
    )
    weights = {"s": vector, "b": vector, "m": 0 * vector, "v": vector}
    for given, kept in ((None, 0.6), (0.2, 0.2)):
        trainer = glow.Trainer(
            model([norm], weights, (8, 3)), "mse", momentum=given, backend="interpreter", batch=8
        )
        x = random(8, 3)
        trainer.step(x, np.zeros_like(x))
        np.testing.assert_allclose(trainer.state["m"], (1 - kept) * x.mean(0), rtol=1e-4, atol=1e-6)
        want = kept + (1 - kept) * x.var(0, ddof=1)
        np.testing.assert_allclose(trainer.state["v"], want, rtol=1e-4, atol=1e-6)


def test_what_is_a_weight() -> None:
    """Joined weights and norms of weights are trained; limits and pads stay constants."""
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["w"], axis=0),
        helper.make_node("ReduceL2", ["a"], ["norm"], keepdims=0),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Mul", ["p", "norm"], ["q"]),
        helper.make_node("Pad", ["q", "pads", "fill"], ["y"]),
    ]
    weights = {"a": random(2, 4), "b": random(3, 4), "fill": np.array(1, np.float32)}
    whole = model(nodes, weights, (2, 5))
    whole.graph.initializer.append(numpy_helper.from_array(np.array([0, 1, 0, 1]), "pads"))
    trainer = glow.Trainer(whole, "mse", backend="interpreter")
    assert sorted(trainer.parameters()) == ["a", "b"]
    before = trainer.parameters()
    trainer.step(random(2, 5), np.zeros((2, 6), np.float32))
    assert all((trainer.parameters()[n] != a).all() for n, a in before.items())


def test_inference_has_no_dropout() -> None:
    """The plain import leaves dropout out; the one for training keeps it."""
    proto = dropouts([0.3])
    kept = import_trainable(proto)
    assert sum(isinstance(op, DropoutOp) for op in kept.walk()) == 1
    assert not any(isinstance(op, DropoutOp | BatchNormOp) for op in glow.load(proto).walk())


def test_written_out_softmax() -> None:
    """A classifier whose softmax is spelt out is trained on what the softmax takes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("ReduceMax", ["s"], ["m"], axes=[1], keepdims=0),
        helper.make_node("Max", ["low", "m"], ["n"]),
        helper.make_node("Reshape", ["n", "column"], ["k"]),
        helper.make_node("Sub", ["s", "k"], ["d"]),
        helper.make_node("Exp", ["d"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axis"], ["t"], keepdims=1),
        helper.make_node("Div", ["e", "t"], ["y"]),
    ]
    whole = model(nodes, {"w": random(4, 3), "low": np.array(-np.inf, np.float32)}, (5, 4))
    for name, values in (("axis", [1]), ("column", [5, 1])):
        whole.graph.initializer.append(numpy_helper.from_array(np.array(values), name))
    trainer = glow.Trainer(whole, optimizer=glow.optim.SGD(lr=0.5), backend="interpreter")
    assert trainer.graph.softmax_dropped
    x, labels, w = random(5, 4, seed=1), np.array([0, 1, 2, 0, 1]), random(4, 3)
    for _ in range(3):
        shares = np.exp(x @ w) / np.exp(x @ w).sum(1, keepdims=True)
        assert trainer.step(x, labels) == pytest.approx(-np.log(shares[range(5), labels]).mean(), rel=1e-5)
        w = w - 0.5 * x.T @ (shares - np.eye(3, dtype=np.float32)[labels]) / 5
    np.testing.assert_allclose(trainer.parameters()["w"], w, rtol=1e-4, atol=1e-6)


def branches(constants: bool) -> onnx.ModelProto:
    """y = x w of one branch or of the other; both call their weight `w`."""
    names = {"then": ("yes", random(4, 3)), "else": ("no", random(4, 3, seed=1))}
    graphs: dict[str, Any] = {}
    for side, (out, values) in names.items():
        weight = numpy_helper.from_array(values, "w")
        nodes = [helper.make_node("Constant", [], ["w"], value=weight)] if constants else []
        nodes += [helper.make_node("MatMul", ["x", "w"], [out])]
        result = [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)]
        graphs[f"{side}_branch"] = helper.make_graph(nodes, side, [], result, [] if constants else [weight])
    made = model([helper.make_node("If", ["which"], ["y"], **graphs)], {}, (2, 4))
    made.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, ()))
    return made


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("which", [True, False])
def test_weights_of_branches(which: bool, constants: bool, tmp_path: Path) -> None:
    """The branch that a known input chooses is trained, its weights told from the other's."""
    onnxruntime = pytest.importorskip("onnxruntime")
    trainer = glow.Trainer(
        branches(constants),
        "regression",
        glow.optim.SGD(lr=1.0),
        values={"which": np.array(which)},
        backend="interpreter",
    )
    assert sorted(trainer.parameters()) == ["w", "w.1"]
    assert len(trainer.graph.unreached) == 1
    (other,) = trainer.graph.unreached
    (name,) = {"w", "w.1"} - {other}
    x, before = random(2, 4, seed=2), trainer.parameters()
    trainer.step(x, np.zeros((2, 3), np.float32))
    after = trainer.parameters()
    np.testing.assert_array_equal(after[other], before[other])
    np.testing.assert_allclose(after[name], before[name] - x.T @ (x @ before[name]), rtol=1e-5, atol=1e-6)
    path = tmp_path / "trained.onnx"
    trainer.export(path)
    session = onnxruntime.InferenceSession(str(path))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ after[name], rtol=1e-5, atol=1e-6)


def test_equal_weights() -> None:
    """Layers that begin as copies of one, which PyTorch's exporter merges, are trained apart."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x, file = torch.randn(2, 5, 8), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net.eval(), (x,), file, dynamo=False, do_constant_folding=False)
    trainer = glow.Trainer(onnx.load_from_string(file.getvalue()), "mse", glow.optim.SGD(lr=0.5))
    optimizer = torch.optim.SGD(net.train().parameters(), lr=0.5)
    target = torch.randn(2, 5, 8)
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), target.numpy()) == pytest.approx(loss.item(), rel=1e-4)


def test_masks_and_scalars() -> None:
    """A causal mask is no weight; a scalar that goes through exp, and a vector through softplus, are."""
    torch = pytest.importorskip("torch")
    from torch_export import exported

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = torch.nn.Parameter(torch.tensor(0.5))
            self.raw = torch.nn.Parameter(torch.zeros(5))
            self.query, self.key = torch.nn.Linear(5, 4), torch.nn.Linear(5, 4)
            self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
            self.register_buffer("finite", torch.full((3, 3), torch.finfo(torch.float32).min).triu(1))

        def forward(self, x: Any) -> Any:
            x = x * torch.nn.functional.softplus(self.raw)
            scores = self.query(x) @ self.key(x).transpose(1, 2) * self.temperature.exp()
            return ((scores + self.mask).softmax(2) + (scores + self.finite).softmax(2)) @ x

    torch.manual_seed(0)
    net, (x, y) = Network(), (torch.randn(4, 3, 5), torch.randn(4, 3, 5))
    model = exported(net, x, symbolic=False)
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.1), backend="interpreter")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(5):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        trainer.step(x.numpy(), y.numpy())
    found = trainer.parameters()
    assert {"temperature", "raw"} <= found.keys()
    assert not {"mask", "finite"} & found.keys()
    for name, parameter in net.named_parameters():
        if name in found:
            np.testing.assert_allclose(found[name], parameter.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_half_precision(backend: str) -> None:
    """Weights of 16 bits are trained in 16 bits; a mask of their least number is none."""
    torch = pytest.importorskip("torch")
    from torch_export import exported

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(6, 16), torch.nn.Linear(16, 4)
            self.register_buffer("mask", torch.full((4, 4), torch.finfo(torch.float16).min).triu(1))

        def forward(self, x: Any) -> Any:
            y = self.second(self.first(x).relu())
            return (y + self.mask).softmax(1) + y

    torch.manual_seed(0)
    net, x, y = Network().half(), torch.randn(4, 6).half(), torch.randn(4, 4).half()
    optimizer = torch.optim.SGD(net.parameters(), 0.125, momentum=0.5)
    model = exported(net, x, symbolic=False)
    trainer = glow.Trainer(model, "mse", glow.optim.SGD(0.125, momentum=0.5), backend=backend)
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), y.numpy()) == pytest.approx(loss.item(), rel=4e-3)
    found = trainer.parameters()
    assert "mask" not in found
    for name, parameter in net.named_parameters():
        assert found[name].dtype == np.float16
        np.testing.assert_allclose(found[name], parameter.detach().numpy(), rtol=1e-2, atol=2e-3)


def test_values_that_look_like_weights() -> None:
    """A mask of zeros and another number, and initial states of zeros, are no weights."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(size=(1, 12, 4)).astype(np.float32),
        "r": rng.normal(size=(1, 12, 4)).astype(np.float32),
        "zero": np.zeros((1, 3, 4), np.float32),
        "scale": np.array([0.5, 0.5, 2.0, 1.0], np.float32),
        "blocked": np.array([[-100.0, 0, 0, -100.0]] * 3, np.float32),
    }
    nodes = [
        helper.make_node("GRU", ["x", "w", "r", "", "", "zero"], ["all", "last"], hidden_size=4),
        helper.make_node("Mul", ["last", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "blocked"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "masks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4])],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    trainer = glow.Trainer(model, "mse", backend="interpreter")
    assert set(trainer.parameters()) == {"w", "r", "scale"}


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_normalisation_that_is_used_twice(backend: str) -> None:
    """Its running statistics take both uses, one after the other."""
    vector = np.ones(3, np.float32)
    weights = {"s": 2 * vector, "b": vector, "m": 0 * vector, "v": vector}
    operands = [*weights]
    nodes = [
        helper.make_node("BatchNormalization", ["x", *operands], ["h"], momentum=0.6),
        helper.make_node("BatchNormalization", ["h", *operands], ["y"], momentum=0.6),
    ]
    trainer = glow.Trainer(model(nodes, weights, (8, 3)), "mse", batch=8, backend=backend)
    x = random(8, 3)
    trainer.step(x, np.zeros_like(x))
    h = 2 * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + 1
    mean = 0.6 * (0.4 * x.mean(0)) + 0.4 * h.mean(0)
    variance = 0.6 * (0.6 + 0.4 * x.var(0, ddof=1)) + 0.4 * h.var(0, ddof=1)
    np.testing.assert_allclose(trainer.state["m"], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(trainer.state["v"], variance, rtol=1e-4, atol=1e-6)
