"""Steps of training whose batch several devices share: gradients on each, their mean, one update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr

from glow_backends.base import Backend, Port, Program, ports
from glow_compiler.training_graph import TrainingGraph, main_of
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.ops.module import PlaceholderOp, SaveOp, placeholders
from glow_passes.partition.nodes import node_graph
from glow_passes.partition.split import extract, split
from glow_runtime.compile import compile_module
from glow_runtime.devices.device import Device, named
from glow_runtime.devices.manager import DeviceManager, Run
from glow_runtime.devices.registry import manager_of
from glow_runtime.host.partitions import Room, divide

if TYPE_CHECKING:
    from glow_runtime.host.partitions import Partition

NEXT = ".next"
"""What follows the name of a state that the gradients' function writes, in its output."""
#: Bytes of gradients for which another part of a step pays, and parts at most. A message to a process costs
#: what adding up half a megabyte does.
BUCKET_BYTES, MOST_BUCKETS = 1 << 20, 8


class DataParallel:
    """The devices of a trainer."""

    def __init__(self, devices: Sequence[Device | str]) -> None:
        asked = [Device.parse(d) if isinstance(d, str) else d for d in devices]
        if len(asked) < 2:
            raise GlowError(f"devices={list(devices)!r}: a batch is shared by two devices or more")
        self.managers = [manager_of(d) for d in named(asked)]
        finalize(self, _close, self.managers)

    def __len__(self) -> int:
        return len(self.managers)


def _close(managers: Sequence[DeviceManager]) -> None:
    for manager in managers:
        manager.close()


class ParallelProgram(Program):
    """A training step for a whole batch; `part` is the step for the samples that one device has.

    `sums`: the loss is a sum over samples, not a mean. Weights and states are here; each device is sent them
    with its samples, and gives gradients and the states that its forward pass changes (running averages, of
    which the mean counts). It computes them in parts, one after another: while it works on the next, what
    the parts before gave (a bucket of gradients) is added up.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        part: TrainingGraph,
        backend: Backend,
        devices: DataParallel,
        sums: bool = False,
    ) -> None:
        self._devices, self._sums = devices, sums
        self.inputs, self.outputs = ports(graph.training, "input"), ports(graph.training, "output")
        gradients, update = _divided(part)
        self._written = _open_states(gradients)
        self._update = compile_module(update, backend)
        self._given = {p.name for p in self._update.inputs}
        self.state: dict[str, Array] = {**_states(part.training), **self._update.state}  # pyright: ignore
        first = devices.managers[0]
        room = Room(first.device, first.name, None)
        label = f"gradients-{id(self)}"
        self._parts = divide(label, gradients, [room], _buckets(gradients)).partitions
        for manager in devices.managers:
            for bucket in self._parts:
                manager.load(bucket.function)
        self._ports = {p.name: p for p in ports(gradients, "input")}
        self._loss = part.loss_name
        self.report = self._update.report

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One step; the loss of the whole batch."""
        total = self._gathered(inputs)
        loss = total.pop(self._loss)
        for symbol in self._written:
            self.state[symbol][...] = total.pop(symbol + NEXT)
        feed = {n: total[n] if n in total else inputs[n] for n in self._given}
        self._update.run(feed)
        return {self._loss: loss}

    def _gathered(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The means of what the devices give, added up in their order, a bucket as soon as all have it."""
        shares = [
            _Share(self._parts, manager, {n: self._part(p, inputs, number) for n, p in self._ports.items()})
            for number, manager in enumerate(self._devices.managers)
        ]
        for share in shares:
            share.start()
        total: dict[str, Array] = {}
        failure: BaseException | None = None
        for bucket in range(len(self._parts)):
            for share in shares:
                answer = share.answer(bucket)
                if isinstance(answer, BaseException):
                    failure = failure or answer
                    continue
                for name, value in answer.items():
                    if name not in total:
                        total[name] = np.array(value)
                    elif value.dtype.kind not in "iub":  # numbers of steps and seeds are the same everywhere
                        total[name] += value
        for share in shares:
            share.release()
        if failure is not None:
            raise failure
        for name, value in total.items():
            summed = self._sums and not name.endswith(NEXT)
            if value.dtype.kind not in "iub" and not summed:
                value /= len(shares)
        return total

    def _part(self, port: Port, inputs: Mapping[str, Array], number: int) -> Array:
        """What a device is sent for an input: its samples, or the whole of a state or number."""
        if port.name not in inputs:
            return self.state[port.name]
        whole = inputs[port.name]
        if whole.shape == port.shape:
            return whole
        size = port.shape[0]
        return whole[number * size : (number + 1) * size]


class _Share:
    """The part of a step that one device does, bucket by bucket."""

    def __init__(self, parts: Sequence[Partition], manager: DeviceManager, feed: dict[str, Any]) -> None:
        self._parts, self._manager, self._values = parts, manager, feed
        self._answers: list[SimpleQueue[Mapping[str, Any] | BaseException]] = [SimpleQueue() for _ in parts]
        read = {name for part in parts for name in part.inputs}
        #: Values that only later parts read: they stay on the device.
        self._inner = [frozenset(n for n in part.outputs if n in read) for part in parts]

    def start(self, bucket: int = 0) -> None:
        """Have the device compute a bucket, and then those that follow."""
        part = self._parts[bucket]
        feed = {n: self._values[n] for n in part.inputs}
        run = Run(part.function.name, feed, lambda o, e: self._done(bucket, o, e), self._inner[bucket])
        self._manager.submit(run)

    def _done(self, bucket: int, outputs: Mapping[str, Any] | None, error: BaseException | None) -> None:
        if error is not None:
            for left in self._answers[bucket:]:
                left.put(error)
            return
        assert outputs is not None
        self._values.update((n, outputs[n]) for n in self._inner[bucket])
        if bucket + 1 < len(self._parts):
            self.start(bucket + 1)
        self._answers[bucket].put({n: v for n, v in outputs.items() if n not in self._inner[bucket]})

    def answer(self, bucket: int) -> Mapping[str, Any] | BaseException:
        """What a bucket gave, or why it did not."""
        return self._answers[bucket].get()

    def release(self) -> None:
        """Have the device forget what stayed there."""
        for name in frozenset[str]().union(*self._inner):
            if name in self._values:
                self._manager.release(self._values[name])


def _buckets(gradients: ModuleOp) -> int:
    """How many parts a function of gradients has: no more than it has outputs."""
    outputs = ports(gradients, "output")
    size = sum(prod(p.shape) * p.dtype.itemsize for p in outputs)
    return max(1, min(size // BUCKET_BYTES, MOST_BUCKETS, len(outputs)))


def _divided(part: TrainingGraph) -> tuple[ModuleOp, ModuleOp]:
    """The step's function as two: gradients of some samples, and the update of weights and states."""
    module = part.training.clone()
    function = main_of(module)
    pairs = zip(main_of(part.training).body.block.ops, function.body.block.ops, strict=True)
    updates = {copy for op, copy in pairs if op in part.updates}
    parts = [int(node.op in updates) for node in node_graph(function).nodes]
    first, second = split(function, parts)
    return extract(first), extract(second)


def _open_states(module: ModuleOp) -> list[str]:
    """Make weights and states inputs; those that are written are outputs besides. Returns the latter."""
    written: list[str] = []
    for op in main_of(module).body.block.ops:
        if not isinstance(op, SaveOp):
            continue
        target = op.target()
        assert isinstance(target, PlaceholderOp)
        if target.kind.data in ("state", "trainable"):
            written.append(target.sym_name.data)
            output = PlaceholderOp.of(target.sym_name.data + NEXT, typed(op.input), "output")
            module.body.block.insert_op_after(output, target)
            op.properties["symbol"] = SymbolRefAttr(output.sym_name)
    for target in placeholders(module).values():
        if target.kind.data in ("state", "trainable"):
            target.properties["kind"] = StringAttr("input")
            target.properties.pop("init", None)
            target.attributes.pop("onnx.name", None)
    return written


def _states(module: ModuleOp) -> dict[str, Array]:
    """The first values of weights and states, by symbol."""
    found: dict[str, Array] = {}
    for name, op in placeholders(module).items():
        if op.kind.data in ("state", "trainable"):
            first = None if op.init is None else array_of(op.init, typed(op.type))
            found[name] = np.zeros(shape_of(op.type), dtype_of(op.type)) if first is None else np.array(first)
    return found
