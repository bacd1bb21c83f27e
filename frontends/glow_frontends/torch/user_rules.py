"""Rules that users add: functions of the builder, for operators of their own or in place of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import tensor
from glow_frontends.builder.core import Value as BuilderValue
from glow_frontends.builder.math import Math
from glow_frontends.builder.nn import Networks
from glow_frontends.builder.shapes import Shapes
from glow_frontends.graph import Emitter, RuleError, shape, type_of
from glow_frontends.torch.node import Node
from glow_frontends.torch.rules import OWN
from glow_frontends.torch.tensors import numpy_dtype

Function = Callable[..., Any]


class RuleBuilder(Math, Shapes, Networks):
    """What a rule inserts operators with: the methods of GraphBuilder that do."""


def add_rule(operator: Any, function: Function) -> None:
    """Make a function the rule of an operator: `namespace::name`, `namespace::name.overload` or of torch.ops.

    GlowError for what is no operator, and for operators that change their operands.
    """
    name = _name(operator)
    for overload in _overloads(name):
        if overload._schema.is_mutable:
            raise GlowError(
                f"rule for '{name}': it changes its operands, and a rule only gives results; "
                "add the rule to an operator that returns what it computes"
            )
    OWN[name] = _rule(function)


def remove_rule(operator: Any) -> None:
    """Take away the rule that was added for an operator; nothing where there is none."""
    OWN.pop(_name(operator), None)


def _name(operator: Any) -> str:
    """`namespace.name` or `namespace.name.overload`."""
    schema = getattr(operator, "_schema", None)
    if schema is not None:
        return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
    text = operator if isinstance(operator, str) else str(getattr(operator, "_qualified_op_name", ""))
    space, colons, rest = text.partition("::")
    if not (space and colons and rest) or rest.count(".") > 1:
        raise GlowError(
            f"{operator!r} names no operator; give 'namespace::name', 'namespace::name.overload', "
            "or one of torch.ops"
        )
    return f"{space}.{rest}"


def _overloads(name: str) -> list[Any]:
    """The overloads of a name; GlowError where there are none."""
    import torch  # pyright: ignore[reportMissingImports]

    space, operator, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, space), operator, None)
    found = [] if packet is None else [n for n in packet.overloads() if not overload or n == overload[0]]
    if not found:
        raise GlowError(f"there is no operator '{name.replace('.', '::', 1)}'; define it before its rule")
    return [getattr(packet, n) for n in found]


def _rule(function: Function) -> Function:
    def rule(g: Emitter, n: Node, *operands: Any) -> Any:
        builder = RuleBuilder(g)
        given = [_wrapped(g, builder, operand) for operand in operands]
        try:
            made = function(builder, *given)
        except (RuleError, VerifyException, GlowError):
            raise
        except Exception as error:  # of the user's code, of any kind
            raise RuleError(f"its rule raised {type(error).__name__}: {error}") from error
        several = isinstance(n.meta, list | tuple)
        results: Sequence[Any] = made if several else [made]
        metas: Sequence[Any] = n.meta if several else [n.meta]
        if not isinstance(results, list | tuple) or len(results) != len(metas):
            raise RuleError(f"its rule gives {_described(made)}, the operator {len(metas)} results")
        values = [_result(builder, r, meta) for r, meta in zip(results, metas, strict=True)]
        return values if several else values[0]

    return rule


def _wrapped(g: Emitter, builder: RuleBuilder, operand: Any) -> Any:
    """Tensors as values of the builder; numbers, lists and None as they are."""
    if isinstance(operand, list | tuple):
        return [_wrapped(g, builder, o) for o in operand]
    if isinstance(operand, SSAValue | np.ndarray):
        return BuilderValue(builder, g.value(operand))
    return operand


def _result(builder: RuleBuilder, result: Any, meta: Any) -> Any:
    """What a rule gave as a value; RuleError where it is no tensor like the operator's."""
    if not isinstance(result, BuilderValue | SSAValue | np.ndarray | int | float):
        raise RuleError(f"its rule gives {_described(result)} where a tensor is expected")
    value = builder.value(result).ssa
    wanted = numpy_dtype(meta.dtype)
    sizes = list(zip(shape(value), meta.shape, strict=False))
    same = len(shape(value)) == len(meta.shape) and all(a == b for a, b in sizes if isinstance(b, int))
    own = type_of(value)
    if not same or own.element_type != tensor((), wanted.name).element_type:
        raise RuleError(f"its rule gives {own}, the operator {list(meta.shape)} of {wanted.name}")
    return value


def _described(value: Any) -> str:
    return f"{len(value)} results" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


__all__ = ["RuleBuilder", "add_rule", "remove_rule"]
