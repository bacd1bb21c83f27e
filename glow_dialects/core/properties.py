"""Short definitions of operator properties: numbers, flags, names and lists with defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f64, i64
from xdsl.irdl import BaseAttr, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.size_text import SizesAttr

#: The definition of a property; on an operation, the field is its Python value.
_prop: Callable[..., Any] = prop_def
_opt_prop: Callable[..., Any] = opt_prop_def


def int_prop(default: int | None = None) -> int:
    """An i64 property; required where `default` is None."""
    return _prop(IntegerAttr, default_value=None if default is None else IntegerAttr(default, i64))


def bool_prop(default: bool | None = None) -> bool:
    """A boolean property; required where `default` is None."""
    value = None if default is None else IntegerAttr.from_bool(default)
    return _prop(IntegerAttr, default_value=value)


def float_prop(default: float | None = None) -> float:
    """An f64 property; required where `default` is None."""
    return _prop(FloatAttr, default_value=None if default is None else FloatAttr(default, f64))


def str_prop(default: str | None = None) -> str:
    """A string property; required where `default` is None."""
    return _prop(StringAttr, default_value=None if default is None else StringAttr(default))


def ints_prop(default: Sequence[int] | None = None) -> tuple[int, ...]:
    """A list of i64; required where `default` is None."""
    value = None if default is None else DenseArrayBase.from_list(i64, list(default))
    return _prop(DenseArrayBase.constr(i64) | BaseAttr(SizesAttr), default_value=value)


def floats_prop(default: Sequence[float] | None = None) -> tuple[float, ...]:
    """A list of f64 (i64 where all are whole); required where `default` is None."""
    value = None if default is None else DenseArrayBase.from_list(f64, list(default))
    return _prop(DenseArrayBase.constr(f64) | DenseArrayBase.constr(i64), default_value=value)


def opt_int_prop() -> int | None:
    """An i64 property that may be absent."""
    return _opt_prop(IntegerAttr)


def opt_float_prop() -> float | None:
    """An f64 property that may be absent."""
    return _opt_prop(FloatAttr)


def opt_str_prop() -> str | None:
    """A string property that may be absent."""
    return _opt_prop(StringAttr)


def opt_floats_prop() -> tuple[float, ...] | None:
    """A list of f64 that may be absent."""
    return _opt_prop(DenseArrayBase.constr(f64))


def check_axis(op: str, axis: int, rank: int) -> None:
    """Raise unless 0 <= axis < rank."""
    if not 0 <= axis < rank:
        axes = f"its axes are 0 to {rank - 1}" if rank else "it has no axes"
        raise VerifyException(f"{op}: axis {axis} is outside a tensor of rank {rank}; {axes}")


def check_axes(op: str, axes: Sequence[int], rank: int) -> None:
    """Raise unless the axes are distinct and inside the rank."""
    for axis in axes:
        check_axis(op, axis, rank)
    if len(set(axes)) != len(axes):
        raise VerifyException(f"{op}: axes {list(axes)} repeat; name each once")


def check_length(op: str, what: str, values: Sequence[object], rank: int) -> None:
    """Raise unless there is one value for each of `rank` dimensions."""
    if len(values) != rank:
        raise VerifyException(
            f"{op}: {what} has {len(values)} entries for a tensor of rank {rank}; give one per axis"
        )


def check_choice(op: str, what: str, value: str, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise VerifyException(f"{op}: {what} is '{value}', not one of {', '.join(choices)}")
