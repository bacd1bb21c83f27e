"""Graphs with branches and loops: what the operations say, on both backends."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.parser import Parser

import glow_compiler as glow
from glow_dialects.dialects import context

BACKENDS = ("cpu", "interpreter")
X = np.array([0.5, -1.5], np.float32)

HEAD = """
glow.constant @w = dense<[2.0, 3.0]> : tensor<2xf32>
glow.constant @three = dense<3> : tensor<i64>
glow.constant @yes = dense<true> : tensor<i1>
glow.constant @no = dense<false> : tensor<i1>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @n input : tensor<i64>
glow.placeholder @m input : tensor<i64>
glow.placeholder @go input : tensor<i1>
"""
GETS = """
  %x = glow.get @x : tensor<2xf32>
  %n = glow.get @n : tensor<i64>
  %m = glow.get @m : tensor<i64>
  %go = glow.get @go : tensor<i1>
  %w = glow.get @w : tensor<2xf32>
  %three = glow.get @three : tensor<i64>
  %yes = glow.get @yes : tensor<i1>
  %no = glow.get @no : tensor<i1>
"""
TENSOR, INT = "tensor<2xf32>", "tensor<i64>"


def compiled(outputs: str, body: str, saves: str, backend: str) -> glow.Executable:
    """The program of a graph with outputs of two floats, or (`count`) an int."""
    places = "".join(
        f"glow.placeholder @{o} output : {INT if o == 'count' else TENSOR}\n" for o in outputs.split()
    )
    text = f"{HEAD}{places}glow.func @main {{{GETS}{body}\n{saves}\n}}"
    return glow.compile(Parser(context(), text).parse_module(), backend=backend)


def loop(limit: str, going: str, onward: str) -> str:
    """v = v * w + x, and the number of the turn, while the loop goes on."""
    operands = [f"%{o}" for o in (limit, going) if o]
    kinds = [{"go": "tensor<i1>", "no": "tensor<i1>"}.get(o, INT) for o in (limit, going) if o]
    sizes = f"operandSegmentSizes = array<i32: {int(bool(limit))}, {int(bool(going))}, 2>"
    return f"""
  %v, %count = "glow.loop"({", ".join([*operands, "%w", "%m"])}) <{{{sizes}}}> ({{
  ^bb0(%i : tensor<i64>, %a : tensor<2xf32>, %old : tensor<i64>):
    %b = glow.mul %a, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %c = glow.add %b, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %below = glow.cmp_lt %i, %m : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %new = glow.add %i, %m : (tensor<i64>, tensor<i64>) -> tensor<i64>
    glow.yield %{onward}, %c, %new : tensor<i1>, tensor<2xf32>, tensor<i64>
  }}) : ({", ".join([*kinds, TENSOR, INT])}) -> (tensor<2xf32>, tensor<i64>)
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("going", ["", "go", "no"])
@pytest.mark.parametrize(
    ("limit", "onward"),
    [
        *[("", "below"), ("", "no"), ("n", "below"), ("n", "yes"), ("n", "no")],
        *[("three", "below"), ("three", "yes"), ("three", "no")],
    ],
)
def test_loops(limit: str, going: str, onward: str, backend: str) -> None:
    """As many turns as the limit, the first condition and those of the body allow."""
    saves = f"  glow.save %v to @v : {TENSOR}\n  glow.save %count to @count : {INT}"
    program = compiled("v count", loop(limit, going, onward), saves, backend)
    for n, m, go in product((0, 1, 4), (0, 2), (True, False)):
        most = {"": 100, "n": n, "three": 3}[limit]
        on = {"": True, "go": go, "no": False}[going]
        turn, v, count = 0, np.array([2, 3], np.float32), m
        while on and turn < most:
            v, count = v * np.array([2, 3], np.float32) + X, turn + m
            on = {"below": turn < m, "yes": True, "no": False}[onward]
            turn += 1
        feeds = {"x": X, "n": np.array(n), "m": np.array(m), "go": np.array(go)}
        found = program.run(feeds)
        np.testing.assert_allclose(found["v"], v, rtol=1e-6)
        assert found["count"] == count


IF = """
  %p, %q = "glow.if"(%go) ({
    %a = glow.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    glow.yield %a, %x : tensor<2xf32>, tensor<2xf32>
  }, {
    %inner = "glow.if"(%below) ({
      %b = glow.mul %twice, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      glow.yield %b : tensor<2xf32>
    }, {
      glow.yield %w : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    glow.yield %inner, %twice : tensor<2xf32>, tensor<2xf32>
  }) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches(backend: str) -> None:
    """Values from around, weights and inputs, in branches in branches; outputs in their order."""
    before = f"""
  %below = glow.cmp_lt %n, %m : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %twice = glow.add %x, %x : ({TENSOR}, {TENSOR}) -> {TENSOR}
"""
    after = f"  %sum = glow.sub %p, %q : ({TENSOR}, {TENSOR}) -> {TENSOR}"
    names = {"q": "q", "sum": "sum", "same": "x", "weight": "w", "p": "p", "again": "p"}
    saves = "\n".join(f"  glow.save %{v} to @{o} : {TENSOR}" for o, v in names.items())
    program = compiled("p sum q weight same again", before + IF + after, saves, backend)
    w = np.array([2, 3], np.float32)
    for go, n in product((True, False), (1, 2, 3)):
        p, q = (X + w, X) if go else (2 * X * w if n < 2 else w, 2 * X)
        found = program.run({"x": X, "n": np.array(n), "m": np.array(2), "go": np.array(go)})
        assert list(found) == ["p", "sum", "q", "weight", "same", "again"]
        for name, value in {"p": p, "q": q, "sum": p - q, "weight": w, "same": X, "again": p}.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6)
