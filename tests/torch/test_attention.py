"""Attention of queries that no key is left to, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

import torch.nn.functional as F  # noqa: E402
from graph_runs import check  # noqa: E402

INF = float("inf")
KINDS = (torch.float32, torch.float16, torch.bfloat16)


def _operands(rows: int, keys: int, kind: Any) -> list[Any]:
    torch.manual_seed(0)
    shapes = [(1, 2, rows, 8), (1, 2, keys, 8), (1, 2, keys, 8)]
    return [torch.randn(s).to(kind) for s in shapes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "keys"), [(2, 9), (40, 33)])
def test_empty_rows(rows: int, keys: int, kind: Any) -> None:
    """Boolean masks and masks of -inf, of pairs and of keys, on both backends; few rows and many."""
    pairs = torch.rand(rows, keys) > 0.4
    pairs[0] = pairs[-1] = False
    left = torch.zeros(1, 1, 1, keys, dtype=kind)
    left[...] = -INF
    masks = [pairs, torch.zeros(rows, keys, dtype=kind).masked_fill(~pairs, -INF), left]

    def function(q: Any, k: Any, v: Any, *masks: Any) -> list[Any]:
        return [F.scaled_dot_product_attention(q, k, v, attn_mask=m) for m in masks]

    for backend in ("cpu", "interpreter"):
        check(function, [*_operands(rows, keys, kind), *masks], backend)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_softmax_of_nothing(backend: str) -> None:
    """_safe_softmax gives 0, the plain one NaN, also as logarithms; NaN and inf stay."""
    rows = torch.tensor([[-INF, -INF], [0, -INF], [np.nan, -INF], [INF, -INF]])

    def function(x: Any) -> list[Any]:
        safe = torch.ops.aten._safe_softmax(x, -1)
        return [safe, safe.log(), torch.softmax(x, 0), torch.softmax(x, -1).log()]

    for kind in KINDS:
        check(function, [rows.to(kind)], backend)


def test_gradients() -> None:
    """The forward tells PyTorch's backward the sums that it expects of empty rows."""
    pairs = torch.rand(9, 4) > 0.5
    pairs[3] = False

    def function(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=pairs)

    found: list[list[Any]] = []
    for call in (function, torch.compile(function, backend="glow")):
        given = [v.requires_grad_() for v in _operands(9, 4, torch.float32)]
        call(*given).square().sum().backward()
        found.append([v.grad for v in given])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [33, 65])
def test_bfloat16_lines_that_end_in_one_element(width: int) -> None:
    """In place the last element of a line is stored alone, and the next line stays."""
    x = torch.randn(6, width).bfloat16()
    check(
        lambda x, m: torch.softmax(torch.where(m, x, -INF), -1).float(),
        [x, torch.rand(6, width) > 0.2],
        "cpu",
    )


def _masks() -> dict[str, dict[str, Any]]:
    pairs = torch.rand(9, 7) > 0.4
    pairs[3] = False
    numbers = torch.randn(2, 1, 9, 7)
    numbers[0, 0, 2] = numbers[1, 0, :, 1] = -INF
    return {
        "plain": {},
        "causal": {"is_causal": True},
        "boolean": {"attn_mask": pairs},
        "numbers": {"attn_mask": numbers},
        "scale": {"scale": 0.3},
        "groups": {"enable_gqa": True},
        "dropout": {"dropout_p": 0.3},
    }


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", _masks())
def test_training(name: str, kind: Any) -> None:
    """Gradients of attention are compiled and those of PyTorch, with its random numbers."""
    torch._dynamo.reset()
    options, heads = _masks()[name], 2 if name == "groups" else 4
    q, k, v = (torch.randn(2, h, n, 8).to(kind).requires_grad_() for h, n in ((4, 9), (heads, 7), (heads, 7)))
    weights = torch.randn(2, 4, 9, 8).to(kind)

    def function(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, **options)

    compiled = torch.compile(function, backend="glow")
    rows: list[Any] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*in PyTorch, not compiled")
        for call in (function, compiled):
            torch.manual_seed(5)
            y = call(q, k, v)
            rows.append((y.detach(), torch.autograd.grad(y, (q, k, v), weights)))
    close = 3e-2 if kind == torch.bfloat16 else 2e-5
    torch.testing.assert_close(rows[1], rows[0], rtol=close, atol=close)
