"""Samples with changed shapes, types and properties: each is refused with a message, or works."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from card_runner import SAMPLES
from xdsl.ir import Attribute, Block
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_attribute, to_python
from glow_dialects.core.builder import Builder
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array, dtype_of, element_type, shape_of, tensor, typed
from glow_dialects.ops.identity import IdentityOp

pytestmark = pytest.mark.slow

KINDS = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool")
ROUNDS = 8
LARGEST = 100_000


def changed_type(array: Array, rng: random.Random) -> Attribute:
    """The type of an operand, with a dimension changed, added or lost, or another element type."""
    shape = list(array.shape)
    what = rng.random()
    if what < 0.25 and shape:
        shape[rng.randrange(len(shape))] = rng.choice([0, 1, 2, 5])
    elif what < 0.35 and shape:
        shape.pop()
    elif what < 0.45:
        shape.append(rng.choice([0, 1, 3]))
    elif what < 0.5:
        shape = []
    kind = array.dtype if rng.random() < 0.8 else np.dtype(rng.choice(KINDS))
    return tensor(shape, element_type(kind))


def changed_property(attribute: Attribute, rng: random.Random) -> Attribute:
    """A property with another value of the same kind, sensible or not."""
    match to_python(attribute):
        case bool() as flag:
            return to_attribute(not flag)
        case int():
            return to_attribute(rng.choice([-1, 0, 1, 2, 3, 100]))
        case float():
            return to_attribute(rng.choice([0.0, -1.0, 1e30, float("nan")]))
        case str():
            return to_attribute("bogus")
        case tuple() as values:
            return to_attribute(_changed_list(list(values), rng))  # pyright: ignore
        case _:
            return attribute


def _changed_list(values: list[float], rng: random.Random) -> list[float]:
    what = rng.random()
    if values and what < 0.5:
        values[rng.randrange(len(values))] = rng.choice([-2, -1, 0, 1, 2, 7])
    elif values and what < 0.7:
        values.pop()
    else:
        values.append(rng.choice([0, 1]))
    return values


def made(op: GraphOp, types: list[Attribute], properties: dict[str, Attribute]) -> GraphOp:
    """The operator on block arguments of other types; results are inferred where it infers them."""
    block = Block(arg_types=types)
    old = [r.type for r in op.results]
    probe = type(op).create(operands=block.args, result_types=old, properties=properties)
    inferred = probe.infer()
    if inferred is None:
        block.add_op(probe)
        return probe
    probe.drop_all_references()
    twin = type(op).create(operands=block.args, result_types=inferred, properties=properties)
    block.add_op(twin)
    return twin


def attempt(sample: Sample, rng: random.Random) -> None:
    """Change the sample; where the verifier takes it, evaluate, decompose and differentiate it."""
    _, op = sample.detached()
    types = [changed_type(a, rng) for a in sample.arrays()]
    properties = {
        n: changed_property(a, rng) if n != SEGMENTS and rng.random() < 0.3 else a
        for n, a in op.properties.items()
    }
    try:
        twin = made(op, types, properties)
        twin.verify()
    except VerifyException as error:
        assert str(error)
        return
    if max((int(np.prod(shape_of(r))) for r in twin.results), default=0) > LARGEST:
        return
    numbers = np.random.default_rng(0)
    arrays = [numbers.integers(0, 2, shape_of(t)).astype(dtype_of(t)) for t in types]
    try:
        twin.evaluate(arrays)
    except GlowError as error:
        assert "out of range" in str(error)
    block = twin.parent
    assert block is not None
    if twin.can_decompose():
        parts = twin.decompose(Builder.before(twin))
        assert parts is None or [p.type for p in parts] == [r.type for r in twin.results]
    floats = [dtype_of(typed(r)).kind == "f" for r in twin.results]
    for result, real in zip(twin.results, floats, strict=True):
        if real:
            block.add_op(IdentityOp(result))  # what has a cotangent is read
    if twin.has_gradient() and twin.takes_gradient() and any(floats):
        cotangents = [
            block.insert_arg(r.type, len(block.args)) if real else None
            for r, real in zip(twin.results, floats, strict=True)
        ]
        try:
            back = twin.gradient(cotangents, Builder.at_end(block))
        except NotImplementedError:
            return
        for value, operand in zip(back, twin.operands, strict=True):
            assert value is None or value.type == operand.type
    for inner in block.ops:
        inner.verify()


@pytest.mark.parametrize("start", range(ROUNDS))
def test_changed_samples_are_refused_or_work(start: int) -> None:
    """No other exception than the verifier's, and nothing that it takes fails later."""
    rng = random.Random(start)
    names = sorted(SAMPLES)[start::ROUNDS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in names:
            for _ in range(3):
                try:
                    attempt(SAMPLES[name], rng)
                except Exception as error:
                    raise AssertionError(f"{name}: {error!r}") from error
