"""A block of samples of a recurrent network in training: spec, plan, and parts of both directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.emit import activations, common, hyperbolic, values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.recurrent_cells import GATES, limits


@dataclass(frozen=True)
class RecurrentTrainSpec:
    """Steps T, samples N, hidden H, gates G, numbers saved S (see the card `recurrent_train`).

    Operands forward: result [T, N, H], saved [T, N, S H], for LSTM cells [T, N, H], projected
    [T, N, G H], weights [H, G H], initial state and (LSTM) cell [N, H], `bias` [H], `lengths` [N],
    `peepholes` [3 H]; backward:
    projected gradient [T, N, G H], state gradient [N, H], for LSTM cell gradient [N, H], for GRU the
    last gate's recurrent gradient [T, N, H], gradient [T, N, H], weights [G H, H], states [T, N, H],
    saved, initial state, initial cell, `cells_grad` [T, N, H], `lengths`, `peepholes`; then scratch.
    With `reset_first` a GRU's reset gate is within the product of its last gate.
    """

    kind: str
    steps: int
    samples: int
    hidden: int
    reverse: bool
    activation: str = "tanh"
    bias: bool = False
    cells_grad: bool = False
    backward: bool = False
    dtype: str = "f32"
    clip: float = 0.0
    input_forget: bool = False
    reset_first: bool = False
    lengths: bool = False
    peepholes: bool = False

    @property
    def gates(self) -> int:
        """Outputs of the cell's products a hidden element."""
        return GATES[self.kind]

    @property
    def outputs(self) -> int:
        """Buffers that the kernel writes."""
        more = self.kind == "lstm" or (self.backward and self.kind == "gru" and not self.reset_first)
        return 2 + more

    @property
    def inputs(self) -> int:
        """Buffers that the kernel reads."""
        lstm, optional = self.kind == "lstm", self.lengths + self.peepholes
        return (5 + lstm + self.cells_grad if self.backward else 3 + lstm + self.bias) + optional


@dataclass(frozen=True)
class Plan:
    """Samples of a block, vectors of a register tile, lanes; elements of a row of states and of gates."""

    rows: int
    vectors: int
    lanes: int
    state: int
    wide: int

    @property
    def elements(self) -> int:
        """Elements of a worker's scratch: products, states or gradients, cells, one more."""
        return self.rows * (self.wide + 3 * self.state)


def plan_of(spec: RecurrentTrainSpec, target: CpuTarget) -> Plan:
    """The plan of a spec."""
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    tall = (8, 6, 4, 3, 2, 1) if target.registers >= 32 else (4, 3, 2, 1)
    rows = next(r for r in tall if spec.samples % r == 0)
    if rows < 4 and spec.samples > 4:
        rows = 4
    vectors = max(1, (target.registers - 4) // (rows + 1))
    state = -(-spec.hidden // lanes) * lanes
    return Plan(rows, vectors, lanes, state, spec.gates * spec.hidden + lanes)


class Block:
    """A block of samples through all steps."""

    def __init__(self, k: KernelBuilder, spec: RecurrentTrainSpec, plan: Plan, first: Index) -> None:
        self.k, self.spec, self.plan, self.first = k, spec, plan, first
        self.kind = values.compute(spec.dtype)
        self.operands = list(k.operands)
        most = plan_of(spec, k.target)
        work = k.gep(self.operands.pop(), k.mul(k.worker, most.elements), self.kind)
        self.wide = work
        self.one, self.two, self.three = (
            k.gep(work, most.rows * (most.wide + i * most.state), self.kind) for i in range(3)
        )

    def take(self, there: bool = True) -> ir.Value:
        """The next operand; one that stands for nothing where it is not `there`."""
        return self.operands.pop(0) if there else self.wide

    # Memory.
    def load(self, pointer: ir.Value, place: Index, lanes: int, active: int) -> Vec:
        """The active ones of `lanes` elements at `place`."""
        return Vec(self.k, values.load(self.k, pointer, place, self.spec.dtype, lanes, active))

    def store(self, value: Vec, pointer: ir.Value, place: Index, active: int) -> None:
        """Write the first `active` elements."""
        values.store(self.k, value.v, pointer, place, self.spec.dtype, active)

    def sample(self, step: Index, row: Index, numbers: int) -> Index:
        """Offset of a sample's `numbers` H elements at a step."""
        k, spec = self.k, self.spec
        place = k.add(k.mul(step, spec.samples), k.add(self.first, row))
        return k.mul(place, numbers * spec.hidden)

    def rows(self, body: Callable[[Index, Index, int, int], None]) -> None:
        """Call body(row, position, lanes, active lanes) over the block's states."""
        k, plan = self.k, self.plan
        with k.loop(0, plan.rows) if plan.rows > 1 else nullcontext(0) as row:
            for h, lanes, active in common.strips(k, 0, self.spec.hidden, plan.lanes, 1):
                body(row, h, lanes, active)

    def fill(self, goal: ir.Value, source: ir.Value | None) -> None:
        """States of the scratch from [N, H], or zeros."""

        def body(row: Index, h: Index, lanes: int, active: int) -> None:
            kind = ir.VectorType(self.kind, lanes) if lanes > 1 else self.kind
            value = Vec(self.k, values.zero(kind))
            if source is not None:
                value = self.load(source, self.k.add(self.sample(0, row, 1), h), lanes, active)
            self.store(value, goal, self.at(row, h), lanes)

        self.rows(body)

    def ends(self) -> None:
        """Take the operands that both directions of the gradient have last."""
        self.lengths, self.peepholes = self.take(self.spec.lengths), self.take(self.spec.peepholes)

    def running(self, step: Index, row: Index) -> ir.Value | None:
        """Whether the sample has this step; None where all have."""
        if not self.spec.lengths:
            return None
        k = self.k
        length = k.b.sext(k.load(self.lengths, k.add(self.first, row), I32), I64)
        return k.b.icmp_signed(">", length, k.i(step) if isinstance(step, int) else step)

    def hole(self, x: Vec, hole: int, of: Vec, h: Index, lanes: int, active: int) -> Vec:
        """x with a look at the cell."""
        if not self.spec.peepholes:
            return x
        place = self.k.add(h, hole * self.spec.hidden)
        return self.load(self.peepholes, place, lanes, active).fma(of, x)

    def apply(self, name: str, x: Vec) -> Vec:
        """An activation, its input clipped where asked for."""
        if self.spec.clip:
            x = x.at_least(-self.spec.clip).at_most(self.spec.clip)
        if name == "relu":
            return x.at_least(0.0)
        return activations.sigmoid(x) if name == "sigmoid" else hyperbolic.tanh(x)

    def slope(self, name: str, y: Vec) -> Vec:
        """The slope of an activation where it has the value y; zero where its input was clipped."""
        slope = y * (1.0 - y) if name == "sigmoid" else y.of(1.0) if name == "relu" else 1.0 - y * y
        return self.unclipped(name, y, slope)

    def unclipped(self, name: str, y: Vec, slope: Vec) -> Vec:
        """The slope where the value y shows that the input was not clipped, else zero."""
        if not self.spec.clip and name != "relu":
            return slope
        epsilon = 2.0**-23 if self.spec.dtype == "f32" else 2.0**-52
        low, high = limits(name, self.spec.clip, epsilon)
        slope = slope.where(y.compare(">", low), 0.0)
        return slope if math.isinf(high) else slope.where(y.compare("<", high), 0.0)

    def wide_at(self, row: Index, gate: int, h: Index) -> Index:
        """Place of a gate in the scratch of products."""
        return self.k.add(self.k.mul(row, self.plan.wide), self.k.add(gate * self.spec.hidden, h))

    def at(self, row: Index, h: Index) -> Index:
        """Place of a state in the scratch."""
        return self.k.add(self.k.mul(row, self.plan.state), h)

    def multiply(
        self,
        source: ir.Value,
        stride: int,
        weights: ir.Value,
        inner: int,
        outer: int,
        goal: ir.Value,
        wide: int,
        apart: int | None = None,
    ) -> None:
        """goal[row, outer] = source[row, inner] weights[inner, outer], rows `wide` elements apart.

        Rows of the weights are `apart` elements apart where they have more columns.
        """
        k, plan = self.k, self.plan
        tile = plan.vectors * plan.lanes
        whole, rest = divmod(outer, tile)

        def block(first: Index, widths: list[tuple[int, int, int]]) -> None:
            kinds = [ir.VectorType(self.kind, n) if n > 1 else self.kind for _, n, _ in widths]
            zeros: list[ir.Value] = [values.zero(kind) for _ in range(plan.rows) for kind in kinds]

            def body(i: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
                at = k.add(k.mul(i, apart or outer), first)
                columns = [
                    values.load(k, weights, k.add(at, place), self.spec.dtype, lanes, active)
                    for place, lanes, active in widths
                ]
                new: list[ir.Value] = []
                for row in range(plan.rows):
                    x = k.load(source, k.add(row * stride, i), self.kind)
                    for number, column in enumerate(columns):
                        lanes = widths[number][1]
                        total = totals[row * len(widths) + number]
                        new.append(k.fma(values.splat(k, x, lanes) if lanes > 1 else x, column, total))
                return new

            totals = k.reduce_loop(0, inner, 1, zeros, body)
            for number, total in enumerate(totals):
                row, column = divmod(number, len(widths))
                place, _, active = widths[column]
                values.store(k, total, goal, k.add(k.add(row * wide, first), place), self.spec.dtype, active)

        if whole:
            with k.loop(0, whole) as number:
                block(
                    k.mul(number, tile),
                    [(v * plan.lanes, plan.lanes, plan.lanes) for v in range(plan.vectors)],
                )
        if rest:
            block(
                whole * tile, [(place, *self._vector(rest - place)) for place in range(0, rest, plan.lanes)]
            )

    def _vector(self, left: int) -> tuple[int, int]:
        """The lanes of a vector where so many elements are left, and how many of them are used."""
        lanes = self.plan.lanes
        return (lanes, lanes) if left >= lanes else (common.power_of_two(left), left)
