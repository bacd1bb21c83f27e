"""Backend: the interface of backends. A backend is one folder written against this module only.

Running a program that was compiled before needs this module, and must not load the compiler with it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from glow_backends.program_data import Bound as Bound
from glow_backends.program_data import ProgramFiles as ProgramFiles
from glow_backends.program_data import zeros
from glow_backends.report import Report
from glow_dialects.core.errors import BindingError, UnsupportedError
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.plain_arrays import as_plain, check_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Dialect, Operation
    from xdsl.passes import ModulePass

    from glow_dialects.core.graph_op import GraphOp
    from glow_dialects.core.instr_op import InstrOp
    from glow_dialects.core.types import Array
    from glow_dialects.instr.spaces import Memory
    from glow_dialects.ops.module import PlaceholderOp
    from glow_passes.graph.layout import BlockedLayout
    from glow_passes.instr.machine import Work
    from glow_passes.instr.simulate import Timeline
    from glow_passes.quantize.light_layers import IntegerGains


@dataclass(frozen=True)
class Port:
    """An input or output of a compiled program: name, static shape, dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class TimedStep:
    """A step of a program: its operation, its kernel, and the names of the model's nodes that it computes."""

    operation: str
    kernel: str
    nodes: tuple[str, ...]

    @property
    def label(self) -> str:
        """The step on a timeline."""
        return ", ".join(self.nodes[:3]) or self.operation.rpartition(".")[2]


#: The further output of programs that tell the times of their steps.
STEP_TIMES = ".step times"


class Program(ABC):
    """Code for one function, ready to run."""

    inputs: list[Port]
    outputs: list[Port]
    report: Report
    #: Whether the backend runs only parts of it, and the interpreter the rest.
    partial: bool = False
    #: What states and trainables (placeholders of these kinds) hold, by symbol: they change in place from
    #: call to call. A program that has none may leave it out; a backend that trains must have it, with the
    #: arrays that its code reads and writes: trainers set and read weights and moments through it.
    state: dict[str, Array]
    #: Steps whose times each run gives as output STEP_TIMES: [steps, 2], begin and end in seconds by
    #: `time.perf_counter`. Only programs of `compile_timed` have them.
    steps: Sequence[TimedStep] = ()

    @abstractmethod
    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs for checked inputs (`check_inputs` has run); arrays are the caller's to keep.

        It may be called from several threads at once.
        """

    def new_state(self) -> dict[str, Array]:
        """Arrays with the first values of its states and trainables, which `use_state` takes."""
        return {name: np.zeros_like(array) for name, array in self.state.items()}

    def use_state(self, state: Mapping[str, Array]) -> None:
        """Work on these arrays from now on, in place: several programs may share a state, one have several.

        They are of `new_state` of this program or another one; bind afterwards.
        BindingError where one is missing or of another form.
        """
        self.check_state(state)
        self.state = {name: state[name] for name in self.state}

    def check_state(self, state: Mapping[str, Array]) -> None:
        """BindingError where an array for a state is missing or of another form."""
        for name, array in self.state.items():
            other = state.get(name)
            if other is None or other.shape != array.shape or other.dtype != array.dtype:
                form = "missing" if other is None else f"{other.dtype} {other.shape}"
                raise BindingError(f"state '{name}' is {form}, expected {array.dtype} {array.shape}")

    def state_shapes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
        """The shapes of its states and trainables in a run on inputs of these shapes."""
        del shapes
        return {name: array.shape for name, array in getattr(self, "state", {}).items()}

    def run_with(self, inputs: Mapping[str, Array], state: Mapping[str, Array]) -> dict[str, Array]:
        """`run` on these arrays, which change in place, and not on its own states.

        From several threads at once, if each has its own arrays. BindingError as of `use_state`.
        """
        with _RUNNING_WITH:
            own = self.state
            self.use_state(state)
            try:
                return self.run(inputs)
            finally:
                self.use_state(own)

    def timeline(self) -> Timeline | None:
        """The cycles of the device's units in one run, where the program knows them."""
        return None

    def fits(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether the program is for inputs of these shapes."""
        return all(tuple(shapes[p.name]) == p.shape for p in self.inputs)

    def excludes(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether the program is for any size but those of these shapes, which need one of their own."""
        return False

    def limits(self, shapes: Mapping[str, Sequence[int]]) -> str:
        """The sizes that a program of open sizes is for, and what keeps it from being for these."""
        del shapes
        return ""

    def bind(self, inputs: Mapping[str, Array]) -> Bound:
        """The program with memory for its inputs (filled with `inputs`, checked) and outputs."""
        return Bound(self, inputs)


_RUNNING_WITH = ForkLock()
"""Programs of backends that know one set of states at a time run on those of callers one after another."""

#: No machine that this is for has more cores.
MOST_THREADS = 256


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Backend(ABC):
    """A way to run programs, with `threads` workers where it has any use for them.

    Further parameters of `__init__` are the backend's options, which `glow.compile` passes on.
    """

    name: str
    #: The options that it was asked for by name with, where they are not the defaults.
    options: Mapping[str, Any] = MappingProxyType({})
    #: Whether quantised operators of models are computed in float, as their definitions say; see `in_float`.
    exact: bool = False
    #: Whether it compiles modules with sizes that only the run tells (see `glow_dialects.core.extent`).
    OPEN_SIZES: ClassVar[bool] = False
    #: Whether its code looks at the predicates of nodes; of others, they are dropped.
    PREDICATED: ClassVar[bool] = False
    #: Whether nodes of one predicate become a program of their own, which a run leaves out, or some rows of.
    SKIPS: ClassVar[bool] = False

    def __init__(self, threads: int = 1) -> None:
        if not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnsupportedError(f"threads={threads}: a program is shared by 1 to {MOST_THREADS} threads")
        self.threads = threads

    def in_float(self, exact: bool = True) -> Self:
        """The same backend, for quantised operators of models in float where `exact`, else in integers."""
        made = copy(self)
        made.exact = exact
        return made

    @abstractmethod
    def supports(self, op: GraphOp) -> bool:
        """Whether the node runs as it is; others are decomposed."""

    def integer_gains(self) -> IntegerGains:
        """Which layers gain too little from integers here to be worth their rounding."""
        from glow_passes.quantize.light_layers import IntegerGains

        return IntegerGains()

    def memories(self) -> Mapping[str, Memory]:
        """The device's memories beside the main one, by the names in buffer types: `memref<4xf32, "x">`."""
        return {}

    def units(self) -> Mapping[str, int]:
        """The device's units that work side by side, and how many asynchronous instructions each queues."""
        return {}

    def work(self, op: InstrOp) -> Work:
        """The unit and the cycles of an instruction, for schedulers and the simulator."""
        raise UnsupportedError(f"backend {self.name} does not say what {op.name} costs")

    def blocked_layout(self) -> BlockedLayout | None:
        """The device's layout of channels in blocks, which `glow-layout` carries through a graph."""
        return None

    def graph_passes(self) -> Sequence[ModulePass]:
        """Target-specific passes on the lowered graph."""
        return ()

    def outline(self, module: ModuleOp) -> bool:
        """Take loops of a module to functions that `compile` takes; whether no control flow is left."""
        return False

    def instr_passes(self) -> Sequence[ModulePass]:
        """Target-specific passes on the instructions; then dead code goes and each memory is planned."""
        return ()

    def planned_passes(self) -> Sequence[ModulePass]:
        """Target-specific passes that find every buffer's place in its memory, and leave it there."""
        return ()

    @classmethod
    def passes(cls) -> Sequence[type[ModulePass]]:
        """The backend's own passes, for `glow-opt -p`."""
        return ()

    @classmethod
    def dialects(cls) -> Mapping[str, Callable[[], Dialect]]:
        """The backend's own dialects by name, each loaded when a program first uses it."""
        return {}

    @property
    def remembers(self) -> bool:
        """Whether `recall` may find something; if not, nobody need make keys."""
        return False

    def recall(self, key: str) -> Program | None:
        """The program that `remember` kept under `key` in this or another process, if any."""
        return None

    def remember(self, key: str, program: Program) -> None:  # noqa: B027 - most backends keep nothing
        """Keep a program under `key` (which stands for model, shapes and options) for `recall`."""

    def recall_note(self, key: str) -> str | None:
        """The text that `remember_note` kept under `key` in this or another process, if any."""
        return None

    def remember_note(self, key: str, text: str) -> None:  # noqa: B027 - most backends keep nothing
        """Keep a short text under `key` for `recall_note`."""

    def obstacle(self, program: Program) -> str:
        """Why `write_program` cannot write a program; empty where it can."""
        del program
        return f"backend {self.name} has no written form of programs"

    def can_write(self, program: Program) -> bool:
        """Whether `write_program` can write a program."""
        return not self.obstacle(program)

    def write_program(self, program: Program, folder: Path) -> None:
        """Write a program as a new folder that `read_program` of another process reads."""
        raise NotImplementedError(f"{self.name} writes no programs to {folder}: {program}")

    def read_program(self, files: Path | ProgramFiles) -> Program | None:
        """The program that `write_program` wrote; None where there is none that this backend runs."""
        del files

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Memory for a state, which `run_with` of its programs takes."""
        return zeros(shape, dtype)

    def needs(self) -> list[str]:
        """The features of a machine that its programs need."""
        return []

    def lacks(self, needs: Sequence[str]) -> list[str]:
        """Those of such features that this machine lacks."""
        return [n for n in needs if n not in self.needs()]

    def kernel_times(self, module: ModuleOp, inputs: Mapping[str, Array]) -> list[dict[str, Any]]:
        """The steps of a planned module's first function, measured; none where a backend measures nothing.

        Each has `label`, `kernel`, `nodes` (names of what it computes), `seconds`, and `gflops` and `gbytes`
        a second.
        """
        del module, inputs
        return []

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        """Code for a planned instruction function of `module`."""
        return self.compile_graph(module, function)

    def compile_graph(self, module: ModuleOp, function: str = "main") -> Program:
        """Code for a graph function, as `graph_passes` leave it: a backend that defines this in place of
        `compile` needs no instructions, and its operators need none.
        """
        raise UnsupportedError(f"backend {self.name} defines neither compile nor compile_graph")

    @classmethod
    def compiles_graphs(cls) -> bool:
        """Whether it takes graph functions, not instructions."""
        return cls.compile_graph is not Backend.compile_graph

    def compile_timed(self, module: ModuleOp, function: str = "main") -> Program:
        """`compile` of a program that tells when its `steps` were done, where the backend can tell."""
        return self.compile(module, function)

    def consume(self, module: ModuleOp, function: str = "main") -> Program:
        """`compile` of a module that nobody needs afterwards: its constants may go once they are packed."""
        return self.compile(module, function)


def ports(module: ModuleOp, kind: str, function: Operation | None = None) -> list[Port]:
    """The module's placeholders of one kind, as ports under their public names.

    With a function, only those that it uses: an output that it does not write has no value.
    """
    from glow_dialects.core.types import dtype_of, shape_of
    from glow_dialects.ops.module import placeholders

    used = None if function is None else used_symbols(function)
    return [
        Port(public_name(p), shape_of(p.type), dtype_of(p.type))
        for name, p in placeholders(module).items()
        if p.kind.data == kind and (used is None or name in used)
    ]


def used_symbols(function: Operation) -> set[str]:
    """The constants and placeholders that a function reads or writes."""
    symbols = (op.properties.get("symbol") for op in function.walk())
    return {symbol.root_reference.data for symbol in symbols if symbol is not None}  # pyright: ignore


def public_name(op: PlaceholderOp) -> str:
    """The name users know: the importer's `onnx.name`, or the symbol."""
    return getattr(op.attributes.get("onnx.name"), "data", op.sym_name.data)


def check_mapping(inputs: object) -> None:
    """BindingError where inputs are no dict."""
    if not isinstance(inputs, Mapping):
        raise BindingError(f"inputs are a dict of name -> array, not {type(inputs).__name__}; or net(x, y)")


def as_array(name: str, value: Any) -> Array:
    """The value of an input as an array; BindingError as of `as_plain`."""
    return as_plain(f"input '{name}'", value)


def check_inputs(expected: Sequence[Port], inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Arrays for every port; BindingError names what is missing, unknown, or of another shape or dtype."""
    check_mapping(inputs)
    out: dict[str, Array] = {}
    for port in expected:
        if port.name not in inputs:
            _refuse_names(expected, inputs)
        array = as_array(port.name, inputs[port.name])
        check_numbers(port.name, array, port.dtype)
        if array.shape != port.shape:
            raise BindingError(f"input '{port.name}' has shape {array.shape}, expected {port.shape}")
        if array.dtype is not port.dtype:
            if array.dtype != port.dtype and array.dtype.newbyteorder("=") != port.dtype:
                text = f"has dtype {array.dtype}, expected {port.dtype}; convert it with .astype"
                raise BindingError(f"input '{port.name}' {text}")
            array = array.astype(port.dtype, copy=False)  # of another byte order, if anything
        out[port.name] = array
    if len(inputs) != len(expected):
        _refuse_names(expected, inputs)
    return out


def _refuse_names(expected: Sequence[Port], inputs: Mapping[str, Any]) -> NoReturn:
    names = [p.name for p in expected]
    parts = [f"unknown input '{n}'" for n in inputs if n not in names]
    parts += [f"missing input '{n}'" for n in names if n not in inputs]
    raise BindingError(f"{', '.join(parts)}; the inputs are: {', '.join(names) or 'none'}")


_OWN = {
    "cpu": ("glow_backends.cpu.backend", "CpuBackend"),
    "interpreter": ("glow_backends.interpreter.backend", "InterpreterBackend"),
}
"""Module and class of this project's backends."""


def _own(name: str) -> type[Backend]:
    module, kind = _OWN[name]
    return getattr(import_module(module), kind)


def registry() -> dict[str, type[Backend]]:
    """Backends by name: ours, and those that packages offer through the `glow.backends` entry point.

    One that cannot be loaded is left out, with a warning that names its package.
    """
    from glow_dialects.core.packages import added

    return {**added("glow.backends", _no_backend), **{name: _own(name) for name in _OWN}}


def _no_backend(thing: Any) -> str | None:
    """What keeps an object of a package from being a backend."""
    good = isinstance(thing, type) and issubclass(thing, Backend)
    return None if good else f"{thing!r} is no class derived from Backend"


def backend_passes() -> dict[str, type[ModulePass]]:
    """Every backend's own passes, by name; those of one that fails to say are left out with a warning."""
    from glow_dialects.core.packages import answer_of

    own = {name: answer_of(kind, f"backend {name}", "passes", kind.passes, ()) for name, kind in _ours_last()}
    return {p.name: p for passes in own.values() for p in passes}


def backend_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects of backends and of packages (entry point `glow.dialects`), by name, ours before others."""
    from glow_dialects.core.packages import added, answer_of, no_function

    known = added("glow.dialects", no_function)
    for name, kind in _ours_last():
        known.update(answer_of(kind, f"backend {name}", "dialects", kind.dialects, {}))
    return known


def _ours_last() -> list[tuple[str, type[Backend]]]:
    return sorted(registry().items(), key=lambda pair: pair[0] in _OWN)


def get_backend(name: str, **options: Any) -> Backend:
    """The backend called `name`, with `options`, which may stand behind the name: `npu{hide=false}`.

    `npu+cpu` is `HostFallback`: the first for what it supports, the second for the rest.
    UnsupportedError lists the backends that there are, or the options of this one.
    """
    device, plus, host = name.rpartition("+")
    if plus and host.count("{") == host.count("}"):
        made = import_module("glow_backends.host_fallback").HostFallback  # by name, as own backends are
        return made(device, host, **options)
    if "{" in name:
        name, written = _written(name)
        options = {**options, **written}
    known = {name: _own(name)} if name in _OWN else registry()
    if name not in known:
        raise UnsupportedError(f"no backend '{name}'; there are: {', '.join(sorted(known))}")
    kind = known[name]
    taken = signature(kind).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        if options.get("threads") == 1 and "threads" not in taken:
            del options["threads"]
        for option in options.keys() - taken.keys():
            raise UnsupportedError(
                f"backend {name} has no option '{option}'; there are: {', '.join(taken) or 'none'}"
            )
    try:
        made = kind(**options)
    except (TypeError, ValueError) as error:
        from glow_dialects.core.packages import package_of

        given = ", ".join(f"{n}={v!r}" for n, v in options.items())
        raise UnsupportedError(f"backend {name}{package_of(kind)} refuses {given}: {error}") from error
    made.options = {n: v for n, v in options.items() if n not in taken or v != taken[n].default}
    return made


def _written(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of `npu{hide=false tile=16}`; several values of one option are a tuple."""
    from xdsl.utils.arg_spec import parse_spec
    from xdsl.utils.exceptions import ArgSpecParseError

    try:
        spec = parse_spec(text).normalize_parameter_names()
    except ArgSpecParseError:
        raise UnsupportedError(
            f"'{text}' is no backend with options, as in npu{{tile=16 hide=false}}"
        ) from None
    values = spec.parameters.items()
    return spec.name, {n: v[0] if len(v) == 1 else v or True for n, v in values}
