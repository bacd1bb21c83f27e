"""Decoders as ONNX models: what their inputs and outputs are for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.state_names import next_name
from glow_frontends.language.decoder import Decoder, LanguageFiles

_CACHING = "GroupQueryAttention"
_LENGTHS, _TOTAL = 5, 6
"""Inputs of GroupQueryAttention: lengths less one, the longest of them."""


@dataclass(frozen=True)
class Past:
    """Keys or values of earlier tokens, [1, heads, tokens, features]: an input and the output after it."""

    input: str
    output: str
    shape: tuple[int, int]
    dtype: str


@dataclass(frozen=True)
class OnnxDecoder:
    """The names of a decoder's inputs and outputs; None where it has no such."""

    path: str
    tokens: str
    logits: str
    pasts: tuple[Past, ...]
    mask: str | None = None
    positions: str | None = None
    lengths: str | None = None
    total: str | None = None


def read_onnx_decoder(path: Path) -> tuple[LanguageFiles, OnnxDecoder]:
    """A decoder with past keys and values as inputs and present ones as outputs.

    Settings and tokenizer are those of the files beside it. UnsupportedError for other models.
    """
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (OSError, ValueError) as error:
        raise GlowError(f"{path}: {error}") from None
    except Exception as error:  # protobuf's own, whose class depends on its version
        raise GlowError(f"{path}: this is no ONNX model: {error}") from None
    decoder = _ports(path, model.graph)
    return _files(path, model.graph, decoder), decoder


def _ports(path: Path, graph: Any) -> OnnxDecoder:
    constants = {t.name for t in graph.initializer}
    inputs = {v.name: v for v in graph.input if v.name not in constants}
    outputs = [v.name for v in graph.output]
    caching = next((n for n in graph.node if n.op_type == _CACHING), None)
    numbers = {
        at: caching.input[at]
        for at in (_LENGTHS, _TOTAL)
        if caching is not None and len(caching.input) > at and caching.input[at] in inputs
    }
    left = [n for n in inputs if n not in numbers.values()]
    mask = next((n for n in left if "mask" in n), None)
    positions = next((n for n in left if "position" in n), None)
    held = [n for n in left if n not in (mask, positions) and _rank(inputs[n]) == 4]
    words = [n for n in left if n not in (mask, positions, *held)]
    present = [n for n in outputs if _rank(next(v for v in graph.output if v.name == n)) == 4]
    logits = [n for n in outputs if n not in present]
    if len(words) != 1 or not logits or len(held) != len(present) or not held:
        raise UnsupportedError(
            f"{path}: inputs {', '.join(inputs)} and outputs {', '.join(outputs)}; a decoder needs "
            "tokens and past keys and values as inputs, and logits and present keys and values as "
            "outputs"
        )
    pasts = [_past(path, inputs[n], _follower(n, held, present)) for n in held]
    first = "logits" if "logits" in logits else logits[0]
    return OnnxDecoder(
        str(path), words[0], first, tuple(pasts), mask, positions, numbers.get(_LENGTHS), numbers.get(_TOTAL)
    )


def _rank(value: Any) -> int:
    return len(value.type.tensor_type.shape.dim)


def _follower(name: str, held: list[str], present: list[str]) -> str:
    """The output that is the next call's input: by its name, or else by its place."""
    return next_name(name, present) or present[held.index(name)]


def _past(path: Path, value: Any, output: str) -> Past:
    kind = value.type.tensor_type
    _, heads, _, features = (d.dim_value for d in kind.shape.dim)
    if not heads or not features:
        raise UnsupportedError(f"{path}: input '{value.name}': heads and features must be numbers")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return Past(value.name, output, (heads, features), dtype.name)


def _files(path: Path, graph: Any, ports: OnnxDecoder) -> LanguageFiles:
    """What the model and the files beside it say."""
    from glow_frontends.language.huggingface import texts_beside

    config = _json(path.parent / "config.json")
    genai = _json(path.parent / "genai_config.json").get("model", {})
    logits = next(v for v in graph.output if v.name == ports.logits).type.tensor_type.shape.dim
    vocabulary = logits[-1].dim_value or config.get("vocab_size") or genai.get("vocab_size") or 0
    if not vocabulary:
        raise UnsupportedError(
            f"{path}: how many tokens there are is neither said by the logits nor config.json"
        )
    heads, features = ports.pasts[0].shape
    places = config.get("max_position_embeddings") or genai.get("context_length") or _table_rows(graph)
    decoder = Decoder(
        vocabulary=int(vocabulary),
        width=int(config.get("hidden_size", 0)),
        layers=len(ports.pasts) // 2,
        heads=int(config.get("num_attention_heads", heads)),
        shared=heads,
        head=features,
        hidden=int(config.get("intermediate_size", 0)),
        places=int(places),
        epsilon=0.0,
    )
    ends = config.get("eos_token_id", genai.get("eos_token_id"))
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return LanguageFiles(str(path), decoder, {}, tuple(ends), **texts_beside(path.parent))


_UNKNOWN = 1 << 20
"""Places of a model that does not say how many there are."""


def _table_rows(graph: Any) -> int:
    """Places by the table of cosines that attention reads."""
    node = next((n for n in graph.node if n.op_type == _CACHING and len(n.input) > 7), None)
    rows = [t.dims[0] for t in graph.initializer if node is not None and t.name == node.input[7]]
    return next(iter(rows), _UNKNOWN)


def _json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError as error:
        raise GlowError(f"{file}: this is not JSON: {error}") from None
