"""SymPy's expressions of sizes, which PyTorch writes, as the project's sizes and as values of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import inf, prod
from operator import add
from typing import Any

import numpy as np

from glow_dialects.core.extent import Extent, computed, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.symbols import Symbols
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value

REAL = np.dtype(np.float64)


class Sizes:
    """The symbols of one graph by PyTorch's names; `ranges` are their limits, by SymPy's symbol.

    Those of `known` are numbers.
    """

    def __init__(self, ranges: Mapping[Any, Any], known: Mapping[str, int]) -> None:
        self.symbols = Symbols()
        self._ranges = {str(symbol): limits for symbol, limits in ranges.items()}
        self._made: dict[str, int] = dict(known)

    def size(self, value: Any) -> int:
        """A size of a shape: a number, or a SymInt; RuleError for one that data decide."""
        if isinstance(value, int):
            return int(value)
        return self.of(value.node.expr)

    def shape(self, sizes: Sequence[Any]) -> tuple[int, ...]:
        """A shape."""
        return tuple(map(self.size, sizes))

    def of(self, expr: Any) -> int:
        """A whole SymPy expression as a size."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._symbol(str(expr))
        rule = _WHOLE.get(type(expr).__name__)
        if rule is None:
            raise RuleError(f"the size {expr} is not known here")
        return rule(*map(self.of, expr.args))

    def _symbol(self, name: str) -> int:
        if name not in self._made:
            if not name.startswith("s"):
                raise RuleError(f"the size {name} depends on run-time data")
            limits = self._ranges.get(name)
            least, most = (0, inf) if limits is None else (_limit(limits.lower), _limit(limits.upper))
            self._made[name] = self.symbols.declare(name, max(0, int(least)), most)
        return self._made[name]

    def real(self, g: Emitter, expr: Any) -> Value:
        """A SymPy expression as a scalar of the graph, in double precision."""
        if expr.is_number:
            return np.array(float(expr))
        name = type(expr).__name__
        if name in _REALS:
            return reduce(lambda x, y: g(_REALS[name], x, y), [self.real(g, a) for a in expr.args])
        if name in ("ToFloat", "Identity"):
            return self.real(g, expr.args[0])
        if name == "OpaqueUnaryFn_sqrt":
            return g(SqrtOp, self.real(g, expr.args[0]))
        return g.size(self.of(expr), REAL)


_REALS: dict[str, type[GraphOp]] = {
    "Add": AddOp, "Mul": MulOp, "Pow": PowOp, "Max": MaxOp, "Min": MinOp,
    "FloatTrueDiv": DivOp, "IntTrueDiv": DivOp, "FloatPow": PowOp, "PowByNatural": PowOp,
}  # fmt: skip


def _limit(value: Any) -> float:
    """A limit of a symbol; PyTorch's infinity is a number of its own."""
    return int(value) if value.is_Integer and int(value) < 1 << 62 else inf


def larger(*sizes: int) -> tuple[int]:
    """The largest of some sizes."""
    return (max(sizes),)


def smaller(*sizes: int) -> tuple[int]:
    """The smallest of some sizes."""
    return (min(sizes),)


def power(base: int, exponent: int) -> tuple[int]:
    """A size to a power that is a size."""
    return (base**exponent,)


def _raised(base: int, exponent: int) -> int:
    if isinstance(exponent, Extent):
        return computed(power, base, exponent)[0]
    return prod([base] * exponent)


def _rounded_up(function: Callable[..., Any]) -> Callable[..., int]:
    return lambda *args: computed(function, *args)[0] if is_open(args) else function(*args)[0]


_WHOLE: dict[str, Callable[..., int]] = {
    "Add": lambda *args: reduce(add, args),
    "Mul": lambda *args: prod(args),
    "FloorDiv": lambda x, y: x // y,
    "CleanDiv": lambda x, y: x // y,
    "CeilDiv": lambda x, y: -(-x // y),
    "Mod": lambda x, y: x % y,
    "PythonMod": lambda x, y: x % y,
    "ModularIndexing": lambda x, y, z: x // y % z,
    "Pow": _raised,
    "PowByNatural": _raised,
    "Max": _rounded_up(larger),
    "Min": _rounded_up(smaller),
    "Identity": lambda x: x,
}
