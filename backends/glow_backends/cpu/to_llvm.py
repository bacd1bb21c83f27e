"""convert-glow-instr-to-llvm: the program function becomes calls of kernels in xDSL's `llvm` dialect.

`llvm.func @glow_main(%io, %weights, %arena, %worker)`: `io` is a table of pointers (one a placeholder,
then the host's callback, the workers' barrier, the table of faults and the blocks of constants that are
shared), `weights` the program's own block of constants, `arena` the planned memory with the kernels'
scratch behind it, `worker` the number of the calling thread.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, UnitAttr, i8, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from glow_backends.cpu.calls import KernelCall, Packed
from glow_backends.cpu.faults import FAULT_BYTES, FAULT_SLOT
from glow_backends.cpu.memory import give_back
from glow_backends.cpu.select import Buffer, HostStep, Selection, TurnsCall, select
from glow_backends.cpu.support import BARRIER, HOST, MAIN, TICKETS
from glow_backends.cpu.target import CpuTarget, named
from glow_backends.cpu.weights import Place, ProgramWeights, content_of, shared_slot
from glow_dialects.core.attributes import Resource, ResourceAttr, integers
from glow_dialects.core.errors import missing_values
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.types import Array, bytes_of
from glow_dialects.instr.memory import (
    AllocOp,
    InstrFuncOp,
    WeightOp,
    instr_functions,
    origin,
    view_offset,
)
from glow_dialects.ops.module import ConstantOp, lookup, placeholders
from glow_passes.contract import InstructionPass

_PTR = llvm.LLVMPointerType()
NUMBERS = "%numbers"
"""The slot of the table that programs of open sizes read."""
_LARGEST_INDEX = 2**31 - 1
_BYTES_BEHIND: dict[str, Attribute] = {
    "elem_type": i8,
    "noWrapFlags": IntegerAttr(0, i32),
    "inbounds": UnitAttr(),
}
"""A GEP's properties but its distance; its constructor makes them anew for each of hundreds."""
_TRIM_BYTES = 8 << 20
"""Constants that are dropped before their memory is returned to the system."""


@dataclass
class ProgramCode:
    """The program function and its globals."""

    module: ModuleOp
    weights: ProgramWeights
    #: Placeholder symbol -> its place in the io table; then callback, barrier, faults and shared blocks.
    slots: dict[str, int] = field(default_factory=dict[str, int])
    #: The names of the calls that report indices out of range.
    faults: list[str] = field(default_factory=list[str])


def convert(
    source: ModuleOp,
    function: InstrFuncOp,
    selection: Selection,
    target: CpuTarget,
    own: bool = False,
    weights: ProgramWeights | None = None,
) -> ProgramCode:
    """The program function of a selection, in a module of its own.

    `own`: constants of `source` lose their values when the last kernel's operands are packed. `weights`
    are where constants go, beside those of programs before.
    """
    slots = {n: i for i, n in enumerate(placeholders(source))}
    if selection.numbers is not None:
        slots[NUMBERS] = len(slots)
    weights = weights or ProgramWeights()
    weights.begin()
    code = ProgramCode(ModuleOp([]), weights, slots)
    conversion = Conversion(code, function, selection, target)
    if own and not selection.host_steps:
        conversion.uses = Counter(n for c in selection.calls for n in map(_constant_name, c.operands) if n)
    conversion.run()
    return code


class Conversion:
    """Builds the program function step by step; profilers add their own calls to it."""

    def __init__(
        self, code: ProgramCode, function: InstrFuncOp, selection: Selection, target: CpuTarget
    ) -> None:
        self.code = code
        self.function = function
        self.selection = selection
        self.target = target
        self.block = Block(arg_types=(_PTR, _PTR, _PTR, i64))
        for value, hint in zip(self.block.args, ("io", "weights", "arena", "worker"), strict=True):
            value.name_hint = hint
        self.declared: dict[str, llvm.FuncOp] = {}
        #: The first call of each: others have the same properties.
        self.calls: dict[str, llvm.CallOp] = {}
        self.cached: dict[tuple[SSAValue, int], SSAValue] = {}
        self.contents: dict[str, str] = {}
        #: How often calls are yet to read the constants that are dropped after their last use.
        self.uses: Counter[str] = Counter()
        self.freed = 0
        #: The functions of turns that there are.
        self.turns_made: set[str] = set()

    def run(self) -> None:
        self.function_of_steps(MAIN)
        body = self.code.module.body.block
        for declaration in self.declared.values():
            body.add_op(declaration)

    def function_of_steps(self, name: str) -> None:
        """The program function, under a name."""
        steps = 0
        for item in self.selection.steps:
            if isinstance(item, HostStep):
                self.host_call(steps)
                steps += 1
            else:
                self.kernel_call(item)
            if self.target.threads > 1:
                self.call(BARRIER, [self.block.args[0], self.constant(len(self.code.slots) + 1)])
        self.add(llvm.ReturnOp())
        kind = llvm.LLVMFunctionType([_PTR, _PTR, _PTR, i64])
        made = llvm.FuncOp(name, kind, llvm.LinkageAttr("external"), body=Region(self.block))
        self.code.module.body.block.add_op(made)

    def kernel_call(self, call: KernelCall) -> None:
        code = self.selection.codes.of(call)
        pointers = [self.pointer(o) for o in call.operands]
        if isinstance(call, TurnsCall):
            pointers = self.turns(call, pointers)
        if call.checked is not None:
            pointers.append(self.fault(call.checked))
        for name in map(_constant_name, call.operands):
            self.uses[name] -= 1
            if name and self.uses[name] == 0:
                self.forget(name)
        numbers = self.selection.numbers
        if not isinstance(call, TurnsCall) and (isinstance(call.scratch, Extent) or call.scratch):
            pointers.append(self.arena_place(0) if numbers else self.scratch())
        if numbers is not None and is_open(code.sizes):
            first = numbers.add(code.sizes)
            pointers.append(self.offset(self.entry(self.code.slots[NUMBERS], "numbers"), 8 * first))
        else:
            pointers += [self.pointer(o) for o in code.operands]
        tickets = [self.tickets()] if self.target.threads > 1 else []
        self.call(code.name, [*pointers, self.block.args[3], *tickets])

    def turns(self, call: TurnsCall, pointers: list[SSAValue]) -> list[SSAValue]:
        """What the code of a loop takes, whose turns become a function beside this one."""
        if call.callee not in self.turns_made:
            self.turns_made.add(call.callee)
            inner = Conversion(self.code, call.function, call.turn, self.target)
            inner.declared, inner.calls, inner.contents = self.declared, self.calls, self.contents
            inner.uses, inner.turns_made = self.uses, self.turns_made
            inner.function_of_steps(call.callee)
        io, weights, arena, _ = self.block.args
        count = len(call.spares)
        if self.selection.numbers is not None:
            spares = [self.buffer((call.loop, number)) for number in range(count)]
        else:
            place, spares = self.selection.arena_bytes, list[SSAValue]()
            for size in call.spares:
                spares.append(self.offset(self.block.args[2], place))
                place += size
            arena = self.offset(self.block.args[2], place)
        turn = self.add(llvm.AddressOfOp(call.callee, _PTR)).results[0]
        return [turn, io, weights, arena, *pointers[: 2 * count], *spares, *pointers[2 * count :]]

    def buffer(self, buffer: Buffer) -> SSAValue:
        """A buffer whose place the run works out."""
        assert self.selection.numbers is not None
        return self.arena_place(self.selection.numbers.place(self.selection.buffers[buffer]))

    def scratch(self) -> SSAValue:
        """Where kernels work, behind the arena."""
        return self.offset(self.block.args[2], self.selection.arena_bytes)

    def arena_place(self, number: int) -> SSAValue:
        """The place in the arena that a number of the table says."""
        return self.behind(self.block.args[2], number)

    def behind(self, base: SSAValue, number: int) -> SSAValue:
        """As many bytes behind `base` as a number of the table says."""
        key = (base, -1 - number)
        if key not in self.cached:
            table = self.entry(self.code.slots[NUMBERS], "numbers")
            entry = self.offset(table, 8 * number)
            distance = self.add(llvm.LoadOp(entry, i64)).results[0]
            made = llvm.GEPOp(base, [llvm.GEP_USE_SSA_VAL], i8, ssa_indices=[distance], inbounds=True)
            self.cached[key] = self.add(made).results[0]
        return self.cached[key]

    def fault(self, checked: str) -> SSAValue:
        """Where a kernel reports an index out of range: a place of its own in the table of faults."""
        table = self.entry(len(self.code.slots) + FAULT_SLOT, "faults")
        self.code.faults.append(checked)
        return self.offset(table, FAULT_BYTES * (len(self.code.faults) - 1))

    def tickets(self) -> SSAValue:
        """Where the workers' tickets are, behind the barrier."""
        return self.offset(self.entry(len(self.code.slots) + 1, "barrier"), TICKETS)

    def forget(self, name: str) -> None:
        """Drop the values of a constant; a placeholder of that name has none."""
        constant = lookup(self.function, name)
        if isinstance(constant, ConstantOp) and isinstance(constant.value, ResourceAttr):
            constant.properties["value"] = ResourceAttr(Resource(name))
            self.freed += bytes_of(constant.type)
            if self.freed > _TRIM_BYTES:
                self.freed = 0
                give_back()

    def host_call(self, number: int) -> None:
        """Worker 0 hands instruction `number` to the host."""
        slot = self.constant(len(self.code.slots))
        self.call(HOST, [self.block.args[0], slot, self.constant(number), self.block.args[3]])

    def call(self, name: str, args: list[SSAValue]) -> None:
        known = self.calls.get(name)
        if known is None:
            kind = llvm.LLVMFunctionType([a.type for a in args])
            self.declared[name] = llvm.FuncOp(name, kind, llvm.LinkageAttr("external"))
            self.calls[name] = call = llvm.CallOp(name, *args)
        else:
            call = llvm.CallOp.create(operands=args, properties=known.properties)
        self.add(call)

    def pointer(self, operand: SSAValue | Packed) -> SSAValue:
        arena = self.block.args[2]
        if isinstance(operand, Packed):
            content = partial(self.packed_content, operand)
            placed = self.code.weights.place(operand.key, content, operand.make, operand.normal)
            return self.offset(self.weight_block(placed), placed.offset)
        base, skip = origin(operand), view_offset(operand)
        owner = base.owner
        if isinstance(owner, AllocOp):
            if self.selection.numbers is not None:
                return self.offset(self.buffer(owner), skip)
            assert owner.offset is not None, "memory is planned before code is generated"
            return self.offset(arena, owner.offset.value.data + skip)
        assert isinstance(owner, WeightOp)
        target = lookup(self.function, owner.target)
        if isinstance(target, ConstantOp):
            name = target.sym_name.data
            placed = self.code.weights.place(name, lambda: self.content(name), lambda: self.values(name))
            return self.offset(self.weight_block(placed), placed.offset + skip)
        return self.offset(self.entry(self.code.slots[owner.target], owner.target), skip)

    def entry(self, slot: int, name: str) -> SSAValue:
        """The pointer at a place of the io table."""
        io = self.block.args[0]
        if (io, slot) not in self.cached:
            entry = self.add(llvm.GEPOp(io, [slot], _PTR, inbounds=True)).results[0]
            loaded = self.add(llvm.LoadOp(entry, _PTR)).results[0]
            loaded.name_hint = name if SSAValue.is_valid_name(name) else None
            self.cached[io, slot] = loaded
        return self.cached[io, slot]

    def weight_block(self, place: Place) -> SSAValue:
        """The start of the block that a constant is in."""
        if place.block == 0:
            return self.block.args[1]
        return self.entry(shared_slot(len(self.code.slots), place.block - 1), "shared")

    def values(self, name: str) -> Array:
        """The values of a constant."""
        constant = lookup(self.function, name)
        array = constant.array() if isinstance(constant, ConstantOp) else None
        if array is None:
            raise missing_values(name)
        return array

    def content(self, name: str) -> str:
        """A key for the values of a constant."""
        if name not in self.contents:
            self.contents[name] = content_of(self.values(name))
        return self.contents[name]

    def packed_content(self, operand: Packed) -> str:
        """A key for the values of a packed constant."""
        return operand.key if operand.source is None else f"{self.content(operand.source)}|{operand.how}"

    def offset(self, base: SSAValue, distance: int) -> SSAValue:
        """`distance` bytes behind `base`."""
        if isinstance(distance, Extent):
            assert self.selection.numbers is not None
            return self.behind(base, self.selection.numbers.add([distance]))
        if distance == 0:
            return base
        key = (base, distance)
        if key not in self.cached:
            pointer: Operation
            if distance <= _LARGEST_INDEX:
                properties = {**_BYTES_BEHIND, "rawConstantIndices": integers(i32, (distance,))}
                pointer = llvm.GEPOp.create(operands=[base], result_types=[_PTR], properties=properties)
            else:
                pointer = llvm.GEPOp(
                    base,
                    [llvm.GEP_USE_SSA_VAL],
                    i8,
                    ssa_indices=[self.constant(distance)],
                    inbounds=True,
                )
            self.cached[key] = self.add(pointer).results[0]
        return self.cached[key]

    def constant(self, value: int) -> SSAValue:
        return self.add(llvm.ConstantOp(IntegerAttr(value, i64), i64)).results[0]

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op


def _constant_name(operand: SSAValue | Packed) -> str:
    """The constant or placeholder that an operand of a call is, or is made of; "" where it is neither."""
    if isinstance(operand, Packed):
        return operand.source or ""
    owner = origin(operand).owner
    return owner.target if isinstance(owner, WeightOp) else ""


@dataclass(frozen=True)
class ConvertGlowInstrToLLVMPass(InstructionPass):
    """Replace planned instruction functions by their program functions (`llvm.func @glow_main`).

    `cpu`: "host" or a name such as "haswell"; `threads`: workers that share each kernel.
    """

    name = "convert-glow-instr-to-llvm"
    NEEDS_PLAN = KEEPS_PLAN = True
    cpu: str = "host"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named(self.cpu, self.threads)
        kernels: set[str] = set()
        for function in tuple(instr_functions(op)):
            if any(isinstance(a, AllocOp) and a.offset is None for a in function.walk()):
                raise PassFailedException(f"{self.name}: buffers have no offsets; run glow-plan-memory first")
            selection = select(function, target)
            code = convert(op, function, selection, target)
            for function_op in tuple(code.module.body.block.ops):
                function_op.detach()
                assert isinstance(function_op, llvm.FuncOp)
                if function_op.sym_name.data == MAIN:
                    function_op.properties["sym_name"] = StringAttr(f"glow_{function.sym_name.data}")
                elif function_op.sym_name.data in kernels:
                    continue  # another function calls it, too
                kernels.add(function_op.sym_name.data)
                op.body.block.add_op(function_op)
            function.detach()
            function.erase()
