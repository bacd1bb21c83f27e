"""torch.compile(module, backend="glow"): graphs of TorchDynamo, compiled for the CPU.

AOTAutograd makes ATen graphs of them, those of gradients as well; each is cut around what is not known here,
which runs in PyTorch. In inference parameters are constants of the program, which is made again when they
hold something else.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence, Set
from functools import cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
from torch._guards import TracingContext  # pyright: ignore[reportMissingImports]
from xxhash import xxh3_64_intdigest

from glow_compiler.api import compile
from glow_compiler.torch_parts import Parts, Stage, calls_of, cut, results_of
from glow_compiler.torch_report import GraphReport, note_break, opened, told
from glow_compiler.torch_results import Results, meta_of
from glow_dialects.core.errors import GlowError, ImportProblems, OpenSizes, UnsupportedError
from glow_frontends.torch import GraphProblems, Input, Output, import_graph
from glow_frontends.torch.decompose import decompositions
from glow_frontends.torch.draws import is_random
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

    note_break(graph)

    def compiled(kind: str) -> Callable[[Any, Sequence[Any]], Any]:
        def make(traced: Any, inputs: Sequence[Any]) -> Any:
            frozen = _parameters(inputs) if freeze and kind == "inference" else set[int]()
            return _boxed(_Graph(traced, frozen, chosen, opened(kind, len(calls_of(traced)))))

        return make

    backend = aot_autograd(
        fw_compiler=compiled("forward"),
        bw_compiler=compiled("backward"),
        inference_compiler=compiled("inference"),
        decompositions=decompositions(),
    )
    return backend(graph, example_inputs)


def _boxed(graph: _Graph) -> Callable[[list[Any]], Sequence[Any]]:
    """What takes its values out of a list, so that they go when nothing reads them any more."""

    def call(values: list[Any]) -> Sequence[Any]:
        taken = tuple(values)
        values.clear()
        return graph(*taken)

    call._boxed_call = True  # pyright: ignore
    return call


class _Graph:
    """One ATen graph, with its programs by the parameters that they have in them; `frozen` names these."""

    def __init__(self, graph: Any, frozen: Set[int], options: dict[str, Any], report: GraphReport) -> None:
        self._graph, self._options, self._report = graph, options, report
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._names = [node.name for node in places]
        metas = [meta_of(node) for node in places]
        self._symbols = _symbols(metas)
        self._ranges = _ranges(metas)
        self._frozen = sorted(frozen)
        #: What the parameters held when a program was last made, and how often each has changed.
        self._held: dict[int, int] = {}
        self._changes: Counter[int] = Counter()
        #: Whether programs are for one set of sizes, and how many there were.
        self._sizes, self._made = False, 0
        self._programs: OrderedDict[Any, Executable] = OrderedDict()
        self._results: Results | None = None
        #: Whether a program of it has been made.
        self._in_programs = False
        #: What runs in place of one program: the graph's parts, or PyTorch.
        self._instead: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> Sequence[Any]:
        """The results for tensors and numbers; in PyTorch where programs cannot give them."""
        if self._instead is not None:
            return self._instead(*values)
        try:
            return self._compiled_call(values)
        except GraphProblems as error:
            self._instead = self._parts(error)
            return self._instead(*values)
        except Exception as error:  # whatever goes wrong here, PyTorch has the result or the error
            if os.environ.get("GLOW_STRICT") and not isinstance(error, GlowError | OpenSizes):
                raise
            found = self._graph(*values)
            self._instead = self._graph
            known = isinstance(error, GlowError | OpenSizes)
            reason = str(error) if known else f"{type(error).__name__} {error}"
            self._report.whole.append(reason)
            warnings.warn(f"this graph runs in PyTorch, not compiled: {reason}", stacklevel=2)
            return found

    def _parts(self, error: GraphProblems) -> Callable[..., Any]:
        """What runs the graph cut around the calls that were refused."""
        drawn = {n.name for n in self._graph.graph.nodes if is_random(n.target)}
        refused = [r for name, r in error.refused.items() if name not in drawn]
        stages = cut(self._graph, error.refused)
        for refusal in refused:
            self._report.refuse(refusal)
        left = sum(len(calls_of(s.module)) for s in stages if not s.compiled)
        left = left if stages else len(calls_of(self._graph))
        self._report.drawn += len(drawn)
        self._report.small += max(0, left - len(refused) - len(drawn))
        if refused or not error.refused:
            lines = told(refused) if refused else [str(error)]
            what = "parts of this graph run" if stages else "this graph runs"
            listed = "".join(f"\n  - {line}" for line in lines)
            warnings.warn(f"{what} in PyTorch, not compiled: {listed}", stacklevel=3)
        return Parts(stages, self._graph, self._part) if stages else self._graph

    def _part(self, stage: Stage) -> _Graph:
        """A stage as a graph of its own."""
        names = {self._names[i] for i in self._frozen}
        frozen = {i for i, n in enumerate(stage.given) if n.name in names}
        return _Graph(stage.module, frozen, self._options, self._report)

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
        made = ((str(r), meta_of(r)) for r in results_of(self._graph))
        for name, value in (*zip(self._names, values, strict=True), *made):
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
        module = import_graph(graph, inputs, outputs, "the graph", self._ranges, known=known)
        net = compile(module, **self._options)
        self._report.programs += 1
        self._report.count("programs")
        if not self._in_programs:
            self._in_programs = True
            self._report.compiled += len(calls_of(self._graph))
        return net

    def _numbers(self, values: Sequence[Any]) -> dict[str, Any]:
        """What the symbols of sizes and other numbers stand for in a call."""
        return {
            name: values[place] if axis is None else values[place].shape[axis]
            for name, (place, axis) in self._symbols.items()
        }


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


def _parameters(inputs: Sequence[Any]) -> set[int]:
    """Which inputs are parameters and buffers that the graph does not write, as AOTAutograd tells."""
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    places = getattr(metadata, "static_input_indices", None) or ()
    infos = getattr(metadata, "input_info", None) or ()
    written = {i for i, info in enumerate(infos) if info.mutates_data or info.mutates_storage_metadata}
    return {i for i in places if isinstance(inputs[i], torch.Tensor) and i not in written}


def _symbols(metas: Sequence[Any]) -> dict[str, tuple[int, int | None]]:
    """Which input tells a symbol: a number, or a tensor by an axis."""
    found: dict[str, tuple[int, int | None]] = {}
    for place, meta in enumerate(metas):
        sizes = list(enumerate(meta.shape)) if hasattr(meta, "shape") else [(None, meta)]
        for axis, size in sizes:
            if isinstance(size, torch.SymInt | torch.SymFloat) and size.node.expr.is_Symbol:
                found[str(size.node.expr)] = place, axis
    return found


def _ranges(metas: Sequence[Any]) -> dict[Any, Any]:
    """The limits of the sizes that stay open."""
    for meta in metas:
        for size in [meta, *getattr(meta, "shape", ())]:
            if isinstance(size, torch.SymInt):
                return dict(size.node.shape_env.var_to_range)
    return {}
