"""lookup: a function of stored 8-bit integers as a table (Glow: IntLookupTable)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    QuantizedArray,
    Tensor,
    UniformQuantizedType,
    element_of,
    shape_of,
    tensor,
)
from glow_dialects.ops.quantize import limits_of, quantized_type


@graph_op
class LookupOp(PureOp):
    """result[i] = table[input[i] - smallest stored integer]; a table of 256 results."""

    name = "glow.lookup"
    PARALLEL_BY_TYPE = True
    input = operand_def(Tensor)
    table = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        if quantized_type(self.input).storage.width.data != 8 or shape_of(self.table) != (256,):
            raise VerifyException(
                f"{self.name}: {self.input.type} has no table of 256 entries in {self.table.type}"
                "; give 8-bit values, and a table with one number for each value"
            )
        return [tensor(shape_of(self.input), element_of(self.table))]

    def reference(self, result: Array, input: Array, table: Array) -> None:
        smallest, _ = limits_of(quantized_type(self.operands[1]))
        result[...] = np.take(table, input.astype(np.int64) - smallest)


SAMPLES: tuple[Sample, ...] = (
    Sample(
        LookupOp,
        (
            QuantizedArray.of(
                random(3, 5, dtype="int8", low=-128, high=127), UniformQuantizedType.of(8, 0.1, 3)
            ),
            QuantizedArray.of(np.arange(256)[::-1] // 2, UniformQuantizedType.of(8, 1 / 256, -128)),
        ),
        smooth=False,
    ),
)
