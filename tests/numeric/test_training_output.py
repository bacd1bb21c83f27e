"""Models that compute their own loss, against PyTorch: sampling, pairs of inputs, two players."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import GlowError

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def exported(net: Any, inputs: tuple[Any, ...]) -> onnx.ModelProto:
    """The network in a file that any number of samples fits."""
    file = io.BytesIO()
    names = [f"x{i}" for i, _ in enumerate(inputs)]
    axes = {name: {0: "batch"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, inputs, file, dynamo=False, input_names=names, dynamic_axes=axes)
    return onnx.load_from_string(file.getvalue())


class Variational(nn.Module):
    """An autoencoder that samples, its noise an input: reconstruction and divergence."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 10))

    def forward(self, x: Any, noise: Any) -> Any:
        """The loss."""
        mean, spread = self.encoder(x).chunk(2, -1)
        made = self.decoder(mean + noise * torch.exp(0.5 * spread))
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(-1).mean()
        return functional.mse_loss(made, x) + 0.1 * divergence


class Contrast(nn.Module):
    """Two views of each sample by one network; each has to find the other among all."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 6))

    def forward(self, one: Any, other: Any) -> Any:
        """The loss, InfoNCE in both directions."""
        a, b = functional.normalize(self.body(one)), functional.normalize(self.body(other))
        scores = a @ b.T / 0.2
        pairs = torch.eye(scores.shape[0])
        losses = [-(functional.log_softmax(s, 1) * pairs).sum(1).mean() for s in (scores, scores.T)]
        return (losses[0] + losses[1]) / 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize(("kind", "width"), [(Variational, 4), (Contrast, 10)])
def test_own_loss(kind: Any, width: int, backend: str, tmp_path: Path) -> None:
    """Losses and weights of ten steps are PyTorch's; epochs, checkpoints and evaluation need no labels."""
    torch.manual_seed(0)
    net, rng = kind(), np.random.default_rng(0)
    a = rng.standard_normal((40, 10), dtype=np.float32)
    b = rng.standard_normal((40, width), dtype=np.float32)
    model = exported(net, (torch.tensor(a[:8]), torch.tensor(b[:8])))

    def made() -> glow.Trainer:
        return glow.Trainer(model, "output", glow.optim.Adam(lr=0.01), batch=8, backend=backend)

    trainer, adam = made(), torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(10):
        part = slice(step % 5 * 8, step % 5 * 8 + 8)
        adam.zero_grad()
        loss = net(torch.tensor(a[part]), torch.tensor(b[part]))
        loss.backward()
        adam.step()
        assert trainer.step([a[part], b[part]]) == pytest.approx(loss.item(), rel=1e-4)
    known = trainer.parameters()
    for name, weight in net.named_parameters():
        found = known.get(name)
        if found is not None:
            np.testing.assert_allclose(found, weight.detach().numpy(), rtol=1e-3, atol=1e-5)
    parts = [net(torch.tensor(a[i : i + 8]), torch.tensor(b[i : i + 8])).item() for i in range(0, 40, 8)]
    assert trainer.evaluate([a, b]) == {"loss": pytest.approx(np.mean(parts), rel=1e-4)}

    path = tmp_path / "state"
    data = ({"x0": a, "x1": b}, None)
    history = trainer.fit(data, 2, validation=data, checkpoint=path, progress=False)
    assert history[1]["validation_loss"] < history[0]["validation_loss"] < np.mean(parts)
    again = made()
    again.load(path)
    more = [t.fit(data, 1, progress=False)[0]["loss"] for t in (trainer, again)]
    assert more[0] == more[1]


def test_two_players() -> None:
    """A generator and a discriminator in turn: a network for each loss, the other's weights at rate zero."""
    torch.manual_seed(0)

    class Game(nn.Module):
        """What a player wants: a discriminator to tell noise from data, a generator that it does not."""

        def __init__(self, generator: Any, judge: Any, fools: bool) -> None:
            super().__init__()
            self.generator, self.judge, self.fools = generator, judge, fools

        def forward(self, noise: Any, real: Any) -> Any:
            """The player's loss."""
            made = self.judge(self.generator(noise))
            if self.fools:
                return functional.softplus(-made).mean() + 0 * real.mean()
            return functional.softplus(made).mean() + functional.softplus(-self.judge(real)).mean()

    generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 5))
    judge = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    noise, real = torch.randn(6, 3), torch.randn(6, 5)
    players: list[tuple[Any, Any, Any, str]] = []
    for fools, mine, others in ((False, judge, "generator.*"), (True, generator, "judge.*")):
        model = exported(Game(copy.deepcopy(generator), copy.deepcopy(judge), fools), (noise, real))
        still = {others: {"lr_scale": 0.0}}
        recipe = glow.optim.Adam(lr=0.05, betas=(0.5, 0.9), groups=still)
        player = glow.Trainer(model, "output", recipe, batch=6, backend="interpreter")
        own = torch.optim.Adam(mine.parameters(), lr=0.05, betas=(0.5, 0.9))
        players.append((player, own, Game(generator, judge, fools), others))
    for step in range(8):
        player, own, game, _ = players[step % 2]
        generator.zero_grad()
        judge.zero_grad()
        loss = game(noise, real)
        loss.backward()
        own.step()
        assert player.step([noise.numpy(), real.numpy()]) == pytest.approx(loss.item(), rel=1e-4)
        moved = player.parameters()
        prefix = "judge." if step % 2 == 0 else "generator."
        mine = {n: w for n, w in moved.items() if n.startswith(prefix)}
        assert mine
        players[1 - step % 2][0].set_parameters(mine)


def test_labels_and_losses_fit() -> None:
    """Labels where there is nothing to compare them with, and none where there is."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 3))
    g.save(g.matmul(x, g.constant(np.ones((3, 2), np.float32), "w")), "y")
    data = np.ones((4, 3), np.float32)
    trainer = glow.Trainer(g, "output", glow.optim.SGD(lr=1.0), backend="interpreter")
    assert trainer.step(data) == 3
    np.testing.assert_allclose(trainer.parameters()["w"], np.full((3, 2), 0.5))
    with pytest.raises(GlowError, match="the model's output is the loss: it takes no labels"):
        trainer.step(data, np.ones((4, 2)))
    with pytest.raises(GlowError, match="loss 'mse' needs labels"):
        glow.Trainer(g, "mse", backend="interpreter").step(data)
    with pytest.raises(GlowError, match="no loss 'output'; there are: .*output .without options."):
        glow.Trainer(g, "output", loss_options={"delta": 1.0}, backend="interpreter")
