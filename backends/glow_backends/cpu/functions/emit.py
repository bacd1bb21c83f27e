"""From specialised functions to LLVM IR: instances as functions, tail calls as loops and jumps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.functions.layout import I64, POINTER, flat, in_registers, leaves, sizes, unflat
from glow_backends.cpu.functions.ownership import Ownership
from glow_backends.cpu.functions.passing import SMALL
from glow_backends.cpu.functions.runtime import STACK, Support
from glow_backends.cpu.functions.survey import Survey, is_tail
from glow_backends.cpu.functions.target import LlvmTarget
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import bytes_of, tensor
from glow_dialects.fn.dialect import CallOp, ReturnOp
from glow_dialects.fn.domain import Bottom, FnType, NamedType, NotNative, TensorType, Type, marked
from glow_dialects.fn.meaning import failure
from glow_dialects.fn.values import V, captured
from glow_passes.fn.specialize import Instance, Specializer

#: Results of at most so many registers are returned in registers, others through a pointer.
IN_REGISTERS = 2


@dataclass
class Frame:
    """A function being emitted: its instance, its loop and where its result goes."""

    root: Instance
    function: ir.Function
    loop: ir.Block
    phis: list[ir.PhiInstr]
    out: ir.Value | None
    depth: int = 0
    #: Whether a call has come back on the path to here.
    called: bool = False
    #: Where the values of a call that is written out in place arrive; None in a function of its own.
    join: Join | None = None
    #: How many calls of the function in itself are being written out.
    nested: int = 0
    #: Where turns go that left memory behind, with the arguments of the next one.
    again: Join | None = None
    #: Allocations in the code in front of the loop.
    allocations: int = 0


@dataclass
class Join:
    """Where the ways through a call that is written out meet."""

    block: ir.Block
    incoming: list[tuple[list[ir.Value], ir.Block]]


class Emitter:
    """Emits the instances that `infer` found, starting from the root."""

    def __init__(
        self, inferred: Specializer, root: Instance, module: ir.Module, target: CpuTarget, counts: int = 0
    ) -> None:
        self.root = root
        self.module = module
        self.support = Support(module)
        self.t = LlvmTarget(module, self.support, target)
        self.program = inferred.aimed_at(self.t)
        self.sets = inferred.sets
        #: Address of an int64 for each instance, which its runs add to; 0 for none.
        self.counts = counts
        self.survey = Survey(inferred, root)
        #: Whether the program computes with tensors: loops then reclaim memory.
        self.tensorial = self.survey.tensorial
        self.owners = Ownership(inferred, root, list(self.survey.edges))
        self.emitted: dict[Instance, ir.Function] = {}
        self.pending: list[Instance] = []

    @property
    def b(self) -> ir.IRBuilder:
        """Where code goes."""
        return self.t.builder

    # --- functions --------------------------------------------------------------------------------
    def declared(self, instance: Instance) -> ir.Function:
        """The LLVM function of an instance."""
        function = self.emitted.get(instance)
        if function is None:
            inputs = [leaf for t in instance.parameters for leaf in leaves(self.sets.resolve(t))]
            outputs = leaves(self.sets.resolve(instance.result))
            result = self._result(outputs)
            inputs = [t for t, register in zip(inputs, in_registers(inputs), strict=True) if register]
            kind = ir.FunctionType(result, [*inputs, *([POINTER] if len(outputs) > IN_REGISTERS else [])])
            name = self.module.get_unique_name(f"{instance.name}.{instance.number}")
            function = ir.Function(self.module, kind, name)
            function.linkage = "internal"
            function.calling_convention = "tailcc"
            function.attributes.add("nounwind")
            self.emitted[instance] = function
            self.pending.append(instance)
        return function

    def _result(self, outputs: list[ir.Type]) -> ir.Type:
        if not outputs or len(outputs) > IN_REGISTERS:
            return ir.VoidType()
        return outputs[0] if len(outputs) == 1 else ir.LiteralStructType(outputs)

    def emit_all(self) -> ir.Function:
        """Emit the root and everything it calls; returns the root's function."""
        function = self.declared(self.root)
        while self.pending:
            self._function(self.pending.pop())
        return function

    def _function(self, instance: Instance) -> None:
        function = self.emitted[instance]
        entry = function.append_basic_block("entry")
        loop = function.append_basic_block("loop")
        self.t.builder = ir.IRBuilder(entry)
        kinds = [leaf for t in instance.parameters for leaf in leaves(self.sets.resolve(t))]
        received = self._received(function, kinds)
        if self.survey.reaches_itself(instance):
            self.support.check_stack(self.b, instance.number)
        before = self.b.block
        self.b.position_at_end(loop)
        phis = [self.b.phi(kind) for kind in kinds]
        count = sum(in_registers(kinds))
        out = function.args[count] if len(function.args) > count else None
        frame = Frame(instance, function, loop, phis, out, allocations=self.support.allocations)
        self._goes_on(received, before, frame, len(self.survey.cycle(instance)) > 1)
        self._body(instance, list(phis), frame)
        if frame.again is not None:
            self.b.position_at_end(frame.again.block)
            values = self._phis(frame.again, kinds)
            bytes_of = [s for t in instance.parameters for s in sizes(self.sets.resolve(t))]
            values = self.support.collect(self.b, self.b.load(self.support.floor), values, bytes_of)
            for phi, value in zip(phis, values, strict=True):
                phi.add_incoming(value, self.b.block)
            self.b.branch(loop)

    def _goes_on(self, values: list[ir.Value], block: ir.Block, frame: Frame, left: bool) -> None:
        """Go from a block to the next turn; `left`: memory was left behind, which is reclaimed."""
        self.b.position_at_end(block)
        if left and self.tensorial:
            if frame.again is None:
                frame.again = Join(self.b.append_basic_block("again"), [])
            frame.again.incoming.append((values, block))
            self.b.branch(frame.again.block)
        else:
            for phi, value in zip(frame.phis, values, strict=True):
                phi.add_incoming(value, block)
            self.b.branch(frame.loop)
        self.b.position_at_end(frame.loop)

    def copied_arguments(self) -> dict[int, int]:
        """Bytes of the caller's arrays, by number of the register, that the program copies to store into."""
        bytes_of = [s or 0 for t in self.root.parameters for s in sizes(self.sets.resolve(t))]
        consumed = sorted(self.owners.consumed[self.root])
        return {leaf: bytes_of[leaf] for leaf in consumed if bytes_of[leaf] > SMALL}

    def _received(self, function: ir.Function, kinds: list[ir.Type]) -> list[ir.Value]:
        """The arguments of a function, at its start."""
        values = iter(function.args)
        received: list[ir.Value] = []
        spilled = 0
        for kind, register in zip(kinds, in_registers(kinds), strict=True):
            if register:
                received.append(next(values))
            else:
                received.append(self.b.load(self.support.argument(self.b, spilled, kind)))
                spilled += 1
        return received

    def _passed(self, registers: list[ir.Value]) -> list[ir.Value]:
        """The arguments of a call that are registers; the others are stored for the callee to read."""
        passed: list[ir.Value] = []
        spilled = 0
        for value, register in zip(registers, in_registers([r.type for r in registers]), strict=True):
            if register:
                passed.append(value)
            else:
                self.b.store(value, self.support.argument(self.b, spilled, value.type))
                spilled += 1
        return passed

    def _body(self, instance: Instance, registers: list[Any], frame: Frame) -> None:
        """The code of an instance and of those that it goes on to, up to its return."""
        following: tuple[Instance, list[Any]] | None = (instance, registers)
        while following is not None:
            following = self._steps(*following, frame)

    def _steps(
        self, instance: Instance, registers: list[Any], frame: Frame
    ) -> tuple[Instance, list[Any]] | None:
        """The code of one instance; the one that it goes on to in the same function, if any."""
        values = self._parameters(instance, registers)
        if self.counts:
            self.support.count_turn(self.b, self.counts + 8 * instance.number)
        for op in instance.function.block.ops:
            if isinstance(op, ReturnOp):
                self._return(values[op.value], frame)
                return None
            error = failure(op)
            if error is not None:
                self._fail(error)
                return None
            operands = [values[v] for v in op.operands]
            if isinstance(op, CallOp):
                self._settled(op, instance, values)
                if is_tail(op):
                    return self._tail(op, operands, instance, frame)
                value = self._call(op, operands, instance, frame)
                frame.called = True
                if value is None:
                    return None
                values[op.result] = value
            else:
                values[op.results[0]] = self._step(op, operands, instance, values)
        raise AssertionError(instance.name)

    def _step(self, op: Operation, x: list[V], instance: Instance, values: dict[SSAValue, V]) -> V:
        """An operation that is no call."""
        if not self.owners.active:
            return self.program.step(op, x, instance)
        decided = self.owners.of(instance)
        self._registers([values[v] for v in decided.settled.get(op, ())])
        self.t.in_place, self.t.guarded = op in decided.in_place, op in decided.guarded
        value = self.program.step(op, x, instance)
        if op in decided.apart:
            assert isinstance(value.type, TensorType)
            size = bytes_of(tensor(value.type.shape, value.type.dtype))
            value = V(value.type, self.t.tensors.copied(self._registers([value])[0], size))
        return value

    def _parameters(self, instance: Instance, registers: list[Any]) -> dict[SSAValue, V]:
        values: dict[SSAValue, V] = {}
        rest = iter(registers)
        for argument, kind in zip(instance.function.block.args, instance.parameters, strict=True):
            resolved = self.sets.resolve(kind)
            values[argument] = V(resolved, unflat(resolved, rest))
        return values

    def _inline(self, instance: Instance, arguments: list[V]) -> V:
        """The value of a straight instance, computed in place of a call."""
        values: dict[SSAValue, V] = dict(zip(instance.function.block.args, arguments, strict=True))
        for op in instance.function.block.ops:
            if isinstance(op, ReturnOp):
                return self.program.convert(values[op.value], instance.result)
            operands = [values[v] for v in op.operands]
            if isinstance(op, CallOp):
                ((target, kinds),) = self.program.targets(operands, instance, op.source)
                _, (bound,) = self._cases(operands[0])
                self._settled(op, instance, values)
                given = self._given(op, instance, target, self._arguments(target, kinds, bound(), operands))
                values[op.result] = self._inline(target, given)
            else:
                values[op.results[0]] = self._step(op, operands, instance, values)
        raise AssertionError(instance.name)

    def _return(self, value: V, frame: Frame) -> None:
        if self.survey.counting and not frame.called and self.survey.counted(frame.root):
            self.support.reset_count(self.b)  # a base case: the recursion ends somewhere
        kind = self.sets.resolve(frame.root.result)
        value = self.program.convert(value, kind)
        if frame.root is self.root and not self.survey.reaches_itself(frame.root):
            self.t.tensors.deliver(flat(value.code))
        registers = self._registers([value])
        if frame.join is not None:
            frame.join.incoming.append((registers, self.b.block))
            self.b.branch(frame.join.block)
        elif frame.out is not None:
            self._store(frame.out, registers)
            self.b.ret_void()
        elif not registers:
            self.b.ret_void()
        elif len(registers) == 1:
            self.b.ret(registers[0])
        else:
            result: ir.Value = ir.Constant(frame.function.function_type.return_type, ir.Undefined)
            for index, register in enumerate(registers):
                result = self.b.insert_value(result, register, index)
            self.b.ret(result)

    def _registers(self, values: list[V]) -> list[ir.Value]:
        """The registers of values; tensors that wait are computed together."""
        return self.t.tensors.registers([r for v in values for r in flat(v.code)])

    def _store(self, place: ir.Value, registers: list[ir.Value]) -> None:
        for index, register in enumerate(registers):
            at = self.b.gep(place, [ir.Constant(I64, 8 * index)])
            self.b.store(register, self.b.bitcast(at, register.type.as_pointer()))

    # --- calls --------------------------------------------------------------------------------------
    def _cases(self, function: V) -> tuple[ir.Value | None, list[Any]]:
        """The tag of a function value, and the functions to the captured values of each case."""
        kind = self.sets.resolve(function.type)
        if isinstance(kind, NamedType):
            members = self.sets.members(kind)
            record = function.code
            tag = None
            if len(members) > 1:
                tag = self.b.load(self.b.bitcast(record, I64.as_pointer()))
            return tag, [lambda c=c: self.t.unbox(record, c) for _, c in members]
        assert isinstance(kind, FnType)
        tag = None if len(kind.entries) == 1 else function.code[0]
        return tag, [lambda i=i: [v.code for v in captured(function, i)] for i in range(len(kind.entries))]

    def _arguments(self, target: Instance, bound: tuple[Type, ...], codes: list[Any], x: list[V]) -> list[V]:
        values = [V(self.sets.resolve(t), c) for t, c in zip(bound, codes, strict=True)]
        values_of_call = [*values, *x[1:]]
        return [self.program.convert(v, t) for v, t in zip(values_of_call, target.parameters, strict=True)]

    def _branches(self, op: CallOp, x: list[V], instance: Instance) -> Any:
        """For each possible callee: (instance, arguments), with the builder in its block."""
        targets = self.program.targets(x, instance, op.source)
        tag, bound = self._cases(x[0])
        if tag is None:
            target, kinds = targets[0]
            given = self._arguments(target, kinds, bound[0](), x)
            yield target, self._given(op, instance, target, given)
            return
        builder = self.b
        self._registers(x)  # computed once, before the ways part
        blocks = [builder.append_basic_block("case") for _ in targets]
        other = builder.append_basic_block("none")
        cases = builder.switch(tag, other)
        for index, block in enumerate(blocks):
            cases.add_case(ir.Constant(I64, index), block)
        builder.position_at_end(other)
        builder.unreachable()
        for (target, kinds), make, block in zip(targets, bound, blocks, strict=True):
            builder.position_at_end(block)
            yield target, self._given(op, instance, target, self._arguments(target, kinds, make(), x))

    def _settled(self, op: Operation, instance: Instance, values: dict[SSAValue, V]) -> None:
        """Compute what would read memory that an operation writes."""
        if self.owners.active:
            self._registers([values[v] for v in self.owners.of(instance).settled.get(op, ())])

    def _given(self, op: Operation, instance: Instance, target: Instance, arguments: list[V]) -> list[V]:
        """The arguments of a call, with copies of what the callee may not write into."""
        if not self.owners.active or not self.owners.consumed[target]:
            return arguments
        registers = self._registers(arguments)
        kinds = [self.sets.resolve(t) for t in target.parameters]
        bytes_of = [s for t in kinds for s in sizes(t)]
        for leaf in self.owners.of(instance).copied.get((op, target), ()):
            registers[leaf] = self.t.tensors.copied(registers[leaf], bytes_of[leaf] or 0)
        rest = iter(registers)
        return [V(t, unflat(t, rest)) for t in kinds]

    def _tail(
        self, op: CallOp, x: list[V], instance: Instance, frame: Frame
    ) -> tuple[Instance, list[Any]] | None:
        """A call in tail position. Returns the called instance if there is only one."""
        several = len(self.sets.members(self.sets.resolve(x[0].type))) > 1
        allocations = self.support.allocations
        for target, arguments in self._branches(op, x, instance):
            if several:
                self.support.allocations = allocations  # of the way to here
            if target is not frame.root and (
                self.survey.inlined(target) or (self.survey.sites[target] == 1 and frame.depth < 200)
            ):
                waiting = [r for v in arguments for r in flat(v.code)]
                if not several:
                    return target, waiting
                called = frame.called
                frame.depth += 1
                self._body(target, waiting, frame)
                frame.depth -= 1
                frame.called = called
                continue
            registers = self._registers(arguments)
            if target is frame.root and frame.join is None:
                if self.survey.counted(target):
                    self.support.count_call(self.b, target.number)
                self._goes_on(registers, self.b.block, frame, self.support.allocations > frame.allocations)
            elif isinstance(target.result, Bottom):
                self._never(target, registers)
            elif frame.join is None and self._same_result(target, frame.root):
                if self.survey.counted(target):
                    self.support.count_call(self.b, target.number)
                function = self.declared(target)
                extra = [frame.out] if frame.out is not None else []
                result = self.b.call(
                    function, [*self._passed(registers), *extra], cconv="tailcc", tail="musttail"
                )
                self.b.ret_void() if isinstance(result.type, ir.VoidType) else self.b.ret(result)
            else:
                self._return(self._invoke(target, registers), frame)
        return None

    def _never(self, target: Instance, registers: list[ir.Value]) -> None:
        """A call of a function that does not return: it raises an error, or calls itself without end."""
        if self.survey.fails(target):
            self._called(target, registers)
        else:
            self.support.stop(self.b, STACK)
        self.b.unreachable()

    def _fail(self, error: tuple[str, str, str]) -> None:
        """Stop with the error of a `raise`."""
        self.support.fail(self.b, error)
        self.b.unreachable()

    def _same_result(self, one: Instance, other: Instance) -> bool:
        first, second = (marked(self.sets.resolve(i.result), False) for i in (one, other))
        return first == second

    def _nested(self, arguments: list[V], frame: Frame) -> V:
        """A call of the function that is being emitted, written out in place."""
        target, builder = frame.root, self.b
        kind = self.sets.resolve(target.result)
        join = Join(builder.append_basic_block("joined"), [])
        inner = replace(frame, depth=0, called=True, join=join, nested=frame.nested + 1)
        self._body(target, self._registers(arguments), inner)
        return self._met(join, kind)

    def _met(self, join: Join, kind: Type) -> V:
        """The value where ways meet."""
        self.b.position_at_end(join.block)
        return V(kind, unflat(kind, iter(self._phis(join, leaves(kind)))))

    def _phis(self, join: Join, kinds: list[ir.Type]) -> list[ir.Value]:
        merged: list[ir.Value] = []
        for index, leaf in enumerate(kinds):
            phi = self.b.phi(leaf)
            for registers, block in join.incoming:
                phi.add_incoming(registers[index], block)
            merged.append(phi)
        return merged

    def _call(self, op: CallOp, x: list[V], instance: Instance, frame: Frame) -> V | None:
        """A call that comes back; None where no callee does."""
        kind: Type = Bottom()
        for target, _ in self.program.targets(x, instance, op.source):
            kind = self.sets.join(kind, target.result)
        kind = self.sets.resolve(kind)
        join: Join | None = None
        several = len(self.sets.members(self.sets.resolve(x[0].type))) > 1
        for target, arguments in self._branches(op, x, instance):
            if isinstance(target.result, Bottom):
                self._never(target, self._registers(arguments))
                continue
            if not several and self.survey.inlined(target):
                return self.program.convert(self._inline(target, arguments), kind)
            if target is frame.root and frame.nested < self.survey.nesting(target):
                result = self._nested(arguments, frame)
            else:
                result = self._invoke(target, self._registers(arguments))
            value = self.program.convert(result, kind)
            if not several:
                return value
            if join is None:
                join = Join(self.b.append_basic_block("done"), [])
            join.incoming.append((self._registers([value]), self.b.block))
            self.b.branch(join.block)
        return None if join is None else self._met(join, kind)

    def _invoke(self, target: Instance, registers: list[ir.Value]) -> V:
        """A call; its allocations are reclaimed afterwards but for its value."""
        kind = self.sets.resolve(target.result)
        if not self.tensorial:
            return V(kind, unflat(kind, iter(self._called(target, registers))))
        b, support = self.b, self.support
        before = b.load(support.floor)
        floor = support.aligned_top(b)
        b.store(floor, support.heap)
        b.store(floor, support.floor)
        registers_of_result = self._called(target, registers)
        registers_of_result = support.collect(b, floor, registers_of_result, sizes(kind))
        b.store(before, support.floor)
        return V(kind, unflat(kind, iter(registers_of_result)))

    def _called(self, target: Instance, registers: list[ir.Value]) -> list[ir.Value]:
        function = self.declared(target)
        outputs = leaves(self.sets.resolve(target.result))
        self.support.allocations += 1
        b = self.b
        # A call in a recursion takes stack, so that one without end is noticed: no loop in its place.
        tail = "notail" if self.survey.reaches_itself(target) else None
        if len(outputs) > IN_REGISTERS:
            with b.goto_entry_block():
                room = b.alloca(I64, len(outputs))
                place = b.bitcast(room, POINTER)
            b.call(function, [*self._passed(registers), place], cconv="tailcc", tail=tail)
            return [
                b.load(b.bitcast(b.gep(place, [ir.Constant(I64, 8 * i)]), leaf.as_pointer()))
                for i, leaf in enumerate(outputs)
            ]
        result = b.call(function, self._passed(registers), cconv="tailcc", tail=tail)
        if len(outputs) == 1:
            return [result]
        return [b.extract_value(result, i) for i in range(len(outputs))]


__all__ = ["Emitter", "NotNative"]
