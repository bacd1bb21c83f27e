"""KernelBuilder: the small vocabulary in which kernels are written (loops, vectors, addresses)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import count

from llvmlite import ir

from glow_backends.cpu.emit.line_builder import LineBuilder, Lines, vector
from glow_backends.cpu.emit.row_runs import bits_of_f32
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent, computed

F32 = ir.FloatType()
F64 = ir.DoubleType()
I1 = ir.IntType(1)
I8 = ir.IntType(8)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
PTR = ir.PointerType()
_FIRST = ir.Constant(I32, 0)
TICKET_BYTES = 64
"""A worker's line of the tickets, whose first word counts the items drawn of its part."""


def repeated(value: ir.Constant, lanes: int) -> ir.Constant:
    """A vector constant of one number, in LLVM's short form: its text is most of a kernel's."""
    return _Splat(vector(value.type, lanes), value)


class _Splat(ir.Constant):
    """`splat (float 1.0)`."""

    def __init__(self, kind: ir.VectorType, value: ir.Constant) -> None:
        self.type = kind
        self.constant = (value,)

    def _get_reference(self) -> str:
        (value,) = self.constant
        if value.constant == 0 and not str(value.constant).startswith("-"):
            return "zeroinitializer"
        return f"splat ({value.type} {value.get_reference()})"


@cache
def undefined(kind: ir.Type) -> ir.Constant:
    """No value in particular."""
    return ir.Constant(kind, ir.Undefined)


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """The scalar in every lane of a vector."""
    none = undefined(vector(value.type, lanes))
    first = b.insert_element(none, value, _FIRST)
    return b.shuffle_vector(first, none, _all_first(lanes))


@cache
def _all_first(lanes: int) -> ir.Constant:
    return repeated(_FIRST, lanes)


@cache
def shuffle_mask(order: tuple[int, ...]) -> ir.Constant:
    """Which elements a shuffle takes."""
    return ir.Constant(vector(I32, len(order)), [ir.Constant(I32, i) for i in order])


@lru_cache(1 << 14)
def _number(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


class KernelFunction(ir.Function):
    """A kernel's function; `sizes` are the numbers that each of its calls hands over in a table.

    `shared`: it is a part of a kernel that is compiled on its own, since others have equal parts.
    """

    sizes: tuple[int, ...] = ()
    shared: bool = False

    def append_basic_block(self, name: str = "") -> ir.Block:
        """A new block at the end."""
        block = Lines(self, name)
        self.blocks.append(block)
        return block


def mark_open(module: ir.Module) -> None:
    """Let the kernels of a module take sizes in a table, since some are known only at run time."""
    module.open_sizes = True  # pyright: ignore[reportAttributeAccessIssue]


def is_open_module(module: ir.Module) -> bool:
    """Whether kernels of the module have sizes that are known only at run time."""
    return getattr(module, "open_sizes", False)


def sizes_of(function: ir.Function) -> tuple[int, ...]:
    """The table of sizes that a call of a kernel passes; empty where it takes none."""
    return function.sizes if isinstance(function, KernelFunction) else ()


class CodeBuilder:
    """Code at `b` of any function of a module: loops, vectors, addresses, intrinsics."""

    def __init__(self, module: ir.Module, target: CpuTarget, b: ir.IRBuilder) -> None:
        self.module = module
        self.target = target
        self.b = b
        self._intrinsics: dict[tuple[str, str], ir.Function] = {}

    # Constants and integer arithmetic (folded when both sides are Python ints).
    def i(self, value: int | ir.Value) -> ir.Value:
        """`value` as i64."""
        if isinstance(value, int):
            return _number(value)
        return self._open(value) if isinstance(value, Extent) else value

    def opened(self, value: int) -> int | ir.Value:
        """`value`, in a register where only the run tells it."""
        return self._open(value) if isinstance(value, Extent) else value

    def _open(self, value: Extent) -> ir.Value:
        """A number that the run tells."""
        raise NotImplementedError(f"{value} in code that is no kernel's")

    def add(self, x: int | ir.Value, y: int | ir.Value) -> int | ir.Value:
        """x + y on indices."""
        if isinstance(x, int | Extent) and isinstance(y, int | Extent):
            return x + y
        if isinstance(y, int) and y == 0:
            return x
        if isinstance(x, int) and x == 0:
            return y
        return self.b.add(self.i(x), self.i(y), flags=["nsw"])

    def mul(self, x: int | ir.Value, y: int | ir.Value) -> int | ir.Value:
        """x * y on indices."""
        if isinstance(x, int | Extent) and isinstance(y, int | Extent):
            return x * y
        if isinstance(y, int) and y == 1:
            return x
        if isinstance(x, int) and x == 1:
            return y
        if (isinstance(x, int) and x == 0) or (isinstance(y, int) and y == 0):
            return 0
        return self.b.mul(self.i(x), self.i(y), flags=["nsw"])

    def index(self, *terms: tuple[int | ir.Value, int | ir.Value]) -> int | ir.Value:
        """sum of position * stride."""
        total: int | ir.Value = 0
        for position, stride in terms:
            total = self.add(total, self.mul(position, stride))
        return total

    # Memory. Offsets count elements of the given type.
    def gep(self, pointer: ir.Value, offset: int | ir.Value, kind: ir.Type = F32) -> ir.Value:
        """pointer + offset elements."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.b.gep(pointer, [self.i(offset)], inbounds=True, source_etype=kind)

    def settled(self, pointer: ir.Value) -> ir.Value:
        """The pointer; how it was made is hidden from LLVM's loop passes, which take long for it in nests."""
        name = "llvm.strip.invariant.group.p0"
        callee = self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(PTR, [PTR]), name)
        return self.b.call(callee, [pointer])

    def load(
        self,
        pointer: ir.Value,
        offset: int | ir.Value = 0,
        kind: ir.Type = F32,
        lanes: int = 1,
        align: int = 0,
    ) -> ir.Value:
        """Load one element, or `lanes` adjacent ones as a vector; `align` in bytes, 0 = element size."""
        access = kind if lanes == 1 else vector(kind, lanes)
        return self.b.load(self.gep(pointer, offset, kind), typ=access, align=align or element_bytes(kind))

    def store(
        self,
        value: ir.Value,
        pointer: ir.Value,
        offset: int | ir.Value = 0,
        kind: ir.Type = F32,
        align: int = 0,
    ) -> None:
        """Store an element or vector at pointer + offset elements of `kind`."""
        self.b.store(value, self.gep(pointer, offset, kind), align=align or element_bytes(kind))

    def gather(self, pointer: ir.Value, places: ir.Value, kind: ir.Type = F32) -> ir.Value:
        """The elements at a vector of places (i32), which must all exist."""
        lanes = places.type.count
        where = self.b.gep(pointer, [places], source_etype=kind)
        result = vector(kind, lanes)
        name = f"llvm.masked.gather.{mangle(result)}.v{lanes}p0"
        all_lanes = repeated(ir.Constant(I1, 1), lanes)
        arguments = [where, ir.Constant(I32, element_bytes(kind)), all_lanes, undefined(result)]
        return self.named_intrinsic(name, arguments, [], result)

    def prefetch(self, pointer: ir.Value) -> None:
        """Ask for the cache line at `pointer` to come to the L2 cache; the address need not exist."""
        kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
        name = "llvm.prefetch.p0"
        callee = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        read, near, data = (ir.Constant(I32, v) for v in (0, 2, 1))
        self.b.call(callee, [pointer, read, near, data])

    # Vectors.
    def splat(self, value: ir.Value | float, lanes: int, kind: ir.Type = F32) -> ir.Value:
        """The scalar in every lane (lanes == 1: the scalar itself)."""
        if isinstance(value, float | int):
            if lanes == 1:
                return ir.Constant(kind, value)
            return repeated(ir.Constant(kind, value), lanes)
        if lanes == 1:
            return value
        return splat(self.b, value, lanes)

    def intrinsic(self, name: str, arguments: Sequence[ir.Value], result: ir.Type | None = None) -> ir.Value:
        """Call `llvm.<name>` with the overload suffix of the first argument's type."""
        first = arguments[0].type
        callee = self._intrinsics.get((name, str(first)))
        if callee is None:
            full = f"llvm.{name}.{mangle(first)}"
            kind = ir.FunctionType(result or first, [a.type for a in arguments])
            callee = self.module.globals.get(full) or ir.Function(self.module, kind, full)
            self._intrinsics[name, str(first)] = callee
        return self.b.call(callee, arguments)

    def named_intrinsic(
        self,
        name: str,
        arguments: Sequence[ir.Value],
        numbers: Sequence[tuple[int, int]],
        result: ir.Type | None = None,
    ) -> ir.Value:
        """Call an intrinsic by its whole name; `numbers` are (value, bits) behind the rest.

        Its `result` is of its first argument's type, if nothing else is said.
        """
        values = [*arguments, *(ir.Constant(ir.IntType(bits), n) for n, bits in numbers)]
        kind = ir.FunctionType(result or arguments[0].type, [v.type for v in values])
        return self.b.call(self.module.globals.get(name) or ir.Function(self.module, kind, name), values)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x * y + z in one rounding, or in two where that would be a call of a library."""
        if "+relaxed-simd" in self.target.features and x.type == ir.VectorType(F32, 4):
            return self.named_intrinsic("llvm.wasm.relaxed.madd.v4f32", [x, y, z], [])
        return self.intrinsic("fma" if self.target.has_fma else "fmuladd", [x, y, z])

    # Control flow.
    @contextmanager
    def loop(self, start: int | ir.Value, stop: int | ir.Value, step: int = 1) -> Generator[ir.Value]:
        """for index in range(start, stop, step); the body must not be assumed to run."""
        head = self.b.block
        check = self.b.function.append_basic_block("loop")
        body = self.b.function.append_basic_block("body")
        done = self.b.function.append_basic_block("done")
        begin = self.i(start)
        self.b.branch(check)
        self.b.position_at_end(check)
        index = self.b.phi(I64)
        index.add_incoming(begin, head)
        self.b.cbranch(self.b.icmp_signed("<", index, self.i(stop)), body, done)
        self.b.position_at_end(body)
        yield index
        index.add_incoming(self.b.add(index, self.i(step), flags=["nsw"]), self.b.block)
        self.b.branch(check)
        self.b.position_at_end(done)

    def reduce_loop(
        self,
        start: int | ir.Value,
        stop: int | ir.Value,
        step: int,
        initial: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A loop that carries values in registers; returns their final values."""
        head = self.b.block
        check = self.b.function.append_basic_block("reduce")
        inner = self.b.function.append_basic_block("reduce.body")
        done = self.b.function.append_basic_block("reduce.done")
        begin = self.i(start)
        self.b.branch(check)
        self.b.position_at_end(check)
        index = self.b.phi(I64)
        index.add_incoming(begin, head)
        carried = [self.b.phi(v.type) for v in initial]
        for phi, value in zip(carried, initial, strict=True):
            phi.add_incoming(value, head)
        self.b.cbranch(self.b.icmp_signed("<", index, self.i(stop)), inner, done)
        self.b.position_at_end(inner)
        after = body(index, list(carried))
        for phi, value in zip(carried, after, strict=True):
            phi.add_incoming(value, self.b.block)
        index.add_incoming(self.b.add(index, self.i(step), flags=["nsw"]), self.b.block)
        self.b.branch(check)
        self.b.position_at_end(done)
        return list(carried)


class KernelBuilder(CodeBuilder):
    """One kernel under construction: `void name(ptr operand..., [ptr sizes], i64 worker, [ptr tickets])`.

    Pointers are aligned as their elements are, since inputs lie where callers have them, and `noalias`
    unless operands may be `shared`: several results, each of which may lie where another operand does, must
    not be stored before that is loaded. With `target.threads > 1` the kernel does the share of `worker` (see
    `share`, and `items`, for which each worker has a line of `tickets`). Shapes are constants of the code,
    but for what a `sized` kernel reads by `size`: kernels that differ in nothing else are one piece of code.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        operands: int,
        target: CpuTarget,
        sized: bool = False,
        shared: bool = False,
    ) -> None:
        sized = sized or is_open_module(module)
        several = target.threads > 1
        kind = ir.FunctionType(ir.VoidType(), [PTR] * (operands + sized) + [I64] + [PTR] * several)
        numbers = count()
        self.function = KernelFunction(module, kind, name)
        self._entry = LineBuilder(self.function.append_basic_block("entry"), numbers)
        super().__init__(module, target, LineBuilder(self.function.append_basic_block("body"), numbers))
        self.function.linkage = "internal"
        self.function.attributes.add("nounwind")
        if not shared:
            for argument in self.function.args:
                if argument.type == PTR:
                    argument.add_attribute("noalias")
        self.operands: Sequence[ir.Value] = self.function.args[:operands]
        self.worker: ir.Value = self.function.args[operands + sized]
        self._tickets: ir.Value | None = self.function.args[-1] if several else None
        self._sizes: list[int] = []
        self._numbers: dict[Hashable, ir.Value] = {}
        self._table = self.function.args[operands] if sized else None
        if self._table is not None:
            self._table.attributes.align = 8
        # Arguments and stack come before everything else, whenever they are asked for.
        self._entry.position_before(self._entry.branch(self.b.block))

    def finish(self) -> KernelFunction:
        """Close the kernel."""
        self.b.ret_void()
        if self.sized and not self._sizes:
            self._sizes.append(0)  # the table is an operand, though it turned out to be of no use
        self.function.sizes = tuple(self._sizes)
        return self.function

    def size(self, value: int) -> ir.Value:
        """`value` as an argument of the call: the code does not depend on it.

        Never ask whether two such numbers are equal, or what they are, and emit otherwise.
        """
        return self._entry.load(self._place([value]), typ=I64, align=8)

    def number(self, value: float, key: Hashable) -> ir.Value:
        """A vector of `value`, an f32, as an argument of the call; asked for again by the same key."""
        if key not in self._numbers:
            place = self._place(computed(bits_of_f32, value))  # pyright: ignore[reportArgumentType]
            scalar = self._entry.load(place, typ=F32, align=4)
            self._numbers[key] = splat(self._entry, scalar, self.target.lanes)
        return self._numbers[key]

    @property
    def sized(self) -> bool:
        """Whether `size` and `number` may be asked."""
        return self._table is not None

    def table_for(self, callee: ir.Function) -> list[ir.Value]:
        """The table argument for calling a kernel of the same module, where that takes one."""
        return [self._place(sizes_of(callee))] if sizes_of(callee) else []

    def part(self, name: str) -> KernelBuilder:
        """A part of this kernel as code of its own: the same operands, behind them a pointer for numbers."""
        builder = KernelBuilder(
            self.module, f"{self.function.name}.{name}", len(self.operands) + 1, self.target, sized=True
        )
        builder.function.shared = True
        return builder

    def run_part(self, part: KernelFunction, *numbers: int | ir.Value) -> None:
        """Run a finished part, which finds the `numbers` (i64) behind its last operand."""
        pointer = self.stack(2 * max(1, len(numbers)))
        for i, number in enumerate(numbers):
            self.store(self.i(number), pointer, i, I64)
        tickets = [self.function.args[-1]] if self.target.threads > 1 else []
        self.b.call(part, [*self.operands, pointer, *self.table_for(part), self.worker, *tickets])

    def _place(self, sizes: Sequence[int]) -> ir.Value:
        """Where in the table of this kernel's sizes some more of them are."""
        assert self._table is not None, "the kernel is not sized"
        slot = ir.Constant(I64, len(self._sizes))
        self._sizes += sizes
        return self._entry.gep(self._table, [slot], inbounds=True, source_etype=I64)

    def stack(self, count: int) -> ir.Value:
        """Room for `count` floats as long as the kernel runs, aligned for vectors."""
        pointer = self._entry.alloca(ir.ArrayType(F32, count))
        pointer.type, pointer.align = PTR, self.target.vector_bytes
        return pointer

    def _open(self, value: Extent) -> ir.Value:
        """A number that the run tells, loaded once."""
        if value not in self._numbers:
            self._numbers[value] = self.size(value)
        return self._numbers[value]

    def share(self, count: int | ir.Value) -> tuple[int | ir.Value, int | ir.Value]:
        """The half-open part of range(count) that this worker does."""
        threads = self.target.threads
        if threads == 1:
            return 0, count
        return self._part(self.worker, count)

    def _part(self, worker: ir.Value, count: int | ir.Value) -> tuple[ir.Value, ir.Value]:
        threads = self.i(self.target.threads)
        low = self.b.sdiv(self.b.mul(worker, self.i(count)), threads)
        return low, self.b.sdiv(self.b.mul(self.b.add(worker, self.i(1)), self.i(count)), threads)

    @contextmanager
    def items(self, count: int | ir.Value) -> Generator[int | ir.Value]:
        """for each item of range(count), until all workers together have done them; once a kernel.

        A worker takes its own part (that of `share`) item by item; who is done helps the others, so that
        none waits for one that the machine holds up. Who does an item must not matter to its result.
        """
        if self.target.threads == 1:
            with self.loop(0, count) as item:
                yield item
            return
        assert self._tickets is not None, "a worker has one line of tickets"
        threads, tickets, self._tickets = self.i(self.target.threads), self._tickets, None
        with self.loop(0, threads) as turn:
            owner = self.b.urem(self.b.add(self.worker, turn), threads)
            low, high = self._part(owner, count)
            ticket = self.gep(tickets, self.mul(owner, TICKET_BYTES), I8)
            draw, body, done = (self.function.append_basic_block(n) for n in ("draw", "item", "drawn"))
            self.b.branch(draw)
            self.b.position_at_end(draw)
            item = self.b.add(low, self.b.atomic_rmw("add", ticket, self.i(1), "monotonic"))
            self.b.cbranch(self.b.icmp_signed("<", item, high), body, done)
            self.b.position_at_end(body)
            yield item
            self.b.branch(draw)
            self.b.position_at_end(done)


_FLOAT_BYTES = {"float": 4, "double": 8, "half": 2, "bfloat": 2}


def element_bytes(kind: ir.Type) -> int:
    """Size of an element in bytes."""
    if kind is F32:  # most of them
        return 4
    if isinstance(kind, ir.IntType):
        return max(1, kind.width // 8)
    return _FLOAT_BYTES.get(str(kind), 8)


def mangle(kind: ir.Type) -> str:
    """The suffix by which LLVM names the overload of an intrinsic for `kind`."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangle(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}[str(kind)]
