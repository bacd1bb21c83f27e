"""Compiled functions whose arrays come in any size: one program for all of them, as models have.

The graph of a function without run-time branches is what an executable makes programs of, for some sizes and
for any. Other functions have a program for each set of shapes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glow_backends.base import Program
from glow_compiler.module_programs import check_sizes, signature_of
from glow_dialects.core.errors import BindingError, GlowError, OpenSizes, ShapeError, raised
from glow_dialects.core.extent import Extent
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.symbols import Symbols, solved
from glow_dialects.fn.domain import NoneType, NotNative, Scalar, TensorType, Text, TupleType, Type, widened
from glow_dialects.fn.record import Record, rebuilt
from glow_runtime.compile import module_key
from glow_runtime.compiler import Compiler
from glow_runtime.executable import Executable, Specialize
from glow_runtime.functions import FunctionProgram, type_of
from glow_runtime.kept_states import kept_states
from glow_runtime.program_source import ProgramSource

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_runtime.state import State

#: Shapes of parameters: sizes, names and None for an array, for others dicts by item, or sequences.
Shapes = Mapping[str, Any]
KEPT = 16
"""Executables of a function: shapes that its `shapes` leave out may be others in each call."""
_LIMITS = re.compile(r"(?P<size>.*?)(?: from (?P<from>\d+))?(?: to (?P<to>\d+))?(?: by (?P<by>\d+))?")


@dataclass(frozen=True)
class _Leaf:
    """An array or number among the arguments: its name, sizes (texts where they are open), NumPy's type."""

    name: str
    dims: tuple[int | str, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class Known:
    """An argument without its value: its type (open sizes are texts), the leaves, shapes that these have."""

    kind: Type
    leaves: tuple[_Leaf, ...]
    met: Mapping[str, tuple[int, ...]]


class FunctionSizes:
    """Which sizes of the arguments of a function are open, and the executables by types of arguments."""

    def __init__(
        self, name: str, parameters: Sequence[str], shapes: Shapes | None, specialize: Specialize | None
    ) -> None:
        self._name, self._parameters = name, list(parameters)
        self._specialize: Specialize | None = specialize
        self._limits: dict[str, tuple[int, float, int]] = {}
        self._shapes = None if shapes is None else {n: self._spec(n, s) for n, s in self._known(shapes)}
        #: Those used last, in the order of use.
        self._made: OrderedDict[Any, SizedFunction | str] = OrderedDict()
        self._lock = ForkLock()

    def _known(self, shapes: Any) -> list[tuple[str, Any]]:
        if not isinstance(shapes, Mapping):
            raise ShapeError(f"jit: shapes is a dict of parameter -> shape, not {shapes!r}")
        given = dict(cast("Mapping[str, Any]", shapes))
        for name in given:
            if name not in self._parameters:
                known = ", ".join(self._parameters)
                raise ShapeError(f"jit: shapes: {self._name} has no parameter '{name}'; there are: {known}")
        return list(given.items())

    def _spec(self, name: str, spec: Any) -> Any:
        """The shapes of a parameter, limits of sizes taken down."""
        if isinstance(spec, Mapping):
            items = cast("Mapping[Any, Any]", spec)
            return {key: self._spec(f"{name}.{key}", item) for key, item in items.items()}
        if not isinstance(spec, tuple | list):
            raise ShapeError(f"jit: shapes: '{name}' is given {spec!r}, expected a tuple of sizes and names")
        sizes = cast("Sequence[Any]", spec)
        if any(isinstance(s, tuple | list | Mapping) for s in sizes):
            return tuple(self._spec(f"{name}[{i}]", s) for i, s in enumerate(sizes))
        return tuple(self._size(name, s) for s in sizes)

    def _size(self, name: str, size: Any) -> int | str | None:
        """A size of a shape; of `n from 1 to 512 by 8` the limits of n are taken down."""
        if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
            return size
        found = _LIMITS.fullmatch(size.strip()) if isinstance(size, str) else None
        if found is None:
            raise ShapeError(f"jit: shapes: '{name}' has the size {size!r}; sizes are numbers, names or None")
        made = Symbols().size(found["size"])
        if found["from"] or found["to"] or found["by"]:
            symbol = made.symbol if isinstance(made, Extent) else None
            if symbol is None:
                raise ShapeError(f"jit: shapes: '{size}': only a name has limits")
            limits = int(found["from"] or 0), float(found["to"] or inf), int(found["by"] or 1)
            Symbols().declare(symbol.name, *limits)
            if self._limits.setdefault(symbol.name, limits) != limits:
                raise ShapeError(f"jit: shapes: '{symbol.name}' has other limits elsewhere; say them once")
        return str(made)

    def of(
        self, values: Sequence[Any], program: FunctionProgram, states: Sequence[str] = ()
    ) -> SizedFunction | str:
        """What runs a function for values of these types; a text says why each shape has its own program.

        `states` are parameters whose next values are the last results; their values may be `Known` ones.
        """
        arguments = [self.known(n, v) for n, v in zip(self._parameters, values, strict=True)]
        key = (*(a.kind for a in arguments), bool(states), program)
        with self._lock:
            made = self._made.get(key)
            if made is None and program.backend.name != "cpu":
                made = self._made[key] = "the interpreter was asked for"
            if made is None:
                try:
                    source = FunctionPrograms(program, arguments, self._limits)
                    source.keep(states, self._parameters)
                    made = SizedFunction(source, self._specialize, len(states))
                except (NotNative, OpenSizes) as reason:
                    made = str(reason)
                self._made[key] = made
            self._made.move_to_end(key)
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        if isinstance(made, str):
            _Door(arguments, self._limits).check({n: s for a in arguments for n, s in a.met.items()})
        return made

    def known(self, name: str, value: Any) -> Known:
        """What is known of an argument."""
        if isinstance(value, Known):
            return value
        leaves: list[_Leaf] = []
        spec: Any = ... if self._shapes is None else self._shapes.get(name)
        kind = self._typed(name, value, spec, leaves)
        met = {leaf.name: np.shape(v) for leaf, v in zip(leaves, flattened((value,)), strict=True)}
        return Known(kind, tuple(leaves), met)

    def _typed(self, name: str, value: Any, spec: Any, leaves: list[_Leaf]) -> Type:
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            names = value.names[1:] if isinstance(value, Record) else ()
            kinds = tuple(
                self._typed(_item(name, names, i), item, _spec_of(spec, names, i), leaves)
                for i, item in enumerate(items)
            )
            return TupleType(kinds, value.names) if isinstance(value, Record) else TupleType(kinds)
        kind = type_of(value)
        if isinstance(kind, Scalar):
            leaves.append(_Leaf(name, (), np.dtype(kind.kind)))
        elif isinstance(kind, TensorType):
            kind = TensorType(cast(Any, self._dims(name, kind.shape, spec)), kind.dtype)
            leaves.append(_Leaf(name, kind.shape, value.dtype))
        return kind

    def _dims(self, name: str, shape: tuple[int, ...], spec: Any) -> tuple[int | str, ...]:
        """The sizes of an array, texts for open ones."""
        if spec is None:
            return shape
        if spec is ...:
            spec = (None,) * len(shape)
        fits = isinstance(spec, tuple) and len(cast("tuple[Any, ...]", spec)) == len(shape)
        wanted: tuple[Any, ...] = cast(Any, spec) if fits else ()
        if not fits or any(isinstance(w, int) and w != n for w, n in zip(wanted, shape, strict=True)):
            raise BindingError(f"{self._name}: '{name}' has shape {shape}, expected {spec}")
        return tuple(f'"{name}.{i}"' if w is None else w for i, w in enumerate(wanted))

    def report(self) -> list[str]:
        """What there is for each set of types of arguments."""
        return [m if isinstance(m, str) else m.report() for m in self._made.values()]


def _item(name: str, names: Sequence[str], index: int) -> str:
    return f"{name}.{names[index]}" if names else f"{name}[{index}]"


def _spec_of(spec: Any, names: Sequence[str], index: int) -> Any:
    """The shapes of an item of a parameter."""
    if isinstance(spec, dict):
        return cast("dict[Any, Any]", spec).get(names[index] if names else index)
    if isinstance(spec, tuple):
        items = cast("tuple[Any, ...]", spec)
        return items[index] if index < len(items) else None
    return spec


class _Door:
    """The inputs that arguments are, and the symbols of their open sizes."""

    def __init__(self, arguments: Sequence[Known], limits: Mapping[str, tuple[int, float, int]]) -> None:
        self.leaves = [leaf for a in arguments for leaf in a.leaves]
        self.names = _declared(Symbols(), limits, {})
        shapes = _open_shapes(self.leaves, self.names)
        self.inputs = [signature_of(leaf.name, shapes[leaf.name], leaf.dtype) for leaf in self.leaves]

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """BindingError for sizes of one name that differ, or outside its limits."""
        check_sizes(self.names, self.inputs, shapes)


class FunctionPrograms(ProgramSource):
    """A function for some types of arguments as a model: a graph for each set of sizes, or for any.

    NotNative where there is no such graph.
    """

    def __init__(
        self,
        program: FunctionProgram,
        arguments: Sequence[Known],
        limits: Mapping[str, tuple[int, float, int]],
    ) -> None:
        self._program, self._arguments = program, list(arguments)
        self._door = _Door(arguments, limits)
        self.inputs, self.leaves = self._door.inputs, self._door.leaves
        met = {name: shape for a in arguments for name, shape in a.met.items()}
        self._door.check(met)
        self.backend = program.backend
        self._compiler = Compiler(program.backend)
        shapes = _open_shapes(self.leaves, self._door.names)
        pairs = [(d, n) for name, shape in shapes.items() for d, n in zip(shape, met[name], strict=True)]
        sizes = {s.name: n * s.divisor for s, n in solved(pairs).items()}
        names = _declared(Symbols(), limits, sizes)  # what is decided is decided for the sizes met
        shapes = _open_shapes(self.leaves, names)
        with names.conditions.provisional():
            graph = self._graph(shapes)
        self.result, self.checks = graph.result, graph.checks
        self.outputs = [
            signature_of(f"out{i}", shape, dtype) for i, (shape, dtype) in enumerate(_forms(self.result))
        ]
        self.symbols = names.conditions.symbols

    def keep(self, states: Sequence[str], parameters: Sequence[str]) -> None:
        """Have the last results for the next values of some parameters; NotNative where they cannot be."""
        if not states:
            return
        ends = self.result.items if isinstance(self.result, TupleType) else ()
        if len(ends) < len(states):
            raise NotNative("no tuple of results and the next values of states")
        own = sum(len(list(_forms(t))) for t in ends[: len(ends) - len(states)])
        held = [leaf.name for name in states for leaf in self._arguments[parameters.index(name)].leaves]
        if len(held) != len(self.outputs) - own:
            raise NotNative("next values of states that are of another form")
        pairs: dict[str, Any] = {f"out{own + i}": name for i, name in enumerate(held)}
        try:
            self.keep_states(kept_states(pairs, self.inputs, self.outputs))
        except GlowError as error:
            raise NotNative(str(error)) from None
        self.leaves = [leaf for leaf in self.leaves if leaf.name not in held]

    def _graph(self, shapes: Mapping[str, Sequence[int]]) -> Any:
        from glow_passes.fn.straight import straight

        every = [leaf for a in self._arguments for leaf in a.leaves]
        names = iter(every)
        types = [_with_shapes(a.kind, names, shapes) for a in self._arguments]
        with self._program.lock:
            return straight(self._program.functions, self._program.name, types, [leaf.name for leaf in every])

    def _module(self, shapes: Mapping[str, tuple[int, ...]]) -> ModuleOp:
        """The graph for some sizes; NotNative where its value is of another kind than for others."""
        from glow_dialects.core.size_text import SYMBOLS, SymbolsAttr

        made = self._graph(self.plain(shapes))
        if _skeleton(made.result) != _skeleton(self.result):
            raise NotNative("results whose types depend on the sizes")
        extents = [d for shape in shapes.values() for d in shape if isinstance(d, Extent)]
        if extents:
            made.module.attributes[SYMBOLS] = SymbolsAttr(extents[0].conditions)
        return self.kept(made.module, shapes)

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._door.check(self.plain(shapes))

    def program(self, shapes: dict[str, tuple[int, ...]], values: dict[str, Array]) -> Program:
        del values
        return self._compiler.recall(self._module(shapes))

    def imported(self, shapes: dict[str, tuple[int, ...]]) -> ModuleOp:
        return self._module(shapes)

    def open_program(self, shapes: Mapping[str, tuple[int, ...]], values: dict[str, Array]) -> Program | None:
        del values

        module = self._module(dict(shapes))
        extents = [d for shape in shapes.values() for d in shape if isinstance(d, Extent)]
        for symbol in extents[0].conditions.symbols:
            if symbol.least >= symbol.most:
                raise OpenSizes(f"the result is valid only for {symbol} = {symbol.example}")
        key = self._compiler.keyed(module_key(module)) if self.backend.remembers else None
        return self._compiler.open(key, shapes, lambda: self._compiler.compile(module, own=True))


def _declared(
    symbols: Symbols, limits: Mapping[str, tuple[int, float, int]], sizes: Mapping[str, int]
) -> Symbols:
    """Symbols of which limits, or sizes that are their examples, are known."""
    for name in {**limits, **sizes}:
        symbols.declare(name, *limits.get(name, (0, inf, 1)), sizes.get(name))
    return symbols


def _open_shapes(leaves: Sequence[_Leaf], symbols: Symbols) -> dict[str, tuple[int, ...]]:
    """The shapes of leaves, symbols for their open sizes."""
    return {
        leaf.name: tuple(symbols.size(d) if isinstance(d, str) else d for d in leaf.dims) for leaf in leaves
    }


def _with_shapes(kind: Type, leaves: Iterator[_Leaf], shapes: Mapping[str, Sequence[int]]) -> Type:
    """A type whose arrays have shapes, by the names of its leaves."""
    match kind:
        case TupleType():
            return kind.of(tuple(_with_shapes(t, leaves, shapes) for t in kind.items))
        case Scalar():
            next(leaves)
            return kind
        case TensorType():
            return TensorType(tuple(shapes[next(leaves).name]), kind.dtype)
        case _:
            return kind


def _forms(kind: Type) -> Iterator[tuple[tuple[int, ...], np.dtype]]:
    """Shapes and types of the numbers and arrays of a value."""
    from glow_dialects.core.types import dtype_of, tensor

    match kind:
        case TupleType():
            for item in kind.items:
                yield from _forms(item)
        case Scalar():
            yield (), np.dtype(kind.kind)
        case TensorType():
            yield kind.shape, dtype_of(tensor((), kind.dtype))
        case _:
            return


def _skeleton(kind: Type) -> Type:
    """A type without what differs from size to size."""
    match kind:
        case TupleType():
            return kind.of(tuple(map(_skeleton, kind.items)))
        case TensorType():
            return TensorType((0,) * len(kind.shape), kind.dtype)
        case _:
            return widened(kind)


class SizedFunction:
    """A function for arguments of some types and any size."""

    def __init__(self, source: FunctionPrograms, specialize: Specialize | None, states: int = 0) -> None:
        self._forms = [(leaf.name, leaf.dtype) for leaf in source.leaves]
        self._result, self._count = source.result, len(source.outputs)
        if states:
            assert isinstance(source.result, TupleType)
            self._result = TupleType(source.result.items[: len(source.result.items) - states])
        #: Whether a run may find what is wrong, as late as when it has replaced states.
        self.checks = source.checks
        self.net = Executable(source, specialize=specialize)

    def __call__(self, values: Sequence[Any], state: State | None = None) -> Any:
        """The value, without the next values of states; NotNative where the run is for the interpreter."""
        out = self.net.run(self._bound(values), state)
        if len(out) > self._count:
            check(out)
        return rebuilt_value(self._result, (out[f"out{i}"] for i in range(self._count)))

    def _bound(self, values: Sequence[Any]) -> dict[str, Array]:
        """The inputs for the arguments of a call, those of states left out."""
        given: dict[str, Array] = {}
        for (name, dtype), value in zip(self._forms, flattened(values), strict=True):
            try:
                given[name] = value if type(value) is np.ndarray else np.asarray(value, dtype)
            except OverflowError:
                raise NotNative("an int of more than 64 bits") from None
        return given

    def report(self) -> str:
        """Which sizes are open in the program that was used last; why some are not."""
        notes = self.net.program.report.notes
        return str(notes.get("sizes", "these sizes alone, so far"))


def check(out: Mapping[str, Array]) -> None:
    """Raise what the outputs of a run count as wrong."""
    from glow_passes.fn.straight import BETWEEN, LEAVE, WRONG

    for name, count in out.items():
        if name.startswith(WRONG) and count:
            kind, message, where = name.split(BETWEEN)[1:]
            raise NotNative(message) if kind == LEAVE else raised(kind, message, where)


def flattened(values: Any) -> Iterator[Any]:
    """The numbers and arrays of arguments."""
    for value in values:
        if isinstance(value, tuple):
            yield from flattened(value)
        elif isinstance(value, dict):
            yield from flattened(cast("dict[str, Any]", value).values())
        elif value is not None and not isinstance(value, str):
            yield value


def rebuilt_value(kind: Type, outputs: Iterator[Array]) -> Any:
    """The value that some numbers and arrays are."""
    match kind:
        case TupleType():
            items = [rebuilt_value(t, outputs) for t in kind.items]
            return rebuilt(kind.names, items) if kind.names else tuple(items)
        case TensorType():
            array = next(outputs)
            return array if array.ndim else array[()]
        case Scalar():
            return next(outputs).item()
        case Text():
            return kind.value
        case _:
            assert isinstance(kind, NoneType)
            return None
