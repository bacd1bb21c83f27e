"""The primitives: names, numbers of arguments, and what they are on Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.utils.exceptions import VerifyException

from glow_dialects.fn.arrays import signature
from glow_dialects.ops import card_of


def _guard(function: Callable[..., float], domain: float = math.nan) -> Callable[..., float]:
    """`function` with IEEE results where Python raises: nan outside the domain, inf beyond the range."""

    def guarded(*x: float) -> float:
        try:
            return function(*x)
        except OverflowError:
            return math.inf
        except ValueError:
            return domain

    return guarded


def _log(x: float) -> float:
    return math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else (-math.inf if x == -1 else math.nan)


def _div(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_div(a: Any, b: Any) -> Any:
    whole = isinstance(a, int) and isinstance(b, int)
    if b != 0:
        return a // b
    return 0 if whole else _div(a, b)


def _mod(a: Any, b: Any) -> Any:
    whole = isinstance(a, int) and isinstance(b, int)
    if b != 0:
        return a % b
    return 0 if whole else math.nan


def _pow(a: Any, b: Any) -> Any:
    try:
        made = a**b
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf
    return math.nan if isinstance(made, complex) else made


def _int(x: Any) -> int:
    return 0 if isinstance(x, float) and not math.isfinite(x) else int(x)


def _rounded(function: Callable[[float], int]) -> Callable[[float], int]:
    def guarded(x: float) -> int:
        return function(x) if not isinstance(x, float) or math.isfinite(x) else 0

    return guarded


#: Functions of numbers and tensors alike: name -> (number of arguments, meaning on Python numbers).
SCALAR: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, _div),
    "floor_div": (2, _floor_div),
    "mod": (2, _mod),
    "pow": (2, _pow),
    "max": (2, lambda a, b: a if a >= b or a != a else b),
    "min": (2, lambda a, b: a if a <= b or a != a else b),
    "atan2": (2, math.atan2),
    "hypot": (2, math.hypot),
    "copysign": (2, math.copysign),
    "fmod": (2, lambda a, b: math.fmod(a, b) if b != 0 and math.isfinite(a) else math.nan),
    "neg": (1, lambda a: -a),
    "abs": (1, abs),
    "exp": (1, _guard(math.exp)),
    "expm1": (1, _guard(math.expm1)),
    "log": (1, _log),
    "log1p": (1, _log1p),
    "safe_log": (1, lambda x: math.log(x) if x > 0 else 0.0),
    "sqrt": (1, _guard(math.sqrt)),
    "sin": (1, _guard(math.sin)),
    "cos": (1, _guard(math.cos)),
    "tan": (1, _guard(math.tan)),
    "asin": (1, _guard(math.asin)),
    "acos": (1, _guard(math.acos)),
    "atan": (1, math.atan),
    "sinh": (1, _guard(math.sinh)),
    "cosh": (1, _guard(math.cosh)),
    "tanh": (1, math.tanh),
    "asinh": (1, math.asinh),
    "acosh": (1, _guard(math.acosh)),
    "atanh": (1, _guard(math.atanh)),
    "erf": (1, math.erf),
    "sign": (1, lambda a: (a > 0) - (a < 0) if isinstance(a, int) else float((a > 0) - (a < 0))),
    "floor": (1, _rounded(math.floor)),
    "ceil": (1, _rounded(math.ceil)),
    "round": (1, _rounded(round)),
    "to_int": (1, _int),
    "to_float": (1, float),
    "to_bool": (1, bool),
    "not": (1, lambda a: not a),
    "eq": (2, lambda a, b: a == b),
    "ne": (2, lambda a, b: a != b),
    "lt": (2, lambda a, b: a < b),
    "le": (2, lambda a, b: a <= b),
    "gt": (2, lambda a, b: a > b),
    "ge": (2, lambda a, b: a >= b),
    "bitand": (2, lambda a, b: a & b),
    "bitor": (2, lambda a, b: a | b),
    "bitxor": (2, lambda a, b: a ^ b),
    "shl": (2, lambda a, b: a << b),
    "shr": (2, lambda a, b: a >> b),
    "invert": (1, lambda a: ~a),
}

#: Primitives on tuples, cotangents and shapes: name -> number of arguments.
STRUCTURE: dict[str, int] = {
    "len": 1,
    "item": 2,
    "concat_tuples": 2,
    "shape": 1,
    "gadd": 2,
    "env_drop": 1,
    "env_item": 1,
    "env_pad": 1,
    "env_put": 1,
    "tuple_put": 2,
    "item_put": 3,
    "field": 1,
    "field_put": 2,
    "field_of": 2,
    "is_a": 1,
    "rows": 2,
    "rows_put": 3,
    "sum_like": 2,
    "like": 2,
    "zero": 0,
    "one_like": 1,
    "stop": 1,
    "fixed": 1,
    "varied": 1,
    "reshape": 2,
    "full": 2,
    "astype": 1,
    "astype_as": 2,
    "to_tuple": 1,
    "with_item": 3,
    "sum_items": 1,
    "fill_like": 2,
    "item_at": 1,
    "like_source": 2,
    "spread": 2,
    "tuple_part": 3,
    "tuple_join": 3,
    "reshape_like": 2,
    "where": 3,
    "cotangent": 2,
    "array_of": 1,
    "items_like": 2,
    "copy": 1,
    "assigned": 1,
    "keys": 1,
    "values": 1,
    "walked": 1,
    "walked_back": 2,
    "has_key": 2,
    "zipped": 1,
    "zipped_back": 2,
    "dict_of": 1,
    "dict_back": 2,
    "zipped_ahead": 2,
    "dict_ahead": 2,
    "taken": 3,
    "with_field": 3,
}

#: Primitives of any number of arguments.
VARIADIC = ("fail", "stack_values", "are_floats", "getitem")


def check_primitive(name: str, count: int) -> None:
    """Raise VerifyException unless there is such a primitive and it takes so many arguments."""
    if name in SCALAR:
        wanted = SCALAR[name][0]
    elif name in STRUCTURE:
        wanted = STRUCTURE[name]
    elif name in VARIADIC:
        return
    else:
        operator = name.split(":")[-1]
        known = signature(operator) if "np:" in name else card_of(operator)
        if name.partition(":")[0] not in ("op", "np", "vjp") or known is None:
            raise VerifyException(f"glow_fn.prim: there is no primitive {name}")
        return
    if wanted != count:
        raise VerifyException(f"glow_fn.prim: {name} takes {wanted} arguments, got {count}")
