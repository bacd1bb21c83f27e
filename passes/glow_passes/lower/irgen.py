"""glow-irgen: graph functions become instruction functions, one node to one or more instructions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import VariadicDef

from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import buffer_type, typed
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    origin,
)
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, SaveOp, functions, lookup
from glow_passes.contract import GraphPass, Level


class IRGen:
    """Translates one function; nodes ask it for buffers through `alloc` and `emit`."""

    def __init__(self, function: FuncOp) -> None:
        self.source = function
        self.generated = InstrFuncOp.of(function.sym_name.data)
        self.generated.attributes.update(function.attributes)
        self.generated.location = function.location
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.weights: dict[str, WeightOp] = {}
        self.program: list[Operation] = []

    def weight(self, name: str) -> SSAValue:
        """The buffer of a constant or placeholder of the module."""
        if name not in self.weights:
            target = lookup(self.source, name)
            assert target is not None, f"@{name} was verified"
            kind = buffer_type(typed(target.type))
            self.weights[name] = WeightOp.of(target.sym_name, kind, isinstance(target, ConstantOp))
            self.weights[name].location = target.location
        return self.weights[name].result

    def alloc(self, value: SSAValue) -> SSAValue:
        """A new buffer for a graph value."""
        op = AllocOp.of(buffer_type(typed(value)))
        op.result.name_hint = value.name_hint
        self.program.append(op)
        self.buffers[value] = op.result
        return op.result

    def emit(self, op: Operation) -> None:
        """Append an instruction."""
        self.program.append(op)

    def node(self, op: Operation) -> None:
        """Translate one node; what is made of it has its location."""
        before = len(self.program)
        self._translate(op)
        for made in self.program[before:]:
            made.location = op.location

    def _translate(self, op: Operation) -> None:
        match op:
            case GetOp():
                self.buffers[op.result] = self.weight(op.symbol.root_reference.data)
            case SaveOp():
                dest = self.weight(op.symbol.root_reference.data)
                copy = CopyOp(dest, self.buffers[op.input])
                copy.attributes.update(op.attributes)
                self.emit(copy)
            case GraphOp() if op.VIEW:
                view = ViewOp.of(self.buffers[op.operands[0]], buffer_type(typed(op.results[0])))
                view.result.name_hint = op.results[0].name_hint
                self.emit(view)
                self.buffers[op.results[0]] = view.result
            case GraphOp():
                self._automatic(op)
            case _:
                raise UnsupportedError(f"glow-irgen: {op.name} is not a node of the graph")

    def _automatic(self, op: GraphOp) -> None:
        """The 1:1 case: results become @out buffers, operands @in, properties stay."""
        if op.INSTR is None:
            raise UnsupportedError(f"glow-irgen: {op.name} has no instruction; decompose it first")
        outs = [self.alloc(r) for r in op.results]
        ins = [self.buffers[v] for v in op.operands]
        properties = dict(op.properties)
        kinds = [kind for _, kind in op.get_irdl_definition().results]
        results = [len(outs) - len(kinds) + 1 if isinstance(k, VariadicDef) else 1 for k in kinds]
        if SEGMENTS in properties:
            sizes = results + list(properties.pop(SEGMENTS).get_values())  # pyright: ignore
        else:
            predicated = op.predicate is not None
            sizes = results + [len(op.operand_group(n)) for n, _ in op.operand_groups()] + [int(predicated)]
        instruction = op.INSTR.create(
            operands=[*outs, *ins],
            properties=op.INSTR.normalized(sizes, properties),
            attributes=dict(op.attributes),
            regions=[op.detach_region(0) for _ in op.regions],
        )
        self.emit(instruction)

    def finish(self) -> InstrFuncOp:
        """The function, with each buffer deallocated after its last use."""
        self.generated.block.add_ops([*self.weights.values(), *self.program])
        insert_deallocs(self.generated)
        return self.generated


def insert_deallocs(function: InstrFuncOp) -> None:
    """Dealloc every alloc right after the last instruction that uses it or a view of it."""
    last: dict[SSAValue, Operation] = {}
    for op in function.block.ops:
        for operand in op.operands:
            base = origin(operand)
            if isinstance(base.owner, AllocOp):
                last[base] = op
        if isinstance(op, AllocOp):
            last[op.result] = op
    for buffer, op in last.items():
        dealloc = DeallocOp(buffer)
        dealloc.location = op.location
        function.block.insert_op_after(dealloc, op)


def generate(function: FuncOp) -> InstrFuncOp:
    """The instruction function of a graph function."""
    gen = IRGen(function)
    for op in function.body.block.ops:
        gen.node(op)
    return gen.finish()


@dataclass(frozen=True)
class IrgenPass(GraphPass):
    """Replace every glow.func by its glow_instr.func."""

    name = "glow-irgen"
    BODIES = False
    MAKES = (Level.INSTRUCTIONS,)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(functions(op)):
            generated = generate(function)
            block = op.body.block
            block.insert_op_before(generated, function)
            block.erase_op(function)
