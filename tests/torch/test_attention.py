"""Attention of queries that no key is left to, beside PyTorch."""

from __future__ import annotations

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
