"""glow-cpu-turns: outline the body of a counted loop as a function for native code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_backends.cpu.turns.together import Behind, Together, block_of
from glow_backends.cpu.turns.turns_op import TurnsOp, in_name, out_name, port
from glow_dialects.core.extent import are_equal
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Tensor, element_of, shape_of, tensor, typed
from glow_dialects.ops.control import CONTROL, LoopOp, turns_of, yielded
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.module import (
    ConstantOp,
    FuncOp,
    GetOp,
    PlaceholderOp,
    SaveOp,
    functions,
)
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_passes.contract import GraphPass
from glow_passes.graph.symbols import Symbols


def outline_turns(module: ModuleOp) -> bool:
    """Make functions of the turns of all loops; whether that could be done: else no branch or loop is left.

    A loop counts to a limit that sizes tell, and no data end it before; no branch stands in it.
    """
    return all(_outlined(module, function, function.body.block) for function in list(functions(module)))


def have_rows(module: ModuleOp) -> bool:
    """Whether the turns of a loop take rows, beside their numbers, or stack some.

    Turns of state alone lose what native functions gain from several turns in one graph: element-wise ones on
    4,096 numbers take 0.46 us each, and 0.28 us there.
    """
    found = [op for f in functions(module) for op in f.body.block.ops if isinstance(op, TurnsOp)]
    rows = (v for op in found for v in op.rows if not isinstance(v.owner, IotaOp))
    return any(True for _ in rows) or any(len(op.results) > len(op.state) for op in found)


def _outlined(module: ModuleOp, function: FuncOp, block: Block) -> bool:
    for op in list(block.ops):
        if not isinstance(op, CONTROL):
            continue
        if not isinstance(op, LoopOp) or not _outlined(module, function, op.body.block):
            return False
        turns = turns_of(op)
        if turns is None or turns < 1:
            return False
        _Outline(module, function, op, turns).run()
    return True


class _Outline:
    """One loop, whose body becomes a function."""

    def __init__(self, module: ModuleOp, function: FuncOp, loop: LoopOp, turns: int) -> None:
        self.module, self.function, self.loop = module, function, loop
        self.turns = turns
        self.block = loop.body.block
        self.number, *self.parameters = self.block.args
        self.name = Symbols(module).fresh(f"{function.sym_name.data}.turn")
        self.made = FuncOp.of(self.name)
        #: The state that turns change, as a turn reads it.
        self.changed: list[SSAValue] = []

    # --- around the loop ----------------------------------------------------------------------------
    def before(self, op: Operation) -> Operation:
        """An operation before the loop."""
        parent = self.loop.parent
        assert parent is not None
        op.location = self.loop.location
        parent.insert_op_before(op, self.loop)
        return op

    def outside(self, value: SSAValue) -> bool:
        """Whether a value is made around the loop."""
        return block_of(value) is not self.block

    def run(self) -> None:
        """Put the turns in place of the loop."""
        self._move_invariants()
        rows, end = self._rows(), yielded(self.block)
        kept, stacks = self._results()
        together = Together(self.turns, self.block, {row: whole for whole, row in rows})
        together.before(self.before)
        behind = together.behind({*stacks.values()} - {end.values[1 + i] for i in kept}, self.before)
        for index, row in list(stacks.items()):
            if row in together.whole:
                self.loop.outputs[index].replace_all_uses_with(together.whole[row])
                del stacks[index]
        given = [end.values[1 + i] for i in kept] + [*stacks.values(), *behind.stacked]
        for op in (end, *reversed(behind.ops)):
            op.detach()
            op.erase()
        rows += self._rows_before(together, behind, given)
        results = self._turns([self.loop.state[i] for i in kept], rows, given) if given else []
        for op in behind.made:
            self.before(op)
        for index, result in zip([*kept, *stacks], results, strict=False):
            self.loop.outputs[index].replace_all_uses_with(result)
        for old, new in zip(behind.stacks.args, results[len(kept) + len(stacks) :], strict=True):
            old.replace_all_uses_with(new)
        self.loop.detach()
        self.loop.erase()

    def _turns(
        self, state: list[SSAValue], rows: list[tuple[SSAValue, SSAValue]], given: list[SSAValue]
    ) -> list[SSAValue]:
        """The operation before the loop, whose function gives the state and rows of stacks; its results."""
        if self.number.first_use is not None or self.number in given:
            count = self.before(IotaOp(results=tensor((self.turns,), element_of(self.number)))).results[0]
            rows.append((count, self.number))
        rows = [(whole, row) for whole, row in rows if row.first_use is not None or row in given]
        around = [v for v in dict.fromkeys([*self._operands(), *given]) if self.outside(v)]
        fixed = [v for v in around if not _is_constant(v)]
        kinds = [typed(v) for v in given]
        self._fill([*self.changed, *(row for _, row in rows)], around, fixed, given)
        for place, kind in enumerate(kinds[len(state) :], len(state)):
            kinds[place] = tensor((self.turns, *shape_of(kind)), element_of(kind))
        operands = state, [whole for whole, _ in rows], fixed
        turns = TurnsOp(*operands, results=kinds, function=self.name, turns=(self.turns,))
        self.before(turns)
        return list(turns.results)

    def _results(self) -> tuple[list[int], dict[int, SSAValue]]:
        """The numbers of state that turns change, and rows of that which is a stack; other state stays."""
        kept: list[int] = []
        stacks: dict[int, SSAValue] = {}
        results = list(yielded(self.block).values[1:])
        for index, (parameter, result) in enumerate(zip(self.parameters, results, strict=True)):
            row = self._row_written(parameter, result)
            if row is not None:
                stacks[index] = row
            elif result is not parameter:
                kept.append(index)
        self.changed = [self.parameters[i] for i in kept]
        for index in set(range(len(results))) - {*kept, *stacks}:
            for value in (self.parameters[index], self.loop.outputs[index]):
                value.replace_all_uses_with(self.loop.state[index])
        return kept, stacks

    def _rows_before(
        self, together: Together, behind: Behind, given: list[SSAValue]
    ) -> list[tuple[SSAValue, SSAValue]]:
        """What is computed before the loop, and its rows in place of what turns did for them."""
        found: list[tuple[SSAValue, SSAValue]] = []
        for op in reversed(list(self.block.ops)):
            value = op.results[0]
            if value not in together.whole or value in behind.stacked:
                continue
            if value.first_use is not None or value in given:
                row = self.block.insert_arg(value.type, len(self.block.args))
                value.replace_all_uses_with(row)
                given[:] = [row if v is value else v for v in given]
                found.append((together.whole[value], row))
            op.detach()
            op.erase()
        return found

    def _move_invariants(self) -> None:
        """Take what no turn changes out of the loop."""
        for op in list(self.block.ops):
            if isinstance(op, GraphOp | GetOp) and all(map(self.outside, op.operands)):
                op.detach()
                self.before(op)

    # --- rows ---------------------------------------------------------------------------------------
    def _is_number(self, value: SSAValue) -> bool:
        while isinstance(value.owner, ReshapeOp):
            value = value.owner.input
        return value is self.number

    def _rows(self) -> list[tuple[SSAValue, SSAValue]]:
        """Tensors of which each turn takes its row, and the row."""
        found: dict[SSAValue, SSAValue] = {}
        for op in list(self.block.ops):
            if not isinstance(op, GatherOp) or op.axis or not self.outside(op.data):
                continue
            shape = shape_of(op.data)
            if not self._is_number(op.indices) or not are_equal(shape[0], self.turns):
                continue
            if op.data not in found:
                row = tensor(shape[1:], element_of(op.data))
                found[op.data] = self.block.insert_arg(row, len(self.block.args))
            result = ReshapeOp(found[op.data], results=op.result.type)
            result.location = op.location
            self.block.insert_op_before(result, op)
            op.result.replace_all_uses_with(result.result)
            op.detach()
            op.erase()
        self._drop_dead()
        return list(found.items())

    def _drop_dead(self) -> None:
        for op in reversed(list(self.block.ops)):
            if isinstance(op, ReshapeOp) and op.result.first_use is None:
                op.detach()
                op.erase()

    def _row_written(self, parameter: SSAValue, result: SSAValue) -> SSAValue | None:
        """The row that a turn writes into state that is nothing but a stack of such; None for other state."""
        op = result.owner
        if not isinstance(op, ScatterNdOp) or op.data is not parameter or op.reduction != "none":
            return None
        shape = shape_of(parameter)
        once = sum(1 for _ in parameter.uses) == 1 and sum(1 for _ in result.uses) == 1
        alone = shape_of(op.indices) == (1, 1) and self._is_number(op.indices)
        if not once or not alone or not are_equal(shape[0], self.turns):
            return None
        row = ReshapeOp(op.updates, results=tensor(shape[1:], element_of(parameter)))
        row.location = op.location
        self.block.insert_op_before(row, op)
        end = yielded(self.block)
        end.operands = [row.result if v is result else v for v in end.operands]
        op.detach()
        op.erase()
        self._drop_dead()
        return row.result

    # --- the function -------------------------------------------------------------------------------
    def _operands(self) -> Iterator[SSAValue]:
        for op in self.block.ops:
            yield from op.operands

    def _fill(
        self,
        taken: list[SSAValue],
        around: list[SSAValue],
        fixed: list[SSAValue],
        given: list[SSAValue],
    ) -> None:
        """Write the function: what it reads, constants `around` the loop, the body, what it saves."""
        block = self.made.body.block
        for number, value in enumerate([*taken, *fixed]):
            get = GetOp.of(self._port(in_name(self.name, number), typed(value)))
            block.add_op(get)
            self._replace(value, get.result, given, value in taken)
        for value in around:
            if value not in fixed and isinstance(value.owner, Operation):
                copy = value.owner.clone()
                block.add_op(copy)
                self._replace(value, copy.results[0], given, False)
        for op in list(self.block.ops):
            op.detach()
            block.add_op(op)
        for number, value in enumerate(given):
            block.add_op(SaveOp.of(value, self._port(out_name(self.name, number), typed(value))))
        self.module.body.block.insert_op_after(self.made, self.function)

    def _replace(self, old: SSAValue, new: SSAValue, given: list[SSAValue], everywhere: bool) -> None:
        if everywhere:
            old.replace_all_uses_with(new)
        else:
            for use in list(old.uses):
                if use.operation.parent is self.block:
                    use.operation.operands[use.index] = new
        given[:] = [new if v is old else v for v in given]

    def _port(self, name: str, kind: Tensor) -> PlaceholderOp:
        made = port(name, kind)
        self.module.body.block.insert_op_before(made, self.function)
        return made


def _is_constant(value: SSAValue) -> bool:
    """Whether a function can compute a value itself: a constant, or a value that follows from sizes."""
    owner = value.owner
    if isinstance(owner, GetOp):
        return isinstance(owner.target(), ConstantOp)
    return isinstance(owner, GraphOp) and not owner.operands


@dataclass(frozen=True)
class CpuTurnsPass(GraphPass):
    """`glow.loop` that counts becomes `glow_cpu.turns` of a function of one turn.

    x[number] of what lies around the loop is a row of x, and state that turns only write row by row is a
    stack of rows. Where data end a loop, or a branch stands beside it, nothing is for it.
    """

    name = "glow-cpu-turns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outline_turns(op)


__all__ = ["CpuTurnsPass", "have_rows", "outline_turns"]
