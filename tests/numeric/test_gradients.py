"""Gradients of every card against central finite differences in float64, over the cards' samples."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Input, Sample
from glow_dialects.core.types import Array, dtype_of, shape_of, tensor, tensor_of, typed
from glow_dialects.ops import CARDS
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_dialects.reverse import cotangents, differentiable, expand, on_path
from glow_runtime.compile import compile_module

#: Samples of more elements than this are not differentiated by differences.
ELEMENTS = 400


def double(value: Input) -> Input:
    """float32 data as float64."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype == np.float32 else value
    return value if value is None else [v.astype(np.float64) if v.dtype == np.float32 else v for v in value]


def widened(sample: Sample) -> Sample:
    """The sample in float64."""
    results = sample.results
    if results is not None and dtype_of(results) == np.float32:
        results = tensor(shape_of(results), "float64")
    return Sample(sample.op, tuple(double(v) for v in sample.inputs), sample.properties, results)


def samples() -> Iterator[object]:
    """Every sample that is smooth and whose operator has a gradient, or decomposes."""
    for card in CARDS:
        for index, sample in enumerate(getattr(card, "SAMPLES", ())):
            known = sample.op.has_gradient() or sample.op.can_decompose()
            floats = any(a.dtype == np.float32 for a in sample.arrays())
            if sample.smooth and known and floats and sum(a.size for a in sample.arrays()) <= ELEMENTS:
                yield pytest.param(sample, id=f"{sample.op.name.removeprefix('glow.')}-{index}")


def run(block: Block, arrays: list[Array], wanted: list[SSAValue]) -> list[Array]:
    """Evaluate a block operator by operator."""
    known: dict[SSAValue, Array] = dict(zip(block.args, arrays, strict=True))
    for op in block.ops:
        assert isinstance(op, GraphOp)
        op.verify()
        known.update(zip(op.results, op.evaluate([known[v] for v in op.operands]), strict=True))
    return [known[v] for v in wanted]


def weighted(outputs: list[Array], weights: list[Array]) -> float:
    """A number that depends on every element of the outputs."""
    return float(sum((o * w).sum() for o, w in zip(outputs, weights, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("sample", list(samples()))
def test_gradient(sample: Sample) -> None:
    """The cotangents of the operands are the slopes of a weighted sum of the results."""
    sample = widened(sample)
    arrays = sample.arrays()
    block, op = sample.detached()
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    chosen = [i for i, r in enumerate(op.results) if differentiable(r.type)]
    weights = [rng.uniform(-1, 1, shape_of(op.results[i])) for i in chosen]
    weights = [w.astype(dtype_of(typed(op.results[i]))) for i, w in zip(chosen, weights, strict=True)]
    wanted = [a for a in block.args if differentiable(a.type)]

    def value(inputs: list[Array]) -> float:
        fresh, same = sample.detached()
        return weighted(run(fresh, inputs, [same.results[i] for i in chosen]), weights)

    keep = Builder.at_end(block)
    kept = {i: keep(_tag(op.results[i])) for i in chosen}
    expand(list(block.ops), on_path(list(block.ops), list(kept.values()), wanted))
    b = Builder.at_end(block)
    seeds = {kept[i]: b.constant(w) for i, w in zip(chosen, weights, strict=True)}
    grads = cotangents(list(block.ops), seeds, wanted, b)
    present = [v for v in wanted if grads[v] is not None]
    found = dict(zip(present, run(block, arrays, [grads[v] for v in present]), strict=True))  # pyright: ignore
    for index, argument in enumerate(block.args):
        if argument not in wanted or arrays[index].dtype != np.float64:
            continue
        got = found.get(argument, np.zeros_like(arrays[index]))
        np.testing.assert_allclose(got, slopes(value, arrays, index), rtol=1e-5, atol=1e-6)


def _tag(value: SSAValue) -> GraphOp:
    from glow_dialects.ops.identity import IdentityOp

    return IdentityOp(value)


def first_of_each() -> list[object]:
    """One smooth sample of every operator with a gradient."""
    found: dict[str, object] = {}
    for parameter in samples():
        sample = parameter.values[0]  # pyright: ignore
        found.setdefault(sample.op.name, pytest.param(sample, id=sample.op.name.removeprefix("glow.")))
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("sample", first_of_each())
def test_gradient_on_cpu(sample: Sample) -> None:
    """Compiled natively, the gradients of the results' sum are those of the interpreter."""
    module = ModuleOp([])
    function = FuncOp.of("main")
    b = Builder.at_end(function.body.block)
    values: list[SSAValue] = []
    inputs = {f"x{i}": a for i, a in enumerate(sample.arrays())}
    for name, array in inputs.items():
        symbol = PlaceholderOp.of(name, tensor_of(array), "input")
        module.body.block.add_op(symbol)
        values.append(b.insert(GetOp.of(symbol)).result)
    module.body.block.add_op(function)
    op = sample.build(b, values)
    wanted = [v for v in values if differentiable(v.type)]
    kept = [b(_tag(r)) for r in op.results if differentiable(r.type)]
    block = function.body.block
    expand(list(block.ops), on_path(list(block.ops), kept, wanted))
    end = Builder.at_end(block)
    seeds = {v: end.splat(1, v) for v in kept}
    for number, grad in enumerate(cotangents(list(block.ops), seeds, wanted, end).values()):
        if grad is not None:
            symbol = PlaceholderOp.of(f"g{number}", typed(grad), "output")
            module.body.block.insert_op_before(symbol, function)
            end.insert(SaveOp.of(grad, symbol))
    want = compile_module(module, "interpreter").run(inputs)
    for name, got in compile_module(module, "cpu").run(inputs).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5)


def slopes(value: object, arrays: list[Array], index: int, step: float = 1e-5) -> Array:
    """Central differences with respect to one operand."""
    assert callable(value)
    out = np.zeros_like(arrays[index])
    for place in np.ndindex(out.shape):
        ends: list[float] = []
        for sign in (1, -1):
            moved = [a.copy() if i == index else a for i, a in enumerate(arrays)]
            moved[index][place] += sign * step
            ends.append(value(moved))
        out[place] = (ends[0] - ends[1]) / (2 * step)
    return out
