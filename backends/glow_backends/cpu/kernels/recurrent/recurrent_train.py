"""Recurrent networks in training: the loop over time that saves its gates, and the loop back.

Each step multiplies the states (or the gradients of the gates) of a block of samples with the
recurrent weights, vectors along the outputs, then does the cell on whole vectors. What is not
within the recurrence, the products for inputs and weights, are matrix products outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.recurrent.recurrent_block import Block, RecurrentTrainSpec, plan_of
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.recurrent_cells import SAVED
from glow_dialects.ops.recurrent_train import RecurrentBackwardOp, RecurrentTrainOp


def recurrent_train_scratch_bytes(spec: RecurrentTrainSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand, for all workers."""
    return plan_of(spec, target).elements * values.size(spec.dtype) * target.threads


def emit_recurrent_train(
    module: ir.Module, name: str, spec: RecurrentTrainSpec, target: CpuTarget
) -> ir.Function:
    """Emit the loop over time in either direction of the gradient; see the spec for the operands."""
    k = KernelBuilder(module, name, spec.outputs + spec.inputs + 1, target)
    plan = plan_of(spec, target)
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


class _Forward(Block):
    """Initial states, then every step."""

    def emit(self) -> None:
        """The whole block."""
        k, spec, lstm = self.k, self.spec, self.spec.kind == "lstm"
        self.result, self.saved, self.cells = self.take(), self.take(), self.take(lstm)
        self.projected, weights, state = self.take(), self.take(), self.take()
        cell, self.bias = self.take(lstm), self.take(spec.bias)
        self.ends()
        self.fill(self.one, state)
        if lstm:
            self.fill(self.two, cell)
        gates, hidden, plan = spec.gates * spec.hidden, spec.hidden, self.plan
        with k.loop(0, spec.steps) as i:
            step = k.b.sub(k.i(spec.steps - 1), i) if spec.reverse else i
            if spec.reset_first:
                self.multiply(self.one, plan.state, weights, hidden, 2 * hidden, self.wide, plan.wide, gates)
                self.rows(lambda row, h, lanes, active: self._reset(step, row, h, lanes, active))
                last, goal = (k.gep(p, 2 * hidden, self.kind) for p in (weights, self.wide))
                self.multiply(self.three, plan.state, last, hidden, hidden, goal, plan.wide, gates)
            else:
                self.multiply(self.one, plan.state, weights, hidden, gates, self.wide, plan.wide)
            self.rows(lambda row, h, lanes, active: self._cell(step, row, h, lanes, active))

    def _outer(self, step: Index, row: Index, gate: int, h: Index, lanes: int, active: int) -> Vec:
        k = self.k
        place = k.add(self.sample(step, row, self.spec.gates), k.add(gate * self.spec.hidden, h))
        return self.load(self.projected, place, lanes, active)

    def _reset(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> None:
        """z and r in place of their products, and the operand of the last gate's weights."""
        gates: list[Vec] = []
        for gate in range(2):
            place = self.wide_at(row, gate, h)
            total = self._outer(step, row, gate, h, lanes, active) + self.load(
                self.wide, place, lanes, active
            )
            gates.append(self.apply("sigmoid", total))
            self.store(gates[-1], self.wide, place, active)
        state = self.load(self.one, self.at(row, h), lanes, lanes)
        self.store(gates[1] * state, self.three, self.at(row, h), lanes)

    def _cell(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> None:
        k, spec = self.k, self.spec
        at = self.at(row, h)
        old, running = self.load(self.one, at, lanes, lanes), self.running(step, row)

        def outer(gate: int) -> Vec:
            return self._outer(step, row, gate, h, lanes, active)

        def inner(gate: int) -> Vec:
            return self.load(self.wide, self.wide_at(row, gate, h), lanes, lanes)

        def look(x: Vec, hole: int, of: Vec) -> Vec:
            return self.hole(x, hole, of, h, lanes, active)

        if spec.kind == "lstm":
            before = self.load(self.two, at, lanes, lanes)
            i = self.apply("sigmoid", look(outer(0) + inner(0), 0, before))
            if spec.input_forget:
                f = 1.0 - i
            else:
                f = self.apply("sigmoid", look(outer(2) + inner(2), 2, before))
            c = self.apply("tanh", outer(3) + inner(3))
            cell = i.fma(c, f * before)
            o = self.apply("sigmoid", look(outer(1) + inner(1), 1, cell))
            new = o * self.apply("tanh", cell)
            cell = cell if running is None else cell.where(running, before)
            self.store(cell, self.two, at, lanes)
            self.store(cell, self.cells, k.add(self.sample(step, row, 1), h), active)
            kept = [i, o, f, c, cell]
        elif spec.kind == "gru":
            if spec.reset_first:
                z, r, q = inner(0), inner(1), self.load(self.three, at, lanes, lanes)
                n = self.apply("tanh", outer(2) + inner(2))
            else:
                z, r = (self.apply("sigmoid", outer(g) + inner(g)) for g in range(2))
                q = inner(2)
                if spec.bias:
                    q = q + self.load(self.bias, h, lanes, active)
                n = self.apply("tanh", r.fma(q, outer(2)))
            new = z.fma(old - n, n)
            kept = [z, r, n, q]
        else:
            new = self.apply(spec.activation, outer(0) + inner(0))
            kept = []
        new = new if running is None else new.where(running, old)
        self.store(new, self.one, at, lanes)
        self.store(new, self.result, k.add(self.sample(step, row, 1), h), active)
        self._keep(kept or [new], step, row, h, active)

    def _keep(self, kept: Sequence[Vec], step: Index, row: Index, h: Index, active: int) -> None:
        """Store what the backward pass reads."""
        place = self.sample(step, row, len(kept))
        for number, value in enumerate(kept):
            at = self.k.add(place, self.k.add(number * self.spec.hidden, h))
            self.store(value, self.saved, at, active)


class _Backward(Block):
    """Every step from the last one, then the gradients of the initial states."""

    def emit(self) -> None:
        """The whole block."""
        k, spec, plan, hidden = self.k, self.spec, self.plan, self.spec.hidden
        lstm, gru, gates = spec.kind == "lstm", spec.kind == "gru", spec.gates * spec.hidden
        self.projected, state_grad = self.take(), self.take()
        cell_grad, self.inner = self.take(lstm), self.take(gru and not spec.reset_first)
        self.grad, weights, self.states, self.saved = (self.take() for _ in range(4))
        self.state, self.cell, self.cells = self.take(), self.take(lstm), self.take(spec.cells_grad)
        self.ends()
        # The part of the state's gradient that bypasses the products.
        self.direct = self.two if gru else self.three if spec.lengths else None
        self.fill(self.one, None)
        for part in (self.two if lstm else None, self.direct):
            if part is not None:
                self.fill(part, None)
        with k.loop(0, spec.steps) as i:
            step = i if spec.reverse else k.b.sub(k.i(spec.steps - 1), i)
            last = k.b.icmp_signed("==", i, k.i(spec.steps - 1))
            self.rows(lambda row, h, lanes, active: self._cell(step, last, row, h, lanes, active))
            if spec.reset_first:
                source = k.gep(self.wide, 2 * hidden, self.kind)
                own = k.gep(weights, 2 * hidden * hidden, self.kind)
                self.multiply(source, plan.wide, own, hidden, hidden, self.three, plan.state)
                self.rows(lambda row, h, lanes, active: self._reset(step, last, row, h, lanes, active))
            there = k.gep(self.projected, self.sample(step, 0, spec.gates), self.kind)
            source, stride = (self.wide, plan.wide) if gru else (there, gates)
            inner = 2 * hidden if spec.reset_first else gates
            self.multiply(source, stride, weights, inner, hidden, self.one, plan.state)

        def finish(row: Index, h: Index, lanes: int, active: int) -> None:
            place = k.add(self.sample(0, row, 1), h)
            self.store(self._incoming(row, h, lanes), state_grad, place, active)
            if lstm:
                self.store(self.load(self.two, self.at(row, h), lanes, lanes), cell_grad, place, active)

        self.rows(finish)

    def _incoming(self, row: Index, h: Index, lanes: int) -> Vec:
        """The gradient of a state from the steps after it."""
        total = self.load(self.one, self.at(row, h), lanes, lanes)
        if self.direct is None:
            return total
        return total + self.load(self.direct, self.at(row, h), lanes, lanes)

    def _before(
        self, of: ir.Value, first: ir.Value, step: Index, last: ir.Value, row: Index, numbers: int, place: int
    ) -> ir.Value:
        """Where the sample's state of the step before is: in `of`, or in `first` for the first step."""
        k, spec = self.k, self.spec
        earlier = k.add(step, 1 if spec.reverse else -1)
        there = k.gep(of, k.add(self.sample(earlier, row, numbers), place * spec.hidden), self.kind)
        return k.b.select(last, k.gep(first, self.sample(0, row, 1), self.kind), there)

    def _kept(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> list[Vec]:
        k, numbers = self.k, SAVED[self.spec.kind]
        place = self.sample(step, row, numbers)
        offsets = [k.add(place, k.add(s * self.spec.hidden, h)) for s in range(numbers)]
        return [self.load(self.saved, offset, lanes, active) for offset in offsets]

    def _reset(self, step: Index, last: ir.Value, row: Index, h: Index, lanes: int, active: int) -> None:
        """The reset gate's gradient from that of the operand of the last gate's weights."""
        k, at = self.k, self.at(row, h)
        _, r, _, _ = self._kept(step, row, h, lanes, active)
        product = self.load(self.three, at, lanes, lanes)
        before = self.load(self._before(self.states, self.state, step, last, row, 1, 0), h, lanes, active)
        gate = product * before * self.slope("sigmoid", r)
        self.store(product.fma(r, self.load(self.two, at, lanes, lanes)), self.two, at, lanes)
        self.store(gate, self.wide, self.wide_at(row, 1, h), active)
        place = k.add(self.sample(step, row, 3), k.add(self.spec.hidden, h))
        self.store(gate, self.projected, place, active)

    def _cell(self, step: Index, last: ir.Value, row: Index, h: Index, lanes: int, active: int) -> None:
        k, spec = self.k, self.spec
        hidden, at = spec.hidden, self.at(row, h)
        place, running = k.add(self.sample(step, row, 1), h), self.running(step, row)
        kept = self._kept(step, row, h, lanes, active)
        dh = self._incoming(row, h, lanes) + self.load(self.grad, place, lanes, active)
        past = None if running is None else dh.of(0.0).where(running, dh)

        def masked(value: Vec) -> Vec:
            return value if running is None else value.where(running, 0.0)

        outer: list[Vec | None]
        if spec.kind == "lstm":
            outer = [*self._lstm(dh, kept, step, last, row, h, lanes, active)]
        elif spec.kind == "gru":
            z, r, n, q = kept
            before = self.load(self._before(self.states, self.state, step, last, row, 1, 0), h, lanes, active)
            dn = masked(dh * (1.0 - z) * self.slope("tanh", n))
            dz = masked(dh * (before - n) * self.slope("sigmoid", z))
            past = dh * z if running is None else (dh * z).where(running, dh)
            product, dr = dn, None
            if not spec.reset_first:
                product, dr = dn * r, dn * q * self.slope("sigmoid", r)
                self.store(product, self.inner, place, active)
            for gate, value in enumerate((dz, dr, product)):
                if value is not None:
                    self.store(value, self.wide, self.wide_at(row, gate, h), active)
            outer = [dz, dr, dn]
        else:
            outer = [masked(dh * self.slope(spec.activation, kept[0]))]
        if past is not None:
            assert self.direct is not None
            self.store(past, self.direct, at, lanes)
        for gate, value in enumerate(outer):
            if value is not None:
                goal = k.add(self.sample(step, row, spec.gates), k.add(gate * hidden, h))
                self.store(value, self.projected, goal, active)

    def _lstm(
        self,
        dh: Vec,
        kept: list[Vec],
        step: Index,
        last: ir.Value,
        row: Index,
        h: Index,
        lanes: int,
        active: int,
    ) -> list[Vec]:
        """Gradients of the gates; that of the cell before goes to the scratch."""
        k, spec, at, running = self.k, self.spec, self.at(row, h), self.running(step, row)
        i, o, f, c, cell = kept
        before = self._before(self.saved, self.cell, step, last, row, SAVED["lstm"], 4)
        old, after = self.load(before, h, lanes, active), self.load(self.two, at, lanes, lanes)
        if spec.cells_grad:
            place = k.add(self.sample(step, row, 1), h)
            after = after + self.load(self.cells, place, lanes, active)
        shown = self.apply("tanh", cell)
        d_o = dh * shown * self.slope("sigmoid", o)
        dc = (dh * o).fma(self.unclipped("cell", cell, 1.0 - shown * shown), after)
        dc = self.hole(dc, 1, d_o, h, lanes, active)
        if spec.input_forget:
            d_i, d_f = dc * (c - old) * self.slope("sigmoid", i), dc.of(0.0)
        else:
            d_i, d_f = dc * c * self.slope("sigmoid", i), dc * old * self.slope("sigmoid", f)
        gates = [d_i, d_o, d_f, dc * i * self.slope("tanh", c)]
        past = self.hole(dc * f, 0, d_i, h, lanes, active)
        past = self.hole(past, 2, d_f, h, lanes, active)
        if running is not None:
            past = past.where(running, after)
            gates = [g.where(running, 0.0) for g in gates]
        self.store(past, self.two, at, lanes)
        return gates


class RecurrentTrain(Kernel[RecurrentTrainOp | RecurrentBackwardOp, RecurrentTrainSpec]):
    """Every step in training, saving values for the gradient, or every step from the last one."""

    OPS = (RecurrentTrainOp, RecurrentBackwardOp)
    emit = staticmethod(emit_recurrent_train)

    def match(
        self, op: RecurrentTrainOp | RecurrentBackwardOp, context: CallContext
    ) -> RecurrentTrainSpec | None:
        bias = cells_grad = False
        if is_instr_of(op, RecurrentTrainOp):
            states, kind, bias = op.result, dtype_name(op.projected), op.bias is not None
        elif is_instr_of(op, RecurrentBackwardOp):
            states, kind, cells_grad = op.grad, dtype_name(op.grad), op.cells_grad is not None
        else:
            raise AssertionError(op.name)
        steps, samples, hidden = shape(states)
        if kind not in ("f32", "f64") or op.predicate is not None:
            return None
        return RecurrentTrainSpec(
            op.kind,
            steps,
            samples,
            hidden,
            op.reverse,
            op.activation,
            bias=bias,
            cells_grad=cells_grad,
            backward=is_instr_of(op, RecurrentBackwardOp),
            dtype=kind,
            clip=op.clip,
            input_forget=op.input_forget,
            reset_first=op.kind == "gru" and not op.linear_before_reset,
            lengths=op.lengths is not None,
            peepholes=op.peepholes is not None,
        )

    def scratch(self, spec: RecurrentTrainSpec, target: CpuTarget) -> int:
        return recurrent_train_scratch_bytes(spec, target)

    def flops(self, spec: RecurrentTrainSpec) -> int:
        return 2 * spec.steps * spec.samples * spec.gates * spec.hidden**2
