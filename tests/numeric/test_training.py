"""Training against PyTorch: optimisers step by step, schedules, clipping, checkpoints, bad input."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_training import BATCH, data, mlp

import glow_compiler as glow
from glow_compiler.trainer import Trainer
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.sample import random
from glow_dialects.core.types import Array
from glow_dialects.ops.max_pool import MaxPoolBackwardOp
from glow_dialects.reverse import NotDifferentiableError
from glow_frontends.builder import GraphBuilder

optim = glow.optim


class Peer:
    """The same network in PyTorch."""

    def __init__(self, values: dict[str, Array]) -> None:
        self.torch = pytest.importorskip("torch")
        self.p = {n: self.torch.tensor(v, requires_grad=True) for n, v in values.items()}

    def loss(self, x: Array, y: Array) -> Any:
        """Cross entropy of a batch."""
        torch, p = self.torch, self.p
        hidden = torch.relu(torch.tensor(x) @ p["w1"] + p["b1"])
        return torch.nn.functional.cross_entropy(hidden @ p["w2"] + p["b2"], torch.tensor(y))


RECIPES: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "sgd": (lambda: optim.SGD(lr=0.1), lambda t, p: t.optim.SGD(p, lr=0.1)),
    "momentum": (
        lambda: optim.SGD(lr=0.05, momentum=0.9, weight_decay=0.01),
        lambda t, p: t.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        lambda: optim.SGD(lr=0.05, momentum=0.9, nesterov=True),
        lambda t, p: t.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda: optim.Adam(lr=0.01, weight_decay=0.01),
        lambda t, p: t.optim.Adam(p, lr=0.01, weight_decay=0.01),
    ),
    "adamw": (
        lambda: optim.AdamW(lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
        lambda t, p: t.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
    ),
    "dampening": (
        lambda: optim.SGD(lr=0.1, momentum=0.9, dampening=0.5),
        lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    ),
    "amsgrad": (
        lambda: optim.Adam(lr=0.02, betas=(0.9, 0.9), amsgrad=True),
        lambda t, p: t.optim.Adam(p, lr=0.02, betas=(0.9, 0.9), amsgrad=True),
    ),
    "rmsprop": (lambda: optim.RMSprop(lr=0.005), lambda t, p: t.optim.RMSprop(p, lr=0.005)),
    "rmsprop_centered": (
        lambda: optim.RMSprop(lr=0.002, momentum=0.8, centered=True, weight_decay=0.01),
        lambda t, p: t.optim.RMSprop(p, lr=0.002, momentum=0.8, centered=True, weight_decay=0.01),
    ),
    "adagrad": (lambda: optim.Adagrad(lr=0.05), lambda t, p: t.optim.Adagrad(p, lr=0.05)),
    "adagrad_decay": (
        lambda: optim.Adagrad(lr=0.1, lr_decay=0.01, initial_accumulator_value=0.1, weight_decay=0.01),
        lambda t, p: t.optim.Adagrad(
            p, lr=0.1, lr_decay=0.01, initial_accumulator_value=0.1, weight_decay=0.01
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", RECIPES)
def test_optimizer(name: str, backend: str) -> None:
    """100 steps of each optimiser: losses and weights within 1e-4 of PyTorch's."""
    ours, theirs = RECIPES[name]
    trainer = Trainer(mlp(), optimizer=ours(), backend=backend)
    peer = Peer(trainer.parameters())
    chosen = theirs(peer.torch, list(peer.p.values()))
    for x, y in data(100):
        loss = trainer.step(x, y)
        chosen.zero_grad()
        want = peer.loss(x, y)
        want.backward()
        chosen.step()
        assert loss == pytest.approx(want.item(), rel=1e-4, abs=1e-6)
    assert loss < 0.5
    for parameter, array in trainer.parameters().items():
        want = peer.p[parameter].detach().numpy()
        assert np.abs(array - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("kind", ["norm", "value"])
def test_clipping(kind: str) -> None:
    """Gradients clipped by global norm and by value."""
    options: Any = {"clip_norm": 0.1} if kind == "norm" else {"clip_value": 0.01}
    trainer = Trainer(mlp(), optimizer=optim.SGD(lr=0.5, **options), backend="interpreter")
    peer = Peer(trainer.parameters())
    chosen, values = peer.torch.optim.SGD(peer.p.values(), lr=0.5), list(peer.p.values())
    for x, y in data(10):
        trainer.step(x, y)
        chosen.zero_grad()
        peer.loss(x, y).backward()
        if kind == "norm":
            peer.torch.nn.utils.clip_grad_norm_(values, 0.1)
        else:
            peer.torch.nn.utils.clip_grad_value_(values, 0.01)
        chosen.step()
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose(array, peer.p[name].detach().numpy(), rtol=1e-4, atol=1e-6)


def test_schedules() -> None:
    """Rates against PyTorch's schedulers."""
    torch = pytest.importorskip("torch")
    pairs = [
        (optim.multi_step(0.1, [3, 6], 0.5), lambda s, o: s.MultiStepLR(o, [3, 6], 0.5)),
        (optim.exponential(0.1, 0.9), lambda s, o: s.ExponentialLR(o, 0.9)),
        (optim.exponential(0.1, 0.5, every=4), lambda s, o: s.StepLR(o, 4, 0.5)),
        (optim.cosine(0.1, 10, minimum=0.01), lambda s, o: s.CosineAnnealingLR(o, 10, 0.01)),
    ]
    for ours, theirs in pairs:
        chosen = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = theirs(torch.optim.lr_scheduler, chosen)
        for step in range(10):
            assert ours(step) == pytest.approx(chosen.param_groups[0]["lr"])
            chosen.step()
            scheduler.step()
    assert [optim.constant(1.0, warmup=4)(s) for s in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_fit_and_resume(tmp_path: Path) -> None:
    """A training that stops in an epoch and goes on from its checkpoint gives the same numbers."""
    xs, ys = (np.concatenate(part) for part in zip(*data(10), strict=True))
    recipe = optim.Adam(lr=optim.cosine(0.05, 40))

    def fresh() -> Trainer:
        return Trainer(mlp(), optimizer=recipe, backend="interpreter", seed=3)

    whole = fresh()
    history = whole.fit((xs, ys), 4, validation=(xs, ys), progress=False)
    assert history[-1]["validation_accuracy"] > 0.9
    assert history[-1]["loss"] < history[0]["loss"]

    class Stop(Exception):
        """Ends a training in the middle."""

    broken = fresh()
    path = tmp_path / "training.safetensors"
    step = broken.step

    def failing(inputs: Any, labels: Any) -> float:
        if broken.steps == 25:
            raise Stop
        return step(inputs, labels)

    broken.step = failing  # pyright: ignore
    with pytest.raises(Stop):
        broken.fit((xs, ys), 4, checkpoint=path, every=1, progress=False)
    again = fresh()
    again.fit((xs, ys), 4, checkpoint=path, progress=False)
    assert again.steps == whole.steps == 40
    for name, array in whole.parameters().items():
        np.testing.assert_array_equal(array, again.parameters()[name])


@pytest.mark.slow
def test_killed(tmp_path: Path) -> None:
    """A process that is killed in the middle of training loses nothing but the steps since its save."""
    xs, ys = (np.concatenate(part) for part in zip(*data(10), strict=True))
    path = tmp_path / "training.safetensors"
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import glow_compiler as glow, numpy as np\n"
        "from glow_compiler.trainer import Trainer\n"
        "from small_training import data, mlp\n"
        "xs, ys = (np.concatenate(part) for part in zip(*data(10), strict=True))\n"
        "t = Trainer(mlp(), optimizer=glow.optim.Adam(lr=0.01), backend='interpreter', seed=3)\n"
        "t.fit((xs, ys), 10_000, checkpoint=sys.argv[2], every=3, progress=False)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(path)]
    with subprocess.Popen(command) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.3)
        process.kill()
    again = Trainer(mlp(), optimizer=optim.Adam(lr=0.01), backend="interpreter", seed=3)
    again.load(path)
    assert again.steps >= 3
    epochs = again.steps // 10 + 1
    again.fit((xs, ys), epochs, checkpoint=path, progress=False)
    whole = Trainer(mlp(), optimizer=optim.Adam(lr=0.01), backend="interpreter", seed=3)
    whole.fit((xs, ys), epochs, progress=False)
    assert again.steps == whole.steps
    for name, array in whole.parameters().items():
        np.testing.assert_array_equal(array, again.parameters()[name])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_memory_budget(backend: str) -> None:
    """Activations that are computed again: the same losses in less memory."""
    g = GraphBuilder()
    x = g.placeholder("x", (BATCH, 512))
    for index in range(6):
        x = g.tanh(g.matmul(g.sigmoid(x), g.constant(random(512, 512, seed=index) / 20, f"w{index}")))
    g.save(x, "y")
    inputs, labels = random(BATCH, 512), np.arange(BATCH)
    found: list[tuple[int, list[float]]] = []
    for budget in (None, 1000):
        trainer = Trainer(g, optimizer=optim.SGD(lr=0.1), backend=backend, memory_budget=budget)
        losses = [trainer.step(inputs, labels) for _ in range(3)]
        found.append((trainer.report.arena_bytes, losses))
    (kept, want), (less, got) = found
    assert got == want
    assert less < kept


def test_export(tmp_path: Path) -> None:
    """The trained model as ONNX gives onnxruntime the outputs that the Trainer predicts."""
    import onnxruntime

    trainer = Trainer(mlp(probabilities=True), optimizer=optim.SGD(lr=0.1), backend="interpreter")
    for x, y in data(20):
        loss = trainer.step(x, y)
    path = tmp_path / "trained.onnx"
    trainer.export(path)
    x, y = data(1)[0]
    session = onnxruntime.InferenceSession(str(path))
    (want,) = session.run(None, {"x": x})
    np.testing.assert_allclose(trainer.predict(x), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(glow.compile(trainer.module(), "interpreter")(x), want, rtol=1e-5, atol=1e-6)
    metrics = trainer.evaluate(x[:5], y[:5])
    want_loss = -np.log(want[np.arange(5), y[:5]]).mean()
    assert metrics["loss"] == pytest.approx(want_loss, rel=1e-4)
    assert loss < 1.5


def test_fine_tuning_one_layer() -> None:
    """Only the weights that were asked for change."""
    trainer = Trainer(mlp(), optimizer=optim.SGD(lr=0.1), trainable=["w2", "b?"], backend="interpreter")
    before = trainer.parameters()
    assert sorted(before) == ["b1", "b2", "w2"]
    x, y = data(1)[0]
    trainer.step(x, y)
    assert all((trainer.parameters()[n] != a).any() for n, a in before.items())


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_dropout(backend: str) -> None:
    """A network with dropout trains, differs from step to step, and predicts without it."""
    g = GraphBuilder()
    x = g.placeholder("x", (BATCH, 6))
    w1, w2 = g.constant(random(6, 32, seed=1), "w1"), g.constant(random(32, 4, seed=2), "w2")
    hidden = g.dropout(g.relu(g.matmul(x, w1)), ratio=0.4, seed=3)
    g.save(g.matmul(hidden, w2), "y")
    trainer = Trainer(g, optimizer=optim.SGD(lr=0.0), backend=backend)
    x_data, y = data(1)[0]
    assert len({trainer.step(x_data, y) for _ in range(5)}) == 5
    want = np.maximum(x_data @ random(6, 32, seed=1), 0) @ random(32, 4, seed=2)
    np.testing.assert_allclose(trainer.predict(x_data), want, rtol=1e-4, atol=1e-5)
    other = Trainer(g, optimizer=optim.SGD(lr=0.0), backend="interpreter")
    assert other.step(x_data, y) == pytest.approx(Trainer(g, backend=backend).step(x_data, y), rel=1e-5)


def test_regression_root() -> None:
    """The gradient that starts at a regression is output - expected."""
    g = GraphBuilder()
    x = g.placeholder("x", (2, 3))
    g.save(x * g.constant(np.ones((2, 3), np.float32), "w"), "y")
    trainer = Trainer(g, "regression", optim.SGD(lr=0.5), backend="interpreter")
    data, expected = random(2, 3), random(2, 3, seed=1)
    loss = trainer.step(data, expected)
    assert loss == pytest.approx(((data - expected) ** 2).mean(), rel=1e-5)
    np.testing.assert_allclose(
        trainer.parameters()["w"], 1 - 0.5 * (data - expected) * data, rtol=1e-5, atol=1e-6
    )


def test_bad_labels() -> None:
    """Labels out of range, of another shape or type."""
    trainer = Trainer(mlp(), backend="interpreter")
    x, y = data(1)[0]
    for labels, message in [
        (np.where(np.arange(BATCH) == 3, 4, y), r"label 4 at \[3\] is out of range: there are 4 classes"),
        (y - 10, "out of range"),
        (y[:-1], "labels have shape"),
        (y.astype(np.float32), "expected integers"),
    ]:
        with pytest.raises(BindingError, match=message):
            trainer.step(x, labels)
    with pytest.raises(BindingError, match="has shape"):
        trainer.step(x[:, :3], y)
    assert trainer.steps == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_loss_that_is_not_finite() -> None:
    """The step is named; with detect_anomaly also the operator, and nothing is lost."""
    x, y = data(1)[0]
    huge = optim.SGD(lr=1e38)
    trainer = Trainer(mlp(), optimizer=huge, backend="interpreter")
    with pytest.raises(GlowError, match="loss is (nan|inf) at step [12]"):
        for _ in range(3):
            trainer.step(x, y)
    careful = Trainer(mlp(), optimizer=optim.SGD(lr=0.1), backend="interpreter", detect_anomaly=True)
    before = careful.parameters()
    with pytest.raises(GlowError, match=r"step 0: glow\.\w+.* is the first whose result is not finite"):
        careful.step(np.full_like(x, 3e38), y)
    for name, array in careful.parameters().items():
        np.testing.assert_array_equal(array, before[name])


def test_not_differentiable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator in the way is named."""
    monkeypatch.delattr(MaxPoolBackwardOp, "backward")
    g = GraphBuilder()
    w = g.trainable(random(1, 2, 4, 4), "w")
    twice = g.one(MaxPoolBackwardOp, w, w, kernel=(1, 1))
    g.save(twice + w, "y")
    with pytest.raises(NotDifferentiableError, match=r"glow\.max_pool_backward") as caught:
        Trainer(g, "mse", backend="interpreter")
    assert len(caught.value.ops) == 1


def test_second_derivative_of_a_pool() -> None:
    """max_pool's gradient is differentiated: the gradient of sum(c max_pool_backward(x, w)) by w."""
    g, c = GraphBuilder(), random(1, 2, 4, 4, seed=1)
    x = g.placeholder("x", (1, 2, 4, 4))
    w = g.trainable(random(1, 2, 2, 2, seed=2), "w")
    spread = g.one(MaxPoolBackwardOp, x, w, kernel=(2, 2), strides=(2, 2))
    g.save(g.reduce_sum(spread * g.constant(c), axes=(0, 1, 2, 3), keepdims=False), "y")
    trainer = Trainer(g, "mse", optim.SGD(lr=1.0))
    values, before = random(1, 2, 4, 4, seed=3), trainer.parameters()["w"]
    trainer.step(values, np.zeros((), np.float32))
    rows = values.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 2, 4)
    factors = c.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 2, 2, 2, 4)
    chosen = np.take_along_axis(factors, rows.argmax(-1)[..., None], -1)[..., 0]
    want = before - 2 * (before * chosen).sum() * chosen
    np.testing.assert_allclose(trainer.parameters()["w"], want, rtol=1e-4, atol=1e-5)


def test_steps_in_the_way() -> None:
    """Operators that are flat wherever they have a slope are named where nothing goes around them."""
    g = GraphBuilder()
    w = g.trainable(random(2, 3), "w")
    g.save(g.floor(w) * g.sign(w + 1.0), "y")
    with pytest.raises(NotDifferentiableError) as caught:
        Trainer(g, "mse", backend="interpreter")
    assert [name.split()[0] for name in caught.value.ops] == ["glow.floor", "glow.sign"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trainer(mlp(), "hinge"), "no loss 'hinge'"),
        (lambda: Trainer(mlp(), loss_options={"smooth": 1}), "no option 'smooth'"),
        (lambda: Trainer(mlp(), output="z"), "no output 'z'"),
        (lambda: Trainer(mlp(), trainable=["v*"]), r"no constant matches 'v\*'"),
        (lambda: Trainer(mlp(), batch=9, backend="interpreter"), "a batch of 8, not 9"),
        (lambda: optim.SGD(lr=-1), "lr is -1"),
        (lambda: Trainer(mlp(), batch=0), "batch is 0"),
        (lambda: Trainer(mlp(), optimizer="sgd"), "optimizer is 'sgd'"),  # pyright: ignore
        (lambda: optim.SGD(lr=1, nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.SGD(lr=1, momentum=-0.9), "momentum is -0.9"),
    ],
)
def test_bad_arguments(make: Callable[[], object], message: str) -> None:
    """Arguments that do not fit are named."""
    with pytest.raises(GlowError, match=message):
        make()
