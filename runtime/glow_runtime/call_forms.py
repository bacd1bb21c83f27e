"""Calls as onnxruntime has them: names of outputs first, then the inputs; the result is a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glow_dialects.core.errors import BindingError

if TYPE_CHECKING:
    from glow_runtime.program_source import Signature


def wanted_outputs(names: object, outputs: Sequence[Signature]) -> list[str]:
    """The outputs that a call names, all for None; BindingError for others."""
    known = [s.name for s in outputs]
    if names is None:
        return known
    if isinstance(names, str) or not isinstance(names, Sequence):
        kind = type(names).__name__
        forms = "run({name: array}), or run([name of an output], {name: array})"
        raise BindingError(f"{forms}; not a {kind} and a dict")
    listed: list[Any] = list(names)  # pyright: ignore[reportUnknownArgumentType]
    for name in listed:
        if name not in known:
            raise BindingError(f"no output {name!r}; the outputs are: {', '.join(known)}")
    return listed or known


def missing(given: Mapping[str, Any], inputs: Sequence[Signature]) -> str:
    """What a call lacks: every input without a value, and what the inputs are."""
    told = ", ".join(f"missing input '{s.name}'" for s in inputs if s.name not in given)
    return f"{told}; the inputs are: {', '.join(s.name for s in inputs)}"


def open_shapes(given: Mapping[str, Any], inputs: Sequence[Signature]) -> str:
    """Types and shapes of the inputs with the names of open sizes, where one is missing and some are open."""
    closed = all(None not in s.shape and s.kind == "tensor" for s in inputs)
    if closed or all(s.name in given for s in inputs):
        return ""
    shown = (f"{s.name} {s.dtype}{s.named_shape}" if s.kind == "tensor" else str(s) for s in inputs)
    return f" ({'; '.join(shown)})"
