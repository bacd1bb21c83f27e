"""Operators as formulas of others, in PyTorch's own terms: decompositions that PyTorch does not have.

They are traced as PyTorch's are (decompose.py), each a function of the operands of its operator's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

Function = Callable[..., Any]


def _torch() -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    return torch


# --- products and elements ----------------------------------------------------------------------
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta x + alpha sum of a b."""
    if not x.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    y = _torch().bmm(a, b).sum(0)
    y = y if alpha == 1 else y * alpha
    return y if beta == 0 else y + (x if beta == 1 else x * beta)


def int_mm(a: Any, b: Any) -> Any:
    """A product of bytes in 32 bits."""
    torch = _torch()
    return torch.mm(a.to(torch.int32), b.to(torch.int32))


def shifted(x: Any, n: Any, *, left: bool) -> Any:
    """The bits of whole numbers moved by some places."""
    torch = _torch()
    return torch.bitwise_left_shift(x, n) if left else torch.bitwise_right_shift(x, n)


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The elements of a source in a row, where a mask holds."""
    torch = _torch()
    x, mask = torch.broadcast_tensors(x, mask)
    place = mask.reshape(-1).cumsum(0).sub(1).clamp(min=0)
    # A place beyond the source is an error of the run, as it is where nothing is read there.
    taken = torch.where(mask.reshape(-1), place, 0)
    return torch.where(mask, source.reshape(-1)[taken].reshape(x.shape), x)


def masked_scatter_backward(dy: Any, mask: Any, sizes: Sequence[int]) -> Any:
    """The gradient of the source of masked_scatter: 0 for what is not read."""
    torch = _torch()
    mask = mask.expand(dy.shape).reshape(-1)
    count = 1
    for size in sizes:
        count *= size
    place = torch.where(mask, mask.cumsum(0) - 1, count)  # behind the last where the mask does not hold
    return dy.new_zeros(count + 1).scatter(0, place, dy.reshape(-1))[:count].reshape(sizes)


def histc(x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    """How many elements are in each of some parts of a range, that of the elements where none is given."""
    torch = _torch()
    x = x.reshape(-1)
    first, last = (x.min(), x.max()) if low == high else (x.new_full((), low), x.new_full((), high))
    if low == high:
        alike = first == last
        first, last = torch.where(alike, first - 1, first), torch.where(alike, last + 1, last)
    place = ((x - first) / (last - first) * bins).floor().clamp(0, bins - 1).to(torch.int64)
    counted = ((x >= first) & (x <= last)).to(x.dtype)
    return x.new_zeros(bins).index_add(0, place, counted)


# --- orders -------------------------------------------------------------------------------------
def _middle(x: Any, dim: int, keepdim: bool, skip: bool) -> tuple[Any, Any]:
    """The lower of the two middle elements along an axis, and its place; NaN stands first, or is skipped."""
    torch = _torch()
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    count = x.shape[dim]
    values, order = torch.sort(x, dim=dim, stable=True)
    if not x.dtype.is_floating_point:
        place = torch.full_like(order.narrow(dim, 0, 1), (count - 1) // 2)
    elif skip:
        place = ((~x.isnan()).sum(dim, keepdim=True) - 1).clamp(min=0) // 2
    else:
        wrong = x.isnan().to(torch.int64)
        some = wrong.sum(dim, keepdim=True)
        # Of a stable order NaN are the last, the first of them before the others.
        place = torch.where(some > 0, count - some, (count - 1) // 2)
    pair = values.gather(dim, place), order.gather(dim, place)
    return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))


def median(x: Any, *, skip: bool = False) -> Any:
    """The lower of the two middle elements of all."""
    return _middle(x.reshape(-1), 0, False, skip)[0]


def median_dim(x: Any, dim: int, keepdim: bool = False, *, skip: bool = False) -> tuple[Any, Any]:
    """The same along an axis, with its place."""
    return _middle(x, dim, keepdim, skip)


def _largest_so_far(x: Any, dim: int, *, least: bool = False) -> tuple[Any, Any]:
    """The largest up to each place along an axis, and the last place that has it; NaN stays.

    The pairs of 2, 4, 8 ... places are joined in turn.
    """
    torch = _torch()
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim %= x.dim()
    count = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = count
    where = torch.arange(count).reshape(shape).expand(x.shape)
    step = 1
    while step < count:
        own, before = x.narrow(dim, step, count - step), x.narrow(dim, 0, count - step)
        place = where.narrow(dim, step, count - step)
        takes = own <= before if least else own >= before
        if x.dtype.is_floating_point:
            takes = own.isnan() | (~before.isnan() & takes)
        joined = torch.where(takes, own, before)
        placed = torch.where(takes, place, where.narrow(dim, 0, count - step))
        x = torch.cat([x.narrow(dim, 0, step), joined], dim)
        where = torch.cat([where.narrow(dim, 0, step), placed], dim)
        step *= 2
    return x.clone(), where.clone()


def log_sums_so_far(x: Any, dim: int) -> Any:
    """log of the sums of exp up to each place along an axis, by pairs of 2, 4, 8 ... places."""
    torch = _torch()
    if x.dim() == 0:
        return x.clone()
    count, step = x.shape[dim], 1
    while step < count:
        joined = torch.logaddexp(x.narrow(dim, step, count - step), x.narrow(dim, 0, count - step))
        x = torch.cat([x.narrow(dim, 0, step), joined], dim)
        step *= 2
    return x.clone()


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Elements of a tensor in a row replaced, or added to, by those of a source."""
    flat = x.reshape(-1).index_put([index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


# --- distances ----------------------------------------------------------------------------------
def cdist(a: Any, b: Any, p: float, mode: int | None = None) -> Any:
    """The distances of all pairs of rows; of many in the Euclidean norm by products, as PyTorch does."""
    many = a.shape[-2] > 25 or b.shape[-2] > 25
    if p == 2 and (mode == 1 or (mode in (None, 0) and many)):
        squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)
        return (squares - 2 * (a @ b.transpose(-1, -2))).clamp(min=0).sqrt()
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def _norm(x: Any, p: float) -> Any:
    """The norm of the last axis."""
    x = x.abs()
    if p == 0:
        return (x != 0).to(x.dtype).sum(-1)
    if p == float("inf"):
        return x.amax(-1)
    if p in (1, 2):
        return x.sum(-1) if p == 1 else x.square().sum(-1).sqrt()
    return x.pow(p).sum(-1).pow(1 / p)


def cdist_backward(dy: Any, a: Any, b: Any, p: float, y: Any) -> Any:
    """The gradient of the distances for the first rows; 0 of rows that are equal."""
    torch = _torch()
    dy, y = dy.unsqueeze(-1), y.unsqueeze(-1)
    x = a.unsqueeze(-2) - b.unsqueeze(-3)
    if p == 0:
        return torch.zeros_like(a)
    if p == 1:
        slope = x.sign()
    elif p == 2:
        slope = torch.where(y == 0, 0, x / y)
    elif p == float("inf"):
        slope = x.sign() * (x.abs() == y)
    else:
        slope = torch.where(y == 0, 0, x.sign() * (x.abs() / y).pow(p - 1))
    return (dy * slope).sum(-2)


def pdist(x: Any, p: float = 2) -> Any:
    """The distances of all pairs of different rows."""
    first, second = _torch().triu_indices(x.shape[0], x.shape[0], 1).unbind(0)
    return _norm(x[first] - x[second], p)


# --- gradients of pools and edges ---------------------------------------------------------------
def _spread(dy: Any, matrices: Sequence[Any]) -> Any:
    """Gradients of windows back on what they are of; a matrix for each axis: its means, windows x places."""
    for axis, matrix in enumerate(matrices, start=dy.dim() - len(matrices)):
        dy = (dy.transpose(axis, -1) @ matrix).transpose(axis, -1)
    return dy.contiguous()


def _means(first: Any, last: Any, counts: Any, size: int, like: Any) -> Any:
    torch = _torch()
    places = torch.arange(size)
    inside = (places >= first.unsqueeze(1)) & (places < last.unsqueeze(1))
    return (inside.to(like.dtype) / counts.unsqueeze(1).to(like.dtype)).to(like.dtype)


def adaptive_avg_pool_backward(dy: Any, x: Any) -> Any:
    """The gradient of means of as many windows as wanted."""
    torch = _torch()
    matrices: list[Any] = []
    count = dy.dim() - 2 if dy.dim() > 3 else 2
    for wanted, size in zip(dy.shape[-count:], x.shape[-count:], strict=True):
        i = torch.arange(wanted)
        first, last = i * size // wanted, ((i + 1) * size + wanted - 1) // wanted
        matrices.append(_means(first, last, last - first, size, dy))
    return _spread(dy, matrices)


def avg_pool_backward(
    dy: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    counted: bool,
    divisor: int | None = None,
    *,
    count: int,
) -> Any:
    """The gradient of means of windows."""
    torch = _torch()
    every = [list(v) * count if len(v) == 1 else list(v) for v in (kernel, stride or kernel, padding)]
    matrices: list[Any] = []
    sizes = zip(dy.shape[-count:], x.shape[-count:], *every, strict=True)
    for windows, size, width, step, pad in sizes:
        first = torch.arange(windows) * step - pad
        last = (first + width).clamp(max=size + pad)
        inside = first.clamp(min=0), last.clamp(max=size)
        own = last - first if counted else inside[1] - inside[0]
        matrices.append(_means(*inside, torch.ones_like(own) if divisor else own, size, dy))
    return _spread(dy / divisor if divisor else dy, matrices)


def adaptive_max_pool(x: Any, sizes: Sequence[int], *, count: int) -> tuple[Any, Any]:
    """The largest of as many windows as wanted, of different sizes, and its place in the plane.

    Each window is filled up to the widest by its last element again.
    """
    torch = _torch()
    axes = list(zip(x.shape[-count:], list(sizes) * (count // len(sizes)), strict=True))
    flat: Any = 0
    for axis, (size, wanted) in enumerate(axes):
        i = torch.arange(wanted)
        first, last = i * size // wanted, ((i + 1) * size + wanted - 1) // wanted
        width = max(-(-((j + 1) * size) // wanted) - j * size // wanted for j in range(wanted))
        places = torch.minimum(first.unsqueeze(1) + torch.arange(width), last.unsqueeze(1) - 1)
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = places.shape
        flat = flat * size + places.reshape(shape)
    windows = flat.flatten(count)
    values, where = x.flatten(-count)[..., windows].max(-1)
    return values, windows.expand(*where.shape, -1).gather(-1, where.unsqueeze(-1)).squeeze(-1)


def places_backward(dy: Any, x: Any, *more: Any, count: int) -> Any:
    """The gradient of the largest of windows, each at its place in the plane: the last operand."""
    places = more[-1]
    planes = [*x.shape[:-count], -1]
    zeros = x.new_zeros(x.shape).reshape(planes)
    return zeros.scatter_add(-1, places.reshape(planes), dy.reshape(planes)).reshape(x.shape)


def _backward_of(forward: str) -> Function:
    """The gradient of an operator whose formula PyTorch has, for its first operand."""

    def backward(dy: Any, x: Any, *more: Any) -> Any:
        torch = _torch()
        from torch._decomp import core_aten_decompositions, decomposition_table  # pyright: ignore

        overload = getattr(torch.ops.aten, forward).default
        function = decomposition_table.get(overload) or core_aten_decompositions()[overload]
        return torch.func.vjp(lambda v: function(v, *more), x)[1](dy)[0]

    return backward


def grid_sampler_backward(
    dy: Any, x: Any, grid: Any, mode: int, edge: int, corners: bool, wanted: Sequence[bool]
) -> tuple[Any, Any]:
    """The gradients of what is sampled, and of where."""
    torch = _torch()
    from torch._decomp import decomposition_table  # pyright: ignore[reportMissingImports]

    sampled = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    given = torch.func.vjp(lambda v, w: sampled(v, w, mode, edge, corners), x, grid)[1](dy)
    return (given[0] if wanted[0] else None), given[1]


KINDS = ("Scalar", "Tensor")
#: Formulas by operator.
FORMULAS: dict[str, Function] = {
    "addbmm": addbmm,
    "_int_mm": int_mm,
    **{f"__{way}shift__.{kind}": partial(shifted, left=way == "l") for way in "lr" for kind in KINDS},
    "masked_scatter": masked_scatter,
    "masked_scatter_backward": masked_scatter_backward,
    "histc": histc,
    "median": median,
    "nanmedian": partial(median, skip=True),
    "median.dim": median_dim,
    "nanmedian.dim": partial(median_dim, skip=True),
    "cummax": _largest_so_far,
    "cummin": partial(_largest_so_far, least=True),
    "logcumsumexp": log_sums_so_far,
    "put": put,
    "_cdist_forward": cdist,
    "_cdist_backward": cdist_backward,
    "_pdist_forward": pdist,
    "_adaptive_avg_pool2d_backward": adaptive_avg_pool_backward,
    "_adaptive_avg_pool3d_backward": adaptive_avg_pool_backward,
    "avg_pool2d_backward": partial(avg_pool_backward, count=2),
    "avg_pool3d_backward": partial(avg_pool_backward, count=3),
    "max_pool3d_with_indices_backward": partial(places_backward, count=3),
    "adaptive_max_pool2d": partial(adaptive_max_pool, count=2),
    "adaptive_max_pool3d": partial(adaptive_max_pool, count=3),
    "adaptive_max_pool2d_backward": partial(places_backward, count=2),
    "adaptive_max_pool3d_backward": partial(places_backward, count=3),
    "grid_sampler_2d_backward": grid_sampler_backward,
    **{f"replication_pad{d}d_backward": _backward_of(f"replication_pad{d}d") for d in (1, 2, 3)},
}


def formulas() -> dict[Any, Function]:
    """The formulas, by overload."""
    torch = _torch()
    found: dict[Any, Function] = {}
    for name, function in FORMULAS.items():
        operator, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, operator, None)
        if packet is not None:
            found[getattr(packet, overload or "default")] = function
    return found


__all__ = ["FORMULAS", "formulas"]
