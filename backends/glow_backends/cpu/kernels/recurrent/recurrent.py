"""LSTM, GRU and RNN: the loop over time, with the input already projected by a matrix product.

Every step multiplies the states of a block of samples with the packed recurrent weights (vectors
along the outputs, one pass over the weights a step), then applies the cell to whole vectors. Where
samples have lengths, blocks are of samples of like lengths, and a step is done for those only that
have it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from llvmlite import ir

from glow_backends.cpu.emit import common, hyperbolic, values
from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.integer import I16, dot2
from glow_backends.cpu.emit.pointwise_rules import FLOAT
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.kernels.recurrent.lengths import Lengths, order_bytes
from glow_backends.cpu.kernels.recurrent.recurrent_plan import RecurrentPlan, RecurrentSpec, recurrent_plan
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import is_open

_NAMES = {
    "leakyrelu": "leaky_relu", "thresholdedrelu": "thresholded_relu", "hardsigmoid": "hard_sigmoid",
}  # fmt: skip


def recurrent_scratch_bytes(spec: RecurrentSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand, for all workers."""
    order = order_bytes(spec.samples, spec.steps) if spec.lengths else 0
    return (_worker_elements(spec, target) * values.size(spec.dtype) + order) * target.threads


def _worker_elements(spec: RecurrentSpec, target: CpuTarget) -> int:
    plan = recurrent_plan(spec, target)
    return (spec.gates + 3 + bool(spec.scales)) * plan.rows * plan.width


def recurrent_parts(spec: RecurrentSpec, target: CpuTarget) -> int:
    """How many workers may share the network: blocks of samples in each direction."""
    return len(spec.reverse) * -(-spec.samples // recurrent_plan(spec, target).rows)


def emit_recurrent(module: ir.Module, name: str, spec: RecurrentSpec, target: CpuTarget) -> ir.Function:
    """Emit the network; see `RecurrentSpec` for the operands."""
    optional = (
        *(spec.bias, bool(spec.lengths), spec.initial_state, spec.initial_cell, spec.peepholes),
        bool(spec.scales),
    )
    outputs = 3 if spec.kind == "lstm" else 2
    k = KernelBuilder(module, name, outputs + 2 + sum(optional) + 1, target)
    plan = recurrent_plan(spec, target)
    if spec.samples * spec.hidden:
        size = 4 * spec.samples * spec.gates * spec.hidden * spec.steps * values.size(spec.dtype)
        whole, rest = divmod(spec.samples, plan.rows)
        lengths = _lengths(k, spec) if spec.lengths else None

        def block(rows: int, direction: int, first: Index) -> None:
            _Block(k, spec, replace(plan, rows=rows), direction, first, lengths).emit()

        for direction in range(len(spec.reverse)):
            # Where there is one block, each direction has a worker of its own.
            alone = common.last_worker if direction else common.first_worker
            if is_open((whole,)) or whole > 1:
                with _blocks(k, spec, whole, size) as number:
                    block(plan.rows, direction, k.mul(number, plan.rows))
            elif whole:
                with alone(k):
                    block(plan.rows, direction, 0)
            if is_open((rest,)):
                with alone(k), k.loop(k.mul(whole, plan.rows), spec.samples) as sample:
                    block(1, direction, sample)
            elif rest:
                with alone(k):
                    block(rest, direction, whole * plan.rows)
    return k.finish()


def _lengths(k: KernelBuilder, spec: RecurrentSpec) -> Lengths:
    """The lengths, with the samples' order at this worker's place behind what all work in."""
    operands = list(k.operands)
    place = (3 if spec.kind == "lstm" else 2) + 2 + spec.bias
    states = k.gep(
        operands[-1], _worker_elements(spec, k.target) * k.target.threads, values.compute(spec.dtype)
    )
    own = k.gep(states, k.mul(k.worker, order_bytes(spec.samples, spec.steps)), I8)
    return Lengths(k, operands[place], spec.lengths, spec.samples, spec.steps, own)


@contextmanager
def _blocks(k: KernelBuilder, spec: RecurrentSpec, count: int, size: int) -> Generator[Index]:
    """for each block of samples, shared by the workers; in turn where the first ones take longest."""
    if spec.lengths and k.target.threads > 1 and estimate(size) >= common.PARALLEL_BYTES:
        with k.loop(k.worker, k.opened(count), k.target.threads) as number:
            yield number
    else:
        with common.nest(k, [count], size) as (number,):
            yield number


class _Block:
    """A block of samples in one direction, through all steps."""

    def __init__(
        self,
        k: KernelBuilder,
        spec: RecurrentSpec,
        plan: RecurrentPlan,
        direction: int,
        first: Index,
        lengths: Lengths | None,
    ) -> None:
        self.k, self.spec, self.plan = k, spec, plan
        self.direction, self.first, self.lengths = direction, first, lengths
        #: The rows that have the steps which are being emitted: the first ones.
        self.live = plan.rows
        self.kind = values.compute(spec.dtype)
        operands = list(k.operands)
        self.result, self.last_state = operands.pop(0), operands.pop(0)
        self.last_cell = operands.pop(0) if spec.kind == "lstm" else None
        self.projected, self.weights = operands.pop(0), operands.pop(0)
        self.bias = operands.pop(0) if spec.bias else None
        if spec.lengths:
            operands.pop(0)
        self.initial_state = operands.pop(0) if spec.initial_state else None
        self.initial_cell = operands.pop(0) if spec.initial_cell else None
        self.peepholes = operands.pop(0) if spec.peepholes else None
        self.scales = operands.pop(0) if spec.scales else None
        work = k.gep(operands.pop(0), k.mul(k.worker, _worker_elements(spec, k.target)), self.kind)
        whole = recurrent_plan(spec, k.target).rows * plan.width
        self.sums = work
        self.state, self.cell, self.reset = (
            k.gep(work, (spec.gates + i) * whole, self.kind) for i in range(3)
        )
        #: Where a row's state lies as whole numbers of 16 bits.
        self.stored = k.gep(work, (spec.gates + 3) * whole, self.kind) if spec.scales else None

    def emit(self) -> None:
        """Initial states, all steps, last states."""
        spec, rows = self.spec, self.plan.rows
        self._start(self.state, self.initial_state)
        if self.last_cell is not None:
            self._start(self.cell, self.initial_cell)
        if self.lengths is None:
            self._steps(0, spec.steps)
        else:
            # Samples of falling lengths: the first `live` ones have the steps from stops[live] on.
            stops = [*(self.lengths.of(self.lengths.sample(self.first, row)) for row in range(rows)), 0]
            lives = range(1, rows + 1) if spec.reverse[self.direction] else range(rows, 0, -1)
            for live in lives:
                self.live = live
                self._steps(stops[live], stops[live - 1])
            self.live = rows
            self._zeros(stops)
        self._finish(self.last_state, self.state)
        if self.last_cell is not None:
            self._finish(self.last_cell, self.cell)

    def _steps(self, start: Index, stop: Index) -> None:
        """The steps start ... stop - 1 of the live rows, in the direction's order."""
        k, spec = self.k, self.spec
        with k.loop(start, stop) as i:
            step = i
            if spec.reverse[self.direction]:
                step = k.b.sub(k.b.sub(k.i(k.add(start, stop)), k.i(1)), i)
            gru_reset = spec.kind == "gru" and not spec.linear_before_reset
            if spec.scales:
                self._multiply_bytes()
            else:
                self._multiply(self.state, 0, 2 if gru_reset else spec.gates)
            if gru_reset:
                self._rows(lambda row, h, lanes, active: self._reset_gate(step, row, h, lanes, active))
                self._multiply(self.reset, 2, 3)
            self._rows(lambda row, h, lanes, active: self._cell(step, row, h, lanes, active))

    def _zeros(self, stops: Sequence[Index]) -> None:
        """The results of steps that samples do not have."""
        k, spec = self.k, self.spec
        for row in range(self.plan.rows):
            sample = self._sample(row)
            with k.loop(stops[row], spec.steps) as step:
                place = k.add(k.mul(step, len(spec.reverse) * spec.samples * spec.hidden), sample)
                for h, lanes, active in common.strips(k, 0, spec.hidden, self.plan.lanes, 1):
                    kind = ir.VectorType(self.kind, lanes) if lanes > 1 else self.kind
                    values.store(k, values.zero(kind), self.result, k.add(place, h), spec.dtype, active)

    # Memory.
    def _number(self, row: Index) -> Index:
        """The sample of a row."""
        if self.lengths is None:
            return self.k.add(self.first, row)
        return self.lengths.sample(self.first, row)

    def _sample(self, row: Index) -> Index:
        """Offset of a sample's state in a tensor [D, N, H]."""
        place = self.k.add(self.direction * self.spec.samples, self._number(row))
        return self.k.mul(place, self.spec.hidden)

    def _start(self, buffer: ir.Value, initial: ir.Value | None) -> None:
        k, spec = self.k, self.spec
        for row in range(self.plan.rows):
            for h, lanes, active in common.strips(k, 0, spec.hidden, self.plan.lanes, 1):
                kind = ir.VectorType(self.kind, lanes) if lanes > 1 else self.kind
                value: ir.Value = values.zero(kind)
                if initial is not None:
                    place = k.add(self._sample(row), h)
                    value = values.load(k, initial, place, spec.dtype, lanes, active)
                values.store(k, value, buffer, k.add(row * self.plan.width, h), spec.dtype)

    def _finish(self, goal: ir.Value, buffer: ir.Value) -> None:
        k, spec = self.k, self.spec
        for row in range(self.plan.rows):
            for h, lanes, active in common.strips(k, 0, spec.hidden, self.plan.lanes, 1):
                value = values.load(k, buffer, k.add(row * self.plan.width, h), spec.dtype, lanes)
                values.store(k, value, goal, k.add(self._sample(row), h), spec.dtype, active)

    # The matrix product of a step.
    def _multiply(self, source: ir.Value, first: int, stop: int) -> None:
        """sums[row, gate] = recurrent weights of the gates first ... stop - 1 times source[row]."""
        k, spec, plan = self.k, self.spec, self.plan
        block = plan.vectors * plan.lanes
        vector = ir.VectorType(self.kind, plan.lanes) if plan.lanes > 1 else self.kind
        zeros = [values.zero(vector)] * (self.live * plan.vectors)
        base = self.direction * spec.gates * plan.blocks
        with k.loop(first * plan.blocks, stop * plan.blocks) as number:
            weights = k.mul(k.add(number, base), spec.hidden * block)

            def body(i: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
                at = k.add(weights, k.mul(i, block))
                columns = [
                    k.load(self.weights, k.add(at, v * plan.lanes), self.kind, plan.lanes)
                    for v in range(plan.vectors)
                ]
                new: list[ir.Value] = []
                for row in range(self.live):
                    x = k.load(source, k.add(row * plan.width, i), self.kind)
                    wide = values.splat(k, x, plan.lanes)
                    new += [
                        k.fma(wide, c, t) for c, t in zip(columns, totals[row * plan.vectors :], strict=False)
                    ]
                return new

            totals = k.reduce_loop(0, spec.hidden, 1, zeros, body)
            for place, total in enumerate(totals):
                row, v = divmod(place, plan.vectors)
                at = k.add(k.mul(number, block), row * spec.gates * plan.width + v * plan.lanes)
                k.store(total, self.sums, at, self.kind)

    def _multiply_bytes(self) -> None:
        """sums[row, gate] = the whole numbers of all gates times a row's state in 8 bits."""
        k, spec, plan = self.k, self.spec, self.plan
        stored = self.stored
        assert stored is not None
        units = [self._store_bytes(row) for row in range(self.live)]
        block, lanes, pairs = plan.vectors * plan.lanes, plan.lanes, -(-spec.hidden // 2)
        words = ir.VectorType(I32, lanes)
        zeros = [ir.Constant(words, [0] * lanes)] * (self.live * plan.vectors)
        base = self.direction * spec.gates * plan.blocks
        with k.loop(0, spec.gates * plan.blocks) as number:
            weights = k.mul(k.add(number, base), pairs * block)

            def body(i: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
                at = k.add(weights, k.mul(i, block))
                places = [k.add(at, v * lanes) for v in range(plan.vectors)]
                columns = [self._pairs(place) for place in places]
                new: list[ir.Value] = []
                for row in range(self.live):
                    x = k.splat(k.load(stored, k.add(row * plan.width, i), I32), lanes, I32)
                    own = totals[row * plan.vectors : (row + 1) * plan.vectors]
                    new += [dot2(k, x, c, t) for c, t in zip(columns, own, strict=True)]
                return new

            totals = k.reduce_loop(0, pairs, 1, zeros, body)
            for place, total in enumerate(totals):
                row, v = divmod(place, plan.vectors)
                at = k.add(k.mul(number, block), row * spec.gates * plan.width + v * lanes)
                real = k.b.fmul(k.b.sitofp(total, units[row].type), units[row])
                k.store(real, self.sums, at, self.kind)

    def _pairs(self, place: Index) -> ir.Value:
        """A vector of pairs of weights, in 16 bits each."""
        k, lanes = self.k, self.plan.lanes
        if self.spec.scales == "i16":
            return k.load(self.weights, place, I32, lanes)
        narrow = k.load(self.weights, k.mul(place, 2), I8, 2 * lanes)
        return k.b.sext(narrow, ir.VectorType(I16, 2 * lanes))

    def _store_bytes(self, row: int) -> ir.Value:
        """Bring a row's state to 8 bits less a zero point, by its range; its scale in all lanes."""
        k, spec, plan = self.k, self.spec, self.plan
        assert self.stored is not None
        nothing = k.splat(0.0, plan.lanes)
        whole, rest = divmod(spec.hidden, plan.lanes)

        def read(h: Index, active: int) -> Vec:
            return self._load(self.state, k.add(row * plan.width, h), plan.lanes, active)

        def wider(bounds: list[ir.Value], h: Index, active: int) -> list[ir.Value]:
            x = read(h, active)
            low, high = (Vec(k, bound) for bound in bounds)
            return [x.where(x.compare("<", low), low).v, x.where(x.compare(">", high), high).v]

        bounds = [nothing, nothing]
        if whole:
            bounds = k.reduce_loop(
                0, whole, 1, bounds, lambda i, held: wider(held, k.mul(i, plan.lanes), plan.lanes)
            )
        if rest:
            bounds = wider(bounds, whole * plan.lanes, rest)
        least = k.intrinsic("vector.reduce.fmin", [bounds[0]], F32)
        most = k.intrinsic("vector.reduce.fmax", [bounds[1]], F32)
        width = k.b.fdiv(k.b.fsub(most, least), ir.Constant(F32, 255.0))
        flat = k.b.fcmp_ordered("==", width, ir.Constant(F32, 0.0))
        scale = k.splat(k.b.select(flat, ir.Constant(F32, 1.0), width), plan.lanes)
        zero = self._in_byte(Vec(k, k.b.fdiv(k.splat(k.b.fneg(least), plan.lanes), scale)).unary("roundeven"))
        for v in range(-(-spec.hidden // plan.lanes)):
            x = read(v * plan.lanes, min(plan.lanes, spec.hidden - v * plan.lanes))
            q = self._in_byte(Vec(k, k.b.fdiv(x.v, scale)).unary("roundeven") + zero) - zero
            words = k.b.fptosi(q.v, ir.VectorType(I32, plan.lanes))
            halves = k.b.trunc(words, ir.VectorType(I16, plan.lanes))
            k.store(halves, k.gep(self.stored, row * plan.width, I32), v * plan.lanes, I16)
        return scale

    @staticmethod
    def _in_byte(x: Vec) -> Vec:
        return x.at_least(0.0).at_most(255.0)

    # The cell.
    def _rows(self, body: Callable[[Index, Index, int, int], None]) -> None:
        """Call body(row, position, lanes, active lanes) over the states of the live rows."""
        k, plan = self.k, self.plan
        with k.loop(0, self.live) if self.live > 1 else nullcontext(0) as row:
            for h, lanes, active in common.strips(k, 0, self.spec.hidden, plan.lanes, 1):
                body(row, h, lanes, active)

    def _load(self, pointer: ir.Value, place: Index, lanes: int, active: int) -> Vec:
        return Vec(self.k, values.load(self.k, pointer, place, self.spec.dtype, lanes, active))

    def _input(self, step: Index, row: Index, gate: int, h: Index, lanes: int, active: int) -> Vec:
        """The projected input of a gate."""
        k, spec = self.k, self.spec
        sample = k.add(k.mul(step, spec.samples), self._number(row))
        gates = k.add(k.mul(sample, len(spec.reverse) * spec.gates), self.direction * spec.gates + gate)
        return self._load(self.projected, k.add(k.mul(gates, spec.hidden), h), lanes, active)

    def _recurrent(self, row: Index, gate: int, h: Index, lanes: int, active: int) -> Vec:
        """The product of a gate, with its bias."""
        k, spec, plan = self.k, self.spec, self.plan
        at = k.add(k.mul(row, spec.gates * plan.width), k.add(gate * plan.width, h))
        total = self._load(self.sums, at, lanes, lanes)
        if self.scales is not None:
            place = k.add((self.direction * spec.gates + gate) * spec.hidden, h)
            total = total * self._load(self.scales, place, lanes, active)
        if self.bias is not None:
            place = k.add((self.direction * spec.gates + gate) * spec.hidden, h)
            total = total + self._load(self.bias, place, lanes, active)
        return total

    def _gate(self, step: Index, row: Index, gate: int, h: Index, lanes: int, active: int) -> Vec:
        whole = self._recurrent(row, gate, h, lanes, active)
        return self._input(step, row, gate, h, lanes, active) + whole

    def _activate(self, number: int, x: Vec) -> Vec:
        """The direction's activation `number`."""
        if self.spec.clip:
            x = x.at_least(-self.spec.clip).at_most(self.spec.clip)
        name, alpha, beta = self.spec.functions[self.direction][number]
        if name == "affine":
            return x * alpha + beta
        if name == "scaledtanh":
            return hyperbolic.tanh(x * beta) * alpha
        return FLOAT[_NAMES.get(name, name)]([x], (alpha, beta))

    def _reset_gate(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> None:
        """GRU: reset = r * state."""
        k = self.k
        at = k.add(k.mul(row, self.plan.width), h)
        r = self._activate(0, self._gate(step, row, 1, h, lanes, active))
        value = r * self._load(self.state, at, lanes, lanes)
        values.store(k, value.v, self.reset, at, self.spec.dtype)

    def _cell(self, step: Index, row: Index, h: Index, lanes: int, active: int) -> None:
        """New states from the gates, and the step's result."""
        k, spec = self.k, self.spec
        at = k.add(k.mul(row, self.plan.width), h)
        state = self._load(self.state, at, lanes, lanes)
        cell = None
        if spec.kind == "lstm":
            old = self._load(self.cell, at, lanes, lanes)
            new, cell = self._lstm(step, row, h, lanes, active, old)
        elif spec.kind == "gru":
            new = self._gru(step, row, h, lanes, active, state)
        else:
            new = self._activate(0, self._gate(step, row, 0, h, lanes, active))
        values.store(k, new.v, self.state, at, spec.dtype)
        if cell is not None:
            values.store(k, cell.v, self.cell, at, spec.dtype)
        place = k.add(k.mul(step, len(spec.reverse) * spec.samples * spec.hidden), self._sample(row))
        values.store(k, new.v, self.result, k.add(place, h), spec.dtype, active)

    def _lstm(self, step: Index, row: Index, h: Index, lanes: int, active: int, cell: Vec) -> tuple[Vec, Vec]:
        k, spec = self.k, self.spec

        def inner(gate: int, of: Vec) -> Vec:
            value = self._gate(step, row, gate, h, lanes, active)
            if self.peepholes is None:
                return value
            place = k.add((self.direction * 3 + gate) * spec.hidden, h)
            return self._load(self.peepholes, place, lanes, active).fma(of, value)

        i = self._activate(0, inner(0, cell))
        if spec.input_forget:
            kept = cell - i * cell
        else:
            kept = self._activate(0, inner(2, cell)) * cell
        new = i.fma(self._activate(1, self._gate(step, row, 3, h, lanes, active)), kept)
        o = self._activate(0, inner(1, new))
        return o * self._activate(2, new), new

    def _gru(self, step: Index, row: Index, h: Index, lanes: int, active: int, state: Vec) -> Vec:
        z = self._activate(0, self._gate(step, row, 0, h, lanes, active))
        inner = self._recurrent(row, 2, h, lanes, active)
        if self.spec.linear_before_reset:
            inner = self._activate(0, self._gate(step, row, 1, h, lanes, active)) * inner
        new = self._activate(1, self._input(step, row, 2, h, lanes, active) + inner)
        return z.fma(state - new, new)
