"""Samples of the cards as programs: modules to print, blocks to run, float64 twins to differentiate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import Float32Type, TensorType, f64
from xdsl.ir import Attribute, Block, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Input, Sample
from glow_dialects.core.types import Array, dtype_of, typed
from glow_dialects.ops import CARDS

#: Every sample of every card, with a name for the test's report.
SAMPLES: dict[str, Sample] = {
    f"{sample.op.name.removeprefix('glow.')}-{index}": sample
    for card in CARDS
    for index, sample in enumerate(card.SAMPLES)
}


def firsts_quick(values: Iterable[Any], operator: Callable[[Any], type[GraphOp]]) -> list[Any]:
    """Parameters of a test: all but the first of each operator are slow."""
    params: list[Any] = []
    seen: set[type[GraphOp]] = set()
    for value in values:
        op = operator(value)
        params.append(pytest.param(value, marks=[pytest.mark.slow] if op in seen else []))
        seen.add(op)
    return params


def graph_of(sample: Sample) -> tuple[Graph, GraphOp]:
    """A module whose one function applies the sample's operator to placeholders and saves all."""
    graph = Graph()
    op = sample.build(graph.b, [graph.input(a) for a in sample.arrays()])
    for result in op.results:
        graph.save(result)
    return graph, op


def run_block(block: Block, arrays: Sequence[Array], wanted: Sequence[SSAValue]) -> list[Array]:
    """The values of `wanted` when the block's nodes run on argument values."""
    known: dict[SSAValue, Array] = dict(zip(block.args, arrays, strict=True))
    for op in block.ops:
        assert isinstance(op, GraphOp)
        values = [v for group, _ in op.operand_groups() for v in op.operand_group(group)]
        known.update(zip(op.results, op.evaluate([known[v] for v in values]), strict=True))
    return [known[v] for v in wanted]


def run_sample(sample: Sample) -> list[Array]:
    """The results of the sample's operator by its own reference."""
    _, op = sample.detached()
    return op.evaluate(sample.arrays())


def apply(
    op: type[GraphOp],
    *inputs: Input,
    results: Attribute | None = None,
    **properties: object,
) -> Array:
    """The first result of an operator on arrays."""
    return run_sample(Sample(op, inputs, properties, results))[0]


def _wide_array(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _wide_input(value: Input) -> Input:
    if value is None:
        return None
    return _wide_array(value) if isinstance(value, np.ndarray) else [_wide_array(v) for v in value]


def _wide_type(kind: Attribute) -> Attribute:
    if isinstance(kind, TensorType) and isinstance(kind.element_type, Float32Type):
        return TensorType(f64, kind.get_shape())
    return kind


def widened(sample: Sample) -> Sample:
    """The sample with float64 in place of float32."""
    results = sample.results
    if isinstance(results, Sequence):
        results = [_wide_type(r) for r in results]
    elif results is not None:
        results = _wide_type(results)
    return replace(sample, inputs=tuple(_wide_input(v) for v in sample.inputs), results=results)


def gradients(sample: Sample, cotangents: Mapping[int, Array]) -> list[Array | None]:
    """The operand cotangents that the card's gradient gives for result cotangents, None where none."""
    block, op = sample.detached()
    extra: dict[int, SSAValue] = {}
    for index in cotangents:
        extra[index] = block.insert_arg(op.results[index].type, len(block.args))
    made = op.gradient([extra.get(i) for i in range(len(op.results))], Builder.at_end(block))
    assert len(made) == len(op.operands), f"{len(made)} cotangents for {len(op.operands)} operands"
    for value, operand in zip(made, op.operands, strict=True):
        assert value is None or value.type == operand.type, f"{value} for {operand.type}"
    wanted = [v for v in made if v is not None]
    arrays = [*sample.arrays(), *(cotangents[i] for i in extra)]
    values = iter(run_block(block, arrays, wanted))
    return [None if v is None else next(values) for v in made]


def is_real(value: SSAValue) -> bool:
    """Whether the elements are float64."""
    return dtype_of(typed(value)) == np.float64
