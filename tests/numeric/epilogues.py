"""Epilogues for tests of kernels."""

from __future__ import annotations

from glow_backends.cpu.emit.epilogue import BINARY
from glow_backends.cpu.emit.pointwise import Pointwise, Step


def chain(*steps: tuple[str, tuple[float, ...]] | str) -> Pointwise:
    """Operators, each on the result of the one before; a binary one with a number or the next extra."""
    pairs = [(s, ()) if isinstance(s, str) else s for s in steps]
    inputs = 1 + sum(name in BINARY and not params for name, params in pairs)
    program, current, extra = list[Step](), 0, 0
    for name, params in pairs:
        args: tuple[int, ...] = (current,)
        if name in BINARY and params:
            program.append(Step("constant", (), params))
            args, params = (current, inputs + len(program) - 1), ()
        elif name in BINARY:
            extra += 1
            args = (current, extra)
        program.append(Step(name, args, params))
        current = inputs + len(program) - 1
    return Pointwise(inputs, tuple(program), (current,), ("f32",) * inputs)


def residual_clip(low: float, high: float) -> Pointwise:
    """Add the extra operand, then clamp to [low, high]."""
    return chain("add", ("clip", (low, high)))
