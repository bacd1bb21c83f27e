"""glow.explain: what torch.compile(module, backend="glow") compiles of a module, what not, and why.

The same is counted, while a process runs, in `torch._dynamo.utils.counters["glow"]`.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._dynamo.utils import counters, get_compilation_metrics  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree  # pyright: ignore[reportMissingImports]

from glow_frontends.torch import Refusal


@dataclass
class GraphReport:
    """One graph: `kind` is inference, forward or backward; its calls are those of operators but views.

    `refused` are the calls that run in PyTorch, with the reason; `drawn` counts those that draw random
    numbers there, `small` those that a program would not pay for; `whole` says why nothing is compiled.
    """

    kind: str
    calls: int
    compiled: int = 0
    programs: int = 0
    refused: list[Refusal] = field(default_factory=list[Refusal])
    drawn: int = 0
    small: int = 0
    whole: list[str] = field(default_factory=list[str])

    def count(self, what: str, number: int = 1) -> None:
        """Count something among PyTorch's counters."""
        counters["glow"][what] += number

    def refuse(self, refusal: Refusal) -> None:
        """Count a call that runs in PyTorch."""
        self.refused.append(refusal)
        self.count(f"in PyTorch: {refusal.op}")

    def lines(self) -> list[str]:
        """The report."""
        out = [f"{self.kind}: {self.compiled} of {self.calls} calls compiled, programs made: {self.programs}"]
        out += [f"  not compiled: {reason}" for reason in self.whole]
        out += [f"  in PyTorch: {line}" for line in told(self.refused)]
        if self.drawn:
            out.append(f"  in PyTorch: {self.drawn} calls draw random numbers")
        if self.small:
            out.append(f"  in PyTorch: {self.small} calls, for which a program would cost more than it saves")
        return out


def told(refused: Sequence[Refusal]) -> list[str]:
    """Refused calls in lines, each operator and reason once, with the first place."""
    grouped: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refused:
        grouped.setdefault((refusal.op, refusal.reason), []).append(refusal)
    return [f"{op}{f' ({len(r)} calls)' if len(r) > 1 else ''}: {r[0]}" for (op, _), r in grouped.items()]


@dataclass(frozen=True)
class Break:
    """A place where a graph ends because Python goes on there."""

    place: str
    reason: str


@dataclass(frozen=True)
class Recompilation:
    """A function that was compiled again, and the guard that failed."""

    function: str
    reason: str


@dataclass
class Explanation:
    """What became of a module's calls; as text, a report."""

    graphs: list[GraphReport] = field(default_factory=list[GraphReport])
    breaks: list[Break] = field(default_factory=list[Break])
    recompilations: list[Recompilation] = field(default_factory=list[Recompilation])

    @property
    def calls(self) -> int:
        """Calls of operators, of all graphs."""
        return sum(g.calls for g in self.graphs)

    @property
    def compiled(self) -> int:
        """Those that are in programs."""
        return sum(g.compiled for g in self.graphs)

    def __str__(self) -> str:
        out = [
            f"{len(self.graphs)} graphs, {self.compiled} of {self.calls} calls compiled; "
            f"{len(self.breaks)} graph breaks, {len(self.recompilations)} recompilations"
        ]
        for graph in self.graphs:
            out += graph.lines()
        out += [f"graph break at {b.place}: {b.reason}" for b in self.breaks]
        out += [f"recompiled {r.function}: {r.reason}" for r in self.recompilations]
        return "\n".join(out)


_OPEN: list[Explanation] = []


def opened(kind: str, calls: int) -> GraphReport:
    """The report of a new graph, part of the explanation that is being made."""
    report = GraphReport(kind, calls)
    report.count("graphs")
    for explanation in _OPEN[-1:]:
        explanation.graphs.append(report)
    return report


def note_break(graph: Any) -> None:
    """Take down why Dynamo ended a graph."""
    reason = getattr(graph, "compile_subgraph_reason", None)
    if _OPEN and reason is not None and reason.graph_break:
        frame = reason.user_stack[-1] if reason.user_stack else None
        place = f"{frame.filename}:{frame.lineno}: {frame.line}" if frame else "an unknown place"
        lines = [line.strip() for line in str(reason.reason).splitlines()[:2]]
        _OPEN[-1].breaks.append(Break(place, "; ".join(lines)))


@contextmanager
def explaining() -> Generator[Explanation]:
    """Around calls: an explanation of what they compile."""
    found, before = Explanation(), list(get_compilation_metrics())  # which keeps the last ones alone
    known = set(map(id, before))
    _OPEN.append(found)
    try:
        yield found
    finally:
        _OPEN.remove(found)
        for metrics in get_compilation_metrics():
            if id(metrics) not in known and metrics.recompile_reason:
                function = f"{metrics.co_name} ({metrics.co_filename}:{metrics.co_firstlineno})"
                found.recompilations.append(Recompilation(function, metrics.recompile_reason))


def explain(module: Any, inputs: Any, *more: Any, options: Mapping[str, Any] | None = None) -> Explanation:
    """Say what torch.compile(module, backend="glow") compiles of a module or function, what not, and why.

    The module is compiled and called with `inputs`, then with each of `more`. If results need gradients, they
    are computed too, and not stored. What Dynamo compiled before is forgotten.

    Args:
        module: A module or function.
        inputs: The arguments of a call: a tuple, a dict by name, or one tensor.
        *more: Arguments of further calls, which show recompilations.
        options: Options of `torch.compile` with this backend.

    Returns:
        The graphs, what runs in PyTorch and why, graph breaks and recompilations, with source lines.

    Raises:
        GlowError: An option is not known. Errors of the module itself are raised as they are.

    Examples:
        >>> import torch
        >>> found = glow.explain(lambda x: torch.relu(x) * 2, torch.ones(3))
        >>> len(found.graphs), found.breaks
        (1, [])
    """
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="glow", options=dict(options or {}))
    with explaining() as found, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in PyTorch, not compiled")
        for given in (inputs, *more):
            _differentiate(_called(compiled, given), module, given)
    return found


def _called(compiled: Any, given: Any) -> Any:
    if isinstance(given, Mapping):
        return compiled(**given)
    return compiled(*given) if isinstance(given, tuple | list) else compiled(given)


def _differentiate(results: Any, module: Any, given: Any) -> None:
    """Compute the gradients of what needs any."""
    outputs = [t for t in _pytree.tree_leaves(results) if _needs(t)]
    parameters = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    wanted = [t for t in (*parameters, *_pytree.tree_leaves(given)) if _needs(t) and t.is_leaf]
    if outputs and wanted:
        torch.autograd.grad(outputs, wanted, [torch.ones_like(t) for t in outputs], allow_unused=True)


def _needs(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


__all__ = ["Break", "Explanation", "GraphReport", "Recompilation", "explain"]
