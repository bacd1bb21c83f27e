"""Operators with an axis more in front of some operands: each part is what the operator gives for it."""

import itertools

import numpy as np
import pytest
from xdsl.ir import Block

from glow_dialects.core.builder import Builder
from glow_dialects.core.mapped import NotMapped, map_ops
from glow_dialects.core.types import dtype_of, tensor
from glow_dialects.ops import CARDS

PARTS = 3
#: On stored integers, of which functions have none; trees, whose nodes name each other.
APART = ("glow.quantized", "glow.lookup", "glow.tree_sums")
pytestmark = pytest.mark.slow
SAMPLES = [
    pytest.param(s, id=f"{card.__name__.split('.')[-1]}-{i}")
    for card in CARDS
    for i, s in enumerate(getattr(card, "SAMPLES", ()))
    if s.arrays() and all(a.dtype.kind in "biuf" for a in s.arrays()) and not s.op.name.startswith(APART)
]


def _others(array, seed):
    """The array, and others like it: elements in another order; of ints, which may be indices, the rows."""
    rng = np.random.default_rng(seed)
    if array.dtype.kind == "f":
        return np.stack(
            [array, *(rng.permuted(array.ravel()).reshape(array.shape) for _ in range(PARTS - 1))]
        )
    return np.stack([array, *(rng.permutation(array) if array.ndim else array for _ in range(PARTS - 1))])


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_part_is_what_the_operator_gives(sample):
    source, op = sample.detached()
    del source
    arrays = sample.arrays()
    done = 0
    for flags in itertools.islice(itertools.product((True, False), repeat=len(arrays)), 16):
        if True not in flags:
            continue
        given = [_others(a, i) if f else a for i, (a, f) in enumerate(zip(arrays, flags, strict=True))]
        block = Block(
            arg_types=[tensor(g.shape, dtype_of(v.type)) for g, v in zip(given, op.operands, strict=True)]
        )
        values = dict(zip(op.operands, block.args, strict=True))
        mapped = {v for v, f in zip(op.operands, flags, strict=True) if f}
        try:
            map_ops([op], values, mapped, PARTS, Builder.at_end(block))
        except NotMapped:
            continue
        for inner in block.ops:
            inner.verify()
        known = dict(zip(block.args, given, strict=True))
        for inner in block.ops:
            known.update(zip(inner.results, inner.evaluate([known[v] for v in inner.operands]), strict=True))
        for part in range(PARTS):
            row = [g[part] if f else g for g, f in zip(given, flags, strict=True)]
            for have, want in zip(op.results, op.evaluate(row), strict=True):
                np.testing.assert_allclose(known[values[have]][part], want, rtol=2e-3, atol=1e-4)
        done += 1
    assert done, "no way to map it"
