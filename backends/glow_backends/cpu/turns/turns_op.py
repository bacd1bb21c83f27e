"""glow_cpu.turns: a loop that calls a function of the module for each row of tensors."""

from __future__ import annotations

from xdsl.irdl import var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import are_equal
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import ints_prop, str_prop
from glow_dialects.core.types import Tensor, shape_of
from glow_dialects.ops.module import PlaceholderOp


@graph_op
class TurnsOp(PureOp):
    """What a `function` leaves after `turns` runs: the last state, and stacks of what each run gives.

    A run takes the state that the one before left, its row of each of `rows` (which lie along axis 0), and
    `fixed` as they are. The function reads them from the placeholders `NAME.in0`, `NAME.in1`.. in this order,
    and saves the new state, then its row of each stack, to `NAME.out0`, `NAME.out1`..
    """

    name = "glow_cpu.turns"
    function = str_prop()
    turns = ints_prop()
    state = var_operand_def(Tensor)
    rows = var_operand_def(Tensor)
    fixed = var_operand_def(Tensor)
    outputs = var_result_def(Tensor)

    def check(self) -> None:
        state = list(self.state)
        if [v.type for v in state] != [r.type for r in self.results[: len(state)]]:
            raise VerifyException(f"{self.name}: the state changes its types; they must stay the same")
        for value in (*self.rows, *self.results[len(state) :]):
            if not shape_of(value) or not are_equal(shape_of(value)[0], self.turns[0]):
                raise VerifyException(
                    f"{self.name}: {value.type} for {self.turns[0]} iterations; "
                    "give one row for each along axis 0"
                )


@instr_op(of=TurnsOp)
class TurnsInstr(InstrOp):
    """The same on buffers."""

    name = "glow_cpu_instr.turns"


def in_name(function: str, number: int) -> str:
    """The placeholder of an operand."""
    return f"{function}.in{number}"


def out_name(function: str, number: int) -> str:
    """The placeholder of a result."""
    return f"{function}.out{number}"


def port(name: str, kind: Tensor) -> PlaceholderOp:
    """A placeholder of a turn."""
    return PlaceholderOp.of(name, kind, "transfer")
