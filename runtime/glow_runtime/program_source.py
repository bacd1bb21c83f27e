"""ProgramSource: a model as an executable needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glow_backends.base import Backend, Program
from glow_dialects.core.errors import ShapeError, UnsupportedError
from glow_dialects.core.extent import Extent

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.conditions import Symbol
    from glow_dialects.core.types import Array
    from glow_runtime.kept_states import KeptStates
    from glow_runtime.lowering import Phases


def checked_shapes(shapes: object) -> dict[str, tuple[Any, ...]]:
    """The shapes of inputs by name, a size alone as one of one axis; ShapeError for anything else."""
    if not isinstance(shapes, Mapping):
        raise ShapeError(f"shapes: a dict of name -> shape is expected, not {shapes!r}")
    return {_name(name): _dimensions(name, shape) for name, shape in shapes.items()}


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ShapeError(f"shapes: the name of an input or dimension is a text, not {name!r}")
    return name


def _dimensions(name: str, shape: Any) -> tuple[Any, ...]:
    if isinstance(shape, int):
        return (shape,)
    try:
        if isinstance(shape, str):
            raise TypeError
        return tuple(d if d is None or isinstance(d, Extent) else index(d) for d in shape)
    except TypeError:
        raise ShapeError(f"shapes: '{name}' is given {shape!r}, expected a tuple of dimensions") from None


Key = tuple[set[str], dict[str, bytes]]
"""What programs of any size are told apart by: the inputs of a call, and the contents of some."""


class Implied(NamedTuple):
    """What a graph implies about its inputs: numbers that one is compared with, sizes that it meets first."""

    numbers: Mapping[str, Sequence[float]]
    sizes: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Signature:
    """Name, shape (None where symbolic) and dtype of an input or output."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype
    #: "tensor", "unranked" (a tensor of any rank), or "other" (a sequence or an optional).
    kind: str = "tensor"
    #: What the model calls its dimensions, "" where it has no name for one; equal names are equal sizes.
    names: tuple[str, ...] = ()

    @property
    def named_shape(self) -> str:
        """The shape with the names of symbolic dimensions: (N, 3, 224, 224)."""
        names = self.names or ("",) * len(self.shape)
        shown = [n or "?" if d is None else str(d) for d, n in zip(self.shape, names, strict=True)]
        return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"

    def __str__(self) -> str:
        dims = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]" if self.kind == "tensor" else f"{self.name}: {self.kind}"


def dimension_name(signature: Signature, axis: int) -> str | None:
    """What an open dimension is called; None where the model fixes it."""
    if axis >= len(signature.shape) or signature.shape[axis] is not None:
        return None
    names = signature.names
    return (names[axis] if axis < len(names) else "") or f"{signature.name}.{axis}"


class ProgramSource(ABC):
    """A model as an executable needs it: what it takes and gives, and its program for some inputs.

    `defaults` are inputs that have a value unless a call gives another: a constant of the program
    otherwise, so that calls that give it run a program of their own. The contents of `value_inputs`
    are part of a specialisation, but for `cache_counts`, of which only is what sizes they are the sum of, as
    axis 2 of the inputs named with it: see that module. `open_programs` are the programs of any size that
    there are from the start.
    `symbols` are open sizes of which limits or divisors are known, by the names that inputs have for them.
    `states` are values that calls hand to each other: their outputs are none of `outputs`, and of their
    inputs those that tell sizes alone are among `inputs`.
    """

    inputs: Sequence[Signature]
    outputs: Sequence[Signature]
    defaults: Sequence[Signature] = ()
    value_inputs: Sequence[str] = ()
    cache_counts: Mapping[str, Sequence[str]] = MappingProxyType({})
    open_programs: Sequence[tuple[Key, Program]] = ()
    symbols: Sequence[Symbol] = ()
    states: KeptStates | None = None
    backend: Backend

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:  # noqa: B027 - signatures say enough
        """BindingError where inputs of these shapes are none of the model's, beyond what signatures say."""

    def accept(self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
        """GlowError where the graph does not take inputs of these shapes, and these contents of some."""
        del values
        self.check(shapes)

    def implied(self) -> Implied:
        """What the graph implies about its inputs."""
        return Implied({}, {})

    def known_shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """Shapes of the inputs that there are programs for from the start."""
        return []

    @abstractmethod
    def program(self, shapes: dict[str, tuple[int, ...]], values: dict[str, Array]) -> Program:
        """A program for these shapes of inputs, and these contents of some."""

    def open_program(self, shapes: Mapping[str, tuple[int, ...]], values: dict[str, Array]) -> Program | None:
        """A program for inputs whose shapes have extents in them; None where there cannot be one."""
        return None

    def keep_states(self, states: KeptStates | None) -> None:
        """Have states: of inputs and outputs, those that are theirs go."""
        self.states = states
        if states is not None:
            self.inputs = [*(s for s in self.inputs if s.name not in states.states), *states.sizes]
            self.outputs = [s for s in self.outputs if s.name not in states.outputs]

    def plain(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the model's own inputs, states too, by those of `inputs`."""
        return dict(shapes) if self.states is None else self.states.plain(shapes)

    def kept(self, module: ModuleOp, shapes: Mapping[str, tuple[int, ...]]) -> ModuleOp:
        """A module for some shapes, its states in place; one with branches or loops takes and gives them.

        Of open sizes, loops have become functions of their turns.
        """
        from glow_dialects.ops.control import has_control
        from glow_dialects.ops.module import has_open_ports

        if self.states is not None and has_control(module) and has_open_ports(module):
            from glow_runtime.compile import outline

            outline(module, self.backend)
        if self.states is not None and not has_control(module):
            self.states.keep(module, shapes)
        elif self.states is not None and not all(k.output for k in self.states.states.values()):
            raise UnsupportedError(
                "a graph with branches or loops does not update states itself: make them inputs and outputs, "
                "and name these, glow.compile(model, states={output: input})"
            )
        return module

    def keyed(self, key: str | None) -> str | None:
        """The key of a program, by that of its model: one with states is another program."""
        return key if key is None or self.states is None else f"{key} {self.states.key}"

    #: The passes of a pipeline in place of the backend's.
    phases: Phases | None = None

    def imported(self, shapes: dict[str, tuple[int, ...]]) -> ModuleOp:
        """The module that a program for these shapes is made of, before any pass; the caller may change it.

        UnsupportedError where there is none.
        """
        del shapes
        raise UnsupportedError("this contains compiled programs, not the graph; compile the model to see it")

    def hint(self, name: str) -> str:
        """The message for a name that a caller takes for an input."""
        del name
        return ""
