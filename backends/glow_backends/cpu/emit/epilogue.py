"""The epilogue of a convolution or GEMM: operations on its sums while they are in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.pointwise import Pointwise, emit_pointwise

BINARY = ("add", "sub", "mul", "div", "max", "min")
"""Operators that join an epilogue with what stands on their right: one more operand, or a number."""
_SHORT = frozenset(
    {
        *BINARY, "neg", "abs", "relu", "leaky_relu", "clip", "hard_sigmoid", "hard_swish", "sqrt",
        "constant", "cmp_gt", "select",
    }
)  # fmt: skip
"""Steps of a few instructions."""


@dataclass(frozen=True)
class Epilogue:
    """result = program(scale * sum + bias, extras).

    `bias`: an operand with one value an output channel. The inputs of `program` behind the first are
    extra operands of the result's shape and layout, such as a residual. Operand order: bias, then these,
    after the weights. The program has floats of one type; it runs in f64 where sums do, else in f32.
    `inplace`: an extra operand lies where the result goes, so that no element may be computed twice.
    """

    bias: bool = False
    scale: float | None = None
    program: Pointwise = Pointwise(1, (), (0,))
    inplace: bool = False

    @property
    def long(self) -> bool:
        """Whether the steps are so many instructions that their code is kept short by a loop."""
        return any(step.op not in _SHORT for step in self.program.steps)

    @property
    def extras(self) -> int:
        """How many operands the program reads."""
        return self.program.inputs - 1

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
        if not self.program.steps:
            return value
        dtype = "f64" if str(scalar) == "double" else "f32"
        # Kernels that differ in a factor or summand only are one.
        free = k.sized and dtype == "f32" and lanes == k.target.lanes
        constants = self._numbers() if free else {}
        numbers = [k.number(n, ("epilogue", i)) for i, n in enumerate(constants.values())]
        program = self.program.computed_in(dtype, list(constants))
        return emit_pointwise(k, program, [value, *(load(e) for e in extras), *numbers])[0]

    def _numbers(self) -> dict[int, float]:
        """The constants that are right-hand sides of binary steps and nothing else, by their places."""
        steps = self.program.steps
        sides = {s.args[1] for s in steps if s.op in BINARY}
        other = {a for s in steps for i, a in enumerate(s.args) if s.op not in BINARY or i == 0}
        constants = {v: self.program.constant(v) for v in sorted(sides - other)}
        return {v: float(n) for v, n in constants.items() if n is not None}
