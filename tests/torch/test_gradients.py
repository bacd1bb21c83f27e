"""Gradients of operators through torch.compile: those of PyTorch, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

import torch.nn.functional as F  # noqa: E402

Function = Callable[..., Any]
INF = float("inf")
Shape = tuple[int, ...]

POOLS: dict[str, tuple[Function, Shape]] = {
    "avg 1": (lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 11)),
    "avg 2": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 6)),
    "avg 2 overlap": (lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (2, 3, 7, 6)),
    "avg 2 ceil": (lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True), (2, 3, 8, 7)),
    "avg 2 divisor": (lambda x: F.avg_pool2d(x, 3, 2, divisor_override=5), (3, 8, 7)),
    "avg 3": (lambda x: F.avg_pool3d(x, 3, 2, 1), (2, 3, 6, 7, 5)),
    "adaptive avg 2": (lambda x: F.adaptive_avg_pool2d(x, (5, 3)), (2, 3, 7, 9)),
    "adaptive avg 3": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (2, 3, 4, 7, 5)),
    "max 3": (lambda x: F.max_pool3d(x, 2), (2, 3, 4, 6, 4)),
    "adaptive max 2": (lambda x: F.adaptive_max_pool2d(x, 3), (2, 3, 6, 9)),
    "adaptive max 1": (lambda x: F.adaptive_max_pool1d(x, 3), (2, 3, 8)),
    "adaptive max 3": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), (2, 3, 5, 7, 3)),
    "uneven max 2": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), (2, 3, 7, 9)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (3, 7)),
    "replicate 1": (lambda x: F.pad(x, (2, 1), "replicate"), (2, 3, 5)),
    "replicate 2": (lambda x: F.pad(x, (2, 1, 0, 3), "replicate"), (2, 3, 5, 4)),
    "replicate 3": (lambda x: F.pad(x, (1, 1, 0, 2, 1, 0), "replicate"), (1, 2, 3, 4, 3)),
    "median": (lambda x: x.median() + x.median(1)[0].sum() + x.nanmedian(0)[0].sum(), (5, 6)),
    "cummax": (lambda x: x.cummax(1)[0] * x.cummin(0)[0], (5, 6)),
    "masked scatter": (lambda x: (x * 2).masked_scatter(x > 0, x.sin()), (4, 5)),
    "addbmm": (lambda x: torch.addbmm(x, x[None], x[None], beta=0.5, alpha=2), (4, 4)),
}


def _same(function: Function, tensors: list[Any], close: float = 1e-5) -> None:
    """Values and gradients, without what runs in PyTorch."""
    torch._dynamo.reset()
    rows: list[Any] = []
    weights = torch.randn(function(*tensors).shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*in PyTorch, not compiled")
        for call in (function, torch.compile(function, backend="glow")):
            y = call(*tensors)
            rows.append(
                (y.detach(), torch.autograd.grad(y, [t for t in tensors if t.requires_grad], weights))
            )
    torch.testing.assert_close(rows[1], rows[0], rtol=close, atol=close)


@pytest.mark.parametrize("name", POOLS)
def test_of_one(name: str) -> None:
    """Pools, edges and orders."""
    function, shape = POOLS[name]
    torch.manual_seed(0)
    _same(function, [torch.randn(shape, requires_grad=True)])


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, INF])
def test_distances(p: float) -> None:
    """Of few rows and of many, some of them equal."""
    for rows in (4, 30):
        torch.manual_seed(0)
        a, b = torch.randn(2, rows, 5), torch.randn(2, 3, 5)
        if rows == 4:  # by products equal rows are not told from near ones
            b[:, 1] = a[:, 2]
        _same(lambda x, y: torch.cdist(x, y, p=p), [a.requires_grad_(), b.requires_grad_()], 1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("edge", ["zeros", "border", "reflection"])
def test_grids(mode: str, edge: str) -> None:
    """Of what is sampled, and of where."""
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 5, 6, requires_grad=True), torch.rand(2, 4, 3, 2).mul(2.4).sub(1.2)

    def function(x: Any, grid: Any) -> Any:
        return F.grid_sample(x, grid, mode, edge, align_corners=False)

    _same(function, [x, grid.requires_grad_()], 1e-4)


def test_an_optimizer_step() -> None:
    """Adam's step is compiled, too."""
    torch._dynamo.reset()
    rows: list[Any] = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module, x = torch.nn.Linear(6, 4), torch.randn(3, 6)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        step = torch.compile(optimizer.step, backend="glow") if compiled else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            module(x).square().sum().backward()
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*in PyTorch, not compiled")
                step()
        rows.append([p.detach().clone() for p in module.parameters()])
    torch.testing.assert_close(rows[1], rows[0])
