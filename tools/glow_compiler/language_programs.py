"""The programs of a language model and the caches that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Backend, Bound, Program
from glow_compiler.language_slots import Slot, SlotPrograms
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language import Form, LanguageFiles

CHUNKS = (128, 16)
"""Tokens of a prompt that a program takes at once."""
FIRST_CAPACITY = 1024
"""Places of the caches, until a text is longer."""
_STEP = 64
"""Capacities are multiples of it."""


class LanguagePrograms(SlotPrograms):
    """The programs of a decoder of ours.

    `capacity` places for each of `sequences` texts; both grow when more is asked for, but a capacity that
    was given does not.
    """

    def __init__(
        self,
        files: LanguageFiles,
        backend: Backend,
        capacity: int | None = None,
        sequences: int = 1,
        rounded: bool = True,
    ) -> None:
        super().__init__(files, sequences, capacity)
        self.backend, self.rounded = backend, rounded
        first = files.decoder.short_places or FIRST_CAPACITY
        self.capacity = min(capacity or min(FIRST_CAPACITY, first), files.decoder.places)
        self.state: dict[str, Array] = {}
        self.programs: dict[Form, Program] = {}
        self._bound: dict[Form, Bound] = {}

    # --- texts --------------------------------------------------------------------------------------
    def _advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int
    ) -> list[Array | None]:
        made: list[Array | None] = [None] * len(texts)
        left = [len(t) - len(self.slots[s].tokens) for t, s in zip(texts, slots, strict=True)]
        steps = [i for i, count in enumerate(left) if count == 1]
        if len(steps) > 1:
            rows = self._together([texts[i] for i in steps], [slots[i] for i in steps])
            for i, row in zip(steps, rows, strict=True):
                made[i] = row
            steps = []
        reads = [i for i, count in enumerate(left) if count > 1][:prompts]
        for i in steps + reads:
            count = _piece(left[i])
            row = self._run(texts[i][-left[i] :][:count], slots[i])[0]
            made[i] = row if count == left[i] else None
        return made

    def _every(self, text: Sequence[int], slot: int) -> Array:
        rows = [self._run(text[i : i + 128], slot, every=True) for i in range(0, len(text), 128)]
        return np.concatenate(rows)

    def prepare(self, sequences: int) -> None:
        """Have all programs for so many texts that go on together, before they are asked for."""
        with self._lock:
            self._make_room(1, sequences)
            for size in (1, *reversed(CHUNKS)):
                self._program(self._form(1, size))
            for batch in sorted({_batch(n) for n in range(2, sequences + 1)}):
                self._program(self._form(batch, 1))

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
        """The last tokens of several texts in one call; rows that are left over have no sequence."""
        batch = _batch(len(texts))
        bound = self._program(self._form(batch, 1))
        inputs = bound.inputs
        rest = batch - len(texts)
        inputs["tokens"][:, 0] = [text[-1] for text in texts] + [0] * rest
        inputs["slots"][:] = [*slots, *[-1] * rest]
        inputs["starts"][:] = [len(text) - 1 for text in texts] + [0] * rest
        inputs["last"][:] = 0
        made = bound()["logits"][: len(texts)].copy()
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

    def _make_room(self, length: int, sequences: int) -> None:
        places, short = self.files.decoder.places, self.files.decoder.short_places
        self.check_length(length)
        capacity, sequences = self.capacity, max(sequences, len(self.slots))
        if length > capacity:
            most = short if length <= short else places
            capacity = min(most, max(2 * capacity, -(-length // _STEP) * _STEP))
        if (capacity, sequences) == (self.capacity, len(self.slots)):
            return
        forms, old = list(self.programs), self.state
        kept = [f for f in forms if f.batch == 1 and not f.every]
        # Keys of other rotary positions are not taken over.
        same = not self.capacity <= short < capacity
        self.capacity = capacity
        self.slots += [Slot() for _ in range(sequences - len(self.slots))]
        self.programs, self._bound, self.state = {}, {}, {}
        for form in kept:
            self._program(replace(form, sequences=sequences, capacity=capacity))
        for name, array in old.items():
            if self.state and same:
                self.state[name][: len(array), :, : array.shape[2]] = array
        if not (self.state and same):
            for slot in self.slots:
                slot.tokens.clear()


def _batch(texts: int) -> int:
    """Texts of the program that so many share: few programs serve any number."""
    return 1 << (texts - 1).bit_length()


def _piece(rest: int) -> int:
    """How many of the tokens that are left go together."""
    large, small = CHUNKS
    return min(rest, large if rest > large // 2 else small)
