"""An IRBuilder whose instructions are lines of text from the start.

llvmlite keeps each instruction as an object with names, operands, flags and metadata, and prints it
when the module is read: most of the time that emitting kernels took. Here an instruction is written
down at once, and only its result (a name and a type) stays. What kernels use rarely (branches,
allocas, atomic operations, anything with metadata) is llvmlite's own; both kinds stand in one block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

from llvmlite import ir

_I1 = ir.IntType(1)
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@cache
def vector(kind: ir.Type, lanes: int) -> ir.VectorType:
    """The one type of vectors of `lanes` elements of `kind`: equal types are then the same object."""
    return ir.VectorType(kind, lanes)


class Register(ir.Value):
    """The result of an instruction: a name and a type."""

    __slots__ = ("reference", "type")

    def __init__(self, kind: ir.Type, reference: str) -> None:
        self.type = kind
        self.reference = reference

    def get_reference(self) -> str:
        """The name as operands write it."""
        return self.reference


class Phi(Register):
    """A phi, whose incoming values come to be known later."""

    __slots__ = ("incomings",)

    def __init__(self, kind: ir.Type, reference: str) -> None:
        super().__init__(kind, reference)
        self.incomings: list[str] = []

    def add_incoming(self, value: ir.Value, block: ir.Block) -> None:
        """The value that holds where control comes from `block`."""
        assert value.type == self.type
        self.incomings.append(f"[{value.get_reference()}, {block.get_reference()}]")

    def __str__(self) -> str:
        return f"{self.reference} = phi {self.type} {', '.join(self.incomings)}"


class Lines(ir.Block):
    """A block, most of whose instructions are text."""

    def descr(self, buf: list[str]) -> None:
        """Append the block's text."""
        buf.append(f"{self._format_name()}:\n  ")
        buf.append("\n  ".join(map(str, self.instructions)))
        buf.append("\n")


def _binary(opname: str) -> Callable[..., ir.Value]:
    def method(
        self: LineBuilder, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        kind = lhs.type
        if kind is not rhs.type and kind != rhs.type:
            raise ValueError(f"operands of {opname} differ in type: {kind} and {rhs.type}")
        how = f"{opname} {' '.join(flags)}" if flags else opname
        return self._line(kind, f"{how} {kind} {lhs.get_reference()}, {rhs.get_reference()}")

    return method


def _conversion(opname: str) -> Callable[..., ir.Value]:
    def method(self: LineBuilder, value: ir.Value, typ: ir.Type, name: str = "") -> ir.Value:
        if value.type == typ:
            return value
        return self._line(typ, f"{opname} {value.type} {value.get_reference()} to {typ}")

    return method


class LineBuilder(ir.IRBuilder):
    """Instructions as text at the end of a block; builders of one function share their `numbers`."""

    def __init__(self, block: ir.Block, numbers: count[int] | None = None) -> None:
        super().__init__(block)
        self._numbers = count() if numbers is None else numbers

    def _line(self, kind: ir.Type, text: str) -> ir.Value:
        reference = f"%v{next(self._numbers)}"
        self._block.instructions.insert(self._anchor, f"{reference} = {text}")
        self._anchor += 1
        return Register(kind, reference)

    def _write(self, line: object) -> None:
        self._block.instructions.insert(self._anchor, line)
        self._anchor += 1

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    sdiv, udiv, srem, urem = _binary("sdiv"), _binary("udiv"), _binary("srem"), _binary("urem")
    fadd, fsub, fmul, fdiv, frem = (_binary(n) for n in ("fadd", "fsub", "fmul", "fdiv", "frem"))
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    trunc, zext, sext = _conversion("trunc"), _conversion("zext"), _conversion("sext")
    fptrunc, fpext, bitcast = _conversion("fptrunc"), _conversion("fpext"), _conversion("bitcast")
    fptoui, fptosi = _conversion("fptoui"), _conversion("fptosi")
    uitofp, sitofp = _conversion("uitofp"), _conversion("sitofp")
    ptrtoint, inttoptr = _conversion("ptrtoint"), _conversion("inttoptr")

    def fneg(self, arg: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """-arg of floats."""
        return self._line(arg.type, f"fneg {arg.type} {arg.get_reference()}")

    def _compare(self, opname: str, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        kind = lhs.type
        if kind is not rhs.type and kind != rhs.type:
            raise ValueError(f"operands of {opname} differ in type: {kind} and {rhs.type}")
        result_type = vector(_I1, kind.count) if isinstance(kind, ir.VectorType) else _I1
        return self._line(result_type, f"{opname} {kind} {lhs.get_reference()}, {rhs.get_reference()}")

    def icmp_signed(self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> ir.Value:
        """Comparison of signed integers."""
        sign = "" if cmpop in ("==", "!=") else "s"
        return self._compare(f"icmp {sign}{_PREDICATES[cmpop]}", lhs, rhs)

    def icmp_unsigned(self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "") -> ir.Value:
        """Comparison of unsigned integers or pointers."""
        sign = "" if cmpop in ("==", "!=") else "u"
        return self._compare(f"icmp {sign}{_PREDICATES[cmpop]}", lhs, rhs)

    def fcmp_ordered(
        self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """Comparison of floats; false where one is no number."""
        assert not flags
        return self._compare(f"fcmp {_float_predicate('o', cmpop)}", lhs, rhs)

    def fcmp_unordered(
        self, cmpop: str, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """Comparison of floats; true where one is no number."""
        assert not flags
        return self._compare(f"fcmp {_float_predicate('u', cmpop)}", lhs, rhs)

    def select(
        self, cond: ir.Value, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """lhs where cond, else rhs."""
        kind = lhs.type
        assert kind == rhs.type and not flags
        return self._line(
            kind,
            f"select {cond.type} {cond.get_reference()}, {kind} {lhs.get_reference()}, "
            f"{kind} {rhs.get_reference()}",
        )

    # Memory. A load says what it loads.
    def load(
        self, ptr: ir.Value, name: str = "", align: int | None = None, typ: ir.Type | None = None
    ) -> ir.Value:
        """The `typ` at an address."""
        assert typ is not None
        how = f", align {align}" if align else ""
        return self._line(typ, f"load {typ}, ptr {ptr.get_reference()}{how}")

    def store(self, value: ir.Value, ptr: ir.Value, align: int | None = None) -> None:
        """Store to an address."""
        how = f", align {align}" if align else ""
        self._write(f"store {value.type} {value.get_reference()}, ptr {ptr.get_reference()}{how}")

    def gep(
        self,
        ptr: ir.Value,
        indices: Sequence[ir.Value],
        inbounds: bool = False,
        name: str = "",
        source_etype: ir.Type | None = None,
    ) -> ir.Value:
        """An address behind another one, or a vector of them."""
        assert source_etype is not None
        kind = next(
            (vector(ptr.type, i.type.count) for i in indices if isinstance(i.type, ir.VectorType)), ptr.type
        )
        how = "getelementptr inbounds" if inbounds else "getelementptr"
        steps = "".join(f", {i.type} {i.get_reference()}" for i in indices)
        return self._line(kind, f"{how} {source_etype}, ptr {ptr.get_reference()}{steps}")

    # Vectors.
    def extract_element(self, vector: ir.Value, idx: ir.Value, name: str = "") -> ir.Value:
        """One element."""
        return self._line(vector.type.element, f"extractelement {_typed(vector)}, {_typed(idx)}")

    def insert_element(self, vector: ir.Value, value: ir.Value, idx: ir.Value, name: str = "") -> ir.Value:
        """The vector with one element changed."""
        text = f"insertelement {_typed(vector)}, {_typed(value)}, {_typed(idx)}"
        return self._line(vector.type, text)

    def shuffle_vector(
        self, vector1: ir.Value, vector2: ir.Value, mask: ir.Value, name: str = ""
    ) -> ir.Value:
        """Elements of two vectors by number."""
        kind = vector(vector1.type.element, mask.type.count)
        return self._line(kind, f"shufflevector {_typed(vector1)}, {_typed(vector2)}, {_typed(mask)}")

    # Control.
    def phi(self, typ: ir.Type, name: str = "", flags: Sequence[str] = ()) -> Phi:
        """A value that depends on where control comes from."""
        phi = Phi(typ, f"%v{next(self._numbers)}")
        self._write(phi)
        return phi

    def call(self, fn: ir.Value, args: Sequence[ir.Value], name: str = "", **how: Any) -> ir.Value:
        """A call; those with attributes are llvmlite's."""
        if how or not isinstance(fn, ir.Function) or fn.calling_convention:
            return super().call(fn, args, name, **how)
        kind = fn.ftype
        for argument, expected in zip(args, kind.args, strict=True):
            if argument.type is not expected and argument.type != expected:
                raise TypeError(f"{fn.name} takes {expected}, not {argument.type}")
        result = kind.return_type
        text = f"call {result} {fn.get_reference()}({', '.join(map(_typed, args))})"
        if isinstance(result, ir.VoidType):
            self._write(text)
            return fn
        return self._line(result, text)


def _typed(value: ir.Value) -> str:
    return f"{value.type} {value.get_reference()}"


def _float_predicate(prefix: str, cmpop: str) -> str:
    return prefix + _PREDICATES[cmpop] if cmpop in _PREDICATES else cmpop
