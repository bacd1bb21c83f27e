"""Functions of PyTorch as graphs of ATen operators, imported and run beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

import glow_compiler as glow
from glow_frontends.torch import Input, Output, import_graph
from glow_frontends.torch.decompose import decompositions
from glow_frontends.torch.tensors import array_of

TABLE = decompositions()


def traced(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
    """The graph of a function, as torch.export would write it: without writes in place."""
    graph = make_fx(torch.func.functionalize(function), decomposition_table=TABLE)(*tensors)
    if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in graph.graph.nodes):
        graph = make_fx(torch.func.functionalize(graph))(*tensors)
    for node in reversed(graph.graph.nodes):  # inputs written in place are none of the results
        if node.target is torch.ops.aten.copy_.default and not node.users:
            graph.graph.erase_node(node)
    return graph


def results(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], backend: str = "interpreter"
) -> list[np.ndarray]:
    """What a function of tensors gives, imported and compiled."""
    graph = traced(function, tensors)
    out = next(n for n in graph.graph.nodes if n.op == "output").args[0]
    count = len(out) if isinstance(out, list | tuple) else 1
    names = [f"x{i}" for i in range(len(tensors))]
    module = import_graph(graph, [Input(n) for n in names], [Output(f"y{i}") for i in range(count)])
    net = glow.compile(module, backend=backend)
    given = {n: array_of(t) for n, t in zip(names, tensors, strict=True)}
    found = net.run({s.name: given[s.name] for s in net.inputs})
    return [found[f"y{i}"] for i in range(count)]


def check(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], backend: str = "interpreter"
) -> None:
    """The function gives the same, of the same types, compiled."""
    wanted = _pytree.tree_leaves(function(*[t.clone() for t in tensors]))
    for want, have in zip(wanted, results(function, tensors, backend), strict=True):
        expected = array_of(want)
        assert (have.dtype, have.shape) == (expected.dtype, expected.shape)
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(have, expected)
        else:
            close = 3e-2 if expected.dtype.itemsize == 2 else 2e-4
            wide = [v.astype(np.float64) for v in (have, expected)]
            np.testing.assert_allclose(*wide, rtol=close, atol=close)
