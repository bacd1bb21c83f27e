"""What holds for every operator card: syntax, types, decomposition, gradient, over all samples."""

from __future__ import annotations

from io import StringIO

import ml_dtypes
import numpy as np
import pytest
from card_runner import SAMPLES, firsts_quick, gradients, graph_of, is_real, run_block, run_sample, widened
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, shape_of, tensor, typed
from glow_dialects.ops import CARDS
from glow_passes.lower.irgen import IrgenPass
from glow_tools.context import tool_context

CONTEXT = tool_context()
STEP = 1e-5


def reparsed(module: ModuleOp, generic: bool) -> ModuleOp:
    """The module printed and parsed again."""
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    again = Parser(CONTEXT, stream.getvalue()).parse_module()
    again.verify()
    return again


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts_quick(sorted(SAMPLES), lambda name: SAMPLES[name].op))
def test_round_trip(name: str) -> None:
    """Nodes and instructions print and parse, in the custom and the generic form."""
    graph, _ = graph_of(SAMPLES[name])
    module = graph.module
    module.verify()
    for generic in (False, True):
        assert module.is_structurally_equivalent(reparsed(module, generic))
    if SAMPLES[name].op.INSTR is None and not SAMPLES[name].op.VIEW:
        return
    IrgenPass().apply(CONTEXT, module)
    module.verify()
    for generic in (False, True):
        assert module.is_structurally_equivalent(reparsed(module, generic))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_results_have_the_inferred_types(name: str) -> None:
    """The reference gives arrays of the result types, and the verifier takes no other type."""
    sample = SAMPLES[name]
    _, op = sample.detached()
    op.verify()
    for array, result in zip(op.evaluate(sample.arrays()), op.results, strict=True):
        assert array.shape == shape_of(result)
        assert array.dtype == dtype_of(typed(result))
    if sample.results is None:
        wrong = [tensor((97, 89), f32) for _ in op.results]
        twin = type(op).create(operands=op.operands, result_types=wrong, properties=op.properties)
        with pytest.raises(VerifyException):
            twin.verify()


def close(actual: Array, expected: Array, name: str) -> None:
    """Equal integers; floats within some roundings of their type."""
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=name)
    else:
        eps = max(float(ml_dtypes.finfo(actual.dtype).eps), 1e-6)
        wide = (actual.astype(np.float64), expected.astype(np.float64))
        np.testing.assert_allclose(*wide, rtol=16 * eps, atol=2 * eps, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, s in sorted(SAMPLES.items()) if s.op.can_decompose()])
def test_decomposition_agrees(name: str) -> None:
    """Smaller operators give what the reference gives."""
    sample = SAMPLES[name]
    expected = run_sample(sample)
    block, op = sample.detached()
    parts = op.decompose(Builder.before(op))
    if parts is None:
        return
    assert [p.type for p in parts] == [r.type for r in op.results]
    for old, new in zip(op.results, parts, strict=True):
        old.replace_all_uses_with(new)
    block.erase_op(op)
    for actual, wanted in zip(run_block(block, sample.arrays(), list(parts)), expected, strict=True):
        close(actual, wanted, name)


SMOOTH = [n for n, s in sorted(SAMPLES.items()) if s.smooth and s.op.has_gradient()]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_agrees_with_finite_differences(name: str) -> None:
    """Cotangents against central differences of a random projection of the results, in float64."""
    sample = widened(SAMPLES[name])
    _, op = sample.detached()
    arrays = sample.arrays()
    rng = np.random.default_rng(1)
    real = [i for i, r in enumerate(op.results) if is_real(r)]
    cotangents = {i: np.asarray(rng.standard_normal(shape_of(op.results[i]))) for i in real}

    def projected() -> float:
        made = op.evaluate(arrays)
        return float(sum(np.vdot(cotangents[i], made[i]) for i in real))

    for index, made in enumerate(gradients(sample, cotangents)):
        x = arrays[index]
        if made is None:
            continue
        assert is_real(op.operands[index]), f"a cotangent for operand {index} of {name}"
        for place in rng.permutation(x.size)[:10]:
            at = np.unravel_index(place, x.shape)
            before = x[at]
            x[at] = before + STEP
            above = projected()
            x[at] = before - STEP
            below = projected()
            x[at] = before
            slope = (above - below) / (2 * STEP)
            assert made[at] == pytest.approx(slope, rel=1e-5, abs=1e-6), f"operand {index} at {at}"


#: Operators on quantised tensors, whose types no array has; their tests stand elsewhere.
QUANTISED = {"glow.dequantize", "glow.rescale"}


def test_every_operator_has_a_sample() -> None:
    """A card without a sample is tested by nothing."""
    sampled = {s.op for s in SAMPLES.values()}
    named = {
        op
        for card in CARDS
        for op in vars(card).values()
        if isinstance(op, type) and issubclass(op, GraphOp) and "name" in vars(op)
    }
    assert {op.name for op in named - sampled} <= QUANTISED
