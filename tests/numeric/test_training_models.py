"""Twenty steps of whole networks of many kinds, imported from ONNX, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Characters(nn.Module):
    """A GRU in both directions over embedded characters, a score of each place."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(20, 12), nn.GRU(12, 16, num_layers=2, bidirectional=True)
        self.head = nn.Linear(32, 20)

    def forward(self, x: Any) -> Any:
        """Scores [T N, 20] of [T, N]."""
        return self.head(self.gru(self.embedding(x))[0].reshape(-1, 32))


class Bag(nn.Module):
    """The mean of embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(30, 8, mode="mean"), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Scores of [N, words]."""
        return self.head(self.bag(x))


class Inverted(nn.Module):
    """MobileNet's block: expand, a filter for each channel, project."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.same = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Any) -> Any:
        """With the input added where shapes allow."""
        return x + self.layers(x) if self.same else self.layers(x)


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Any) -> Any:
        """x scaled by channels."""
        return x * F.hardsigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class UNet(nn.Module):
    """One level: group normalisation, pooling, bilinear enlargement, a skip connection."""

    def __init__(self) -> None:
        super().__init__()

        def layer(inputs: int, outputs: int) -> Any:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, 1, 1), nn.GroupNorm(2, outputs), nn.SiLU())

        self.first, self.second, self.third = layer(1, 8), layer(8, 16), layer(24, 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x: Any) -> Any:
        """Scores of 3 classes at each place."""
        a = self.first(x)
        b = F.interpolate(self.second(F.max_pool2d(a, 2)), scale_factor=2, mode="bilinear")
        return self.head(self.third(torch.cat([a, b], 1)))


class Patches(nn.Module):
    """ConvNeXt's block: patches, wide depthwise filters, layer normalisation over channels, layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.filters = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.scale = nn.LayerNorm(8), nn.Parameter(torch.full((8,), 0.1))
        self.up, self.down, self.head = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Scores of images."""
        x = self.patches(x)
        y = self.down(F.gelu(self.up(self.norm(self.filters(x).permute(0, 2, 3, 1))))) * self.scale
        return self.head((x + y.permute(0, 3, 1, 2)).mean((2, 3)))


class Signals(nn.Module):
    """One axis: dilation, instance normalisation, reflected pads, groups, pools."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(4, 8, 3, dilation=2, padding=2), nn.InstanceNorm1d(8, affine=True)
        self.second, self.head = nn.Conv1d(8, 8, 3, padding=1, groups=4), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Scores of signals."""
        x = F.pad(F.elu(self.norm(self.first(x))), (1, 1), mode="reflect")
        x = F.avg_pool1d(F.leaky_relu(self.second(x)), 2)
        return self.head(F.adaptive_max_pool1d(x, 1).flatten(1))


class Operators(nn.Module):
    """Running sums, choices, orders, norms and products on the way to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 12))
        self.second, self.slope, self.head = nn.Parameter(torch.randn(12, 4)), nn.PReLU(4), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Scores of rows."""
        y = self.first(x)
        z = self.slope(torch.einsum("nk,kj->nj", y.cumsum(1), self.second))
        parts = [
            torch.topk(z, 2, dim=1)[0],
            torch.where(y > 0, y, y.exp() - 1).amax(1, keepdim=True),
            y.std(1, keepdim=True),
            F.normalize(y.clamp(-1, 1), dim=1).norm(dim=1, keepdim=True),
            torch.logsumexp(z, 1, keepdim=True),
            z.abs().log1p().min(1, keepdim=True)[0],
            (1 + 0.1 * z).prod(1, keepdim=True),
        ]
        return self.head(torch.cat(parts, 1))


def autoencoder() -> Any:
    """Strided convolutions and transposed ones back."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(6, 12, 3, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(12, 6, 3, 2, 1, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 1, 3, 2, 1, output_padding=1),
        nn.Sigmoid(),
    )


def mobile() -> Any:
    """Two inverted blocks and a gate."""
    return nn.Sequential(
        *(Inverted(3, 8, 2), Inverted(8, 8, 1), Gate(8), nn.Hardswish()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)),
    )


def activations() -> Any:
    """Activations that have a gradient of their own."""
    return nn.Sequential(
        *(nn.Linear(6, 8), nn.SELU(), nn.BatchNorm1d(8), nn.CELU(0.5), nn.Linear(8, 8), nn.Softsign()),
        *(nn.Linear(8, 8), nn.LogSigmoid(), nn.Mish(), nn.GLU(), nn.Linear(4, 3)),
    )


def volumes() -> Any:
    """Three axes."""
    return nn.Sequential(
        *(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.Softplus()),
        *(nn.MaxPool3d(2), nn.Flatten(), nn.Linear(32, 3)),
    )


def segments() -> Any:
    """Three axes down and up again: strides, dilation, groups, overlapping pools, transposed filters."""
    return nn.Sequential(
        *(nn.Conv3d(2, 4, (3, 1, 3), (1, 1, 2), (1, 0, 1)), nn.ELU(), nn.AvgPool3d(3, (2, 1, 1), 1)),
        *(nn.Conv3d(4, 8, 3, padding=2, dilation=2, groups=2), nn.Tanh(), nn.MaxPool3d(3, 2, 1)),
        *(nn.ConvTranspose3d(8, 4, 3, (2, 1, 2), 1, output_padding=(1, 0, 1), groups=2), nn.Tanh()),
        nn.ConvTranspose3d(4, 3, (2, 4, 2), (2, 3, 1)),
    )


def normal(*shape: int) -> Any:
    """Random numbers."""
    return torch.randn(*shape)


def classes(count: int, most: int = 3) -> Any:
    """Labels."""
    return torch.arange(count) % most


Case = tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any], str]
CROSS, BINARY = "cross_entropy", "binary_cross_entropy"
NETWORKS: dict[str, Case] = {
    "characters": (Characters, lambda: torch.randint(0, 20, (6, 4)), lambda: classes(24, 20), CROSS),
    "bag": (Bag, lambda: torch.randint(0, 30, (4, 6)), lambda: classes(4), CROSS),
    "autoencoder": (autoencoder, lambda: normal(4, 1, 16, 16), lambda: torch.rand(4, 1, 16, 16), "mse"),
    "pixels": (autoencoder, lambda: normal(4, 1, 16, 16), lambda: torch.rand(4, 1, 16, 16), BINARY),
    "mobile": (mobile, lambda: normal(4, 3, 16, 16), lambda: classes(4), CROSS),
    "unet": (UNet, lambda: normal(2, 1, 16, 16), lambda: torch.randint(0, 3, (2, 16, 16)), CROSS),
    "patches": (Patches, lambda: normal(4, 3, 16, 16), lambda: classes(4), CROSS),
    "signals": (Signals, lambda: normal(4, 4, 12), lambda: classes(4), CROSS),
    "operators": (Operators, lambda: normal(4, 6), lambda: normal(4, 3), "huber"),
    "activations": (activations, lambda: normal(5, 6), lambda: normal(5, 3), "l1"),
    "segments": (segments, lambda: normal(2, 2, 6, 5, 7), lambda: normal(2, 3, 8, 10, 5), "mse"),
    "volumes": (volumes, lambda: normal(4, 2, 4, 4, 4), lambda: classes(4), CROSS),
}
PEERS = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "huber": F.huber_loss,
    "l1": F.l1_loss,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    """Every loss, and the outputs of inference after twenty steps."""
    from torch_export import exported_for_training

    torch.manual_seed(0)
    make, inputs, labels, loss = NETWORKS[name]
    net, x, y = make(), inputs(), labels()
    net.eval()
    model = exported_for_training(net, x)
    net.train()
    trainer = glow.Trainer(model, loss, glow.optim.SGD(lr=0.02, momentum=0.9))
    assert len(trainer.parameters()) >= len(list(net.parameters()))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        value = PEERS[loss](net(x), y)
        value.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), y.numpy()) == pytest.approx(value.item(), rel=1e-3, abs=1e-6)
    net.eval()
    with torch.no_grad():
        want = net(x).numpy()
    np.testing.assert_allclose(trainer.predict(x.numpy()), want, rtol=1e-2, atol=1e-3)
