"""Checkpoints: every state of a training, in one safetensors file that is replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import whole
from glow_dialects.core.types import Array
from glow_runtime.weights import save_arrays


def write(path: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write arrays and JSON-able facts; an older file stays whole until the new one is."""
    plain = {n: np.asarray(a, order="C") for n, a in arrays.items()}
    with whole(path) as aside:
        save_arrays(plain, aside, {"glow.training": json.dumps(dict(facts))})


def read(path: Path, expected: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and facts of a checkpoint; GlowError where it is none, or of another graph."""
    if not path.exists():
        raise GlowError(f"no such checkpoint: {path}")
    try:
        opened: Any = safe_open(str(path), framework="numpy")
        with opened as file:
            text: str | None = (file.metadata() or {}).get("glow.training")
            arrays: dict[str, Array] = {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise GlowError(f"{path}: not a checkpoint: {error}") from None
    if text is None:
        raise GlowError(f"{path}: not a checkpoint: it has no training state")
    problems = [f"'{n}' is missing" for n in expected if n not in arrays]
    problems += [f"'{n}' is unknown here" for n in arrays if n not in expected]
    for name, array in arrays.items():
        here = expected.get(name)
        if here is not None and (here.shape, here.dtype) != (array.shape, array.dtype):
            problems.append(
                f"'{name}' is {array.dtype}{list(array.shape)}, here {here.dtype}{list(here.shape)}"
            )
    if problems:
        more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise GlowError(f"{path}: a checkpoint of another training: {'; '.join(problems[:4])}{more}")
    return arrays, json.loads(text)
