"""Checkpoints: every state of a training, in one safetensors file that is replaced as a whole.

A checkpoint belongs to a training: its file describes the graph, the loss and the optimiser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError, safe_open

from glow_compiler.graph_structure import difference
from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import whole
from glow_dialects.core.name_patterns import selected
from glow_dialects.core.types import Array
from glow_runtime.weights import check_digest, save_arrays

_KEY = "glow.training"
_NUMBERS = ("steps", "epoch", "position", "seed")


@dataclass(frozen=True)
class Belonging:
    """The training of a checkpoint: numbers such as rates and decays may change from run to run.

    `graph` are the lines of `structure.lines_of`, `batch` the samples of a step.
    """

    loss: str
    optimizer: str
    batch: int
    graph: list[str]

    def problems(self, there: Mapping[str, Any]) -> list[str]:
        """The differences to a checkpoint's training, which is the fields of another one of these."""
        if not all(field in there for field in asdict(self)):
            return ["it does not tell its graph"]
        problems = [
            f"the {what} is {there[what]} there, {here} here"
            for what, here in (("loss", self.loss), ("optimizer", self.optimizer))
            if there[what] != here
        ]
        graph = difference(there["graph"], self.graph, (there["batch"], self.batch))
        return problems if graph is None else [*problems, graph]


def write(path: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any], belonging: Belonging) -> None:
    """Write arrays and JSON-able facts; an older file stays whole until the new one is."""
    plain = {n: np.asarray(a, order="C") for n, a in arrays.items()}
    text = json.dumps({**facts, "belonging": asdict(belonging)})
    with whole(path) as aside:
        save_arrays(plain, aside, {_KEY: text})


def read(
    path: Path, expected: Mapping[str, Array], belonging: Belonging
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and facts of a checkpoint; GlowError where it is none, or of another training."""
    arrays, facts = _opened(path)
    if facts is None:
        raise GlowError(f"{path}: not a checkpoint: it has no training state")
    problems = belonging.problems(facts.get("belonging", {}))
    problems += [f"'{n}' is missing" for n in expected if n not in arrays]
    problems += [f"'{n}' is unknown here" for n in arrays if n not in expected]
    problems += [p for n, a in arrays.items() if n in expected and (p := _unlike(n, a, expected[n]))]
    if problems:
        more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise GlowError(
            f"{path}: a checkpoint of another training: {'; '.join(problems[:4])}{more}; "
            "Trainer.load_weights takes the weights alone"
        )
    return arrays, facts


def read_weights(
    path: Path, expected: Mapping[str, Array], names: Mapping[str, str], patterns: Sequence[str]
) -> dict[str, Array]:
    """The arrays of any safetensors file for what is expected, if a pattern matches its public name.

    `names` are the public ones by symbol: checkpoints have symbols, other files the model's names.
    GlowError where a pattern matches nothing here, or the file lacks what it matches.
    """
    arrays, _ = _opened(path)
    chosen = set(selected(list(names.values()), patterns))
    states: dict[str, Array] = {}
    problems: list[str] = []
    for symbol, name in names.items():
        if name in chosen:
            array = arrays.get(symbol, arrays.get(name))
            if array is None:
                problems.append(f"'{name}' is missing")
            elif problem := _unlike(name, array, expected[symbol]):
                problems.append(problem)
            else:
                states[symbol] = array
    if problems:
        raise GlowError(f"{path}: {'; '.join(problems[:4])}; names=[...] says which weights to take")
    return states


def _opened(path: Path) -> tuple[dict[str, Array], dict[str, Any] | None]:
    """The arrays of a file, and the facts of a checkpoint."""
    if not path.exists():
        raise GlowError(f"no such checkpoint: {path}")
    try:
        opened: Any = safe_open(str(path), framework="numpy")
        with opened as file:
            texts: dict[str, str] = file.metadata() or {}
            arrays: dict[str, Array] = {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
        check_digest(arrays, texts)
        text = texts.get(_KEY)
    except (SafetensorError, OSError, ValueError) as error:
        raise GlowError(f"{path}: not a checkpoint: {error}") from None
    return arrays, None if text is None else _facts(path, text)


def _facts(path: Path, text: str) -> dict[str, Any]:
    """The facts of a checkpoint; GlowError where they are not of the types that `write` writes."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise GlowError(f"{path}: not a checkpoint: its training state is not an object of JSON")
    found = cast(dict[str, Any], facts)
    wrong = [n for n in _NUMBERS if type(found.get(n)) is not int or not 0 <= found[n] < 1 << 63]
    wrong += [f"belonging.{n}" for n in _ill_typed(found.get("belonging", {}))]
    if wrong:
        raise GlowError(f"{path}: not a checkpoint: its {', '.join(wrong)} cannot be read")
    return found


def _ill_typed(belonging: Any) -> list[str]:
    """Fields of a `Belonging` that hold something else; those that are not there are told later."""
    if not isinstance(belonging, dict):
        return ["fields"]
    there = cast(dict[str, Any], belonging)
    kinds = {"loss": str, "optimizer": str, "batch": int, "graph": list}
    wrong = [n for n, kind in kinds.items() if n in there and type(there[n]) is not kind]
    lines = there.get("graph", [])
    return wrong or ([] if all(isinstance(line, str) for line in lines) else ["graph"])


def _unlike(name: str, array: Array, here: Array) -> str | None:
    if (here.shape, here.dtype) == (array.shape, array.dtype):
        return None
    return f"'{name}' is {array.dtype}{list(array.shape)} there, here {here.dtype}{list(here.shape)}"
