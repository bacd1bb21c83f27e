"""Conformance test: run the samples of all operators on a backend and compare with their NumPy references.

    report = check_backend(MyBackend())
    assert not report.failures(), report

A backend is conformant when every operator that it claims (`Backend.supports`) gives the reference's
results. Operators that it declines are decomposed for it, as in a real compilation, and compared too;
those that have no decomposition into claimed operators are listed as declined, which is no failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_backends.base import Backend
from glow_backends.legalize import LegalizePass
from glow_backends.phases import instruction_phases
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array, element_of, typed
from glow_dialects.dialects import context
from glow_dialects.ops import CARDS
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions

Status = Literal["agrees", "differs", "fails", "declined"]

#: Where operands come from: all are inputs; or all but the first are constants, as weights are.
Binding = Literal["inputs", "constants"]
BINDINGS: tuple[Binding, ...] = ("inputs", "constants")


@dataclass(frozen=True)
class Case:
    """One sample of one card; `name` is `card[number]`."""

    name: str
    sample: Sample


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case. `error` is the largest absolute difference from the reference."""

    case: str
    binding: Binding
    status: Status
    error: float = 0.0
    message: str = ""
    decomposed: bool = False

    def __str__(self) -> str:
        return f"{self.case} ({self.binding}): {self.status} {self.message}".rstrip()


@dataclass
class ConformanceReport:
    """The outcomes of a backend, in the order of the cards."""

    backend: str
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    def failures(self) -> list[Outcome]:
        """Claimed operators that do not do what they should."""
        return [o for o in self.outcomes if o.status in ("differs", "fails")]

    def counts(self) -> Mapping[str, int]:
        """How many outcomes there are of each status."""
        return Counter(o.status for o in self.outcomes)

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in sorted(self.counts().items()))
        return "\n".join([f"{self.backend}: {counts}", *(f"  {o}" for o in self.failures())])


def cases(cards: Iterable[str] | None = None) -> Iterator[Case]:
    """Every sample of the cards (all of them, or those named)."""
    wanted = None if cards is None else set(cards)
    for card in CARDS:
        name = card.__name__.rpartition(".")[2]
        if wanted is None or name in wanted:
            samples: Sequence[Sample] = getattr(card, "SAMPLES", ())
            for number, sample in enumerate(samples):
                yield Case(f"{name}[{number}]", sample)


def check_backend(
    backend: Backend,
    cards: Iterable[str] | None = None,
    bindings: Sequence[Binding] = BINDINGS,
) -> ConformanceReport:
    """Run every sample on `backend`; see the module's text for what the report means."""
    report = ConformanceReport(backend.name)
    for case in cases(cards):
        for binding in bindings:
            report.outcomes.append(check_case(backend, case, binding))
    return report


def check_case(backend: Backend, case: Case, binding: Binding = "inputs") -> Outcome:
    """Build a module around one operator, compile it, run it twice, compare both times."""
    module, feed = module_of_sample(case.sample, binding)
    nodes, left = legalized(backend, module)
    decomposed = not any(isinstance(op, case.sample.op) for op in nodes)

    def outcome(status: Status, error: float = 0.0, message: str = "") -> Outcome:
        return Outcome(case.name, binding, status, error, message, decomposed)

    if declined := next((op for op in nodes if not backend.supports(op)), None):
        return outcome("declined", message=f"needs {declined.name}")
    try:
        for op in left:
            LegalizePass(backend).refuse(op)
        expected = expected_results(case.sample)
        plan(backend, module)
        program = backend.compile(module)
        worst = 0.0
        for attempt in ("first", "second"):
            results = program.run({name: array.copy() for name, array in feed.items()})
            for number, (kind, want) in enumerate(expected):
                got = results[f"out{number}"]
                problem = difference(got, want, kind)
                if problem:
                    return outcome("differs", message=f"result {number}, {attempt} run: {problem}")
                worst = max(worst, _distance(got, want))
        return outcome("agrees", worst)
    except Exception as error:  # a report of a backend under development names all that is wrong
        return outcome("fails", message=f"{type(error).__name__}: {error}")


def legalized(backend: Backend, module: ModuleOp) -> tuple[list[GraphOp], list[GraphOp]]:
    """The nodes once those that the backend declines are decomposed, in place, and those it does not take."""
    left = list(LegalizePass(backend).left_over(module))
    return [op for f in functions(module) for op in f.body.block.ops if isinstance(op, GraphOp)], left


def plan(backend: Backend, module: ModuleOp) -> None:
    """Make the functions of a legalised module planned instructions."""
    ctx = context()
    _apply(ctx, module, backend.graph_passes())
    for _, passes in instruction_phases(backend):
        _apply(ctx, module, passes)


def module_of_sample(sample: Sample, binding: Binding) -> tuple[ModuleOp, dict[str, Array]]:
    """A module whose function `main` is the sample, and the inputs to run it with."""
    block, _ = sample.detached()
    function = FuncOp.of("main")
    module = ModuleOp([])
    body = Builder.at_end(function.body.block)
    feed: dict[str, Array] = {}
    values = []
    for number, (array, argument) in enumerate(zip(sample.arrays(), block.args, strict=True)):
        kind = typed(argument)
        if binding == "constants" and number > 0:
            source = ConstantOp.of(f"in{number}", array, kind)
        else:
            source = PlaceholderOp.of(f"in{number}", kind)
            feed[f"in{number}"] = array
        module.body.block.add_op(source)
        values.append(body.insert(GetOp.of(source)).result)
    op = sample.build(body, values)
    for number, result in enumerate(op.results):
        target = PlaceholderOp.of(f"out{number}", typed(result), "output")
        module.body.block.add_op(target)
        body.insert(SaveOp.of(result, target))
    module.body.block.add_op(function)
    module.verify()
    return module, feed


def expected_results(sample: Sample) -> list[tuple[object, Array]]:
    """Element types and values that the card's reference gives."""
    _, op = sample.detached()
    arrays = op.evaluate([a.copy() for a in sample.arrays()])
    return [(element_of(r), a) for r, a in zip(op.results, arrays, strict=True)]


def difference(got: Array, want: Array, kind: object) -> str:
    """Why `got` is not `want` within the accuracy of its element type; empty where it is.

    Floats: relative to the value, and absolute in the scale of the whole tensor, since sums are
    formed in another order. Integers, quantised ones too, may not differ at all.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    relative, absolute = tolerance(want.dtype)
    if relative == absolute == 0:
        return "" if np.array_equal(got, want) else f"max abs error {_distance(got, want):.3g}"
    have, reference = _wide(got), _wide(want)
    finite = np.abs(reference[np.isfinite(reference)])
    scale = max(1.0, float(finite.max())) if finite.size and relative else 1.0
    if np.allclose(have, reference, rtol=relative, atol=absolute * scale, equal_nan=True):
        return ""
    return f"max abs error {_distance(got, want):.3g}"


def tolerance(dtype: np.dtype) -> tuple[float, float]:
    """(relative, absolute) tolerance for an element type."""
    known = {"float64": (1e-9, 1e-9), "float32": (1e-4, 2e-6), "float16": (1e-2, 2e-3)}
    if dtype.kind in "iub":
        return 0.0, 0.0
    return known.get(dtype.name, (4e-2, 8e-3))


def _wide(array: Array) -> Array:
    return array if array.dtype.kind in "c" else array.astype(np.float64)


def _distance(got: Array, want: Array) -> float:
    with np.errstate(invalid="ignore"):
        gap = np.abs(_wide(got) - _wide(want))
    gap = gap[np.isfinite(gap)]
    return float(gap.max()) if gap.size else 0.0


def _apply(ctx: Context, module: ModuleOp, passes: Iterable[ModulePass]) -> None:
    for item in passes:
        item.apply(ctx, module)
        module.verify()
