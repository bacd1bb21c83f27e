"""glow-bind-sizes: what a graph is for some of its sizes, and which sizes it is not for."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import OpenSizes, ShapeError
from glow_dialects.dialects import context
from glow_dialects.ops.module import placeholders
from glow_dialects.parse import parse_module
from glow_passes.graph.bind_sizes import BindSizesPass, bind_sizes, check_open, sizes_of, symbols_of

#: Rows by eights, as many columns as one likes, and a rest that must not be negative.
TEXT = """
builtin.module attributes {glow.symbols =
  #glow.symbols<n = 64 from 8 to 512 by 8, k = 33 from 3 where SAID>} {
  glow.placeholder @x input : tensor<[n]x[k]xf32>
  glow.placeholder @y output : tensor<[k]x[n]xf32>
  glow.placeholder @r output : tensor<[n-16]x[k]xf32>
  glow.func @main {
    %x = glow.get @x : tensor<[n]x[k]xf32>
    %t = glow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<[n]x[k]xf32>) -> tensor<[k]x[n]xf32>
    glow.save %t to @y : tensor<[k]x[n]xf32>
    %r = glow.slice %x {starts = array<i64: 16, 0>, ends = #glow.sizes<[n, k]>, steps = array<i64: 1, 1>}
      : (tensor<[n]x[k]xf32>) -> tensor<[n-16]x[k]xf32>
    glow.save %r to @r : tensor<[n-16]x[k]xf32>
  }
}
"""


def module(said: str = "[n - 16] ge 0") -> ModuleOp:
    """The graph, made where `said` was decided."""
    return parse_module(TEXT.replace("SAID", said), "", context())


def bound(*sizes: str, said: str = "[n - 16] ge 0") -> ModuleOp:
    """The graph for some sizes."""
    made = module(said)
    BindSizesPass(sizes).apply(context(), made)
    return made


def shapes(made: ModuleOp) -> dict[str, str]:
    """The types of its placeholders."""
    return {name: str(p.type) for name, p in placeholders(made).items()}


def test_all_sizes() -> None:
    """Numbers everywhere, no symbols; it runs as what it says."""
    made = bound("n=24", "k=3")
    assert symbols_of(made) is None
    assert shapes(made) == {"x": "tensor<24x3xf32>", "y": "tensor<3x24xf32>", "r": "tensor<8x3xf32>"}
    x = np.arange(72, dtype=np.float32).reshape(24, 3)
    out = glow.compile(made, backend="interpreter").run({"x": x})
    np.testing.assert_array_equal(out["y"], x.T)
    np.testing.assert_array_equal(out["r"], x[16:])


def test_one_size() -> None:
    """The other one stays open, with its limits, and can be bound later."""
    made = bound("n=24")
    assert [s.name for s in symbols_of(made).symbols] == ["n", "k"]  # pyright: ignore
    assert shapes(made)["r"] == "tensor<8x[k]xf32>"
    made.verify()
    with pytest.raises(ShapeError, match="k = 2: it is from 3 on"):
        BindSizesPass(("k=2",)).apply(context(), made)
    BindSizesPass(("k=5",)).apply(context(), made)
    assert shapes(made) == {"x": "tensor<24x5xf32>", "y": "tensor<5x24xf32>", "r": "tensor<8x5xf32>"}


def test_the_limits_themselves() -> None:
    """Least and largest sizes are sizes."""
    assert shapes(bound("n=16", "k=3"))["r"] == "tensor<0x3xf32>"
    assert shapes(bound("n=512", "k=3"))["x"] == "tensor<512x3xf32>"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (("n=520", "k=3"), "n = 520: it is from 8 to 512"),
        (("n=0", "k=3"), "n = 0: it is from 8 to 512"),
        (("n=24", "k=2"), "k = 2: it is from 3 on"),
        (("n=20", "k=3"), "n = 20: it is a multiple of 8"),
        (("m=3",), "'m=3': unknown size or not a number; sizes: n, k"),
        (("n=x",), "'n=x': unknown size or not a number; sizes: n, k"),
        (("n",), "'n': unknown size or not a number; sizes: n, k"),
        (("n=8", "k=3"), r"the graph is not for n = 8, k = 3: it was made for n-16 >= 0"),
    ],
)
def test_refused_sizes(sizes: tuple[str, ...], message: str) -> None:
    """By name, with what there is."""
    with pytest.raises(ShapeError, match=message):
        bound(*sizes)


def test_what_was_decided() -> None:
    """A size that was fixed is that one; that two differ is no condition, nor what is left open."""
    assert shapes(bound("n=24", "k=33", said="[k - 33] eq 0"))["x"] == "tensor<24x33xf32>"
    with pytest.raises(ShapeError, match="it was made for"):
        bound("n=24", "k=5", said="[k - 33] eq 0")
    assert shapes(bound("n=24", "k=5", said="[k - 5] ne 0"))["x"] == "tensor<24x5xf32>"
    assert shapes(bound("n=24", said="[n - k] ge 0"))["x"] == "tensor<24x[k]xf32>"
    check_open(module())
    with pytest.raises(OpenSizes):
        check_open(module("[k - 33] eq 0"))
    check_open(bound("n=24", "k=3"))


def test_negative_sizes() -> None:
    """Where nothing said how small a size may be."""
    with pytest.raises(ShapeError, match=r"not for n = 8, k = 3: .*negative size"):
        bound("n=8", "k=3", said="[n] ge 0")


def test_no_symbols() -> None:
    """A graph of known sizes has none to bind."""
    made = bound("n=24", "k=3")
    bind_sizes(made, {})
    with pytest.raises(ShapeError, match="'n=24': unknown size or not a number; sizes: none"):
        BindSizesPass(("n=24",)).apply(context(), made)
    assert sizes_of(made, {"x": (24, 3)}) == {}
    bind_sizes(opened := module(), {})
    assert symbols_of(opened) is not None


def test_sizes_by_shapes() -> None:
    """All of them, some, and shapes that tell none."""
    made = module()
    found = {s.name: n * s.divisor for s, n in sizes_of(made, {"x": (24, 5)}).items()}
    assert found == {"n": 24, "k": 5}
    assert sizes_of(made, {}, every=False) == {}
    with pytest.raises(ShapeError, match=r": no input determines the size n, k"):
        sizes_of(made, {})
    with pytest.raises(ShapeError, match=r"'x' has shape \(24,\), expected \(n, k\)"):
        sizes_of(made, {"x": (24,)})
    with pytest.raises(ShapeError, match=r"x \(23, 5\): "):
        sizes_of(made, {"x": (23, 5)})
