"""The values of a program at whatever level it is: graphs node by node, instructions one by one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.base import public_name
from glow_backends.interpreter.backend import InterpreterProgram
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import UnsupportedError, missing_values
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import AllocOp, InstrFuncOp, instr_functions
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, SaveOp, functions, lookup, placeholders


def is_planned(function: InstrFuncOp) -> bool:
    """Whether every buffer has its place."""
    return all(op.offset is not None for op in function.block.ops if isinstance(op, AllocOp))


def run_graph(function: FuncOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What a graph saves, by symbol, for the values of its placeholders, by symbol."""
    return graph_values(function, inputs)[1]


def graph_values(
    function: FuncOp, inputs: Mapping[str, Array]
) -> tuple[dict[SSAValue, Array], dict[str, Array]]:
    """Every value of a graph, and what it saves by symbol, for the values of its placeholders, by symbol."""
    known: dict[SSAValue, Array] = {}
    saved: dict[str, Array] = {}
    for op in function.body.block.ops:
        match op:
            case GetOp():
                known[op.result] = _read(op, op.symbol.root_reference.data, inputs)
            case SaveOp():
                saved[op.symbol.root_reference.data] = known[op.input]
            case GraphOp():
                values = [v for group, _ in op.operand_groups() for v in op.operand_group(group)]
                results = op.evaluate([known[v] for v in values])
                known.update(zip(op.results, results, strict=True))
            case _:
                raise UnsupportedError(f"the interpreter does not know {op.name}")
    return known, saved


def _read(op: GetOp, name: str, inputs: Mapping[str, Array]) -> Array:
    target = lookup(op, name)
    array = target.array() if isinstance(target, ConstantOp) else inputs[name]
    if array is None:
        raise missing_values(name)
    return array


def run_module(module: ModuleOp, feed: Mapping[str, Array]) -> dict[str, Array]:
    """What each function writes, from the first contents of states on; planned ones run as planned.

    The names are those of outputs and states, after `@function ` for functions other than @main.
    UnsupportedError where there is neither a graph nor instructions.
    """
    outputs: dict[str, Array] = {}
    for function in functions(module):
        outputs |= _named(function, _run_graph(module, function, feed))
    for function in instr_functions(module):
        program = InterpreterProgram(module, function, is_planned(function))
        outputs |= _named(function, {**program.run(feed), **program.state})
    if not any(isinstance(op, FuncOp | InstrFuncOp) for op in module.ops):
        raise UnsupportedError("the program has no graph and no instructions that the interpreter could run")
    return outputs


def _named(function: FuncOp | InstrFuncOp, values: Mapping[str, Array]) -> dict[str, Array]:
    name = function.sym_name.data
    return {n if name == "main" else f"@{name} {n}": value for n, value in values.items()}


def placed(module: ModuleOp, feed: Mapping[str, Array]) -> dict[str, Array]:
    """The first values of placeholders by symbol, those of inputs from `feed` by their public names."""
    inputs: dict[str, Array] = {}
    for name, place in placeholders(module).items():
        if place.kind.data == "input":
            inputs[name] = np.asarray(feed[public_name(place)])
        else:
            first = array_of(place.init, typed(place.type)) if place.init is not None else None
            inputs[name] = np.zeros(shape_of(place.type), dtype_of(place.type)) if first is None else first
    return inputs


def _run_graph(module: ModuleOp, function: FuncOp, feed: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by their public names, states by symbol."""
    places = placeholders(module)
    inputs = placed(module, feed)
    saved = run_graph(function, inputs)
    kept = {name: array for name, array in inputs.items() if places[name].kind.data in ("state", "trainable")}
    own = {name: a for name, a in saved.items() if places[name].kind.data not in ("state", "trainable")}
    changed = {name: a for name, a in saved.items() if name not in own}
    return {**{public_name(places[n]): a for n, a in own.items()}, **kept, **changed}
