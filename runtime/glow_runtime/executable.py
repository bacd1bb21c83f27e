"""Executable: the result of `glow.compile`; one program for each concrete set of input shapes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from glow_backends.base import Bound, Port, Program, as_array, check_inputs, check_mapping
from glow_backends.report import Report
from glow_dialects.core.errors import (
    BindingError,
    ClosedError,
    CompileError,
    GlowError,
    OpenSizes,
    ShapeError,
)
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.plain_arrays import check_numbers
from glow_runtime.cache_counts import as_sizes
from glow_runtime.call_forms import missing, open_shapes, wanted_outputs
from glow_runtime.executable_states import ExecutableStates
from glow_runtime.flights import Flights
from glow_runtime.hot_sizes import HotSizes
from glow_runtime.open_programs import OpenPrograms
from glow_runtime.program_source import ProgramSource, Signature, checked_shapes

if TYPE_CHECKING:
    from glow_backends.base import Backend
    from glow_dialects.core.types import Array
    from glow_runtime.page.report import CompilationReport
    from glow_runtime.state import State

Shapes = Mapping[str, Sequence[int]]
Specialize = Literal["never", "hot", "always"]
SPECIALIZE = ("never", "hot", "always")
LOG = logging.getLogger("glow")


#: The contents of larger inputs are never part of a specialisation.
VALUE_ELEMENTS = 64
#: Shapes whose programs calls find at once.
RECENT = 64
#: Inputs with default values that a message names.
LISTED = 8


class Executable:
    """A compiled model. `glow.compile` makes it.

    It can be used by any number of threads. Runs are parallel, and a program that several of them need is
    compiled once. `close`, or the end of a `with` block, frees it.

    Args:
        source: Compiles the programs.
        limit: How many programs are kept; the least recently used ones are dropped.
        specialize: As for `compile`.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.placeholder("x", ("n",)) * 2.0, "y")
        >>> with glow.compile(g) as net:
        ...     net.run({"x": np.ones(3, np.float32)})["y"].tolist()
        [2.0, 2.0, 2.0]
    """

    def __init__(self, source: ProgramSource, limit: int = 16, specialize: Specialize | None = None) -> None:
        if specialize is not None and specialize not in SPECIALIZE:
            raise GlowError(f"specialize={specialize!r}, expected one of {', '.join(SPECIALIZE)}")
        #: What programs are told apart by: sizes of states are read off inputs that no caller gives.
        self._taken, self.outputs = list(source.inputs), list(source.outputs)
        self._states = None if source.states is None else ExecutableStates(source.states, source)
        self.inputs = self._taken if self._states is None else self._states.inputs
        self.defaults = list(source.defaults)
        self._source = source
        self._optional = {s.name: s for s in source.defaults}
        self._value_inputs = tuple(source.value_inputs)
        self._cache_counts = source.cache_counts
        self._limit = limit
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._dynamic = any(
            None in s.shape or s.kind != "tensor" or s.dtype == object or s.name in self._value_inputs
            for s in self._taken
        )
        self._lock = ForkLock()
        self._flights: Flights[Program] = Flights()
        self._closed = False
        self._always = specialize == "always"
        self._any_size = OpenPrograms(source, eager=specialize in ("never", "hot"))
        self._hot = HotSizes() if specialize == "hot" else None
        self._last: Program | None = None
        #: Shapes and contents that programs were compiled for, as the log names them.
        self._named: set[str] = set()
        #: Whether every input is a tensor of numbers, so that its shape says all that programs differ by.
        self._plain = all(s.kind != "other" and s.dtype != object for s in self._taken)
        self._static: Program | None = None
        #: Names and types of the last calls' inputs, and programs by their shapes: most calls follow these.
        self._recent: tuple[list[tuple[str, np.dtype]], dict[tuple[Any, ...], Program]] | None = None
        if not self._dynamic:
            self._static = self.specialize({s.name: tuple(d or 0 for d in s.shape) for s in self._taken})

    def specialize(self, shapes: Shapes, values: Mapping[str, Array] | None = None) -> Program:
        """The program of these input shapes alone, compiled if there is none; ShapeError for wrong ones."""
        fixed = checked_shapes(shapes)
        known = {s.name: s for s in (*self._taken, *self._optional.values())}
        for name, shape in fixed.items():
            if name not in known:
                raise ShapeError(f"no input '{name}'; the inputs are {', '.join(sorted(known))}")
            if known[name].kind == "tensor" and len(shape) != len(known[name].shape):
                raise ShapeError(f"input '{name}' has {len(known[name].shape)} dimensions, got {shape}")
            if None in shape:
                raise ShapeError(f"input '{name}': {shape} is open; give every size")
        self._any_size.meet(fixed)
        return self._program(fixed, values or {}, alone=True)

    def prepare(self, shapes: Shapes, values: Mapping[str, Array] | None = None) -> Program:
        """The program that a call of these input shapes runs; ShapeError for wrong ones."""
        return self._program(checked_shapes(shapes), values or {})

    def _program(
        self, shapes: dict[str, tuple[int, ...]], values: Mapping[str, Array], alone: bool = False
    ) -> Program:
        """A program for these input shapes, and `alone` for no others."""
        chosen = self._deciding(values, shapes)
        key = self._key(shapes, chosen)
        alone = alone or self._always
        program = self._kept(key) or (None if alone else self._found(key, shapes, chosen))
        if program is None:
            program = self._flights.do(key, lambda: self._compiled(key, shapes, chosen, alone))
        self._last = program
        return program

    def _found(
        self, key: Any, shapes: dict[str, tuple[int, ...]], contents: dict[str, Array]
    ) -> Program | None:
        """A program for any size that is for these; where they have come often, they get their own."""
        program = self._any_size.find(shapes, contents)
        if program is not None and self._hot is not None:
            self._hot.meet(key, lambda: self._compiled(key, shapes, contents, alone=True))
        return program

    def _compiled(
        self, key: Any, shapes: dict[str, tuple[int, ...]], contents: dict[str, Array], alone: bool
    ) -> Program:
        """A program that is kept from now on."""
        program = self._kept(key)
        if program is not None:  # another thread compiled it after this one had looked
            return program
        self._source.check(shapes)
        self._log(shapes, contents)
        reason = ""
        try:
            try:
                program = None if alone else self._any_size.program(shapes, contents)
                if program is not None:
                    return program
            except OpenSizes as error:
                reason = str(error)
            program = self._source.program(shapes, contents)
            if reason:
                program.report.notes["sizes"] = reason
        except MemoryError:
            raise CompileError("the program needs more memory than there is") from None
        with self._lock:
            if self._closed:
                return program
            self._programs[key] = program
            self._programs.move_to_end(key)
            while len(self._programs) > self._limit:
                self._programs.popitem(last=False)
            self._recent = None
        return program

    def _log(self, shapes: Mapping[str, tuple[int, ...]], contents: Mapping[str, Array]) -> None:
        """Name the shapes and contents that no program has met, unless this is the first."""
        texts = [f"{n}={'x'.join(map(str, s)) or 'scalar'}" for n, s in shapes.items() if n not in contents]
        texts += [f"{n}={array.tolist()}" for n, array in contents.items()]
        if self._named:
            LOG.info("compiling for %s", ", ".join([t for t in texts if t not in self._named] or texts))
        self._named.update(texts)

    def _kept(self, key: Any) -> Program | None:
        with self._lock:
            self._open()
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
        return program

    def _deciding(self, values: Mapping[str, Array], shapes: Shapes) -> dict[str, Array]:
        """The inputs whose contents are part of a specialisation, with what these count as."""
        deciding = {n: values[n] for n in self._value_inputs if n in values}
        for name, caches in self._cache_counts.items():
            if name in deciding:
                deciding[name] = as_sizes(deciding[name], caches, shapes)
        return {n: a for n, a in deciding.items() if a.size <= VALUE_ELEMENTS}

    def _key(self, shapes: Mapping[str, tuple[int, ...]], deciding: Mapping[str, Array]) -> Any:
        """The key of a program."""
        contents = tuple((n, a.tobytes()) for n, a in deciding.items()) if deciding else ()
        sizes = tuple(shapes.get(s.name) for s in self._taken)
        if not self._optional:
            return sizes, contents
        return sizes, contents, frozenset((n, s) for n, s in shapes.items() if n in self._optional)

    def _expected(self, names: Mapping[str, Any]) -> list[Signature]:
        """The inputs of a call: all that it must give, and those of the others that it does."""
        if not self._optional:
            return self._taken
        return [*self._taken, *(self._optional[n] for n in names if n in self._optional)]

    def _fixed(self, inputs: Mapping[str, Any]) -> Program | None:
        """The program of a model of one set of shapes, unless a call replaces default values."""
        self._open()
        if self._static is None or not self._optional:
            return self._static
        check_mapping(inputs)
        return self._static if self._optional.keys().isdisjoint(inputs) else None

    def _met(self, inputs: Mapping[str, Any]) -> Program | None:
        """The program for these inputs where they are arrays as declared, of shapes met before."""
        expected = self._expected(inputs)
        if not self._plain or len(inputs) != len(expected):
            return None
        shapes: dict[str, tuple[int, ...]] = {}
        for signature in expected:
            array = inputs.get(signature.name)
            if type(array) is not np.ndarray or array.dtype is not signature.dtype:
                return None
            shapes[signature.name] = array.shape
        deciding = self._deciding(inputs, shapes) if self._value_inputs else {}
        key = self._key(shapes, deciding)
        program = self._kept(key) or self._found(key, shapes, deciding)
        self._last = program or self._last
        return program

    def _again(self, inputs: Mapping[str, Any]) -> Program | None:
        """The program of one of the last calls, where these inputs are arrays of the same forms."""
        recent = self._recent
        if recent is None or type(inputs) is not dict or len(inputs) != len(recent[0]):
            return None
        shapes: list[tuple[int, ...]] = []
        for name, dtype in recent[0]:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return None
            shapes.append(array.shape)
        program = recent[1].get(tuple(shapes))
        if program is not None and program is not self._last:
            self._last = program
        return program

    def _remember(self, inputs: Mapping[str, Any], program: Program) -> None:
        """Take inputs that are arrays as the program takes them for those of calls to come."""
        if self._hot is not None and self._any_size.has(program):
            return  # calls of it are counted
        forms: list[tuple[str, np.dtype]] = []
        shapes: list[tuple[int, ...]] = []
        for port in program.inputs:
            array = inputs.get(port.name)
            if type(array) is not np.ndarray or array.dtype != port.dtype:
                return
            forms.append((port.name, array.dtype))
            shapes.append(array.shape)
        with self._lock:
            recent = self._recent
            kept = {} if recent is None or recent[0] != forms or len(recent[1]) >= RECENT else recent[1]
            self._recent = None if self._closed else (forms, {**kept, tuple(shapes): program})

    @overload
    def run(self, inputs: Mapping[str, Any], state: State | None = None) -> dict[str, Array]: ...
    @overload
    def run(self, inputs: Sequence[str] | None, state: Mapping[str, Any]) -> list[Array]: ...
    def run(self, inputs: Any, state: Any = None) -> dict[str, Array] | list[Array]:
        """Run the model.

        Args:
            inputs: An array for each input, by name.
            state: The states to use and change, made by `Executable.state`; by default the executable's own.

        Returns:
            The outputs by name. `run(names, inputs)`, the call of onnxruntime, returns a list: the outputs of
            these names, or all outputs for None.

        Raises:
            BindingError: An input has a wrong name, shape or element type.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
            >>> glow.compile(g).run({"x": np.array([-1, 2], np.float32)})["y"].tolist()
            [0.0, 2.0]
        """
        if state is not None and not isinstance(inputs, Mapping):
            names, out = wanted_outputs(inputs, self.outputs), self.run(cast("Mapping[str, Any]", state))
            return [out[name] for name in names]
        if self._states is not None:
            return self._states.run(self._chosen, inputs, state)
        if state is not None:
            raise BindingError("this executable has no states; name them: glow.compile(model, states=...)")
        program = self._again(inputs)
        if program is not None:
            return program.run(inputs)
        program, arrays = self._chosen(inputs)
        return program.run(arrays)

    def state(self, values: Mapping[str, Any] | None = None, capacity: int | None = None) -> State:
        """Make the states of another sequence.

        Args:
            values: Initial values by name; the others start as the model says.
            capacity: The maximum length of growing states; by default they grow as needed.

        Returns:
            A State for `run`.

        Raises:
            BindingError: A value has a wrong name, shape or element type.
            GlowError: The model has no states; or, raised by a run, the capacity is used up.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> x, total = g.placeholder("x", (1,)), g.placeholder("total", (1,), kind="state")
            >>> g.update(total, total + x)
            >>> g.save(total + x, "sum")
            >>> net = glow.compile(g)
            >>> state = net.state()
            >>> [float(net.run({"x": np.ones(1, np.float32)}, state=state)["sum"][0]) for _ in range(3)]
            [1.0, 2.0, 3.0]
        """
        if self._states is None:
            raise GlowError("this executable has no states; name them: glow.compile(model, states=...)")
        return self._states.new(values, capacity)

    def _chosen(self, inputs: Mapping[str, Any]) -> tuple[Program, Mapping[str, Any]]:
        """The program for the inputs of a call, and those of them that it takes, checked."""
        program = self._again(inputs)
        if program is not None:
            return program, inputs
        program = self._fixed(inputs)
        if program is not None:
            arrays = self._checked(program.inputs, inputs)
            self._remember(inputs, program)
            return program, arrays
        check_mapping(inputs)
        program = self._met(inputs)
        if program is not None and len(program.inputs) == len(inputs):
            if not self._value_inputs:
                self._remember(inputs, program)
            return program, inputs
        others = {s.name for s in self.inputs if s.kind == "other"}
        if others - set(inputs):
            raise BindingError(missing(inputs, self.inputs))
        arrays = self._check({n: v for n, v in inputs.items() if n not in others})
        program = self._program({n: a.shape for n, a in arrays.items()}, arrays)
        wanted = {p.name for p in program.inputs}
        bound = {n: a for n, a in arrays.items() if n in wanted}
        return program, {**bound, **{n: v for n, v in inputs.items() if n in others}}

    def submit(self, inputs: Mapping[str, Any] | Sequence[str] | None, state: Any = None) -> Future[Any]:
        """Run the model on another thread.

        As many runs are parallel as there are cores. The arrays are read when the run starts, so do not
        change them before.

        Args:
            inputs: An array for each input, by name.
            state: As for `run`.

        Returns:
            A Future of the outputs. `cancel` works while it waits. Its error is that of `run`.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
            >>> future = glow.compile(g).submit({"x": np.ones(2, np.float32)})
            >>> future.result()["y"].tolist()
            [1.0, 1.0]
        """
        from glow_runtime.submission import submit

        self._open()
        return submit(cast("Any", self.run), inputs, state)

    async def run_async(self, inputs: Mapping[str, Any] | Sequence[str] | None, state: Any = None) -> Any:
        """`run` for asyncio, with its errors: other tasks go on meanwhile."""
        from asyncio import wrap_future

        return await wrap_future(self.submit(inputs, state))

    def close(self) -> None:
        """Let go of all programs; further runs are a ClosedError, those that have begun end as they would."""
        with self._lock:
            self._closed, self._static = True, None
            self.forget()

    def forget(self) -> None:
        """Let go of the programs of open dimensions; they are compiled again when they are needed."""
        with self._lock:
            self._last, self._recent = self._static, None
            self._hot = HotSizes() if self._hot is not None else None
            self._any_size = OpenPrograms(self._source, self._any_size.eager)
            self._programs.clear()

    def __enter__(self) -> Executable:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise ClosedError("this executable is closed; compile the model again")

    @property
    def backend(self) -> Backend:
        """What runs the programs."""
        return self._source.backend

    def save(self, path: str | Path, shapes: Sequence[Shapes] = ()) -> None:
        """Write the compiled programs to one file, for `load_program`.

        Args:
            path: The file, usually .glow.
            shapes: Shapes to compile first: dicts of input name -> shape.

        Raises:
            ShapeError: Nothing has been compiled yet.
            UnsupportedError: A program has parts that cannot be saved; nothing is written.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> g.save(g.relu(g.placeholder("x", ("n",))), "y")
            >>> glow.compile(g).save("net.glow", shapes=[{"x": (8,)}])
        """
        from glow_runtime.saved import save

        for item in shapes:
            self.specialize(item)
        self._open()
        known = [*self._programs.items()]
        save(Path(path), self._source, known, self._any_size.programs())

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        """Bind a run to fixed arrays, for calls without copies.

        Args:
            inputs: An array for each input, by name.

        Returns:
            A Bound: write to `bound.inputs`, call `bound()`, and read `bound.outputs`. These arrays stay the
            same.

        Raises:
            BindingError: As for `run`; also if the model has states that grow.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
            >>> bound = glow.compile(g).bind({"x": np.zeros(2, np.float32)})
            >>> bound.inputs["x"][...] = 3
            >>> bound()["y"].tolist()
            [3.0, 3.0]
        """
        if self._states is not None:
            return self._states.bind(self._chosen, inputs)
        program = self._fixed(inputs)
        if program is not None:
            return program.bind(self._checked(program.inputs, inputs))
        if any(s.kind == "other" for s in self.inputs):
            raise BindingError("only tensors can be bound; call run for sequences and optionals")
        arrays = self._check(inputs)
        program = self._program({n: a.shape for n, a in arrays.items()}, arrays)
        wanted = {p.name for p in program.inputs}
        return program.bind({n: a for n, a in arrays.items() if n in wanted})

    def __call__(self, *inputs: Any, **named: Any) -> Array | tuple[Array, ...]:
        """Inputs in order or by name; one output alone, several as a tuple."""
        given = dict(zip((s.name for s in self.inputs), inputs, strict=False))
        if (inputs or not named) and len(inputs) + len(named) != len(self.inputs):
            names = ", ".join(s.name for s in self.inputs)
            raise BindingError(
                f"{len(inputs) + len(named)} inputs given, {len(self.inputs)} expected: {names}"
            )
        if twice := given.keys() & named.keys():
            raise BindingError(f"input '{min(twice)}' is given twice, in order and by name")
        out = self.run({**given, **named})
        values = tuple(out[s.name] for s in self.outputs)
        return values[0] if len(values) == 1 else values

    def __repr__(self) -> str:
        return f"Executable({', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))})"

    def __reduce__(self) -> str:
        raise TypeError(
            "an executable contains machine code of this process and cannot be "
            "pickled; compile the model in the other process"
        )

    def report(self) -> Report:
        """Seconds of stages, kernels, arena and weight bytes of the last program; ShapeError before any.

        Its `html` is a page of the compilation, as `glow.report(net)` makes it.
        """
        report = self.program.report
        report.page = lambda: self._reported().html
        return report

    def _reported(self) -> CompilationReport:
        from glow_runtime.page.report import report  # only who looks needs it

        return report(self)

    def _repr_html_(self) -> str:
        from glow_passes.tables import table

        ports = [("input", *str(s).split(": ", 1)) for s in self.inputs]
        ports += [("output", *str(s).split(": ", 1)) for s in self.outputs]
        shown = table(f"Executable on {self.backend.name}", ("", "name", "type"), ports)
        return shown if self._last is None else shown + self.report()._repr_html_()

    @property
    def source(self) -> ProgramSource:
        """The model, as programs are made of it."""
        self._open()
        return self._source

    @property
    def only_program(self) -> Program | None:
        """The program of a model of one set of shapes, for calls that replace no default value; None where
        calls decide the program."""
        return self._static

    @property
    def program(self) -> Program:
        """The program used last."""
        program = self._last
        if program is None:
            raise ShapeError(
                "nothing has been compiled yet: the model has dynamic dimensions; run it or pass shapes="
            )
        return program

    def _check(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        check_mapping(inputs)
        arrays = {n: as_array(n, a) for n, a in inputs.items()}
        arrays = {n: a.astype(object) if a.dtype.kind in "US" else a for n, a in arrays.items()}
        expected: list[Port] = []
        for signature in self._expected(arrays):
            if signature.kind == "other":
                continue
            array = arrays.get(signature.name)
            check_numbers(signature.name, array, signature.dtype)
            shape: list[int] = []
            for index, dim in enumerate(signature.shape):
                free = dim is None and array is not None and index < array.ndim
                shape.append(array.shape[index] if free and array is not None else dim or 0)
            if array is not None and signature.kind == "unranked":
                shape = list(array.shape)
            if array is not None and None in signature.shape and array.shape != tuple(shape):
                where = f"input '{signature.name}' has shape {array.shape}"
                raise BindingError(f"{where}, expected {signature.named_shape}")
            expected.append(Port(signature.name, tuple(shape), signature.dtype))
        return self._checked(expected, arrays)

    def _checked(self, expected: Sequence[Port], arrays: Mapping[str, Any]) -> dict[str, Array]:
        """The inputs as `check_inputs` has them; of names that are no inputs it is said what they are."""
        try:
            return check_inputs(expected, arrays)
        except BindingError as error:
            check_mapping(arrays)  # names are in nothing else
            names = {s.name for s in self.inputs}
            unknown = [n for n in arrays if n not in names and n not in self._optional]
            if not unknown:
                raise BindingError(f"{error}{open_shapes(arrays, self.inputs)}") from None
            told = [text for n in unknown if (text := self._source.hint(n))]
            if self._optional:
                shown = [*list(self._optional)[:LISTED], *(["..."] if len(self._optional) > LISTED else [])]
                told.append(f"inputs with default values are: {', '.join(shown)}")
            raise BindingError("; ".join([str(error), *told])) from None
