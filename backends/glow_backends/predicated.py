"""Programs that leave out what predicates say nobody needs: whole parts, or rows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, Program, public_name
from glow_backends.parts import Part, PartsProgram, check_states, compiled_part, ports_of
from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, shape_of
from glow_dialects.dialects import context
from glow_dialects.ops.module import FuncOp, PlaceholderOp, functions, lookup, placeholders
from glow_passes.lower.drop_predicates import DropPredicatesPass
from glow_passes.partition.nodes import node_graph
from glow_passes.partition.predicates import by_predicate, for_rows, predicate_of
from glow_passes.partition.split import extract, split
from glow_passes.pipeline import PassRunner, match_integers, optimize

_GROUPS = 8
"""Rows are computed in groups of this part of all of them, where at most half of them are needed."""

_ROWS_WORK = 20_000_000
"""Operations of a part, some 0.2 ms, below which gathering rows takes what leaving out others saves."""


@dataclass(frozen=True)
class PredicatedPart(Part):
    """A part that runs where the input `predicate` is true: all of it, or `rows`, a program for some rows."""

    predicate: str | None = None
    rows: Program | None = None


class PredicatedProgram(PartsProgram):
    """Runs the parts, and of them the rows, whose predicates are true; what is left out is zero."""

    def step(self, part: Part, values: Mapping[str, Array]) -> dict[str, Array]:
        assert isinstance(part, PredicatedPart)
        if part.predicate is None:
            return super().step(part, values)
        wanted = np.flatnonzero(values[part.predicate])
        count = values[part.predicate].size
        if len(wanted) == 0:
            return {p.name: np.zeros(p.shape, p.dtype) for p in part.program.outputs}
        if part.rows is None or 2 * len(wanted) > count:
            return super().step(part, values)
        return rows_of(part.rows, part.program, wanted, count, values)


def rows_of(
    program: Program, whole: Program, wanted: Array, count: int, values: Mapping[str, Array]
) -> dict[str, Array]:
    """Some rows of the results of a part, by a program for a few of them at a time."""
    results = {p.name: np.zeros(p.shape, p.dtype) for p in whole.outputs}
    size = program.outputs[0].shape[0]
    for first in range(0, len(wanted), size):
        rows = wanted[first : first + size]
        padded = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows))])
        feed = {
            p.name: values[p.name] if p.shape == values[p.name].shape else values[p.name][padded]
            for p in program.inputs
        }
        for name, array in program.run(feed).items():
            results[name][rows] = array[: len(rows)]
    return results


def predicated(module: ModuleOp, backend: Backend) -> Program | None:
    """The program of a module with predicates; None where none of them is worth it.

    The module stays as it is.
    """
    every = list(functions(module))
    sizes = [n for p in placeholders(module).values() for n in shape_of(p.type)]
    if len(every) != 1 or is_open(sizes):
        return None
    work = module.clone()
    PassRunner(context()).run(work, (*match_integers(backend.exact), *optimize()))
    (function,) = functions(work)
    parts = by_predicate(node_graph(function))
    if parts is None:
        return None
    inputs, outputs = ports_of(work, function)
    made = split(function, parts)
    check_states(made, f"backend {backend.name}")
    return PredicatedProgram([_part(f, backend) for f in made], inputs, outputs)


def _part(function: FuncOp, backend: Backend) -> PredicatedPart:
    """A part with its predicate, and its program for some rows where it can be made."""
    names = {name for op in function.walk() if (name := predicate_of(op))}
    program = compiled_part(extract(function), backend)
    if len(names) != 1:
        return PredicatedPart(backend.name, program)
    target = lookup(function, *names)
    assert isinstance(target, PlaceholderOp)
    shape, rows = shape_of(target.type), None
    work = sum(op.work() for op in function.walk() if isinstance(op, GraphOp))
    if shape and shape[0] > 1 and work >= _ROWS_WORK:
        module = extract(function)
        DropPredicatesPass().apply(context(), module)
        if for_rows(module, shape[0], -(-shape[0] // _GROUPS)):
            rows = compiled_part(module, backend)
    return PredicatedPart(backend.name, program, public_name(target), rows)
