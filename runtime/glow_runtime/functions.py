"""Functions at run time: one program, an instance for each set of argument types."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from glow_backends.interpreter.functions import Machine
from glow_backends.interpreter.primitives import Closure
from glow_dialects.core.errors import UnsupportedError
from glow_passes.fn.expand_grad import Functions
from glow_passes.fn.lift_closures import lift_closures

Value = Any


class FunctionProgram:
    """A module of functions, closed, with the machine that runs it."""

    def __init__(self, module: ModuleOp, name: str, backend: str) -> None:
        self.source = module
        self.name = name
        self.backend = backend
        self.seconds: dict[str, float] = {}
        self.module = module.clone()
        lift_closures(self.module)
        self.functions = Functions(self.module)
        self.machine = Machine(self.module, self.functions)

    def run(self, arguments: Sequence[Value]) -> Value:
        """The value for some arguments."""
        start = time.perf_counter()
        made = self.machine.run(self.name, arguments)
        self.seconds["run"] = time.perf_counter() - start
        return _public(made, self.name)

    def report(self) -> dict[str, Any]:
        """Seconds of each phase, sizes, and what runs where."""
        table = self.functions.table
        return {
            "backend": self.backend,
            "seconds": dict(self.seconds),
            "functions": len(table),
            "operations": sum(len(f.block.ops) for f in table.values()),
        }


def _public(value: Value, name: str) -> Value:
    if isinstance(value, Closure):
        raise UnsupportedError(f"{name} returns a function; call it inside and return numbers or arrays")
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_public(v, name) for v in value)
    return value
