"""Compiled functions with states: parameters whose next values are the last results."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glow_dialects.core.errors import BindingError, UnsupportedError

if TYPE_CHECKING:
    from glow_compiler.functions import CompiledFunction


class FunctionState(Mapping[str, Any]):
    """The states of one caller: a mapping of the parameters' names to values, which calls replace."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._first, self.values_now = dict(first), dict(first)
        self.lock = threading.Lock()

    def __getitem__(self, name: str) -> Any:
        return self.values_now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def reset(self) -> None:
        """Have the first values again."""
        self.values_now = dict(self._first)

    def copy(self) -> FunctionState:
        """Another state with the same values, and the same first ones."""
        made = FunctionState(self._first)
        made.values_now = dict(self.values_now)
        return made

    def __repr__(self) -> str:
        return f"FunctionState({', '.join(self)})"


class StatefulFunction:
    """A compiled function: its parameters `states` have the values that it returned last, behind results.

    f = glow.jit(states=("total",))(step); state = f.state(total=0.0); y = f(x, state=state)
    """

    def __init__(self, compiled: CompiledFunction, states: Sequence[str]) -> None:
        self.compiled, self.states = compiled, tuple(states)
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

    def state(self, **first: Any) -> FunctionState:
        """States with their first values, by default those of the parameters; BindingError for others."""
        for name in first.keys() - set(self.states):
            raise BindingError(f"{self._name} has no state '{name}'; there are: {', '.join(self.states)}")
        values = {n: first.get(n, self._parameters[n].default) for n in self.states}
        missing = [n for n, value in values.items() if value is inspect.Parameter.empty]
        if missing:
            raise BindingError(f"{self._name}: state '{missing[0]}' needs a first value")
        return FunctionState(values)

    def __call__(self, *arguments: Any, state: FunctionState, **keywords: Any) -> Any:
        """The results but for the next values of the states; BindingError where another call uses these."""
        try:
            bound = self._free.bind(*arguments, **keywords)
        except TypeError as error:
            raise BindingError(f"{self._name}: {error}") from None
        bound.apply_defaults()
        if set(state) != set(self.states):
            raise BindingError(f"{self._name}: the state is of another function; take one of its own")
        if not state.lock.acquire(blocking=False):
            raise BindingError(f"{self._name}: the state is used by another call at the same time")
        try:
            given = {**bound.arguments, **state.values_now}
            results = self.compiled(*(given[name] for name in self._parameters))
            count = len(self.states)
            if not isinstance(results, tuple) or len(results) < count:  # pyright: ignore[reportUnknownArgumentType]
                raise BindingError(
                    f"{self._name} returns no tuple of its results and the next values of "
                    f"{', '.join(self.states)}"
                )
            every: tuple[Any, ...] = results
            own = every[: len(every) - count]
            state.values_now = dict(zip(self.states, every[len(own) :], strict=True))
        finally:
            state.lock.release()
        return None if not own else own[0] if len(own) == 1 else own

    def __repr__(self) -> str:
        return f"<glow function {self._name} with states {', '.join(self.states)}>"
