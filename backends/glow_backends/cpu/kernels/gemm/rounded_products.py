"""Which products of float32 are computed with rounded factors, and how they are described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.fused_body import operator_of_step
from glow_backends.cpu.kernels.gemm.contractions import folded, overlaps, schedule_of
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec
from glow_backends.nests.bodies import Body, element
from glow_backends.nests.finish import Finish
from glow_backends.nests.products import Product


@dataclass(frozen=True)
class Program:
    """The steps of a fused body, as operators in the finish of a nest."""

    program: Pointwise

    @property
    def extras(self) -> int:
        """How many views they read."""
        return self.program.inputs - 1

    def write(self, t: Body, value: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        """Append them to a body."""
        known = [value, *extras]
        for step in self.program.steps:
            if step.op == "constant":
                known.append(t.number(cast(float, step.params[0]), step.dtype))
            else:
                made = operator_of_step(step, [known[a] for a in step.args], element(step.dtype))
                t.block.add_op(made)
                known.append(made.results[0])
        return known[self.program.outputs[0]]


def rounded_product(spec: GemmSpec | None, context: CallContext) -> Product | None:
    """The product of a spec with factors rounded as the precision says; None where it stays float32."""
    target = context.target
    if spec is None or target.precision == "float32" or spec.some_rows or spec.accumulate or spec.trans_a:
        return None
    if (spec.trans_b and not spec.packed_b) or (target.precision == "fast" and not target.has_amx):
        return None
    e = spec.epilogue
    program = e.program.computed_in("f32")
    steps = Program(program) if program.steps or program.inputs > 1 else None
    finish = Finish(bias=e.bias, scale=e.scale, steps=steps)
    sizes = spec.m, spec.n, spec.k
    p = Product(*sizes, "f32", "f32", "f32", spec.a_batch, spec.b_batch, packed=spec.packed_b, finish=finish)
    p = folded(p)
    s = schedule_of(p, target)
    if s.unit.b != "bf16" or (e.inplace and overlaps(p, s)):
        return None
    return p
