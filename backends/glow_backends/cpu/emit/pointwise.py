"""Programs of element-wise steps, and their code on scalars or vectors in registers.

The same program runs as a loop of its own (kernels/pointwise/elementwise.py) and as the epilogue of another
kernel, on accumulators that never reached memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu.emit import vecmath
from glow_backends.cpu.emit.builder import CodeBuilder
from glow_backends.cpu.emit.pointwise_rules import (
    BOOLEAN,
    COMPARE,
    FLOAT,
    INTEGER,
    Param,
    bits_of,
    classify,
    compare,
    power_by,
)
from glow_backends.cpu.emit.tiny_floats import FORMATS
from glow_backends.cpu.emit.values import (
    NIBBLES,
    Vec,
    compute,
    constant,
    is_float,
    is_signed,
    lanes_of,
    round_to,
    round_to_odd,
    size,
    with_element,
    wrapped,
    zero,
)


@dataclass(frozen=True)
class Step:
    """One operation: its graph-op name, the values it reads, its parameters and result dtype."""

    op: str
    args: tuple[int, ...]
    params: tuple[Param, ...] = ()
    dtype: str = "f32"


@dataclass(frozen=True)
class Pointwise:
    """A straight-line program on elements.

    Values 0 .. inputs - 1 are the inputs (of `dtypes`, all f32 when empty); each step appends one.
    `outputs` names the values that are stored.
    """

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    dtypes: tuple[str, ...] = ()

    def dtype(self, value: int) -> str:
        """The dtype of a value of the program."""
        if value >= self.inputs:
            return self.steps[value - self.inputs].dtype
        return self.dtypes[value] if self.dtypes else "f32"

    def constant(self, value: int) -> float | None:
        """The number a value always holds, if it is a constant step."""
        if value < self.inputs:
            return None
        step = self.steps[value - self.inputs]
        number = step.params[0] if step.op == "constant" else None
        return number if isinstance(number, float | int) else None

    def part(self, inputs: Sequence[int], outputs: Sequence[int]) -> Pointwise:
        """The steps from some values of the program to others."""
        place, steps = {v: i for i, v in enumerate(inputs)}, list[Step]()
        needed = {v for v in outputs if v not in place}
        for value in reversed(range(self.inputs, self.inputs + len(self.steps))):
            if value in needed:
                needed.update(a for a in self.steps[value - self.inputs].args if a not in place)
        for value in sorted(needed):
            place[value] = len(inputs) + len(steps)
            step = self.steps[value - self.inputs]
            steps.append(replace(step, args=tuple(place[a] for a in step.args)))
        kinds = tuple(self.dtype(v) for v in inputs)
        return Pointwise(len(inputs), tuple(steps), tuple(place[o] for o in outputs), kinds)

    def split(self, once: Sequence[int]) -> tuple[Pointwise, Pointwise]:
        """The steps that read nothing but the inputs `once`, and the others.

        The others have what they read of the results of those as inputs behind their own.
        """
        known, rest = set(once), [*self.outputs]
        for value, step in enumerate(self.steps, self.inputs):
            varying = [a for a in step.args if self.constant(a) is None]
            if varying and known.issuperset(varying):
                known.add(value)
            else:
                rest += step.args
        read = [v for v in dict.fromkeys(rest) if v in known and v >= self.inputs]
        return self.part(once, read), self.part([*range(self.inputs), *read], self.outputs)

    def computed_in(self, dtype: str, taken: Sequence[int] = ()) -> Pointwise:
        """The same steps on floats of `dtype`; the constants `taken` become inputs behind the others."""
        inputs = self.inputs + len(taken)
        place = {v: v for v in range(self.inputs)} | {v: self.inputs + i for i, v in enumerate(taken)}
        steps: list[Step] = []
        for value, step in enumerate(self.steps, self.inputs):
            if value not in place:
                place[value] = inputs + len(steps)
                kind = step.dtype if step.dtype == "i1" else dtype
                steps.append(Step(step.op, tuple(place[a] for a in step.args), step.params, kind))
        return Pointwise(inputs, tuple(steps), tuple(place[o] for o in self.outputs), (dtype,) * inputs)


def emit_pointwise(k: CodeBuilder, program: Pointwise, values: Sequence[ir.Value]) -> list[ir.Value]:
    """The program's outputs for inputs in registers: scalars or equally long vectors.

    Values have compute types (see `values.compute`): f16 and bf16 travel as f32 rounded after each
    step. A step may be computed once and used often; unused steps cost nothing in LLVM.
    """
    assert len(values) == program.inputs
    emitter = _Emitter(k, program, list(values))
    for step in program.steps:
        emitter.step(step)
    return [emitter.values[i] for i in program.outputs]


def cast(k: CodeBuilder, x: ir.Value, source: str, target: str) -> ir.Value:
    """x converted as NumPy's astype does (floats truncate towards zero, integers wrap)."""
    if source == target:
        return x
    kind = with_element(x.type, compute(target))
    if target == "i1":
        if is_float(source):
            return k.b.fcmp_unordered("!=", x, zero(x.type))
        return k.b.icmp_unsigned("!=", x, zero(x.type))
    if is_float(source) and is_float(target):
        return _float_to_float(k, x, source, target)
    if is_float(source):
        return wrapped(k, _float_to_integer(k, x, target), target)
    if is_float(target):
        return _integer_to_float(k, x, source, target)
    bits, wanted = bits_of(x.type), bits_of(kind)
    if bits == wanted:
        return wrapped(k, x, target)
    if bits > wanted:
        return wrapped(k, k.b.trunc(x, kind), target)
    return k.b.sext(x, kind) if is_signed(source) else k.b.zext(x, kind)


def _saturated(k: CodeBuilder, x: ir.Value, source: str, step: Step) -> ir.Value:
    """The operand of a cast to a float of 8 bits: by default clipped to its range (see glow.cast)."""
    if not step.dtype.startswith("f8") or not is_float(source) or step.params == (False,):
        return x
    limit = FORMATS[step.dtype].maximum
    return Vec(k, x).at_most(limit).at_least(-limit).v


def _float_to_float(k: CodeBuilder, x: ir.Value, source: str, target: str) -> ir.Value:
    if target == "f64":
        return k.b.fpext(x, with_element(x.type, ir.DoubleType()))
    if source == "f64":
        if target == "f32":
            return k.b.fptrunc(x, with_element(x.type, ir.FloatType()))
        x = round_to_odd(k, x)
    return round_to(k, x, target)


def _float_to_integer(k: CodeBuilder, x: ir.Value, target: str) -> ir.Value:
    """Narrow types through i32, so that values outside wrap; the upper half of u32 and u64 less that half."""
    kind = with_element(x.type, compute(target))
    if target in ("u32", "u64"):
        half = Vec(k, x).of(2.0 ** (bits_of(kind) - 1))
        above = Vec(k, x).compare(">=", half)
        low = k.b.fptosi((Vec(k, x) - half).where(above, Vec(k, x)).v, kind)
        top = constant(kind, 1 << (bits_of(kind) - 1))
        return k.b.select(above, k.b.xor(low, top), low)
    wide = ir.IntType(64 if target == "i64" else 32)
    whole = k.b.fptosi(x, with_element(x.type, wide))
    return whole if whole.type == kind else k.b.trunc(whole, kind)


def _integer_to_float(k: CodeBuilder, x: ir.Value, source: str, target: str) -> ir.Value:
    exact = source in ("i1", "i8", "u8", "i16", "u16", *NIBBLES) or target in ("f32", "f64")
    middle = ir.DoubleType() if target == "f64" or not exact else ir.FloatType()
    kind = with_element(x.type, middle)
    real = k.b.sitofp(x, kind) if is_signed(source) else k.b.uitofp(x, kind)
    return real if target in ("f32", "f64") else round_to(k, real if exact else round_to_odd(k, real), target)


class _Emitter:
    """Emits the steps of one program, keeping the values so far."""

    def __init__(self, k: CodeBuilder, program: Pointwise, values: list[ir.Value]) -> None:
        self.k = k
        self.program = program
        self.values = values
        self.lanes = max((lanes_of(v.type) for v in values), default=1)

    def step(self, step: Step) -> None:
        """Append the value of one step."""
        if step.op == "constant":
            kind: ir.Type = compute(step.dtype)
            if self.lanes > 1:
                kind = ir.VectorType(kind, self.lanes)
            number = step.params[0]
            assert isinstance(number, float | int)
            value = round_to(self.k, constant(kind, number), step.dtype)
        else:
            value = self._compute(step)
        self.values.append(value)

    def _compute(self, step: Step) -> ir.Value:
        k, op = self.k, step.op
        sources = [self.program.dtype(i) for i in step.args]
        values = [self.values[i] for i in step.args]
        if op == "cast":
            return cast(k, _saturated(k, values[0], sources[0], step), sources[0], step.dtype)
        if op == "select":
            a, b = (cast(k, v, s, step.dtype) for v, s in zip(values[1:], sources[1:], strict=True))
            return k.b.select(values[0], a, b)
        if op in ("is_nan", "is_inf"):
            return classify(k, op, values[0], sources[0], step.params)
        if op.startswith("cmp_"):
            other = cast(k, values[1], sources[1], sources[0])
            return compare(k, COMPARE[op], values[0], other, sources[0])
        if op == "pow":
            return self._power(step, values, sources)
        values = [cast(k, v, s, step.dtype) for v, s in zip(values, sources, strict=True)]
        if is_float(step.dtype):
            rule = FLOAT[op]
            vecs = [Vec(k, v) for v in values]
            return round_to(k, rule(vecs, step.params).v, step.dtype)
        if step.dtype == "i1":
            return BOOLEAN[op](k, values)
        return wrapped(k, INTEGER[op](k, values, is_signed(step.dtype), step.params), step.dtype)

    def _power(self, step: Step, values: list[ir.Value], sources: list[str]) -> ir.Value:
        """x^y in the result's dtype, or in a float dtype when only the exponent is one."""
        k = self.k
        exponent = self.program.constant(step.args[1])
        working = step.dtype
        if not is_float(working) and is_float(sources[1]):
            working = "f64" if exponent is None or exponent != int(exponent) else working
        elif not is_float(working) and size(sources[1]) > size(working):
            working = sources[1]
        x, y = (cast(k, v, s, working) for v, s in zip(values, sources, strict=True))
        if is_float(working):
            value = round_to(k, power_by(Vec(k, x), Vec(k, y), exponent).v, working)
        elif exponent is not None and 1 <= exponent <= 3:
            value = x
            for _ in range(int(exponent) - 1):
                value = k.b.mul(value, x)
        else:
            negative = None
            if is_signed(sources[1]):
                negative = k.b.icmp_signed("<", values[1], zero(values[1].type))
            value = vecmath.integer_power(k, x, y, negative)
        return cast(k, value, working, step.dtype)


OPS: frozenset[str] = frozenset(
    {*FLOAT, *INTEGER, *BOOLEAN, *COMPARE, "pow", "select", "is_nan", "is_inf", "cast", "constant"}
)
"""Every step name there is a rule for."""


def supports(op: str, dtype: str) -> bool:
    """Whether a step `op` with a result of `dtype` can be emitted."""
    if op in ("cast", "select", "constant") or (op == "pow" and dtype != "i1"):
        return True
    if op in COMPARE or op in ("is_nan", "is_inf"):
        return dtype == "i1"
    table = FLOAT if is_float(dtype) else BOOLEAN if dtype == "i1" else INTEGER
    return op in table
