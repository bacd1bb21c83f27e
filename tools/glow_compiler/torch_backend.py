"""torch.compile(module, backend="glow"): graphs of TorchDynamo, compiled for the CPU.

AOTAutograd makes ATen graphs of them, those of gradients as well; each runs compiled or, where it has what is
not known here, as a whole in PyTorch. In inference parameters are constants of the program, which is made
again when they hold something else.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
from torch._functorch._aot_autograd.utils import make_boxed_func  # pyright: ignore[reportMissingImports]
from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]
from xxhash import xxh3_64_intdigest

from glow_compiler.api import compile
from glow_compiler.torch_results import Results, meta_of
from glow_dialects.core.errors import GlowError, ImportProblems, OpenSizes, UnsupportedError
from glow_frontends.torch import Input, Output, import_graph
from glow_frontends.torch.decompose import decompositions
from glow_frontends.torch.tensors import array_of
from glow_runtime.executable import Executable

#: Sets of parameters whose programs a graph keeps.
KEPT = 4
#: Changes of a parameter after which it is an input.
CHANGES = 2
#: Sets of sizes for which a graph has programs of their own.
SIZES = 16


def glow(
    graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Any:
    """The backend, for `torch.compile`; `options` are those of glow.compile, and `freeze`.

    `freeze` (the default) makes parameters constants where nothing needs gradients. What they hold is
    compared in every call; those that change again and again become inputs.
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
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._names = [node.name for node in places]
        self._metas = [meta_of(node) for node in places]
        self._frozen = _parameters(inputs) if freeze else []
        self._ranges = _ranges(inputs)
        #: What the parameters held when a program was last made, and how often each has changed.
        self._held: dict[int, int] = {}
        self._changes: Counter[int] = Counter()
        #: Whether programs are for one set of sizes, and how many there were.
        self._sizes, self._made = False, 0
        self._programs: OrderedDict[Any, Executable] = OrderedDict()
        self._results: Results | None = None
        self._eager = False

    def __call__(self, *values: Any) -> list[Any]:
        """The results for tensors and numbers; in PyTorch where a program cannot give them."""
        if self._eager:
            return self._graph(*values)
        try:
            return self._compiled_call(values)
        except Exception as error:  # whatever goes wrong here, PyTorch has the result or the error
            if os.environ.get("GLOW_STRICT") and not isinstance(error, GlowError | OpenSizes):
                raise
            found = self._graph(*values)
            self._eager = True
            what = (
                str(error) if isinstance(error, GlowError | OpenSizes) else f"{type(error).__name__} {error}"
            )
            warnings.warn(f"this graph runs in PyTorch, not compiled: {what}", stacklevel=2)
            return found

    def _compiled_call(self, values: Sequence[Any]) -> list[Any]:
        if self._results is None:
            self._check(values)
            self._results = Results(self._graph)
        numbers = self._numbers(values)
        out: dict[str, Any] = {}
        if self._results.computed:
            net = self._program(values, numbers)
            given = dict(zip(self._names, values, strict=True))
            out = net.run({s.name: array_of(given[s.name]) for s in net.inputs})
        arrays = [out[f"result_{i}"] for i in range(len(self._results.computed))]
        return self._results.of(arrays, values, numbers)

    def _check(self, values: Sequence[Any]) -> None:
        """Refuse tensors that are no plain ones of the host."""
        results = next(node for node in self._graph.graph.nodes if node.op == "output").args[0]
        for name, value in (*zip(self._names, values, strict=True), *((str(r), meta_of(r)) for r in results)):
            if isinstance(value, torch.Tensor):
                reason = _no_plain_tensor(value)
                if reason:
                    raise UnsupportedError(f"'{name}' is {reason}, which is not known here")

    def _program(self, values: Sequence[Any], numbers: dict[str, Any]) -> Executable:
        """The program with these parameters; for sizes of now where one for all sizes cannot be."""
        held = dict(zip(self._frozen, contents_of([values[i] for i in self._frozen]), strict=True))
        key = tuple(held.values()), tuple(numbers.items()) if self._sizes else ()
        if key not in self._programs:
            if self._thawed(held):
                return self._program(values, numbers)
            try:
                net = self._compiled(values, numbers if self._sizes else {})
            except (ImportProblems, OpenSizes):
                if self._sizes or not numbers:
                    raise
                self._sizes = True
                return self._program(values, numbers)
            self._programs[key] = net
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)
        return self._programs[key]

    def _thawed(self, held: dict[int, int]) -> bool:
        """Whether parameters become inputs, because they have changed too often."""
        self._changes.update(i for i, number in held.items() if self._held.get(i, number) != number)
        self._held = held
        often = [i for i in held if self._changes[i] >= CHANGES]
        if often:
            self._frozen = [i for i in self._frozen if i not in often]
            self._programs.clear()
        return bool(often)

    def _compiled(self, values: Sequence[Any], known: dict[str, int]) -> Executable:
        results = self._results
        assert results is not None
        self._made += bool(known)
        if self._made > SIZES:
            raise UnsupportedError(
                f"each program is for fixed numbers ({', '.join(known)}), and {SIZES} programs exist"
            )
        inputs = [Input(name) for name in self._names]
        for place in self._frozen:
            inputs[place] = Input(self._names[place], "constant", values[place])
        outputs = [Output(f"result_{i}", order=order) for i, order in enumerate(results.orders)]
        graph = results.pruned(self._graph)
        return compile(
            import_graph(graph, inputs, outputs, "the graph", self._ranges, known=known), **self._options
        )

    def _numbers(self, values: Sequence[Any]) -> dict[str, Any]:
        """What the symbols of sizes and other numbers stand for in a call."""
        found: dict[str, Any] = {}
        for meta, value in zip(self._metas, values, strict=True):
            sizes = zip(meta.shape, value.shape, strict=True) if hasattr(meta, "shape") else [(meta, value)]
            for size, number in sizes:
                if isinstance(size, torch.SymInt | torch.SymFloat) and size.node.expr.is_Symbol:
                    found[str(size.node.expr)] = number
        return found


def _no_plain_tensor(tensor: Any) -> str:
    """What a tensor is that programs do not take; empty for those they do."""
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout != torch.strided:
        return f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}"
    if tensor.is_quantized:
        return "a quantized tensor"
    return f"on the device {tensor.device.type}" if tensor.device.type != "cpu" else ""


def contents_of(tensors: Sequence[Any]) -> tuple[int, ...]:
    """A number for what each tensor holds, from its first element in memory to its last."""
    return tuple(xxh3_64_intdigest(_block(_span(t)).from_address(t.data_ptr())) for t in tensors)


@cache
def _block(size: int) -> Any:
    """The type of so many bytes of memory."""
    return ctypes.c_char * size


def _span(tensor: Any) -> int:
    if not tensor.numel():
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _parameters(inputs: Sequence[Any]) -> list[int]:
    """Which inputs are parameters and buffers, as AOTAutograd tells."""
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    places = list(getattr(metadata, "static_input_indices", None) or ())
    return [i for i in places if isinstance(inputs[i], torch.Tensor)]


def _ranges(inputs: Sequence[Any]) -> dict[Any, Any]:
    """The limits of the sizes that stay open."""
    for value in inputs:
        for size in [value, *getattr(value, "shape", ())]:
            if isinstance(size, torch.SymInt):
                return dict(size.node.shape_env.var_to_range)
    return {}
