"""The interpreter of `glow_fn`: an explicit stack of frames, tail calls in constant space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from glow_backends.interpreter.primitives import constant_value, evaluated, select
from glow_dialects.core.errors import GlowError
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    GetOp,
    GradOp,
    JvpOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchLayerOp,
    SwitchOp,
    TupleOp,
    ValueAndGradOp,
)
from glow_dialects.fn.evaluated import function_of
from glow_dialects.fn.maker import modes_of
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.python_values import ZERO, Closure
from glow_dialects.fn.record import Record
from glow_dialects.fn.tensors import TensorsOp
from glow_passes.fn.functions import Functions

#: Frames that may wait at once, and calls in tail position that one frame may make of counted functions.
MAX_DEPTH = 250_000
MAX_TAIL_CALLS = 1_000_000

CALL, TAIL, RETURN = "call", "tail", "return"


class RecursionLimitError(GlowError):
    """A function called itself more often than the limit; most likely it never stops."""

    def __init__(self, name: str, where: str, limit: int) -> None:
        base = name.split(".")[0]
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{base}: recursion is deeper than {limit:,} calls; is a base case missing?")


@dataclass
class Code:
    """A function as instructions on numbered registers; `registers` holds its constants."""

    name: str
    arity: int
    registers: list[Any]
    steps: list[tuple[Any, int, tuple[int, ...]]]
    counted: bool


class Machine:
    """Runs the functions of a closed module."""

    def __init__(self, module: ModuleOp, functions: Functions | None = None) -> None:
        self.functions = functions or Functions(module)
        self.codes: dict[str, Code] = {}
        #: Runs of each function so far, where they are counted.
        self.counts: dict[str, int] | None = None

    def code(self, name: str) -> Code:
        """The instructions of a function, made when it is first called."""
        code = self.codes.get(name)
        if code is None:
            code = self.codes[name] = self._compile(name)
        return code

    def _compile(self, name: str) -> Code:
        source = self.functions.table[name]
        number: dict[SSAValue, int] = {a: i for i, a in enumerate(source.block.args)}
        registers: list[Any] = [None] * len(number)
        steps: list[tuple[Any, int, tuple[int, ...]]] = []
        ops = list(source.block.ops)
        for index, op in enumerate(ops):
            operands = tuple(number[v] for v in op.operands)
            if isinstance(op, ReturnOp):
                steps.append((RETURN, -1, operands))
                continue
            number[op.results[0]] = len(registers)
            registers.append(None)
            target = len(registers) - 1
            if isinstance(op, ConstantOp):
                registers[target] = constant_value(op)
            elif isinstance(op, RefOp):
                registers[target] = Closure(op.target, ())
            elif isinstance(op, CallOp):
                after = ops[index + 1]
                tail = isinstance(after, ReturnOp) and after.value is op.result
                steps.append((TAIL if tail else CALL, target, operands))
            else:
                steps.append((self._meaning(op), target, operands))
        counted = "counted" in source.attributes
        return Code(name, len(source.block.args), registers, steps, counted)

    def _meaning(self, op: Operation) -> Callable[..., Any]:
        match op:
            case PartialOp():
                return lambda f, *x: Closure(f.name, f.captured + x)
            case SwitchOp():
                return select
            case SwitchLayerOp():
                return lambda i, *x: x[i]
            case TupleOp():
                names = op.attributes.get("names")
                if isinstance(names, ArrayAttr):
                    known = tuple(n.data for n in names if isinstance(n, StringAttr))
                    return lambda *x: Record.of(known, x)
                return lambda *x: x
            case GetOp():
                index = op.index.value.data
                return lambda t: t[index]
            case PrimOp():
                return function_of(op)
            case OverOp():
                return lambda t: Closure(self.functions.over(op, len(t)), ())
            case TensorsOp():
                return lambda *x: evaluated(op, x)
            case GradOp() | ValueAndGradOp() | JvpOp():
                return lambda f: self._gradient(op, f)
            case _:
                raise AssertionError(op.name)

    def _gradient(self, op: GradOp | ValueAndGradOp | JvpOp, function: Closure) -> Closure:
        arity = self.functions.arity(function.name) - len(function.captured)
        before = modes_of(op)
        modes = "jr" if self.functions.differentiates(function.name) and not before.startswith("r") else "r"
        modes = "j" if isinstance(op, JvpOp) else modes
        name = self.functions.gradient_of(op, arity, modes)
        if before.startswith("r") and not isinstance(op, JvpOp):
            return Closure(name, self._second(function, before[1:]))
        tangents = _no_tangents(before)
        forms = [v for mode in modes for v in (self._derived(function, before, mode), *tangents)]
        return Closure(name, tuple(forms))

    def _second(self, function: Any, before: str) -> tuple[Any, ...]:
        """The captured functions of a gradient's reverse form: f.fwd.jvp and f.fwd, from f.fwd."""
        nothing = _no_tangents(before)
        return self._derived(function, before, "j"), *nothing, function, *nothing

    def _derived(self, value: Any, before: str, mode: str) -> Any:
        """A value with its functions in their form for a mode; tangents, in forward mode, are zero."""
        if isinstance(value, Closure):
            size = len(_no_tangents(before)) + 1
            second = self.functions.second(value.name, before) if mode == "r" else None
            if second is not None:
                return Closure(second, self._second(value.captured[-size], before))
            captured: list[Any] = []
            for start in range(0, len(value.captured), size):
                captured += [self._derived(v, before, mode) for v in value.captured[start : start + size]]
                captured += [ZERO] * (size if mode == "j" else 0)
            return Closure(self.functions.derived(value.name, before, mode), tuple(captured))
        if isinstance(value, Record):
            return Record.of(value.names, [self._derived(v, before, mode) for v in value])
        return tuple(self._derived(v, before, mode) for v in value) if type(value) is tuple else value

    def run(self, name: str, arguments: Sequence[Any]) -> Any:
        """The value of a function for Python numbers, arrays, tuples and closures."""
        code = self.code(name)
        if self.counts is not None:
            self.counts[name] = self.counts.get(name, 0) + 1
        registers = [*arguments, *code.registers[code.arity :]]
        steps, pc, tails = code.steps, 0, 0
        stack: list[tuple[list[Any], list[Any], int, int, int]] = []
        while True:
            what, target, operands = steps[pc]
            pc += 1
            if what is CALL or what is TAIL:
                function = registers[operands[0]]
                code = self.codes.get(function.name) or self.code(function.name)
                if what is CALL:
                    stack.append((steps, registers, pc, target, tails))
                    tails = 0
                    if len(stack) > MAX_DEPTH:
                        raise RecursionLimitError(
                            function.name, self.functions.place(function.name), MAX_DEPTH
                        )
                elif code.counted:
                    tails += 1
                    if tails > MAX_TAIL_CALLS:
                        where = self.functions.place(function.name)
                        raise RecursionLimitError(function.name, where, MAX_TAIL_CALLS)
                passed = [*function.captured, *[registers[i] for i in operands[1:]]]
                if len(passed) != code.arity:
                    raise GlowError(_wrong_count(code, len(function.captured), len(operands) - 1))
                if self.counts is not None:
                    self.counts[code.name] = self.counts.get(code.name, 0) + 1
                registers = passed + code.registers[code.arity :]
                steps, pc = code.steps, 0
            elif what is RETURN:
                value = registers[operands[0]]
                if not stack:
                    return value
                steps, registers, pc, target, tails = stack.pop()
                registers[target] = value
            else:
                registers[target] = what(*[registers[i] for i in operands])


def _no_tangents(before: str) -> list[Any]:
    """The tangents that follow a function in a function derived in this way: nothing."""
    return [ZERO] * (2 ** before.count("j") - 1)


def _wrong_count(code: Code, captured: int, count: int) -> str:
    wanted = code.arity - captured
    return f"{code.name.split('.')[0]}: {count} arguments for {wanted} parameter{'s' * (wanted != 1)}"
