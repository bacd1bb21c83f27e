"""PyTorch's own decompositions, of operators that have no rule or of forms that a rule leaves to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from glow_frontends.graph.errors import RuleError
from glow_frontends.torch.draws import draws, is_random
from glow_frontends.torch.formulas import formulas
from glow_frontends.torch.rules import find_rule


def name_of(overload: Any) -> str:
    """`aten.add.Tensor`."""
    schema = overload._schema
    return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What `run_decompositions` and AOTAutograd take: core ATen but for operators that have a rule, or that
    draw random numbers, which are to be those of PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]

    table = torch.export.default_decompositions()
    for overload in list(table):
        if find_rule(name_of(overload)) is not None or is_random(overload):
            table.pop(overload)
    return {**table, **draws()}


@cache
def _every() -> dict[Any, Callable[..., Any]]:
    """All that PyTorch knows how to take apart, and what we know."""
    from torch._decomp import core_aten_decompositions, decomposition_table  # pyright: ignore

    return {**decomposition_table, **core_aten_decompositions(), **formulas()}


def decomposes(overload: Any) -> bool:
    """Whether PyTorch knows how to take an operator apart."""
    return _function(overload) is not None


def _function(overload: Any) -> Callable[..., Any] | None:
    import torch  # pyright: ignore[reportMissingImports]

    function = _every().get(overload)
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    if function is None and overload.has_kernel_for_dispatch_key(implicit):
        return overload.decompose
    return function


def decomposed(overload: Any, operands: Sequence[Any]) -> Any:
    """An fx graph of simpler operators that computes one of them for its tensor and size operands.

    None where PyTorch has none; RuleError where it cannot be traced.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch.fx.experimental.proxy_tensor import make_fx  # pyright: ignore[reportMissingImports]

    function = _function(overload)
    if function is None:
        return None
    chosen = list(leaves(operands))
    names = [a.name for a in overload._schema.arguments]
    keyword = {a.name: a.default_value for a in overload._schema.arguments if a.kwarg_only}

    def call(*values: Any) -> Any:
        given = _replaced(operands, iter(values))
        pairs = list(zip(names, given, strict=True))
        more = {n: v for n, v in pairs if n in keyword and v is not keyword[n]}
        return function(*(v for n, v in pairs if n not in keyword), **more)

    modes = {id(m.fake_mode): m.fake_mode for m in chosen if hasattr(m, "fake_mode")}
    mode = next(iter(modes.values()), None)
    if mode is not None and len(modes) > 1:
        with mode:
            chosen = [_moved(m) for m in chosen]
    try:
        if mode is None:
            return make_fx(call)(*chosen)
        with mode, torch.no_grad():
            graph = make_fx(call)(*chosen)
            if any(map(_writes, graph.graph.nodes)):
                graph = make_fx(torch.func.functionalize(call))(*chosen)
            return graph
    except Exception as error:  # of PyTorch's code, of any kind
        raise RuleError(f"its decomposition does not trace: {type(error).__name__}: {error}") from None


def _writes(node: Any) -> bool:
    """Whether a call changes an operand in place."""
    return getattr(getattr(node.target, "_schema", None), "is_mutable", False)


def _moved(tensor: Any) -> Any:
    """A tensor without contents in the mode of now."""
    import torch  # pyright: ignore[reportMissingImports]

    if not hasattr(tensor, "shape"):
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def leaves(operands: Any) -> Iterator[Any]:
    """The tensors, and the sizes that only the run tells, among operands."""
    if isinstance(operands, list | tuple):
        for operand in operands:
            yield from leaves(operand)
    elif is_leaf(operands):
        yield operands


def is_leaf(value: Any) -> bool:
    """Whether an operand is a tensor or such a size."""
    return hasattr(value, "shape") or hasattr(value, "node")


def _replaced(operands: Any, values: Iterator[Any]) -> Any:
    if isinstance(operands, list | tuple):
        return [_replaced(v, values) for v in operands]
    return next(values) if is_leaf(operands) else operands
