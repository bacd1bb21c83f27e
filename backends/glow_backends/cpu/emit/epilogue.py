"""The epilogue of a convolution or GEMM: operations on its sums while they are in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.pointwise import Pointwise, Step, emit_pointwise
from glow_backends.cpu.emit.pointwise_rules import Param

GATE = "gate"
"""The step `gate`: the value where its operand is positive, else 0 (the gradient of a relu)."""
BINARY = ("add", "sub", "mul", "div", "max", "min", GATE)
"""Steps that read one more operand, as their right-hand side."""
_SHORT = (*BINARY, "neg", "abs", "relu", "leaky_relu", "clip", "hard_sigmoid", "hard_swish", "sqrt")
"""Steps of a few instructions."""


@dataclass(frozen=True)
class EpilogueStep:
    """An element-wise operator by its graph name, with its parameters.

    A binary one with a parameter, such as `mul(0.5)`, has that number as its right-hand side.
    """

    op: str
    params: tuple[Param, ...] = ()

    @property
    def binary(self) -> bool:
        """Whether it reads an extra operand."""
        return self.op in BINARY and not self.params


@dataclass(frozen=True)
class Epilogue:
    """result = steps(scale * sum + bias).

    `bias`: an operand with one value an output channel. Each binary step (`BINARY`) takes one more
    operand of the result's shape and layout as its right-hand side, such as a residual. Operand
    order: bias, then these extras in the order of the steps, after the weights. `inplace`: one of
    them lies where the result goes, so that no element may be computed twice.
    """

    bias: bool = False
    scale: float | None = None
    steps: tuple[EpilogueStep, ...] = ()
    inplace: bool = False

    @property
    def long(self) -> bool:
        """Whether the steps are so many instructions that their code is kept short by a loop."""
        return any(step.op not in _SHORT for step in self.steps)

    @property
    def extras(self) -> int:
        """How many operands the steps read."""
        return sum(step.binary for step in self.steps)

    @property
    def operands(self) -> int:
        """How many operands the kernel takes after its weights."""
        return int(self.bias) + self.extras

    def apply(
        self,
        k: KernelBuilder,
        value: ir.Value,
        bias: ir.Value | None,
        extras: Sequence[ir.Value],
        load: Callable[[ir.Value], ir.Value],
    ) -> ir.Value:
        """The result for a sum; `load` reads the element's place of an extra operand."""
        vector = isinstance(value.type, ir.VectorType)
        lanes = value.type.count if vector else 1
        scalar = value.type.element if vector else value.type
        if self.scale is not None:
            value = k.b.fmul(value, k.splat(float(self.scale), lanes, scalar))
        if bias is not None:
            value = k.b.fadd(value, bias)
        if not self.steps:
            return value
        dtype = "f64" if str(scalar) == "double" else "f32"
        # Kernels that differ in a factor or summand only are one.
        free = k.sized and dtype == "f32" and lanes == k.target.lanes
        numbers = [k.number(n, ("epilogue", i)) for i, n in enumerate(self.numbers)] if free else []
        program = self._program(dtype, len(numbers))
        return emit_pointwise(k, program, [value, *(load(e) for e in extras), *numbers])[0]

    @property
    def numbers(self) -> list[float]:
        """The right-hand sides of binary steps that are one number."""
        return [
            float(cast(float, step.params[0])) for step in self.steps if step.op in BINARY and step.params
        ]

    def _program(self, dtype: str, numbers: int) -> Pointwise:
        inputs = 1 + self.extras + numbers
        steps: list[Step] = []
        current, extra, number = 0, 1, 1 + self.extras
        for step in self.steps:
            args, params = (current,), step.params
            if step.op == GATE:
                zero = inputs + len(steps)
                steps.append(Step("constant", (), (0.0,), dtype))
                steps.append(Step("cmp_gt", (extra, zero), (), "i1"))
                steps.append(Step("select", (zero + 1, current, zero), (), dtype))
                current, extra = zero + 2, extra + 1
                continue
            if step.binary:
                args, extra = (current, extra), extra + 1
            elif step.op in BINARY and numbers:
                args, number, params = (current, number), number + 1, ()
            elif step.op in BINARY:
                steps.append(Step("constant", (), step.params, dtype))
                args, params = (current, inputs + len(steps) - 1), ()
            steps.append(Step(step.op, args, params, dtype))
            current = inputs + len(steps) - 1
        return Pointwise(inputs, tuple(steps), (current,), (dtype,) * inputs)


def residual_clip(low: float | None = None, high: float | None = None) -> tuple[EpilogueStep, ...]:
    """The steps of a residual block: add the extra operand, then clamp to [low, high]."""
    if low is None and high is None:
        return (EpilogueStep("add"),)
    bounds = (float("-inf") if low is None else low, float("inf") if high is None else high)
    return EpilogueStep("add"), EpilogueStep("clip", bounds)
