"""A recurrent network on the CPU: its spec, how it is cut into blocks, and its packed weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_backends.cpu.emit import values
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.estimates import usually
from glow_dialects.core.extent import Extent

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
Function = tuple[str, float, float]


@dataclass(frozen=True)
class RecurrentSpec:
    """Steps T, samples N, hidden H, directions D, gates G (i o f c; z r h; one).

    `reverse` and `functions` (name, alpha, beta) have one entry a direction. Operands: result
    [T, D, N, H], last state [D, N, H], for LSTM the last cell, projected input [T, N, D, G, H],
    packed recurrence (`pack_recurrence`), then those that are there: recurrent bias [D, G, H],
    lengths [N], initial state and cell [D, N, H], peepholes [D, 3, H] (i o f), scales [D, G, H] (the
    recurrence holds whole numbers of type `scales` then, see glow.lstm); then scratch.
    """

    kind: str
    steps: int
    samples: int
    hidden: int
    reverse: tuple[bool, ...]
    functions: tuple[tuple[Function, ...], ...]
    clip: float = 0.0
    input_forget: bool = False
    linear_before_reset: bool = False
    bias: bool = False
    lengths: str = ""
    initial_state: bool = False
    initial_cell: bool = False
    peepholes: bool = False
    dtype: str = "f32"
    scales: str = ""

    @property
    def gates(self) -> int:
        """Gates of the cell."""
        return GATES[self.kind]


@dataclass(frozen=True)
class RecurrentPlan:
    """Rows of a block of samples, vectors of a block of outputs, blocks a gate."""

    rows: int
    vectors: int
    blocks: int
    lanes: int

    @property
    def width(self) -> int:
        """Outputs of a gate, filled up to whole blocks."""
        return self.blocks * self.vectors * self.lanes


def recurrent_plan(spec: RecurrentSpec, target: CpuTarget) -> RecurrentPlan:
    """How a network is cut."""
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    if isinstance(spec.samples, Extent):
        rows = next(r for r in (4, 2, 1) if not usually(spec.samples, "<", r))
    else:
        rows = next(r for r in (4, 3, 2, 1) if spec.samples % r == 0)
        if rows == 1 and spec.samples > 4:
            rows = 4
    needed = -(-spec.hidden // lanes)
    most = max(1, min(8 if rows == 1 else 4, (target.registers - 4) // (rows + 1)))
    if spec.scales and rows == 1:  # weights are read where they are multiplied
        most = min(8, target.registers - 4)
    blocks = -(-needed // most)
    return RecurrentPlan(rows, -(-needed // blocks), blocks, lanes)


def pack_recurrence(weights: np.ndarray, spec: RecurrentSpec, target: CpuTarget) -> np.ndarray:
    """[D, G H, H] -> [D, G, blocks, H (input), outputs of a block], missing outputs zero.

    Whole numbers have two inputs of an output side by side.
    """
    plan, hidden = recurrent_plan(spec, target), spec.hidden
    directions = len(spec.reverse)
    if spec.scales:
        weights = pad_to(weights.astype(np.dtype(f"int{spec.scales[1:]}")), 2, 2)
        hidden = weights.shape[2]
    padded = np.zeros((directions, spec.gates, plan.width, hidden), weights.dtype)
    padded[:, :, : spec.hidden] = weights.reshape(directions, spec.gates, spec.hidden, hidden)
    split = padded.reshape(directions, spec.gates, plan.blocks, -1, hidden)
    if not spec.scales:
        return np.ascontiguousarray(np.moveaxis(split, 3, 4))
    return np.ascontiguousarray(np.moveaxis(split.reshape(*split.shape[:4], -1, 2), 3, 4))


def recurrence_form(spec: RecurrentSpec, target: CpuTarget) -> str:
    """All that `pack_recurrence` depends on but the weights."""
    plan = recurrent_plan(spec, target)
    return f"{len(spec.reverse)} {spec.gates} {plan.width} {plan.blocks} {spec.scales}"
