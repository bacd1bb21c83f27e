"""torch.compile(module, backend="glow"): graphs that TorchDynamo takes out of Python, compiled for the CPU.

AOTAutograd makes ATen graphs of them, those of gradients as well; each runs compiled or, where it has what is
not known here, as a whole in PyTorch. In inference parameters are constants of the program, which is made
again when they have changed.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
from torch._functorch._aot_autograd.utils import make_boxed_func  # pyright: ignore[reportMissingImports]
from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]

from glow_compiler.api import compile
from glow_dialects.core.errors import CompileError, ImportProblems, OpenSizes, UnsupportedError
from glow_frontends.torch import Input, Output, import_graph
from glow_frontends.torch.decompose import decompositions
from glow_frontends.torch.tensors import array_of, tensor_of
from glow_runtime.executable import Executable

#: Sets of parameters whose programs a graph keeps.
KEPT = 4


def glow(
    graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Any:
    """The backend, for `torch.compile`; `options` are those of glow.compile, and `freeze`.

    `freeze` (the default) makes parameters constants where nothing needs gradients: changes of them in place
    are seen, those that go around PyTorch's version counters (`p.data.add_(...)`) are not.
    """
    chosen = dict(options or {})
    freeze = chosen.pop("freeze", True)

    def compiled(frozen: bool) -> Callable[[Any, Sequence[Any]], Any]:
        return lambda traced, inputs: make_boxed_func(_Graph(traced, inputs, frozen, chosen))

    backend = aot_autograd(
        fw_compiler=compiled(False),
        bw_compiler=compiled(False),
        inference_compiler=compiled(freeze),
        decompositions=decompositions(),
    )
    return backend(graph, example_inputs)


class _Graph:
    """One ATen graph, with its programs by the parameters that they have in them."""

    def __init__(self, graph: Any, inputs: Sequence[Any], freeze: bool, options: dict[str, Any]) -> None:
        self._graph, self._options = graph, options
        nodes = graph.graph.nodes
        self._names = [node.name for node in nodes if node.op == "placeholder"]
        results = next(node for node in nodes if node.op == "output").args[0]
        self._results = [getattr(result, "name", None) for result in results]
        self._whole = [not hasattr(getattr(r, "meta", {}).get("val"), "shape") for r in results]
        self._frozen = _parameters(inputs) if freeze else []
        self._ranges = _ranges(inputs)
        self._metas = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
        #: Whether programs are for one set of sizes.
        self._sizes = False
        self._programs: OrderedDict[Any, tuple[Executable, list[Any]]] = OrderedDict()
        self._eager = False

    def __call__(self, *values: Any) -> list[Any]:
        """The results for tensors and sizes."""
        if self._eager:
            return self._graph(*values)
        try:
            net = self._program(values)
        except (ImportProblems, UnsupportedError, CompileError, OpenSizes) as error:
            self._eager = True
            warnings.warn(f"this graph runs in PyTorch, not compiled: {error}", stacklevel=2)
            return self._graph(*values)
        given = dict(zip(self._names, values, strict=True))
        out = net.run({s.name: array_of(given[s.name]) for s in net.inputs})
        results: list[Any] = []
        for number, (name, whole) in enumerate(zip(self._results, self._whole, strict=True)):
            array = None if name is None else out[f"result_{number}"]
            results.append(None if array is None else int(array) if whole else tensor_of(array))
        return results

    def _program(self, values: Sequence[Any]) -> Executable:
        """The program with these parameters; for sizes of now where one for all sizes cannot be."""
        own = [values[i] for i in self._frozen]
        key: Any = tuple((id(p), p._version, p.data_ptr()) for p in own)
        if self._sizes:
            known = self._numbers(values)
            key = key, tuple(known.items())
        if key not in self._programs:
            try:
                net = self._compiled(values, self._numbers(values) if self._sizes else {})
            except (ImportProblems, OpenSizes):
                known = self._numbers(values)
                if self._sizes or not known:
                    raise
                self._sizes = True
                return self._program(values)
            self._programs[key] = net, own  # which live as long as their ids count
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        return self._programs[key][0]

    def _compiled(self, values: Sequence[Any], known: dict[str, int]) -> Executable:
        inputs = [Input(name) for name in self._names]
        for place in self._frozen:
            inputs[place] = Input(self._names[place], "constant", values[place])
        outputs = [None if n is None else Output(f"result_{i}") for i, n in enumerate(self._results)]
        module = import_graph(self._graph, inputs, outputs, "the graph", self._ranges, known=known)
        return compile(module, **self._options)

    def _numbers(self, values: Sequence[Any]) -> dict[str, int]:
        """What the symbols of sizes stand for in a call."""
        found: dict[str, int] = {}
        for meta, value in zip(self._metas, values, strict=True):
            sizes = zip(meta.shape, value.shape, strict=True) if hasattr(meta, "shape") else [(meta, value)]
            for size, number in sizes:
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found[str(size.node.expr)] = int(number)
        return found


def _parameters(inputs: Sequence[Any]) -> list[int]:
    """Which inputs are parameters and buffers, as AOTAutograd tells, but for those of inference mode."""
    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    places = list(getattr(metadata, "static_input_indices", None) or ())
    return [i for i in places if isinstance(inputs[i], torch.Tensor) and not inputs[i].is_inference()]


def _ranges(inputs: Sequence[Any]) -> dict[Any, Any]:
    """The limits of the sizes that stay open."""
    for value in inputs:
        for size in [value, *getattr(value, "shape", ())]:
            if isinstance(size, torch.SymInt):
                return dict(size.node.shape_env.var_to_range)
    return {}
