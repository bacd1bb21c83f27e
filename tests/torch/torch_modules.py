"""Small PyTorch networks of many kinds, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Any) -> Any:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + x)


def resnet(width: int = 8, blocks: int = 2) -> nn.Module:
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(*stem, *(Residual(width) for _ in range(blocks)), *head)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: Any) -> Any:
        top = F.silu(self.down(x))
        low = F.leaky_relu(self.norm(self.middle(top)), 0.2)
        low = F.interpolate(F.avg_pool2d(low, 2), scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(torch.cat([top, self.up(low)], 1))


class Graphs(nn.Module):
    """Messages along edges, added up at their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: Any, edges: Any) -> Any:
        def spread(h: Any) -> Any:
            degree = torch.zeros(h.shape[0]).index_add(0, edges[1], torch.ones(edges.shape[1]))
            summed = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
            return summed / degree.clamp(min=1)[:, None]

        return spread(self.second(F.elu(spread(self.first(x))))).log_softmax(-1)


class Capsules(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 5) / 3)

    def forward(self, x: Any) -> Any:
        votes = torch.einsum("bid,ijdk->bijk", x, self.weight.permute(0, 1, 3, 2))
        logits = torch.zeros_like(votes[..., 0])
        for _ in range(3):
            poses = (logits.softmax(2)[..., None] * votes).sum(1)
            square = (poses * poses).sum(-1, keepdim=True)
            poses = poses * square / (1 + square) / (square + 1e-8).sqrt()
            logits = logits + (votes * poses[:, None]).sum(-1)
        return poses.norm(dim=-1)


class Scan(nn.Module):
    """A state-space layer whose steps depend on its input, as in Mamba."""

    def __init__(self) -> None:
        super().__init__()
        self.proj, self.out = nn.Linear(6, 6 + 8), nn.Linear(6, 6)
        self.conv = nn.Conv1d(6, 6, 3, padding=2, groups=6)
        self.log_a = nn.Parameter(torch.randn(6, 4))

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        h = F.silu(self.conv(x.transpose(1, 2))[..., :length]).transpose(1, 2)
        step, b, c = self.proj(h).split([6, 4, 4], -1)
        step = F.softplus(step)
        decay = torch.exp(-step[..., None] * self.log_a.exp())
        state, out = torch.zeros_like(decay[:, 0]), []
        for t in range(length):
            state = state * decay[:, t] + (step * h)[:, t, :, None] * b[:, t, None]
            out.append((state * c[:, t, None]).sum(-1))
        return self.out(torch.stack(out, 1))


class Quantiser(nn.Module):
    """A VQ-VAE: the nearest code of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Conv2d(3, 4, 4, 2, 1), nn.ConvTranspose2d(4, 3, 4, 2, 1)
        self.codes = nn.Embedding(16, 4)

    def forward(self, x: Any) -> Any:
        z = self.encode(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 4)
        distance = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.codes.weight.t()
            + self.codes.weight.pow(2).sum(1)
        )
        codes = distance.argmin(1)
        return {
            "image": self.decode(self.codes(codes).view(z.shape).permute(0, 3, 1, 2)).tanh(),
            "codes": codes,
        }


class Rotary(nn.Module):
    """Causal attention with rotary positions and fewer heads of keys than of queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.norm = nn.RMSNorm(32)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(batch, length, 4, 8).transpose(1, 2)
        k, v = self.kv(h).view(batch, length, 2, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, 8, 2) / 8)
        cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))

        def turned(t: Any) -> Any:
            left, right = t.chunk(2, -1)
            return t * cos + torch.cat([-right, left], -1) * sin

        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, 32))


class Field(nn.Module):
    """A NeRF: colours along rays, by their densities."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(39, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origins: Any, directions: Any) -> Any:
        depth = torch.linspace(0, 1, 16)
        points = origins[:, None] + directions[:, None] * depth[:, None]
        waves = points[..., None] * 2.0 ** torch.arange(6)
        code = torch.cat([points, waves.sin().flatten(-2), waves.cos().flatten(-2)], -1)
        colour, density = self.net(code).split([3, 1], -1)
        alpha = 1 - torch.exp(-F.relu(density[..., 0]) / 16)
        seen = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * seen)[..., None] * colour.sigmoid()).sum(1)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.net = kind(5, 7, **options)

    def forward(self, x: Any) -> Any:
        return self.net(x)


class Counting(nn.Module):
    """A buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((4,), 2.0))

    def forward(self, x: Any) -> Any:
        self.total += x
        return self.total * 2


class Written(nn.Module):
    """Parts of tensors written in place."""

    def forward(self, x: Any, places: Any) -> Any:
        y = x.clone()
        y[:, 1:3] = y[:, :2] * 2
        y[places, 0] += 1.0
        y[y > 1] = 0.5
        return torch.where(y.roll(1, 0) > y.flip(1), y, y.triu()).sort(1, descending=True)


def _decoder() -> nn.Module:
    return nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, activation="gelu")


Case = tuple[Callable[[], nn.Module], Callable[[], tuple[Any, ...]], Any]
_N = {0: torch.export.Dim.DYNAMIC}
_NT = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
_EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])

#: Network, example inputs and open sizes, by name.
CASES: dict[str, Case] = {
    "resnet": (resnet, lambda: (torch.randn(2, 3, 32, 32),), (_N,)),
    "unet": (UNet, lambda: (torch.randn(2, 3, 16, 16),), (_N,)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True),
        lambda: (torch.randn(2, 5, 16),),
        (_NT,),
    ),
    "decoder": (_decoder, lambda: (torch.randn(2, 5, 16), torch.randn(2, 7, 16)), (_N, _N)),
    "lstm": (
        lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True),
        lambda: (torch.randn(6, 3, 5),),
        ({1: torch.export.Dim.DYNAMIC},),
    ),
    "gru": (lambda: Recurrent(nn.GRU, batch_first=True), lambda: (torch.randn(3, 6, 5),), (_N,)),
    "rnn": (
        lambda: Recurrent(nn.RNN, nonlinearity="relu", bias=False),
        lambda: (torch.randn(6, 3, 5),),
        None,
    ),
    "graphs": (Graphs, lambda: (torch.randn(6, 5), _EDGES), (_N, {1: torch.export.Dim.DYNAMIC})),
    "capsules": (Capsules, lambda: (torch.randn(2, 6, 5),), (_N,)),
    "scan": (Scan, lambda: (torch.randn(2, 9, 6),), (_N,)),
    "quantiser": (Quantiser, lambda: (torch.randn(2, 3, 16, 16),), (_N,)),
    "rotary": (Rotary, lambda: (torch.randn(2, 6, 32),), (_NT,)),
    "field": (Field, lambda: (torch.randn(5, 3), torch.randn(5, 3)), (_N, _N)),
    "written": (Written, lambda: (torch.randn(5, 5), torch.tensor([0, 3, -1])), None),
}
