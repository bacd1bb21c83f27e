"""Gradients that a pass writes out, against calculus: of gradients too."""

from __future__ import annotations

import numpy as np
import pytest
from derivative_checks import BACKENDS
from xdsl.parser import Parser

from glow_dialects.dialects import context
from glow_dialects.fn.dialect import GradOp
from glow_passes.fn.expand_grad import expand_gradients
from glow_passes.fn.functions import Functions
from glow_runtime.functions import FunctionProgram

CHOICE = """
glow_fn.func @times(%k, %v) {
  %t = glow_fn.prim mul(%k, %v)
  %r = glow_fn.prim mul(%t, %k)
  glow_fn.return %r
}
glow_fn.func @power(%k, %j, %v) {
  %s = glow_fn.prim mul(%k, %j)
  %t = glow_fn.prim mul(%s, %j)
  %r = glow_fn.prim mul(%t, %v)
  glow_fn.return %r
}
glow_fn.func @f(%c, %x, %y) {
  %g = glow_fn.ref @times
  %a = glow_fn.partial %g(%x)
  %h = glow_fn.ref @power
  %b = glow_fn.partial %h(%x, %y)
  %s = glow_fn.switch %c, %a, %b
  %r = glow_fn.call %s(%y)
  %q = glow_fn.prim mul(%r, %x)
  glow_fn.return %q
}
glow_fn.func @slope(%c, %x, %y) {
  %f = glow_fn.ref @f
  %d = glow_fn.grad %f by 1
  %r = glow_fn.call %d(%c, %x, %y)
  glow_fn.return %r
}
glow_fn.func @second(%c, %x, %y) {
  %f = glow_fn.ref @slope
  %d = glow_fn.grad %f by [1, 2]
  %r = glow_fn.call %d(%c, %x, %y)
  glow_fn.return %r
}
glow_fn.func @third(%c, %x, %y) {
  %d = glow_fn.ref @part
  %e = glow_fn.grad %d by 1
  %r = glow_fn.call %e(%c, %x, %y)
  glow_fn.return %r
}
glow_fn.func @part(%c, %x, %y) {
  %f = glow_fn.ref @second
  %t = glow_fn.call %f(%c, %x, %y)
  %r = glow_fn.get %t[0]
  glow_fn.return %r
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["r", "j"])
def test_gradients_of_gradients(mode: str, backend: str) -> None:
    """In either mode, of one of two functions that hold different values; no gradient is left."""
    module = Parser(context(), CHOICE).parse_module()
    expand_gradients(Functions(module), mode)
    assert not any(isinstance(op, GradOp) for op in module.walk())
    x, y = 1.5, -0.5
    for choice, second, third in (
        (True, (6 * x * y, 3 * x * x), 6 * y),
        (False, (2 * y**3, 6 * x * y * y), 0.0),
    ):
        for name, expected in (("second", second), ("third", third)):
            program = FunctionProgram(module, name, backend)
            assert np.allclose(program.run([choice, x, y]), expected, rtol=1e-12)
            assert program.report()["instances"][0]["runs on"] == backend
