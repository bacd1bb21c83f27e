"""An ONNX model to compile: its ports and facts, remembered from one process to the next.

A model file that has not changed is not read where its programs are remembered too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_backends.base import Backend
from glow_compiler.file_states import digesting, settled, state
from glow_dialects.core.element_types import dtype_named
from glow_dialects.core.errors import GlowError
from glow_runtime.program_source import Signature

if TYPE_CHECKING:
    from onnx import ModelProto

    from glow_dialects.core.types import Array


@dataclass(frozen=True)
class Description:
    """Inputs, inputs with default values, outputs, inputs whose values decide shapes, files, content.

    `cache_counts` are those values that decide nothing up to a size: see `ProgramSource`.

    `content` is a digest, None where nobody asks for it; `files` are the states of the model's files.
    """

    inputs: list[Signature]
    defaults: list[Signature]
    outputs: list[Signature]
    value_inputs: list[str]
    cache_counts: dict[str, list[str]]
    files: list[str]
    content: str | None


class OnnxModel:
    """A path or proto, and the backend that may know it; `proto` is read when it is first needed."""

    def __init__(self, model: Any, backend: Backend) -> None:
        self.path = Path(model) if isinstance(model, str | Path) else None
        self.name = "model" if self.path is None else str(self.path)
        self._model: Any = model
        self._remembers = backend.remembers
        self._note = f"onnx {state(self.path)}" if self.path is not None and self._remembers else None
        note = None if self._note is None else _read(backend.recall_note(self._note))
        self.description = note or self._describe()
        if note is None and self._note is not None and self.path is not None and settled(self.path):
            backend.remember_note(self._note, json.dumps(asdict(self.description), default=str))

    @property
    def proto(self) -> ModelProto:
        """The model, its weights mapped; a GlowError where the file holds none, or another by now."""
        if self.path is None:
            return self._model
        before, proto = self._loaded
        if state(self.path) != before:
            raise GlowError(f"{self.path} has changed since it was compiled first; compile it again")
        return proto

    @cached_property
    def _loaded(self) -> tuple[str, ModelProto]:
        from glow_frontends.onnx import load_mapped

        assert self.path is not None
        return state(self.path), load_mapped(self.path)

    def hint(self, name: str) -> str:
        """The message for a name that a caller takes for an input."""
        from glow_frontends.onnx.model import initialized

        if name not in initialized(self.proto):
            return ""
        return f"'{name}' is a constant of the model; it becomes an input where its graph.input lists it, too"

    def key(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Array]) -> str | None:
        """The key under which a program for these input shapes and values is remembered, if it is at all."""
        if self.description.content is None:
            return None
        digest = hashlib.sha256(self.description.content.encode())
        for name in sorted(shapes):
            digest.update(f"{name} {tuple(shapes[name])}\0".encode())
        for name in sorted(values):
            array = values[name]
            digest.update(f"{name} {array.dtype} {array.shape}\0".encode() + array.tobytes())
        return digest.hexdigest()

    def _describe(self) -> Description:
        with digesting(self.path if self._remembers else None) as of_file:
            from glow_frontends.onnx import signature  # what reads ONNX takes as long as a digest of 300 MB
            from glow_frontends.onnx.fingerprint import content_digest, external_files

            def signatures(arguments: Sequence[signature.Argument]) -> list[Signature]:
                return [Signature(a.name, a.shape, a.dtype, a.kind, a.names) for a in arguments]

            folder = Path() if self.path is None else self.path.parent
            return Description(
                signatures(signature.inputs_of(self.proto)),
                signatures(signature.defaults_of(self.proto)),
                signatures(signature.outputs_of(self.proto)),
                list(signature.value_inputs(self.proto)),
                signature.cache_counts(self.proto),
                [state(folder / name) for name in sorted(external_files(self.proto))],
                content_digest(self.proto, self.path, of_file()) if self._remembers else None,
            )


def _read(text: str | None) -> Description | None:
    """A description that was written; None where its files have changed since."""
    if text is None:
        return None
    try:
        description = json.loads(text)
        if any(state(Path(file.split(" ", 3)[3])) != file for file in description["files"]):
            return None
        inputs, defaults, outputs = (
            [_signature(s) for s in description[kind]] for kind in ("inputs", "defaults", "outputs")
        )
        return Description(
            inputs,
            defaults,
            outputs,
            description["value_inputs"],
            description["cache_counts"],
            description["files"],
            description["content"],
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _signature(text: dict[str, Any]) -> Signature:
    return Signature(
        text["name"],
        tuple(text["shape"]),
        dtype_named(text["dtype"]),
        text["kind"],
        tuple(text["names"]),
    )
