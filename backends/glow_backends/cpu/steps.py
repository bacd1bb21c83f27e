"""Steps of fused epilogues as they stand in the IR: `"relu"`, `"clip(0.0, 6.0)"`, `"add"`, `"mul(0.5)"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.emit.epilogue import BINARY, GATE, EpilogueStep
from glow_backends.cpu.emit.pointwise import supports
from glow_backends.cpu.emit.pointwise_rules import Param
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, present, shape_of, tensor_of
from glow_dialects.dialects import card_ops


def parameters(op: GraphOp) -> tuple[float | int | bool | str, ...]:
    """The properties of an element-wise op in the order of its definition, as rules take them."""
    names = op.get_irdl_definition().properties
    return tuple(getattr(op, n) for n in names if n != SEGMENTS and n in op.properties)


def to_text(step: EpilogueStep) -> str:
    """`op` or `op(param, ...)`."""
    if not step.params:
        return step.op
    return f"{step.op}({', '.join(repr(p) for p in step.params)})"


def to_param(text: str) -> Param:
    """A parameter as `repr` writes it; a ValueError for anything else."""
    if text[:1] in "'\"" and text[:1]:
        return text[1:-1]
    words: Mapping[str, Param] = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return int(text)
    except ValueError:
        return float(text)


def from_text(text: str) -> EpilogueStep:
    """The inverse of `to_text`; a VerifyException where no kernel knows the step."""
    name, _, rest = text.partition("(")
    try:
        params = tuple(to_param(p.strip()) for p in rest.removesuffix(")").split(",")) if rest else ()
    except ValueError:
        raise VerifyException(f"step '{text}' cannot be read; expected op(param, ...)") from None
    if (not supports(name, "f32") and name != GATE) or name == "constant":
        raise VerifyException(f"step '{text}': there is no element-wise operator '{name}'")
    return EpilogueStep(name, params)


def steps_attr(steps: Sequence[EpilogueStep]) -> ArrayAttr:
    """Steps as an attribute."""
    return ArrayAttr([StringAttr(to_text(s)) for s in steps])


def steps_of(attribute: Attribute | None) -> tuple[EpilogueStep, ...]:
    """Steps from an attribute; none where it is absent."""
    if attribute is None:
        return ()
    assert isinstance(attribute, ArrayAttr)
    steps: list[EpilogueStep] = []
    items: tuple[Attribute, ...] = attribute.data
    for item in items:
        if not isinstance(item, StringAttr):
            raise VerifyException(f"steps are strings, got {item}")
        steps.append(from_text(item.data))
    return tuple(steps)


def run_steps(steps: Sequence[EpilogueStep], value: Array, extras: Sequence[Array]) -> Array:
    """The steps in NumPy, by the operators' own references."""
    rest = iter(extras)
    for step in steps:
        operands = [value, next(rest)] if step.binary else [value]
        if step.op == GATE:
            value = np.where(operands[1] > 0, value, value.dtype.type(0))
            continue
        if step.op in BINARY and step.params:
            operands.append(np.array(step.params[0], value.dtype))
            step = EpilogueStep(step.op)
        value = _operator(step, operands).evaluate(operands)[0]
    return np.asarray(value)


def _operator(step: EpilogueStep, operands: Sequence[Array]) -> GraphOp:
    kind = next(c for c in card_ops(GraphOp) if c.name == f"glow.{step.op}")
    assert issubclass(kind, GraphOp)
    names = [n for n in kind.get_irdl_definition().properties if n != SEGMENTS]
    block = Block(arg_types=[tensor_of(a) for a in operands])
    properties: dict[str, Any] = dict(zip(names, step.params, strict=False))
    return kind(*block.args, **properties)


def check_columns(op: Any) -> None:
    """Raise unless the bias of a product has one value a column."""
    for value in present(op.bias):
        if shape_of(value) != shape_of(op.results[0])[-1:]:
            raise VerifyException(f"{op.name}: bias is {value.type}, result {op.results[0].type}")


def check_extras(op: Any) -> None:
    """Raise unless the binary steps have their operands, each of the result's type."""
    extras, wanted = op.extras, sum(s.binary for s in steps_of(op.properties["steps"]))
    if len(extras) != wanted:
        raise VerifyException(f"{op.name}: {wanted} binary steps, {len(extras)} extra operands")
    for value in extras:
        if value.type != op.results[0].type:
            raise VerifyException(f"{op.name}: extra is {value.type}, result {op.results[0].type}")
