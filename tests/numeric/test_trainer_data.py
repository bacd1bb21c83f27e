"""The Trainer's data: loaders, generators, smaller batches, several inputs; losses' options and groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_export import exported

import glow_compiler as glow
from glow_dialects.core.errors import BindingError, GlowError
from glow_dialects.core.sample import random
from glow_dialects.core.types import Array

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
BATCH, CLASSES = 8, 4


def network() -> Any:
    """6 -> 16 -> 4 with batch normalisation."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))


def samples(count: int) -> tuple[Array, Array]:
    """Clusters of four centres."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, count)
    centres = rng.normal(size=(CLASSES, 6))
    return (centres[labels] + 0.3 * rng.normal(size=(count, 6))).astype(np.float32), labels


def trainer_of(net: Any, backend: str = "interpreter", **options: Any) -> glow.Trainer:
    """A Trainer of the exported network."""
    model = exported(net, torch.zeros(BATCH, 6))
    options.setdefault("optimizer", glow.optim.SGD(lr=0.1))
    return glow.Trainer(model, batch=BATCH, backend=backend, **options)


def peer_steps(net: Any, batches: Any, optimizer: Any = None, loss: Any = F.cross_entropy) -> list[float]:
    """The losses of the same steps in PyTorch."""
    chosen = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    found: list[float] = []
    for x, y in batches:
        chosen.zero_grad()
        value = loss(net(torch.as_tensor(x)), torch.as_tensor(y))
        value.backward()
        chosen.step()
        found.append(value.item())
    return found


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_loader_with_a_smaller_last_batch(backend: str) -> None:
    """A DataLoader's tensors; its last batch has five samples. Losses and running averages as PyTorch's."""
    net, (x, y) = network(), samples(2 * BATCH + 5)
    trainer = trainer_of(net, backend)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=BATCH
    )
    history = trainer.fit(loader, 3, validation=loader, progress=False)
    for figures in history:
        losses = peer_steps(net, loader)
        want = np.average(losses, weights=[BATCH, BATCH, 5])
        assert figures["loss"] == pytest.approx(want, rel=1e-4)
    assert trainer.steps == 9
    net.eval()
    with torch.no_grad():
        scores = net(torch.tensor(x))
    np.testing.assert_allclose(trainer.predict(x), scores.numpy(), rtol=1e-3, atol=1e-4)
    assert history[-1]["validation_loss"] == pytest.approx(
        F.cross_entropy(scores, torch.tensor(y)).item(), rel=1e-3
    )
    assert history[-1]["validation_accuracy"] == pytest.approx((scores.argmax(1).numpy() == y).mean())


def test_arrays_with_the_rest() -> None:
    """Every sample of arrays is trained on, but with `drop_last`."""
    trainer, (x, y) = trainer_of(network()), samples(BATCH + 3)
    trainer.fit((x, y), 2, progress=False)
    assert trainer.steps == 4
    trainer.fit((x, y), 2, drop_last=True, progress=False)
    assert trainer.steps == 6


def test_generators() -> None:
    """A function of the epoch makes each epoch's batches; a generator ends, which is said."""
    x, y = samples(2 * BATCH)
    seen: list[int] = []

    def made(epoch: int) -> Iterator[tuple[Array, Array]]:
        seen.append(epoch)
        yield x[:BATCH], y[:BATCH]
        yield x[BATCH:], y[BATCH:]

    trainer = trainer_of(network())
    trainer.fit(made, 3, progress=False)
    assert seen == [0, 1, 2]
    assert trainer.steps == 6
    with pytest.raises(GlowError, match="generators end with an epoch"):
        trainer.fit(made(9), 2, progress=False)
    with pytest.raises(GlowError, match=r"gave a ndarray where a batch \(inputs, labels\) is expected"):
        trainer.fit([x[:BATCH], y[:BATCH]], 1, progress=False)


@pytest.mark.slow
def test_resume_in_a_loader(tmp_path: Path) -> None:
    """A training over batches of two sizes that stopped goes on with the same numbers."""
    x, y = samples(2 * BATCH + 3)
    data = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    path, recipe = tmp_path / "training.safetensors", glow.optim.Adam(lr=0.01)
    whole = trainer_of(network(), optimizer=recipe)
    whole.fit(data, 3, progress=False)
    broken = trainer_of(network(), optimizer=recipe)

    def failing(epoch: int) -> Iterator[tuple[Array, Array]]:
        for place, item in enumerate(data):
            if (epoch, place) == (1, 2):
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        broken.fit(failing, 3, checkpoint=path, every=1, progress=False)
    again = trainer_of(network(), optimizer=recipe)
    again.fit(data, 3, checkpoint=path, progress=False)
    for name, array in whole.state.items():
        np.testing.assert_array_equal(array, again.state[name])


def test_smaller_last_batches_that_do_not_fit() -> None:
    """Where the model mixes samples they are left out, and refused where all samples are asked for."""
    x, y = samples(2 * BATCH + 3)
    data = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    g = glow.GraphBuilder()
    w = g.constant(random(BATCH, BATCH, seed=1), "w")
    mixed = g.matmul(w, g.placeholder("x", (BATCH, 6)))
    g.save(g.matmul(mixed, g.constant(random(6, CLASSES), "v")), "y")
    fixed = glow.Trainer(g, backend="interpreter")
    fixed.fit(data, 2, progress=False)
    assert fixed.steps == 4
    with pytest.raises(BindingError, match="a batch of 3 samples"):
        fixed.fit(data[::-1], 1, progress=False)
    with pytest.raises(BindingError, match="a batch of 3 samples"):
        fixed.fit(data, 1, drop_last=False, progress=False)


def test_statistics_of_one_sample() -> None:
    """A last batch of one sample is left out by a normalisation of the batch, and refused by a step."""
    trainer, (x, y) = trainer_of(network()), samples(BATCH + 1)
    trainer.fit((x, y), 2, progress=False)
    assert trainer.steps == 2
    with pytest.raises(BindingError, match="a batch of 1 samples: .* one value for each channel"):
        trainer.step(x[:1], y[:1])


def test_several_inputs() -> None:
    """Numbers of words and features, in the model's order or by name; a loader's triples."""

    class Two(nn.Module):
        """An embedding beside features."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(10, CLASSES)

        def forward(self, words: Any, x: Any) -> Any:
            """Scores."""
            return self.head(torch.cat([self.words(words), x], 1))

    torch.manual_seed(0)
    net, (x, y) = Two(), samples(BATCH)
    words = np.arange(BATCH) % 9
    model = exported(net, torch.tensor(words), torch.tensor(x))
    trainer = glow.Trainer(model, optimizer=glow.optim.SGD(lr=0.1), batch=BATCH, backend="interpreter")
    losses = [trainer.step([words, x], y), trainer.step({"x0": words, "x1": x}, y)]
    losses += [trainer.fit([(torch.tensor(words), x, y)], 1, progress=False)[0]["loss"]]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for loss in losses:
        optimizer.zero_grad()
        want = F.cross_entropy(net(torch.tensor(words), torch.tensor(x)), torch.tensor(y))
        want.backward()
        optimizer.step()
        assert loss == pytest.approx(want.item(), rel=1e-5)
    with pytest.raises(BindingError, match="the model has 2 inputs: x0, x1"):
        trainer.step(x, y)


def test_metrics() -> None:
    """Figures of one's own beside the loss; labels to ignore count for none."""
    trainer, (x, y) = trainer_of(network(), loss_options={"ignore_index": -1}), samples(BATCH)
    y = y.copy()
    y[:3] = -1
    history = trainer.fit(
        (x, y), 1, validation=(x, y), metrics={"rows": lambda out, labels: len(out)}, progress=False
    )
    assert history[0]["validation_rows"] == BATCH
    right = trainer.predict(x).argmax(1) == y
    assert history[0]["validation_accuracy"] == pytest.approx(right[3:].mean())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"label_smoothing": 0.1}, {"label_smoothing": 0.1}),
        ({"weights": [1.0, 2.0, 0.5, 3.0]}, {"weight": torch.tensor([1.0, 2.0, 0.5, 3.0])}),
        ({"ignore_index": 2}, {"ignore_index": 2}),
        (
            {"weights": [1.0, 2.0, 0.5, 3.0], "label_smoothing": 0.2, "ignore_index": 1, "reduction": "sum"},
            {
                "weight": torch.tensor([1.0, 2.0, 0.5, 3.0]),
                "label_smoothing": 0.2,
                "ignore_index": 1,
                "reduction": "sum",
            },
        ),
    ],
)
def test_options_of_cross_entropy(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Smoothing, class weights, labels to ignore, together too: twenty steps as in PyTorch."""
    net, (x, y) = network(), samples(BATCH)
    rate = 0.01 if "reduction" in ours else 0.1
    trainer = trainer_of(net, loss_options=ours, optimizer=glow.optim.SGD(lr=rate))
    got = [trainer.step(x, y) for _ in range(20)]
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    want = peer_steps(net, [(x, y)] * 20, optimizer, lambda a, b: F.cross_entropy(a, b, **theirs))
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_groups() -> None:
    """Biases without decay, a head that learns faster: PyTorch's parameter groups."""
    net, (x, y) = network(), samples(BATCH)
    groups = {"*.bias": {"weight_decay": 0.0}, "3.*": {"lr_scale": 10.0}}
    trainer = trainer_of(
        net, optimizer=glow.optim.AdamW(glow.optim.exponential(0.01, 0.9), weight_decay=0.1, groups=groups)
    )
    got = [trainer.step(x, y) for _ in range(20)]
    biases = [p for n, p in net.named_parameters() if n.endswith("bias")]
    head = [p for n, p in net.named_parameters() if n == "3.weight"]
    others = [p for n, p in net.named_parameters() if n in ("0.weight", "1.weight")]
    optimizer = torch.optim.AdamW(
        [
            {"params": biases, "weight_decay": 0.0},
            {"params": head, "lr": 0.1},
            {"params": others},
        ],
        lr=0.01,
        weight_decay=0.1,
    )
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    want: list[float] = []
    for _ in range(20):
        want += peer_steps(net, [(x, y)], optimizer)
        scheduler.step()
    np.testing.assert_allclose(got, want, rtol=1e-4)
    with pytest.raises(GlowError, match=r"no weight matches the group 'z\*'"):
        trainer_of(network(), optimizer=glow.optim.SGD(0.1, groups={"z*": {"lr_scale": 2.0}}))
    with pytest.raises(GlowError, match="group 'w' sets 'lr'"):
        glow.optim.SGD(0.1, groups={"w": {"lr": 2.0}})


def test_weights_that_the_loss_does_not_reach() -> None:
    """They keep their values, decay or not; asking for them alone is refused."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (BATCH, 6))
    used, other = g.constant(random(6, 4), "used"), g.constant(random(6, 3), "other")
    g.save(g.matmul(x, other), "aside")
    g.save(g.matmul(x, used), "y")
    recipe = glow.optim.AdamW(lr=0.1, weight_decay=0.5)
    trainer = glow.Trainer(g, optimizer=recipe, backend="interpreter")
    assert trainer.graph.unreached == ("other",)
    trainer.step(*samples(BATCH))
    np.testing.assert_array_equal(trainer.parameters()["other"], random(6, 3))
    with pytest.raises(GlowError, match="no gradient of output 'y' reaches 'other'"):
        glow.Trainer(g, optimizer=recipe, trainable=["used", "other"], backend="interpreter")
    with pytest.raises(GlowError, match="no gradient reaches any of @other"):
        glow.Trainer(g, optimizer=recipe, trainable=["other"], backend="interpreter")


def test_outputs_of_sequences_first() -> None:
    """A model whose output has more rows than its input has places: prediction and validation work."""

    class Words(nn.Module):
        """A GRU over numbers of words, with a score at every place."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.gru, self.head = nn.Embedding(9, 4), nn.GRU(4, 5), nn.Linear(5, 9)

        def forward(self, x: Any) -> Any:
            """Scores [T N, 9]."""
            return self.head(self.gru(self.words(x))[0].reshape(-1, 5))

    torch.manual_seed(0)
    net, words = Words(), np.arange(20).reshape(5, 4) % 9
    trainer = glow.Trainer(exported(net, torch.tensor(words), symbolic=False), backend="interpreter")
    labels = (words.reshape(-1) + 1) % 9
    trainer.fit([(words, labels)], 2, validation=[(words, labels)], progress=False)
    assert trainer.predict(words).shape == (20, 9)


@pytest.mark.slow
def test_list_of_one() -> None:
    """A list of one array is the inputs of a model with one; the only row of a batch is a row."""
    x, y = samples(BATCH)
    steps = [trainer_of(network()).step(inputs, y) for inputs in (x, [x], (x,), {"x0": x})]
    assert len(set(steps)) == 1
    builder = glow.GraphBuilder()
    builder.save(builder.matmul(builder.placeholder("x", (1, 6)), builder.constant(x[:6, :4], "w")), "y")
    trainer = glow.Trainer(builder, backend="interpreter", trainable=["w"])
    assert trainer.predict([x[0]]).shape == (1, 4)
