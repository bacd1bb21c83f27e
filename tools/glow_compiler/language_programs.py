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


class _Caches:
    """Caches of one capacity, and the programs on them."""

    def __init__(self, capacity: int, most: int) -> None:
        self.capacity, self.most = capacity, most
        self.state: dict[str, Array] = {}
        self.programs: dict[Form, Program] = {}
        self.bound: dict[Form, Bound] = {}


class LanguagePrograms(SlotPrograms):
    """The programs of a decoder of ours.

    `capacity` places for each of `sequences` texts; both grow when more is asked for, but a capacity that
    was given does not. Where long texts have other rotary positions these have caches of their own, so that
    a text gets what it gets alone.
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
        #: Tokens of the longest text that is short; 0: all have the same rotary positions.
        self._short = files.decoder.short_places
        first = min(capacity or FIRST_CAPACITY, files.decoder.places)
        self._caches = [_Caches(first, files.decoder.places)]
        if self._short:
            least = min(self._short + _STEP, files.decoder.places)
            self._caches = [
                _Caches(min(first, self._short), self._short),
                _Caches(max(first, least), files.decoder.places),
            ]

    @property
    def capacity(self) -> int:
        """Places of the caches of short texts."""
        return self._caches[0].capacity

    @property
    def programs(self) -> dict[Form, Program]:
        """All programs there are."""
        return {form: program for caches in self._caches for form, program in caches.programs.items()}

    # --- texts --------------------------------------------------------------------------------------
    def _advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int
    ) -> list[Array | None]:
        made: list[Array | None] = [None] * len(texts)
        for text, slot in zip(texts, slots, strict=True):
            self._use(text, slot)
        left = [len(t) - len(self.slots[s].tokens) for t, s in zip(texts, slots, strict=True)]
        steps = [i for i, count in enumerate(left) if count == 1]
        for kind in range(len(self._caches)):
            some = [i for i in steps if self.slots[slots[i]].kind == kind]
            if len(some) > 1:
                rows = self._together([texts[i] for i in some], [slots[i] for i in some])
                for i, row in zip(some, rows, strict=True):
                    made[i] = row
                steps = [i for i in steps if i not in some]
        reads = [i for i, count in enumerate(left) if count > 1][:prompts]
        for i in steps + reads:
            count = _piece(left[i])
            row = self._run(texts[i][-left[i] :][:count], slots[i])[0]
            made[i] = row if count == left[i] else None
        return made

    def _every(self, text: Sequence[int], slot: int) -> Array:
        self._use(text, slot)
        rows = [self._run(text[i : i + 128], slot, every=True) for i in range(0, len(text), 128)]
        return np.concatenate(rows)

    def _use(self, text: Sequence[int], slot: int) -> None:
        """Have a slot in the caches for texts of a length, and room there."""
        kind = int(bool(self._short) and len(text) > self._short)
        if self.slots[slot].kind != kind:
            self.slots[slot].kind = kind
            self.slots[slot].tokens.clear()  # keys of other rotary positions are not taken over
        self._grow(self._caches[kind], len(text))

    def prepare(self, sequences: int) -> None:
        """Have all programs for so many texts that go on together, before they are asked for."""
        with self._lock:
            self._make_room(1, sequences)
            caches = self._caches[0]
            for size in (1, *reversed(CHUNKS)):
                self._program(caches, self._form(caches, 1, size))
            for batch in sorted({_batch(n) for n in range(2, sequences + 1)}):
                self._program(caches, self._form(caches, batch, 1))

    def _run(self, tokens: Sequence[int], slot: int, every: bool = False) -> Array:
        """One call for the next tokens of a slot."""
        count = len(tokens)
        size = 1 if count == 1 else next(c for c in reversed(CHUNKS) if count <= c)
        caches = self._caches[self.slots[slot].kind]
        bound = self._program(caches, self._form(caches, 1, size, every))
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
        caches = self._caches[self.slots[slots[0]].kind]
        bound = self._program(caches, self._form(caches, batch, 1))
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
    def _form(self, caches: _Caches, batch: int, tokens: int, every: bool = False) -> Form:
        from glow_frontends.language import Form

        return Form(batch, tokens, len(self.slots), caches.capacity, every, self.rounded)

    def _program(self, caches: _Caches, form: Form) -> Bound:
        """The program of a form on caches, compiled when it is first asked for."""
        if form not in caches.bound:
            from glow_frontends.language import decoder_graph
            from glow_runtime.compile import compile_module

            program = compile_module(decoder_graph(self.files, form).module, self.backend, own=True)
            if not caches.state:
                caches.state = program.new_state()
            program.use_state(caches.state)
            empty = {p.name: np.zeros(p.shape, p.dtype) for p in program.inputs}
            caches.programs[form], caches.bound[form] = program, program.bind(empty)
        return caches.bound[form]

    def _make_room(self, length: int, sequences: int) -> None:
        self.check_length(length)
        if sequences > len(self.slots):
            self.slots += [Slot() for _ in range(sequences - len(self.slots))]
            for caches in self._caches:
                self._renew(caches)

    def _grow(self, caches: _Caches, length: int) -> None:
        """Have room in caches for a text of a length."""
        if length > caches.capacity:
            caches.capacity = min(caches.most, max(2 * caches.capacity, -(-length // _STEP) * _STEP))
            self._renew(caches)

    def _renew(self, caches: _Caches) -> None:
        """Programs and caches of the capacity and slots that there are now, with what the old ones held."""
        kept, old = [f for f in caches.programs if f.batch == 1 and not f.every], caches.state
        caches.programs, caches.bound, caches.state = {}, {}, {}
        for form in kept:
            self._program(caches, replace(form, sequences=len(self.slots), capacity=caches.capacity))
        for name, array in old.items():
            if caches.state:
                caches.state[name][: len(array), :, : array.shape[2]] = array
        if old and not caches.state:
            for slot in self.slots:
                if self._caches[slot.kind] is caches:
                    slot.tokens.clear()


def _batch(texts: int) -> int:
    """Texts of the program that so many share: few programs serve any number."""
    return 1 << (texts - 1).bit_length()


def _piece(rest: int) -> int:
    """How many of the tokens that are left go together."""
    large, small = CHUNKS
    return min(rest, large if rest > large // 2 else small)
