"""What native functions need around them: memory for records, limits, the way in and out."""

from __future__ import annotations

from llvmlite import ir

from glow_backends.cpu.functions.layout import I64, POINTER, in_registers
from glow_passes.fn.domain import NotNative

I32 = ir.IntType(32)
#: Codes that a native program stops with.
STACK, MEMORY, TAIL_CALLS = 1, 2, 3
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
        self.grow = self._global("fn.grow", POINTER)
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
        self._stops: dict[int, ir.Function] = {}
        self._alloc: ir.Function | None = None

    def _global(self, name: str, kind: ir.Type) -> ir.GlobalVariable:
        made = ir.GlobalVariable(self.module, kind, name)
        made.initializer = ir.Constant(kind, None if kind == POINTER else 0)
        made.linkage = "internal"
        return made

    def stop(self, b: ir.IRBuilder, code: int) -> None:
        """Leave the program with a code."""
        if code not in self._stops:
            made = ir.Function(self.module, ir.FunctionType(ir.VoidType(), []), f"fn.stop.{code}")
            made.linkage = "internal"
            for word in ("noinline", "noreturn", "cold"):
                made.attributes.add(word)
            inner = ir.IRBuilder(made.append_basic_block("entry"))
            inner.call(self.longjmp, [inner.bitcast(self.jump, POINTER), ir.Constant(I32, code)])
            inner.unreachable()
            self._stops[code] = made
        b.call(self._stops[code], [])

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

    def check_stack(self, b: ir.IRBuilder) -> None:
        """Stop where the stack is nearly used up."""
        kind = ir.FunctionType(I64, [])
        pointer = b.asm(kind, "mov %rsp, $0", "=r", [], side_effect=False)
        self._unlikely(b, b.icmp_unsigned("<", pointer, b.load(self.stack_limit)), STACK)

    def count_call(self, b: ir.IRBuilder) -> None:
        """Stop after very many calls without a base case: a recursion that never ends."""
        left = b.sub(b.load(self.fuel), ir.Constant(I64, 1))
        b.store(left, self.fuel)
        self._unlikely(b, b.icmp_signed("<", left, ir.Constant(I64, 0)), TAIL_CALLS)

    def reset_count(self, b: ir.IRBuilder) -> None:
        """A base case was reached."""
        b.store(ir.Constant(I64, MAX_TAIL_CALLS), self.fuel)

    def allocate(self, b: ir.IRBuilder, size: int) -> ir.Value:
        """Memory from the current block of the heap, or from a new one."""
        if self._alloc is None:
            self._alloc = self._allocator()
        return b.call(self._alloc, [ir.Constant(I64, size)])

    def _allocator(self) -> ir.Function:
        made = ir.Function(self.module, ir.FunctionType(POINTER, [I64]), "fn.alloc")
        made.linkage = "internal"
        made.attributes.add("alwaysinline")
        b = ir.IRBuilder(made.append_basic_block("entry"))
        old = b.load(self.heap)
        new = b.gep(old, [made.args[0]])
        more, fits = made.append_basic_block("more"), made.append_basic_block("fits")
        b.cbranch(b.icmp_unsigned(">", new, b.load(self.heap_end)), more, fits)
        b.position_at_end(fits)
        b.store(new, self.heap)
        b.ret(old)
        b.position_at_end(more)
        slow = self._slow()
        b.ret(b.call(slow, [made.args[0]]))
        return made

    def _slow(self) -> ir.Function:
        """A new block: grow(size, &end) of the host."""
        made = ir.Function(self.module, ir.FunctionType(POINTER, [I64]), "fn.more")
        made.linkage = "internal"
        made.attributes.add("noinline")
        b = ir.IRBuilder(made.append_basic_block("entry"))
        kind = ir.FunctionType(I64, [I64, POINTER.as_pointer()])
        grow = b.bitcast(b.load(self.grow), kind.as_pointer())
        found = b.call(grow, [made.args[0], self.heap_end])
        self._unlikely(b, b.icmp_signed("==", found, ir.Constant(I64, 0)), MEMORY)
        block = b.inttoptr(found, POINTER)
        b.store(b.gep(block, [made.args[0]]), self.heap)
        b.ret(block)
        return made

    def entry(self, root: ir.Function, inputs: list[ir.Type], outputs: list[ir.Type]) -> None:
        """`fn_run(arguments, results, setup)`: run on the stack that `setup` gives."""
        inner = self._inner(root, inputs, outputs)
        kind = ir.FunctionType(I32, [POINTER])
        made = ir.Function(self.module, kind, "fn_run")
        made.attributes.add("noinline")
        b = ir.IRBuilder(made.append_basic_block("entry"))
        words = b.bitcast(made.args[0], I64.as_pointer())

        def word(index: int) -> ir.Value:
            return b.load(b.gep(words, [ir.Constant(I64, index)]))

        for place, index in ((self.heap, 2), (self.heap_end, 3), (self.grow, 6)):
            b.store(b.inttoptr(word(index), POINTER), place)
        b.store(word(5), self.stack_limit)
        b.store(ir.Constant(I64, MAX_TAIL_CALLS), self.fuel)
        code = b.call(self.setjmp, [b.bitcast(self.jump, POINTER)])
        failed, go = made.append_basic_block("failed"), made.append_basic_block("go")
        b.cbranch(b.icmp_signed("!=", code, ir.Constant(I32, 0)), failed, go)
        b.position_at_end(failed)
        b.ret(code)
        b.position_at_end(go)
        clobbers = [f"~{{{r}}}" for r in ("rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12")]
        clobbers += [f"~{{xmm{i}}}" for i in range(16)] + ["~{memory}", "~{flags}", "~{dirflag}", "~{fpsr}"]
        function = ir.FunctionType(POINTER, [I64, inner.type, POINTER])
        constraints = ",".join(["={rdi}", "{rbx}", "{r13}", "0", *clobbers])
        text = "movq %rsp, %r12\n\tmovq $1, %rsp\n\tcallq *$2\n\tmovq %r12, %rsp"
        b.asm(function, text, constraints, [word(4), inner, made.args[0]], side_effect=True)
        b.ret(ir.Constant(I32, 0))

    def _inner(self, root: ir.Function, inputs: list[ir.Type], outputs: list[ir.Type]) -> ir.Function:
        made = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [POINTER]), "fn.inner")
        made.linkage = "internal"
        made.attributes.add("noinline")
        b = ir.IRBuilder(made.append_basic_block("entry"))
        words = b.bitcast(made.args[0], POINTER.as_pointer())
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
        b.ret_void()
        return made
