"""glow-bench --accuracy: how exact each convolution of a model is, against sums in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.select import select
from glow_backends.phases import common_phases, phases
from glow_dialects.core.builder import Builder
from glow_dialects.core.types import Array, shape_of, tensor, typed
from glow_dialects.dialects import context
from glow_dialects.instr.memory import instr_functions
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import (
    ConstantOp,
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    constant_value,
    functions,
)
from glow_tools.common import read_module


@dataclass(frozen=True)
class Accuracy:
    """One convolution: its kernel, and errors relative to the largest result (in float64).

    `error` and `plain_error` are the largest differences of the chosen kernel and of the kernel
    without Winograd, `rms` the root of the mean square of the chosen kernel's.
    """

    name: str
    shapes: str
    kernel: str
    error: float
    rms: float
    plain_error: float


def print_accuracy(accuracies_of_layers: Sequence[Accuracy]) -> None:
    """Print a table of a model's convolutions."""
    table = Table(title="errors of convolutions, relative to the largest value of the float64 result")
    for name in ("convolution", "input, filter", "kernel"):
        table.add_column(name)
    for name in ("largest error", "rms error", "without Winograd"):
        table.add_column(name, justify="right")
    for item in accuracies_of_layers:
        errors = (f"{e:.1e}" for e in (item.error, item.rms, item.plain_error))
        table.add_row(item.name, item.shapes, item.kernel, *errors)
    Console(width=140, highlight=False).print(table)


def accuracies(
    path: str,
    shapes: Mapping[str, Sequence[int]],
    backend: CpuBackend,
    seed: int,
    inputs: Mapping[str, Any],
) -> list[Accuracy]:
    """Each float convolution with constant filters, on standard normal inputs; equal ones once.

    `inputs` are as in `read_module`. Those of quantised models are in float where the backend is `exact`.
    """
    module = read_module(path, dict(shapes), inputs=inputs)
    ctx = context()
    for item in (p for _, passes in common_phases(backend) for p in passes):
        item.apply(ctx, module)
    plain = CpuBackend(cpu="host", winograd=False)
    rng = np.random.default_rng(seed)
    errors: dict[object, Accuracy] = {}
    for function in functions(module):
        for number, op in enumerate(function.body.block.ops):
            if not isinstance(op, ConvOp):
                continue
            weights = constant_value(op.operands[1])
            key = (tuple(map(str, op.operand_types)), str(op.properties))
            if weights is None or key in errors:
                continue
            x = rng.standard_normal(shape_of(op.operands[0])).astype(np.float32)
            errors[key] = _accuracy(op, x, weights, number, backend, plain)
    return list(errors.values())


def _accuracy(
    op: ConvOp, x: Array, weights: Array, number: int, backend: CpuBackend, plain: CpuBackend
) -> Accuracy:
    exact = reference(op, x, weights)
    kernel, got = alone(op, x, weights, backend)
    _, other = alone(op, x, weights, plain)
    scale = float(np.abs(exact).max()) or 1.0
    return Accuracy(
        op.results[0].name_hint or f"node {number}",
        f"{'x'.join(map(str, x.shape))}, {'x'.join(map(str, weights.shape))}",
        kernel,
        float(np.abs(got - exact).max()) / scale,
        float(np.sqrt(np.square(got - exact).mean())) / scale,
        float(np.abs(other - exact).max()) / scale,
    )


def reference(op: ConvOp, x: Array, weights: Array) -> Array:
    """The convolution, without its bias, in float64."""
    body = Builder.at_end(FuncOp.of("main").body.block)
    sources = [PlaceholderOp.of(n, tensor(a.shape, np.float64)) for n, a in (("x", x), ("w", weights))]
    values = [body.insert(GetOp.of(s)).result for s in sources]
    twin = body.insert(ConvOp(*values, None, **_properties(op)))
    return twin.evaluate([x.astype(np.float64), weights.astype(np.float64)])[0]


def _properties(op: ConvOp) -> dict[str, Any]:
    return {n: a for n, a in op.properties.items() if n != "operandSegmentSizes"}


def alone(op: ConvOp, x: Array, weights: Array, backend: CpuBackend) -> tuple[str, Array]:
    """The convolution as a program of its own: its kernel's name, and the result in float64."""
    function = FuncOp.of("main")
    body = Builder.at_end(function.body.block)
    source, filters = PlaceholderOp.of("x", typed(op.operands[0])), ConstantOp.of("w", weights)
    values = [body.insert(GetOp.of(s)).result for s in (source, filters)]
    result = body.insert(ConvOp(*values, None, **_properties(op))).results[0]
    target = PlaceholderOp.of("y", typed(result), "output")
    body.insert(SaveOp.of(result, target))
    module = ModuleOp([source, filters, target, function])
    ctx = context()
    for _, passes in phases(backend):
        for item in passes:
            item.apply(ctx, module)
    program = backend.compile(module)
    calls = select(instr_functions(module)[0], backend.target).calls
    main = max(calls, key=lambda c: c.flops, default=None)
    name = "host" if main is None else main.emit.__name__.removeprefix("emit_")
    return name, program.run({"x": x})["y"].astype(np.float64)
