"""State: values that calls of an executable pass to each other, changed in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Backend, Bound, Program, as_array
from glow_dialects.core.errors import BindingError, GlowError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.kept_states import Kept, KeptStates

Choose = Callable[[dict[str, Any]], tuple[Program, Mapping[str, Any]]]
"""The program for the inputs of a call, and those of them that it takes."""

_SPARE = 2
"""Places behind a full state, so that the room behind one is a size like any other."""
_FIRST = 254
"""Places of a state that grows, until it needs more."""


class State(Mapping[str, "Array"]):
    """What an executable keeps from call to call for one sequence: `net.run(inputs, state=state)`.

    It is a mapping of names to arrays, which are copies; `state[name] = array` sets a value, and
    `np.savez(file, **state)` writes what `net.state(np.load(file))` reads. What grows has `length` places
    taken of `capacity`: it grows in place, and its memory is doubled where it is full, unless the caller
    said how many there may be. Calls at the same time have states of their own; a BindingError says so.
    After a call that failed while it ran, states that do not grow may be half written: `reset` them.
    """

    def __init__(
        self,
        kept: KeptStates,
        backend: Backend,
        dims: Mapping[str, list[tuple[str, int]]],
        capacity: int | None = None,
        own: bool = False,
    ) -> None:
        if capacity is not None and not (isinstance(capacity, int) and capacity > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GlowError(f"capacity={capacity!r}: expected a positive length")
        if capacity is not None and not kept.growing:
            raise GlowError(f"capacity={capacity}: no state of {', '.join(kept.states)} grows")
        self._kept, self._backend, self._capacity = kept, backend, capacity
        #: Whether it is what the first program that runs has for its own.
        self._is_own = own
        #: For open sizes of states the inputs, and their axes, that have them too.
        self._dims = dims
        self._lock = threading.Lock()
        #: The memory of each state; what grows has more places than are taken.
        self._arrays: dict[str, Array] = {}
        #: By the inputs that tell sizes: the open sizes, but for room.
        self._sizes: dict[str, list[int]] = {}
        #: How many places the last call took, by the same.
        self._last: dict[str, int] = dict.fromkeys((k.sizes for k in kept.growing), 1)
        self.reset()

    # --- values ---------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Array:
        """A copy of a value; BindingError where there is none yet, since calls decide its shape."""
        with self._used():
            return np.array(self._value(self._known(name)))

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a value; BindingError for another shape or type. One that grows may have any length."""
        with self._used():
            self._set({name: value})

    def set(self, values: Mapping[str, Any]) -> None:
        """Set several values at once; what grows together has one length."""
        with self._used():
            self._set(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept.states)

    def __len__(self) -> int:
        return len(self._kept.states)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        grown = f", {self.length} of {self.capacity} places" if self._kept.growing else ""
        return f"State({', '.join(self)}{grown})"

    def reset(self) -> None:
        """Begin anew: nothing of what grows, the first values (mostly 0) of everything else."""
        with self._used():
            for kept in self._kept.states.values():
                if kept.axis is not None and kept.sizes in self._sizes:
                    self._sizes[kept.sizes][kept.place] = 0
                elif kept.axis is None:
                    self._arrays.pop(kept.name, None)
                    if not kept.open_axes and kept.output:
                        self._arrays[kept.name] = self._zeros(kept)

    def copy(self) -> State:
        """Another state with the same values: what follows in one does not change the other."""
        made = State(self._kept, self._backend, self._dims, self._capacity)
        with self._used():
            made._sizes = {name: list(sizes) for name, sizes in self._sizes.items()}
            made._last = dict(self._last)
            for name, array in self._arrays.items():
                kept = self._kept.states[name]
                made._arrays[name] = self._backend.zeros(array.shape, array.dtype)
                made._value(kept)[...] = self._value(kept)
        return made

    @property
    def length(self) -> int:
        """The places that are taken of what grows, the most where states differ; 0 where nothing does."""
        return max((self._length(kept) for kept in self._kept.growing), default=0)

    @property
    def only_grows(self) -> bool:
        """Whether every value is one that grows, all together: `truncate` gives back what was before."""
        return len(self._kept.growing) == len(self._kept.states) and len(self._groups()) == 1

    @property
    def capacity(self) -> int:
        """The places that there is memory for; a limit where the caller gave one."""
        rows = [self._arrays[k.name].shape[k.axis or 0] for k in self._kept.growing if k.name in self._arrays]
        return self._capacity or min(rows, default=_FIRST + _SPARE) - _SPARE

    def truncate(self, length: int) -> None:
        """Keep the first places of what grows; GlowError where there are fewer."""
        with self._used():
            for kept in self._kept.growing:
                if not 0 <= length <= self._length(kept):
                    raise GlowError(
                        f"truncate({length}): state '{kept.name}' has length {self._length(kept)}"
                    )
            for kept in self._kept.growing:
                if kept.sizes in self._sizes:
                    self._sizes[kept.sizes][kept.place] = length

    # --- calls ----------------------------------------------------------------------------------
    def run(self, choose: Choose, inputs: Mapping[str, Any], wait: bool = False) -> dict[str, Any]:
        """A call of an executable on these values, which may have to `wait` for another one."""
        with self._used(wait):
            self._prepare(inputs)
            told = {
                s: max(_SPARE, self._rows(k) - self._length(k) - self._last[s]) for s, k in self._groups()
            }
            program, bound = choose({**inputs, **self._markers(told)})
            if self._kept.states.keys() & {p.name for p in program.inputs}:
                return self._fed(program, bound)
            self._begin(program)
            wanted = program.state_shapes({n: a.shape for n, a in bound.items()})
            after = {s: wanted[k.name][k.axis or 0] - told[s] for s, k in self._groups()}
            for kept in self._kept.growing:
                self._make_room(kept, after[kept.sizes])
            rooms = {s: self._rows(k) - after[s] for s, k in self._groups()}
            if rooms != told:
                program, bound = choose({**inputs, **self._markers(rooms)})
            own = {n: a for n, a in getattr(program, "state", {}).items() if n not in self._arrays}
            out = program.run_with(bound, {**own, **self._arrays})
            for sizes, kept in self._groups():
                self._last[sizes] = after[sizes] - self._length(kept)
                self._sizes[sizes][kept.place] = after[sizes]
            return out

    def bind(self, choose: Choose, inputs: Mapping[str, Any]) -> Bound:
        """A run of an executable bound to arrays of its own and to these values, none of which grows."""
        with self._used():
            self._prepare(inputs)
            program, bound = choose(dict(inputs))
            self._begin(program)
            program.use_state({**program.state, **self._arrays})
            return program.bind(bound)

    def is_of(self, kept: KeptStates) -> bool:
        """Whether these are values of some states."""
        return self._kept is kept

    def _groups(self) -> list[tuple[str, Kept]]:
        """The inputs that tell the sizes of states that grow, with one of the states of each."""
        return list({k.sizes: k for k in self._kept.growing}.items())

    def _fed(self, program: Program, bound: Mapping[str, Any]) -> dict[str, Any]:
        """A call of a program that takes values and gives the next ones."""
        kept = [k for k in self._kept.states.values() if k.output]
        out = program.run({**bound, **{k.name: self._value(k) for k in kept}})
        values = {k.name: out.pop(k.output) for k in kept}
        self._set(values)
        return out

    def _begin(self, program: Program) -> None:
        """Have the first values of states that the model updates itself."""
        missing = [n for n, k in self._kept.states.items() if not k.output and n not in self._arrays]
        if missing:
            first = program.state if self._is_own else program.new_state()
            self._arrays.update({n: first[n] for n in missing if n in first})

    def _prepare(self, inputs: Mapping[str, Any]) -> None:
        """Have memory for all states: open sizes are those of the inputs that have them, too."""
        for kept in self._kept.states.values():
            if kept.sizes:
                asked = [_size(inputs, self._dims.get(d, ())) for d in kept.dims]
                self._meet(kept, asked)
            if kept.name not in self._arrays and kept.output:
                self._arrays[kept.name] = self._zeros(kept)

    def _meet(self, kept: Kept, asked: list[int | None]) -> None:
        """Compare the open sizes of a state with those that inputs have, or take these."""
        known = self._sizes.get(kept.sizes)
        for place, (dim, size) in enumerate(zip(kept.dims, asked, strict=True)):
            if place == kept.place:
                asked[place] = 0
            elif known is not None and size not in (None, known[place]):
                raise BindingError(
                    f"state '{kept.name}' is for {dim}={known[place]}, the "
                    f"inputs have {size}: use another state"
                )
            elif known is None and size is None:
                raise BindingError(
                    f"state '{kept.name}' is {kept.input.named_shape}, and no input determines the size of "
                    f"axis {kept.open_axes[place]}: give its first value, net.state({{'{kept.name}': array}})"
                )
        if known is None:
            self._sizes[kept.sizes] = [size or 0 for size in asked]

    def _markers(self, rooms: Mapping[str, int]) -> dict[str, Array]:
        """The inputs without elements that tell sizes."""
        made: dict[str, Array] = {}
        for name, sizes in self._sizes.items():
            room = [rooms[name]] if name in rooms else []
            made[name] = np.empty((*sizes, *room, 0), np.int8)
        return made

    # --- memory ---------------------------------------------------------------------------------
    def _rows(self, kept: Kept) -> int:
        """The places that there is memory for, spare ones too."""
        return self._arrays[kept.name].shape[kept.axis or 0]

    def _check_capacity(self, kept: Kept, length: int) -> None:
        """GlowError where there may not be so many places."""
        if self._capacity is not None and length > self._capacity:
            raise GlowError(
                f"the state is full: '{kept.name}' would have length {length}, capacity={self._capacity}; "
                "reset or truncate it, or make a larger one: net.state(capacity=...)"
            )

    def _make_room(self, kept: Kept, length: int) -> None:
        """Have memory for a length; GlowError where the capacity that the caller gave is less."""
        array, rows = self._arrays[kept.name], self._rows(kept)
        if length + _SPARE <= rows:
            return
        self._check_capacity(kept, length)
        shape = list(array.shape)
        shape[kept.axis or 0] = max(2 * rows, length + _SPARE)
        made = self._arrays[kept.name] = self._backend.zeros(tuple(shape), array.dtype)
        part = _first(kept.axis or 0, min(rows, self._length(kept)))
        made[part] = array[part]

    def _zeros(self, kept: Kept) -> Array:
        """Memory for a state whose sizes are known."""
        shape = list(self._kept.shape(kept, self._sizes.get(kept.sizes, ())))
        if kept.axis is not None:
            shape[kept.axis] = (self._capacity or max(_FIRST, shape[kept.axis])) + _SPARE
        return self._backend.zeros(tuple(shape), kept.input.dtype)

    def _set(self, values: Mapping[str, Any]) -> None:
        arrays = {self._named(name): self._fitting(self._named(name), v) for name, v in values.items()}
        sizes = {k.sizes: [a.shape[i] for i in k.open_axes] for k, a in arrays.items() if k.sizes}
        for kept in self._kept.states.values():
            wanted = sizes.get(kept.sizes)
            have = None if kept not in arrays else [arrays[kept].shape[i] for i in kept.open_axes]
            if wanted is not None and have != wanted and (have or wanted != self._sizes.get(kept.sizes)):
                others = [k.name for k in self._kept.states.values() if k.sizes == kept.sizes]
                raise BindingError(
                    f"states {', '.join(others)} have common sizes: set them together, with equal sizes"
                )
            if kept.axis is not None and wanted is not None:
                self._check_capacity(kept, wanted[kept.place])
        for kept, array in arrays.items():
            fixed = [n for i, n in enumerate(array.shape) if i != kept.axis]
            old = self._arrays.get(kept.name)
            if kept.sizes:
                self._sizes[kept.sizes] = sizes[kept.sizes]
            if old is None or [n for i, n in enumerate(old.shape) if i != kept.axis] != fixed:
                self._arrays[kept.name] = self._zeros(kept)
            elif kept.axis is not None:
                self._make_room(kept, array.shape[kept.axis])
            self._value(kept)[...] = array

    def _fitting(self, kept: Kept, value: Any) -> Array:
        array, declared = as_array(kept.name, value), kept.input
        pairs = zip(array.shape, declared.shape, strict=False)
        if array.ndim != len(declared.shape) or any(b is not None and a != b for a, b in pairs):
            raise BindingError(
                f"state '{kept.name}' has shape {array.shape}, expected {declared.named_shape}"
            )
        if array.dtype != declared.dtype:
            raise BindingError(
                f"state '{kept.name}' has dtype {array.dtype}, expected {declared.dtype}; "
                "convert it with .astype"
            )
        return array

    def _named(self, name: str) -> Kept:
        if name not in self._kept.states:
            raise BindingError(f"no state '{name}'; the states are {', '.join(self._kept.states)}")
        return self._kept.states[name]

    def _known(self, name: str) -> Kept:
        kept = self._named(name)
        if name not in self._arrays:
            raise BindingError(f"state '{name}' has no value yet: the first call determines its sizes")
        return kept

    def _length(self, kept: Kept) -> int:
        sizes = self._sizes.get(kept.sizes)
        return 0 if sizes is None or kept.axis is None else sizes[kept.place]

    def _value(self, kept: Kept) -> Array:
        """The places of a state that are taken."""
        array = self._arrays[kept.name]
        return array if kept.axis is None else array[_first(kept.axis, self._length(kept))]

    @contextmanager
    def _used(self, wait: bool = False) -> Generator[None]:
        if not self._lock.acquire(blocking=wait):
            raise BindingError(
                "the state is used by another call at the same time; give each its own: net.state() or "
                "state.copy()"
            )
        try:
            yield
        finally:
            self._lock.release()


def _first(axis: int, count: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(count))


def _size(inputs: Mapping[str, Any], places: Sequence[tuple[str, int]]) -> int | None:
    """The size of the first of some inputs' axes that is there."""
    for name, axis in places:
        shape = np.shape(inputs[name]) if name in inputs else ()
        if axis < len(shape):
            return shape[axis]
    return None
