"""The base of rnn, gru and lstm: ONNX's conventions, and cells written once for arrays and for graphs.

Shapes (T steps, N samples, I inputs, H hidden, D directions, G gates): input [T, N, I],
weights [D, G H, I], recurrence [D, G H, H], bias [D, 2 G H], lengths [N], states [D, N, H];
results: every state [T, D, N, H], last states [D, N, H]. With `layout` 1 the samples come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp, PureOp
from glow_dialects.core.products import matmul
from glow_dialects.core.properties import check_choice, float_prop, floats_prop, int_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Operand, Term, concat
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.activation import (
    ClipOp,
    EluOp,
    HardSigmoidOp,
    LeakyReluOp,
    SigmoidOp,
    SoftplusOp,
    SoftsignOp,
    TanhOp,
    ThresholdedReluOp,
)
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.reduce import ReduceMinOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.unary_math import RoundOp
from glow_dialects.ops.windows import check_float

DIRECTIONS = ("forward", "reverse", "bidirectional")

#: Activation -> its default alpha and beta, None where it takes none (ONNX).
ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "relu": (None, None),
    "tanh": (None, None),
    "sigmoid": (None, None),
    "softsign": (None, None),
    "softplus": (None, None),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}


class GraphMath:
    """The mathematics of a cell on terms, beyond what stands between them (+ - *)."""

    def __init__(self, like: Term) -> None:
        self.like = like

    def matmul(self, x: Term, y: Term) -> Term:
        """Product of two matrices."""
        return x.apply(MatmulOp, y)

    def in_bytes(self, x: Term, axes: Sequence[int]) -> tuple[Term, Term]:
        """Whole numbers of 8 bits less a zero point, and their scale, by the range along some axes."""
        stored, zero, scale = self.stored_bytes(x, axes)
        return stored - zero, scale

    def stored_bytes(self, x: Term, axes: Sequence[int]) -> tuple[Term, Term, Term]:
        """Whole numbers from 0 to 255, their zero point and scale, by the range along some axes."""
        low = x.apply(ReduceMinOp, axes=tuple(axes), keepdims=True).minimum(0.0)
        high = x.max(axes).maximum(0.0)
        width = (high - low) / 255.0
        scale = width.equals(0.0).where(x.of(1.0), width)
        zero = (-low / scale).apply(RoundOp).apply(ClipOp, min=0.0, max=255.0)
        return ((x / scale).apply(RoundOp) + zero).apply(ClipOp, min=0.0, max=255.0), zero, scale

    def zeros(self, shape: Sequence[int]) -> Term:
        """A tensor of zeros."""
        return Term(self.like.b.splat(0, tensor(shape, self.like.element)), self.like.b)

    def longer(self, lengths: Term, step: int) -> Term:
        """[N, 1]: which samples have a step `step`."""
        return lengths.reshape((lengths.shape[0], 1)) > step

    def where(self, mask: Term, x: Operand, y: Operand) -> Term:
        """mask ? x : y."""
        return mask.where(self.like.of(x), self.like.of(y))

    def clip(self, x: Term, bound: float) -> Term:
        """x between -bound and bound."""
        return x.apply(ClipOp, min=-bound, max=bound)

    def slice(self, x: Term, axis: int, start: int, end: int) -> Term:
        """x[..., start:end, ...] along one axis."""
        return x.slice(axis, start, end)

    def concat(self, parts: Sequence[Term], axis: int) -> Term:
        """Parts one after another along an axis."""
        return concat(parts, axis)

    def apply(self, name: str, x: Term, alpha: float, beta: float) -> Term:
        """An activation of ACTIVATIONS."""
        match name:
            case "affine":
                return x * alpha + beta
            case "scaledtanh":
                return (x * beta).apply(TanhOp) * alpha
            case "leakyrelu":
                return x.apply(LeakyReluOp, alpha=alpha)
            case "thresholdedrelu":
                return x.apply(ThresholdedReluOp, alpha=alpha)
            case "hardsigmoid":
                return x.apply(HardSigmoidOp, alpha=alpha, beta=beta)
            case "elu":
                return x.apply(EluOp, alpha=alpha)
            case _:
                plain: dict[str, type[GraphOp]] = {
                    "relu": ReluOp,
                    "tanh": TanhOp,
                    "sigmoid": SigmoidOp,
                    "softsign": SoftsignOp,
                    "softplus": SoftplusOp,
                }
                return x.apply(plain[name])


class ArrayMath:
    """The same on NumPy arrays."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def matmul(self, x: Any, y: Any) -> Any:
        """Product of two matrices."""
        return matmul(x, y)

    def in_bytes(self, x: Any, axes: Sequence[int]) -> tuple[Any, Any]:
        """Whole numbers of 8 bits less a zero point, and their scale, by the range along some axes."""
        low, high = (f(x, axis=tuple(axes), keepdims=True, initial=0) for f in (np.min, np.max))
        width = ((high - low) / self.dtype.type(255)).astype(self.dtype)
        scale = np.where(width == 0, self.dtype.type(1), width)
        zero = np.clip(np.rint(-low / scale), 0, 255)
        return np.clip(np.rint(x / scale) + zero, 0, 255) - zero, scale

    def zeros(self, shape: Sequence[int]) -> Any:
        """An array of zeros."""
        return np.zeros(tuple(shape), self.dtype)

    def longer(self, lengths: Any, step: int) -> Any:
        """[N, 1]: which samples have a step `step`."""
        later: Any = lengths.reshape(-1, 1) > step
        return later

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        """mask ? x : y."""
        return np.where(mask, x, y)

    def clip(self, x: Any, bound: float) -> Any:
        """x between -bound and bound."""
        return np.clip(x, -bound, bound)

    def slice(self, x: Any, axis: int, start: int, end: int) -> Any:
        """x[..., start:end, ...] along one axis."""
        return x[(slice(None),) * axis + (slice(start, end),)]

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        """Parts one after another along an axis."""
        return np.concatenate(list(parts), axis)

    def apply(self, name: str, x: Any, alpha: float, beta: float) -> Any:
        """An activation of ACTIVATIONS."""
        functions: dict[str, Callable[[], Any]] = {
            "relu": lambda: np.maximum(x, 0),
            "tanh": lambda: np.tanh(x),
            "sigmoid": lambda: 1 / (1 + np.exp(-x)),
            "softsign": lambda: x / (1 + np.abs(x)),
            "softplus": lambda: np.logaddexp(x, 0),
            "affine": lambda: alpha * x + beta,
            "leakyrelu": lambda: np.where(x >= 0, x, alpha * x),
            "thresholdedrelu": lambda: np.where(x > alpha, x, 0),
            "scaledtanh": lambda: alpha * np.tanh(beta * x),
            "hardsigmoid": lambda: np.clip(alpha * x + beta, 0, 1),
            "elu": lambda: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        }
        with np.errstate(over="ignore"):
            return functions[name]().astype(x.dtype)


class Direction:
    """One direction of a network: its parameters, ready for the steps. `m` is one of the two above."""

    def __init__(self, m: Any, properties: dict[str, Any], index: int, parts: dict[str, Any], gates: int):
        self.m = m
        self.hidden: int = parts["hidden"]
        self.gates = gates
        self.properties = properties
        self.functions = activations_of(properties, index)
        size = gates * self.hidden
        self.weights = self._own(parts["weights"], index, (size, parts["inputs"])).transpose((1, 0))
        self.recurrence = self._own(parts["recurrence"], index, (size, self.hidden)).transpose((1, 0))
        self.bias = self.recurrence_bias = None
        if parts.get("bias") is not None:
            both = self._own(parts["bias"], index, (1, 2 * size))
            self.bias = m.slice(both, 1, 0, size)
            self.recurrence_bias = m.slice(both, 1, size, 2 * size)
        self.scales, self.input_scales = (
            None if parts.get(n) is None else self._own(parts[n], index, (1, size))
            for n in ("scales", "input_scales")
        )
        self.peepholes = None
        if parts.get("peepholes") is not None:
            self.peepholes = self._own(parts["peepholes"], index, (1, 3 * self.hidden))

    def _own(self, x: Any, index: int, shape: Sequence[int]) -> Any:
        return self.m.slice(x, 0, index, index + 1).reshape(shape)

    def recurrent(self, state: Any) -> Any:
        """The product of states [N, H] with the recurrence; of 8 bits where that has scales."""
        if self.scales is None:
            return self.m.matmul(state, self.recurrence)
        whole, scale = self.m.in_bytes(state, (1,))
        return self.m.matmul(whole, self.recurrence) * (scale * self.scales)

    def projected(self, x: Any) -> Any:
        """The product of inputs [T N, I] with the weights, and the bias; of 8 bits with scales."""
        if self.input_scales is None:
            return self.total(self.m.matmul(x, self.weights), self.bias)
        whole, scale = self.m.in_bytes(x, (0, 1))
        return self.total(self.m.matmul(whole, self.weights) * (scale * self.input_scales), self.bias)

    def gate(self, x: Any, index: int, count: int = 1) -> Any:
        """Columns of gate `index` (or `count` gates from there)."""
        return self.m.slice(x, 1, index * self.hidden, (index + count) * self.hidden)

    def activate(self, index: int, x: Any) -> Any:
        """The index-th activation, its input clipped where asked for."""
        bound = self.properties["clip"]
        name, alpha, beta = self.functions[index]
        return self.m.apply(name, self.m.clip(x, bound) if bound else x, alpha, beta)

    def total(self, x: Any, y: Any) -> Any:
        """x + y, where y may be absent."""
        return x if y is None else x + y


#: (direction, projected input of the step [N, G H] with its bias, states) -> new states
Step = Callable[[Direction, Any, Sequence[Any]], Sequence[Any]]


def unroll(
    m: Any, step: Step, gates: int, properties: dict[str, Any], parts: dict[str, Any], reverse: Sequence[bool]
) -> list[Any]:
    """[every state, last state, last further states...] of a network, in ONNX's shapes.

    `parts` has input, weights, recurrence, optional bias, lengths, peepholes and `states` (a list
    of initial states, None for zeros), and the numbers steps, samples, inputs, hidden.
    """
    first = properties["layout"] == 1
    steps, samples, hidden = parts["steps"], parts["samples"], parts["hidden"]
    x = parts["input"].transpose((1, 0, 2)) if first else parts["input"]
    flat = x.reshape((steps * samples, parts["inputs"]))
    every: list[Any] = []
    last: list[list[Any]] = [[] for _ in parts["states"]]
    for index, backwards in enumerate(reverse):
        d = Direction(m, properties, index, parts, gates)
        projected = d.projected(flat)
        states = [_initial(m, s, index, first, samples, hidden) for s in parts["states"]]
        outputs: dict[int, Any] = {}
        for t in range(steps - 1, -1, -1) if backwards else range(steps):
            new = list(step(d, m.slice(projected, 0, t * samples, (t + 1) * samples), states))
            shown = new[0]
            if parts.get("lengths") is not None:
                mask = m.longer(parts["lengths"], t)
                shown = m.where(mask, new[0], m.zeros((samples, hidden)))
                new = [m.where(mask, n, o) for n, o in zip(new, states, strict=True)]
            states = new
            outputs[t] = shown.reshape((1, 1, samples, hidden))
        none = m.zeros((0, 1, samples, hidden))
        every.append(m.concat([outputs[t] for t in range(steps)], 0) if steps else none)
        for column, state in zip(last, states, strict=True):
            column.append(state.reshape((1, samples, hidden)))
    results = [m.concat(every, 1), *(m.concat(column, 0) for column in last)]
    if first:
        results = [results[0].transpose((2, 0, 1, 3)), *(r.transpose((1, 0, 2)) for r in results[1:])]
    return results


def _initial(m: Any, state: Any, index: int, first: bool, samples: int, hidden: int) -> Any:
    if state is None:
        return m.zeros((samples, hidden))
    return m.slice(state, int(first), index, index + 1).reshape((samples, hidden))


def activations_of(properties: dict[str, Any], index: int) -> list[tuple[str, float, float]]:
    """(name, alpha, beta) of one direction's activations; alphas and betas go to those that take them."""
    names = [n.strip().lower() for n in properties["activations"].split(",")]
    alphas, betas = list(properties["activation_alpha"]), list(properties["activation_beta"])
    out: list[tuple[str, float, float]] = []
    for name in names:
        alpha, beta = ACTIVATIONS[name]
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        out.append((name, alpha or 0.0, beta or 0.0))
    count = len(out) // (2 if properties["direction"] == "bidirectional" else 1)
    return out[index * count : (index + 1) * count]


def check_clip(name: str, clip: float) -> None:
    """Raise where the bound of a network's activations is none: below 0, or NaN."""
    if not clip >= 0:
        raise VerifyException(f"{name}: clip is {clip}, expected 0 (no clipping) or a positive bound")


class RecurrentOp(PureOp):
    """Fields, checks, result types and unrolling that rnn, gru and lstm share.

    `activations` are names separated by commas, those of the second direction after those of the
    first; `clip` 0 is no clipping.
    """

    GATES = 1
    #: Its name in `recurrent_train` and in a backend's own form.
    KIND: ClassVar[str] = "rnn"
    STATES = 1
    FUNCTIONS = ("tanh",)
    direction = str_prop("forward")
    activations = str_prop()
    activation_alpha = floats_prop(())
    activation_beta = floats_prop(())
    clip = float_prop(0.0)
    layout = int_prop(0)
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    recurrence = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    lengths = opt_operand_def(Tensor)
    initial_state = opt_operand_def(Tensor)

    if TYPE_CHECKING:  # of some of them only
        initial_cell: SSAValue | None
        peepholes: SSAValue | None
        scales: SSAValue | None
        input_scales: SSAValue | None
        input_forget: bool
        linear_before_reset: int
    result = result_def(Tensor)
    last_state = result_def(Tensor)

    def __init__(self, *operands: Any, results: Any = None, predicate: Any = None, **properties: Any) -> None:
        direction = properties.get("direction") or "forward"
        if not properties.get("activations"):
            twice = 2 if direction == "bidirectional" else 1
            properties["activations"] = ",".join(self.FUNCTIONS * twice)
        for name in ("activation_alpha", "activation_beta"):
            if properties.get(name):
                properties[name] = tuple(float(v) for v in properties[name])
        super().__init__(*operands, results=results, predicate=predicate, **properties)

    @classmethod
    def step(cls, d: Direction, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        """One step of one direction."""
        raise NotImplementedError

    def infer(self) -> Sequence[Attribute]:
        x, w, r = self.operands[:3]
        check_float(self.name, x)
        check_choice(self.name, "direction", self.direction, DIRECTIONS)
        check_clip(self.name, self.clip)
        directions = 2 if self.direction == "bidirectional" else 1
        names = [n.strip().lower() for n in self.activations.split(",")]
        for name in names:
            check_choice(self.name, "activation", name, tuple(ACTIVATIONS))
        if len(names) != directions * len(self.FUNCTIONS):
            raise VerifyException(
                f"{self.name}: {len(names)} activations for {directions} directions of "
                f"{len(self.FUNCTIONS)}; give that many"
            )
        for value in (x, w, r):
            if len(shape_of(value)) != 3:
                raise VerifyException(f"{self.name}: {value.type} where a tensor of rank 3 is expected")
        first = self.layout == 1
        steps, samples, inputs = shape_of(x)
        if first:
            steps, samples = samples, steps
        hidden = shape_of(r)[2]
        rows = self.GATES * hidden
        self._expect("weights", w, (directions, rows, inputs))
        self._expect("recurrence", r, (directions, rows, hidden))
        state = (samples, directions, hidden) if first else (directions, samples, hidden)
        wanted = {"bias": (directions, 2 * rows), "peepholes": (directions, 3 * hidden)}
        wanted["scales"] = wanted["input_scales"] = (directions, rows)
        for name, _ in self.operand_groups():
            shape = state if name.startswith("initial") else wanted.get(name)
            for value in self.operand_group(name) if shape is not None else ():
                self._expect(name, value, shape or ())
        for value in present(self.lengths):
            if shape_of(value) != (samples,) or dtype_of(value.type).kind not in "iu":
                raise VerifyException(
                    f"{self.name}: lengths are {value.type} for {samples} samples; give one i32 per sample"
                )
        every = (samples, steps, directions, hidden) if first else (steps, directions, samples, hidden)
        kind = element_of(x)
        return [tensor(every, kind), *(tensor(state, kind) for _ in range(self.STATES))]

    def _expect(self, what: str, value: SSAValue, shape: Sequence[int]) -> None:
        wanted = tensor(shape, element_of(self.operands[0]))
        if value.type != wanted:
            raise VerifyException(f"{self.name}: {what} are {value.type}, expected {wanted}")

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        operands = {n: Term(v, b) for n, _ in self.operand_groups() for v in self.operand_group(n)}
        properties = {n: getattr(self, n) for n in self.get_irdl_definition().properties}
        m = GraphMath(Term(self.operands[0], b))
        shapes = [shape_of(v) for v in self.operands[:3]]
        return [result.value for result in run(m, type(self), properties, operands, shapes)]

    def reference(self, *buffers: Array | None) -> None:
        instr: Any = self
        names = [name for name, _ in self.operand_groups()]
        count = sum(access.writes for access in instr.ACCESS.values())
        results = _run_arrays(instr, dict(zip(names[count:], buffers[count:], strict=True)))
        for buffer, result in zip(buffers, results, strict=False):
            assert buffer is not None
            buffer[...] = result


def run(
    m: Any,
    kind: type[RecurrentOp],
    properties: dict[str, Any],
    operands: dict[str, Any],
    shapes: Sequence[Any],
) -> list[Any]:
    """Unroll an operator of class `kind` on `operands`, by name."""
    steps, samples, inputs = shapes[0]
    if properties["layout"] == 1:
        steps, samples = samples, steps
    states = [operands.get("initial_state"), operands.get("initial_cell")][: kind.STATES]
    parts = {
        **operands,
        "states": states,
        "steps": steps,
        "samples": samples,
        "inputs": inputs,
        "hidden": shapes[2][2],
    }
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    return unroll(m, kind.step, kind.GATES, properties, parts, reverse[properties["direction"]])


def recurrent_sample(
    op: type[RecurrentOp], directions: int, full: bool, more: Sequence[Array], properties: dict[str, Any]
) -> Sample:
    """3 steps of 2 samples with 3 inputs and 2 hidden; `full` has every operand, `more` the last ones."""
    steps, rows = 3, op.GATES * 2
    first = properties.get("layout") == 1
    optional = (
        random(directions, 2 * rows, seed=3),
        np.array([steps, steps - 1], np.int32),
        random(*((2, directions, 2) if first else (directions, 2, 2)), seed=4),
        *more,
    )
    inputs = (
        random(*((2, steps, 3) if first else (steps, 2, 3))),
        random(directions, rows, 3, seed=1),
        random(directions, rows, 2, seed=2),
        *(value if full else None for value in optional),
    )
    return Sample(op, inputs, properties)


def _run_arrays(instr: Any, operands: dict[str, Array | None]) -> list[Array]:
    """The results of a recurrent instruction for its operands by name."""
    wide = {n: None if a is None else a if n == "lengths" else widen(a) for n, a in operands.items()}
    properties = {n: getattr(instr, n) for n in instr.GRAPH_OP.get_irdl_definition().properties}
    x, w, r = wide["input"], wide["weights"], wide["recurrence"]
    assert x is not None and w is not None and r is not None
    return run(ArrayMath(x.dtype), instr.GRAPH_OP, properties, wide, [x.shape, w.shape, r.shape])
