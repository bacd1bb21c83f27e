"""Instructions without a kernel: their NumPy references run them, on the program's own memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.interpreter.backend import part_of, step
from glow_dialects.core.errors import missing_values
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.token import is_token
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of
from glow_dialects.instr.memory import AllocOp, InstrFuncOp, WeightOp, origin, view_offset
from glow_dialects.instr.strides import strides_of
from glow_dialects.ops.module import ConstantOp, lookup


class HostSteps:
    """Runs instructions by their references, on the program's own memory."""

    def __init__(self, function: InstrFuncOp, ops: Sequence[InstrOp]) -> None:
        self._function = function
        self._ops = ops

    def __call__(self, number: int, bound: Mapping[str, Array], arena: Array) -> None:
        op = self._ops[number]
        step(op, {v: self._array(v, bound, arena) for v in op.operands if not is_token(v)})

    def _array(self, value: SSAValue, bound: Mapping[str, Array], arena: Array) -> Array:
        """The memory of a buffer."""
        base, skip = origin(value), view_offset(value)
        owner = base.owner
        if isinstance(owner, AllocOp):
            assert owner.offset is not None
            memory, skip = arena, skip + owner.offset.value.data
        else:
            assert isinstance(owner, WeightOp)
            target = lookup(self._function, owner.target)
            if isinstance(target, ConstantOp):
                array = target.array()
                if array is None:
                    raise missing_values(owner.target)
            else:
                array = bound[owner.target]
            if base is value:
                return array
            memory = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if strides_of(value.type) is not None:
            return part_of(memory, skip, value)
        part = memory[skip : skip + bytes_of(value.type)]
        return part.view(dtype_of(value.type)).reshape(shape_of(value))
