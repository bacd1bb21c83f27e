"""The programs of a language model and the caches that they share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Backend, Bound, Program
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language import Form, LanguageFiles

CHUNKS = (128, 16)
"""Tokens of a prompt that a program takes at once."""
FIRST_CAPACITY = 1024
"""Places of the caches, until a text is longer."""
_STEP = 64
"""Capacities are multiples of it."""


@dataclass
class Slot:
    """A sequence of the caches: the tokens whose keys and values are there, and when it was used last."""

    tokens: list[int] = field(default_factory=list[int])
    used: int = 0


class LanguagePrograms:
    """Logits after texts: what the caches hold of a text is not computed again.

    `capacity` places for each of `sequences` texts; both grow when more is asked for, but a capacity that
    was given does not. May be called from several threads; calls wait for each other.
    """

    def __init__(
        self,
        files: LanguageFiles,
        backend: Backend,
        capacity: int | None = None,
        sequences: int = 1,
        rounded: bool = True,
    ) -> None:
        places = files.decoder.places
        if capacity is not None and not capacity > 0:
            raise GlowError(f"capacity={capacity}: expected a number of tokens")
        self.files, self.backend, self.rounded = files, backend, rounded
        self.fixed = capacity is not None
        self.capacity = min(capacity or FIRST_CAPACITY, places)
        self.slots = [Slot() for _ in range(sequences)]
        self.state: dict[str, Array] = {}
        self.programs: dict[Form, Program] = {}
        self._bound: dict[Form, Bound] = {}
        self._lock = threading.RLock()

    # --- texts --------------------------------------------------------------------------------------
    def logits(self, texts: Sequence[Sequence[int]]) -> Array:
        """The logits [texts, vocabulary] of the token after each text; GlowError for tokens out of range."""
        with self._lock:
            self._check(texts)
            slots = choose_slots(self.slots, texts)
            new = [len(t) - len(self.slots[s].tokens) for t, s in zip(texts, slots, strict=True)]
            if len(texts) > 1 and set(new) == {1}:
                return self._together(texts, slots)
            rows = [self._alone(text, slot) for text, slot in zip(texts, slots, strict=True)]
            return np.concatenate(rows)

    def every(self, text: Sequence[int]) -> Array:
        """The logits after each token of a text, [tokens, vocabulary]."""
        with self._lock:
            self._check([text])
            (slot,) = choose_slots(self.slots, [text])
            self.slots[slot].tokens.clear()
            rows = [self._run(text[i : i + 128], slot, every=True) for i in range(0, len(text), 128)]
            return np.concatenate(rows)

    def forget(self) -> None:
        """Let the caches hold nothing of earlier texts."""
        with self._lock:
            for slot in self.slots:
                slot.tokens.clear()

    def _check(self, texts: Sequence[Sequence[int]]) -> None:
        check_tokens(texts, self.files.decoder.vocabulary)
        self._make_room(max(map(len, texts)), len(texts))

    def _alone(self, text: Sequence[int], slot: int) -> Array:
        """The rest of one text, piece by piece."""
        made = np.empty(0)
        while rest := text[len(self.slots[slot].tokens) :]:
            made = self._run(rest[: _piece(len(rest))], slot)
        return made

    def _run(self, tokens: Sequence[int], slot: int, every: bool = False) -> Array:
        """One call for the next tokens of a slot."""
        count = len(tokens)
        size = 1 if count == 1 else next(c for c in reversed(CHUNKS) if count <= c)
        bound = self._program(self._form(1, size, every))
        inputs, state = bound.inputs, self.slots[slot]
        inputs["tokens"][0, :count] = tokens
        inputs["tokens"][0, count:] = 0
        inputs["slots"][0], inputs["starts"][0] = slot, len(state.tokens)
        if not every:
            inputs["last"][0] = count - 1
        made = bound()["logits"][:count].copy()
        state.tokens.extend(tokens)
        return made

    def _together(self, texts: Sequence[Sequence[int]], slots: Sequence[int]) -> Array:
        """The last tokens of several texts in one call."""
        bound = self._program(self._form(len(texts), 1))
        inputs = bound.inputs
        for row, (text, slot) in enumerate(zip(texts, slots, strict=True)):
            inputs["tokens"][row, 0], inputs["slots"][row] = text[-1], slot
            inputs["starts"][row], inputs["last"][row] = len(text) - 1, 0
        made = bound()["logits"].copy()
        for text, slot in zip(texts, slots, strict=True):
            self.slots[slot].tokens.append(text[-1])
        return made

    # --- programs -----------------------------------------------------------------------------------
    def _form(self, batch: int, tokens: int, every: bool = False) -> Form:
        from glow_frontends.language import Form

        return Form(batch, tokens, len(self.slots), self.capacity, every, self.rounded)

    def _program(self, form: Form) -> Bound:
        """The program of a form on the caches, compiled when it is first asked for."""
        if form not in self._bound:
            from glow_frontends.language import decoder_graph
            from glow_runtime.compile import compile_module

            program = compile_module(decoder_graph(self.files, form).module, self.backend, own=True)
            if not self.state:
                self.state = program.new_state()
            program.use_state(self.state)
            empty = {p.name: np.zeros(p.shape, p.dtype) for p in program.inputs}
            self.programs[form], self._bound[form] = program, program.bind(empty)
        return self._bound[form]

    def _make_room(self, length: int, texts: int) -> None:
        """Let the caches hold texts of a length; GlowError where they are full."""
        places = self.files.decoder.places
        limit = self.capacity if self.fixed else places
        if length > limit:
            raise full(length, self.capacity if self.fixed else None, places)
        capacity, sequences = self.capacity, max(texts, len(self.slots))
        if length > capacity:
            capacity = min(places, max(2 * capacity, -(-length // _STEP) * _STEP))
        if (capacity, sequences) == (self.capacity, len(self.slots)):
            return
        forms, old = list(self.programs), self.state
        kept = [f for f in forms if f.batch == 1 and not f.every]
        self.capacity = capacity
        self.slots += [Slot() for _ in range(sequences - len(self.slots))]
        self.programs, self._bound, self.state = {}, {}, {}
        for form in kept:
            self._program(replace(form, sequences=sequences, capacity=capacity))
        for name, array in old.items():
            if self.state:
                self.state[name][: len(array), :, : array.shape[2]] = array
        if not self.state:
            for slot in self.slots:
                slot.tokens.clear()


def check_tokens(texts: Sequence[Sequence[int]], count: int) -> None:
    """GlowError where a text is empty, or has tokens that a vocabulary of `count` does not."""
    for text in texts:
        if not text:
            raise GlowError("a text without tokens has no next token; begin with one")
        for token in text:
            if not 0 <= token < count:
                raise GlowError(f"token {token} is out of range: the model has {count} tokens")


def choose_slots(slots: Sequence[Slot], texts: Sequence[Sequence[int]]) -> list[int]:
    """A slot for each text, which then holds the part that it shares with it, without the last token."""
    free = dict(enumerate(slots))
    latest = max(slot.used for slot in slots)
    chosen: list[int] = []
    for text in texts:
        shared = {i: _shared(slot.tokens, text) for i, slot in free.items()}
        best = max(free, key=lambda i: (shared[i] - len(free[i].tokens) // 2, -free[i].used))
        slot = free.pop(best)
        slot.used = latest + 1
        del slot.tokens[min(shared[best], len(text) - 1) :]
        chosen.append(best)
    return chosen


def full(length: int, capacity: int | None, places: int) -> GlowError:
    """The error of a text for which there is no room."""
    chosen = capacity is not None and capacity < places
    why = f"capacity={capacity}" if chosen else f"the model is made for {places}"
    return GlowError(f"the cache is full: a text of {length} tokens, {why}")


def _shared(held: Sequence[int], text: Sequence[int]) -> int:
    """How many first tokens two texts share."""
    if len(held) < len(text) and list(text[: len(held)]) == held:
        return len(held)
    pairs = zip(held, text, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(held), len(text)))


def _piece(rest: int) -> int:
    """How many of the tokens that are left go together."""
    large, small = CHUNKS
    return min(rest, large if rest > large // 2 else small)
