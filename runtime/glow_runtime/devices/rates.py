"""What devices do a second: as declared, or measured once on this machine and remembered."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glow_backends.base import Backend, Program
from glow_dialects.core.types import tensor_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_runtime.compile import compile_module

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from glow_dialects.core.types import Array
    from glow_runtime.devices.device import Device


class Rates(NamedTuple):
    """Arithmetic operations, bytes of memory, and bytes to and from the host, a second."""

    flops: float
    bandwidth: float
    link: float


#: Kinds whose programs run on the processor of this machine, and what of its bandwidth a tensor has between
#: them and the host: none where that hands on what it has, a third where it is copied there and back.
SHARES = {"cpu": float("inf"), "interpreter": float("inf"), "process": 1 / 3}
#: Of a kind that cannot be measured here: a core of ten years ago, behind a network of 10 Gbit/s.
FOREIGN = Rates(3e10, 1e10, 1e9)


def rates_of(device: Device) -> Rates:
    """The rates of a device: those that it declares; the others are measured, or those of `FOREIGN`."""
    declared = device.flops, device.bandwidth, device.link
    if None not in declared:
        return Rates(*map(float, declared))  # pyright: ignore[reportArgumentType]
    known = FOREIGN
    if device.kind in SHARES:
        flops, bandwidth = _remembered(device.compiler())
        known = Rates(flops, bandwidth, SHARES[device.kind] * bandwidth)
    return Rates(*(k if d is None else float(d) for d, k in zip(declared, known, strict=True)))


#: By backend and the kind of processor that it compiles for.
MEASURED: dict[str, tuple[float, float]] = {}


def _remembered(backend: Backend) -> tuple[float, float]:
    """The rates of a backend on this machine."""
    key = f"rates {backend.name} {backend.threads} {sorted(backend.needs())}"
    if key not in MEASURED:
        text = backend.recall_note(key)
        if text is None:
            text = " ".join(f"{rate:.4g}" for rate in measure(backend))
            backend.remember_note(key, text)
        flops, bandwidth = map(float, text.split())
        MEASURED[key] = flops, bandwidth
    return MEASURED[key]


#: A product of ROWS x SIDE and SIDE x SIDE: weights that a cache holds, as those of most layers.
ROWS, SIDE = 256, 512
#: Floats of each of the tensors that are added: activations that no core's own cache holds.
FLOATS = 1 << 20
#: Runs of which the shortest counts, as many as go in so many seconds.
RUNS, SECONDS = 7, 0.2


def measure(backend: Backend) -> tuple[float, float]:
    """Arithmetic operations and bytes of memory a second, of a product and of a sum; it takes a moment."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, SIDE)).astype(np.float32) for n in (ROWS, SIDE))
    product = _program(backend, x, lambda get, constant: MatmulOp(get, constant(w)))
    y = rng.standard_normal(FLOATS).astype(np.float32)
    total = _program(backend, y, lambda get, constant: AddOp(get, constant(y)))
    return 2 * ROWS * SIDE**2 / _seconds(product, {"x": x}), 3 * y.nbytes / _seconds(total, {"x": y})


def _program(backend: Backend, x: Array, node: Any) -> Program:
    """The program of one node on an input and a constant."""
    from xdsl.dialects.builtin import ModuleOp

    takes = PlaceholderOp.of("x", tensor_of(x))
    function = FuncOp.of("main")
    constants: list[ConstantOp] = []

    def insert(op: Operation) -> Any:
        function.body.block.add_op(op)
        return op.results[0]

    def constant(array: Array) -> Any:
        constants.append(ConstantOp.of("w", array))
        return insert(GetOp.of(constants[0]))

    value = insert(node(insert(GetOp.of(takes)), constant))
    gives = PlaceholderOp.of("y", value.type, "output")
    function.body.block.add_op(SaveOp.of(value, gives))
    return compile_module(ModuleOp([takes, *constants, gives, function]), backend, own=True)


def _seconds(program: Program, inputs: Mapping[str, Array]) -> float:
    """The shortest of some runs."""
    times: list[float] = []
    while len(times) < RUNS and sum(times) < SECONDS:
        start = time.perf_counter()
        program.run(inputs)
        times.append(time.perf_counter() - start)
    return min(times)
