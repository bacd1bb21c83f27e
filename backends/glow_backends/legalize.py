"""glow-legalize: nodes that a backend does not run become the smaller nodes that their cards give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import ArgSpec

from glow_backends.base import Backend, get_backend
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.ops.module import functions
from glow_passes.contract import GraphPass
from glow_passes.lower.decompose import decompose


@dataclass(frozen=True)
class LegalizePass(GraphPass):
    """Decompose every node that `backend` does not support; written by the backend's name."""

    name = "glow-legalize"
    backend: Backend

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """`glow-legalize{backend=cpu}`."""
        match spec.parameters.get("backend", ()):
            case (str() as name,):
                return cls(get_backend(name))
            case _:
                raise UnsupportedError("name one backend, as in glow-legalize{backend=cpu}")

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """The form that `from_spec` reads."""
        return ArgSpec(self.name, {"backend": (self.backend.name,)})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            decompose(function, self.backend.supports)
