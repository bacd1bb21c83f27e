"""Slots: the sequences of the caches of a language model, and which text each of them is for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language import LanguageFiles


@dataclass
class Slot:
    """A sequence of the caches: the tokens whose keys and values are there, and when it was used last."""

    tokens: list[int] = field(default_factory=list[int])
    used: int = 0
    #: Which caches these are in, where there are several.
    kind: int = 0
    #: Whether a text that goes on has it for itself.
    held: bool = False


class SlotPrograms(ABC):
    """Logits after texts: what the slots hold of a text is not computed again.

    May be called from several threads; calls wait for each other.
    """

    def __init__(self, files: LanguageFiles, sequences: int, capacity: int | None) -> None:
        if capacity is not None and not capacity > 0:
            raise GlowError(f"capacity={capacity}: expected a number of tokens")
        self.files, self._chosen = files, capacity
        self.slots = [Slot() for _ in range(sequences)]
        self._lock = threading.RLock()

    @property
    def limit(self) -> int:
        """Tokens of the longest text that there can be room for."""
        places = self.files.decoder.places
        return min(places, self._chosen or places)

    def logits(self, texts: Sequence[Sequence[int]]) -> Array:
        """The logits [texts, vocabulary] of the token after each text; GlowError for tokens out of range."""
        with self._lock:
            self._check(texts)
            slots = choose_slots(self._free(), texts)
            rows: dict[int, Array] = {}
            while left := [i for i in range(len(texts)) if i not in rows]:
                made = self._advance([texts[i] for i in left], [slots[i] for i in left], len(left))
                rows |= {i: row for i, row in zip(left, made, strict=True) if row is not None}
            return np.stack([rows[i] for i in range(len(texts))])

    def every(self, text: Sequence[int]) -> Array:
        """The logits after each token of a text, [tokens, vocabulary]."""
        with self._lock:
            self._check([text])
            (slot,) = choose_slots(self._free(), [text])
            self.slots[slot].tokens.clear()
            return self._every(text, slot)

    def forget(self) -> None:
        """Let the slots hold nothing of earlier texts."""
        with self._lock:
            for slot in self.slots:
                slot.tokens.clear()

    # --- texts that go on -----------------------------------------------------------------------
    def take(self, text: Sequence[int]) -> int:
        """A slot that is this text's alone until `give_back`; GlowError as for `logits`."""
        with self._lock:
            self._check([text])
            (slot,) = choose_slots(self._free(), [text])
            self.slots[slot].held = True
            return slot

    def give_back(self, slot: int) -> None:
        """Let other texts have a slot that was taken; what it holds stays until then."""
        with self._lock:
            self.slots[slot].held = False

    def advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int = 1
    ) -> list[Array | None]:
        """The logits [vocabulary] after each text, in the slots that were taken for them.

        Texts of which one token is new go together. Of the others the first `prompts` are read on by one
        call each; what has tokens left then is answered with None. GlowError where one is too long.
        """
        with self._lock:
            self._make_room(max(map(len, texts)), len(self.slots))
            return self._advance(texts, slots, prompts)

    # --- what differs ---------------------------------------------------------------------------
    @abstractmethod
    def _advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int
    ) -> list[Array | None]:
        """`advance`, where there is room."""

    @abstractmethod
    def _every(self, text: Sequence[int], slot: int) -> Array:
        """`every`, in an empty slot."""

    @abstractmethod
    def _make_room(self, length: int, sequences: int) -> None:
        """Have `sequences` slots for texts of a length that is not above the limit."""

    def check(self, texts: Sequence[Sequence[int]], more: int = 0) -> int:
        """The tokens of the longest of some texts.

        GlowError where a token is not known, or there cannot be room for `more` tokens behind the texts.
        """
        check_tokens(texts, self.files.decoder.vocabulary)
        longest = max(map(len, texts))
        self.check_length(longest + more)
        return longest

    def _check(self, texts: Sequence[Sequence[int]]) -> None:
        """`check`, and room for the texts."""
        longest = self.check(texts)
        self._make_room(longest, len(texts) + sum(slot.held for slot in self.slots))

    def check_length(self, length: int) -> None:
        """GlowError for texts that are longer than there can be room for."""
        places = self.files.decoder.places
        if length > self.limit:
            chosen = self._chosen is not None and self._chosen < places
            why = f"capacity={self._chosen}" if chosen else f"the model is made for {places}"
            raise GlowError(f"the cache is full: a text of {length} tokens, {why}")

    def _free(self) -> dict[int, Slot]:
        """The slots that no text has for itself."""
        return {i: slot for i, slot in enumerate(self.slots) if not slot.held}


def check_tokens(texts: Sequence[Sequence[int]], count: int) -> None:
    """GlowError where a text is empty, or has tokens that a vocabulary of `count` does not."""
    for text in texts:
        if not text:
            raise GlowError("a text without tokens has no next token; begin with one")
        for token in (min(text), max(text)):
            if not 0 <= token < count:
                raise GlowError(f"token {token} is out of range: the model has {count} tokens")


def choose_slots(free: Mapping[int, Slot], texts: Sequence[Sequence[int]]) -> list[int]:
    """A slot for each text, which then holds the part that it shares with it, without the last token."""
    left = dict(free)
    latest = max(slot.used for slot in left.values())
    chosen: list[int] = []
    for text in texts:
        shared = {i: _shared(slot.tokens, text) for i, slot in left.items()}
        best = max(left, key=lambda i: (shared[i] - len(left[i].tokens) // 2, -left[i].used))
        slot = left.pop(best)
        slot.used = latest + 1
        del slot.tokens[min(shared[best], len(text) - 1) :]
        chosen.append(best)
    return chosen


def _shared(held: Sequence[int], text: Sequence[int]) -> int:
    """How many first tokens two texts share."""
    if len(held) < len(text) and list(text[: len(held)]) == held:
        return len(held)
    pairs = zip(held, text, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(held), len(text)))
