"""The programs of a module: one, or one for each set of sizes that its inputs leave open.

A `.mlir` file that has not changed is not read where its programs are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glow_backends.base import Program, ports, public_name
from glow_compiler.file_states import settled, state
from glow_dialects.core.element_types import dtype_named
from glow_dialects.core.errors import BindingError, ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.files import WEIGHTS
from glow_dialects.core.symbols import Symbols, solved
from glow_runtime.compiler import Compiler
from glow_runtime.kept_states import States, kept_states
from glow_runtime.program_source import ProgramSource, Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array

Shapes = Mapping[str, Sequence[int] | int]
Dims = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Facts:
    """What callers must know of a module: its ports, the states that it updates, its open sizes (name, least,
    most, divisor), its key."""

    inputs: list[Signature]
    outputs: list[Signature]
    states: list[Signature]
    sizes: list[tuple[str, int, int | None, int]]
    key: str | None


class ModulePrograms(ProgramSource):
    """A module, or the path of one, and a compiler. `shapes` are those that a caller fixes, by input."""

    def __init__(
        self,
        model: ModuleOp | Path,
        compiler: Compiler,
        shapes: Shapes | Sequence[Shapes] | None,
        states: States = None,
    ) -> None:
        self._model, self._compiler = model, compiler
        self.backend = compiler.backend
        self.phases = compiler.phases
        self._facts = self._remembered() if isinstance(model, Path) else self._described()
        if self._facts.sizes and not isinstance(model, Path):
            self._model = self.module = model.clone()  # further programs are of what it is now
        self._names = Symbols()
        for name, least, most, divisor in self._facts.sizes:
            self._names.declare(name, least, inf if most is None else most, divisor)
        self.symbols = self._names.conditions.symbols
        self.outputs = self._facts.outputs
        self.inputs = bound_shapes(self._facts.inputs, shapes)
        self._check_fixed()
        self.keep_states(kept_states(states, self.inputs, self.outputs, self._facts.states))

    def _check_fixed(self) -> None:
        """ShapeError where shapes that a caller fixes are no shapes of the inputs."""
        for have, wanted in zip(self._facts.inputs, self.inputs, strict=True):
            pairs = zip(have.shape, wanted.shape, strict=True)
            if any(size is not None and size != fixed for size, fixed in pairs):
                shape = wanted.shape
                raise ShapeError(f"shapes: input '{have.name}' of a module is {have.shape}, not {shape}")

    # --- what is known of the module ----------------------------------------------------------
    @cached_property
    def module(self) -> ModuleOp:
        """The module, read where it is a file."""
        if not isinstance(self._model, Path):
            return self._model
        from glow_compiler.mlir_file import read_mlir

        return read_mlir(self._model)

    def _described(self) -> _Facts:
        from glow_passes.graph.bind_sizes import symbols_of

        module, conditions = self.module, symbols_of(self.module)
        sizes = [
            (s.name, s.least * s.divisor, None if s.most == inf else int(s.most) * s.divisor, s.divisor)
            for s in (conditions.symbols if conditions else ())
        ]
        from glow_runtime.compile import module_key

        remembers = self.backend.remembers and (bool(sizes) or isinstance(self._model, Path))
        return _Facts(
            signatures(module, "input"),
            signatures(module, "output"),
            signatures(module, "state"),
            sizes,
            module_key(module) if remembers else None,
        )

    def _remembered(self) -> _Facts:
        """The facts of a file: those that were noted, where it has not changed since."""
        path, backend = self._model, self.backend
        assert isinstance(path, Path)
        if not backend.remembers:
            return self._described()
        files = [path, path.with_suffix(WEIGHTS)]
        states = [state(file) for file in files]
        note = f"mlir {states}"
        facts = _read(backend.recall_note(note))
        if facts is None:
            facts = self._described()
            if all(map(settled, files)) and states == [state(file) for file in files]:
                backend.remember_note(note, json.dumps(asdict(facts), default=str))
        return facts

    # --- programs ------------------------------------------------------------------------------
    def check(self, shapes: Dims) -> None:
        if not self._facts.sizes:
            return
        check_sizes(self._names, self._facts.inputs, self.plain(shapes))

    def accept(self, shapes: Dims, values: Mapping[str, Array]) -> None:
        del values
        self.check(shapes)
        self._bound(shapes)

    def program(self, shapes: dict[str, tuple[int, ...]], values: dict[str, Array]) -> Program:
        del values
        if self._facts.key is None and not self._facts.sizes and self.states is None:
            return self._compiler.compile(self.module)
        key = self._key(shapes)
        program = None if key is None else self.backend.recall(key)
        if program is None:
            program = self._compiler.compile(self._bound(shapes), own=True)
            self._compiler.remember(key, program)
        return program

    def imported(self, shapes: dict[str, tuple[int, ...]]) -> ModuleOp:
        return self._bound(shapes)

    def open_program(self, shapes: Dims, values: dict[str, Array]) -> Program | None:
        del values
        make = lambda: self._compiler.compile(self._bound(shapes), own=True)  # noqa: E731
        return self._compiler.open(self._key(shapes), shapes, make)

    def _bound(self, shapes: Dims) -> ModuleOp:
        """The module for these shapes of its inputs."""
        from glow_dialects.ops.module import placeholders
        from glow_passes.graph.bind_sizes import bind_sizes, sizes_of

        module = self.module.clone()
        if self._facts.sizes:
            known = {public_name(p): name for name, p in placeholders(module).items()}
            plain = self.plain(shapes).items()
            bind_sizes(module, sizes_of(module, {known[n]: shape for n, shape in plain}))
        return self.kept(module, shapes)

    def _key(self, shapes: Dims) -> str | None:
        key = self._facts.key
        return None if key is None else self._compiler.keyed(self.keyed(f"{key} {sorted(shapes.items())}"))


def _text(shapes: Dims) -> str:
    return ", ".join(f"'{name}' of shape {shape}" for name, shape in shapes.items())


def signatures(module: ModuleOp, kind: str) -> list[Signature]:
    """The ports of a module's main function; sizes that are open have no number but a name."""
    from xdsl.dialects.builtin import StringAttr

    from glow_dialects.instr.memory import InstrFuncOp
    from glow_dialects.ops.module import FuncOp

    main = next((f for f in module.ops if getattr(f, "sym_name", None) == StringAttr("main")), None)
    function = main if kind != "input" and isinstance(main, FuncOp | InstrFuncOp) else None
    return [signature_of(p.name, p.shape, np.dtype(p.dtype)) for p in ports(module, kind, function)]


def check_sizes(names: Symbols, inputs: Sequence[Signature], shapes: Dims) -> None:
    """BindingError where shapes of inputs give sizes of one name several values, or one outside limits."""
    pairs = [
        (names.size(name), size)
        for s in inputs
        for name, size in zip(s.names, shapes[s.name], strict=bool(s.names))
    ]
    try:
        sizes = solved(pairs)
    except ShapeError as error:
        raise BindingError(f"inputs {_text(shapes)}: {error}") from None
    for symbol, size in sizes.items():
        if not symbol.least <= size <= symbol.most:
            most = "" if symbol.most == inf else f" to {int(symbol.most) * symbol.divisor}"
            raise BindingError(
                f"inputs {_text(shapes)}: {symbol} is {size * symbol.divisor}, "
                f"expected {symbol.least * symbol.divisor}{most or ' or more'}"
            )


def signature_of(name: str, shape: Sequence[int], dtype: np.dtype) -> Signature:
    """The signature of a port, the texts of open sizes as their names."""
    if not any(isinstance(d, Extent) for d in shape):
        return Signature(name, tuple(shape), dtype)
    dims = tuple(None if isinstance(d, Extent) else d for d in shape)
    return Signature(name, dims, dtype, names=tuple(map(str, shape)))


def _read(text: str | None) -> _Facts | None:
    """Facts that were written."""
    if text is None:
        return None
    try:
        facts = json.loads(text)
        inputs, outputs, states = (
            [
                Signature(s["name"], tuple(s["shape"]), dtype_named(s["dtype"]), names=tuple(s["names"]))
                for s in facts[kind]
            ]
            for kind in ("inputs", "outputs", "states")
        )
        return _Facts(inputs, outputs, states, [tuple(s) for s in facts["sizes"]], facts["key"])
    except (ValueError, KeyError, TypeError):
        return None


def is_size(name: str, size: Any, inputs: Sequence[Signature]) -> bool:
    """Whether a name and the sizes given for it are those of a dimension of the inputs, and of no input."""
    one = isinstance(size, int) or (isinstance(size, Sequence) and len(cast("Sequence[int]", size)) == 1)
    return one and all(s.name != name for s in inputs) and any(name in s.names for s in inputs)


def with_sizes(signature: Signature, sizes: Mapping[str, Any]) -> Signature:
    """An input whose dimensions of some names have these sizes."""
    if not sizes.keys() & set(signature.names):
        return signature
    numbers = {n: size if isinstance(size, int) else size[0] for n, size in sizes.items()}
    shape = [numbers.get(n, d) for d, n in zip(signature.shape, signature.names, strict=True)]
    return replace(signature, shape=tuple(shape))


def bound_shapes(inputs: list[Signature], shapes: Shapes | Sequence[Shapes] | None) -> list[Signature]:
    """Inputs with the shapes, or the named dimensions, that one dict fixes; ShapeError for others."""
    several = isinstance(shapes, Sequence) and not isinstance(shapes, str)
    if shapes is not None and not isinstance(shapes, Mapping) and not several:
        raise ShapeError(f"shapes: a dict of name -> shape or a list of them, not {type(shapes).__name__}")
    if several and not all(isinstance(item, Mapping) for item in shapes):  # pyright: ignore
        raise ShapeError(f"shapes: a dict of name -> shape or a list of them, not {shapes!r}")
    given = dict(shapes) if isinstance(shapes, Mapping) else {}
    sizes = {name: size for name, size in given.items() if is_size(name, size, inputs)}
    fixed: dict[str, Any] = {name: shape for name, shape in given.items() if name not in sizes}
    inputs = [s if s.name in fixed else with_sizes(s, sizes) for s in inputs]
    declared = {s.name: s for s in inputs}
    for name, shape in fixed.items():
        if name not in declared:
            known = ", ".join(f"{s.name}: {s.named_shape}" for s in inputs)
            raise ShapeError(f"shapes: no input or dimension '{name}'; the inputs are {known}")
        if not hasattr(shape, "__len__"):
            raise ShapeError(f"shapes: input '{name}' is given {shape!r}, expected a tuple of dimensions")
        if declared[name].kind != "unranked" and len(shape) != len(declared[name].shape):
            rank = len(declared[name].shape)
            raise ShapeError(f"shapes: input '{name}' has {rank} dimensions, got {tuple(shape)}")
    return [Signature(s.name, tuple(fixed[s.name]), s.dtype) if s.name in fixed else s for s in inputs]
