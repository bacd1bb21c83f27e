"""The states of an executable: how callers get them, and which of its inputs they see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from glow_backends.base import Bound, check_mapping
from glow_dialects.core.errors import BindingError
from glow_dialects.core.forks import ForkLock
from glow_runtime.program_source import Signature, dimension_name
from glow_runtime.state import State

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.kept_states import KeptStates
    from glow_runtime.program_source import ProgramSource
    from glow_runtime.state import Choose


class ExecutableStates:
    """What calls of one executable hand to each other; `inputs` are those that callers give."""

    def __init__(self, kept: KeptStates, source: ProgramSource) -> None:
        hidden = {s.name for s in kept.sizes}
        self.inputs: list[Signature] = [s for s in source.inputs if s.name not in hidden]
        self._kept, self._backend = kept, source.backend
        self._dims: dict[str, list[tuple[str, int]]] = {}
        for signature in self.inputs:
            for axis in range(len(signature.shape)):
                name = dimension_name(signature, axis)
                if name is not None:
                    self._dims.setdefault(name, []).append((signature.name, axis))
        self._names = {s.name for s in (*self.inputs, *source.defaults)}
        self._listed = f"the inputs are: {', '.join(s.name for s in self.inputs) or 'none'}"
        self._own: State | None = None
        self._lock = ForkLock()

    def new(self, values: Mapping[str, Any] | None, capacity: int | None) -> State:
        """The states of another sequence; see `Executable.state`."""
        made = State(self._kept, self._backend, self._dims, capacity)
        if values is not None:
            made.set(values)
        return made

    @property
    def own(self) -> State:
        """The states of calls that name none."""
        with self._lock:
            if self._own is None:
                self._own = State(self._kept, self._backend, self._dims, own=True)
            return self._own

    def run(self, choose: Choose, inputs: Mapping[str, Any], state: State | None) -> dict[str, Array]:
        """A call on some states."""
        self._check(inputs)
        if state is None:
            return self.own.run(choose, inputs, wait=True)
        if not state.is_of(self._kept):
            raise BindingError("the state is of another executable: take one of this one, net.state()")
        return state.run(choose, inputs)

    def bind(self, choose: Choose, inputs: Mapping[str, Any]) -> Bound:
        """A run bound to arrays of its own, on the executable's own states."""
        self._check(inputs)
        if any(k.sizes for k in self._kept.states.values()):
            raise BindingError("a model whose states have dynamic sizes cannot be bound; call run")
        return self.own.bind(choose, inputs)

    def _check(self, inputs: Mapping[str, Any]) -> None:
        """BindingError for names that are no inputs, or are states."""
        check_mapping(inputs)
        for name in inputs.keys() - self._names:
            if name in self._kept.states:
                raise BindingError(
                    f"input '{name}' is a state: its value is that of net.state({{'{name}': array}})"
                )
            raise BindingError(f"unknown input '{name}'; {self._listed}")
        missing = [f"missing input '{s.name}'" for s in self.inputs if s.name not in inputs]
        if missing:
            raise BindingError(f"{', '.join(missing)}; {self._listed}")
