"""Functions at run time: one program, an instance for each set of argument types."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, get_backend
from glow_backends.interpreter.functions import Machine
from glow_dialects.core.errors import BindingError, UnknownNumberError, UnsupportedError, internal
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.plain_arrays import check_plain
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.fn.domain import (
    BOOL,
    FLOAT,
    INT,
    NoneType,
    NotNative,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
)
from glow_dialects.fn.python_values import Closure
from glow_dialects.fn.record import Record, items_of, names_of, rebuilt
from glow_passes.failure import BrokenPassError
from glow_passes.fn.functions import Functions
from glow_passes.fn.inference import infer
from glow_passes.fn.optimize import optimize_functions
from glow_passes.fn.specialize import Instance, Specializer
from glow_passes.fn.unrolling import deep
from glow_runtime.lowering import lower

if TYPE_CHECKING:
    from glow_backends.cpu.functions.native import NativeFunction

Value = Any


def type_of(value: Value, exact: bool = False) -> Type:
    """The type of an argument; `exact`: ints are known when compiling."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return Scalar("int", value) if exact and abs(value) < MOST else INT
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, tuple):
        items = tuple(type_of(v, exact) for v in value)
        return TupleType(items, value.names) if isinstance(value, Record) else TupleType(items)
    if isinstance(value, np.ndarray):
        return TensorType(tuple(int(s) for s in value.shape), value.dtype.name)
    return Text(value) if isinstance(value, str) else NoneType()


def checked(value: Any, index: int | str) -> Value:
    """An argument as a value of the program; BindingError where it cannot be one."""
    if isinstance(value, np.generic):
        return value.item() if value.dtype.name in PYTHONS else np.asarray(value)
    if isinstance(value, bool | int | float | np.ndarray):
        if isinstance(value, np.ndarray):
            check_plain(f"argument {index}", value)
            if value.dtype.kind not in "biuf":
                raise BindingError(f"argument {index}: arrays of {value.dtype} cannot be used; use numbers")
        return value
    names = names_of(value)
    if names is not None:
        return Record.of(names, [checked(v, index) for v in items_of(value)])
    if isinstance(value, tuple | list):
        return tuple(checked(v, index) for v in value)
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__array__"):
        return np.asarray(value)
    kind = type(value).__name__
    raise BindingError(f"argument {index} is a {kind}; use numbers, arrays and tuples of them")


#: Scalars of NumPy that are Python's numbers; narrow ones keep their type, as arrays without axes.
PYTHONS = ("bool", "int64", "float64")
#: Programs that one function has for ints that decide shapes.
KEPT = 64
#: Ints below this size may be known when compiling.
MOST = 1 << 31


@dataclass
class Specialized:
    """A program for one set of argument types."""

    types: Specializer | None
    root: Instance | None
    native: NativeFunction | None
    reason: str = ""


class FunctionProgram:
    """A module of functions, closed, with the machine that runs it.

    Functions are native on the CPU backend, with its options but for threads: one thread runs a function.
    On other backends they are the interpreter's.
    """

    def __init__(self, module: ModuleOp, name: str, backend: Backend | str, unroll: int = 0) -> None:
        self.source = module
        self.name = name
        self.backend = get_backend(backend) if isinstance(backend, str) else backend
        self.unroll = unroll
        #: Held while programs are specialised, which derives functions and adds them to the table.
        self.lock = ForkLock()
        self.seconds: dict[str, float] = {}
        start = time.perf_counter()
        self.module = module.clone()
        optimize_functions(self.module, name, unroll)
        self.functions = Functions(self.module)
        self.machine = Machine(self.module, self.functions)
        self.instances: dict[tuple[Type, ...], Specialized] = {}
        #: Types of arguments whose ints decide shapes: there is a program for each value of the ints.
        self.exact: set[tuple[Type, ...]] = set()
        #: Those programs, the one that was used last at the end.
        self._of_ints: OrderedDict[tuple[Type, ...], None] = OrderedDict()
        self.seconds["optimize"] = time.perf_counter() - start

    def run(self, arguments: Sequence[Value]) -> Value:
        """The value for some arguments."""
        instance = self.specialize(tuple(map(type_of, arguments)), arguments)
        if instance.native is not None:
            try:
                return instance.native(arguments)
            except NotNative as reason:
                instance.reason = str(reason)
        result = self.machine.run(self.name, arguments)
        return _public(result, self.name)

    def native(self, arguments: Sequence[Value]) -> Callable[[Sequence[Any]], Any] | None:
        """The machine code for arguments of the types of these, where there is some."""
        instance = self.instances.get(tuple(map(type_of, arguments)))  # of the types alone
        return None if instance is None or instance.reason else instance.native

    def exactly(self, types: tuple[Type, ...], arguments: Sequence[Value]) -> tuple[Type, ...]:
        """The types that a program for arguments of certain types is made for."""
        return tuple(type_of(v, exact=True) for v in arguments) if types in self.exact else types

    def specialize(self, types: tuple[Type, ...], arguments: Sequence[Value] = ()) -> Specialized:
        """The program for argument types, or for ints of `arguments` as well where shapes depend on them.

        Of the latter the KEPT that were used last are kept. Errors of types are raised here.
        """
        exact = self.exactly(types, arguments)
        instance = self.instances.get(exact)
        if exact != types:
            self._of_ints[exact] = None
            self._of_ints.move_to_end(exact)
            if len(self._of_ints) > KEPT:
                self.instances.pop(self._of_ints.popitem(last=False)[0], None)
        if instance is None:
            try:
                with quiet_gc(), self.lock:
                    instance = self.instances[exact] = self._specialize(exact)
            except UnknownNumberError:
                if exact != types or tuple(type_of(v, exact=True) for v in arguments) in ((), types):
                    raise
                self.exact.add(types)
                return self.specialize(types, arguments)
        return instance

    def _specialize(self, types: tuple[Type, ...]) -> Specialized:
        """Loops as loops first; forward mode where the types of the program in reverse mode have no end."""
        first = self._compiled(types)
        ways = [{"straight": False}]
        if self.functions.differentiates(self.name):
            ways.append({"ahead_only": True})
        for way in ways:
            if first.reason in ("", ASKED):
                break
            other = self._compiled(types, **way)
            first = first if other.reason else other
        return first

    def _compiled(
        self, types: tuple[Type, ...], ahead_only: bool = False, straight: bool = True
    ) -> Specialized:
        start = time.perf_counter()
        try:
            inferred, root = infer(self.functions, self.name, types, ahead_only, straight)
        except NotNative as reason:
            return Specialized(None, None, None, str(reason))
        except _OUR_FAULT as error:
            return Specialized(None, None, None, internal(error, "specialisation"))
        finally:
            self.seconds["infer types"] = time.perf_counter() - start
        if self.backend.name != "cpu":
            return Specialized(inferred, root, None, ASKED)
        try:
            native = self.machine_code(inferred, root)
        except NotNative as reason:
            return Specialized(inferred, root, None, str(reason))
        except _OUR_FAULT as error:
            return Specialized(inferred, root, None, internal(error, "specialisation"))
        self.seconds.update(native.seconds)
        return Specialized(inferred, root, native)

    def machine_code(self, inferred: Specializer, root: Instance, counting: bool = False) -> NativeFunction:
        """Code of an instance for the CPU; `counting`: with the runs of each instance. Raises NotNative."""
        from glow_backends.cpu.backend import CpuBackend
        from glow_backends.cpu.functions.native import NativeFunction

        assert isinstance(self.backend, CpuBackend)
        backend = self.backend.of_one_thread()
        with deep():
            return NativeFunction(
                inferred, root, self.name, backend.target, lambda m: lower(m, backend), counting
            )

    def report(self) -> dict[str, Any]:
        """Seconds of each phase, sizes, and what runs where, with the reason where it is not native.

        `row by row` names the maps of which mapped values decide what is computed, `copies` the stores and
        calls that copy an array since another name of it is read later.
        """
        table = self.functions.table
        rows = sorted({place.split("#")[0] for place in self.functions.by_rows})
        natives = [s.native for s in self.instances.values() if s.native is not None]
        copies = sorted({copy for native in natives for copy in native.copies})
        return (
            ({"row by row": rows} if rows else {})
            | ({"copies": copies} if copies else {})
            | {
                "backend": self.backend.name,
                "seconds": dict(self.seconds),
                "functions": len(table),
                "operations": sum(len(f.block.ops) for f in table.values()),
                "instances": [
                    {
                        "runs on": "cpu" if s.native is not None and not s.reason else "interpreter",
                        "because": s.reason,
                    }
                    for s in self.instances.values()
                ],
            }
        )


#: Why a program runs in the interpreter where nothing is wrong with it.
ASKED = "the interpreter was asked for"
#: Mistakes of specialisation and code generation: the interpreter still gives the right value, and the
#: report names the mistake.
_OUR_FAULT = (AssertionError, KeyError, IndexError, AttributeError, ValueError, RuntimeError, BrokenPassError)


def _public(value: Value, name: str) -> Value:
    if isinstance(value, Closure):
        raise UnsupportedError(f"{name} returns a function; call it inside and return numbers or arrays")
    if isinstance(value, tuple):
        items = [_public(v, name) for v in value]
        return rebuilt(value.names, items) if isinstance(value, Record) else tuple(items)
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value
