"""What a convolution or GEMM does to its sums while they are still in registers."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.builder import KernelBuilder


@dataclass(frozen=True)
class Epilogue:
    """result = clamp(scale * sum + bias + residual, low, high).

    `bias`: an operand with one value an output channel. `residual`: an operand of the result's
    shape and layout. `low`, `high`: bounds (relu is low = 0); None leaves that side open.
    NaN stays NaN. Operand order: bias, then residual, after the weights.
    """

    bias: bool = False
    residual: bool = False
    low: float | None = None
    high: float | None = None
    scale: float | None = None

    @property
    def operands(self) -> int:
        """How many extra operands the kernel takes."""
        return int(self.bias) + int(self.residual)

    def scaled(self, k: KernelBuilder, value: ir.Value) -> ir.Value:
        """scale * value."""
        if self.scale is None:
            return value
        kind = value.type
        lanes = kind.count if isinstance(kind, ir.VectorType) else 1
        scalar = kind.element if isinstance(kind, ir.VectorType) else kind
        return k.b.fmul(value, k.splat(float(self.scale), lanes, scalar))

    def clamp(self, k: KernelBuilder, value: ir.Value) -> ir.Value:
        """value within [low, high]; NaN passes through."""
        kind = value.type
        lanes = kind.count if isinstance(kind, ir.VectorType) else 1
        scalar = kind.element if isinstance(kind, ir.VectorType) else kind
        for bound, beyond in ((self.low, "<"), (self.high, ">")):
            if bound is not None:
                limit = k.splat(float(bound), lanes, scalar)
                value = k.b.select(k.b.fcmp_ordered(beyond, value, limit), limit, value)
        return value
