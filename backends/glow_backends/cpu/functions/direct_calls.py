"""Calls of native functions without code in Python: a builtin function that is made of machine code.

It takes numbers and small arrays of certain types; anything else, a limit that is reached and an error go to
a Python function that does the same. It keeps CPython's lock, so that it is for short runs only.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from glow_backends.cpu.functions.layout import F64, I64, POINTER
from glow_backends.cpu.jit import Linked, emit_object, new_module
from glow_dialects.core.types import Array, bytes_of, dtype_of, tensor
from glow_dialects.fn.domain import Scalar, TensorType, TupleType, Type

if TYPE_CHECKING:
    from glow_backends.cpu.functions.passing import Arguments, Results
    from glow_backends.cpu.target import CpuTarget

I32 = ir.IntType(32)
#: Where CPython and NumPy keep what objects are, in bytes: types, floats, arrays.
_TYPE, _FLOAT, _DATA, _AXES, _SHAPE, _DTYPE, _FLAGS = 8, 16, 16, 24, 32, 56, 64
_CONTIGUOUS = 1
_FASTCALL = 0x80
NAME = "fn_direct"
#: The word of a setup that tells how far memory was used.
USED = 6


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


def known_layout() -> bool:
    """Whether objects lie in memory as is assumed here."""
    plain = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    if not plain or object.__basicsize__ != 16 or float.__basicsize__ != 24:
        return False
    probe = np.zeros((3, 2))
    word: Callable[[int], int] = lambda at: ctypes.c_int64.from_address(id(probe) + at).value  # noqa: E731
    shape = ctypes.c_int64.from_address(word(_SHAPE)).value
    same = word(_DATA) == probe.ctypes.data and word(_DTYPE) == id(probe.dtype) and shape == 3
    return same and word(_AXES) & 0xFFFFFFFF == 2 and bool(word(_FLAGS) & _CONTIGUOUS)


def _items(kind: Type) -> list[Type] | None:
    """The parts of a result: None where they are no flat row."""
    parts = list(kind.items) if isinstance(kind, TupleType) and not kind.names else [kind]
    return parts if all(isinstance(t, Scalar | TensorType) for t in parts) else None


@dataclass(frozen=True)
class Words:
    """Addresses: of the program's code, its setup, a word that is not 0 while a program runs, and how far its
    memory may have been used."""

    run: int
    setup: int
    busy: int
    most: int


class DirectCall:
    """The builtin function of a program, whose arguments and results lie in certain places."""

    def __init__(
        self, arguments: Arguments, results: Results, parameters: Sequence[Type], kind: Type
    ) -> None:
        self.arguments, self.results = arguments, results
        self.parameters, self.kind = parameters, kind
        self.keep: list[Any] = []

    @property
    def possible(self) -> bool:
        """Whether all arguments and results are numbers and small arrays."""
        items = _items(self.kind)
        if items is None or self.results.large or not known_layout():
            return False
        if not all(t.shape for t in items if isinstance(t, TensorType)):
            return False
        return all(
            self.arguments.staged(i) is not None
            if isinstance(t, TensorType)
            else isinstance(t, Scalar) and t.const is None
            for i, t in enumerate(self.parameters)
        )

    def made(self, words: Words, slow: Callable[..., Any], target: CpuTarget) -> Any:
        """The function; `slow` does the same in Python."""
        self.module = new_module("direct", target)
        self._emit(words, slow)
        self._linked = Linked([emit_object(self.module, target)], target)
        method = _Method(b"glow_function", self._linked.address(NAME), _FASTCALL, None)
        self.keep += [method, slow]
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
        return make(ctypes.addressof(method), None, None)

    # --- code -------------------------------------------------------------------------------------
    def _emit(self, words: Words, slow: Any) -> None:
        """`fn_direct(self, arguments, count)`."""
        function = ir.Function(self.module, ir.FunctionType(POINTER, [POINTER, POINTER, I64]), NAME)
        _, given, count = function.args
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.other = function.append_basic_block("other")
        self._unless(b.icmp_signed("==", count, ir.Constant(I64, len(self.parameters))))
        self._unless(b.icmp_signed("==", b.load(self._at(words.busy, I64)), ir.Constant(I64, 0)))
        objects = b.bitcast(given, POINTER.as_pointer())
        for index, kind in enumerate(self.parameters):
            value = b.load(b.gep(objects, [ir.Constant(I64, index)]))
            self._take(index, kind, value)
        run = b.inttoptr(ir.Constant(I64, words.run), ir.FunctionType(I32, [POINTER]).as_pointer())
        code = b.call(run, [b.inttoptr(ir.Constant(I64, words.setup), POINTER)])
        self._unless(b.icmp_signed("==", code, ir.Constant(I32, 0)))
        used = b.load(self._at(words.setup + 8 * USED, I64))
        self._unless(b.icmp_unsigned("<=", used, ir.Constant(I64, words.most)))
        b.ret(self._result())
        b.position_at_end(self.other)
        nothing = ir.Constant(POINTER, None)
        again = self._c("PyObject_Vectorcall", POINTER, [POINTER, POINTER, I64, POINTER])
        b.ret(b.call(again, [self._object(slow), given, count, nothing]))

    def _at(self, address: int, kind: ir.Type) -> ir.Value:
        return self.b.inttoptr(ir.Constant(I64, address), kind.as_pointer())

    def _object(self, value: Any) -> ir.Value:
        return ir.Constant(I64, id(value)).inttoptr(POINTER)

    def _c(self, name: str, result: ir.Type, kinds: Sequence[ir.Type]) -> ir.Value:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        kind = ir.FunctionType(result, kinds)
        return self.b.inttoptr(ir.Constant(I64, address), kind.as_pointer())

    def _unless(self, right: ir.Value) -> None:
        """Leave it to Python where something is not as it should be."""
        go = self.b.append_basic_block("go")
        self.b.cbranch(right, go, self.other)
        self.b.position_at_end(go)

    def _word(self, value: ir.Value, at: int, kind: ir.Type = I64) -> ir.Value:
        place = self.b.gep(value, [ir.Constant(I64, at)])
        return self.b.load(self.b.bitcast(place, kind.as_pointer()))

    def _is(self, value: ir.Value, at: int, wanted: int) -> None:
        self._unless(self.b.icmp_signed("==", self._word(value, at), ir.Constant(I64, wanted)))

    def _take(self, index: int, kind: Type, value: ir.Value) -> None:
        """Store an argument where the program reads it."""
        b, place = self.b, self.arguments.address + 8 * index
        if isinstance(kind, TensorType):
            self._take_array(kind, value, self.arguments.staged(index))
            return
        assert isinstance(kind, Scalar)
        self._is(value, _TYPE, id({"float": float, "int": int, "bool": bool}[kind.kind]))
        if kind.kind == "float":
            b.store(self._word(value, _FLOAT, F64), self._at(place, F64))
        elif kind.kind == "bool":
            truth = b.icmp_unsigned("==", value, self._object(True))
            b.store(b.zext(truth, I64), self._at(place, I64))
        else:
            with b.goto_entry_block():
                large = b.alloca(I32)
            take = self._c("PyLong_AsLongLongAndOverflow", I64, [POINTER, I32.as_pointer()])
            number = b.call(take, [value, large])
            self._unless(b.icmp_signed("==", b.load(large), ir.Constant(I32, 0)))
            b.store(number, self._at(place, I64))

    def _take_array(self, kind: TensorType, value: ir.Value, memory: Array) -> None:
        b = self.b
        dtype = dtype_of(tensor(kind.shape, kind.dtype))
        self.keep.append(dtype)
        self._is(value, _TYPE, id(np.ndarray))
        self._is(value, _DTYPE, id(dtype))
        axes = self._word(value, _AXES, I32)
        self._unless(b.icmp_signed("==", axes, ir.Constant(I32, len(kind.shape))))
        flags = b.and_(self._word(value, _FLAGS, I32), ir.Constant(I32, _CONTIGUOUS))
        self._unless(b.icmp_signed("!=", flags, ir.Constant(I32, 0)))
        shape = self._word(value, _SHAPE, POINTER)
        for axis, size in enumerate(kind.shape):
            self._is(shape, 8 * axis, size)
        name = "llvm.memcpy.p0.p0.i64"
        form = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
        copy = self.module.globals.get(name) or ir.Function(self.module, form, name)
        size = ir.Constant(I64, bytes_of(tensor(kind.shape, kind.dtype)))
        target = b.inttoptr(ir.Constant(I64, memory.ctypes.data), POINTER)
        b.call(copy, [target, self._word(value, _DATA, POINTER), size, ir.Constant(ir.IntType(1), 0)])

    def _result(self) -> ir.Value:
        b, items = self.b, _items(self.kind)
        assert items is not None
        made = [self._given(i, t) for i, t in enumerate(items)]
        if not isinstance(self.kind, TupleType):
            return made[0]
        whole = b.call(self._c("PyTuple_New", POINTER, [I64]), [ir.Constant(I64, len(made))])
        put = self._c("PyTuple_SetItem", I32, [POINTER, I64, POINTER])
        for index, value in enumerate(made):
            b.call(put, [whole, ir.Constant(I64, index), value])
        return whole

    def _given(self, index: int, kind: Type) -> ir.Value:
        """A part of the result as an object."""
        b, place = self.b, self.results.address + 8 * index
        if isinstance(kind, TensorType):
            copy = self.results.small(index).copy
            self.keep.append(copy)
            return b.call(self._c("PyObject_CallNoArgs", POINTER, [POINTER]), [self._object(copy)])
        assert isinstance(kind, Scalar)
        if kind.kind == "float":
            return b.call(self._c("PyFloat_FromDouble", POINTER, [F64]), [b.load(self._at(place, F64))])
        number = b.load(self._at(place, I64))
        if kind.kind == "bool":
            number = b.and_(number, ir.Constant(I64, 1))
        name = "PyBool_FromLong" if kind.kind == "bool" else "PyLong_FromLongLong"
        return b.call(self._c(name, POINTER, [I64]), [number])
