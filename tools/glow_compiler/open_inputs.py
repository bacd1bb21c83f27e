"""Sizes for what a model leaves open: those of batches are 1, others such as its graph takes."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.errors import BindingError, GlowError, ShapeError
from glow_dialects.core.symbols import parse_size

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.program_source import Signature

Dims = dict[str, tuple[int, ...]]

_BATCH = re.compile(r"batch|^(bs|bsz)$", re.IGNORECASE)
_IMAGE = re.compile(r"height|width|^(h|w)$", re.IGNORECASE)
#: What is tried, in order. Images: sides that 32 divides, 48 (lines of text), 299 (Inception) and others.
_SIZES = {
    "batch": (1, 2, 4, 8, 3, 16, 32),
    "channel": (3, 1, 4, 2, 64),
    "image": (224, 320, 48, 32, 640, 256, 64, 512, 128, 299, 28, 416, 384, 112, 96, 1024),
    "volume": (32, 16, 64, 8, 128, 96),
    "signal": (512, 16000, 1024, 256, 576, 128, 64, 8, 32, 2048, 4096, 8192, 32000, 48000, 1, 2, 4, 16),
    "sequence": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16000, 32000, 1, 2, 3, 4, 5, 6, 7),
}
#: Shapes of an input of which the model does not even say the rank.
_RANKS = ((1, 8), (1, 3, 224, 224), (8,), (), (1, 8, 8), (1, 1, 28, 28), (1, 1), (1,))
#: Combinations that are tried, seconds that this may take, and elements of one input at most.
TRIED, SECONDS, LARGEST = 400, 15.0, 1 << 26
#: Attempts that end with one and the same error: then sizes are not what is wrong.
_SAME = 12


@dataclass(frozen=True)
class OpenModel:
    """What must be known of a model to choose its sizes.

    `check` raises a GlowError where the graph does not take inputs of some shapes (and of some contents, for
    `decisive` inputs: those whose contents decide what graph it is). `numbers` are what such inputs are
    compared with, `implied` the sizes that inputs meet in the graph.
    """

    name: str
    inputs: Sequence[Signature]
    check: Callable[[Dims, dict[str, Array]], object]
    decisive: Sequence[str] = ()
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    implied: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    #: Least and largest size and divisor, by the names of open sizes.
    limits: Mapping[str, tuple[int, float, int]] = field(default_factory=dict[str, tuple[int, float, int]])
    #: Shapes that it is known for already.
    examples: Sequence[Dims] = ()

    def opens(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Array]) -> bool:
        """Whether it leaves something open beside given shapes and contents."""
        return bool(_Search(self, _given(shapes, values), values).unknown)


@dataclass(frozen=True)
class Settled:
    """The shapes of all inputs, and contents of those that decide; `chosen` says what was not given."""

    shapes: Dims
    values: dict[str, Array]
    chosen: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """One line that says what was chosen, empty where all was given."""
        if not self.chosen:
            return ""
        return f"the model leaves sizes open, which are taken as {' '.join(self.chosen)}"


def settled(model: OpenModel, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Array]) -> Settled:
    """The shapes of a model's inputs, where `shapes` (by input or size) and `values` do not say all.

    BindingError with every open input where none of the sizes that are tried fit.
    """
    search = _Search(model, _given(shapes, values), values)
    if not search.unknown:
        search.refuse_others()
        return Settled(search.shapes({}), dict(search.known))
    search.refuse_others()
    return search.found()


def _given(shapes: Mapping[str, Sequence[int]], values: Mapping[str, Array]) -> Dims:
    """The shapes that are said, by input or dimension."""
    return {**{n: np.shape(v) for n, v in values.items()}, **{n: tuple(s) for n, s in shapes.items()}}


@dataclass(frozen=True)
class _Unknown:
    """An open size, a shape of any rank, or contents that decide: its name and what is tried."""

    name: str
    kind: str
    tried: tuple[Any, ...]


class _Search:
    """Combinations of sizes, until the graph takes one."""

    def __init__(self, model: OpenModel, given: Dims, values: Mapping[str, Array]) -> None:
        self.model = model
        names = {s.name for s in model.inputs}
        self._fixed = {n: s for n, s in given.items() if n in names}
        self._sizes = {n: s[0] for n, s in given.items() if n not in names and len(s) == 1}
        for s in model.inputs:
            for text, size in zip(s.names, self._fixed.get(s.name, ()), strict=False):
                if text:
                    self._sizes.setdefault(text, size)
        self.known = {n: v for n, v in values.items() if n in model.decisive}
        self._texts = {s.name: self._texts_of(s) for s in model.inputs if s.name not in self._fixed}
        self._plain = {t for texts in self._texts.values() for t in texts if isinstance(t, str)} | {
            *self._sizes
        }
        self._plain |= {*model.limits}
        self.unknown = [*self._open_sizes(), *self._any_ranks(), *self._decisive()]

    @staticmethod
    def _texts_of(s: Signature) -> list[int | str]:
        """The sizes of an input: numbers, and names (its own where the model has none)."""
        names = s.names or ("",) * len(s.shape)
        return [
            (name or f"{s.name}.{axis}") if size is None else size
            for axis, (size, name) in enumerate(zip(s.shape, names, strict=True))
        ]

    # --- what is unknown -----------------------------------------------------------------------
    def _size(self, text: str, sizes: Mapping[str, int]) -> int | None:
        """The size of a text, such as `past + 1`, where what it names is known."""
        if text in sizes:
            return sizes[text]
        try:
            return parse_size(text, sizes.__getitem__)
        except (KeyError, ShapeError):
            return None

    def _names(self, text: str) -> list[str]:
        """The names of open sizes in a text; itself where it is no text of others."""
        met: list[str] = []

        def named(name: str) -> int:
            met.append(name)
            return 1

        try:
            parse_size(text, named)
        except ShapeError:
            return [text]
        return met if met and set(met) <= self._plain else [text]

    def _open_sizes(self) -> Iterator[_Unknown]:
        uses: dict[str, list[tuple[Signature, int]]] = {}
        for s in self.model.inputs:
            for axis, text in enumerate(self._texts.get(s.name, ())):
                if isinstance(text, str) and s.kind == "tensor" and self._size(text, self._sizes) is None:
                    for name in self._names(text):
                        if name not in self._sizes:
                            uses.setdefault(name, []).append((s, axis))
        for name, places in uses.items():
            kind = _kind(name, places)
            least, most, divisor = self.model.limits.get(name, (0, inf, 1))
            implied = [n for s, _ in places for n in self.model.implied.get(s.name, ())]
            tried = [*_SIZES[kind][:7], *implied, *_SIZES[kind][7:]]
            rounded = [max(divisor, -(-n // divisor) * divisor) for n in tried] + [max(least, divisor)]
            fitting = [n for n in dict.fromkeys(rounded) if least <= n <= most]
            yield _Unknown(name, kind, tuple(fitting or [least]))

    def _any_ranks(self) -> Iterator[_Unknown]:
        for s in self.model.inputs:
            if s.kind == "unranked" and s.name not in self._fixed:
                yield _Unknown(s.name, "shape", _RANKS)

    def _decisive(self) -> Iterator[_Unknown]:
        for s in self.model.inputs:
            closed = s.kind == "tensor" and None not in s.shape and prod(d or 0 for d in s.shape) <= 64
            if s.name in self.model.decisive and s.name not in self.known and closed:
                compared = [*self.model.numbers.get(s.name, ())]
                usual = (True, False) if s.dtype.kind == "b" else (1, 8, 0, 2, 16)
                yield _Unknown(s.name, "value", tuple(dict.fromkeys([*compared, *usual])))

    def refuse_others(self) -> None:
        """BindingError with all inputs that are no tensors: no sizes make them one."""
        others = [s.name for s in self.model.inputs if s.kind == "other" and s.name not in self._fixed]
        if others:
            listed = " is not a tensor, input ".join(f"'{name}'" for name in others)
            raise BindingError(
                f"{self.model.name}: input {listed} is not a tensor, but a sequence, an optional or a map; "
                f"give its value in Python: glow.compile(...).run({{...}}){self._listing()}"
            )

    # --- combinations --------------------------------------------------------------------------
    def shapes(self, chosen: Mapping[str, Any]) -> Dims:
        """The shapes of the inputs for some choice."""
        sizes = {**self._sizes, **{n: v for n, v in chosen.items() if isinstance(v, int)}}
        made = dict(self._fixed)
        for s in self.model.inputs:
            if s.name in made or s.kind == "other":
                continue
            if s.kind == "unranked":
                made[s.name] = chosen[s.name]
            else:
                texts = self._texts[s.name]
                made[s.name] = tuple(t if isinstance(t, int) else self._size(t, sizes) or 0 for t in texts)
        return made

    def _values(self, chosen: Mapping[str, Any]) -> dict[str, Array]:
        dtypes = {s.name: (s.shape, s.dtype) for s in self.model.inputs}
        made = dict(self.known)
        for u in self.unknown:
            if u.kind == "value":
                shape, dtype = dtypes[u.name]
                made[u.name] = np.full([d or 0 for d in shape], chosen[u.name]).astype(dtype)
        return made

    def _combinations(self) -> Iterator[dict[str, Any]]:
        """All open sizes larger step by step, batches 1; then every combination, the first of each first."""
        unknown = self.unknown
        longest = max(len(u.tried) for u in unknown)
        for i in range(longest):
            yield {
                u.name: u.tried[0 if u.kind in ("batch", "value") else min(i, len(u.tried) - 1)]
                for u in unknown
            }
        for total in range(1, sum(len(u.tried) for u in unknown)):
            for steps in _summing(total, [len(u.tried) for u in unknown]):
                yield {u.name: u.tried[i] for u, i in zip(unknown, steps, strict=True)}

    def found(self) -> Settled:
        """The first combination that the graph takes."""
        seen, told = set[tuple[Any, ...]](), set[str]()
        failed = 0
        end = time.monotonic() + SECONDS
        first: tuple[dict[str, Any], GlowError] | None = None
        for example in self.model.examples:
            if all(example.get(n, s) == s for n, s in self._fixed.items()) and not self.known:
                return Settled(example, {}, tuple(self._told({}, example)))
        for chosen in itertools.islice(self._combinations(), 20 * TRIED):
            key = tuple(chosen.values())
            shapes = self.shapes(chosen)
            if key in seen or any(prod(s) > LARGEST for s in shapes.values()):
                continue
            seen.add(key)
            values = self._values(chosen)
            try:
                self.model.check(shapes, values)
            except GlowError as error:
                failed += 1
                told.add(str(error))
                first = first or (chosen, error)
                if len(told) == 1 and failed >= min(_SAME, self._count()):
                    raise error from None
            else:
                return Settled(shapes, values, tuple(self._told(chosen, shapes)))
            if len(seen) >= TRIED or time.monotonic() > end:
                break
        assert first is not None
        raise self._refused(*first)

    def _count(self) -> int:
        return prod(len(u.tried) for u in self.unknown)

    def _told(self, chosen: Mapping[str, Any], shapes: Dims) -> Iterator[str]:
        """What was chosen, as options of the commands: sizes by their names, where the model has these."""
        options: dict[str, None] = {}
        named = {n for s in self.model.inputs for n in s.names if n} - {s.name for s in self.model.inputs}
        for s in self.model.inputs:
            open_names = {
                n for t in self._texts.get(s.name, ()) if isinstance(t, str) for n in self._names(t)
            }
            mine = [n for n in open_names if n in chosen] if s.kind == "tensor" else []
            whole = not chosen and bool(open_names)
            if s.kind == "unranked" and s.name in chosen or whole or any(n not in named for n in mine):
                options[f"--shape {quoted(s.name)}={'x'.join(map(str, shapes[s.name]))}"] = None
            else:
                options.update({f"--shape {quoted(n)}={chosen[n]}": None for n in chosen if n in mine})
        yield from options
        for u in self.unknown:
            if u.kind == "value":
                number = chosen[u.name]
                number = int(number) if number == int(number) else number
                yield f"--input {quoted(u.name)}={number}"

    # --- messages ------------------------------------------------------------------------------
    def _listing(self) -> str:
        """The open inputs, a line each."""
        lines = [f"\n  {s.name}: {s.dtype}{s.named_shape}" for s in self.model.inputs if self._is_open(s)]
        return "\nits open inputs are:" + "".join(lines) if lines else ""

    def _is_open(self, s: Signature) -> bool:
        names = {u.name for u in self.unknown if u.kind in ("shape", "value")}
        return s.name in names or (s.name in self._texts and (None in s.shape or s.kind != "tensor"))

    def _refused(self, chosen: Mapping[str, Any], error: GlowError) -> BindingError:
        told = " ".join(self._told(chosen, self.shapes(chosen)))
        reason = str(error).strip().replace("\n", "\n  ")
        return BindingError(
            f"{self.model.name}: give sizes of its open inputs; those that were tried do not fit the graph"
            f"{self._listing()}\nsuch as: {told}\nwith which the graph is refused:\n  {reason}"
        )


def _summing(total: int, lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The tuples of indexes below some lengths that have a sum."""
    if not lengths:
        if total == 0:
            yield ()
        return
    for i in range(min(total, lengths[0] - 1) + 1):
        for rest in _summing(total - i, lengths[1:]):
            yield (i, *rest)


def quoted(name: str) -> str:
    """A name as a shell takes it."""
    import shlex

    return shlex.quote(name)


def _kind(name: str, places: Iterable[tuple[Signature, int]]) -> str:
    """What an open size counts, by its name and where it stands in inputs."""
    at = list(places)
    if _BATCH.search(name):
        return "batch"
    if _IMAGE.search(name):
        return "image"
    if all(axis == 0 for _, axis in at) and (
        name in ("N", "n", "B", "b") or all(len(s.shape) > 1 for s, _ in at)
    ):
        return "batch"
    kinds = {_of_axis(s, axis) for s, axis in at}
    return kinds.pop() if len(kinds) == 1 else "sequence"


def _of_axis(s: Signature, axis: int) -> str:
    """What an axis of an input counts."""
    shape, rank = s.shape, len(s.shape)
    floating = s.dtype.kind not in "iub" or s.dtype == np.uint8
    if rank == 3 and axis == 1 and shape[0] is not None and shape[2] is not None:
        return "batch"  # the state of a recurrent layer: layers x batch x channels
    if rank in (4, 5) and floating:
        channel = rank - 1 if shape[-1] in (1, 3, 4) and shape[1] is None else 1
        spatial = [a for a in range(1, rank) if a != channel]
        if axis in spatial and all(shape[a] is None or (shape[a] or 0) > 8 for a in spatial):
            return "image" if rank == 4 else "volume"
        if axis == channel:
            return "channel"
    if rank == 3 and floating and (shape[0] in (1, 3, 4) or shape[2] in (1, 3, 4)) and shape.count(None) == 2:
        return "image"
    sounds = rank == 2 or (rank == 3 and shape[1] == 1)
    return "signal" if sounds and floating and axis == rank - 1 else "sequence"
