"""The run-time support of native functions: memory for records, limits, the way in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from glow_backends.cpu.functions.layout import I1, I64, POINTER, in_registers
from glow_backends.cpu.memory import ALIGN, rounded
from glow_dialects.fn.domain import NotNative

I32 = ir.IntType(32)
#: Class, message and place of an error.
Failure = tuple[str, str, str]
#: Codes that a native program stops with.
STACK, MEMORY, TAIL_CALLS, FAILED, OVERFLOW = 1, 2, 3, 4, 5
#: The number of the instance that stops, or of the error that it raises, stands above the code.
SHIFT = 3
#: Memory that a loop may leave behind before it is reclaimed.
COLLECT_BYTES = 1 << 20
#: Calls in tail position of functions that call themselves, in one run.
MAX_SPILLED = 4096
MAX_TAIL_CALLS = 1_000_000_000


class Support:
    """Globals and helpers of one native program."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.heap = self._global("fn.heap", POINTER)
        self.heap_end = self._global("fn.heap_end", POINTER)
        self.stack_limit = self._global("fn.stack_limit", I64)
        self.fuel = self._global("fn.fuel", I64)
        self.floor = self._global("fn.floor", POINTER)
        self.places = self._global("fn.places", POINTER)
        self.jump = ir.GlobalVariable(module, ir.ArrayType(I64, 64), "fn.jump")
        self.jump.initializer = ir.Constant(self.jump.value_type, None)
        self.jump.linkage = "internal"
        self.spilled = ir.GlobalVariable(module, ir.ArrayType(I64, MAX_SPILLED), "fn.spilled")
        self.spilled.initializer = ir.Constant(self.spilled.value_type, None)
        self.spilled.linkage = "internal"
        self.longjmp = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, I32]), "longjmp")
        self.longjmp.attributes.add("noreturn")
        self.setjmp = ir.Function(module, ir.FunctionType(I32, [POINTER]), "_setjmp")
        self.setjmp.attributes.add("returns_twice")
        #: Errors that the program may raise.
        self.failures: list[Failure] = []
        #: Allocations, and calls that may make some, in the code that was emitted on the way to here.
        self.allocations = 0
        self._stops: dict[int, ir.Function] = {}
        #: Where each function goes on with an int of more than 64 bits.
        self._overflows: dict[ir.Function, ir.Block] = {}
        self._helpers: dict[str, ir.Function] = {}

    def _global(self, name: str, kind: ir.Type) -> ir.GlobalVariable:
        variable = ir.GlobalVariable(self.module, kind, name)
        variable.initializer = ir.Constant(kind, None if kind == POINTER else 0)
        variable.linkage = "internal"
        return variable

    def stop(self, b: ir.IRBuilder, code: int) -> None:
        """Leave the program with a code: why, and SHIFT bits higher the number of the instance."""
        if code not in self._stops:
            function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), []), f"fn.stop.{code}")
            function.linkage = "internal"
            for word in ("noinline", "noreturn", "cold"):
                function.attributes.add(word)
            inner = ir.IRBuilder(function.append_basic_block("entry"))
            inner.call(self.longjmp, [inner.bitcast(self.jump, POINTER), ir.Constant(I32, code)])
            inner.unreachable()
            self._stops[code] = function
        b.call(self._stops[code], [])

    def fail(self, b: ir.IRBuilder, error: Failure) -> None:
        """Leave the program with an error."""
        self.stop(b, self._code(error))

    def fail_where(self, b: ir.IRBuilder, condition: ir.Value, error: Failure) -> None:
        """Leave the program with an error where a condition holds."""
        self._unlikely(b, condition, self._code(error))

    def fits(self, b: ir.IRBuilder, overflow: ir.Value) -> None:
        """Leave the program where an int would need more than 64 bits; the interpreter has those."""
        if b.function not in self._overflows:
            bad = self._overflows[b.function] = b.append_basic_block("overflow")
            inner = ir.IRBuilder(bad)
            self.stop(inner, OVERFLOW)
            inner.unreachable()
        good = b.append_basic_block("fits")
        b.cbranch(overflow, self._overflows[b.function], good)
        b.position_at_end(good)

    def _code(self, error: Failure) -> int:
        if error not in self.failures:
            self.failures.append(error)
        return FAILED | self.failures.index(error) << SHIFT

    def argument(self, b: ir.IRBuilder, index: int, kind: ir.Type) -> ir.Value:
        """The place of an argument that does not travel in a register."""
        if index >= MAX_SPILLED:
            raise NotNative("functions of very many values")
        place = b.gep(self.spilled, [ir.Constant(I64, 0), ir.Constant(I64, index)])
        return b.bitcast(place, kind.as_pointer())

    def _unlikely(self, b: ir.IRBuilder, condition: ir.Value, code: int) -> None:
        bad = b.append_basic_block("limit")
        good = b.append_basic_block("go")
        b.cbranch(condition, bad, good)
        b.position_at_end(bad)
        self.stop(b, code)
        b.unreachable()
        b.position_at_end(good)

    def check_stack(self, b: ir.IRBuilder, number: int) -> None:
        """Stop in an instance where the stack is nearly used up."""
        kind = ir.FunctionType(I64, [])
        pointer = b.asm(kind, "mov %rsp, $0", "=r", [], side_effect=False)
        self._unlikely(b, b.icmp_unsigned("<", pointer, b.load(self.stack_limit)), STACK | number << SHIFT)

    def count_call(self, b: ir.IRBuilder, number: int) -> None:
        """Stop in an instance after very many calls without a base case: a recursion that never ends."""
        left = b.sub(b.load(self.fuel), ir.Constant(I64, 1))
        b.store(left, self.fuel)
        self._unlikely(b, b.icmp_signed("<", left, ir.Constant(I64, 0)), TAIL_CALLS | number << SHIFT)

    def count_turn(self, b: ir.IRBuilder, address: int) -> None:
        """Add one to a number in the memory of the host."""
        place = b.inttoptr(ir.Constant(I64, address), I64.as_pointer())
        b.store(b.add(b.load(place), ir.Constant(I64, 1)), place)

    def reset_count(self, b: ir.IRBuilder) -> None:
        """A base case was reached."""
        b.store(ir.Constant(I64, MAX_TAIL_CALLS), self.fuel)

    # --- memory ---------------------------------------------------------------------------------------
    def allocate(self, b: ir.IRBuilder, size: int) -> ir.Value:
        """Memory of a record."""
        self.allocations += 1
        return b.call(self._helper("alloc", self._allocator), [ir.Constant(I64, size)])

    def allocate_aligned(self, b: ir.IRBuilder, size: ir.Value) -> ir.Value:
        """Memory of tensors; `size` is a multiple of the alignment."""
        self.allocations += 1
        return b.call(self._helper("tensors", self._aligned), [size])

    def _helper(self, name: str, make: Callable[[ir.Function], None]) -> ir.Function:
        if name not in self._helpers:
            function = ir.Function(self.module, ir.FunctionType(POINTER, [I64]), f"fn.{name}")
            function.linkage = "internal"
            function.attributes.add("alwaysinline")
            self._helpers[name] = function
            make(function)
        return self._helpers[name]

    def _allocator(self, function: ir.Function) -> None:
        b = ir.IRBuilder(function.append_basic_block("entry"))
        old = b.load(self.heap)
        self._take(b, old, function.args[0])
        b.ret(old)

    def _aligned(self, function: ir.Function) -> None:
        b = ir.IRBuilder(function.append_basic_block("entry"))
        start = self.aligned_top(b)
        self._take(b, start, function.args[0])
        b.ret(start)

    def aligned_top(self, b: ir.IRBuilder) -> ir.Value:
        """Where the next tensor would lie."""
        above = b.add(b.ptrtoint(b.load(self.heap), I64), ir.Constant(I64, ALIGN - 1))
        return b.inttoptr(b.and_(above, ir.Constant(I64, -ALIGN)), POINTER)

    def _take(self, b: ir.IRBuilder, start: ir.Value, size: ir.Value) -> None:
        new = b.gep(start, [size])
        self._unlikely(b, b.icmp_unsigned(">", new, b.load(self.heap_end)), MEMORY)
        b.store(new, self.heap)

    def collect(
        self,
        b: ir.IRBuilder,
        floor: ir.Value,
        values: Sequence[ir.Value],
        sizes: Sequence[int | None],
    ) -> list[ir.Value]:
        """Reclaim what was allocated since `floor` except `values`, where much was.

        `sizes` are bytes of tensors, 0 for records, None for numbers. Memory is never written again and only
        points to older memory, so that records from before the floor keep everything that they reach. Where a
        record is younger, nothing is reclaimed.
        """
        top = b.load(self.heap)
        limit = max(COLLECT_BYTES, 4 * sum(s or 0 for s in sizes))
        used = b.sub(b.ptrtoint(top, I64), b.ptrtoint(floor, I64))
        many = b.icmp_signed(">", used, ir.Constant(I64, limit))
        for value, size in zip(values, sizes, strict=True):
            if size == 0:
                age = b.sub(b.ptrtoint(value, I64), b.ptrtoint(floor, I64))
                many = b.and_(many, b.icmp_unsigned(">=", age, used))
        start, work = b.block, b.append_basic_block("collect")
        done = b.append_basic_block("collected")
        b.cbranch(many, work, done)
        b.position_at_end(work)
        base = self.aligned_top(b)
        kept = [
            b.call(self._keeper(), [v, floor, ir.Constant(I64, s)]) if s else v
            for v, s in zip(values, sizes, strict=True)
        ]
        count = b.sub(b.ptrtoint(b.load(self.heap), I64), b.ptrtoint(base, I64))
        self.move(b, floor, base, count)
        b.store(b.gep(floor, [count]), self.heap)
        moved = b.sub(b.ptrtoint(base, I64), b.ptrtoint(floor, I64))
        lowered = [
            b.call(self._lowerer(), [v, base, count, moved]) if s else v
            for v, s in zip(kept, sizes, strict=True)
        ]
        end = b.block
        b.branch(done)
        b.position_at_end(done)
        moved_values: list[ir.Value] = []
        for old, new in zip(values, lowered, strict=True):
            if old is not new:
                phi = b.phi(old.type)
                phi.add_incoming(old, start)
                phi.add_incoming(new, end)
                new = phi
            moved_values.append(new)
        return moved_values

    def _delivered(self, b: ir.IRBuilder, value: ir.Value, place: ir.Value, size: int) -> None:
        """Copy a tensor to its place unless it is there."""
        copy, done = b.append_basic_block("copy"), b.append_basic_block("there")
        b.cbranch(b.icmp_unsigned("!=", value, place), copy, done)
        b.position_at_end(copy)
        self.copy(b, place, value, ir.Constant(I64, size))
        b.branch(done)
        b.position_at_end(done)

    def move(self, b: ir.IRBuilder, place: ir.Value, value: ir.Value, size: ir.Value) -> None:
        """Copy bytes that may overlap."""
        name = "llvm.memmove.p0.p0.i64"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I1])
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        b.call(function, [place, value, size, ir.Constant(I1, 0)])

    def copy(self, b: ir.IRBuilder, place: ir.Value, value: ir.Value, size: ir.Value) -> None:
        """Copy bytes that do not overlap."""
        name = "llvm.memcpy.p0.p0.i64"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I1])
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        b.call(function, [place, value, size, ir.Constant(I1, 0)])

    def _keeper(self) -> ir.Function:
        """keep(tensor, floor, size): a copy at the top of the heap where the tensor is above the floor."""
        if "keep" not in self._helpers:
            kind = ir.FunctionType(POINTER, [POINTER, POINTER, I64])
            targets = self._helpers["keep"] = ir.Function(self.module, kind, "fn.keep")
            targets.linkage = "internal"
            targets.attributes.add("noinline")
            value, floor, size = targets.args
            b = ir.IRBuilder(targets.append_basic_block("entry"))
            copy, same = targets.append_basic_block("copy"), targets.append_basic_block("same")
            used = b.sub(b.ptrtoint(b.load(self.heap), I64), b.ptrtoint(floor, I64))
            age = b.sub(b.ptrtoint(value, I64), b.ptrtoint(floor, I64))
            b.cbranch(b.icmp_unsigned("<", age, used), copy, same)
            b.position_at_end(same)
            b.ret(value)
            b.position_at_end(copy)
            place = b.call(self._helper("tensors", self._aligned), [size])
            self.copy(b, place, value, size)
            b.ret(place)
        return self._helpers["keep"]

    def _lowerer(self) -> ir.Function:
        """lower(tensor, base, count, moved): where a tensor lies after `count` bytes at `base` moved down."""
        if "lower" not in self._helpers:
            kind = ir.FunctionType(POINTER, [POINTER, POINTER, I64, I64])
            cycle = self._helpers["lower"] = ir.Function(self.module, kind, "fn.lower")
            cycle.linkage = "internal"
            cycle.attributes.add("noinline")
            value, base, count, moved = cycle.args
            b = ir.IRBuilder(cycle.append_basic_block("entry"))
            above = b.sub(b.ptrtoint(value, I64), b.ptrtoint(base, I64))
            below = b.gep(value, [b.neg(moved)])
            b.ret(b.select(b.icmp_unsigned("<", above, count), below, value))
        return self._helpers["lower"]

    def place(self, b: ir.IRBuilder, index: int) -> ir.Value:
        """Where the caller wants the tensor of a number among the registers of the result."""
        places = b.bitcast(b.load(self.places), POINTER.as_pointer())
        return b.load(b.gep(places, [ir.Constant(I64, index)]))

    def entry(
        self,
        root: ir.Function,
        inputs: list[ir.Type],
        outputs: list[ir.Type],
        bytes_of: Sequence[int | None],
        owned: Mapping[int, int],
    ) -> None:
        """`fn_run(setup)`: run on the stack that `setup` gives; `bytes_of` the tensors of the result.

        `owned` are the bytes of arguments that are copied, since the program writes into them.
        """
        inner = self._inner(root, inputs, outputs, bytes_of, owned)
        kind = ir.FunctionType(I32, [POINTER])
        entry = ir.Function(self.module, kind, "fn_run")
        entry.attributes.add("noinline")
        b = ir.IRBuilder(entry.append_basic_block("entry"))
        words = b.bitcast(entry.args[0], I64.as_pointer())

        def word(index: int) -> ir.Value:
            return b.load(b.gep(words, [ir.Constant(I64, index)]))

        for place, index in ((self.heap, 2), (self.heap_end, 3), (self.floor, 2), (self.places, 7)):
            b.store(b.inttoptr(word(index), POINTER), place)
        b.store(word(5), self.stack_limit)
        b.store(ir.Constant(I64, MAX_TAIL_CALLS), self.fuel)
        code = b.call(self.setjmp, [b.bitcast(self.jump, POINTER)])
        failed, go = entry.append_basic_block("failed"), entry.append_basic_block("go")
        b.cbranch(b.icmp_signed("!=", code, ir.Constant(I32, 0)), failed, go)
        b.position_at_end(failed)
        b.ret(code)
        b.position_at_end(go)
        clobbers = [f"~{{{r}}}" for r in ("rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12")]
        clobbers += [f"~{{xmm{i}}}" for i in range(16)] + ["~{memory}", "~{flags}", "~{dirflag}", "~{fpsr}"]
        function = ir.FunctionType(POINTER, [I64, inner.type, POINTER])
        constraints = ",".join(["={rdi}", "{rbx}", "{r13}", "0", *clobbers])
        text = "movq %rsp, %r12\n\tmovq $1, %rsp\n\tcallq *$2\n\tmovq %r12, %rsp"
        b.asm(function, text, constraints, [word(4), inner, entry.args[0]], side_effect=True)
        b.store(b.ptrtoint(b.load(self.heap), I64), b.gep(words, [ir.Constant(I64, 6)]))
        b.ret(ir.Constant(I32, 0))

    def _inner(
        self,
        root: ir.Function,
        inputs: list[ir.Type],
        outputs: list[ir.Type],
        bytes_of: Sequence[int | None],
        owned: Mapping[int, int],
    ) -> ir.Function:
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [POINTER]), "fn.inner")
        function.linkage = "internal"
        function.attributes.add("noinline")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        words = b.bitcast(function.args[0], POINTER.as_pointer())
        arguments = b.load(words)
        results = b.load(b.gep(words, [ir.Constant(I64, 1)]))

        def place(base: ir.Value, index: int, kind: ir.Type) -> ir.Value:
            return b.bitcast(b.gep(base, [ir.Constant(I64, 8 * index)]), kind.as_pointer())

        registers: list[ir.Value] = []
        for index, kind in enumerate(inputs):
            if kind == ir.IntType(1):
                wide = b.load(place(arguments, index, I64))
                registers.append(b.trunc(wide, kind))
            else:
                registers.append(b.load(place(arguments, index, kind)))
        for index, size in owned.items():
            memory = self.allocate_aligned(b, ir.Constant(I64, rounded(size)))
            self.copy(b, memory, registers[index], ir.Constant(I64, size))
            registers[index] = memory
        kept: list[ir.Value] = []
        spilled = 0
        for value, register in zip(registers, in_registers(inputs), strict=True):
            if register:
                kept.append(value)
            else:
                b.store(value, self.argument(b, spilled, value.type))
                spilled += 1
        through = len(root.args) > len(kept)
        made_value = b.call(root, [*kept, results] if through else kept, cconv="tailcc")
        if not through:
            for index, kind in enumerate(outputs):
                value = made_value if len(outputs) == 1 else b.extract_value(made_value, index)
                if kind == ir.IntType(1):
                    value, kind = b.zext(value, I64), I64
                b.store(value, place(results, index, kind))
        for index, size in enumerate(bytes_of):
            if size:
                self._delivered(b, b.load(place(results, index, POINTER)), self.place(b, index), size)
        b.ret_void()
        return function
