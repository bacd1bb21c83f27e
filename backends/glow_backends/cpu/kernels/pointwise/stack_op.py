"""`glow_cpu.stack`: a run of element-wise operators as one loop, which are its body.

    %y = glow_cpu.stack %a, %b : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> {
    ^bb0(%0 : tensor<f32>, %1 : tensor<f32>):
      %2 = glow.sub %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %3 = glow.exp %2 : (tensor<f32>) -> tensor<f32>
      glow_cpu.yield %3 : tensor<f32>
    }

Inputs and results of the body are stored as the elements of operands and results are: where those are
quantised, they may be the stored integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import region_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.fused_body import program_of, run_program
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, shape_of


@graph_op
class StackOp(PureOp):
    """Element-wise operators on broadcast operands; every result has the shape of the loop."""

    name = "glow_cpu.stack"
    INPLACE = ("inputs",)
    EACH_INPLACE = True
    CHEAP = True
    body = region_def("single_block")
    inputs = var_operand_def(Tensor)
    result = var_result_def(Tensor)

    def check(self) -> None:
        program = program_of(self.body)
        inside, outside = [*program.dtypes], [dtype_name(v) for v in self.inputs]
        if inside != outside:
            taken, there = ", ".join(inside), ", ".join(outside)
            raise VerifyException(
                f"{self.name}: its body takes {taken}, the operands are {there}; they must be equal"
            )
        kinds = [program.dtype(o) for o in program.outputs]
        if kinds != [dtype_name(r) for r in self.results]:
            raise VerifyException(
                f"{self.name}: its body yields {', '.join(kinds)}; they must be the results"
            )
        shapes = {shape_of(r) for r in self.results}
        wanted = shape_of(self.results[0])
        if len(shapes) > 1 or broadcast_shapes(wanted, *map(shape_of, self.inputs)) != wanted:
            raise VerifyException(
                f"{self.name}: operands and results do not make one loop; sizes must be equal, or 1"
            )

    def reference(self, result: Sequence[Array], inputs: Sequence[Array]) -> None:
        for out, value in zip(result, run_program(program_of(self.body), inputs), strict=True):
            out[...] = value
