"""What is compiled is the code that Python would run: lambdas that share lines, files that were edited."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

# fmt: off
TABLE = dict(f=lambda x: x + 1,
             g=lambda x: x * 5)
SPLIT = [lambda x: max(x, 0.0), lambda x: x,
         lambda x: x * x]
NESTED = (lambda f: (lambda x: (lambda y: f(y) * 2.0)(x)))(lambda x: x + 1.0)
SAME_NAMES = (lambda x: (lambda x: x * 7)(x) + 1, lambda x: x - 1)
CHOSEN = (lambda x: x if True else (lambda x: x * 3)(x), lambda x: (lambda x: 2.0)(x) if 0 else 1.0)
NOT_ASCII = (lambda x: x if "é" == "ü" else x + 1, lambda x: x * 3)
# fmt: on


@pytest.mark.parametrize(
    "function",
    [*TABLE.values(), *SPLIT, NESTED, *SAME_NAMES, *CHOSEN, *NOT_ASCII],
    ids=lambda f: f.__qualname__,
)
def test_lambdas(function: Callable[[float], float]) -> None:
    """Each lambda is the one that it is, wherever others stand."""
    for x in (2.0, -3.0):
        assert glow.jit(function, backend="interpreter")(x) == function(x)


def test_lambdas_inside() -> None:
    """Lambdas of a table, called inside a compiled function."""

    def total(x: float) -> float:
        return SPLIT[0](x) + 10 * SPLIT[1](x) + 100 * SPLIT[2](x)

    assert glow.jit(total)(-3.0) == total(-3.0)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "after",
    ["def f(x):\n    return x * 300\n", "\n\ndef f(x):\n    return x * 4\n", "def f(x:\n", "x = 1\n"],
    ids=["another", "moved", "broken", "gone"],
)
def test_edited(tmp_path: Path, after: str) -> None:
    """A file that was edited after it was imported is refused: its text is not what Python runs."""
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x * 4\n")
    function: Any = _loaded(path).f
    path.write_text(after)
    with pytest.raises(glow.GlowError, match="is not the text any more that f was made of"):
        glow.jit(function)(1.0)


DECORATED = """
def same(f):
    return f

class A:
    @staticmethod
    @same
    def f(x):
        return x + 1

    class B:
        @staticmethod
        def f(x):
            def f(y):
                return y * x
            return f(x) + 2
"""


def test_decorated(tmp_path: Path) -> None:
    """A decorator begins the code of a function; methods and nested functions are found by their lines."""
    path = tmp_path / "decorated.py"
    path.write_text(DECORATED)
    module = _loaded(path)
    for function in (module.A.f, module.A.B.f):
        assert glow.jit(function, backend="interpreter")(3.0) == function(3.0)


def test_no_source() -> None:
    """Code that is in no file."""
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x\n", names)
    with pytest.raises(glow.GlowError, match="the source of f cannot be read"):
        glow.jit(names["f"])(1.0)


@pytest.mark.parametrize("function", [np.sin, math.sin, abs, max])
def test_not_written_in_python(function: Any) -> None:
    """Functions in C are called by functions that are compiled, they are none themselves."""
    with pytest.raises(glow.GlowError, match=f"{function.__name__}.*; call it in a function of yours"):
        glow.jit(function)(1.0)
