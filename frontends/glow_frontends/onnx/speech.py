"""Folders of Whisper models as ONNX files: which file does what, and what their inputs are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from glow_dialects.core.errors import GlowError, UnsupportedError

_BRANCH = "use_cache_branch"
_MERGED, _FIRST, _NEXT = "decoder_model_merged", "decoder_model", "decoder_with_past_model"


@dataclass(frozen=True)
class OnnxListener:
    """The models of a folder. `following` takes past keys and values; None: each call takes all tokens."""

    encoder: onnx.ModelProto
    first: onnx.ModelProto
    following: onnx.ModelProto | None


def read_onnx_listener(place: Path) -> OnnxListener:
    """The ONNX models of a folder, as optimum names them; GlowError for what is missing or damaged."""
    encoder = _model(_file(place, "encoder_model"))
    if merged := _file(place, _MERGED, needed=False):
        model = _model(merged)
        return OnnxListener(encoder, _with_branch(model, False), _with_branch(model, True))
    following = _file(place, _NEXT, needed=False)
    first = _model(_file(place, _FIRST))
    return OnnxListener(encoder, first, None if following is None else _model(following))


def _file(folder: Path, name: str, needed: bool = True) -> Path | None:
    """A model by name; of the rounded forms the first where the plain one is not there."""
    plain = folder / f"{name}.onnx"
    if plain.exists():
        return plain
    taken = tuple(other for other in (_MERGED, _NEXT) if other != name)
    others = [p for p in sorted(folder.glob(f"{name}_*.onnx")) if not p.stem.startswith(taken)]
    if not others and needed:
        raise GlowError(f"{folder}: there is no {name}.onnx, which Whisper's ONNX models need")
    return others[0] if others else None


def _model(path: Path | None) -> onnx.ModelProto:
    assert path is not None
    try:
        return onnx.load(str(path))
    except (OSError, ValueError) as error:
        raise GlowError(f"{path}: {error}") from None
    except Exception as error:  # protobuf's own, whose class depends on its version
        raise GlowError(f"{path}: this is no ONNX model: {error}") from None


def _with_branch(model: onnx.ModelProto, past: bool) -> onnx.ModelProto:
    """One branch of a model for both: with past keys and values, or without."""
    if _BRANCH not in [i.name for i in model.graph.input]:
        raise UnsupportedError(f"{_MERGED}.onnx: it has no input '{_BRANCH}', which chooses its branch")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [i for i in made.graph.input if i.name != _BRANCH]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([past]), _BRANCH))
    return made


def is_of_encoder(name: str) -> bool:
    """Whether keys or values are those of the sound, which stay."""
    return ".encoder." in name


def past_of(present: str) -> str:
    """The input that the next call has for an output."""
    return present.replace("present", "past_key_values", 1)


def written_pasts(model: onnx.ModelProto) -> list[str]:
    """The outputs of a decoder that are keys and values of the text."""
    return [o.name for o in model.graph.output if o.name.startswith("present") and not is_of_encoder(o.name)]
