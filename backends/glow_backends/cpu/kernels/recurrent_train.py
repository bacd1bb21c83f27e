"""Recurrent networks in training: the loop over time that saves its gates, and the loop back.

Each step multiplies the states (or the gradients of the gates) of a block of samples with the
recurrent weights, vectors along the outputs, then does the cell on whole vectors. What is not
within the recurrence, the products for inputs and weights, are matrix products outside.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu import values, vecmath
from glow_backends.cpu.builder import KernelBuilder
from glow_backends.cpu.kernels import common
from glow_backends.cpu.kernels.common import Index
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.values import Vec

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
SAVED = {"lstm": 5, "gru": 4, "rnn": 1}


@dataclass(frozen=True)
class RecurrentTrainSpec:
    """Steps T, samples N, hidden H, gates G, numbers saved S (see the card `recurrent_train`).

    Operands forward: result [T, N, H], saved [T, N, S H], for LSTM cells [T, N, H], projected
    [T, N, G H], weights [H, G H], initial state and (LSTM) cell [N, H], `bias` [H]; backward:
    projected gradient [T, N, G H], state gradient [N, H], for LSTM cell gradient [N, H], for GRU the
    last gate's recurrent gradient [T, N, H], gradient [T, N, H], weights [G H, H], states [T, N, H],
    saved, initial state, initial cell, `cells_grad` [T, N, H]; then scratch.
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

    @property
    def gates(self) -> int:
        """Outputs of the cell's products a hidden element."""
        return GATES[self.kind]

    @property
    def outputs(self) -> int:
        """Buffers that the kernel writes."""
        return (3 if self.kind != "rnn" else 2) if self.backward else (3 if self.kind == "lstm" else 2)


@dataclass(frozen=True)
class _Plan:
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


def _plan(spec: RecurrentTrainSpec, target: CpuTarget) -> _Plan:
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    tall = (8, 6, 4, 3, 2, 1) if target.registers >= 32 else (4, 3, 2, 1)
    rows = next(r for r in tall if spec.samples % r == 0)
    if rows < 4 and spec.samples > 4:
        rows = 4
    vectors = max(1, (target.registers - 4) // (rows + 1))
    state = -(-spec.hidden // lanes) * lanes
    return _Plan(rows, vectors, lanes, state, spec.gates * spec.hidden + lanes)


def recurrent_train_scratch_bytes(spec: RecurrentTrainSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand, for all workers."""
    return _plan(spec, target).elements * values.size(spec.dtype) * target.threads


def emit_recurrent_train(
    module: ir.Module, name: str, spec: RecurrentTrainSpec, target: CpuTarget
) -> ir.Function:
    """Emit the loop over time in either direction of the gradient; see the spec for the operands."""
    lstm = spec.kind == "lstm"
    inputs = 5 + lstm + spec.cells_grad if spec.backward else 3 + lstm + spec.bias
    k = KernelBuilder(module, name, spec.outputs + inputs + 1, target)
    plan = _plan(spec, target)
    size = 4 * spec.samples * spec.gates * spec.hidden * spec.steps * values.size(spec.dtype)
    whole, rest = divmod(spec.samples, plan.rows)
    kind = _Backward if spec.backward else _Forward
    if whole:
        with common.nest(k, [whole], size) as (block,):
            kind(k, spec, plan, k.mul(block, plan.rows)).emit()
    if rest:
        with common.last_worker(k):
            kind(k, spec, replace(plan, rows=rest), whole * plan.rows).emit()
    return k.finish()


class _Block:
    """A block of samples through all steps."""

    def __init__(self, k: KernelBuilder, spec: RecurrentTrainSpec, plan: _Plan, first: Index) -> None:
        self.k, self.spec, self.plan, self.first = k, spec, plan, first
        self.kind = values.compute(spec.dtype)
        self.operands = list(k.operands)
        most = _plan(spec, k.target)
        work = k.gep(self.operands.pop(), k.mul(k.worker, most.elements), self.kind)
        self.wide = work
        self.one, self.two, self.three = (
            k.gep(work, most.rows * (most.wide + i * most.state), self.kind) for i in range(3)
        )

    def _take(self, there: bool = True) -> ir.Value:
        """The next operand; one that stands for nothing where it is not `there`."""
        return self.operands.pop(0) if there else self.wide

    # Memory.
    def _load(self, pointer: ir.Value, place: Index, lanes: int, active: int) -> Vec:
        return Vec(self.k, values.load(self.k, pointer, place, self.spec.dtype, lanes, active))

    def _store(self, value: Vec, pointer: ir.Value, place: Index, active: int) -> None:
        values.store(self.k, value.v, pointer, place, self.spec.dtype, active)

    def _sample(self, step: Index, row: Index, numbers: int) -> Index:
        """Offset of a sample's `numbers` H elements at a step."""
        k, spec = self.k, self.spec
        place = k.add(k.mul(step, spec.samples), k.add(self.first, row))
        return k.mul(place, numbers * spec.hidden)

    def _rows(self, body: Callable[[Index, Index, int, int], None]) -> None:
        """Call body(row, position, lanes, active lanes) over the block's states."""
        k, plan = self.k, self.plan
        with k.loop(0, plan.rows) if plan.rows > 1 else nullcontext(0) as row:
            for h, lanes, active in common.strips(k, 0, self.spec.hidden, plan.lanes, 1):
                body(row, h, lanes, active)

    def _fill(self, goal: ir.Value, source: ir.Value | None) -> None:
        """States of the scratch from [N, H], or zeros."""

        def body(row: Index, h: Index, lanes: int, active: int) -> None:
            kind = ir.VectorType(self.kind, lanes) if lanes > 1 else self.kind
            value = Vec(self.k, values.zero(kind))
            if source is not None:
                value = self._load(source, self.k.add(self._sample(0, row, 1), h), lanes, active)
            self._store(value, goal, self._at(row, h), lanes)

        self._rows(body)

    def _at(self, row: Index, h: Index) -> Index:
        """Place of a state in the scratch."""
        return self.k.add(self.k.mul(row, self.plan.state), h)

    def _multiply(
        self,
        source: ir.Value,
        stride: int,
        weights: ir.Value,
        inner: int,
        outer: int,
        goal: ir.Value,
        wide: int,
    ) -> None:
        """goal[row, outer] = source[row, inner] weights[inner, outer], rows `wide` elements apart."""
        k, plan = self.k, self.plan
        tile = plan.vectors * plan.lanes
        whole, rest = divmod(outer, tile)

        def block(first: Index, widths: list[tuple[int, int, int]]) -> None:
            kinds = [ir.VectorType(self.kind, n) if n > 1 else self.kind for _, n, _ in widths]
            zeros: list[ir.Value] = [values.zero(kind) for _ in range(plan.rows) for kind in kinds]

            def body(i: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
                at = k.add(k.mul(i, outer), first)
                columns = [
                    values.load(k, weights, k.add(at, place), self.spec.dtype, lanes, active)
                    for place, lanes, active in widths
                ]
                made: list[ir.Value] = []
                for row in range(plan.rows):
                    x = k.load(source, k.add(row * stride, i), self.kind)
                    for number, column in enumerate(columns):
                        lanes = widths[number][1]
                        total = totals[row * len(widths) + number]
                        made.append(k.fma(values.splat(k, x, lanes) if lanes > 1 else x, column, total))
                return made

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
            widths: list[tuple[int, int, int]] = []
            for place in range(0, rest, plan.lanes):
                active = min(plan.lanes, rest - place)
                widths.append(
                    (place, plan.lanes if active == plan.lanes else common.power_of_two(active), active)
                )
            block(whole * tile, widths)


class _Forward(_Block):
    """Initial states, then every step."""

    def emit(self) -> None:
        """The whole block."""
        k, spec, lstm = self.k, self.spec, self.spec.kind == "lstm"
        self.result, self.saved, self.cells = self._take(), self._take(), self._take(lstm)
        self.projected, weights, state = self._take(), self._take(), self._take()
        cell, self.bias = self._take(lstm), self._take(spec.bias)
        self._fill(self.one, state)
        if lstm:
            self._fill(self.two, cell)
        gates = spec.gates * spec.hidden
        with k.loop(0, spec.steps) as i:
            step = k.b.sub(k.i(spec.steps - 1), i) if spec.reverse else i
            self._multiply(self.one, self.plan.state, weights, spec.hidden, gates, self.wide, self.plan.wide)
            self._rows(lambda row, h, lanes, active: self._cell(step, row, h, lanes, active))

    def _cell(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> None:
        k, spec = self.k, self.spec
        hidden, at = spec.hidden, self._at(row, h)

        def outer(gate: int) -> Vec:
            place = k.add(self._sample(step, row, spec.gates), k.add(gate * hidden, h))
            return self._load(self.projected, place, lanes, active)

        def inner(gate: int) -> Vec:
            place = k.add(k.mul(row, self.plan.wide), k.add(gate * hidden, h))
            return self._load(self.wide, place, lanes, lanes)

        if spec.kind == "lstm":
            i, o, f = (vecmath.sigmoid(outer(g) + inner(g)) for g in range(3))
            c = vecmath.tanh(outer(3) + inner(3))
            cell = i.fma(c, f * self._load(self.two, at, lanes, lanes))
            new = o * vecmath.tanh(cell)
            self._store(cell, self.two, at, lanes)
            self._store(cell, self.cells, k.add(self._sample(step, row, 1), h), active)
            kept = [i, o, f, c, cell]
        elif spec.kind == "gru":
            z, r = (vecmath.sigmoid(outer(g) + inner(g)) for g in range(2))
            q = inner(2)
            if spec.bias:
                q = q + self._load(self.bias, h, lanes, active)
            n = vecmath.tanh(r.fma(q, outer(2)))
            new = z.fma(self._load(self.one, at, lanes, lanes) - n, n)
            kept = [z, r, n, q]
        else:
            total = outer(0) + inner(0)
            new = vecmath.tanh(total) if spec.activation == "tanh" else total.at_least(0.0)
            kept = [new]
        self._store(new, self.one, at, lanes)
        self._store(new, self.result, k.add(self._sample(step, row, 1), h), active)
        place = self._sample(step, row, len(kept))
        for number, value in enumerate(kept):
            self._store(value, self.saved, k.add(place, k.add(number * hidden, h)), active)


class _Backward(_Block):
    """Every step from the last one, then the gradients of the initial states."""

    def emit(self) -> None:
        """The whole block."""
        k, spec = self.k, self.spec
        lstm, gru, gates = spec.kind == "lstm", spec.kind == "gru", spec.gates * spec.hidden
        self.projected, state_grad = self._take(), self._take()
        cell_grad, self.inner = self._take(lstm), self._take(gru)
        self.grad, weights, self.states, self.saved = (self._take() for _ in range(4))
        self.state, self.cell, self.cells = self._take(), self._take(lstm), self._take(spec.cells_grad)
        self._fill(self.one, None)
        if lstm or gru:
            self._fill(self.two, None)
        with k.loop(0, spec.steps) as i:
            step = i if spec.reverse else k.b.sub(k.i(spec.steps - 1), i)
            last = k.b.icmp_signed("==", i, k.i(spec.steps - 1))
            self._rows(lambda row, h, lanes, active: self._cell(step, last, row, h, lanes, active))
            source = self.wide if gru else k.gep(self.projected, self._sample(step, 0, spec.gates), self.kind)
            stride = self.plan.wide if gru else gates
            self._multiply(source, stride, weights, gates, spec.hidden, self.one, self.plan.state)

        def finish(row: Index, h: Index, lanes: int, active: int) -> None:
            place = k.add(self._sample(0, row, 1), h)
            total = self._load(self.one, self._at(row, h), lanes, lanes)
            if gru:
                total = total + self._load(self.two, self._at(row, h), lanes, lanes)
            self._store(total, state_grad, place, active)
            if lstm:
                self._store(self._load(self.two, self._at(row, h), lanes, lanes), cell_grad, place, active)

        self._rows(finish)

    def _before(
        self, of: ir.Value, first: ir.Value, step: Index, last: ir.Value, row: Index, numbers: int, place: int
    ) -> ir.Value:
        """Where the sample's state of the step before is: in `of`, or in `first` for the first step."""
        k, spec = self.k, self.spec
        earlier = k.add(step, 1 if spec.reverse else -1)
        there = k.gep(of, k.add(self._sample(earlier, row, numbers), place * spec.hidden), self.kind)
        return k.b.select(last, k.gep(first, self._sample(0, row, 1), self.kind), there)

    def _cell(self, step: Index, last: ir.Value, row: Index, h: Index, lanes: int, active: int) -> None:
        k, spec = self.k, self.spec
        hidden, at, numbers = spec.hidden, self._at(row, h), SAVED[spec.kind]
        place = k.add(self._sample(step, row, 1), h)
        kept = [
            self._load(
                self.saved, k.add(self._sample(step, row, numbers), k.add(s * hidden, h)), lanes, active
            )
            for s in range(numbers)
        ]
        dh = self._load(self.one, at, lanes, lanes) + self._load(self.grad, place, lanes, active)
        outer: list[Vec]
        if spec.kind == "lstm":
            i, o, f, c, cell = kept
            old = self._load(
                self._before(self.saved, self.cell, step, last, row, numbers, 4), h, lanes, active
            )
            shown = vecmath.tanh(cell)
            dc = (dh * o).fma(1.0 - shown * shown, self._load(self.two, at, lanes, lanes))
            if spec.cells_grad:
                dc = dc + self._load(self.cells, place, lanes, active)
            outer = [
                dc * c * i * (1.0 - i),
                dh * shown * o * (1.0 - o),
                dc * old * f * (1.0 - f),
                dc * i * (1.0 - c * c),
            ]
            self._store(dc * f, self.two, at, lanes)
        elif spec.kind == "gru":
            z, r, n, q = kept
            dh = dh + self._load(self.two, at, lanes, lanes)
            before = self._before(self.states, self.state, step, last, row, 1, 0)
            dn = dh * (1.0 - z) * (1.0 - n * n)
            dz = dh * (self._load(before, h, lanes, active) - n) * z * (1.0 - z)
            outer = [dz, dn * q * r * (1.0 - r), dn]
            self._store(dh * z, self.two, at, lanes)
            self._store(dn * r, self.inner, place, active)
            for gate, value in enumerate([*outer[:2], dn * r]):
                goal = k.add(k.mul(row, self.plan.wide), k.add(gate * hidden, h))
                self._store(value, self.wide, goal, active)
        else:
            (state,) = kept
            if spec.activation == "tanh":
                outer = [dh * (1.0 - state * state)]
            else:
                outer = [dh.where(state.compare(">", 0.0), 0.0)]
        for gate, value in enumerate(outer):
            goal = k.add(self._sample(step, row, spec.gates), k.add(gate * hidden, h))
            self._store(value, self.projected, goal, active)
