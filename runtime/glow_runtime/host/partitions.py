"""The runtime's partitioner: a module becomes compiled functions, each planned for a device.

Where one backend compiles everything, the module is optimised and lowered for it as a whole and divided after
that: kernels, layouts and fusions are those of the undivided program, and so is every bit of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_backends.base import Backend, Port, ports
from glow_backends.phases import common_phases, instruction_phases, target_phases
from glow_dialects.core.errors import PartitionError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.dialects import context
from glow_dialects.ops.control import has_control
from glow_dialects.ops.module import FuncOp, functions
from glow_passes.partition.cut import Place
from glow_passes.partition.nodes import constants_of, node_graph
from glow_passes.partition.partition import partition, partition_all
from glow_passes.partition.split import device_of, extract, partition_of, segments, split, tell_sizes
from glow_passes.partition.spread import spread
from glow_passes.partition.support import by_support
from glow_passes.pipeline import PassRunner
from glow_runtime.compile import compile_module
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import ChainFunction, DeviceFunction, ProgramFunction
from glow_runtime.devices.rates import rates_of
from glow_runtime.lowering import Phases


@dataclass(frozen=True)
class Partition:
    """A function of a network, and the number of the device that it was planned for."""

    name: str
    function: DeviceFunction
    place: int

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the values that it reads."""
        return self.function.inputs

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the values that it gives."""
        return self.function.outputs

    @property
    def constant_bytes(self) -> int:
        """Bytes of its constants."""
        return self.function.constant_bytes


@dataclass(frozen=True)
class Room:
    """A device and the bytes that are free on it (None: it has no bound)."""

    device: Device
    name: str
    available: int | None

    @property
    def place(self) -> Place:
        """What the partitioner must know."""
        return Place(self.name, self.available, *rates_of(self.device))


@dataclass(frozen=True)
class Division:
    """Partitions in an order that runs, and the inputs and outputs of the whole."""

    partitions: Sequence[Partition]
    inputs: Sequence[Port]
    outputs: Sequence[Port]


def divide(
    name: str, module: ModuleOp, rooms: Sequence[Room], count: int = 0, timed: bool = False
) -> Division:
    """Compile a module for devices, in `count` partitions or as few as their memory allows.

    A plan in the program (`partition` attributes) comes first, then what the devices support, then memory
    and time. `timed` programs tell when their steps were done. PartitionError where no plan does.
    """
    work = module.clone()
    inputs, outputs = ports(work, "input"), _outputs(work)
    with quiet_gc():
        pieces = _planned(work, rooms) or _supported(work, rooms, count)
    for piece in pieces:
        tell_sizes(piece.module, module)
    parts: dict[object, list[_Piece]] = {}
    for number, piece in enumerate(pieces):
        parts.setdefault(number if piece.part is None else ("part", piece.part), []).append(piece)
    given = {port.name for port in outputs}
    made = [_partition(name, p, timed, _needed(p, pieces) | given) for p in parts.values()]
    return Division(made, inputs, outputs)


@dataclass(frozen=True)
class _Piece:
    """A module to compile: `lowered` for the whole graph already, or not. Those of one `part` go together."""

    name: str
    module: ModuleOp
    backend: Backend
    place: int
    constants: Mapping[str, int]
    lowered: bool
    part: int | None = None

    def compiled(self, network: str, timed: bool) -> ProgramFunction:
        module, backend = self.module, self.backend
        names = [p.name for p in ports(module, "input")], [p.name for p in _outputs(module)]
        control = has_control(module)
        if control:
            program = compile_module(module, backend)
        else:
            if not self.lowered:
                _run(module, [*common_phases(backend), *target_phases(backend)])
            _run(module, instruction_phases(backend))
            program = backend.compile_timed(module) if timed else backend.compile(module)
        keep = None if backend.can_write(program) else module
        size = sum(self.constants.values())
        return ProgramFunction(f"{network}/{self.name}", *names, size, program, backend, keep, not control)


def _needed(own: Sequence[_Piece], pieces: Sequence[_Piece]) -> set[str]:
    """The values that pieces of other partitions read."""
    return {port.name for p in pieces if p not in own for port in ports(p.module, "input")}


def _partition(network: str, pieces: Sequence[_Piece], timed: bool, needed: set[str]) -> Partition:
    """The partition of some pieces, which run one after another; it gives those values that are needed."""
    first = pieces[0]
    made = [piece.compiled(network, timed) for piece in pieces]
    if len(made) == 1:
        return Partition(first.name, made[0], first.place)
    given = {name for function in made for name in function.outputs}
    read = dict.fromkeys(n for f in made for n in f.inputs if n not in given)
    size = sum(dict(item for piece in pieces for item in piece.constants.items()).values())
    function = ChainFunction(made[0].name, list(read), sorted(given & needed), size, made)
    return Partition(first.name, function, first.place)


def _run(module: ModuleOp, phases: Phases) -> None:
    runner = PassRunner(context())
    for _, passes in phases:
        runner.run(module, passes)


def _main(module: ModuleOp) -> FuncOp:
    """The function of a module; PartitionError where there are several."""
    every = list(functions(module))
    if len(every) != 1:
        names = ", ".join(f.sym_name.data for f in every) or "none"
        raise PartitionError(f"a network has one function; this module has: {names}")
    return every[0]


def _outputs(module: ModuleOp) -> list[Port]:
    return ports(module, "output", _main(module))


def _pieces(
    made: Sequence[FuncOp],
    rooms: Sequence[Room],
    places: Sequence[int],
    lowered: bool,
    together: bool = False,
) -> list[_Piece]:
    """Modules of functions, each for the room of its number; `together`: those of a partition are one."""
    return [
        _Piece(
            function.sym_name.data,
            extract(function),
            rooms[place].device.compiler(),
            place,
            constants_of(function),
            lowered,
            partition_of(function) if together else None,
        )
        for function, place in zip(made, places, strict=True)
    ]


def _planned(module: ModuleOp, rooms: Sequence[Room]) -> list[_Piece]:
    """The pieces that the program itself asks for, if it does."""
    function = _main(module)
    if all(partition_of(node.op) is None for node in node_graph(function).nodes):
        return []
    made = partition(function, [room.place for room in rooms])
    return _pieces(made, rooms, [(partition_of(f) or 0) % len(rooms) for f in made], lowered=False)


def _supported(module: ModuleOp, rooms: Sequence[Room], count: int) -> list[_Piece]:
    """Pieces by what unlike devices support, or by memory and time on devices that are alike."""
    groups: dict[object, list[int]] = {}
    for index, room in enumerate(rooms):
        groups.setdefault(_likeness(room.device), []).append(index)
    if len(groups) > 1:
        optimized = module.clone()
        if not has_control(module):
            _run(optimized, common_phases(rooms[0].device.compiler()))
        function = _main(optimized)
        members = list(groups.values())
        plan = by_support(node_graph(function), [_supports(rooms[m[0]].device) for m in members])
        used = dict(plan)
        if len(set(used.values())) > 1:
            made = split(function, [part for part, _ in plan])
            turns = {group: 0 for group in used.values()}
            places: list[int] = []
            for piece in made:
                group = used[partition_of(piece) or 0]
                places.append(members[group][turns[group] % len(members[group])])
                turns[group] += 1
            return _pieces(made, rooms, places, lowered=False)
        alike = members[next(iter(used.values()), 0)]
    else:
        alike = list(range(len(rooms)))
    return _alike(module, rooms, alike, count)


#: Tables that no device has room for are cut into parts of its memory by these.
FRACTIONS = (1, 2, 4, 8)


def _alike(module: ModuleOp, rooms: Sequence[Room], alike: Sequence[int], count: int) -> list[_Piece]:
    """Pieces for devices of one backend, by memory and time."""
    backend = rooms[alike[0]].device.compiler()
    chosen = [rooms[i] for i in alike]
    by_name = {rooms[i].name: i for i in alike}
    bounds = [room.available for room in chosen if room.available is not None]
    bound = max(bounds) if len(bounds) == len(chosen) else None
    straight = _segments(module)
    for part in straight:
        if not has_control(part):
            _run(part, common_phases(backend))
    for fraction in FRACTIONS:
        work, tables = [part.clone() for part in straight], 0
        for part in work:
            if not has_control(part):
                tables += 0 if bound is None else spread(_main(part), bound // fraction)
                _run(part, target_phases(backend))
        try:
            made = partition_all([_main(part) for part in work], [room.place for room in chosen], count)
        except PartitionError:
            if not tables or fraction == FRACTIONS[-1]:
                raise
            continue
        places = [by_name[device_of(f) or ""] for f in made]
        return _pieces(made, rooms, places, lowered=True, together=True)
    raise AssertionError(FRACTIONS)


def _segments(module: ModuleOp) -> list[ModuleOp]:
    """The straight parts of a module, and its branches and loops, as modules that run one after another."""
    if not has_control(module):
        return [module]
    function = _main(module)
    parts = split(function, segments(node_graph(function)))
    return [extract(part, part.sym_name.data) for part in parts]


def _likeness(device: Device) -> object:
    """What devices of one backend have in common."""
    backend = device.compiler()
    return type(backend), backend.name, backend.exact, device.threads, device.supported, device.unsupported


def _supports(device: Device) -> Callable[[Operation], bool]:
    """Whether a device runs an operation, or what it is made of."""
    backend = device.compiler()

    def supports(op: Operation) -> bool:
        if not isinstance(op, GraphOp):
            return True
        if op.name in device.unsupported or (device.supported and op.name not in device.supported):
            return False
        return backend.supports(op) or op.can_decompose()

    return lambda op: all(map(supports, op.walk()))
