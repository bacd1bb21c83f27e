"""`glow_cpu.stack`: a run of element-wise operators as one loop, its steps readable in the IR.

`%y = glow_cpu.stack %a, %b {steps = ["%2 = sub %0, %1", "%3 = exp %2"], outputs = [3]}`: values %0 ...
are the operands, each step makes the next one, `outputs` names those that are stored. A step is
`%n = op(parameters) %i, %j : dtype`; the dtype is left out where it is that of the first argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block
from xdsl.irdl import prop_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.pointwise import Pointwise, Step, supports
from glow_backends.cpu.steps import to_param
from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp, PureOp, graph_op
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, shape_of, tensor, tensor_of
from glow_dialects.dialects import card_ops

_STEP = re.compile(r"%(\d+) = (\w+)(?:\((.*)\))?((?: %\d+(?:, %\d+)*)?)(?: : (\w+))?")


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a kernel's element type name."""
    if name == "i1":
        return np.dtype(bool)
    if name == "bf16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(f"{name[0]}{values.size(name)}")


def step_text(step: Step, number: int, first: str | None) -> str:
    """A step as it stands in the IR; `first` is the dtype of its first argument."""
    params = f"({', '.join(repr(p) for p in step.params)})" if step.params else ""
    args = " " + ", ".join(f"%{a}" for a in step.args) if step.args else ""
    dtype = "" if step.dtype == first else f" : {step.dtype}"
    return f"%{number} = {step.op}{params}{args}{dtype}"


def program_of(steps: Sequence[str], dtypes: Sequence[str], outputs: Sequence[int]) -> Pointwise:
    """The program that the steps' texts describe; a VerifyException where one makes no sense."""
    known, steps_so_far = list(dtypes), list[Step]()
    for text in steps:
        match = _STEP.fullmatch(text)
        if match is None:
            raise VerifyException(f"glow_cpu.stack: step '{text}' cannot be read")
        number, op, params, args, dtype = match.groups()
        places = tuple(int(a[1:]) for a in args.replace(",", " ").split())
        if int(number) != len(known) or any(a >= len(known) for a in places):
            raise VerifyException(f"glow_cpu.stack: step '{text}' is number %{len(known)}")
        kind = dtype or (known[places[0]] if places else "f32")
        try:
            parsed = tuple(to_param(p.strip()) for p in params.split(",")) if params else ()
        except ValueError:
            raise VerifyException(f"glow_cpu.stack: parameters of '{text}' cannot be read") from None
        if not values.has(kind) or not supports(op, kind):
            raise VerifyException(f"glow_cpu.stack: there is no element-wise '{op}' of {kind}")
        steps_so_far.append(Step(op, places, parsed, kind))
        known.append(kind)
    if not outputs or any(not 0 <= o < len(known) for o in outputs):
        raise VerifyException(f"glow_cpu.stack: outputs {list(outputs)} of {len(known)} values")
    return Pointwise(len(dtypes), tuple(steps_so_far), tuple(outputs), tuple(dtypes))


def steps_attr(program: Pointwise) -> ArrayAttr:
    """The steps of a program as an attribute; the inverse of `program_of`."""
    return ArrayAttr(
        StringAttr(step_text(s, program.inputs + i, program.dtype(s.args[0]) if s.args else "f32"))
        for i, s in enumerate(program.steps)
    )


def program_in(op: Any, arrays: Sequence[Array] | None = None) -> Pointwise:
    """The program of a stack node or instruction, on its operands or on arrays in their place."""
    texts = [t.data for t in op.properties["steps"].data if isinstance(t, StringAttr)]
    inputs = op.inputs if arrays is None else [tensor_of(a) for a in arrays]
    return program_of(texts, [dtype_name(v) for v in inputs], op.outputs)


@graph_op
class StackOp(PureOp):
    """Element-wise steps on broadcast operands; every result has the shape of the loop."""

    name = "glow_cpu.stack"
    INPLACE = ("inputs",)
    EACH_INPLACE = True
    CHEAP = True
    steps = prop_def(ArrayAttr)
    outputs = ints_prop()
    inputs = var_operand_def(Tensor)
    result = var_result_def(Tensor)

    def check(self) -> None:
        program = program_in(self)
        kinds = [program.dtype(o) for o in program.outputs]
        if kinds != [dtype_name(r) for r in self.results]:
            raise VerifyException(f"{self.name}: the outputs are {', '.join(kinds)}")
        shapes = {shape_of(r) for r in self.results}
        wanted = shape_of(self.results[0])
        if len(shapes) > 1 or broadcast_shapes(wanted, *map(shape_of, self.inputs)) != wanted:
            raise VerifyException(f"{self.name}: operands and results do not make one loop")

    def reference(self, result: Sequence[Array], inputs: Sequence[Array]) -> None:
        program, known = program_in(self, inputs), list(inputs)
        for step in program.steps:
            known.append(run_step(step, [known[a] for a in step.args]))
        outputs = [known[o] for o in program.outputs]
        for out, value in zip(result, outputs, strict=True):
            out[...] = value


@cache
def _operators() -> Mapping[str, type[GraphOp]]:
    return {c.name.removeprefix("glow."): c for c in card_ops(GraphOp) if issubclass(c, GraphOp)}


def run_step(step: Step, arrays: Sequence[Array]) -> Array:
    """One step in NumPy, by the operator's own reference."""
    kind = numpy_dtype(step.dtype)
    if step.op == "constant":
        return np.array(step.params[0]).astype(kind)
    operator = _operators()[step.op]
    names = [n for n in operator.get_irdl_definition().properties if n != SEGMENTS]
    block = Block(arg_types=[tensor_of(a) for a in arrays])
    result = tensor(np.broadcast_shapes(*(a.shape for a in arrays)), kind)
    properties: dict[str, Any] = dict(zip(names, step.params, strict=False))
    op = operator(*block.args, results=result, **properties)
    return op.evaluate(arrays)[0]
