"""Loop distribution: products independent of the loop state before the loop, others that it does not need
after it.

    turn: y = tanh(x W + h U) V    ->    before: p = xs W    turn: z = tanh(p + h U)    behind: ys = zs V

A product of one row reads all of its weights; one of the rows of all turns reads them for many of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.extent import size
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.reshape import ReshapeOp

Insert = Callable[[Operation], Operation]


@dataclass
class Behind:
    """Operations of turns that are computed after the loop, from `stacked` values of turns.

    `made` are those for all turns, which read the arguments of `stacks` in place of the stacks.
    """

    ops: list[Operation]
    stacked: list[SSAValue]
    stacks: Block
    made: list[Operation] = field(default_factory=list[Operation])

    def insert(self, op: Operation) -> Operation:
        """Put an operation at the end."""
        self.made.append(op)
        return op


class Together:
    """What the turns of a loop compute, for all of them at once.

    `whole` has, for values of a turn, the tensors of their rows in all turns.
    """

    def __init__(self, turns: int, block: Block, whole: dict[SSAValue, SSAValue]) -> None:
        self.turns, self.block, self.whole = size(turns), block, whole
        #: Operations on rows, and what follows from them alone.
        self.of_rows: list[Operation] = []

    def inside(self, op: Operation) -> list[SSAValue]:
        """The operands that turns compute."""
        return [v for v in op.operands if block_of(v) is self.block]

    def fits(self, op: Operation) -> bool:
        """Whether all turns of an operation are one operation on the rows of what it reads in a turn."""
        if not isinstance(op, GraphOp) or op.predicate is not None or op.regions or len(op.results) != 1:
            return False
        if isinstance(op, MatmulOp | FullyConnectedOp):
            return self.inside(op) == [op.operands[0]]
        return isinstance(op, ReshapeOp) or (op.DATA_PARALLEL and bool(op.operands))

    def before(self, insert: Insert) -> None:
        """Products of rows, with what leads to them and follows them, are computed before the loop."""
        known = set(self.whole)
        for op in self.block.ops:
            inside = self.inside(op)
            if inside and self.fits(op) and known.issuperset(inside):
                self.of_rows.append(op)
                known.update(op.results)
        wanted = _around_products(self.of_rows)
        for op in self.of_rows:
            if op in wanted:
                self.whole[op.results[0]] = self.of_all(op, insert)

    def _known(self, value: SSAValue, insert: Insert) -> bool:
        """Whether a value of a turn is known for all before the loop; what leads to it is computed there."""
        owner = value.owner
        if value not in self.whole and isinstance(owner, Operation) and owner in self.of_rows:
            for operand in self.inside(owner):
                self._known(operand, insert)
            self.whole[value] = self.of_all(owner, insert)
        return value in self.whole

    def behind(self, rows: set[SSAValue], insert: Insert) -> Behind:
        """Products of which only `rows` of results are made, and what follows from them: after the loop."""
        end = self.block.last_op
        chosen = dict[Operation, None]()
        for op in reversed(list(self.block.ops)):
            uses = [use.operation for result in op.results for use in result.uses]
            free = all(u in chosen or (u is end and op.results[0] in rows) for u in uses)
            if uses and free and self.fits(op):
                chosen[op] = None
        products = _behind_products(list(reversed(chosen)))
        order = [op for op in self.block.ops if op in products]
        inner = dict.fromkeys(v for op in order for v in self.inside(op) if v.owner not in products)
        stacked = [v for v in inner if not self._known(v, insert)]
        stacks = Block(arg_types=[tensor((self.turns, *shape_of(v)), element_of(v)) for v in stacked])
        self.whole |= dict(zip(stacked, stacks.args, strict=True))
        made = Behind(order, stacked, stacks)
        for op in order:
            self.whole[op.results[0]] = self.of_all(op, made.insert)
        return made

    def of_all(self, op: Operation, insert: Insert) -> SSAValue:
        """The operation for all turns; what it reads in a turn is known for all."""
        assert isinstance(op, GraphOp)
        result, kind = op.results[0], element_of(op.results[0])
        if isinstance(op, ReshapeOp):
            return self._reshaped(self.whole[op.input], shape_of(result), insert)
        if isinstance(op, MatmulOp | FullyConnectedOp):
            count, depth = shape_of(op.operands[0])
            flat = tensor((self.turns * count, depth), element_of(op.operands[0]))
            rows = insert(ReshapeOp(self.whole[op.operands[0]], results=flat)).results[0]
            made = insert(op.clone({op.operands[0]: rows}))
            products = tensor((self.turns * count, shape_of(result)[1]), kind)
            value = Rewriter.replace_value_with_new_type(made.results[0], products)
            return self._reshaped(value, shape_of(result), insert)
        rank = len(shape_of(result))
        mapping: dict[SSAValue, SSAValue] = {}
        for value in self.inside(op):
            shape = shape_of(value)
            lines = (*(1,) * (rank - len(shape)), *shape)
            mapping[value] = self._reshaped(self.whole[value], lines, insert)
        made = insert(op.clone(mapping))
        return Rewriter.replace_value_with_new_type(
            made.results[0], tensor((self.turns, *shape_of(result)), kind)
        )

    def _reshaped(self, value: SSAValue, row: tuple[int, ...], insert: Insert) -> SSAValue:
        """The tensor with another shape of its rows."""
        kind = tensor((self.turns, *row), element_of(value))
        return value if value.type == kind else insert(ReshapeOp(value, results=kind)).results[0]


def block_of(value: SSAValue) -> Block | None:
    """The block in which a value is made."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent  # pyright: ignore


def _around_products(ops: list[Operation]) -> set[Operation]:
    """Products among some operations in order, what they need of these, and what follows from them."""
    wanted = _behind_products(ops)
    for op in reversed(ops):
        if any(u.operation in wanted for r in op.results for u in r.uses):
            wanted.add(op)
    return wanted


def _behind_products(ops: list[Operation]) -> set[Operation]:
    """Products among some operations in order, and what follows from them."""
    found: set[Operation] = set()
    for op in ops:
        if isinstance(op, MatmulOp | FullyConnectedOp) or any(v.owner in found for v in op.operands):
            found.add(op)
    return found
