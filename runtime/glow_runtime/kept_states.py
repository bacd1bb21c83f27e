"""KeptStates: which inputs and outputs of a model are one state, and what its programs must know of them.

What is open in a state's shape, and the room behind one that grows, programs read off the shape of a further
input without elements, `sizes`, since the memory of a state says how long it may become, not how long it is.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.state_names import next_name
from glow_runtime.program_source import Signature, dimension_name

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

States: TypeAlias = "Mapping[str, str | tuple[str, int]] | str | None"
Dims = Mapping[str, tuple[int, ...]]
AUTO = "auto"


@dataclass(frozen=True)
class Kept:
    """A state: an input, the output that is its next value, and the axis along which that is longer.

    Without an output it is one that the model updates itself.
    """

    input: Signature
    output: str = ""
    axis: int | None = None
    #: The input that tells its open sizes; "" where there are none.
    sizes: str = ""

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.input.name

    @cached_property
    def open_axes(self) -> list[int]:
        """The axes whose sizes are open."""
        return open_axes_of(self.input)

    @property
    def place(self) -> int:
        """Which of the open sizes is the one that grows; -1 for none."""
        return -1 if self.axis is None else self.open_axes.index(self.axis)

    @cached_property
    def dims(self) -> list[str]:
        """What the open sizes are called."""
        return [dimension_name(self.input, i) or "" for i in self.open_axes]


class KeptStates:
    """The states of a model. `sizes` are the inputs that tell their open sizes."""

    def __init__(self, states: Sequence[Kept]) -> None:
        groups: dict[Any, str] = {}
        self.sizes: list[Signature] = []
        self.states: dict[str, Kept] = {}
        for kept in states:
            if kept.open_axes:
                key = *kept.dims, kept.place
                if key not in groups:
                    groups[key] = f"{kept.name}.sizes"
                    self.sizes.append(_sizes(groups[key], kept))
                kept = replace(kept, sizes=groups[key])
            self.states[kept.name] = kept

    @property
    def rooms(self) -> list[str]:
        """The sizes of the rooms behind states that grow."""
        grow = {k.sizes for k in self.growing}
        return [s.names[-2] for s in self.sizes if s.name in grow]

    @cached_property
    def growing(self) -> list[Kept]:
        """The states that grow."""
        return [kept for kept in self.states.values() if kept.axis is not None]

    @cached_property
    def key(self) -> str:
        """What tells its programs from those of others."""
        return repr([(k.name, k.output, k.axis) for k in self.states.values()])

    @property
    def outputs(self) -> set[str]:
        """The outputs that are next values."""
        return {kept.output for kept in self.states.values()}

    def shape(self, kept: Kept, sizes: Sequence[int]) -> tuple[int, ...]:
        """The shape of a state's value, by its open sizes."""
        found = dict(zip(kept.open_axes, sizes, strict=False))
        return tuple(found[i] if d is None else d for i, d in enumerate(kept.input.shape))

    def plain(self, shapes: Dims) -> dict[str, tuple[int, ...]]:
        """The shapes of the model's inputs, by those that a program is for."""
        known = {s.name for s in self.sizes}
        made = {name: shape for name, shape in shapes.items() if name not in known}
        for kept in self.states.values():
            if kept.output:
                made[kept.name] = self.shape(kept, shapes[kept.sizes] if kept.sizes else ())
        return made

    def keep(self, module: ModuleOp, shapes: Dims) -> None:
        """Let a module for some shapes have states; ShapeError where next values have other shapes."""
        from glow_dialects.core.types import element_type, tensor
        from glow_dialects.ops.module import PlaceholderOp
        from glow_passes.graph.keep_states import Pair, keep_states

        block = module.body.block
        for sizes in self.sizes:
            port = PlaceholderOp.of(sizes.name, tensor(shapes[sizes.name], element_type(sizes.dtype)))
            assert block.first_op is not None
            block.insert_op_before(port, block.first_op)
        keep_states(
            module,
            [
                Pair(k.name, k.output, k.axis, 0 if k.axis is None else shapes[k.sizes][-2])
                for k in self.states.values()
                if k.output
            ],
        )


def _sizes(name: str, kept: Kept) -> Signature:
    """The input that tells the open sizes of a state, and the room behind one that grows."""
    names = (*kept.dims, *([] if kept.axis is None else [f"{kept.name}.room"]), "")
    return Signature(name, (*[None] * (len(names) - 1), 0), np.dtype(np.int8), names=names)


def kept_states(
    chosen: States, inputs: Sequence[Signature], outputs: Sequence[Signature], own: Sequence[Signature] = ()
) -> KeptStates | None:
    """The states of a model: those that a caller names or asks to have recognised, and its `own`; None: none.

    GlowError for names that are none, and for ports that cannot be one value.
    """
    kept = [Kept(s) for s in own]
    if chosen is not None:
        ins, outs = {s.name: s for s in inputs}, {s.name: s for s in outputs}
        pairs = _recognised(ins, outs) if chosen == AUTO else _named(chosen, ins, outs)
        names = {name for name, _ in pairs.values()}
        known = {n for s in inputs if s.name not in names for n in s.names if n}
        kept += [
            Kept(ins[name], output, _axis(ins[name], outs[output], known) if axis is None else axis)
            for output, (name, axis) in pairs.items()
        ]
    return KeptStates(kept) if kept else None


_Pairs = dict[str, tuple[str, int | None]]
"""Inputs by the outputs that are their next values, and the axes along which these are longer, if said."""


def _recognised(ins: Mapping[str, Signature], outs: Mapping[str, Signature]) -> _Pairs:
    found = {output: name for name in ins if (output := next_name(name, outs))}
    pairs: _Pairs = {o: (i, None) for o, i in found.items() if not _apart(ins[i], outs[o], None)}
    if not pairs:
        raise GlowError(
            f"states: no output of {', '.join(outs)} has the name of the next value of an input of "
            f"{', '.join(ins)}; name them: states={{output: input}}"
        )
    return pairs


def _named(chosen: Any, ins: Mapping[str, Signature], outs: Mapping[str, Signature]) -> _Pairs:
    if not isinstance(chosen, Mapping):
        raise GlowError(f"states: a dict of output -> input, or '{AUTO}', not {chosen!r}")
    pairs: _Pairs = {}
    given: Mapping[Any, Any] = chosen  # pyright: ignore[reportUnknownVariableType]
    for output, pair in given.items():
        name, axis = _input_and_axis(pair)
        turned = output in ins and name in outs
        hint = f"; write the output first: {{{name!r}: {output!r}}}" if turned else ""
        if output not in outs:
            raise GlowError(f"states: no output '{output}'; the outputs are {', '.join(outs)}{hint}")
        if name not in ins:
            raise GlowError(f"states: no input '{name}'; the inputs are {', '.join(ins)}")
        if any(name == known for known, _ in pairs.values()):
            raise GlowError(f"states: input '{name}' has two next values; it is one output's")
        why = _apart(ins[name], outs[output], axis)
        if why:
            raise GlowError(f"states: output '{output}' is not the next value of '{name}': {why}")
        pairs[output] = name, axis
    return pairs


def _input_and_axis(pair: Any) -> tuple[str, Any]:
    """What stands behind an output: an input, or an input and an axis."""
    return (pair[0], pair[1]) if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)  # pyright: ignore


def _apart(given: Signature, made: Signature, axis: Any) -> str:
    """Why an output is no next value of an input, longer along `axis`; "" where it may be."""
    if given.kind != "tensor" or made.kind == "other" or given.dtype == object:
        return "states are tensors of numbers"
    if given.dtype != made.dtype:
        return f"it is {made.dtype}, the input {given.dtype}"
    if axis is not None and axis not in open_axes_of(given):
        return f"axis {axis!r} of the input, {given.named_shape}, is none of a dynamic size"
    if made.kind == "unranked":
        return ""
    pairs = zip(given.shape, made.shape, strict=False)
    other = len(given.shape) != len(made.shape) or any(None not in (a, b) and a != b for a, b in pairs)
    return f"its shape is {made.named_shape}, the input's {given.named_shape}" if other else ""


def open_axes_of(given: Signature) -> list[int]:
    """The axes of a port whose sizes are open."""
    return [i for i, d in enumerate(given.shape) if d is None]


def _axis(given: Signature, made: Signature, known: Container[str]) -> int | None:
    """The axis along which a next value is longer: the open one that has another name then; None for none.

    Sizes that other inputs have, too, are no lengths.
    """
    rank = len(given.shape)
    before, after = (s.names if len(s.names) == rank else ("",) * rank for s in (given, made))
    grows = [i for i in open_axes_of(given) if before[i] != after[i] and before[i] not in known]
    named = [i for i in grows if before[i]]
    return grows[0] if len(grows) == 1 else named[0] if len(named) == 1 else None
