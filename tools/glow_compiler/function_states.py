"""Compiled functions with states: parameters whose next values are the last results."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_compiler.function_sizes import FunctionSizes, Known, SizedFunction, flattened, rebuilt_value
from glow_dialects.core.errors import BindingError, GlowError, UnsupportedError
from glow_dialects.fn.domain import NotNative
from glow_runtime.functions import checked

if TYPE_CHECKING:
    from glow_compiler.functions import CompiledFunction
    from glow_runtime.state import State


class FunctionState(Mapping[str, Any]):
    """The states of one caller: a mapping of the parameters' names to values, which calls replace.

    Where a program for any size runs the function, its values are kept in place, and grow there.
    """

    def __init__(self, first: Mapping[str, Any], capacity: int | None = None) -> None:
        self._first, self._values = dict(first), dict(first)
        self._capacity = capacity
        self.lock = threading.Lock()
        #: The program that has the values in place, its state, and what is known of each parameter's.
        self._held: tuple[SizedFunction, State] | None = None
        self._known: dict[str, Known] = {}

    def __getitem__(self, name: str) -> Any:
        """A value; those that are kept in place are copied."""
        if self._held is None or name not in self._known:
            return self._values[name]
        known, state = self._known[name], self._held[1]
        return rebuilt_value(known.kind, (state[leaf.name] for leaf in known.leaves))

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Have other values."""
        self._values, self._held = dict(values), None

    def kinds(self, sizes: FunctionSizes) -> dict[str, Known]:
        """What is known of the values, without reading those that are kept in place."""
        if self._held is None:
            self._known = {n: sizes.known(n, checked(v, n)) for n, v in self._values.items()}
        return self._known

    def _state(self, by: SizedFunction) -> State:
        """The values in the places of a program, moved there if they are elsewhere."""
        if self._held is None or self._held[0] is not by:
            values = {n: checked(v, n) for n, v in self.items()}
            leaves = [leaf for name in values for leaf in self._known[name].leaves]
            arrays = (np.asarray(v) for v in flattened(tuple(values.values())))
            given = {leaf.name: a.astype(leaf.dtype) for leaf, a in zip(leaves, arrays, strict=True)}
            self._held = by, by.net.state(given, self._capacity)
        return self._held[1]

    def call(self, sized: SizedFunction, values: tuple[Any, ...]) -> Any:
        """A call of a program on the values in place, which are as they were where it fails."""
        state = self._state(sized)
        grown = state.length
        before = state.copy() if sized.checks and not state.only_grows else None
        try:
            return sized(values, state)
        except (NotNative, GlowError):
            if before is not None:
                self._held = sized, before
            elif state.length > grown:
                state.truncate(grown)
            raise

    def reset(self) -> None:
        """Have the first values again."""
        self.replace(self._first)

    def copy(self) -> FunctionState:
        """Another state with the same values, and the same first ones."""
        made = FunctionState(self._first, self._capacity)
        made._values, made._known = dict(self._values), dict(self._known)
        made._held = None if self._held is None else (self._held[0], self._held[1].copy())
        return made

    @property
    def length(self) -> int:
        """The places that are taken of what grows; 0 where nothing is kept in place and grows."""
        return 0 if self._held is None else self._held[1].length

    def __repr__(self) -> str:
        return f"FunctionState({', '.join(self)})"


class StatefulFunction:
    """A compiled function: its parameters `states` have the values that it returned last, behind results.

    f = glow.jit(states=("total",))(step); state = f.state(total=0.0); y = f(x, state=state)
    """

    def __init__(self, compiled: CompiledFunction, states: Sequence[str]) -> None:
        self.compiled, self.states = compiled, tuple(states)
        self._sizes = compiled.open_sizes
        self._name = getattr(compiled.python, "__name__", "function")
        self._parameters = inspect.signature(compiled.python).parameters
        known = [n for n, p in self._parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        for name in self.states:
            if name not in known:
                raise UnsupportedError(
                    f"jit: states: {self._name} has no parameter '{name}'; there are: {', '.join(known)}"
                )
        free = [p for n, p in self._parameters.items() if n not in self.states]
        needed = [p for p in free if p.default is p.empty]
        self._free = inspect.Signature([*needed, *(p for p in free if p.default is not p.empty)])
        functools.update_wrapper(self, compiled.python, updated=())

    def state(self, *, capacity: int | None = None, **first: Any) -> FunctionState:
        """States with their first values, by default those of the parameters; BindingError for others.

        What grows in place may have `capacity` places, or else as many as it needs.
        """
        for name in first.keys() - set(self.states):
            raise BindingError(f"{self._name} has no state '{name}'; there are: {', '.join(self.states)}")
        values = {n: first.get(n, self._parameters[n].default) for n in self.states}
        missing = [n for n, value in values.items() if value is inspect.Parameter.empty]
        if missing:
            raise BindingError(f"{self._name}: state '{missing[0]}' needs a first value")
        return FunctionState(values, capacity)

    def __call__(self, *arguments: Any, state: FunctionState, **keywords: Any) -> Any:
        """The results but for the next values of the states; BindingError where another call uses these."""
        try:
            bound = self._free.bind(*arguments, **keywords)
        except TypeError as error:
            raise BindingError(f"{self._name}: {error}") from None
        bound.apply_defaults()
        if set(state) != set(self.states):
            raise BindingError(
                f"{self._name}: the state belongs to another function; use a state of this one"
            )
        if not state.lock.acquire(blocking=False):
            raise BindingError(f"{self._name}: the state is used by another call at the same time")
        try:
            return self._run(bound.arguments, state)
        finally:
            state.lock.release()

    def _run(self, arguments: Mapping[str, Any], state: FunctionState) -> Any:
        writes, names = self.compiled.writes, list(self._parameters)
        changed = writes.of([arguments.get(n, state.get(n)) for n in names]) if writes.writes else []
        writes.refuse([i for i in changed if names[i] not in self.states], "a function with states")
        if self._sizes is not None:
            free = {n: checked(v, n) for n, v in arguments.items()}
            known = state.kinds(self._sizes)
            values = [known[n] if n in known else free[n] for n in self._parameters]
            sized = self._sizes.of(values, self.compiled.program, self.states)
            if not isinstance(sized, str):
                try:
                    return _results(state.call(sized, tuple(free[n] for n in self._parameters if n in free)))
                except NotNative:
                    pass  # of these sizes: each has its own program
        given = {**arguments, **state}
        run = self.compiled.pure if changed else self.compiled
        results = run(*(given[name] for name in self._parameters))
        count = len(self.states)
        if not isinstance(results, tuple) or len(results) < count:  # pyright: ignore[reportUnknownArgumentType]
            raise BindingError(
                f"{self._name} returns no tuple of its results and the next values of "
                f"{', '.join(self.states)}"
            )
        every: tuple[Any, ...] = results
        own = every[: len(every) - count]
        state.replace(dict(zip(self.states, every[len(own) :], strict=True)))
        return _results(own)

    def __repr__(self) -> str:
        return f"<glow function {self._name} with states {', '.join(self.states)}>"


def _results(own: tuple[Any, ...]) -> Any:
    """What a call gives for its results: nothing, one, or a tuple of them."""
    return None if not own else own[0] if len(own) == 1 else own
