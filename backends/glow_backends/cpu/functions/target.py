"""LLVM instructions for scalars, selections and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from xdsl.ir import Attribute, Block, SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.builder import CodeBuilder
from glow_backends.cpu.emit.pointwise import Pointwise, Step, emit_pointwise, supports
from glow_backends.cpu.emit.pointwise_rules import compare
from glow_backends.cpu.emit.values import compute, constant
from glow_backends.cpu.functions.blocks import block_of, write
from glow_backends.cpu.functions.layout import F64, I1, I64, POINTER, SCALARS, flat, leaves, unflat
from glow_backends.cpu.functions.runtime import Support
from glow_backends.cpu.functions.tensors import Tensors
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.builder import decomposed
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.fn.domain import BOOL, FnType, NamedType, NotNative, TensorType, Type
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.mathematics import MATHEMATICS
from glow_dialects.fn.primitives.scalars import ScalarPrimitive
from glow_dialects.fn.primitives.shapes import Astype, Reshape
from glow_dialects.fn.regions import Kind, region, subscript_error
from glow_dialects.fn.tensors import TensorsOp
from glow_dialects.fn.values import V, captured
from glow_dialects.ops.arithmetic import AddOp, FloorDivOp, ModOp, MulOp, PowOp, SubOp
from glow_dialects.ops.logic import ShiftLeftOp, ShiftRightOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.unary_math import AbsOp, NegOp


def _any(code: ir.Value) -> bool:
    """Whether any value would do."""
    return isinstance(code, ir.Constant) and code.constant is ir.Undefined


class LlvmTarget:
    """Makes code at `builder`."""

    coding = True

    def __init__(self, module: ir.Module, support: Support, target: CpuTarget) -> None:
        self.module = module
        self.support = support
        self.tensors = Tensors(module, support)
        self.k = CodeBuilder(module, target, ir.IRBuilder())
        self.helpers: dict[str, ir.Function] = {}
        #: Whether the store that is done now may write into its operand.
        self.in_place = False
        #: Whether that may be the program's zeros.
        self.guarded = False

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code goes."""
        return self.k.b

    @builder.setter
    def builder(self, builder: ir.IRBuilder) -> None:
        self.k.b = self.tensors.builder = builder

    def constant(self, kind: str, value: float | int | bool) -> ir.Value:
        """A number."""
        if kind == "float":
            return ir.Constant(F64, float(value))
        return ir.Constant(SCALARS[kind], int(value))

    def cast(self, code: ir.Value, have: str, want: str) -> ir.Value:
        """bool, int and float into each other."""
        b = self.builder
        code = self.tensors.register(code)
        if want == "float":
            return b.sitofp(code, F64) if have == "int" else b.uitofp(code, F64)
        if want == "int":
            return b.zext(code, I64) if have == "bool" else self._whole(code)
        return self.is_nonzero(code)

    def _whole(self, code: ir.Value) -> ir.Value:
        """A float as an int; the program stops where that has more than 64 bits, or the float is nan."""
        b = self.builder
        inside = b.fcmp_ordered("<", self.external("llvm.fabs.f64", F64, [code]), ir.Constant(F64, 2.0**63))
        self.support.fits(b, b.not_(inside))
        return b.fptosi(code, I64)

    def external(self, name: str, result: ir.Type, values: Sequence[ir.Value]) -> ir.Value:
        """A call of an intrinsic or a function of the C library."""
        function = self.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [v.type for v in values])
            function = ir.Function(self.module, kind, name)
            if not name.startswith("llvm."):
                function.attributes.add("nounwind")
        return self.builder.call(function, values)

    def scalar(self, card: ScalarPrimitive, kind: str, x: Sequence[ir.Value]) -> ir.Value:
        """A primitive on scalars of one kind."""
        waiting = self.tensors.arithmetic(card, x) if kind == "float" else None
        if waiting is not None:
            return waiting  # pyright: ignore[reportReturnType] - code like any other
        x = self.tensors.registers(x)
        if card.code and kind == "float":
            return self.external(card.code, F64, x)
        body = region(card, {}, [_KINDS[v.type] for v in x], "")
        value = self._computed(body.block, body.result, x)
        whole = value.type == F64 and card.kinds(kind, "")[1] == "int"
        return self._whole(value) if whole else value

    def _computed(self, block: Block, result: SSAValue, x: Sequence[ir.Value]) -> ir.Value:
        """The value of operators on scalars."""
        known: dict[SSAValue, ir.Value] = dict(zip(block.args, x, strict=True))
        for op in block.ops:
            assert isinstance(op, GraphOp)
            known[op.results[0]] = self._operator(op, [known[v] for v in op.operands])
        return known[result]

    def _operator(self, op: GraphOp, x: Sequence[ir.Value]) -> ir.Value:
        """An operator on scalars: ints are Python's, functions of floats those of C's library."""
        kind, sources = type(op), [dtype_name(v) for v in op.operands]
        if isinstance(op, SplatOp):
            return constant(compute(dtype_name(op.result)), op.value)
        if sources[0] == "i64" and kind in INTS:
            return INTS[kind](self, *x)
        if sources[0] == "f64" and kind in _CODES:
            return self.external(_CODES[kind], F64, x)
        name, result = op.name.removeprefix("glow."), dtype_name(op.results[0])
        if (sources[0], result) == ("f64", "i64"):
            return self._whole(x[0])
        if not supports(name, result):
            return self._computed(*_formula(kind, tuple(v.type for v in op.operands)), x)
        count = len(x)
        step = Step(name, tuple(range(count)), (), result)
        return emit_pointwise(self.k, Pointwise(count, (step,), (count,), tuple(sources)), x)[0]

    def exact(self, code: ir.Value) -> None:
        """Leave the program where an int is not exactly a float: one of more than 53 bits."""
        b, most = self.builder, ir.Constant(I64, 2**53)
        shifted = b.add(self.tensors.register(code), most)
        self.support.fits(b, b.icmp_unsigned(">", shifted, ir.Constant(I64, 2**54)))

    def within(self, code: ir.Value, low: int, high: int) -> None:
        """Leave the program where an int lies outside a range."""
        b, number = self.builder, self.tensors.register(code)
        below = b.icmp_signed("<", number, ir.Constant(I64, low))
        self.support.fits(b, b.or_(below, b.icmp_signed(">", number, ir.Constant(I64, high))))

    def defined(self, result: ir.Value, x: Sequence[ir.Value]) -> None:
        """Leave the program where a function of numbers has no value for `x`, or none that is finite."""
        b, infinity = self.builder, ir.Constant(F64, float("inf"))
        registers = self.tensors.registers([result, *x])
        sizes = [self.external("llvm.fabs.f64", F64, [r]) for r in registers]
        # Of NaN any result; of an infinity an infinite one; of other numbers a finite one.
        bad = b.fcmp_unordered(">=", sizes[0], infinity)
        for size in sizes[1:]:
            bad = b.and_(bad, b.fcmp_ordered("ord", size, size))
            same = b.and_(b.fcmp_ordered("==", size, infinity), b.fcmp_ordered("==", sizes[0], infinity))
            bad = b.and_(bad, b.not_(same))
        self.support.fits(b, bad)

    def is_nonzero(self, x: ir.Value) -> ir.Value:
        """Whether a number is not 0."""
        dtype = "f64" if x.type == F64 else "i64"
        return x if x.type == I1 else compare(self.k, "!=", x, ir.Constant(x.type, 0), dtype)

    def absolute(self, x: ir.Value) -> ir.Value:
        """|x| of an int."""
        b, zero = self.builder, ir.Constant(x.type, 0)
        return b.select(b.icmp_signed("<", x, zero), self.checked("sub", zero, x), x)

    def checked(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """A sum, difference or product; the program stops where it needs more than 64 bits."""
        return self._checked(self.builder, name, left, right)

    def _checked(self, b: ir.IRBuilder, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """A sum, difference or product; the program stops where it needs more than 64 bits."""
        pair = getattr(b, f"s{name}_with_overflow")(left, right)
        self.support.fits(b, b.extract_value(pair, 1))
        return b.extract_value(pair, 0)

    def shifted(self, name: str, x: ir.Value, by: ir.Value) -> ir.Value:
        """x << by or x >> by, by any number of bits that is not negative."""
        b = self.builder
        most = ir.Constant(I64, 63)
        if name == "shr":
            self.support.fits(b, b.icmp_signed("<", by, ir.Constant(I64, 0)))
            return b.ashr(x, b.select(b.icmp_signed("<", by, most), by, most))
        self.support.fits(b, b.icmp_unsigned(">=", by, most))
        product = b.shl(x, by)
        self.support.fits(b, b.icmp_signed("!=", b.ashr(product, by), x))
        return product

    def divided(self, name: str, x: ir.Value, by: ir.Value) -> ir.Value:
        """x // by or x % by, rounded down as in Python; the program stops where `by` is 0."""
        b = self.builder
        zero = ir.Constant(I64, 0)
        if not isinstance(by, ir.Constant):
            least = b.icmp_signed("==", x, ir.Constant(I64, -(2**63)))
            bad = b.and_(least, b.icmp_signed("==", by, ir.Constant(I64, -1)))
            self.support.fits(b, b.or_(bad, b.icmp_signed("==", by, zero)))
        elif by.constant in (0, -1):
            bad = (
                ir.Constant(I1, 1) if by.constant == 0 else b.icmp_signed("==", x, ir.Constant(I64, -(2**63)))
            )
            self.support.fits(b, bad)
            by = by if by.constant else ir.Constant(I64, 1)
        quotient, rest = b.sdiv(x, by), b.srem(x, by)
        signs = b.icmp_signed("<", b.xor(rest, by), zero)
        below = b.and_(b.icmp_signed("!=", rest, zero), signs)
        if name == "mod":
            return b.add(rest, b.select(below, by, zero))
        return b.sub(quotient, b.zext(below, I64))

    def power(self) -> ir.Function:
        """Integer power by squaring; negative exponents, which give floats, are not native."""
        if "fn.ipow" not in self.helpers:
            function = ir.Function(self.module, ir.FunctionType(I64, [I64, I64]), "fn.ipow")
            function.linkage = "internal"
            self.helpers["fn.ipow"] = function
            entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
            zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
            b = ir.IRBuilder(entry)
            self.support.fits(b, b.icmp_signed("<", function.args[1], zero))
            start = b.block
            b.branch(loop)
            b.position_at_end(loop)
            base, left, total = (b.phi(I64) for _ in range(3))
            odd = b.icmp_signed("!=", b.and_(left, one), zero)
            after = self._checked(b, "mul", total, b.select(odd, base, one))
            half = b.ashr(left, one)
            more = b.icmp_signed(">", half, zero)
            squared = self._checked(b, "mul", b.select(more, base, one), b.select(more, base, one))
            for phi, first, then in (
                (base, function.args[0], squared),
                (left, function.args[1], half),
                (total, one, after),
            ):
                phi.add_incoming(first, start)
                phi.add_incoming(then, b.block)
            b.cbranch(more, loop, done)
            b.position_at_end(done)
            b.ret(after)
        return self.helpers["fn.ipow"]

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """One of two registers."""
        if yes is no or _any(no):
            return yes
        if _any(yes):
            return no
        return self.builder.select(*self.tensors.registers([condition, yes, no]))

    def undefined(self, kind: Type) -> Any:
        """Any value of a type."""
        return unflat(kind, iter([ir.Constant(t, ir.Undefined) for t in leaves(kind)]))

    def nothing(self) -> ir.Value:
        """The address of an array that is never read."""
        return ir.Constant(POINTER, None)

    def box(self, named: NamedType, index: int, values: Sequence[V]) -> ir.Value:
        """A record: the tag and the registers of the captured values."""
        registers = self.tensors.registers([r for v in values for r in flat(v.code)])
        if not registers:
            # Closures without captured values are all the same: one constant record each.
            name = f"fn.record.{index}"
            if name not in self.module.globals:
                variable = ir.GlobalVariable(self.module, I64, name)
                variable.initializer = ir.Constant(I64, index)
                variable.linkage = "internal"
            return self.builder.bitcast(self.module.globals[name], POINTER)
        b = self.builder
        record = self.support.allocate(b, 8 + 8 * len(registers))
        b.store(ir.Constant(I64, index), b.bitcast(record, I64.as_pointer()))
        for position, register in enumerate(registers):
            place = b.gep(record, [ir.Constant(I64, 8 + 8 * position)])
            b.store(register, b.bitcast(place, register.type.as_pointer()))
        return record

    def unbox(self, record: ir.Value, kinds: Sequence[Type]) -> list[Any]:
        """The captured values of a record."""
        b = self.builder
        registers: list[ir.Value] = []
        for position, kind in enumerate(leaf for t in kinds for leaf in leaves(t)):
            place = b.gep(record, [ir.Constant(I64, 8 + 8 * position)])
            registers.append(b.load(b.bitcast(place, kind.as_pointer())))
        values = iter(registers)
        return [unflat(t, values) for t in kinds]

    def box_any(self, named: NamedType, value: V, convert: Callable[[V, Type], V]) -> ir.Value:
        """A record from one of several closures: by cases of the tag."""
        assert isinstance(value.type, FnType)
        b = self.builder
        function = b.function
        done = function.append_basic_block("boxed")
        boxes: list[tuple[ir.Value, ir.Block]] = []
        other = function.append_basic_block("none")
        self.tensors.registers(flat(value.code))
        cases = b.switch(value.code[0], other)
        for index, entry in enumerate(value.type.entries):
            block = function.append_basic_block("box")
            cases.add_case(ir.Constant(I64, index), block)
            b.position_at_end(block)
            one = FnType((entry,))
            box = convert(V(one, [v.code for v in captured(value, index)]), named)
            boxes.append((box.code, b.block))
            b.branch(done)
        b.position_at_end(other)
        b.unreachable()
        b.position_at_end(done)
        phi = b.phi(POINTER)
        for code, block in boxes:
            phi.add_incoming(code, block)
        return phi

    def tensor(self, card: Primitive, attributes: Any, values: Sequence[V], result: Type, where: str) -> Any:
        """A primitive on tensors, which waits until its value is needed; stores are done at once."""
        block = block_of(card, attributes, values)
        if block is not None and isinstance(result, TensorType):
            return write(self, block, values, where)
        return self.tensors.primitive(card, attributes, values, result, where)

    def zeros(self, kind: TensorType) -> Any:
        """An array of zeros."""
        return self.tensors.zeros_of(kind)

    def as_tensor(self, value: V, kind: TensorType) -> Any:
        """A number as an array."""
        return self.tensor(Astype(), {"dtype": to_attribute(kind.dtype)}, [value], kind, "")

    def first(self, value: V) -> Any:
        """The boolean that is the one element of an array."""
        return self.tensor(Reshape(), {"shape": to_attribute(())}, [value], BOOL, "")

    def inside(self, index: V, size: int, where: str) -> None:
        """Raise IndexError where a number, or one of an array, is no subscript of an axis."""
        self.tensors.inside(index, size, ("IndexError", subscript_error(size), where))

    def graph(self, op: TensorsOp, values: Sequence[V]) -> Any:
        """The tensors of a part of a graph, which wait as well."""
        return self.tensors.graph_part(op, values)

    def calls(self, op: Any, caller: Any, callees: Sequence[Any]) -> None:
        """Calls are the emitter's."""

    def array(self, value: Any) -> Any:
        """An array that is known when compiling."""
        return self.tensors.array(value)


#: The code of operators on Python's ints, where it is not that of ints that wrap.
INTS: dict[type[GraphOp], Callable[..., ir.Value]] = {
    AddOp: lambda t, a, b: t.checked("add", a, b),
    SubOp: lambda t, a, b: t.checked("sub", a, b),
    MulOp: lambda t, a, b: t.checked("mul", a, b),
    PowOp: lambda t, a, b: t.builder.call(t.power(), [a, b]),
    ModOp: lambda t, a, b: t.divided("mod", a, b),
    FloorDivOp: lambda t, a, b: t.divided("floor_div", a, b),
    NegOp: lambda t, x: t.checked("sub", ir.Constant(x.type, 0), x),
    AbsOp: LlvmTarget.absolute,
    ShiftLeftOp: lambda t, a, b: t.shifted("shl", a, b),
    ShiftRightOp: lambda t, a, b: t.shifted("shr", a, b),
}
#: The functions of C's library, and intrinsics, that operators on floats are.
_CODES = {card.graph: card.code for card in MATHEMATICS if card.code}
_KINDS = {F64: Kind(tensor((), "float64")), I64: Kind(tensor((), "int64")), I1: Kind(tensor((), "bool"))}


@cache
def _formula(kind: type[GraphOp], operands: tuple[Attribute, ...]) -> tuple[Block, SSAValue]:
    """The operators that one for which there are no instructions decomposes into."""
    block = Block(arg_types=operands)
    op = kind(*block.args)
    block.add_op(op)
    expansion = decomposed(op)
    if expansion is None:
        raise NotNative(f"{kind.name} of numbers")
    return block, expansion[0][0]
