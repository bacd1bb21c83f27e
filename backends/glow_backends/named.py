"""Passes that take a backend are written with its name and options: `glow-legalize{backend=npu tile=16}`."""

from __future__ import annotations

from typing import Self

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from glow_backends.base import Backend, get_backend
from glow_dialects.core.errors import UnsupportedError


class BackendSpec(ModulePass):
    """A pass whose options are a backend and that one's options."""

    backend: Backend

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """`glow-legalize{backend=cpu}`; further options are the backend's."""
        values = spec.normalize_parameter_names().parameters
        options = {n: v[0] if len(v) == 1 else v or True for n, v in values.items() if n != "backend"}
        match values.get("backend", ()):
            case (str() as name,):
                return cls(get_backend(name, **options))  # pyright: ignore[reportCallIssue]
            case _:
                raise UnsupportedError(f"name one backend, as in {cls.name}{{backend=cpu}}")

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """The form that `from_spec` reads."""
        options = {n: v if isinstance(v, tuple) else (v,) for n, v in self.backend.options.items()}
        return ArgSpec(self.name, {"backend": (self.backend.name,), **options})
