"""SymPy's expressions of sizes, which PyTorch writes, as the project's sizes and as values of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import inf, prod
from operator import add
from typing import Any

import numpy as np

from glow_dialects.core.extent import Extent, computed, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.symbols import Symbols
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MaxOp, MinOp, ModOp, MulOp, PowOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to

REAL, WHOLE = np.dtype(np.float64), np.dtype(np.int64)


class Sizes:
    """The symbols of one graph by PyTorch's names; `ranges` are their limits, by SymPy's symbol.

    Those of `known` are numbers.
    """

    def __init__(self, ranges: Mapping[Any, Any], known: Mapping[str, int]) -> None:
        self.symbols = Symbols()
        self._ranges = {str(symbol): limits for symbol, limits in ranges.items()}
        self._made: dict[str, int] = dict(known)
        self._told: set[str] = set(known)
        #: Numbers that no shape tells and that may be negative: inputs, by PyTorch's names.
        self.numbers: dict[str, Value] = {}

    def tell(self, metas: Iterable[Any]) -> None:
        """Take the symbols that shapes of inputs tell."""
        for meta in metas:
            self._told.update(str(s.node.expr) for s in getattr(meta, "shape", ()) if hasattr(s, "node"))

    def is_told(self, value: Any) -> bool:
        """Whether a number is known, or a size of an input."""
        return not hasattr(value, "node") or all(str(s) in self._told for s in value.node.expr.free_symbols)

    def has_numbers(self, value: Any) -> bool:
        """Whether a number depends on one that is an input."""
        return hasattr(value, "node") and _reads(value.node.expr, self.numbers)

    def whole(self, g: Emitter, value: Any) -> Any:
        """A whole number: a size, or a scalar of the graph where it depends on a number that is an input."""
        return self._computed(g, value.node.expr) if self.has_numbers(value) else self.size(value)

    def _computed(self, g: Emitter, expr: Any) -> Value:
        if str(expr) in self.numbers:
            return self.numbers[str(expr)]
        if not _reads(expr, self.numbers):
            return g.size(self.of(expr), WHOLE)
        name = type(expr).__name__
        if name not in _WHOLES:
            raise RuleError(f"the number {expr} is not known here")
        return reduce(lambda x, y: g(_WHOLES[name], x, y), [self._computed(g, a) for a in expr.args])

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
        if _reads(expr, self.numbers):
            raise RuleError(f"the size {expr} depends on a number that is an input")
        if expr.is_Symbol:
            return self._symbol(str(expr))
        rule = _WHOLE.get(type(expr).__name__)
        if rule is None:
            raise RuleError(f"the size {expr} is not known here")
        return rule(*map(self.of, expr.args))

    def _symbol(self, name: str) -> int:
        if name not in self._made:
            if not name.startswith("s") and name not in self._told:
                raise RuleError(f"the size {name} depends on run-time data")
            limits = self._ranges.get(name)
            least, most = (0, inf) if limits is None else (_limit(limits.lower), _limit(limits.upper))
            self._made[name] = self.symbols.declare(name, max(0, int(least)), most)
        return self._made[name]

    def real(self, g: Emitter, expr: Any) -> Value:
        """A SymPy expression as a scalar of the graph, in double precision."""
        if str(expr) in self.numbers:
            return cast_to(g, self.numbers[str(expr)], REAL)
        if expr.is_number:
            return np.array(float(expr))
        name = type(expr).__name__
        if name in _REALS:
            return reduce(lambda x, y: g(_REALS[name], x, y), [self.real(g, a) for a in expr.args])
        if name in ("ToFloat", "Identity"):
            return self.real(g, expr.args[0])
        if name == "OpaqueUnaryFn_sqrt":
            return g(SqrtOp, self.real(g, expr.args[0]))
        if _reads(expr, self.numbers):
            return cast_to(g, self._computed(g, expr), REAL)
        return g.size(self.of(expr), REAL)


def _reads(expr: Any, numbers: Mapping[str, Value]) -> bool:
    return bool(numbers) and any(str(symbol) in numbers for symbol in expr.free_symbols)


_WHOLES: dict[str, type[GraphOp]] = {
    "Add": AddOp, "Mul": MulOp, "FloorDiv": FloorDivOp, "CleanDiv": FloorDivOp, "Mod": ModOp,
    "PythonMod": ModOp, "Max": MaxOp, "Min": MinOp, "Pow": PowOp, "PowByNatural": PowOp,
}  # fmt: skip
_REALS: dict[str, type[GraphOp]] = {
    "Add": AddOp, "Mul": MulOp, "Pow": PowOp, "Max": MaxOp, "Min": MinOp,
    "FloatTrueDiv": DivOp, "IntTrueDiv": DivOp, "FloatPow": PowOp, "PowByNatural": PowOp,
}  # fmt: skip


def _limit(value: Any) -> float:
    """A limit of a symbol; PyTorch's infinities are numbers of their own."""
    if value.is_Integer and abs(int(value)) < 1 << 62:
        return int(value)
    return inf if value > 0 else 0


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
