"""settle: the shapes of a model's inputs for a run of which they are not said, remembered with the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_compiler.file_states import settled as unchanged
from glow_compiler.file_states import state
from glow_compiler.open_inputs import OpenModel, Settled, settled

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.program_source import ProgramSource, Signature

Shapes = Mapping[str, Sequence[int]]
_MOST = 64
"""Elements of an input whose contents may decide what graph a model is."""


def settle(model: Any, shapes: Shapes | None = None, values: Mapping[str, Any] | None = None) -> Settled:
    """Shapes for the inputs of a model (as `glow.compile` takes it), where `shapes` (by input or dimension)
    and the arrays of `values` leave some open, and contents for the inputs that decide what graph it is.

    BindingError with all open inputs where no sizes are found that the graph takes.
    """
    given, arrays = dict(shapes or {}), {n: np.asarray(v) for n, v in (values or {}).items()}
    note = _note(model, given, arrays)
    from glow_backends.base import get_backend

    backend = get_backend("cpu")
    known = None if note is None else _read(backend.recall_note(note), arrays)
    if known is not None:
        return known
    name = str(model) if isinstance(model, str | Path) else ""
    made = settle_source(source_of(model, given), name, given, arrays)
    if note is not None:
        backend.remember_note(note, _written(made))
    return made


def settle_source(
    source: ProgramSource,
    name: str,
    shapes: Shapes,
    values: Mapping[str, Array],
    inputs: Sequence[Signature] = (),
) -> Settled:
    """`settle` for the programs of a model."""
    taken = list(inputs or source.inputs)
    decisive = [n for n in source.value_inputs if n not in source.cache_counts]
    small = {n: v for n, v in values.items() if n not in decisive or v.size <= _MOST}
    plain = OpenModel(name or "the model", taken, source.accept, decisive)
    if not plain.opens(shapes, small):
        return settled(plain, shapes, small)
    implied = source.implied()
    limits = {s.name: (s.least * s.divisor, s.most * s.divisor, s.divisor) for s in source.symbols}
    whole = OpenModel(
        plain.name,
        taken,
        source.accept,
        decisive,
        implied.numbers,
        implied.sizes,
        limits,
        source.known_shapes(),
    )
    return settled(whole, shapes, small)


def source_of(model: Any, shapes: Shapes) -> ProgramSource:
    """The programs of a model, none of them compiled."""
    from glow_backends.base import get_backend
    from glow_compiler.api import is_saved, load_graph, onnx_programs, parsed, trusted
    from glow_compiler.module_programs import ModulePrograms
    from glow_dialects.core.file_kinds import FileKind, is_kind
    from glow_runtime.compiler import Compiler

    if is_saved(model):
        from glow_runtime.load_program import load_program

        return load_program(trusted(model))._source
    compiler, model = Compiler(get_backend("cpu")), parsed(model)
    if is_kind(model, FileKind.ONNX) or hasattr(getattr(model, "graph", None), "initializer"):
        return onnx_programs(model, compiler, shapes)
    text = is_kind(model, FileKind.TEXT)
    return ModulePrograms(Path(model) if text else load_graph(model), compiler, None)


# --- what is remembered ------------------------------------------------------------------------
def _note(model: Any, shapes: Shapes, values: Mapping[str, Array]) -> str | None:
    """The key of what was settled for a file; None for what cannot be remembered."""
    path = Path(model) if isinstance(model, str | Path) else None
    if path is None or not path.is_file() or not unchanged(path):
        return None
    told = (
        [(n, [*s]) for n, s in sorted(shapes.items())],
        [
            (n, v.shape, str(v.dtype), v.tolist() if v.size <= _MOST else "")
            for n, v in sorted(values.items())
        ],
    )
    return f"settled {state(path)} {told}"


def _written(made: Settled) -> str:
    values = {n: (str(v.dtype), v.tolist()) for n, v in made.values.items()}
    return json.dumps({"shapes": made.shapes, "values": values, "chosen": made.chosen})


def _read(text: str | None, given: Mapping[str, Array]) -> Settled | None:
    if text is None:
        return None
    try:
        made = json.loads(text)
        values = {n: np.array(v, dtype) for n, (dtype, v) in made["values"].items()}
        shapes = {n: tuple(s) for n, s in made["shapes"].items()}
        return Settled(
            shapes, {**values, **{n: given[n] for n in values if n in given}}, tuple(made["chosen"])
        )
    except (ValueError, KeyError, TypeError):
        return None
