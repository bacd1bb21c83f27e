"""The key of a specialised program: the forms of run-time values, and the contents of a few."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.onnx.values import AnyValue, MapValue, NoneValue, SequenceValue


class TensorForm(NamedTuple):
    """A tensor of numbers of which the shape is known."""

    shape: tuple[int, ...]
    dtype: np.dtype


class KnownForm(NamedTuple):
    """An array of which the contents are known."""

    shape: tuple[int, ...]
    dtype: np.dtype
    content: Hashable


class SequenceForm(NamedTuple):
    """A sequence of which the length is known."""

    items: tuple[Form, ...]
    dtype: np.dtype | None


class OtherForm(NamedTuple):
    """An empty optional, or a value of the host: strings and maps."""

    kind: str


Form: TypeAlias = TensorForm | KnownForm | SequenceForm | OtherForm
#: Larger arrays are told apart by identity.
COMPARED_BYTES = 1 << 12
NONE, STRINGS, MAP = (OtherForm(kind) for kind in ("none", "strings", "map"))


def form_of(value: AnyValue, known: bool = False) -> Form:
    """The form of a run-time value, of which the contents may be `known`."""
    if isinstance(value, np.ndarray):
        if known:
            return known_form(value)
        return STRINGS if value.dtype == object else TensorForm(value.shape, value.dtype)
    if isinstance(value, SequenceValue):
        return SequenceForm(tuple(form_of(item) for item in value.items), value.dtype)
    if isinstance(value, NoneValue):
        return NONE
    assert isinstance(value, MapValue)
    return MAP


class _Same:
    """An array as itself: comparing the contents of large ones would cost too much."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.array is self.array


def known_form(array: Array) -> KnownForm:
    """The form of an array of known contents."""
    content: Hashable = array.tobytes() if array.nbytes <= COMPARED_BYTES else _Same(array)
    if array.dtype == object:
        content = tuple(array.reshape(-1))
    return KnownForm(array.shape, array.dtype, content)
