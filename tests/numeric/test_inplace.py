"""In-place facts: results that overwrite an operand's buffer are those of separate buffers."""

from __future__ import annotations

import numpy as np
import pytest
from card_runner import SAMPLES
from graph_runner import Graph
from xdsl.ir import SSAValue

from glow_backends.base import Backend, get_backend
from glow_backends.conformance import difference, expected_results
from glow_backends.legalize import LegalizePass
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import shape_of
from glow_dialects.dialects import context
from glow_dialects.instr.memory import AllocOp
from glow_dialects.ops.flip import FlipOp
from glow_passes.pipeline import INSTR, LOWER

#: Samples whose first result may take the buffer of an operand.
CANDIDATES = [
    name
    for name, sample in sorted(SAMPLES.items())
    if sample.op.INSTR is not None and sample.op.INSTR.INPLACE and sample.arrays()
]


def program(sample: Sample, backend: Backend) -> tuple[Graph, int]:
    """The sample on operands that are computed and then dead, lowered; the number of its buffers.

    Each operand is the mirror image of a mirrored input, so that it lies in a buffer of its own.
    """
    graph = Graph()
    values: list[SSAValue] = []
    for array in sample.arrays():
        axes = tuple(range(array.ndim))
        mirrored = graph.input(np.ascontiguousarray(np.flip(array, axes)))
        values.append(graph.b(FlipOp(mirrored, axes=axes)))
    op = sample.build(graph.b, values)
    for result in op.results:
        graph.save(result)
    made = context()
    for passes in (
        (LegalizePass(backend),),
        backend.graph_passes(),
        LOWER,
        backend.instr_passes(),
        INSTR,
    ):
        for step in passes:
            step.apply(made, graph.module)
    return graph, sum(isinstance(op, AllocOp) for op in graph.module.walk())


@pytest.fixture(scope="module")
def cpu() -> Backend:
    """The native backend."""
    return get_backend("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
def test_overwritten_operands(name: str, cpu: Backend) -> None:
    """Shared buffers, as planned by the interpreter and by native kernels, twice: the cards' results."""
    sample = SAMPLES[name]
    graph, _ = program(sample, cpu)
    planned = get_backend("interpreter", planned=True).compile(graph.module)
    native = cpu.compile(graph.module)
    for runnable in (planned, native, native):
        results = runnable.run({k: v.copy() for k, v in graph.inputs.items()})
        for number, (kind, want) in enumerate(expected_results(sample)):
            got = list(results.values())[number]
            assert difference(got, want, kind) == ""


def test_buffers_are_shared(cpu: Backend) -> None:
    """An insertion writes into the buffer that it changes."""
    sample = next(s for s in SAMPLES.values() if s.op.name == "glow.insert")
    assert shape_of(sample.detached()[1].results[0]) == sample.arrays()[0].shape
    _, count = program(sample, cpu)
    assert count <= 2
