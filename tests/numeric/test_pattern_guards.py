"""What patterns leave alone, one reason each, and forms that they take, family by family."""

from __future__ import annotations

import activation_formulas
import arithmetic_formulas
import layer_formulas
import movement_formulas
import numpy as np
import pytest
from graph_runner import Graph, Net

from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.dropout import DropoutOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.simplify import SimplifyPass

MODULES = (activation_formulas, arithmetic_formulas, layer_formulas, movement_formulas)
FAMILIES = {family: cases for module in MODULES for family, cases in module.FAMILIES.items()}
CASES = [(family, name) for family, cases in FAMILIES.items() for name in cases]
X: Array = np.linspace(-4, 4, 18, dtype=np.float32).reshape(3, 6)


@pytest.mark.slow
@pytest.mark.parametrize("family,name", CASES)
def test_pattern(family: str, name: str) -> None:
    """The nodes that the family leaves, beside known values, and the formula's value."""
    build, left = FAMILIES[family][name]
    n = Net()
    n.g.save(build(n, n.g.input(X)))
    want = n.g.run()
    for item in (SimplifyPass(only=(family,)), CsePass(), DcePass()):
        item.apply(context(), n.g.module)
    n.g.module.verify()
    assert " ".join(op for op in n.g.ops() if op != "splat") == left
    for have, value in zip(n.g.run(), want, strict=True):
        np.testing.assert_allclose(have, value, rtol=1e-5, atol=2e-3 if "gelu" in left else 1e-5)


def test_dropout() -> None:
    """Nothing is dropped, and the mask says so."""
    g = Graph()
    node = g.b.insert(DropoutOp(g.input(X), ratio=0.5))
    for value in node.results:
        g.save(value)
    SimplifyPass(only=("noops",)).apply(context(), g.module)
    assert g.ops() == ["splat"]
    x, mask = g.run()
    np.testing.assert_array_equal(x, X)
    assert mask.dtype == bool and mask.all() and mask.shape == X.shape


def test_gather_out_of_range() -> None:
    """The refusal is left to the operator."""
    n = Net()
    n.g.save(n.gather(n.g.input(X), np.array([6]), axis=1))
    SimplifyPass(only=("gathers",)).apply(context(), n.g.module)
    assert n.g.ops() == ["gather"]
