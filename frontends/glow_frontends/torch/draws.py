"""Random numbers, which PyTorch draws: decompositions that draw apart from, and before, what reads them.

dropout(x) -> mask = bernoulli(shape of x); x * mask / (1 - p)

The numbers are those of PyTorch uncompiled, from the same generator and in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_random(overload: Any) -> bool:
    """Whether an operator draws random numbers."""
    import torch  # pyright: ignore[reportMissingImports]

    return torch.Tag.nondeterministic_seeded in getattr(overload, "tags", ())


def draws() -> dict[Any, Callable[..., Any]]:
    """Decompositions, by operator."""
    import torch  # pyright: ignore[reportMissingImports]

    aten: Any = torch.ops.aten
    return {
        aten.native_dropout.default: _dropout,
        aten.rand_like.default: _like(torch.rand),
        aten.randn_like.default: _like(torch.randn),
        aten.new_empty.default: _new_empty,
    }


def _dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    import torch  # pyright: ignore[reportMissingImports]
    from torch._prims_common import (  # pyright: ignore[reportMissingImports]
        compute_elementwise_output_logical_to_physical_perm,
    )

    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    order = compute_elementwise_output_logical_to_physical_perm(x)[0]
    kept = torch.empty([x.shape[i] for i in order], dtype=torch.bool, device=x.device)
    kept = torch.ops.aten.bernoulli.p(kept, 1 - p).permute([order.index(i) for i in range(x.dim())])
    return x * (kept.to(x.dtype) * (1 / (1 - p))), kept


def _like(draw: Callable[..., Any]) -> Callable[..., Any]:
    def like(x: Any, **options: Any) -> Any:
        if not x.is_contiguous():
            return NotImplemented
        chosen = {"dtype": x.dtype, "device": x.device}
        chosen.update({n: v for n, v in options.items() if n in chosen and v is not None})
        return draw(x.shape, **chosen)

    return like


def _new_empty(x: Any, size: Any, **options: Any) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    dtype, device = options.get("dtype") or x.dtype, options.get("device") or x.device
    return torch.empty(size, dtype=dtype, device=device)


__all__ = ["draws", "is_random"]
